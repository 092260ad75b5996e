"""The rate of TLS handshakes: what strangers who reconnect without end take from others and from the operator."""

import asyncio
import contextlib
import datetime as dt
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from syncline.telemetry import Endpoint, Guard, ScrapeVerdict, ServingCertificate, handshakes, http, serve_metrics
from syncline.telemetry.handshakes import Handshakes

ATTACKER, NEIGHBOUR, ELSEWHERE = "127.0.0.1", "127.0.0.2", "127.0.1.1"
SCRAPER = "Bearer of-a-scraper"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the endpoint wait for clients that a busy machine makes slow."""
    for name in ("FIRST_REQUEST_SECONDS", "HANDSHAKE_SECONDS", "ANSWER_SECONDS"):
        monkeypatch.setattr(http, name, 180.0)


async def authorize(header: str, _address: str) -> ScrapeVerdict:
    return ScrapeVerdict.ALLOWED if header == SCRAPER else ScrapeVerdict.UNAUTHENTICATED


@contextlib.asynccontextmanager
async def listening(certificate: ServingCertificate | None = None) -> AsyncIterator[Endpoint]:
    certificate = certificate or ServingCertificate.self_signed(["localhost"])
    endpoint = await serve_metrics("127.0.0.1:0", Guard(certificate, authorize))
    assert endpoint is not None
    try:
        yield endpoint
    finally:
        await endpoint.close()


def trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def first_message() -> bytes:
    """Return what a client sends first, after which the server computes."""
    outgoing = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        trusting().wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return outgoing.read()


def connect(endpoint: Endpoint, source: str) -> socket.socket:
    """Connect from an address of this host, without a handshake."""
    host, _, port = endpoint.address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=180, source_address=(source, 0))


def ask(endpoint: Endpoint, source: str, header: str = "") -> int:
    """Send a request over a new connection and return the status of the answer."""
    with connect(endpoint, source) as plain, trusting().wrap_socket(plain) as secure:
        secure.sendall(f"GET /metrics HTTP/1.1\r\nHost: operator\r\nAuthorization: {header}\r\n\r\n".encode())
        return int(secure.recv(65536).split()[1])


def reconnect(endpoint: Endpoint, hello: bytes) -> int:
    """Connect 30 times from one address, let the server compute, and close. Return the number of its answers."""
    with contextlib.ExitStack() as stack:
        tried = [stack.enter_context(connect(endpoint, ATTACKER)) for _ in range(30)]
        for plain in tried:
            with contextlib.suppress(OSError):
                plain.sendall(hello)
        answered, waiting = 0, list(tried)
        while waiting and (ready := select.select(waiting, (), (), 0.05)[0]):
            waiting = [plain for plain in waiting if plain not in ready]
            answered += sum(has_answer(plain) for plain in ready)
        return answered


def has_answer(plain: socket.socket) -> bool:
    try:
        return plain.recv(1) != b""
    except OSError:
        return False


@contextlib.asynccontextmanager
async def flood(endpoint: Endpoint) -> AsyncIterator[None]:
    """Reconnect from one address as fast as three threads can, until the end of the block."""
    ended, hello = threading.Event(), first_message()

    def run() -> None:
        while not ended.is_set():
            reconnect(endpoint, hello)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        assert await asyncio.to_thread(ask, endpoint, ELSEWHERE) == 401  # all connections were accepted


def open_sockets(port: int) -> int:
    """Count the sockets of this process at a port."""
    count = 0
    for found_at in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(found_at.name))) as found:
            count += found.family == socket.AF_INET and found.getsockname()[1] == port
    return count


async def test_the_end_closes_connections_whose_clients_do_not_answer_the_end_of_tls() -> None:
    async with listening() as endpoint:
        port = int(endpoint.address.rpartition(":")[2])
        plain = await asyncio.to_thread(connect, endpoint, NEIGHBOUR)
        secure = await asyncio.to_thread(trusting().wrap_socket, plain)
        secure.sendall(b"GET /metrics HTTP/1.1\r\nHost: operator\r\n\r\n")
        assert await asyncio.to_thread(secure.recv, 65536)
        assert open_sockets(port) == 2  # the listener, and the connection
    with secure:
        assert open_sockets(port) == 0


@pytest.fixture(scope="module")
def costly(tmp_path_factory: pytest.TempPathFactory) -> ServingCertificate:
    """Return a certificate of an administrator. With its RSA key, a handshake takes 3 ms."""
    folder = tmp_path_factory.mktemp("certificate")
    key = rsa.generate_private_key(public_exponent=65537, key_size=3072)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "syncline")])
    now = dt.datetime.now(dt.UTC)
    certificate = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + dt.timedelta(days=1))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "tls.crt").write_bytes(certificate.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    (folder / "tls.key").write_bytes(private)
    return ServingCertificate.from_folder("--metrics-cert-dir", str(folder))


async def time_of_reconnects(certificate: ServingCertificate, rounds: int) -> tuple[float, int]:
    """Return the processor time of the event loop that reconnects of one address take, and the number of handshakes."""
    hello = first_message()
    async with listening(certificate) as endpoint:
        before = time.thread_time()
        answered = await asyncio.to_thread(lambda: sum(reconnect(endpoint, hello) for _ in range(rounds)))
        taken = time.thread_time() - before
        assert await asyncio.to_thread(ask, endpoint, ELSEWHERE) == 401  # all connections were accepted
        return taken, answered


async def test_an_address_that_reconnects_as_fast_as_it_can_takes_little_processor_time(
    monkeypatch: pytest.MonkeyPatch, costly: ServingCertificate
) -> None:
    monkeypatch.setattr(handshakes, "ADDRESS_RATE", 0.001)  # on a slow machine, the real rate lets all of them in
    limited, few = await time_of_reconnects(costly, 20)
    assert few <= handshakes.ADDRESS_BURST
    for name in ("RATE", "ADDRESS_RATE"):
        monkeypatch.setattr(handshakes, name, 1e9)
    unlimited, many = await time_of_reconnects(costly, 20)
    assert (few < many, limited < unlimited) == (True, True), f"{few} and {many} handshakes"


async def test_other_addresses_are_served_while_one_reconnects_as_fast_as_it_can() -> None:
    async with listening() as endpoint, flood(endpoint):
        for source in (NEIGHBOUR, ELSEWHERE) * 5:
            assert await asyncio.to_thread(ask, endpoint, source, SCRAPER) == 200


async def order_of(addresses: list[str], *last: str) -> list[str]:
    """Have all these addresses wait, the last ones behind the others, and return the turns until those had theirs."""
    turns, served = Handshakes(), []

    async def shake(address: str) -> None:
        await turns.turn(address)
        served.append(address)

    before = [asyncio.create_task(shake(address)) for address in addresses]
    await asyncio.gather(*(asyncio.create_task(shake(address)) for address in last))
    for one in before:
        one.cancel()
    await asyncio.gather(*before, return_exceptions=True)
    assert not turns._for_unknown._waiting
    turns.close()
    return served


async def test_many_addresses_of_a_network_do_not_keep_others_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them has more than its own rate, and 400 wait. The other networks are next."""
    monkeypatch.setattr(handshakes, "RATE", 5.0)
    flooding = [f"10.0.0.{number % 250}" for number in range(500)]
    served = await order_of(flooding, "10.0.1.1", "10.0.1.2", "2001:db8::1")
    assert len(served) <= handshakes.BURST + 8


