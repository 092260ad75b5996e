"""Connections to servers that do not behave: what they send is bounded, and no connection is used after a doubt."""

import asyncio
import socket
import struct
import tracemalloc
from typing import Any

import pytest
from tests.kube.conftest import Until
from tests.kube.raw import GET, HELLO, OK, says, says_and_closes, server, transport

from syncline.kube import CONFIGMAPS, Client, Forbidden, connections, session
from syncline.kube.config import Connection
from syncline.kube.errors import ConfigError, Unreachable
from syncline.kube.transport import AnswerTooLarge, Transport


async def test_requests_one_after_the_other_use_one_connection() -> None:
    async with server(says(HELLO)) as seen, transport(seen.url) as line:
        for _ in range(3):
            assert (await line.send("GET", "/x", headers=GET)).body == b"hello"
    assert [len(heads) for heads in seen.heads] == [3]
    assert seen.heads[0][0].startswith("GET /x HTTP/1.1\r\nHost: 127.0.0.1:")


@pytest.mark.parametrize(
    "answer",
    [
        HELLO + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
        OK + b"Content-Length: 5\r\nConnection: close\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    ],
)
async def test_a_connection_that_may_be_out_of_step_is_not_used_again(answer: bytes) -> None:
    async with server(says(answer)) as seen, transport(seen.url) as line:
        for _ in range(3):
            assert (await line.send("GET", "/x", headers=GET)).body == b"hello"
    assert [len(heads) for heads in seen.heads] == [1, 1, 1]


async def test_an_answer_that_nobody_asked_for_closes_its_connection(until: Until) -> None:
    late = asyncio.Event()

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HELLO)
        await late.wait()
        writer.write(OK + b"Content-Length: 4\r\n\r\nevil")

    async with server(talk) as seen, transport(seen.url) as line:
        assert (await line.send("GET", "/x", headers=GET)).body == b"hello"
        late.set()
        await until(lambda: seen.closed == 1)
        assert (await line.send("GET", "/x", headers=GET)).body == b"hello"


async def test_a_connection_that_the_server_closed_is_not_used_again(until: Until) -> None:
    async with server(says_and_closes(HELLO)) as seen, transport(seen.url) as line:
        for number in range(1, 4):
            assert (await line.send("POST", "/x", headers=GET, body=b"")).body == b"hello"
            await until(lambda: seen.closed == number)  # noqa: B023 - it is awaited at once
            await asyncio.to_thread(lambda: None)  # the end of the connection has been read
    assert len(seen.heads) == 3


async def test_an_answer_may_end_with_its_connection() -> None:
    async with server(says_and_closes(OK + b"\r\nhello")) as seen, transport(seen.url) as line:
        assert (await line.send("GET", "/x", headers=GET)).body == b"hello"


async def test_an_answer_does_not_end_with_a_connection_that_breaks() -> None:
    go_on = asyncio.Event()

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"\r\nhello")
        await go_on.wait()
        # Without waiting for anything: this resets the connection.
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async def read(line: Transport) -> None:
        async with line.stream("/x", GET, 30.0) as (_, _, pieces):
            assert await anext(pieces) == b"hello"
            go_on.set()
            await anext(pieces, None)

    async with server(talk) as seen, transport(seen.url) as line:
        with pytest.raises(Unreachable, match="reset"):
            await read(line)


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "answer",
    [b"", OK, OK + b"Content-Length: 9\r\n\r\nhello", OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"],
)
async def test_a_request_whose_answer_is_cut_is_not_repeated(method: str, answer: bytes) -> None:
    async with server(says_and_closes(answer)) as seen, transport(seen.url) as line:
        with pytest.raises(Unreachable, match="broke: closed") as caught:
            await line.send(method, "/x", headers=GET, body=b"{}" if method == "POST" else None)
    assert caught.value.ambiguous == (method == "POST")
    assert [len(heads) for heads in seen.heads] == [1]


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Content-Length: 1001\r\n\r\n",
        OK + b"Content-Length: 1001\r\n\r\n" + b"x" * 1001,
        OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"64\r\n" + b"x" * 100 + b"\r\n",
        OK + b"\r\n" + b"x" * 100,
    ],
)
async def test_an_answer_above_the_limit_is_left(answer: bytes) -> None:
    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        while b"Content-Length" not in answer:
            chunk = b"x" * 100 if answer.endswith(b"x") else b"64\r\n" + b"x" * 100 + b"\r\n"
            writer.write(chunk)
            await writer.drain()

    async with server(talk) as seen, transport(seen.url) as line:
        with pytest.raises(AnswerTooLarge) as caught:
            await line.send("PUT", "/x", headers=GET, body=b"")
        assert caught.value.ambiguous


