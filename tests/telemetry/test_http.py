"""The endpoints, as the kubelet and Prometheus meet them."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

import aiohttp
import pytest

from syncline.telemetry import BindError, Endpoint, http, serve, serve_health, serve_metrics
from syncline.telemetry import metrics as _series  # noqa: F401 - so that there is something to expose


class Answer(NamedTuple):
    status: int
    text: str
    content_type: str


Get = Callable[[Endpoint, str], Awaitable[Answer]]


@pytest.fixture
async def get() -> AsyncIterator[Get]:
    async with aiohttp.ClientSession() as session:

        async def get(endpoint: Endpoint, path: str) -> Answer:
            async with session.get(f"http://{endpoint.address}{path}") as response:
                return Answer(response.status, await response.text(), response.headers["Content-Type"])

        yield get


@pytest.fixture
async def checks() -> dict[str, http.Check]:
    return {"cache": lambda: (True, "in step with the API server"), "leader": lambda: (True, "this process leads")}


@pytest.fixture
async def health(checks: dict[str, http.Check]) -> AsyncIterator[Endpoint]:
    endpoint = await serve_health("127.0.0.1:0", checks)
    assert endpoint is not None
    yield endpoint
    await endpoint.close()


@pytest.fixture
async def metrics() -> AsyncIterator[Endpoint]:
    endpoint = await serve_metrics("127.0.0.1:0")
    assert endpoint is not None
    yield endpoint
    await endpoint.close()


async def test_a_live_process_is_healthy(health: Endpoint, get: Get) -> None:
    assert (await get(health, "/healthz"))[:2] == (200, "ok\n")


async def test_a_process_whose_event_loop_is_held_up_is_not_healthy(
    health: Endpoint, get: Get, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "LAG_LIMIT", -1.0)
    status, text, _ = await get(health, "/healthz")
    assert status == 503
    assert text.startswith("one iteration of the event loop took")


async def test_ready_when_all_checks_hold(health: Endpoint, get: Get) -> None:
    assert (await get(health, "/readyz"))[:2] == (200, "ok\n")


async def test_verbose_shows_each_check(health: Endpoint, get: Get) -> None:
    _, text, _ = await get(health, "/readyz?verbose")
    assert text == "[+] cache: in step with the API server\n[+] leader: this process leads\nok\n"


async def test_not_ready_says_why(health: Endpoint, get: Get, checks: dict[str, http.Check]) -> None:
    checks["watch"] = lambda: (False, "no word from the API server for 70 s")
    status, text, _ = await get(health, "/readyz")
    assert status == 503
    assert "[+] cache: in step with the API server\n" in text
    assert "[-] watch: no word from the API server for 70 s\n" in text
    checks.pop("watch")
    assert (await get(health, "/readyz")).status == 200


async def test_a_check_that_raises_means_not_ready_and_tells_no_secret(
    health: Endpoint, get: Get, checks: dict[str, http.Check]
) -> None:
    def broken() -> tuple[bool, str]:
        raise RuntimeError("canary")

    checks["broken"] = broken
    status, text, _ = await get(health, "/readyz")
    assert status == 503
    assert "[-] broken: the check itself failed: RuntimeError\n" in text
    assert "canary" not in text


async def test_metrics_are_exposed(metrics: Endpoint, get: Get) -> None:
    status, text, content_type = await get(metrics, "/metrics")
    assert status == 200
    assert content_type.startswith("text/plain; version=")
    assert "syncline_build_info{" in text


async def test_one_server_serves_both_where_the_binds_are_equal(get: Get, checks: dict[str, http.Check]) -> None:
    endpoints = await serve(health="127.0.0.1:0", metrics="127.0.0.1:0", checks=checks)
    assert endpoints.health is endpoints.metrics
    assert endpoints.health is not None
    for path in ("/healthz", "/readyz", "/metrics"):
        assert (await get(endpoints.health, path)).status == 200
    await endpoints.close()


async def test_two_servers_serve_each_its_own(get: Get, checks: dict[str, http.Check]) -> None:
    endpoints = await serve(health="127.0.0.1:0", metrics="localhost:0", checks=checks)
    assert endpoints.health is not None
    assert endpoints.metrics is not None
    assert (await get(endpoints.health, "/metrics")).status == 404
    assert (await get(endpoints.metrics, "/healthz")).status == 404
    assert (await get(endpoints.metrics, "/metrics")).status == 200
    await endpoints.close()


async def test_zero_turns_an_endpoint_off(checks: dict[str, http.Check]) -> None:
    assert await serve_health("0", checks) is None
    assert await serve_metrics("0") is None
    endpoints = await serve(health="0", metrics="0", checks=checks)
    assert (endpoints.health, endpoints.metrics) == (None, None)
    await endpoints.close()


async def test_a_port_in_use_is_one_line_that_says_what_to_do(health: Endpoint) -> None:
    port = health.address.rpartition(":")[2]
    with pytest.raises(BindError) as caught:
        await serve_metrics(health.address)
    assert str(caught.value) == (
        f"--metrics-bind 127.0.0.1:{port}: port {port} is in use; "
        "stop the program that uses it, or choose another port with --metrics-bind"
    )


async def test_when_one_bind_fails_the_other_is_let_go(health: Endpoint, checks: dict[str, http.Check]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with pytest.raises(BindError, match="--metrics-bind"):
        await serve(health=f"127.0.0.1:{port}", metrics=health.address, checks=checks)
    again = await serve_health(f"127.0.0.1:{port}", checks)
    assert again is not None
    await again.close()


@pytest.mark.parametrize(
    "bind", ["", "8080", "127.0.0.1", ":", ":x", ":65536", "::1:8080", "[::1]", "http://x:1", "a b:1"]
)
async def test_what_is_no_address_is_told_what_one_looks_like(bind: str) -> None:
    with pytest.raises(BindError, match=r"not an address; write :8080, 127.0.0.1:8080, \[::1\]:8080, or 0"):
        await serve_metrics(bind)


async def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(BindError, match=r"this machine has no address 192\.0\.2\.1"):
        await serve_metrics("192.0.2.1:0")


@pytest.mark.parametrize("bind", ["127.0.0.1:0", ":0"])
async def test_port_zero_is_a_free_port(bind: str) -> None:
    endpoint = await serve_metrics(bind)
    assert endpoint is not None
    assert int(endpoint.address.rpartition(":")[2]) > 0
    await endpoint.close()


async def test_after_closing_nobody_listens(metrics: Endpoint, get: Get) -> None:
    await get(metrics, "/metrics")
    await metrics.close()
    await metrics.close()
    with pytest.raises(aiohttp.ClientError):
        await get(metrics, "/metrics")


async def test_a_connection_that_says_nothing_is_ended(monkeypatch: pytest.MonkeyPatch, get: Get) -> None:
    monkeypatch.setattr(http, "FIRST_REQUEST_SECONDS", 0.05)
    endpoint = await serve_metrics("127.0.0.1:0")
    assert endpoint is not None
    reader, writer = await connect(endpoint)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost:")
    async with asyncio.timeout(180):
        assert await reader.read() == b""
    writer.close()
    assert (await get(endpoint, "/metrics")).status == 200
    await endpoint.close()


async def test_a_connection_too_many_takes_the_place_of_the_one_that_was_idle_longest(
    monkeypatch: pytest.MonkeyPatch, metrics: Endpoint
) -> None:
    monkeypatch.setattr(http, "CONNECTIONS", 2)
    kept = [await connect(metrics) for _ in range(2)]
    for reader, writer in kept:
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 404")
    reader, writer = await connect(metrics)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(180):
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        await kept[0][0].read()  # to its end: it has gone
    for _, open_ in [*kept, (reader, writer)]:
        open_.close()


async def test_one_address_has_only_so_many_connections(monkeypatch: pytest.MonkeyPatch, metrics: Endpoint) -> None:
    monkeypatch.setattr(http, "PER_ADDRESS", 2)
    kept = [await connect(metrics) for _ in range(2)]
    reader, writer = await connect(metrics)
    async with asyncio.timeout(180):
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
    for _, open_ in [*kept, (reader, writer)]:
        open_.close()


async def test_strangers_who_stay_do_not_keep_a_probe_out(health: Endpoint, get: Get) -> None:
    """As the red team did it: many connections that ask once and then stay, from several addresses."""
    strangers = []
    for number in range(2, 20):
        for _ in range(16):
            strangers.append(await connect(health, f"127.0.0.{number}"))
            strangers[-1][1].write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await get(health, "/healthz")).status == 200
    assert (await get(health, "/readyz")).status == 200
    for _, writer in strangers:
        writer.close()


async def test_a_large_header_is_refused(metrics: Endpoint) -> None:
    reader, writer = await connect(metrics)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Large: " + b"x" * 20_000 + b"\r\n\r\n")
    async with asyncio.timeout(180):
        assert (await reader.readline()).startswith(b"HTTP/1.0 400")
    writer.close()


async def connect(endpoint: Endpoint, source: str | None = None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = endpoint.address.rpartition(":")
    return await asyncio.open_connection(host, int(port), local_addr=(source, 0) if source else None)