async def test_addresses_of_a_network_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "RATE", 5.0)
    monkeypatch.setattr(handshakes, "BURST", 1)
    served = await order_of([f"10.0.0.{number % 3}" for number in range(30)], "10.0.0.9")
    assert len(served) <= 6


async def test_addresses_of_one_ipv6_network_have_one_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "ADDRESS_RATE", 0.001)
    served = await order_of([f"2001:db8::{number:x}" for number in range(60)], "2001:db8:0:1::1")
    assert len(served) == handshakes.ADDRESS_BURST + 1


async def test_a_known_address_does_not_wait_for_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    """This is how an API server and a scraper reach the operator during a flood. Neighbours are not known."""
    monkeypatch.setattr(handshakes, "RATE", 0.001)
    async with listening() as endpoint:
        assert await asyncio.to_thread(ask, endpoint, NEIGHBOUR, SCRAPER) == 200
        for number in range(1, handshakes.BURST):
            await endpoint._turns.turn(f"10.{number}.0.1")
        stranger = asyncio.create_task(asyncio.to_thread(ask, endpoint, ELSEWHERE))
        for _ in range(3):
            assert await asyncio.to_thread(ask, endpoint, NEIGHBOUR, SCRAPER) == 200
        assert not stranger.done()
        await endpoint.close()
        assert isinstance((await asyncio.gather(stranger, return_exceptions=True))[0], OSError)


async def test_counters_of_addresses_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "RATE", 1e9)
    monkeypatch.setattr(handshakes, "REMEMBERED", 100)
    turns = Handshakes()
    for number in range(1000):
        await turns.turn(f"10.0.{number // 250}.{number % 250}")
        turns.know(f"10.1.{number // 250}.{number % 250}")
    assert len(turns._known) == 100
    assert turns._for_unknown._each is not None
    assert len(turns._for_unknown._each) == 100


async def test_strangers_do_not_push_out_the_connections_of_another_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "CONNECTIONS", 4)
    async with listening() as endpoint:
        host, _, port = endpoint.address.rpartition(":")
        async with asyncio.timeout(180):
            first = await asyncio.open_connection(host, int(port), local_addr=(ELSEWHERE, 0), ssl=trusting())
            others = [
                await asyncio.open_connection(host, int(port), local_addr=(f"127.0.0.{number}", 0), ssl=trusting())
                for number in range(1, 9)
            ]
            first[1].write(b"GET /metrics HTTP/1.1\r\nHost: operator\r\n\r\n")
            assert (await first[0].readline()).split()[1] == b"401"
            for _, writer in (first, *others):
                writer.close()
