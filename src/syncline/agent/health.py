"""The probe endpoint of the agent, over plain HTTP. It uses no framework: memory in gateway pods is scarce."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from syncline.agent.settings import HEALTH_PATH, OFF, READY_PATH, STARTUP_PATH
from syncline.telemetry.bind import address_of, listen

Probe = Callable[[], tuple[bool, str]]
"""Returns whether a probe succeeds, and the reason."""

MAX_CONNECTIONS = 32
SECONDS = 5.0
_MAX_HEAD = 8192


class HealthEndpoint:
    """A server at `address`, until it is closed."""

    def __init__(self, probes: dict[str, Probe]) -> None:
        self.address = ""
        self._probes = probes
        self._server: asyncio.Server | None = None
        self._connections = 0

    @classmethod
    async def start(cls, bind: str, *, alive: Probe, started: Probe, ready: Probe) -> "HealthEndpoint | None":
        """Listen; None if the bind is 0. Raises `BindError`."""
        if bind == OFF:
            return None
        endpoint = cls({HEALTH_PATH: alive, STARTUP_PATH: started, READY_PATH: ready})
        listening = listen("--health-bind", bind)
        endpoint.address = address_of(listening)
        endpoint._server = await asyncio.start_server(endpoint._serve, sock=listening, limit=_MAX_HEAD)
        return endpoint

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections > MAX_CONNECTIONS:
                return
            async with asyncio.timeout(SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answer(head))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass
        finally:
            self._connections -= 1
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0].decode("ascii", errors="replace")
        probe = self._probes.get(path)
        if method not in (b"GET", b"HEAD"):
            return _response("405 Method Not Allowed", "")
        if probe is None:
            return _response("404 Not Found", f"write {', '.join(self._probes)}\n")
        ok, why = probe()
        text = f"{why}\n" if method == b"GET" else ""
        return _response("200 OK" if ok else "503 Service Unavailable", text)


def _response(status: str, text: str) -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
