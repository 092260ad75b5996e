"""The schemas that an API server publishes: OpenAPI v3, one document for each API version.

    documents = await OpenAPI(client).documents(["v1", "apps/v1"])

An index has a hash for each document. A document is fetched at the first request, and again when its hash has changed:
no request for each object, and none without a change. Documents are cached in compressed form and not parsed here: they
are only as trustworthy as their server.
"""

import asyncio
import hashlib
import zlib
from collections.abc import Iterable
from urllib.parse import parse_qs, quote, urlsplit

import msgspec
from msgspec import Struct

from syncline.kube.client import Client
from syncline.kube.errors import BadAnswer, NotFound

KEPT = 5.0
"""The maximum age of an index, in seconds, to find an object valid."""

FRESH = 0.5
"""The maximum age, in seconds, to find an object invalid or a kind missing."""

INDEX_LIMIT = 4 * 1024 * 1024
DOCUMENT_LIMIT = 24 * 1024 * 1024
"""The largest accepted answers: the core of Kubernetes has 1.6 MiB."""

CACHE_BYTES = 4 * 1024 * 1024
"""The cache for one server, compressed: all of Kubernetes has 0.5 MiB. The oldest document is dropped first."""

_ROOT = "/openapi/v3"


class SchemaDocument(Struct, frozen=True):
    """The `components` of one API version, as JSON compressed by zlib; the digest names their content."""

    digest: bytes
    packed: bytes


class OpenAPI:
    """The schemas of one API server. Share it: all callers share the index and the documents."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._index: tuple[float, dict[str, str]] | None = None
        self._reading: asyncio.Task[dict[str, str]] | None = None
        self._documents: dict[str, tuple[str, SchemaDocument]] = {}
        """By path, with the hash of the index; the most recently used is the last."""
        self._fetching: dict[tuple[str, str], asyncio.Task[SchemaDocument]] = {}

    async def documents(self, api_versions: Iterable[str], *, age: float = KEPT) -> dict[str, SchemaDocument]:
        """Return the documents of API versions such as `apps/v1`, without versions that have no document.

        `age`: the maximum age of the index. Raises the errors of any read, and `NotFound` for a server without OpenAPI
        v3.
        """
        wanted = {version: _path(version) for version in api_versions}
        index = await self._paths(age)
        if not index.keys() >= {*wanted.values()}:
            index = await self._paths(FRESH)
        known = [version for version, path in wanted.items() if path in index]
        found = await asyncio.gather(*(self._document(wanted[one], index[wanted[one]]) for one in known))
        return dict(zip(known, found, strict=True))

    async def _paths(self, age: float) -> dict[str, str]:
        """Return the hash of each document by its path."""
        clock = asyncio.get_running_loop().time
        if self._index is not None and clock() - self._index[0] < age:
            return self._index[1]
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
            self._reading.add_done_callback(self._keep)
        # Shielded: others wait for the same reading.
        return await asyncio.shield(self._reading)

    def _keep(self, task: "asyncio.Task[dict[str, str]]") -> None:
        self._reading = None
        if not task.cancelled() and task.exception() is None:
            self._index = asyncio.get_running_loop().time(), task.result()

    async def _read(self) -> dict[str, str]:
        body = bytes(await self._client.document(_ROOT, type=msgspec.Raw))
        if len(body) > INDEX_LIMIT:
            raise BadAnswer(f"the index of {_ROOT} is larger than {INDEX_LIMIT >> 20} MiB")
        try:
            index = msgspec.json.decode(body, type=_OpenAPIIndex)
        except (ValueError, RecursionError):
            raise BadAnswer(f"the answer to {_ROOT} is no index of OpenAPI documents") from None
        return {path: _hash(entry.url) for path, entry in index.paths.items()}

    async def _document(self, path: str, mark: str) -> SchemaDocument:
        known = self._documents.pop(path, None)
        if known is not None:
            self._documents[path] = known
            if mark and known[0] == mark:
                return known[1]
        task = self._fetching.get((path, mark))
        if task is None:
            task = self._fetching[path, mark] = asyncio.create_task(self._fetch(path, mark))
            task.add_done_callback(lambda _: self._fetching.pop((path, mark), None))
        return await asyncio.shield(task)

    async def _fetch(self, path: str, mark: str) -> SchemaDocument:
        # The URL is built here and not taken from the index: an index could name any path, and an old hash redirects.
        try:
            answer = await self._client.document(f"{_ROOT}/{quote(path)}", type=msgspec.Raw)
        except NotFound as error:
            # It was in the index a moment ago, so the server has OpenAPI.
            raise BadAnswer(f"the OpenAPI document of {path} does not exist: {error}") from None
        document = await asyncio.to_thread(_packed, bytes(answer), path)
        self._documents.pop(path, None)
        self._documents[path] = mark, document
        while len(self._documents) > 1 and sum(len(one.packed) for _, one in self._documents.values()) > CACHE_BYTES:
            del self._documents[next(iter(self._documents))]
        return document


class _Path(Struct, rename={"url": "serverRelativeURL"}):
    url: str = ""


class _OpenAPIIndex(Struct):
    paths: dict[str, _Path]


class _OpenAPIDocument(Struct):
    components: msgspec.Raw = msgspec.Raw(b"{}")


def _path(api_version: str) -> str:
    return f"apis/{api_version}" if "/" in api_version else f"api/{api_version}"


def _hash(url: str) -> str:
    """Return the hash in a URL of the index; empty if there is none, and then nothing is cached."""
    try:
        return parse_qs(urlsplit(url).query).get("hash", [""])[0][:256]
    except ValueError:
        return ""


def _packed(body: bytes, path: str) -> SchemaDocument:
    if len(body) > DOCUMENT_LIMIT:
        raise BadAnswer(f"the OpenAPI document of {path} is larger than {DOCUMENT_LIMIT >> 20} MiB")
    try:
        # Most of a document describes paths and parameters, which are not needed.
        components = bytes(msgspec.json.decode(body, type=_OpenAPIDocument).components)
    except (ValueError, RecursionError):
        raise BadAnswer(f"the OpenAPI document of {path} is not valid") from None
    return SchemaDocument(hashlib.blake2b(components, digest_size=16).digest(), zlib.compress(components, 1))