async def test_an_answer_without_content_may_announce_any_length() -> None:
    noises = list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: noises.append(context))
    for length in (b"1001", b"x", b"9" * 5000):
        answer = b"HTTP/1.1 304 Not Modified\r\nContent-Length: " + length + b"\r\n\r\n"
        async with server(says(answer)) as seen, transport(seen.url) as line:
            assert (await line.send("GET", "/x", headers=GET)).status == 304
    assert noises == []


async def test_an_answer_in_pieces_takes_little_more_memory_than_its_content() -> None:
    answer = OK + b"Transfer-Encoding: chunked\r\n\r\n" + (b"40\r\n" + b"x" * 64 + b"\r\n") * 40_000 + b"0\r\n\r\n"
    async with server(says(answer)) as seen:
        line = Transport(Connection(server=seen.url, name="test"), timeout=60.0)
        tracemalloc.start()
        try:
            assert (await line.send("GET", "/x", headers=GET)).body == b"x" * 2_560_000
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            await line.close()
    assert most < 3.5 * 2_560_000  # the content twice, and what is read at once


async def test_an_answer_that_never_ends_is_given_up() -> None:
    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"X-Slow: ")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with server(talk) as seen, transport(seen.url, timeout=0.5) as line:
        with pytest.raises(Unreachable, match="did not answer in time") as caught:
            await line.send("DELETE", "/x", headers=GET)
        assert caught.value.ambiguous


async def test_each_request_has_its_own_timeout_on_a_connection_that_is_used_again() -> None:
    silent = asyncio.Event()

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if silent.is_set():
            await asyncio.Event().wait()
        writer.write(HELLO)

    async with server(talk) as seen, transport(seen.url, timeout=3600) as line:
        await line.send("GET", "/x", headers=GET)
        silent.set()
        with pytest.raises(Unreachable, match="did not answer in time"):
            await line.send("GET", "/x", headers=GET, timeout=0.2)
    assert [len(heads) for heads in seen.heads] == [2]


