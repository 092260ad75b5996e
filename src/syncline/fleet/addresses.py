"""Where a connection must not lead.

A tenant names the server, and the operator connects: without care, to what only the operator can reach. Loopback and
link-local addresses are refused unless allowed for development; metadata services of clouds, and what is no address of
one machine, always. Private ranges are not: clusters live there. What a name resolves to is not looked at beforehand,
since it may be another address a moment later; each address is looked at when the socket for it is made.
"""

import asyncio
import contextlib
import ipaddress
import socket
import threading
from collections.abc import Callable
from urllib.parse import urlsplit

from aiohttp.abc import AbstractResolver, ResolveResult

from syncline.kube.errors import ConfigError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_METADATA = frozenset(
    map(
        ipaddress.ip_address,
        ("169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254"),
    )
)
_NAT64 = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))
_IPV4_BITS = 32


def refusal(address: str, *, allow_loopback: bool) -> str | None:
    """Say why an IP address is refused, or return None: it is not."""
    try:
        given = ipaddress.ip_address(address)
    except ValueError:
        return "is not an IP address"
    return next((why for each in _meant(given) if (why := _refusal(each, allow_loopback=allow_loopback))), None)


def check_server(server: str, *, allow_loopback: bool) -> None:
    """Raise `ConfigError` for a URL whose host is refused as it is written."""
    host = (urlsplit(server).hostname or "").rstrip(".")
    why = None
    if host == "localhost" or host.endswith((".localhost", ".localdomain")):
        why = None if allow_loopback else _LOOPBACK
    else:
        with contextlib.suppress(OSError):
            # Also what only the system's resolver takes for an address, such as 127.1 or 0x7f000001.
            host = host if ":" in host else socket.inet_ntoa(socket.inet_aton(host))
            why = refusal(host, allow_loopback=allow_loopback)
    if why:
        raise ConfigError(f"the server {host} {why}")


def address_check(*, allow_loopback: bool) -> Callable[[str], None]:
    """Return what raises `OSError` for each address that is refused."""

    def check(address: str) -> None:
        why = refusal(address, allow_loopback=allow_loopback)
        if why:
            raise OSError(0, f"{address} {why}")

    return check


_LOOPBACK = "is this machine itself, which is refused without --allow-loopback"


def _refusal(address: Address, *, allow_loopback: bool) -> str | None:
    if address in _METADATA:
        return "is the address of a cloud's metadata service"
    if address.is_unspecified or address.is_multicast or int(address) == 2**_IPV4_BITS - 1:
        return "is not the address of a server"
    if allow_loopback:
        return None
    if address.is_loopback:
        return _LOOPBACK
    if address.is_link_local:
        return "is a link-local address, which is refused without --allow-loopback"
    return None


def _meant(address: Address) -> tuple[Address, ...]:
    """Return the address, and those of the old protocol that it stands for."""
    if isinstance(address, ipaddress.IPv4Address):
        return (address,)
    meant: list[Address] = [address]
    meant += [inner for inner in (address.ipv4_mapped, address.sixtofour) if inner]
    if address.teredo:
        meant += address.teredo
    if any(address in network for network in _NAT64) or 1 < int(address) < 2**_IPV4_BITS:
        meant.append(ipaddress.IPv4Address(int(address) % 2**_IPV4_BITS))
    return tuple(meant)


class OwnThreads(AbstractResolver):
    """Looks each name up in a thread of its own.

    A name server that does not answer holds a thread for half a minute. The process has few that are shared: as many
    dead clusters would keep everybody else from looking anything up.
    """

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a name."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[ResolveResult]] = loop.create_future()

        def settle(found: list[ResolveResult] | OSError) -> None:
            if answer.done():  # nobody waits any more
                return
            if isinstance(found, OSError):
                answer.set_exception(found)
            else:
                answer.set_result(found)

        def work() -> None:
            found = _look_up(host, port, family)
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(settle, found)

        threading.Thread(target=work, name="name-lookup", daemon=True).start()
        return await answer

    async def close(self) -> None:
        """Nothing is kept."""


def _look_up(host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult] | OSError:
    try:
        infos = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    except OSError as error:
        return error
    except UnicodeError:
        return socket.gaierror(socket.EAI_NONAME, "this cannot be a host's name")
    return [
        ResolveResult(
            hostname=host,
            host=str(address[0]),
            port=port,
            family=kind,
            proto=protocol,
            flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
        )
        for kind, _, protocol, _, address in infos
    ]
