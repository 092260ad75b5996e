"""Faults between a client and an API server.

A `Fault` says what happens to a request that a rule picks out; `syncline.testing.proxy.FaultProxy` makes it happen.

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
    """A request as it came to the proxy."""

    method: str
    verb: str
    """get, list, watch, create, update, patch or delete."""
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    """Without the query: of what is no object, such as /openapi/v3, there is nothing else to go by."""
    query: Mapping[str, str] = field(default_factory=dict)
    token: str = ""
    number: int = 0
    """Which one it is among those that change something, from 1; 0 for the others."""
    at: float = field(default_factory=time.monotonic)

    @property
    def changes(self) -> bool:
        """Whether it may change something."""
        return self.method != "GET" and not is_review(self.path)

    @property
    def lists(self) -> bool:
        """Whether it asks for all objects of a kind, as a list or at the beginning of a watch."""
        return self.verb == "list" or "sendInitialEvents" in self.query

    @property
    def follows(self) -> bool:
        """Whether it is a watch from a version that the client has."""
        return self.verb == "watch" and not self.lists


class Fault(Struct, frozen=True, kw_only=True):
    """What goes wrong. In the order of the fields; what is not said goes right."""

    before: Callable[[], object] | None = None
    """Called, in a thread, before the request goes anywhere."""
    delay: float = 0.0
    """Seconds to wait, then."""
    lost: bool = False
    """The request never reaches the server, and the connection is reset."""
    status: int = 0
    """The server is not asked; this is the answer."""
    retry_after: int | None = None
    """With `status`: the header."""
    after: Callable[[], object] | None = None
    """Called, in a thread, when the server has answered and the client does not know yet."""
    cut: bool = False
    """The answer never arrives, and the connection is reset: the client cannot know whether it was carried out."""
    events: Callable[[Lines], Lines] | None = None
    """For watches: what becomes of the lines, from the beginning of the watch."""
    silent: bool = False
    """For watches, also open ones: nothing more comes, and the connection stays open, for good."""
    closed_after: float | None = None
    """For watches: the seconds after which the stream ends, as if the server had ended it."""


class Rule:
    """A fault and the requests that it befalls, until lifted or used up."""

    def __init__(self, fault: Fault, when: Callable[[Asked], bool], times: int | None) -> None:
        self.fault = fault
        self.hits: list[Asked] = []
        """Every request that was befallen."""
        self._when = when
        self._left = times

    def lift(self) -> None:
        """Let everything go right again, but for what is wrong already."""
        self._left = 0

    def befalls(self, asked: Asked) -> bool:
        """Tell whether this request is one, and count it."""
        if self._left == 0 or not self._when(asked):
            return False
        if self._left is not None:
            self._left -= 1
        self.hits.append(asked)
        return True


def is_review(path: str) -> bool:
    """Whether a request only asks who somebody is, or what they may do."""
    return path.startswith(tuple(f"/apis/{group}/" for group in REVIEWING))


def read_request(method: str, target: str, token: str, number: int) -> Asked:
    """Read what a request is about from its path and query."""
    parts = urlsplit(target)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    path = [part for part in parts.path.split("/") if part]
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
    """Make the body of an API server's refusal."""
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
    """Send the second of each two events first, where it comes within a second."""
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
    """Cut the first event in the middle, and the connection with it."""
    async for line in lines:
        yield line[: len(line) // 2]
        raise Cut


async def garbled(lines: Lines) -> Lines:
    """Send, in place of the first event, what is neither JSON nor UTF-8."""
    async for _ in lines:
        yield b'{"type":"ADDED","object":{"\xff\xfe\n'
        return


async def expired(lines: Lines) -> Lines:
    """Say, in place of the first event, that the version is too old."""
    async for _ in lines:
        yield json.dumps({"type": "ERROR", "object": refusal(410)}).encode() + b"\n"
        return


def without(*kinds: str) -> Callable[[Lines], Lines]:
    """Leave out events of these kinds: ADDED, MODIFIED, DELETED, BOOKMARK."""
    heads = tuple(f'{{"type":"{kind}"'.encode() for kind in kinds)

    async def edit(lines: Lines) -> Lines:
        async for line in lines:
            if not line.startswith(heads):
                yield line

    return edit
