"""The verbs of one API server: bytes, dicts or typed structs, no generated models.

    async with Client(discover()) as client:
        source = await client.get(CONFIGMAPS, "settings", "team-a", type=ConfigMap)

What a caller can rely on: every call ends in bounded time; what may be repeated is repeated (see `retry`), what may
have been carried out is not, and is raised as `Unreachable` with `ambiguous` set; a 401 renews the credential once;
redirects are not followed; no answer above `transport.MAX_ANSWER` is held; no error holds a token or Secret data.
"""

# ruff: noqa: A002  # `type` is what msgspec and the reader call it

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, cast

import msgspec

from syncline.kube.config import Connection
from syncline.kube.credentials import Credential, credential_of
from syncline.kube.errors import BadAnswer, CacheFull, Gone
from syncline.kube.limiter import FairLimiter
from syncline.kube.lines import split_lines
from syncline.kube.nesting import shallow
from syncline.kube.resources import Resource
from syncline.kube.retry import Retry
from syncline.kube.session import Request, Session
from syncline.kube.transport import AnswerTooLarge, query_of

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=dict[str, Any])
else:  # before Python 3.13, a type variable's default is for the type checker only
    from typing import TypeVar

    T = TypeVar("T")

FIELD_MANAGER = "syncline"
LIST_TIMEOUT = 60.0
# The limits of a list with untrusted content: a server may send pages without end, and users may create any number of
# objects of any size.
MOST_LISTED = 1_000_000
LISTING_SECONDS = 180.0
LISTED_PAGE_BYTES = 4 * 1024 * 1024

Body = Mapping[str, Any] | Sequence[Any] | msgspec.Struct | bytes
"""An object or a JSON patch, or one of both as encoded JSON."""
Listing = tuple[list[T], str]
_OBJECT: Any = dict[str, Any]
# A list has its items in an array.
_ITEM_LEVEL = 3
_JSON = "application/json"


