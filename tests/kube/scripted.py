"""A loopback server that answers as it is told, for faults that a real API server cannot be made to show."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from msgspec import Struct

from syncline.kube import Connection

Step = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
TOKEN = "a-token-that-nobody-may-see"


class Received(Struct, frozen=True):
    """A request, as the server saw it."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


class ScriptedServer:
    """Answers each request with the next step; the last one is repeated."""

    connection: Connection

    def __init__(self) -> None:
        self.requests: list[Received] = []
        self._steps: deque[Step] = deque()

    def answer(self, *steps: Step) -> None:
        """Say what comes next."""
        self._steps = deque(steps)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        self.requests.append(Received(request.method, request.path, request.query, request.headers, body))
        return await (self._steps.popleft() if len(self._steps) > 1 else self._steps[0])(request)


@asynccontextmanager
async def scripted_server() -> AsyncIterator[ScriptedServer]:
    """Run one."""
    server = ScriptedServer()
    runner = web.ServerRunner(web.Server(server.handle), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.connection = Connection(server=f"http://127.0.0.1:{runner.addresses[0][1]}", name="scripted", token=TOKEN)
    try:
        yield server
    finally:
        await runner.cleanup()


def says(body: Any, status: int = 200, **headers: str) -> Step:
    """Answer with JSON."""
    text = json.dumps(body)

    async def step(_: web.BaseRequest) -> web.Response:
        return web.Response(text=text, status=status, headers=headers, content_type="application/json")

    return step


def refuses(code: int, reason: str = "", message: str = "", *, retry_after: str | None = None, **details: Any) -> Step:
    """Answer with a Status."""
    status = {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}
    return says(status, code, **({"Retry-After": retry_after} if retry_after else {}))


async def hangs_up(request: web.BaseRequest) -> web.Response:
    """Take the request and close the connection without a word."""
    assert request.transport
    request.transport.abort()
    return web.Response()


async def says_nothing(_: web.BaseRequest) -> web.Response:
    """Take the request and never answer."""
    await asyncio.Event().wait()
    return web.Response()


def streams(*lines: bytes | Mapping[str, Any], end: str = "close") -> Step:
    """Answer a watch: events as dicts, or bytes as they are; then "close" cleanly, "cut" or "hold" the connection."""

    async def step(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for line in lines:
            await response.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
        if end == "hold":
            await asyncio.Event().wait()
        if end == "cut":
            assert request.transport
            request.transport.abort()
        return response

    return step


def config_map(name: str, version: int, uid: str = "", **data: Any) -> dict[str, Any]:
    """Make an object."""
    metadata = {"name": name, "namespace": "team", "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": data}


def event(kind: str, name: str, version: int, uid: str = "", **data: Any) -> dict[str, Any]:
    """Make a line of a watch."""
    return {"type": kind, "object": config_map(name, version, uid, **data)}


def bookmark(version: int, *, ends_list: bool = False) -> bytes:
    """Make a bookmark, compact as the server writes it."""
    metadata: dict[str, Any] = {"resourceVersion": str(version), "creationTimestamp": None}
    if ends_list:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    line = {"type": "BOOKMARK", "object": {"kind": "ConfigMap", "metadata": metadata}}
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def listing(version: int, *items: Mapping[str, Any], more: str = "") -> Step:
    """Answer a list."""
    return says({"metadata": {"resourceVersion": str(version), "continue": more}, "items": items})
