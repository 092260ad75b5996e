"""Where a connection must not lead: this machine, its neighbours, and the metadata services of clouds."""

import asyncio
import socket
import threading
import time
from typing import Any

import pytest
from aiohttp import web
from tests.fleet.forms import CANARY, kubeconfig, secret
from tests.fleet.world import UNHURRIED

from syncline.core.addresses import METADATA, refusal
from syncline.fleet import NotResolved
from syncline.fleet.addresses import OwnThreads, address_check
from syncline.fleet.credentials import validate
from syncline.fleet.secrets import kubeconfig_connection
from syncline.kube import Connection, Unreachable
from syncline.kube.transport import Dialing, Transport


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1", "this machine"),
        ("127.200.3.4", "this machine"),
        ("::1", "this machine"),
        ("::ffff:127.0.0.1", "this machine"),
        ("::127.0.0.1", "this machine"),
        ("64:ff9b::7f00:1", "this machine"),
        ("2002:7f00:1::", "this machine"),
        ("169.254.1.1", "link-local"),
        ("fe80::1", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("::ffff:169.254.1.1", "link-local"),
        ("169.254.169.254", "metadata"),
        ("64:ff9b::a9fe:a9fe", "metadata"),
        ("::ffff:0:127.0.0.1", "this machine"),
        ("::ffff:0:169.254.169.254", "metadata"),
        ("fd00:ec2::254", "metadata"),
        ("fd00:ec2::23", "metadata"),
        ("169.254.170.23", "metadata"),
        ("fd20:ce::254", "metadata"),
        ("fd00:a9fe:a9fe::1", "metadata"),
        ("fd00:42::42", "metadata"),
        ("fd00:c1::a9fe:a9fe", "metadata"),
        ("fd00:100::100:200", "metadata"),
        ("fe80::a9fe:a9fe", "metadata"),
        ("fd00:ec2::254%1", "metadata"),
        ("fd20:ce::254%eth0", "metadata"),
        ("64:ff9b:1:a9fe:a9:fe00::", "metadata"),
        ("64:ff9b:1:a9:fe:a9fe::", "metadata"),
        ("64:ff9b:1:0:a9:fea9:fe00:0", "metadata"),
        ("64:ff9b:1::6464:64c8", "metadata"),
        ("64:ff9b:1:7f00:0:100::", "this machine"),
        ("2001:db8::5efe:a9fe:a9fe", "metadata"),
        ("2001:db8::200:5efe:7f00:1", "this machine"),
        ("100.100.100.200", "metadata"),
        ("168.63.129.16", "metadata"),
        ("0.0.0.0", "not the address of a server"),
        ("::", "not the address of a server"),
        ("::ffff:0.0.0.0", "not the address of a server"),
        ("224.0.0.1", "not the address of a server"),
        ("ff02::1", "not the address of a server"),
        ("255.255.255.255", "not the address of a server"),
        ("not-an-address", "not an IP address"),
    ],
)
def test_some_addresses_are_refused(address: str, said: str) -> None:
    assert said in (refusal(address, allow_loopback=False) or "")


@pytest.mark.parametrize(
    "address", ["10.0.0.1", "192.168.1.1", "172.16.0.1", "fd12::1", "203.0.113.7", "2001:db8::1", "64:ff9b:1::a00:1"]
)
def test_private_and_public_addresses_are_not_refused(address: str) -> None:
    assert refusal(address, allow_loopback=False) is None


def test_for_development_this_machine_and_its_neighbours_may_be_allowed_but_nothing_else() -> None:
    for address in ("127.0.0.1", "::1", "169.254.1.1", "fe80::1"):
        assert refusal(address, allow_loopback=True) is None
    for address in ("0.0.0.0", "::", "ff02::1", *METADATA):
        assert refusal(address, allow_loopback=True)


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.1", "0x7f000001", "2130706433", "017700000001", "0", "[::1]", "[::ffff:127.0.0.1]"),
        *("localhost", "LOCALHOST", "localhost.", "a.localhost", "localhost.localdomain"),
        *("169.254.169.254", "[fe80::1]", "0.0.0.0", "[::]"),
        *("[fd00:ec2::254%1]", "[fd00:ec2::254%251]", "[fd00:42::42]"),
    ],
)
def test_a_server_is_refused_as_it_is_written(host: str) -> None:
    wire = secret({"value": kubeconfig(server=f"https://{host}:6443")})
    with pytest.raises(NotResolved, match=r"Secret team-a/edge: the server ") as caught:
        validate(kubeconfig_connection(wire, None), wire.origin, allow_loopback=False)
    assert CANARY not in str(caught.value)