async def test_a_cancelled_request_closes_its_connection(until: Until) -> None:
    async def talk(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with server(talk) as seen, transport(seen.url) as line:
        task = asyncio.create_task(line.send("GET", "/x", headers=GET))
        await until(lambda: any(seen.heads))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert line._pool is not None
        await until(lambda: not line._pool._open)  # type: ignore[union-attr]


async def test_an_idle_connection_is_closed(monkeypatch: pytest.MonkeyPatch, until: Until) -> None:
    monkeypatch.setattr(connections, "KEEP_IDLE", 0.05)
    async with server(says(HELLO)) as seen, transport(seen.url, timeout=0.3) as line:
        await line.send("GET", "/x", headers=GET)
        await until(lambda: seen.closed == 1)


async def test_a_stream_is_read_only_as_fast_as_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_STREAM_BUFFER", 10_000)
    sent = 0

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(OK + b"Transfer-Encoding: chunked\r\n\r\n")
        for number in range(1000):
            writer.write(b"2710\r\n" + str(number).encode().rjust(10_000) + b"\r\n")
            sent = number
            await writer.drain()
        writer.write(b"0\r\n\r\n")

    async with server(talk) as seen, transport(seen.url) as line:
        async with line.stream("/x", GET, 0.5) as (status, _, pieces):
            assert status == 200
            assert sent < 999  # the rest waits: at the server, and in the sockets
            content = b"".join([piece async for piece in pieces])
        assert content.split() == [str(number).encode() for number in range(1000)]


async def test_a_stream_that_falls_silent_fails() -> None:
    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
        await asyncio.Event().wait()

    async with server(talk) as seen, transport(seen.url) as line:
        with pytest.raises(Unreachable, match="did not answer in time"):
            async with line.stream("/x", GET, 0.2) as (_, _, pieces):
                assert [piece async for piece in pieces] == [b"x"]


async def test_a_refused_watch_is_refused_although_its_answer_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_REFUSAL_SECONDS", 0.1)

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 9\r\n\r\n{")
        await asyncio.Event().wait()

    async with server(talk) as seen, Client(Connection(server=seen.url, name="test")) as client:
        with pytest.raises(Forbidden):
            await anext(client.watch(CONFIGMAPS, seconds=60, silence=60.0))


async def test_a_stream_that_is_left_closes_its_connection(until: Until) -> None:
    async with server(says(OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")) as seen, transport(seen.url) as line:
        async with line.stream("/x", GET, 30.0) as (_, _, pieces):
            assert await anext(pieces) == b"x"
        await until(lambda: seen.closed == 1)


async def test_after_other_settings_requests_in_flight_finish_and_their_connection_is_closed(until: Until) -> None:
    go_on = asyncio.Event()

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await go_on.wait()
        writer.write(HELLO)

    async with server(talk) as seen, transport(seen.url) as line:
        task = asyncio.create_task(line.send("GET", "/x", headers=GET))
        await until(lambda: any(seen.heads))
        line.use(Connection(server=seen.url, name="test"))
        go_on.set()
        assert (await task).body == b"hello"
        await until(lambda: seen.closed == 1)
        assert (await line.send("GET", "/x", headers=GET)).body == b"hello"


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/x HTTP/1.1\r\nX-Evil: y", GET),
        ("/x y", GET),
        ("@evil.example.com/x", GET),
        ("/\u00e4", GET),
        ("/x", {"Impersonate-User": "me\r\nImpersonate-Group: system:masters"}),
        ("/x", {"Impersonate-User": "me\nx"}),
        ("/x", {"Impersonate-User": "me\0x"}),
        ("/x", {"Impersonate-User": "admin "}),  # a server takes this for admin
        ("/x", {"Impersonate-User": "\tadmin"}),
        ("/x", {"Impersonate-User": ""}),  # and this for the operator
        ("/x", {"Impersonate-User": "me\ud800"}),
    ],
)
async def test_a_request_cannot_be_made_into_two(path: str, headers: dict[str, str]) -> None:
    async with server(says(HELLO)) as seen, transport(seen.url) as line:
        with pytest.raises(Unreachable, match="cannot send a request") as caught:
            await line.send("POST", path, headers=headers, body=b"{}")
        assert not caught.value.ambiguous
    assert seen.heads == []


async def test_a_proxy_is_asked_for_the_whole_address() -> None:
    async with server(says(HELLO)) as seen:
        proxy = seen.url.replace("//", "//user:pass@")
        async with transport("http://cluster.example.com/base", proxy=proxy) as line:
            assert (await line.send("GET", "/x", headers=GET)).body == b"hello"
    [[head]] = seen.heads
    assert head.startswith("GET http://cluster.example.com/base/x HTTP/1.1\r\nHost: cluster.example.com\r\n")
    assert "Proxy-Authorization: Basic dXNlcjpwYXNz\r\n" in head


@pytest.mark.parametrize("answer", [b"", b"hello\r\n\r\n", b"HTTP/1.1 200 OK\r\nX\r\n\r\n", b"HTTP/1.1 407 No\r\n\r\n"])
async def test_nothing_was_sent_if_a_proxy_fails_and_its_password_is_not_told(answer: bytes) -> None:
    async with server(says_and_closes(answer)) as seen:
        proxy = seen.url.replace("//", "//user:pass@")
        async with transport("https://cluster.example.com", proxy=proxy) as line:
            with pytest.raises(Unreachable, match=r"^cannot connect to https://cluster.example.com: ") as caught:
                await line.send("POST", "/x", headers=GET, body=b"{}")
    assert not caught.value.ambiguous
    assert "pass" not in str(caught.value)


@pytest.mark.parametrize("login", ["user:%E2%82%AC", "us%3Aer:pass"])
@pytest.mark.parametrize("url", ["http://cluster.example.com", "https://cluster.example.com"])
async def test_a_login_that_no_proxy_accepts_is_an_error_of_the_settings(url: str, login: str) -> None:
    with pytest.raises(ConfigError, match="user and password of proxy-url"):
        Transport(Connection(server=url, name="test", proxy_url=f"http://{login}@127.0.0.1:1"), timeout=1.0)
