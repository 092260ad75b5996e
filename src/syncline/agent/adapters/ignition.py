"""The adapter of Ignition gateways: scans of changed files, under a scan lock, and a check that each scan is complete.

The gateway releases a scan lock when it scans, or when the lock expires.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Self

import msgspec
import structlog
from msgspec import Struct

from syncline.agent.adapters import ApplyError, ApplySession, Availability
from syncline.agent.local_http import LocalAnswer, LocalHttp, UnreachableError
from syncline.core.gateway_plan import GatewayPlan, SessionPolicy

log = structlog.get_logger(__name__)

API = "/data/api/v1"
TOKEN_HEADER = "X-Ignition-API-Token"  # noqa: S105 - the name of a header

PROJECTS, CONFIG = "projects", "config"
ACQUIRE_SECONDS = 10
HOLD_SECONDS = 60
SCAN_SECONDS = 120.0
"""The timeout of a scan."""
POLL_SECONDS = 0.5
REQUEST_SECONDS = 10.0
PROBE_SECONDS = 3.0
RELEASE_SECONDS = 5.0

_HELD, _OK = 200, 300
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _TIMEOUT, _CONFLICT, _STARTING = 401, 403, 404, 408, 409, 503
_MAX_KEY_BYTES = 4096
_NAMED = 5
_STATUS = re.compile(r"(?:^|;)\s*ContextStatus=([A-Z_]+)")

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]


class _Designer(Struct):
    project: str | None = None
    user: str | None = None


class _Designers(Struct):
    items: list[_Designer]


class _ScanStatus(Struct, rename="camel"):
    scan_active: bool = False
    last_scan_timestamp: int | None = None


def scan_kinds(paths: Iterable[str]) -> frozenset[str]:
    """Return the scans that a change of files needs. Other files need no scan. Pure."""
    return frozenset(kind for path in paths if (kind := path.partition("/")[0]) in (PROJECTS, CONFIG))


def projects_of(paths: Iterable[str]) -> frozenset[str]:
    """Return the names of the projects that files belong to. Pure."""
    parts = (path.split("/", 2) for path in paths)
    return frozenset(part[1] for part in parts if len(part) > 2 and part[0] == PROJECTS)  # noqa: PLR2004 - kind/name/rest


def expected_projects(plan: GatewayPlan) -> tuple[str, ...]:
    """Return the projects that a gateway lists after it has reloaded the files of a plan. Pure."""
    paths = (file.path.split("/") for file in plan.files)
    return tuple(sorted(part[1] for part in paths if len(part) == 3 and part[0::2] == [PROJECTS, "project.json"]))  # noqa: PLR2004


class IgnitionAdapter:
    """A gateway at one address. The file with its API key is read again for each request."""

    def __init__(self, http: LocalHttp, key_file: str, designer_sessions: SessionPolicy) -> None:
        self._http = http
        self._key_file = key_file
        self.designer_sessions = designer_sessions

    def steps(self, paths: Iterable[str]) -> frozenset[str]:
        """Return the scans that a change needs."""
        return scan_kinds(paths)

    async def availability(self) -> Availability:
        """Ask the gateway for its state, which needs no API key."""
        try:
            answer = await self._http.send("GET", "/system/gwinfo", seconds=PROBE_SECONDS)
        except UnreachableError as error:
            return Availability(running=False, message=str(error))
        found = _STATUS.search(answer.body.decode(errors="replace"))
        if answer.status >= _OK or found is None:
            return Availability(running=False, message=f"the gateway answers {answer.status} and no state")
        if found[1] == "RUNNING":
            return Availability(running=True)
        hint = ": commission it, or wait until it has started" if "COMMISSIONING" in found[1] else ""
        return Availability(running=False, message=f"the gateway is in state {found[1]}{hint}")

    async def check(self, steps: frozenset[str], paths: Iterable[str]) -> None:
        """Check for open designers and for locks of others."""
        await self.check_designers(projects_of(paths))
        for kind in sorted(steps):
            answer = await self.call("GET", f"/scan-lock/{kind}")
            if answer.status == _HELD:
                raise _locked(kind)

    async def check_designers(self, projects: frozenset[str]) -> None:
        """Raise `ApplyError` if somebody edits a project and the policy does not allow a change of it."""
        policy = self.designer_sessions
        if not projects or policy == "proceed":
            return
        answer = await self.call("GET", "/designers")
        open_in = sorted({one.project or "" for one in _parsed(answer, _Designers, "designers").items} & projects)
        if open_in:
            shown = ", ".join(open_in[:_NAMED])
            what = "waits until they are closed" if policy == "wait" else "publishes nothing while they are open"
            raise ApplyError(
                "DesignerSessionsOpen",
                f"designer sessions are open in {shown}: the agent {what} (ignition.designerSessionPolicy: {policy})",
                waits=policy == "wait",
            )

    def session(self) -> "AbstractAsyncContextManager[ApplySession]":
        """Begin a publish."""
        return IgnitionSession(self)

    async def call(
        self, method: str, path: str, body: dict[str, int] | None = None, *, seconds: float = REQUEST_SECONDS
    ) -> LocalAnswer:
        """Send a request with the API key. Raises `ApplyError` if it is refused or there is no answer."""
        headers = {TOKEN_HEADER: self._key(), "Accept": "application/json"}
        content = None
        if body is not None:
            headers["Content-Type"], content = "application/json", msgspec.json.encode(body)
        try:
            answer = await self._http.send(method, API + path, headers=headers, body=content, seconds=seconds)
        except UnreachableError as error:
            raise ApplyError("GatewayUnavailable", str(error)) from None
        if answer.status in (_UNAUTHORIZED, _FORBIDDEN):
            raise ApplyError(
                "GatewayRefused",
                f"the gateway refuses the API key ({answer.status} for {method} {path}): check the Secret, and that the"
                " security level of the key may access, read and write",
            )
        if answer.status == _STARTING:
            raise ApplyError("GatewayUnavailable", f"the gateway is not ready ({answer.status} for {method} {path})")
        return answer

    def _key(self) -> str:
        if not self._key_file:
            raise ApplyError("GatewayRefused", "there is no API key: name a Secret in gateway.apiKeySecretRef")
        try:
            with Path(self._key_file).open("rb") as file:
                key = file.read(_MAX_KEY_BYTES).decode("ascii").strip()
        except (OSError, ValueError):
            raise ApplyError(
                "GatewayRefused", "the file with the API key cannot be read: check that its Secret has the key"
            ) from None
        if not key or not key.isprintable():
            raise ApplyError("GatewayRefused", "the API key is empty or not one line: write NAME:SECRET")
        return key


class IgnitionSession:
    """One publish to a gateway."""

    def __init__(self, gateway: IgnitionAdapter, clock: Clock = time.monotonic, sleep: Sleep = asyncio.sleep) -> None:
        self._gateway = gateway
        self._clock = clock
        self._sleep = sleep
        self._held: dict[str, float] = {}
        """The locks, with the time when each one expires."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._held:
            # Also after a cancellation: the lock blocks changes by others.
            await asyncio.shield(asyncio.ensure_future(self._release()))

    async def acquire(self, steps: frozenset[str], paths: Iterable[str]) -> None:
        """Check for designers, and take the locks of the scans."""
        await self._gateway.check_designers(projects_of(paths))
        for kind in sorted(steps):
            await self._lock(kind)

    async def apply(self, steps: frozenset[str], plan: GatewayPlan) -> str:
        """Scan, wait for the end of each scan, and check the projects."""
        started = self._clock()
        before = {kind: await self._scan(kind) for kind in sorted(steps)}
        for kind, status in before.items():
            await self._wait_for_scan(kind, status)
        if PROJECTS in steps:
            await self._verify(expected_projects(plan))
        return f"{' and '.join(before)} scanned in {self._clock() - started:.1f} s" if before else ""

    async def _lock(self, kind: str) -> None:
        # If the answer is lost, the lock is left to expire: it may belong to somebody else.
        expires = self._clock() + HOLD_SECONDS
        answer = await self._gateway.call(
            "POST",
            f"/scan-lock/{kind}",
            {"acquireTimeout": ACQUIRE_SECONDS, "holdTimeout": HOLD_SECONDS},
            seconds=ACQUIRE_SECONDS + REQUEST_SECONDS,
        )
        if answer.status in (_TIMEOUT, _CONFLICT):
            raise _locked(kind)
        if answer.status >= _OK:
            raise _failed(answer, f"the scan lock of {kind}")
        self._held[kind] = expires

    def _holds(self, kind: str) -> bool:
        """Whether a lock is still ours. A long publish outlives it, and then somebody else may have it."""
        return self._clock() < self._held.get(kind, 0.0)

    async def _scan(self, kind: str) -> _ScanStatus:
        """Start a scan. Return the scan status from before it."""
        if not self._holds(kind):
            self._held.pop(kind, None)
            await self._lock(kind)  # a scan would release the lock of somebody else
        before = await self._status(kind)
        answer = await self._gateway.call("POST", f"/scan/{kind}")
        if answer.status >= _OK:
            raise _failed(answer, f"the scan of {kind}")
        self._held.pop(kind, None)
        return before

    async def _wait_for_scan(self, kind: str, before: _ScanStatus) -> None:
        deadline = self._clock() + SCAN_SECONDS
        while True:
            now = await self._status(kind)
            # The clock of the gateway shows only that a scan has ended since, not when.
            if not now.scan_active and now.last_scan_timestamp != before.last_scan_timestamp:
                return
            if self._clock() > deadline:
                state = "is still active" if now.scan_active else "was not recorded"
                raise ApplyError("ScanFailed", f"the scan of {kind} {state} after {SCAN_SECONDS:.0f} s")
            await self._sleep(POLL_SECONDS)

    async def _status(self, kind: str) -> _ScanStatus:
        answer = await self._gateway.call("GET", f"/scan/{kind}")
        status: _ScanStatus = _parsed(answer, _ScanStatus, f"the status of the scan of {kind}")
        return status

    async def _verify(self, projects: tuple[str, ...]) -> None:
        if not projects:
            return
        answer = await self._gateway.call("GET", "/projects/names")
        listed = _names(_parsed(answer, object, "the names of projects"))
        missing = [name for name in projects if name not in listed]
        if missing:
            shown = ", ".join(missing[:_NAMED])
            raise ApplyError(
                "VerifyFailed", f"the gateway does not list {shown} after the scan: look for the cause in its log"
            )

    async def _release(self) -> None:
        """Release locks by scans, because the API has no other way. A lock that cannot be released expires."""
        for kind in sorted(kind for kind in self._held if self._holds(kind)):
            try:
                await self._gateway.call("POST", f"/scan/{kind}", seconds=RELEASE_SECONDS)
            except ApplyError as error:
                log.warning(
                    "the scan lock could not be released; it ends by itself",
                    scan=kind,
                    seconds=HOLD_SECONDS,
                    error=str(error),
                )
        self._held.clear()


def _locked(kind: str) -> ApplyError:
    return ApplyError("ScanLockHeld", f"somebody else changes the {kind} of the gateway; the agent waits", waits=True)


def _failed(answer: LocalAnswer, what: str) -> ApplyError:
    if answer.status == _NOT_FOUND:
        return ApplyError("ScanFailed", f"the gateway does not know {what}: it needs Ignition 8.3 or newer")
    return ApplyError("ScanFailed", f"the gateway answers {answer.status} to {what}")


def _parsed(answer: LocalAnswer, kind: Any, what: str) -> Any:
    if answer.status >= _OK:
        raise _failed(answer, what)
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (ValueError, RecursionError):
        raise ApplyError("ScanFailed", f"the gateway answers with something else than {what}") from None


def _names(listed: object) -> frozenset[str]:
    """Return the names in a list, or in a list in an envelope. An entry is a name, or an object with a name."""
    if isinstance(listed, dict):
        listed = next((listed[key] for key in ("items", "names", "projects") if key in listed), [])
    entries = listed if isinstance(listed, list) else []
    names = (entry.get("name") if isinstance(entry, dict) else entry for entry in entries)
    return frozenset(name for name in names if isinstance(name, str))
