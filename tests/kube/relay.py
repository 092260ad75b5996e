"""A TCP relay between a client and a server, that can fall silent or break."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Relay:
    """Passes bytes on, in both directions, until told otherwise. It knows nothing of what it carries."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._passing = asyncio.Event()
        self._passing.set()
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self.refusing = False

    def hold(self) -> None:
        """Carry nothing until told to go on; nothing is lost."""
        self._passing.clear()

    def go_on(self) -> None:
        """Carry again, what was held first."""
        self._passing.set()

    def fall_silent(self) -> None:
        """Carry nothing more on the connections that are open, and tell nobody. New ones work."""
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()

    def break_off(self) -> None:
        """Reset all open connections."""
        for writer in tuple(self._open):
            writer.transport.abort()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client."""
        if self.refusing:
            writer.transport.abort()
            return
        self._open.add(writer)
        try:
            there_reader, there_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._open.add(there_writer)
        if self._closed:
            self.break_off()
            return
        for source, sink in ((reader, there_writer), (there_reader, writer)):
            task = asyncio.create_task(self._carry(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while chunk := await source.read(65536):
                await self._passing.wait()
                sink.write(chunk)
                await sink.drain()
        sink.close()

    async def close(self) -> None:
        """End everything."""
        self._closed = True
        self.fall_silent()
        self.break_off()
        for writer in tuple(self._open):
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


@asynccontextmanager
async def relay_to(server: str) -> AsyncIterator[tuple[Relay, str]]:
    """Run a relay to an https URL; yields it, and the URL to use in place of the server's."""
    host, port = server.removeprefix("https://").split(":")
    relay = Relay(host, int(port))
    listener = await asyncio.start_server(relay.accept, "127.0.0.1", 0)
    try:
        yield relay, f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    finally:
        listener.close()
        await relay.close()
