"""Where a connection must not lead.

Which addresses are refused is in `core.addresses`. What a name resolves to is not looked at beforehand, since it may be
another address a moment later; each address is looked at when the socket for it is made.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from urllib.parse import urlsplit

from aiohttp.abc import AbstractResolver, ResolveResult

from syncline.core.addresses import LOOPBACK, is_loopback_name, refusal
from syncline.kube.errors import ConfigError


def check_server(server: str, *, allow_loopback: bool) -> None:
    """Raise `ConfigError` for a URL whose host is refused as it is written."""
    host = (urlsplit(server).hostname or "").rstrip(".")
    why = None
    if is_loopback_name(host):
        why = None if allow_loopback else LOOPBACK
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
