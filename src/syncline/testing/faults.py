"""Faults between a client and an API server.

A `Fault` is the fault of the requests that a rule selects; `syncline.testing.proxy.FaultProxy` causes it.

    with FaultProxy(sandbox) as proxy:
        proxy.inject(Fault(status=503), when=lambda asked: asked.changes, times=3)
        proxy.inject(Fault(after=operator.kill), when=lambda asked: asked.number == 7)
        proxy.inject(Fault(silent=True), when=lambda asked: asked.verb == "watch")
"""

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct, field

from syncline.testing.audit import REVIEWING

Lines = AsyncIterator[bytes]

_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
_PREFIX = {"api": 2, "apis": 3}


class Cut(Exception):  # noqa: N818 - it is asked for, not a mistake
    """Raised by an edit of events: reset the connection here."""


class Asked(Struct, frozen=True, kw_only=True):
    """A request at the proxy."""

    method: str
    verb: str
    """get, list, watch, create, update, patch or delete."""
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    """The path without the query. It identifies requests that are not for objects, such as /openapi/v3."""
    query: Mapping[str, str] = field(default_factory=dict)
    token: str = ""
    number: int = 0
    """Its number among the requests that may change something, from 1; 0 for other requests."""
    at: float = field(default_factory=time.monotonic)

    @property
    def changes(self) -> bool:
        """Whether the request may change something."""
        return self.method != "GET" and not is_review(self.path)

    @property
    def lists(self) -> bool:
        """Whether it requests all objects of a kind, by a list or at the start of a watch."""
        return self.verb == "list" or "sendInitialEvents" in self.query

    @property
    def follows(self) -> bool:
        """Whether it is a watch from a version of the client."""
        return self.verb == "watch" and not self.lists


class Fault(Struct, frozen=True, kw_only=True):
    """The faults of a request, in the order of the fields. A field that is not set causes no fault."""

    before: Callable[[], object] | None = None
    """Called in a thread before the request is sent."""
    delay: float = 0.0
    """The delay in seconds after that."""
    lost: bool = False
    """The request never reaches the server, and the connection is reset."""
    status: int = 0
    """The request is not sent; this is the status of the answer."""
    retry_after: int | None = None
    """The header of the answer, with `status`."""
    after: Callable[[], object] | None = None
    """Called in a thread after the answer of the server, before the client gets it."""
    cut: bool = False
    """The answer never arrives, and the connection is reset: the client cannot know whether the request succeeded."""
    events: Callable[[Lines], Lines] | None = None
    """For watches: changes the lines, from the start of the watch."""
    silent: bool = False
    """For watches, also open ones: no more lines arrive, and the connection stays open forever."""
    closed_after: float | None = None
    """For watches: the seconds after which the stream ends, as if the server had ended it."""


class Rule:
    """A fault and its requests, until it is lifted or used up."""

    def __init__(self, fault: Fault, when: Callable[[Asked], bool], times: int | None) -> None:
        self.fault = fault
        self.hits: list[Asked] = []
        """All requests that had the fault."""
        self._when = when
        self._left = times

    def lift(self) -> None:
        """End the fault for new requests."""
        self._left = 0

    def befalls(self, asked: Asked) -> bool:
        """Return whether this request has the fault, and count it."""
        if self._left == 0 or not self._when(asked):
            return False
        if self._left is not None:
            self._left -= 1
        self.hits.append(asked)
        return True


def is_review(path: str) -> bool:
    """Whether a request only asks for an identity, or for its rights."""
    return path.startswith(tuple(f"/apis/{group}/" for group in REVIEWING))


def read_request(method: str, target: str, token: str, number: int) -> Asked:
    """Parse a request from its path and query."""
    parts = urlsplit(target)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    path = [part for part in parts.path.split("/") if part]
    if path[:1] == ["clusters"]:  # a workspace of kcp
        path = path[2:]
    rest = path[_PREFIX.get(path[0], len(path)) :] if path else []
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":  # noqa: PLR2004 - namespaces/NAME/..., not the namespace itself
        namespace, rest = rest[1], rest[2:]
    resource, name, subresource = [*rest, "", "", ""][:3]
    verb = _VERBS.get(method, method.lower())
    if verb == "get" and resource and not name:
        verb = "watch" if query.get("watch") == "true" else "list"
    return Asked(
        method=method,
        verb=verb,
        resource=resource,
        subresource=subresource,
        namespace=namespace,
        name=name,
        path=parts.path,
        query=query,
        token=token,
        number=number,
    )


def refusal(status: int) -> dict[str, Any]:
    """Return the body of a refusal of an API server."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": _REASONS.get(status, ""),
        "message": "refused by the fault proxy",
        "code": status,
    }


async def doubled(lines: Lines) -> Lines:
    """Send every event twice."""
    async for line in lines:
        yield line
        yield line


async def swapped(lines: Lines) -> Lines:
    """Send the second of each two events first, if it arrives within a second."""
    async for first in lines:
        coming = asyncio.ensure_future(anext(lines, b""))
        try:
            await asyncio.wait([coming], timeout=1)
            pair = (coming.result(), first) if coming.done() else (first, await coming)
        finally:
            coming.cancel()
        for line in pair:
            yield line


async def replayed(lines: Lines) -> Lines:
    """Send the last few events again after each one."""
    past: deque[bytes] = deque(maxlen=5)
    async for line in lines:
        yield line
        for old in past:
            yield old
        past.append(line)


async def broken(lines: Lines) -> Lines:
    """Cut the first event in the middle, and reset the connection."""
    async for line in lines:
        yield line[: len(line) // 2]
        raise Cut


async def garbled(lines: Lines) -> Lines:
    """Send bytes that are neither JSON nor UTF-8 instead of the first event."""
    async for _ in lines:
        yield b'{"type":"ADDED","object":{"\xff\xfe\n'
        return


async def expired(lines: Lines) -> Lines:
    """Send the error that the version is too old instead of the first event."""
    async for _ in lines:
        yield json.dumps({"type": "ERROR", "object": refusal(410)}).encode() + b"\n"
        return


async def swallowed(lines: Lines) -> Lines:
    """Bring nothing, and end when the server ends the watch."""
    async for line in lines:
        if not line:
            yield line  # never: lines have an end


def without(*kinds: str) -> Callable[[Lines], Lines]:
    """Leave out events of these kinds: ADDED, MODIFIED, DELETED, BOOKMARK."""
    heads = tuple(f'{{"type":"{kind}"'.encode() for kind in kinds)

    async def edit(lines: Lines) -> Lines:
        async for line in lines:
            if not line.startswith(heads):
                yield line

    return edit
