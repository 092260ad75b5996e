"""The event loop of synchronous tests ends with everything that is on it."""

import asyncio
import socket
from contextlib import closing

from syncline.testing.loop import OnLoop


class Listener(OnLoop):
    """Accepts connections, and never closes one."""

    thread_name = "listener"
    port: int

    async def _open(self) -> None:
        self._accepted = asyncio.Event()
        self._server = await asyncio.start_server(lambda *_: self._accepted.set(), "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        await self._accepted.wait()
        self._server.close()


def test_a_loop_closes_the_connections_that_nobody_has_closed() -> None:
    with closing(socket.socket()) as client:
        with Listener() as listener:
            client.connect(("127.0.0.1", listener.port))
        assert client.recv(1) == b""
