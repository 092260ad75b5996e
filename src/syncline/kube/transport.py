"""One attempt at one HTTP request to one API server: bytes out, bytes in, and failures named for what they mean.

Nothing is sent twice here, and aiohttp is kept from it too: whether a request may be repeated depends on its verb and
on what became of it, which is the session's business.
"""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple

import aiohttp
from aiohttp import hdrs
from yarl import URL

from syncline import __version__
from syncline.kube.config import Connection
from syncline.kube.credentials import tls_context
from syncline.kube.errors import BadAnswer, Unreachable

CONNECT_TIMEOUT = 10.0
MAX_ANSWER = 64 * 1024 * 1024
_HEADERS = {"User-Agent": f"syncline/{__version__}", "Accept-Encoding": "identity"}


class Answer(NamedTuple):
    """What the server said."""

    status: int
    body: bytes
    retry_after: str | None


class TooLarge(BadAnswer):
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


class Transport:
    """A pool of connections to one API server. Opened by the first request; close it."""

    def __init__(self, connection: Connection, *, timeout: float) -> None:
        self._server = connection.server
        self._proxy = connection.proxy_url
        self._server_name = connection.tls_server_name
        self._tls: ssl.SSLContext | bool = tls_context(connection) if connection.server.startswith("https:") else True
        self._limits = _limits(timeout)
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections."""
        if self._session:
            await self._session.close()

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
        limits = self._limits if timeout is None else _limits(timeout)
        try:
            async with self._request(method, path, headers, body, limits) as response:
                return Answer(response.status, await _read(response), response.headers.get("Retry-After"))
        except (aiohttp.ClientError, OSError) as error:
            raise self._failure(error, changes=method != "GET") from None

    @asynccontextmanager
    async def stream(
        self, path: str, headers: Mapping[str, str], silence: float
    ) -> AsyncIterator[tuple[int, str | None, AsyncIterator[bytes]]]:
        """GET an answer without end: status, Retry-After, chunks. No byte for `silence` seconds is a failure."""
        limits = aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT, sock_read=silence)
        try:
            async with self._request("GET", path, headers, None, limits) as response:
                try:
                    yield response.status, response.headers.get("Retry-After"), response.content.iter_any()
                finally:
                    # Broken off, not read to its end: a server that fell silent will not answer TLS's goodbye either.
                    if response.connection is not None and response.connection.transport is not None:
                        response.connection.transport.abort()
        except (aiohttp.ClientError, OSError) as error:
            raise self._failure(error, changes=False) from None

    def _request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, limits: aiohttp.ClientTimeout
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        session = self._session or self._new_session()
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
        if isinstance(error, _NOT_CONNECTED):
            return Unreachable(f"cannot connect to {self._server}: {_cause(error)}")
        if isinstance(error, TimeoutError):
            return Unreachable(f"{self._server} did not answer in time", ambiguous=changes)
        return Unreachable(f"the connection to {self._server} broke: {_cause(error)}", ambiguous=changes)

    def _new_session(self) -> aiohttp.ClientSession:
        # No limit: the session bounds what is in flight, and waiting in the pool would count as waiting to connect.
        connector = aiohttp.TCPConnector(ssl=self._tls, limit=0)
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=_HEADERS,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            middlewares=(_no_hidden_retry,),
            requote_redirect_url=False,
        )
        return self._session


def _limits(timeout: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=timeout, connect=CONNECT_TIMEOUT, sock_connect=CONNECT_TIMEOUT)


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """Read at most MAX_ANSWER bytes, counted as they are after any decompression."""
    announced = response.content_length or 0
    if 0 < announced <= MAX_ANSWER and hdrs.CONTENT_ENCODING not in response.headers:
        return await response.read()
    size, chunks = 0, []
    if announced <= MAX_ANSWER:
        async for chunk in response.content.iter_any():
            size += len(chunk)
            if size > MAX_ANSWER:
                break
            chunks.append(chunk)
    if max(size, announced) > MAX_ANSWER:
        response.close()
        raise TooLarge(f"the answer is larger than {MAX_ANSWER >> 20} MiB", ambiguous=response.method != "GET")
    return b"".join(chunks)


def _cause(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return str(error.certificate_error)
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return str(error.os_error)
    if isinstance(error, aiohttp.ClientConnectorError):
        known = os.strerror(error.errno) if error.errno and error.errno > 0 else None
        return known or error.strerror or type(error.os_error).__name__
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered {error.status}"
    if isinstance(error, asyncio.IncompleteReadError):
        return "closed in the middle of an answer"
    return str(error) or type(error).__name__


def query_of(parameters: Mapping[str, Any]) -> str:
    """Write a query string, without what is None or empty."""
    given = {name: str(value) for name, value in parameters.items() if value not in {None, ""}}
    return f"?{URL.build(query=given).raw_query_string}" if given else ""