class PatchKind(Enum):
    """The type of a patch."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Page(NamedTuple, Generic[T]):
    """One page of a list, and the version at which the whole list was taken."""

    items: list[T]
    version: str


class Client:
    """A client of one API server. Share it: all callers use one pool, one credential and one set of limits."""

    def __init__(
        self,
        connection: Connection,
        *,
        credential: Credential | None = None,
        max_in_flight: int = 48,
        timeout: float = 30.0,
        retry: Retry | None = None,
    ) -> None:
        """Use `credential` in place of the credential of the connection."""
        self.connection = connection
        self._session = Session(
            connection,
            credential=credential or credential_of(connection),
            max_in_flight=max_in_flight,
            timeout=timeout,
            retry=retry or Retry(),
        )
        self._user: str | None = None

    def impersonating(self, user: str) -> "Client":
        """Return a view of this client that acts as `user`; the server adds the user's groups. It needs no closing."""
        view = object.__new__(Client)
        view.connection, view._session, view._user = self.connection, self._session, user
        return view

    @property
    def user(self) -> str | None:
        """The user that this client acts as; None: the user of its credential."""
        return self._user

    @property
    def skew(self) -> float:
        """The seconds by which the clock of the server is ahead of ours; 0 before its first answer."""
        return self._session.skew

    @property
    def server_time(self) -> int:
        """The time on the clock of the server, in seconds since 1970; 0 before its first answer."""
        return int(time.time() + self.skew) if self.skew else 0

    @property
    def writes(self) -> FairLimiter:
        """The limit on writes in flight."""
        return self._session.writes

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections, including those of its views."""
        await self._session.close()

    async def get(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        type: type[T] = _OBJECT,
        metadata_only: bool = False,
        fair_key: str = "",
    ) -> T:
        """Read one object."""
        request = Request(
            verb="get",
            resource=resource.plural,
            namespace=namespace,
            name=name,
            path=resource.path(namespace, name),
            accept=_accept(metadata_only),
            fair_key=fair_key,
        )
        return await self._ask(request, type)

    async def get_at(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        version: str,
        *,
        type: type[T] = _OBJECT,
        metadata_only: bool = False,
    ) -> T | None:
        """Read one object as it was at an earlier resourceVersion of the server; None where it did not exist then.

        Raises `Gone` if the version is too old: most servers keep about five minutes. Raises another `ApiError` if the
        server has not reached that version.
        """
        exact = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
        request = Request(
            verb="list",
            resource=resource.plural,
            namespace=namespace,
            path=resource.path(namespace) + query_of({"fieldSelector": f"metadata.name={name}", **exact}),
            accept=_accept(metadata_only, many=True),
        )
        answer: _List[T] = await self._ask(request, _List[type])  # type: ignore[valid-type]
        return answer.items[0] if answer.items else None

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        type: type[T] = _OBJECT,
        page: int = 500,
        metadata_only: bool = False,
    ) -> Listing[T]:
        """Read all objects, and the version of the list. A partial list is an error."""
        for last_chance in (False, True):
            items, version = [], ""
            try:
                async for part in self.pages(
                    resource, namespace, labels=labels, fields=fields, type=type, page=page, metadata_only=metadata_only
                ):
                    items += part.items
                    version = part.version
            except Gone:  # the pages took longer than the server keeps old versions: start over, once
                if last_chance:
                    raise
            else:
                break
        return items, version

    async def pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        type: type[T] = _OBJECT,
        page: int = 500,
        pace: Callable[[Sequence[T]], int] | None = None,
        page_bytes: int | None = None,
        metadata_only: bool = False,
    ) -> AsyncGenerator[Page[T]]:
        """Read all objects page by page, with one page in memory. Raises `Gone` if it takes too long.

        `pace` returns the size of the next page, given the objects of the last one. A page of several objects with more
        than `page_bytes` is not held, but requested again with fewer objects.
        """
        after: str | None = None
        while True:
            query = query_of({"limit": page, "continue": after, "labelSelector": labels, "fieldSelector": fields})
            request = Request(
                verb="list",
                resource=resource.plural,
                namespace=namespace,
                path=resource.path(namespace) + query,
                accept=_accept(metadata_only, many=True),
                timeout=LIST_TIMEOUT,
                max_answer=page_bytes if page > 1 else None,
            )
            try:
                answer: _List[T] = await self._ask(request, _List[type])  # type: ignore[valid-type]
            except AnswerTooLarge:  # big objects: smaller pages
                if page <= 1:
                    raise
                page = max(1, page // 4)
                continue
            yield Page(answer.items or [], answer.metadata.resource_version)
            page = pace(answer.items) if pace is not None and answer.items else page
            after = answer.metadata.continue_
            if not after:
                return

    async def bounded_pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str | None = None,
        type: type[T] = _OBJECT,
        most: int = MOST_LISTED,
        metadata_only: bool = False,
    ) -> AsyncGenerator[Page[T]]:
        """Read objects page by page, as `pages`, if their number and size are not trusted.

        Raises `CacheFull` for more than `most` objects, and for a list that does not end in time.
        """
        clock = asyncio.get_running_loop().time
        deadline, count = clock() + LISTING_SECONDS, 0
        pages = self.pages(
            resource,
            namespace,
            labels=labels,
            type=type,
            page_bytes=LISTED_PAGE_BYTES,
            metadata_only=metadata_only,
        )
        async with aclosing(pages):
            async for page in pages:
                count += len(page.items)
                if count > most or clock() > deadline:
                    raise CacheFull(f"the list of {resource.plural} does not end after {count} objects")
                yield page

    async def create(
        self,
        resource: Resource,
        body: Body,
        namespace: str | None = None,
        *,
        dry_run: bool = False,
        strict: bool = False,
        type: type[T] = _OBJECT,
        fair_key: str = "",
    ) -> T:
        """Create an object. Raises `AlreadyExists` if there is one.

        `strict`: fields that the kind does not have are refused (`BadRequest`) instead of dropped.
        """
        request = Request(
            verb="create",
            resource=resource.plural,
            namespace=namespace,
            method="POST",
            path=resource.path(namespace) + _write_query(dry_run=dry_run, strict=strict),
            body=_encode(body),
            content_type=_JSON,
            fair_key=fair_key,
        )
        return await self._ask(request, type)

    async def create_for(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        subresource: str,
        body: Body,
        *,
        type: type[T] = _OBJECT,
    ) -> T:
        """Create a subresource of an object, such as a token of a ServiceAccount."""
        request = Request(
            verb="create",
            resource=f"{resource.plural}/{subresource}",
            namespace=namespace,
            name=name,
            method="POST",
            path=resource.path(namespace, name, subresource),
            body=_encode(body),
            content_type=_JSON,
        )
        return await self._ask(request, type)

    async def replace(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        body: Body,
        *,
        subresource: str | None = None,
        dry_run: bool = False,
        strict: bool = False,
        type: type[T] = _OBJECT,
        fair_key: str = "",
    ) -> T:
        """Replace a whole object; with a resourceVersion in the body, only if it is unchanged (`Conflict`).

        `strict` is as for `create`.
        """
        request = Request(
            verb="update",
            resource=resource.plural,
            namespace=namespace,
            name=name,
            method="PUT",
            path=resource.path(namespace, name, subresource) + _write_query(dry_run=dry_run, strict=strict),
            body=_encode(body),
            content_type=_JSON,
            fair_key=fair_key,
        )
        return await self._ask(request, type)

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        body: Body,
        kind: PatchKind,
        *,
        subresource: str | None = None,
        force: bool = False,
        dry_run: bool = False,
        strict: bool = False,
        type: type[T] = _OBJECT,
        fair_key: str = "",
    ) -> T:
        """Change parts of an object. `force` is for APPLY: it takes fields over from other managers."""
        query = _write_query(dry_run=dry_run, force=force, strict=strict)
        request = Request(
            verb="patch",
            resource=resource.plural,
            namespace=namespace,
            name=name,
            method="PATCH",
            path=resource.path(namespace, name, subresource) + query,
            body=_encode(body),
            content_type=kind.value,
            fair_key=fair_key,
        )
        return await self._ask(request, type)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        version: str | None = None,
        propagation: str | None = None,
        fair_key: str = "",
    ) -> bool:
        """Delete an object; with `uid` and `version`, only this object in this state (`Conflict` otherwise).

        Return whether it is gone. Otherwise the deletion has started, and a finalizer may delay it.
        """
        preconditions = {key: value for key, value in (("uid", uid), ("resourceVersion", version)) if value}
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if preconditions:
            options["preconditions"] = preconditions
        if propagation:
            options["propagationPolicy"] = propagation
        request = Request(
            verb="delete",
            resource=resource.plural,
            namespace=namespace,
            name=name,
            method="DELETE",
            path=resource.path(namespace, name),
            body=_encode(options),
            content_type=_JSON,
            fair_key=fair_key,
        )
        return (await self._ask(request, _KindOnly)).kind == "Status"

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        version: str | None = None,
        initial: bool = False,
        labels: str | None = None,
        fields: str | None = None,
        metadata_only: bool = False,
        seconds: int,
        silence: float,
    ) -> AsyncGenerator[bytes]:
        """Yield the lines of one watch, including bookmarks. The first line is empty: the server accepts the watch.

        `initial` requests all objects first (WatchList). The server ends the stream after `seconds`. Without a byte for
        `silence` seconds, it ends with `Unreachable`. Close the iterator (`contextlib.aclosing`).
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": seconds,
            "resourceVersion": version,
            "sendInitialEvents": "true" if initial else None,
            "resourceVersionMatch": "NotOlderThan" if initial else None,
            "labelSelector": labels,
            "fieldSelector": fields,
        }
        request = Request(
            verb="watch",
            resource=resource.plural,
            namespace=namespace,
            path=resource.path(namespace) + query_of(query),
            accept=_accept(metadata_only),
        )
        async with self._session.stream(request, self._user, silence) as chunks:
            yield b""
            async with aclosing(split_lines(chunks)) as lines:
                async for line in lines:
                    yield line

    async def version(self) -> str:
        """Return the server's version, such as v1.37.1."""
        return (await self._ask(Request(verb="get", resource="version", path="/version"), _ServerVersion)).git_version

    async def document(self, path: str, *, type: type[T] = _OBJECT, accept: str = _JSON) -> T:
        """GET a path that is not an object of a kind, such as the list of API groups."""
        return await self._ask(Request(verb="get", resource="discovery", path=path, accept=accept), type)

    async def probe(self, path: str) -> str:
        """GET a path such as /readyz and return its text. Raises what any read raises."""
        request = Request(verb="get", resource="probe", path=path, accept="*/*")
        return (await self._session.send(request, self._user)).decode(errors="replace")

    async def _ask(self, request: Request, type: type[T]) -> T:
        body = await self._session.send(request, self._user)
        try:
            answer: T = _decode(body, type)
        except (ValueError, RecursionError):  # not kept as the cause: their text quotes what was read
            what = f"the answer to {request.verb} {request.resource} does not have the expected shape"
            raise BadAnswer(what, ambiguous=not request.reads) from None
        return answer


