"""One connection to an API server, which carries one request at a time, and the pool that keeps connections open.

aiohttp connects: names, addresses, proxies and TLS are its part. The requests are sent without it, because its
generality costs more processor time than everything else in a request. Nothing is sent twice here.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import aiohttp
from aiohttp.connector import Connection as Dialed

from syncline.kube.answers import AnswerHead, AnswerReader, MalformedAnswer

# Less than any server keeps an idle connection.
KEEP_IDLE = 15.0
# TLS passes on what it gets at once, however much it is, and counts it as sent.
_PIECE = 64 * 1024
# What of a stream may wait for its reader.
_STREAM_BUFFER = 1024 * 1024


class ContentTooLong(Exception):  # noqa: N818 - it is not an error of the connection
    """An answer is larger than the limit."""


class HttpConnection(asyncio.Protocol):
    """A connection. `ask`, then read the answer as a whole, or `head` and `pieces`; then `release`.

    It is used again only after an answer that ended as announced. After anything else it is closed.
    """

    def __init__(self, dialed: Dialed, pool: "Pool") -> None:
        transport, handler = dialed.transport, dialed.protocol
        if transport is None or handler is None or handler.should_close or transport.is_closing():
            dialed.close()
            raise aiohttp.ClientConnectionError("closed before a request")
        self._loop = asyncio.get_running_loop()
        self._dialed = dialed
        self._handler = handler
        self._transport = transport
        self._pool = pool
        self._reader: AnswerReader | None = None
        # Not a list of pieces: a server can send any number of them, of one byte each.
        self._content = bytearray()
        self._most: int | None = 0
        self._waiter: asyncio.Future[None] | None = None
        self._failure: Exception | None = None
        """Why the answer cannot be read to its end."""
        self._closed = False
        self._paused = False
        self._silence: float | None = None
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None
        transport.set_protocol(self)

    @property
    def is_usable(self) -> bool:
        """Whether the connection is open, and has not been idle for too long."""
        return not self._closed and not self._transport.is_closing() and self._loop.time() < self._deadline

    def ask(self, request: bytes, *, deadline: float, most: int) -> None:
        """Send a request. Its answer, of `most` bytes at most, must be complete at the deadline."""
        self._begin(deadline, most, None)
        for at in range(0, len(request), _PIECE):
            self._transport.write(request[at : at + _PIECE])

    def ask_stream(self, request: bytes, *, silence: float) -> None:
        """Send a request with an endless answer. It fails after `silence` seconds without a byte."""
        self._begin(self._loop.time() + silence, None, silence)
        self._transport.write(request)

    async def answer(self) -> tuple[AnswerHead, bytes]:
        """Return the whole answer."""
        reader = self._reader
        assert reader is not None  # noqa: S101 - it was asked
        while not reader.ended:
            await self._news()
        if self._failure is not None:  # it has ended, and is too large
            raise self._failure
        assert reader.head is not None  # noqa: S101 - it has ended
        return reader.head, bytes(self._content)

    async def head(self) -> AnswerHead:
        """Return the begin of the answer."""
        reader = self._reader
        assert reader is not None  # noqa: S101 - it was asked
        while reader.head is None:
            await self._news()
        return reader.head

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the content of a stream, as it comes."""
        reader = self._reader
        assert reader is not None  # noqa: S101 - it was asked
        while True:
            if self._content:
                piece = bytes(self._content)
                self._content.clear()
                if self._paused:
                    self._paused = False
                    self._transport.resume_reading()
                    self._hear()
                yield piece
            elif reader.ended:
                return
            else:
                await self._news()

    def release(self) -> None:
        """Keep the connection for the next request if the answer has ended as announced; close it otherwise."""
        reader, self._reader = self._reader, None
        self._content = bytearray()
        sent = not self._transport.get_write_buffer_size()
        if reader is not None and reader.ends_clean and sent and not self._closed:
            # The timer of the request is late for this, and closes it then.
            self._deadline = self._loop.time() + KEEP_IDLE
            self._pool.keep(self)
        else:
            self.abort()

    def abort(self) -> None:
        """Close the connection now; a request without its whole answer fails."""
        self._fail(ConnectionError("closed by the operator"))

    def connection_made(self, transport: Any) -> None:
        """Do nothing: the connection was made before."""

    def data_received(self, data: bytes) -> None:
        """Read the next bytes of the answer."""
        if self._closed:
            return
        if self._reader is None or self._reader.ended:  # nobody asked
            self.abort()
            return
        reader = self._reader
        try:
            for piece in reader.feed(data):
                self._content += piece
        except MalformedAnswer as error:
            self._fail(error)
            return
        self._hear()
        if self._most is None:
            self._bound()
            self._wake()
        elif len(self._content) + reader.announced > self._most:
            self._failure = ContentTooLong()
            self.abort()
        elif reader.ended:
            self._wake()

    def eof_received(self) -> None:
        """Note that the server sends nothing more. TLS needs a while to end after that."""
        self._closed = True

    def connection_lost(self, error: Exception | None) -> None:
        """Let the request fail, except where an answer ends with its connection, and that without an error."""
        self._closed = True
        if self._failure is None and self._reader is not None and not self._reader.ended:
            self._failure = error
            try:
                if error is None:
                    self._reader.close()
            except MalformedAnswer as unfinished:
                self._failure = unfinished
        if self._timer is not None:
            self._timer.cancel()
        self._wake()
        self._pool.drop(self)
        self._handler.connection_lost(error)
        self._dialed.close()

    def _begin(self, deadline: float, most: int | None, silence: float | None) -> None:
        self._reader, self._most, self._silence = AnswerReader(), most, silence
        self._deadline = deadline
        if self._timer is not None and deadline < self._timer.when():
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self._loop.call_at(deadline, self._check_time)

    def _bound(self) -> None:
        """Read no more of a stream, while too much of it waits for its reader."""
        if len(self._content) > _STREAM_BUFFER and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        if self._paused:
            self._deadline = float("inf")  # the silence is ours

    def _hear(self) -> None:
        if self._silence is not None:
            self._deadline = self._loop.time() + self._silence

    def _check_time(self) -> None:
        """End what takes too long. One timer serves all requests of a connection: most deadlines are never reached."""
        self._timer = None
        now = self._loop.time()
        if now < self._deadline:
            self._timer = self._loop.call_at(min(self._deadline, now + KEEP_IDLE), self._check_time)
        else:
            self._fail(TimeoutError())

    async def _news(self) -> None:
        """Wait for the next bytes. Raises the failure of the connection."""
        if self._failure is None:
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self._failure is not None:
            raise self._failure

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        self._closed = True
        if self._reader is not None and not self._reader.ended:
            self._failure = self._failure or error
        # Not at once: TLS may be in the middle of passing on the bytes that are the cause.
        self._loop.call_soon(self._transport.abort)
        self._wake()


