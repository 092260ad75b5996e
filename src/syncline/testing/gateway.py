"""An Ignition gateway for tests: its REST interface over real HTTP, over a real data folder, with faults on request.

It implements the documented routes that the agent uses (Ignition 8.3): API tokens, designer sessions, scan locks, scans
and their status, project names, and the state of the gateway. It reads the data folder only at its start and in a scan.
It is not Ignition: it proves nothing about what a real gateway does with the files.
"""

import asyncio
import contextlib
import hashlib
import os
import ssl
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
from aiohttp import web

from syncline.sandbox.kubeconfig import write_private
from syncline.sandbox.pki import Authority
from syncline.testing.loop import OnLoop
from syncline.testing.proxy import CLOSING

TOKEN_HEADER = "X-Ignition-API-Token"  # noqa: S105 - the name of a header
API = "/data/api/v1"
ScanKind = Literal["projects", "config"]
KINDS: tuple[ScanKind, ...] = ("projects", "config")
GatewayStatus = Literal["RUNNING", "STARTING", "NEEDS_COMMISSIONING"]


class GatewayRequest(NamedTuple):
    """A request to the gateway, and its answer."""

    method: str
    path: str
    status: int


class ScannedTree(NamedTuple):
    """The result of a scan."""

    kind: ScanKind
    files: Mapping[str, str]
    """The hashes of all files of its kind (SHA-256), by path below the data folder."""
    locked: bool
    """Whether a lock was held until this scan."""


class _Lock(msgspec.Struct):
    actor: str
    until: float
    since: int


class _ScanState(msgspec.Struct):
    """The times of the ended scans of one kind, for their status."""

    started: float = 0.0
    ends: float = 0.0
    shown: float = 0.0
    """The time when the status shows the end."""
    timestamp: int = 0
    duration: int = 0


