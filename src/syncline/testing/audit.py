"""Reads the audit log of an API server: the evidence of which requests were sent, and by whom.

log = AuditLog(sandbox)
before = log.mark()
...
assert not log.writes(OPERATOR, since=before)
"""

import contextlib
import json
import secrets
import time
from typing import Any, Self

from msgspec import Struct

from syncline import deploy
from syncline.sandbox import RequestError, Sandbox

OPERATOR = f"system:serviceaccount:{deploy.NAMESPACE}:{deploy.SERVICE_ACCOUNT}"
"""The user name of the operator."""

_READS = frozenset({"get", "list", "watch"})
REVIEWING = frozenset({"authentication.k8s.io", "authorization.k8s.io"})
"""The groups of reviews, which are created to ask something, and change nothing."""
_DENIED = 403
_REFUSED = 400
_PATIENCE = 120.0
_POLL = 0.02


class Entry(Struct, frozen=True, kw_only=True):
    """One answered request."""

    user: str
    impersonated: str
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int
    uri: str
    reviewed: str = ""
    """For an access review: the reviewed user."""

    @classmethod
    def read(cls, event: dict[str, Any]) -> Self:
        """Return the relevant fields of an audit event."""
        about = event.get("objectRef") or {}
        return cls(
            user=event["user"].get("username", ""),
            impersonated=(event.get("impersonatedUser") or {}).get("username", ""),
            verb=event["verb"],
            group=about.get("apiGroup", ""),
            resource=about.get("resource", ""),
            subresource=about.get("subresource", ""),
            namespace=about.get("namespace", ""),
            name=about.get("name", ""),
            code=(event.get("responseStatus") or {}).get("code", 0),
            uri=event["requestURI"],
            reviewed=((event.get("requestObject") or {}).get("spec") or {}).get("user", ""),
        )

    @property
    def changes(self) -> bool:
        """Whether the request could have changed something."""
        return self.verb not in _READS and self.group not in REVIEWING

    @property
    def denied(self) -> bool:
        """Whether the right was missing."""
        return self.code == _DENIED

    @property
    def done(self) -> bool:
        """Whether the request succeeded."""
        return 0 < self.code < _REFUSED

    def __str__(self) -> str:
        what = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        return f"{self.verb} {what} {self.namespace}/{self.name}: {self.code}"


class AuditLog:
    """The audit log of a sandbox that was started with one."""

    def __init__(self, sandbox: Sandbox) -> None:
        if sandbox.audit_log is None:
            raise ValueError("this sandbox keeps no audit log; start it with audit_log=True")
        self._sandbox = sandbox
        self._file = sandbox.audit_log
        # Earlier answers need not be searched for marks.
        self._marked = self._file.stat().st_size if self._file.exists() else 0

    def mark(self) -> int:
        """Return a position in the log, after all requests that were answered before this call."""
        name = f"audit-mark-{secrets.token_hex(6)}"
        with contextlib.suppress(RequestError):  # it is not there, and need only be seen in the log
            self._sandbox.request("GET", f"/api/v1/namespaces/{name}")
        deadline = time.monotonic() + _PATIENCE
        while True:
            content = self._read(self._marked)
            end = content.find(b"\n", found) if (found := content.find(name.encode())) >= 0 else -1
            if end >= 0:
                self._marked += end + 1
                return self._marked
            if time.monotonic() > deadline:
                raise TimeoutError(f"the audit log does not show a request after {_PATIENCE:.0f} s")
            time.sleep(_POLL)

    def entries(self, user: str | None = None, *, since: int = 0, until: int | None = None) -> list[Entry]:
        """Return the answered requests between two marks, of one user or of all. A watch counts at its start."""
        lines = self._read(since, until).splitlines(keepends=True)
        events = (json.loads(line) for line in lines if line.endswith(b"\n"))
        answered = (
            Entry.read(event)
            for event in events
            if event["stage"] == ("ResponseStarted" if event["verb"] == "watch" else "ResponseComplete")
        )
        return [entry for entry in answered if user in (None, entry.user)]

    def writes(self, user: str | None = None, *, since: int = 0, until: int | None = None) -> list[Entry]:
        """Return the requests that could have changed something."""
        return [entry for entry in self.entries(user, since=since, until=until) if entry.changes]

    def _read(self, since: int, until: int | None = None) -> bytes:
        with self._file.open("rb") as file:
            file.seek(since)
            return file.read(-1 if until is None else until - since)
