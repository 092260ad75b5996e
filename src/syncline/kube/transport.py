"""One attempt of one HTTP request to one API server, with failures as typed errors.

Nothing is sent twice here, and aiohttp is prevented from it too: whether a request can be repeated depends on its verb
and on its failure, and the session decides.
"""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple
from weakref import WeakSet

import aiohttp
from aiohttp import abc, hdrs
from msgspec import Struct
from yarl import URL

from syncline import __version__
from syncline.kube.config import Connection
from syncline.kube.credentials import tls_context
from syncline.kube.errors import BadAnswer, Unreachable, Untrusted

CONNECT_TIMEOUT = 10.0
MAX_ANSWER = 64 * 1024 * 1024
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


class _Broken(aiohttp.ClientError):
    """A connection that failed after the request may have been sent."""


async def _no_hidden_retry(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Prevent aiohttp from a retry after a broken connection: the request may have been executed.

    This includes reads, because a reflector needs to know about broken connections.
    """
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _Broken(_cause(error)) from None


_NEVER_REPEATED = {"POST", "PATCH"}
"""By aiohttp itself, so that they need no guard; and of these there are many."""
_NOT_CONNECTED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientHttpProxyError)


class _Pool:
    """Connections with the same settings. After `retire`, they are closed with their last request.

    An earlier close would leave this request without an answer or an error.
    """

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session
        self.closing: asyncio.Task[None] | None = None
        self._in_flight = 0
        self._retired = False

    def __enter__(self) -> aiohttp.ClientSession:
        self._in_flight += 1
        return self.session

    def __exit__(self, *_: object) -> None:
        self._in_flight -= 1
        self._close_if_done()

    def retire(self) -> None:
        """Take no more requests."""
        self._retired = True
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self._retired and not self._in_flight and self.closing is None:
            self.closing = asyncio.get_running_loop().create_task(self.session.close())


class Transport:
    """A pool of connections to one API server. Opened by the first request; close it."""

    def __init__(self, connection: Connection, *, timeout: float, dialing: Dialing | None = None) -> None:
        self._dialing = dialing or Dialing()
        self._limits = self._limit(timeout)
        self._pool: _Pool | None = None
        self._retired: list[_Pool] = []
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
            await (pool.closing or pool.session.close())

    def _retire(self) -> None:
        """Use new connections for later requests."""
        if self._pool is not None:
            self._pool.retire()
            self._retired = [pool for pool in (*self._retired, self._pool) if not pool.session.closed]
            self._pool = None

    def _load(self, connection: Connection) -> None:
        tls = tls_context(connection) if connection.server.startswith("https:") else True
        self._tls: ssl.SSLContext | bool = tls
        self._server = connection.server
        self._proxy = connection.proxy_url
        self._server_name = connection.tls_server_name

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
        limits = self._limits if timeout is None else self._limit(timeout)
        try:
            with self._pool or self._open() as session:
                async with self._request(session, method, path, headers, body, limits=limits) as response:
                    content = await _read(response, min(most, max_answer or most))
                    said = response.headers
                    return Answer(response.status, content, said.get("Retry-After"), said.get("Date"))
        except (aiohttp.ClientError, OSError) as error:
            raise self._failure(error, changes=method != "GET") from None

    @asynccontextmanager
    async def stream(
        self, path: str, headers: Mapping[str, str], silence: float
    ) -> AsyncIterator[tuple[int, str | None, AsyncIterator[bytes]]]:
        """GET an endless answer: status, Retry-After, chunks. It fails after `silence` seconds without a byte."""
        limits = aiohttp.ClientTimeout(total=None, connect=self._dialing.connect_timeout, sock_read=silence)
        try:
            with self._pool or self._open() as session:
                async with self._request(session, "GET", path, headers, limits=limits) as response:
                    try:
                        yield response.status, response.headers.get("Retry-After"), response.content.iter_any()
                    finally:
                        # It is not read to its end: a silent server does not end TLS either.
                        if response.connection is not None and response.connection.transport is not None:
                            response.connection.transport.abort()
        except (aiohttp.ClientError, OSError) as error:
            raise self._failure(error, changes=False) from None

    def _request(
        self,
        session: aiohttp.ClientSession,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        *,
        limits: aiohttp.ClientTimeout,
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return session.request(
            method,
            # encoded: paths and queries are already quoted, and a second time would reach another object
            URL(self._server + path, encoded=True),
            headers=headers,
            data=body,
            timeout=limits,
            allow_redirects=False,
            proxy=self._proxy,
            server_hostname=self._server_name,
            middlewares=() if method in _NEVER_REPEATED else None,
        )

    def _failure(self, error: Exception, *, changes: bool) -> Unreachable:
        """Return the error for a failure. Exceptions of aiohttp hold the token in the request headers: none is kept."""
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            return Untrusted(f"cannot connect to {self._server}: {_cause(error)}")
        if isinstance(error, _NOT_CONNECTED):
            late = isinstance(error, TimeoutError)
            cause = "not in time" if late else _cause(error)
            return Unreachable(f"cannot connect to {self._server}: {cause}", vague=late)
        if isinstance(error, TimeoutError):
            return Unreachable(f"{self._server} did not answer in time", ambiguous=changes, vague=True)
        return Unreachable(f"the connection to {self._server} broke: {_cause(error)}", ambiguous=changes, vague=True)

    def _open(self) -> _Pool:
        # No limit: the session limits concurrency, and time in the pool would count as time to connect.
        connector = aiohttp.TCPConnector(
            ssl=self._tls,
            limit=0,
            resolver=self._dialing.resolver,
            socket_factory=self._new_socket,
        )
        session = aiohttp.ClientSession(
            connector=connector,
            headers=_HEADERS,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            middlewares=(_no_hidden_retry,),
            requote_redirect_url=False,
        )
        self._pool = _Pool(session)
        return self._pool

    def _new_socket(self, info: Any) -> socket.socket:
        """Make the socket for an address: the last moment, when it is certain where a connection goes."""
        family, kind, protocol, _, address = info
        if self._dialing.check_address is not None:
            self._dialing.check_address(address[0])
        made = socket.socket(family, kind, protocol)
        self._sockets.add(made)
        return made

    def _limit(self, timeout: float) -> aiohttp.ClientTimeout:
        connect = self._dialing.connect_timeout
        return aiohttp.ClientTimeout(total=timeout, connect=connect, sock_connect=connect)


async def _read(response: aiohttp.ClientResponse, most: int) -> bytes:
    """Read at most this number of bytes, counted after decompression."""
    announced = response.content_length or 0
    if 0 < announced <= most and hdrs.CONTENT_ENCODING not in response.headers:
        return await response.read()
    size, chunks = 0, []
    if announced <= most:
        async for chunk in response.content.iter_any():
            size += len(chunk)
            if size > most:
                break
            chunks.append(chunk)
    if max(size, announced) > most:
        response.close()
        raise AnswerTooLarge(f"the answer is larger than {most >> 20} MiB", ambiguous=response.method != "GET")
    return b"".join(chunks)


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
    if isinstance(error, asyncio.IncompleteReadError):
        return "closed in the middle of an answer"
    return str(error) or type(error).__name__


def query_of(parameters: Mapping[str, Any]) -> str:
    """Return a query string, without empty values."""
    given = {name: str(value) for name, value in parameters.items() if value not in {None, ""}}
    return f"?{URL.build(query=given).raw_query_string}" if given else ""