class GatewayDouble(OnLoop):
    """A gateway at `url`, for as long as its `with` block lasts. Its attributes can be changed at any time."""

    thread_name = "gateway-double"

    def __init__(self, data: Path | None = None, *, api_key: str = "agent:very-secret-key", tls: bool = False) -> None:
        self.data = data
        self.api_key = api_key
        self.status: GatewayStatus = "RUNNING"
        self.designers: list[tuple[str, str]] = []
        """The open designer sessions: user and project."""
        self.requests: list[GatewayRequest] = []
        self.statuses: dict[str, int] = {}
        """The answers to requests instead of the real ones, by `METHOD /path`."""
        self.delays: dict[str, float] = {}
        """The delays of answers in seconds, by `METHOD /path`."""
        self.delayed: list[str] = []
        """The requests whose answers were delayed, in order."""
        self.scan_seconds = 0.0
        """The duration of a scan."""
        self.lag_seconds = 0.0
        """The delay until the status of a scan shows its end."""
        self.stuck: set[ScanKind] = set()
        """Scans that begin and never end."""
        self.busy: set[ScanKind] = set()
        """Locks that cannot be acquired within the timeout of the caller."""
        self.broken_projects: set[str] = set()
        """Projects that the gateway does not load."""
        self.scans: list[ScannedTree] = []
        self.projects: list[str] = []
        """The projects that it has loaded."""
        self.port = 0
        self._tls = tls
        self._locks: dict[ScanKind, _Lock] = {}
        self._states: dict[ScanKind, _ScanState] = {kind: _ScanState() for kind in KINDS}
        self._running: set[asyncio.Task[None]] = set()
        self._runner: web.ServerRunner | None = None

    def _prepare(self, stack: ExitStack) -> None:
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="syncline-gateway-")))

    @property
    def url(self) -> str:
        """The address of the gateway."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def hold_lock(self, kind: ScanKind, *, actor: str = "another", seconds: float = 3600.0) -> None:
        """Let another client hold a scan lock."""
        self._locks[kind] = _Lock(actor, time.monotonic() + seconds, time.time_ns())

    def release_lock(self, kind: ScanKind) -> None:
        """End a scan lock."""
        self._locks.pop(kind, None)

    def lock_holder(self, kind: ScanKind) -> str:
        """Return the holder of a scan lock, or an empty text."""
        lock = self._locks.get(kind)
        return lock.actor if lock is not None and lock.until > time.monotonic() else ""

    def count(self, method: str, path: str) -> int:
        """Return the number of requests to a route, whatever the answers were."""
        return sum(asked.method == method and asked.path == path for asked in tuple(self.requests))

    def stop(self) -> None:
        """Stop the gateway: its port is closed, and locks are lost."""
        self._thread.run(self._stop())
        self._locks.clear()

    def start(self) -> None:
        """Start the gateway again, at the same port."""
        self._thread.run(self._start())

    async def _open(self) -> None:
        await self._start()

    async def _close(self) -> None:
        for scan in self._running:
            scan.cancel()
        await self._stop()
        await asyncio.sleep(CLOSING)

    async def _start(self) -> None:
        self.projects = self._project_names()
        self._runner = web.ServerRunner(
            web.Server(self._serve, handler_cancellation=True), access_log=None, shutdown_timeout=0.1
        )
        await self._runner.setup()
        context = self._context() if self._tls else None
        await web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=context, reuse_address=True).start()
        self.port = self._runner.addresses[0][1]

    async def _stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def _context(self) -> ssl.SSLContext:
        pair = self._folder / "serving.pem"
        write_private(pair, b"".join(Authority.create().serving()))
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pair)
        return context

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        route = f"{request.method} {request.path}"
        body = await request.read()
        if delay := self.delays.get(route, 0.0):
            self.delayed.append(route)
            await asyncio.sleep(delay)
        status = self.statuses.get(route, 0)
        answer = web.Response(status=status) if status else await self._answer(request, body)
        self.requests.append(GatewayRequest(request.method, request.path, answer.status))
        return answer

    async def _answer(self, request: web.BaseRequest, body: bytes) -> web.Response:
        if request.path == "/system/gwinfo":
            return web.Response(text=f"ContextStatus={self.status};RedundantState=Good;Role=Independent;")
        if not request.path.startswith(f"{API}/"):
            return web.Response(status=404)
        if self.status != "RUNNING" or request.headers.get(TOKEN_HEADER) != self.api_key:
            return web.Response(status=401 if self.status == "RUNNING" else 503)
        route = request.path.removeprefix(f"{API}/")
        if (request.method, route) == ("GET", "designers"):
            return web.json_response(self._designer_list())
        if (request.method, route) == ("GET", "projects/names"):
            return web.json_response(sorted(self.projects))
        what, _, kind = route.partition("/")
        return await self._answer_scan(request.method, what, kind, body)

    async def _answer_scan(self, method: str, what: str, name: str, body: bytes) -> web.Response:
        kind = next((kind for kind in KINDS if kind == name), None)
        match method, what:
            case ("GET", "scan") if kind:
                return web.json_response(self._scan_status(kind))
            case ("POST", "scan") if kind:
                return self._scan(kind)
            case ("GET", "scan-lock") if kind:
                return self._lock_status(kind)
            case ("POST", "scan-lock") if kind:
                return await self._take_lock(kind, body)
        return web.Response(status=404)

    def _designer_list(self) -> dict[str, Any]:
        items = [
            {"id": str(number), "user": user, "project": project, "address": "10.0.0.9", "uptime": 60}
            for number, (user, project) in enumerate(self.designers)
        ]
        return {"items": items, "metadata": {"total": len(items)}}

    def _scan(self, kind: ScanKind) -> web.Response:
        before = self._scan_status(kind)
        locked = self._locks.pop(kind, None) is not None
        state = self._states[kind]
        state.started = time.monotonic()
        state.ends = float("inf") if kind in self.stuck else state.started + self.scan_seconds
        state.shown = state.ends + self.lag_seconds
        scan = asyncio.create_task(self._run_scan(kind, locked=locked))
        self._running.add(scan)
        scan.add_done_callback(self._running.discard)
        return web.json_response(before)

    async def _run_scan(self, kind: ScanKind, *, locked: bool) -> None:
        state = self._states[kind]
        self.scans.append(ScannedTree(kind, self._files(kind), locked))
        if kind in self.stuck:
            return
        await asyncio.sleep(self.scan_seconds)
        if kind == "projects":
            self.projects = self._project_names()
        await asyncio.sleep(self.lag_seconds)
        # Its clock may be wrong, but it advances.
        state.timestamp = max(state.timestamp + 1, time.time_ns() // 1_000_000)
        state.duration = int(self.scan_seconds * 1000)

    def _scan_status(self, kind: ScanKind) -> dict[str, Any]:
        state = self._states[kind]
        return {
            "scanActive": state.started <= time.monotonic() < state.ends,
            "lastScanTimestamp": state.timestamp,
            "lastScanDuration": state.duration,
        }

    async def _take_lock(self, kind: ScanKind, body: bytes) -> web.Response:
        try:
            asked = msgspec.json.decode(body, type=dict[str, int])
            acquire, hold = asked["acquireTimeout"], asked["holdTimeout"]
        except (ValueError, KeyError):
            return web.Response(status=400)
        if self.lock_holder(kind):
            return web.Response(status=409)
        if kind in self.busy:
            await asyncio.sleep(acquire)
            return web.Response(status=408)
        self.hold_lock(kind, actor=self.api_key.partition(":")[0], seconds=hold)
        return self._lock_status(kind)

    def _lock_status(self, kind: ScanKind) -> web.Response:
        if not (holder := self.lock_holder(kind)):
            return web.Response(status=204)
        lock = self._locks[kind]
        left = max(0, int(lock.until - time.monotonic()))
        return web.json_response({"timestamp": lock.since, "remaining": left, "actor": holder})

    def _project_names(self) -> list[str]:
        if self.data is None or not (self.data / "projects").is_dir():
            return []
        found = (path for path in (self.data / "projects").iterdir() if (path / "project.json").is_file())
        return sorted(path.name for path in found if path.name not in self.broken_projects)

    def _files(self, kind: ScanKind) -> dict[str, str]:
        if self.data is None:
            return {}
        hashes = {}
        for folder, _, names in os.walk(self.data / kind):
            for path in (Path(folder) / name for name in names):
                with contextlib.suppress(OSError):
                    hashes[str(path.relative_to(self.data))] = hashlib.sha256(path.read_bytes()).hexdigest()
        return hashes
