"""Names that are looked up for many groups, while some name servers do not answer."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from syncline import lookups
from syncline.fairness import on_behalf_of
from syncline.lookups import FairResolver, Lookups


class NameServers:
    """Those of `*.silent.example` answer when they are told to; those of `*.example` at once."""

    def __init__(self) -> None:
        self.asked = 0
        self.end = threading.Event()

    def answer(self, host: str, port: int, **_: Any) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        self.asked += 1
        if host.endswith(".silent.example"):
            self.end.wait()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", port))]


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServers]:
    servers = NameServers()
    monkeypatch.setattr(socket, "getaddrinfo", servers.answer)
    yield servers
    servers.end.set()


async def test_silent_name_servers_of_one_group_leave_threads_for_others(
    servers: NameServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookups, "SECONDS", 0.05)
    with contextlib.closing(Lookups(4)) as found:
        silent = [found.find(f"{number}.silent.example", 443, "mallory") for number in range(2)]
        for given_up in await asyncio.gather(*silent, return_exceptions=True):
            assert isinstance(given_up, TimeoutError)
        # Who waits no more still has the threads.
        later = [asyncio.create_task(found.find(f"{n}.silent.example", 443, "mallory")) for n in range(2, 9)]
        await asyncio.sleep(0)
        for number in range(10):
            assert await found.find(f"{number}.example", 443, "victim") == [(socket.AF_INET, "192.0.2.1")]
        assert servers.asked == 2 + 10
        servers.end.set()
        await asyncio.gather(*later)


async def test_a_resolver_looks_up_for_the_group_of_its_task(servers: NameServers) -> None:
    with contextlib.closing(Lookups(2)) as found:
        resolver = FairResolver(found)
        on_behalf_of.set("mallory")
        waiting = [asyncio.create_task(resolver.resolve(f"{n}.silent.example", 443)) for n in range(5)]
        await asyncio.sleep(0)
        on_behalf_of.set("victim")
        assert [one["host"] for one in await resolver.resolve("a.example", 443)] == ["192.0.2.1"]
        servers.end.set()
        await asyncio.gather(*waiting)


async def test_a_name_that_has_no_address_is_an_error() -> None:
    with contextlib.closing(Lookups()) as found:
        for name in ("no-such-host.invalid", "a" * 100 + ".example"):
            with pytest.raises(OSError, match=r".+"):
                await found.find(name, 443)