class Names:
    """A name service that says something else each time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> None:
        self.asked = 0
        self._answers = answers
        self._real = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self._look_up)

    def _look_up(self, _: str, port: int, *__: Any, **___: Any) -> list[Any]:
        answer = self._answers[min(self.asked, len(self._answers) - 1)]
        self.asked += 1
        return [
            (socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in answer
        ]


def transport(server: str, *, allow_loopback: bool = False) -> Transport:
    dialing = Dialing(
        connect_timeout=2.0, check_address=address_check(allow_loopback=allow_loopback), resolver=OwnThreads()
    )
    return Transport(Connection(server=server, name="test", token=CANARY), timeout=3.0, dialing=dialing)


async def test_a_name_that_leads_to_a_refused_address_is_not_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    connected = []

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.append(1)
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    Names(monkeypatch, ["127.0.0.1"], ["::ffff:127.0.0.1"], ["169.254.169.254"])
    async with server:
        for said in ("this machine", "this machine", "metadata"):
            line = transport(f"http://innocent.example.com:{port}")
            with pytest.raises(Unreachable, match=said) as caught:
                await line.send("GET", "/", headers={"Authorization": CANARY})
            assert CANARY not in str(caught.value)
            await line.close()
    assert not connected


async def test_a_name_that_leads_elsewhere_the_second_time_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rebinding: what was checked once is not what is connected to later."""
    served = []

    async def handle(_: web.BaseRequest) -> web.Response:
        served.append(1)
        return web.Response(text="{}", headers={"Connection": "close"})

    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    allowed = {"127.0.0.1"}

    def check(address: str) -> None:
        if address not in allowed:
            raise OSError(0, f"{address} is refused")

    names = Names(monkeypatch, ["127.0.0.1"], ["127.0.0.2"])
    dialing = Dialing(connect_timeout=2.0, check_address=check, resolver=OwnThreads())
    server = f"http://innocent.example.com:{runner.addresses[0][1]}"
    for expected in (True, False):
        line = Transport(Connection(server=server, name="test"), timeout=3.0, dialing=dialing)
        if expected:
            assert (await line.send("GET", "/", headers={})).status == 200
        else:
            with pytest.raises(Unreachable, match=r"127\.0\.0\.2 is refused"):
                await line.send("GET", "/", headers={})
        await line.close()
    assert (len(served), names.asked) == (1, 2)
    await runner.cleanup()


async def test_of_several_addresses_only_those_that_are_allowed_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handle(request: web.BaseRequest) -> web.Response:
        assert request.transport
        return web.Response(text=request.transport.get_extra_info("sockname")[0])

    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    Names(monkeypatch, ["169.254.169.254", "127.0.0.1"])
    line = transport(f"http://both.example.com:{runner.addresses[0][1]}", allow_loopback=True)
    assert (await line.send("GET", "/", headers={})).body == b"127.0.0.1"
    await line.close()
    await runner.cleanup()


async def test_an_address_that_is_written_out_is_looked_at_too() -> None:
    line = transport("http://127.0.0.1:1")
    with pytest.raises(Unreachable, match="this machine"):
        await line.send("GET", "/", headers={})
    await line.close()


async def test_a_name_service_that_does_not_answer_holds_up_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    real = socket.getaddrinfo

    def slow(host: str, *rest: Any, **flags: Any) -> Any:
        if host.startswith("dead"):
            released.wait(120)
        return real("127.0.0.1", *rest, **flags)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    threads = threading.active_count()
    resolver = OwnThreads()
    dead = [asyncio.create_task(resolver.resolve(f"dead-{number}.example.com", 1)) for number in range(50)]
    await asyncio.sleep(0)
    started = time.monotonic()
    found = await resolver.resolve("alive.example.com", 6443)
    assert time.monotonic() - started < UNHURRIED
    assert found[0]["host"] == "127.0.0.1"
    released.set()
    await asyncio.gather(*dead)
    while threading.active_count() > threads:  # noqa: ASYNC110  # threads have no event
        await asyncio.sleep(0.01)


async def test_a_name_that_cannot_be_one_is_a_failed_lookup() -> None:
    with pytest.raises(OSError, match="is not a valid host name"):
        await OwnThreads().resolve("a" * 70 + ".example.com")
