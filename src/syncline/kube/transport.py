"""One attempt of one HTTP request to one API server, with failures as typed errors.

Nothing is sent twice here: whether a request can be repeated depends on its verb and on its failure, and the session
decides.
"""

import asyncio
import contextlib
import os
import re
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from weakref import WeakSet

import aiohttp
from aiohttp import abc
from msgspec import Struct
from yarl import URL

from syncline import __version__
from syncline.kube.config import Connection
from syncline.kube.connections import ContentTooLong, HttpConnection, Pool
from syncline.kube.credentials import tls_context
from syncline.kube.errors import BadAnswer, ConfigError, Unreachable, Untrusted

CONNECT_TIMEOUT = 10.0
MAX_ANSWER = 64 * 1024 * 1024
# A path starts with a slash: it must not become a part of the host.
_PATH = re.compile(r"/[!-~]*+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_HEADERS = {"User-Agent": f"syncline/{__version__}", "Accept-Encoding": "identity"}


class Answer(NamedTuple):
    """The answer of the server."""

    status: int
    body: bytes
    retry_after: str | None
    date: str | None = None
    """What the clock of the server showed, as it came."""


class Dialing(Struct, frozen=True, kw_only=True):
    """The settings of connections, and the maximum size of answers."""

    connect_timeout: float = CONNECT_TIMEOUT
    max_answer: int | None = None
    """In bytes; None: `MAX_ANSWER`."""
    check_address: Callable[[str], None] | None = None
    """Raises `OSError` for a refused IP address. It is called for every address, also after name resolution."""
    resolver: abc.AbstractResolver | None = None
    """The name resolver; None: the shared threads of the process."""


class AnswerTooLarge(BadAnswer):
    """The answer is larger than the limit; request less of it."""


class _NotSent(Exception):  # noqa: N818 - a state
    """A request that is not valid HTTP."""


# Where there is a cause.
_REFUSED = (aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError)
_FAILURES = (aiohttp.ClientError, OSError, _NotSent)


class Transport:
    """A pool of connections to one API server. Opened by the first request; close it."""

    def __init__(self, connection: Connection, *, timeout: float, dialing: Dialing | None = None) -> None:
        self._dialing = dialing or Dialing()
        self._timeout = timeout
        self._limits = aiohttp.ClientTimeout(
            total=None, connect=self._dialing.connect_timeout, sock_connect=self._dialing.connect_timeout
        )
        self._pool: Pool | None = None
        self._retired: list[Pool] = []
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._load(connection)

    def use(self, connection: Connection) -> None:
        """Use another connection for later requests; current requests finish on the old one.

        Raises `ConfigError`, and changes nothing, where that one cannot be used.
        """
        self._load(connection)
        self._retire()

    def break_off(self) -> None:
        """Close all connections now, with their requests: a silent server does not end them."""
        self._retire()
        for each in tuple(self._sockets):
            with contextlib.suppress(OSError):  # not connected yet, or no longer
                each.shutdown(socket.SHUT_RDWR)

    async def close(self) -> None:
        """Close all connections."""
        self.break_off()  # including those that wait for the end of TLS
        for pool in self._retired:
            await pool.close()

    def _retire(self) -> None:
        """Use new connections for later requests."""
        if self._pool is not None:
            self._pool.retire()
            self._retired = [pool for pool in (*self._retired, self._pool) if not pool.closed]
            self._pool = None

    def _load(self, connection: Connection) -> None:
        try:
            url = URL(connection.server, encoded=True)
            proxy = URL(connection.proxy_url) if connection.proxy_url else None
            (url.host or "").rstrip(".").encode("idna")  # as the lookup of its address does
        except ValueError:
            raise ConfigError(f"{connection.name}: {connection.server} is not the address of a server") from None
        if connection.tls_server_name is not None and not _is_host_name(connection.tls_server_name):
            raise ConfigError(f"{connection.name}: tls-server-name is not a host name")
        try:
            user, password = (proxy.user, proxy.password or "") if proxy else (None, "")
            login = aiohttp.encode_basic_auth(user, password, "latin1") if user else None  # as aiohttp does for TLS
        except ValueError:  # its text may have the password
            raise ConfigError(
                f"{connection.name}: user and password of proxy-url must be Latin-1, the user without :"
            ) from None
        self._tls = tls_context(connection) if url.scheme == "https" else None
        self._server = connection.server
        self._url = url
        self._proxy = proxy
        self._server_name = connection.tls_server_name
        # A proxy tunnels TLS, and is asked for everything else itself.
        self._prefix = connection.server if self._proxy and not self._tls else self._url.raw_path.rstrip("/")
        self._headers = {"Host": self._url.host_port_subcomponent or "", **_HEADERS}
        if login and not self._tls:
            self._headers["Proxy-Authorization"] = login

    async def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout: float | None = None,
        max_answer: int | None = None,
    ) -> Answer:
        """Send one request and read the whole answer. Raises `Unreachable`, but not for an HTTP status.

        `max_answer` makes the maximum size of the answer smaller.
        """
        most = self._dialing.max_answer or MAX_ANSWER
        most = min(most, max_answer or most)
        deadline = asyncio.get_running_loop().time() + (self._timeout if timeout is None else timeout)
        try:
            request = self._encode(method, path, headers, body)
            connection = await self._connection(deadline)
            try:
                connection.ask(request, deadline=deadline, most=most)
                head, content = await connection.answer()
            finally:
                connection.release()
        except ContentTooLong:
            raise AnswerTooLarge(f"the answer is larger than {most >> 20} MiB", ambiguous=method != "GET") from None
        except _FAILURES as error:
            raise self._failure(error, changes=method != "GET") from None
        return Answer(head.status, content, head.headers.get("retry-after"), head.headers.get("date"))

    @asynccontextmanager
    async def stream(
        self, path: str, headers: Mapping[str, str], silence: float
    ) -> AsyncIterator[tuple[int, str | None, AsyncIterator[bytes]]]:
        """GET an endless answer: status, Retry-After, chunks. It fails after `silence` seconds without a byte."""
        try:
            request = self._encode("GET", path, headers)
            connection = await self._connection(None)
            try:
                connection.ask_stream(request, silence=silence)
                head = await connection.head()
                yield head.status, head.headers.get("retry-after"), connection.pieces()
            finally:
                connection.abort()  # it is not read to its end
        except _FAILURES as error:
            raise self._failure(error, changes=False) from None

    async def _connection(self, deadline: float | None) -> HttpConnection:
        """Return an idle connection, or a new one."""
        pool = self._pool or self._open()
        idle = pool.idle()
        if idle is not None:
            return idle
        request = aiohttp.ClientRequest(
            "GET",
            self._url,
            loop=asyncio.get_running_loop(),
            proxy=self._proxy,
            server_hostname=self._server_name,
        )
        try:
            async with asyncio.timeout_at(deadline):
                return await pool.dial(request, self._limits)
        except TimeoutError:
            raise aiohttp.ConnectionTimeoutError("not in time") from None

    def _encode(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None) -> bytes:
        """Return the bytes of a request. What is not valid in it could be read as another one."""
        lines = [f"{method} {self._prefix}{path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in self._headers.items()]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        text = "\r\n".join(lines)
        if not _PATH.fullmatch(path) or _CONTROL.search("".join(lines)):
            raise _NotSent("its path or a header is not valid")
        for name, value in headers.items():
            # A server takes it without its outer blanks: as another user, or as no user.
            if not value or value != value.strip():
                raise _NotSent(f"its header {name} is empty or has outer blanks")
        try:
            return f"{text}\r\n\r\n".encode() + (body or b"")
        except UnicodeEncodeError:  # its text is not quoted: the error holds the whole request
            raise _NotSent("a header is not valid Unicode") from None

    def _failure(self, error: Exception, *, changes: bool) -> Unreachable:
        """Return the error for a failure. Exceptions of aiohttp hold the token in the request headers: none is kept."""
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            return Untrusted(f"cannot connect to {self._server}: {_cause(error)}")
        if isinstance(error, aiohttp.ClientError):  # aiohttp only connects, so nothing was sent
            cause = "not in time" if isinstance(error, TimeoutError) else _cause(error)
            return Unreachable(f"cannot connect to {self._server}: {cause}", vague=not isinstance(error, _REFUSED))
        if isinstance(error, _NotSent):
            return Unreachable(f"cannot send a request to {self._server}: {error}")
        if isinstance(error, TimeoutError):
            return Unreachable(f"{self._server} did not answer in time", ambiguous=changes, vague=True)
        return Unreachable(f"the connection to {self._server} broke: {_cause(error)}", ambiguous=changes, vague=True)

    def _open(self) -> Pool:
        # No limit: the session limits concurrency, and time in the pool would count as time to connect.
        connector = aiohttp.TCPConnector(
            ssl=self._tls or True,
            limit=0,
            resolver=self._dialing.resolver,
            socket_factory=self._new_socket,
        )
        self._pool = Pool(connector)
        return self._pool

    def _new_socket(self, info: Any) -> socket.socket:
        """Make the socket for an address: the last moment, when it is certain where a connection goes."""
        family, kind, protocol, _, address = info
        if self._dialing.check_address is not None:
            self._dialing.check_address(address[0])
        made = socket.socket(family, kind, protocol)
        self._sockets.add(made)
        return made


def _is_host_name(name: str) -> bool:
    """Whether TLS can compare a certificate with this name: with a name of dots only, it would compare nothing."""
    try:
        return bool(name.strip(".")) and b"\0" not in name.encode("idna")
    except UnicodeError:
        return False


def _cause(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return str(error.certificate_error)
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return str(error.os_error)
    if isinstance(error, aiohttp.ClientConnectorError):
        known = os.strerror(error.errno) if error.errno and error.errno > 0 else None
        return known or error.strerror or str(error.os_error) or type(error.os_error).__name__
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered {error.status}"
    if isinstance(error, aiohttp.ClientResponseError):  # its text has the address of the proxy, with the password
        return "the proxy does not answer in HTTP"
    return str(error) or type(error).__name__


def query_of(parameters: Mapping[str, Any]) -> str:
    """Return a query string, without empty values."""
    given = {name: str(value) for name, value in parameters.items() if value not in {None, ""}}
    return f"?{URL.build(query=given).raw_query_string}" if given else ""