class Pool:
    """Connections with the same settings. After `retire`, each is closed with its request."""

    def __init__(self, connector: aiohttp.BaseConnector) -> None:
        self.closing: asyncio.Task[None] | None = None
        self._connector = connector
        self._idle: list[HttpConnection] = []
        self._open: set[HttpConnection] = set()
        self._dialing = 0
        self._retired = False

    @property
    def closed(self) -> bool:
        """Whether nothing is left of it."""
        return self._connector.closed

    def idle(self) -> HttpConnection | None:
        """Return an open connection, the last used first."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
            connection.abort()
        return None

    async def dial(self, request: aiohttp.ClientRequest, limits: aiohttp.ClientTimeout) -> HttpConnection:
        """Return a new connection to where a request of aiohttp goes. Raises the errors of aiohttp."""
        self._dialing += 1
        try:
            connection = HttpConnection(await self._connector.connect(request, [], limits), self)
            self._open.add(connection)
            return connection
        except TimeoutError as error:
            raise aiohttp.ConnectionTimeoutError("not in time") from error
        finally:
            self._dialing -= 1
            self._close_if_done()

    def keep(self, connection: HttpConnection) -> None:
        """Take back a connection."""
        if self._retired:
            connection.abort()
        else:
            self._idle.append(connection)

    def drop(self, connection: HttpConnection) -> None:
        """Forget a closed connection."""
        self._open.discard(connection)
        with suppress(ValueError):
            self._idle.remove(connection)
        self._close_if_done()

    def retire(self) -> None:
        """Take no more requests; those that have begun are not disturbed."""
        self._retired = True
        for connection in self._idle:
            connection.abort()
        self._idle.clear()
        self._close_if_done()

    async def close(self) -> None:
        """Close all connections, with their requests."""
        self.retire()
        for connection in tuple(self._open):
            connection.abort()
        self._close_connector()
        if self.closing is not None:
            await self.closing

    def _close_if_done(self) -> None:
        if self._retired and not self._open and not self._dialing:
            self._close_connector()

    def _close_connector(self) -> None:
        if self.closing is None:
            self.closing = asyncio.ensure_future(self._connector.close())
