"""The addresses that a connection must not use.

`core.addresses` defines the refused addresses. A name is not resolved in advance, because it can resolve to another
address later. Each address is checked when its socket is created.
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
    """Raise `ConfigError` for a URL whose host is a refused address."""
    host = (urlsplit(server).hostname or "").rstrip(".")
    why = None
    if is_loopback_name(host):
        why = None if allow_loopback else LOOPBACK
    else:
        with contextlib.suppress(OSError):
            # This includes forms that only the resolver of the system accepts as an address, such as 127.1 or
            # 0x7f000001.
            host = host if ":" in host else socket.inet_ntoa(socket.inet_aton(host))
            why = refusal(host, allow_loopback=allow_loopback)
    if why:
        raise ConfigError(f"the server {host} {why}")


def address_check(*, allow_loopback: bool) -> Callable[[str], None]:
    """Return a function that raises `OSError` for each refused address."""

    def check(address: str) -> None:
        why = refusal(address, allow_loopback=allow_loopback)
        if why:
            raise OSError(0, f"{address} {why}")

    return check


class OwnThreads(AbstractResolver):
    """Resolves each name in its own thread.

    A name server that does not answer blocks a thread for half a minute. With the few shared threads of the process,
    some unreachable clusters would block the name resolution of all others.
    """

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a name."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[ResolveResult]] = loop.create_future()

        def settle(found: list[ResolveResult] | OSError) -> None:
            if answer.done():  # the caller was cancelled
                return
            if isinstance(found, OSError):
                answer.set_exception(found)
            else:
                answer.set_result(found)

        def work() -> None:
            found = _look_up(host, port, family)
            with contextlib.suppress(RuntimeError):  # the loop has ended in the meantime
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
        return socket.gaierror(socket.EAI_NONAME, "this is not a valid host name")
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
