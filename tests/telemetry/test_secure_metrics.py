"""Metrics over TLS: what a stranger meets, and what a certificate's renewal asks of the operator."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509

from syncline.telemetry import (
    BindError,
    Endpoint,
    Guard,
    ScrapeVerdict,
    ServingCertificate,
    certificate,
    http,
    serve_metrics,
)
from syncline.telemetry import metrics as _series  # noqa: F401 - so that there is something to expose


async def authorize(header: str, _address: str) -> ScrapeVerdict:
    return {"Bearer good": ScrapeVerdict.ALLOWED, "Bearer weak": ScrapeVerdict.FORBIDDEN}.get(
        header, ScrapeVerdict.UNAUTHENTICATED
    )


@pytest.fixture
async def metrics() -> AsyncIterator[Endpoint]:
    guard = Guard(ServingCertificate.self_signed(["localhost"]), authorize)
    endpoint = await serve_metrics("127.0.0.1:0", guard)
    assert endpoint is not None
    yield endpoint
    await endpoint.close()


def trusting() -> ssl.SSLContext:
    """Return a client that takes any certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def scrape(endpoint: Endpoint, header: str = "") -> tuple[int, str]:
    headers = {"Authorization": header} if header else {}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.get(f"https://{endpoint.address}/metrics", ssl=trusting()) as answer,
    ):
        return answer.status, await answer.text()


async def serial(endpoint: Endpoint) -> int:
    """Return the serial number of the certificate that is served."""
    host, _, port = endpoint.address.rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=trusting())
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return x509.load_der_x509_certificate(der).serial_number


@pytest.mark.parametrize(("header", "status"), [("", 401), ("Bearer weak", 403), ("Bearer good", 200)])
async def test_series_are_for_those_who_may_scrape(metrics: Endpoint, header: str, status: int) -> None:
    answered, text = await scrape(metrics, header)
    assert answered == status
    assert ("syncline_build_info{" in text) is (status == 200)


async def test_plain_http_is_not_answered(metrics: Endpoint) -> None:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"http://{metrics.address}/metrics")
    assert (await scrape(metrics, "Bearer good"))[0] == 200


async def test_a_connection_is_kept_for_the_next_scrape(metrics: Endpoint) -> None:
    headers, context = {"Authorization": "Bearer good"}, trusting()
    async with aiohttp.ClientSession(headers=headers) as session:
        for _ in range(3):
            async with session.get(f"https://{metrics.address}/metrics", ssl=context) as answer:
                assert answer.status == 200
                await answer.read()
        server = metrics._runner.server
        assert server is not None
        assert len(server.connections) == 1


async def test_a_stranger_who_never_shakes_hands_takes_up_a_place_and_no_more(
    monkeypatch: pytest.MonkeyPatch, metrics: Endpoint
) -> None:
    monkeypatch.setattr(http, "CONNECTIONS", 2)
    host, _, port = metrics.address.rpartition(":")
    silent = [await asyncio.open_connection(host, int(port)) for _ in range(2)]
    assert (await scrape(metrics, "Bearer good"))[0] == 200
    async with asyncio.timeout(180):
        assert await silent[0][0].read() == b""
    for _, writer in silent:
        writer.close()


async def test_one_address_cannot_have_more_handshakes_than_connections(
    monkeypatch: pytest.MonkeyPatch, metrics: Endpoint
) -> None:
    monkeypatch.setattr(http, "PER_ADDRESS", 2)
    host, _, port = metrics.address.rpartition(":")
    silent = [await asyncio.open_connection(host, int(port)) for _ in range(8)]
    async with asyncio.timeout(180):
        ended = 0
        for reader, _ in silent[2:]:
            try:
                ended += await reader.read() == b""
            except ConnectionResetError:
                ended += 1
    assert ended == 6
    assert len(metrics._handshakes) == 2
    for _, writer in silent:
        writer.close()


async def test_a_handshake_has_little_time(monkeypatch: pytest.MonkeyPatch, metrics: Endpoint) -> None:
    monkeypatch.setattr(http, "HANDSHAKE_SECONDS", 0.05)
    host, _, port = metrics.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    async with asyncio.timeout(180):
        assert await reader.read() == b""
    writer.close()
    assert not metrics._handshakes


def write_pair(folder: Path) -> None:
    pair = certificate.make_self_signed(["localhost"])
    for name, content in zip(("tls.crt", "tls.key"), pair, strict=True):
        (folder / name).write_bytes(content)


async def test_a_certificate_is_read_again_when_its_files_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificate, "CHECK_SECONDS", 0.0)
    write_pair(tmp_path)
    guard = Guard(ServingCertificate.from_folder("--metrics-cert-dir", str(tmp_path)), authorize)
    endpoint = await serve_metrics("127.0.0.1:0", guard)
    assert endpoint is not None
    first = await serial(endpoint)
    assert await serial(endpoint) == first

    (tmp_path / "tls.key").write_text("half of a rotation")
    assert await serial(endpoint) == first
    write_pair(tmp_path)
    assert await serial(endpoint) != first
    assert (await scrape(endpoint, "Bearer good"))[0] == 200
    await endpoint.close()


def test_a_folder_without_a_certificate_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(BindError, match=r"--metrics-cert-dir .*: put a certificate in tls.crt and its key in tls.key"):
        ServingCertificate.from_folder("--metrics-cert-dir", str(tmp_path))


async def test_a_stranger_does_not_choose_a_key_exchange_that_takes_long(metrics: Endpoint) -> None:
    """With the group ffdhe8192, ten handshakes a second took all the time of the event loop."""
    host, _, port = metrics.address.rpartition(":")
    with_another_group = trusting()
    with_another_group.set_ecdh_curve("secp521r1")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection(host, int(port), ssl=with_another_group)
    assert (await scrape(metrics, "Bearer good"))[0] == 200
