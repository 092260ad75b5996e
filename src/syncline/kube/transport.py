"""One attempt at one HTTP request to one API server: bytes out, bytes in, and failures named for what they mean.

Nothing is sent twice here, and aiohttp is kept from it too: whether a request may be repeated depends on its verb and
on what became of it, which is the session's business.
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
    """What the server said."""

    status: int
    body: bytes
    retry_after: str | None


class Dialing(Struct, frozen=True, kw_only=True):
    """How connections are made, and how much is taken in over them."""

    connect_timeout: float = CONNECT_TIMEOUT
    max_answer: int | None = None
    """In bytes; None: `MAX_ANSWER`."""
    check_address: Callable[[str], None] | None = None
    """Raises `OSError` for an IP address that is not to be connected to. Asked for each, whatever a name led to."""
    resolver: abc.AbstractResolver | None = None
    """Who looks names up; None: the threads that the whole process shares."""


class AnswerTooLarge(BadAnswer):
    """The answer is larger than we are willing to hold; ask for less of it."""


class _Broken(aiohttp.ClientError):
    """A connection that failed after the request may have been sent."""


async def _no_hidden_retry(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Keep aiohttp from repeating a request on a connection that broke: it may have been carried out.

    Reads are kept from it too, since a broken connection tells a reflector something.
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
    """Connections that are used alike. Closed, once retired, with the last request on them.

    To close them earlier would leave that request hanging: nobody tells it.
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
        """Send what comes next by another connection; what is under way finishes on the old one.

        Raises `ConfigError`, and changes nothing, where that one cannot be used.
        """
        self._load(connection)
        self._retire()

    def break_off(self) -> None:
        """Break all connections now, with all that is under way on them: a server that fell silent never would."""
        self._retire()
        for each in tuple(self._sockets):
            with contextlib.suppress(OSError):  # not connected yet, or no longer
                each.shutdown(socket.SHUT_RDWR)

    async def close(self) -> None:
        """Close all connections."""
        self.break_off()  # also those that still wait for TLS's goodbye
        for pool in self._retired:
            await (pool.closing or pool.session.close())

    def _retire(self) -> None:
        """Send what comes next by new connections."""
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
    ) -> Answer:
        """Send one request and read the whole answer. Raises `Unreachable`, never for a status."""
        limits = self._limits if timeout is None else self._limit(timeout)
        try:
            with self._pool or self._open() as session:
                async with self._request(session, method, path, headers, body, limits=limits) as response:
                    content = await _read(response, self._dialing.max_answer or MAX_ANSWER)
                    return Answer(response.status, content, response.headers.get("Retry-After"))
        except (aiohttp.ClientError, OSError) as error:
            raise self._failure(error, changes=method != "GET") from None

    @asynccontextmanager
    async def stream(
        self, path: str, headers: Mapping[str, str], silence: float
    ) -> AsyncIterator[tuple[int, str | None, AsyncIterator[bytes]]]:
        """GET an answer without end: status, Retry-After, chunks. No byte for `silence` seconds is a failure."""
        limits = aiohttp.ClientTimeout(total=None, connect=self._dialing.connect_timeout, sock_read=silence)
        try:
            with self._pool or self._open() as session:
                async with self._request(session, "GET", path, headers, limits=limits) as response:
                    try:
                        yield response.status, response.headers.get("Retry-After"), response.content.iter_any()
                    finally:
                        # Not read to its end: a server that fell silent will not answer TLS's goodbye either.
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
            # encoded: paths and queries are quoted already, and quoting twice would reach another object
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
        """Name a failure. Exceptions of aiohttp hold the headers of the request, and with them the token: keep none."""
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
        # No limit: the session bounds what is in flight, and waiting in the pool would count as waiting to connect.
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
    """Read at most so many bytes, counted as they are after any decompression."""
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
    """Write a query string, without what is None or empty."""
    given = {name: str(value) for name, value in parameters.items() if value not in {None, ""}}
    return f"?{URL.build(query=given).raw_query_string}" if given else ""
