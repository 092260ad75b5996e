"""Connections over TLS, where asyncio tells less about a connection than it does without."""

import asyncio
from typing import Any

import pytest
from tests.kube.conftest import Until
from tests.kube.raw import GET, HELLO, OK, Talk, says, server, transport

from syncline.kube import connections
from syncline.kube.config import Connection
from syncline.kube.connections import HttpConnection
from syncline.kube.errors import ConfigError, Unreachable
from syncline.kube.transport import Transport
from syncline.sandbox.pki import Authority

AUTHORITY = Authority.create()


def hangs_up(answer: bytes) -> Talk:
    """Answer one request, and close without the goodbye of TLS."""

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()
        tcp: asyncio.Transport = writer.transport._ssl_protocol._transport  # type: ignore[attr-defined]
        tcp.write_eof()

    return talk


async def test_requests_one_after_the_other_use_one_connection() -> None:
    async with server(says(HELLO), AUTHORITY) as seen, transport(seen.url, authority=AUTHORITY) as line:
        for _ in range(3):
            assert (await line.send("GET", "/x", headers=GET)).body == b"hello"
    assert [len(heads) for heads in seen.heads] == [3]


@pytest.mark.parametrize("authority", [None, AUTHORITY], ids=["plain", "tls"])
async def test_a_connection_whose_request_was_answered_before_it_was_sent_is_not_used_again(
    authority: Authority | None,
) -> None:
    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HELLO)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.Event().wait()

    async with server(talk, authority) as seen, transport(seen.url, authority=authority) as line:
        for _ in range(3):
            assert (await line.send("POST", "/x", headers=GET, body=b"x" * 16_000_000)).body == b"hello"
    assert [len(heads) for heads in seen.heads] == [1, 1, 1]


@pytest.mark.parametrize("authority", [None, AUTHORITY], ids=["plain", "tls"])
async def test_a_connection_is_not_used_after_the_server_closed_its_side(
    authority: Authority | None, monkeypatch: pytest.MonkeyPatch, until: Until
) -> None:
    inherited, usable = HttpConnection.eof_received, list[bool]()

    def eof_received(connection: HttpConnection) -> Any:
        asyncio.get_running_loop().call_soon(lambda: usable.append(connection.is_usable))
        return inherited(connection)

    monkeypatch.setattr(HttpConnection, "eof_received", eof_received)

    async def closes(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HELLO)
        writer.write_eof()

    talk = hangs_up(HELLO) if authority else closes
    async with server(talk, authority) as seen, transport(seen.url, authority=authority) as line:
        assert (await line.send("GET", "/x", headers=GET)).body == b"hello"
        await until(lambda: bool(usable))
    assert usable == [False]


async def test_a_stream_that_goes_wrong_while_it_waits_for_its_reader_ends_without_a_noise(
    monkeypatch: pytest.MonkeyPatch, until: Until
) -> None:
    monkeypatch.setattr(connections, "_STREAM_BUFFER", 10_000)
    noises = list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: noises.append(context))
    chunk = b"2710\r\n" + b"x" * 10_000 + b"\r\n"
    paused = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 2)
        await paused.wait()
        await hangs_up(b"no chunk\r\n")(reader, writer)

    async def read(line: Transport) -> None:
        async with line.stream("/x", GET, 30.0) as (_, _, pieces):
            assert line._pool is not None
            [connection] = line._pool._open
            await until(lambda: connection._paused)
            paused.set()
            tls: Any = connection._transport._ssl_protocol  # type: ignore[attr-defined]
            await until(lambda: tls._eof_received)
            async for _ in pieces:
                pass

    async with server(talk, AUTHORITY) as seen, transport(seen.url, authority=AUTHORITY) as line:
        with pytest.raises(Unreachable, match="a chunk of its answer has no length"):
            await read(line)
    assert noises == []


async def test_the_scheme_of_a_server_is_the_same_in_capitals() -> None:
    async with (
        server(says(HELLO), AUTHORITY) as seen,
        transport(seen.url.replace("https", "HTTPS"), authority=AUTHORITY) as line,
    ):
        assert (await line.send("GET", "/x", headers=GET)).body == b"hello"
        assert line._tls is not None  # with the ciphers of ours


@pytest.mark.parametrize("url", ["https://[::1]x", "https://[::1", "https://a..b", f"https://{'a' * 64}.b"])
async def test_an_address_that_is_none_is_an_error_of_the_settings(url: str) -> None:
    with pytest.raises(ConfigError, match="is not the address of a server"):
        Transport(Connection(server=url, name="test"), timeout=1.0)


@pytest.mark.parametrize("name", ["..", ".", "a..b", ".a", "a" * 70, "a\0b", "\ud800"])
async def test_a_server_name_that_is_none_is_an_error_of_the_settings(name: str) -> None:
    async with server(says(HELLO), AUTHORITY) as seen:
        with pytest.raises(ConfigError, match="tls-server-name is not a host name"):
            Transport(Connection(server=seen.url, name="test", tls_server_name=name), timeout=1.0)