class _ListMeta(msgspec.Struct, rename={"resource_version": "resourceVersion", "continue_": "continue"}):
    resource_version: str
    continue_: str = ""


class _List(msgspec.Struct, Generic[T]):
    """All fields are required: an answer that is not a list must not look like an empty list."""

    metadata: _ListMeta
    items: list[T] | None


class _KindOnly(msgspec.Struct):
    kind: str = ""


class _ServerVersion(msgspec.Struct, rename="camel"):
    git_version: str = ""


def _decode(body: bytes, type: type[T]) -> T:
    decode = _decoder(cast("Any", type)).decode
    try:
        return cast("T", decode(body))
    except RecursionError:
        if cast("Any", type) != _List[msgspec.Raw]:
            raise
        # One invalid item must not make the whole list unreadable.
        return cast("T", decode(shallow(body, _ITEM_LEVEL)))


@lru_cache(maxsize=128)
def _decoder(type: Any) -> "msgspec.json.Decoder[Any]":
    return msgspec.json.Decoder(type)


@lru_cache
def _write_query(*, dry_run: bool, force: bool = False, strict: bool = False) -> str:
    flags = {
        "force": "true" if force else None,
        "dryRun": "All" if dry_run else None,
        "fieldValidation": "Strict" if strict else None,
    }
    return query_of({"fieldManager": FIELD_MANAGER, **flags})


def _encode(body: Body) -> bytes:
    return body if isinstance(body, bytes) else msgspec.json.encode(body)


def _accept(metadata_only: bool, *, many: bool = False) -> str:
    if not metadata_only:
        return _JSON
    return f"{_JSON};as=PartialObjectMetadata{'List' if many else ''};g=meta.k8s.io;v=v1"
