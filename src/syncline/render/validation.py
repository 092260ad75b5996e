"""Validation in the operator: the objects to check, and the protocol with a worker."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from syncline.core.fielderrors import FieldError
from syncline.render.workers.process import WorkerProcess
from syncline.render.workers.protocol import Answer, Begin, BuildJob, Lacking, Learn, Validate, Wrong

BATCH_BYTES = 512 * 1024
"""The approximate size of a message to a worker, so that the event loop is not blocked."""

NAMED = 100
"""The maximum number of returned errors; after it the check ends."""

Ask = Callable[[WorkerProcess, BuildJob], Awaitable[list[Answer]]]


class Schema(Struct, frozen=True):
    """The schemas of one API version, by the digest of their content: JSON, compressed by zlib."""

    digest: bytes
    packed: bytes


class Candidate(Struct, frozen=True):
    """An object to check: its fields except metadata."""

    api_version: str
    kind: str
    fields: Mapping[str, Any]


class Validation(Struct, frozen=True, kw_only=True):
    """Objects of one revision, and the schemas of their cluster."""

    tenant: str
    what: str
    """The name of the revision in messages."""
    digest: bytes
    """A digest of all fields."""
    objects: Sequence[Candidate]
    schemas: Mapping[str, Schema]
    """By API version; objects of other versions are not checked, unless there is a CRD."""
    definitions: Sequence[Any] = ()
    """The specs of the CRDs in the revision; they override those of the cluster."""


class InvalidObject(Struct, frozen=True):
    """The errors of one object."""

    index: int
    error: FieldError


async def validate(process: WorkerProcess, work: Validation, ask: Ask) -> list[InvalidObject]:
    """Check all objects in one worker; return at most `NAMED` errors."""
    process.learned = True
    schemas = {one.digest: one for one in work.schemas.values()}
    lacking = await ask(process, Begin([*work.definitions], [*schemas]))
    for answer in lacking:
        if isinstance(answer, Lacking):
            for digest in answer.digests:
                if digest in schemas:
                    await ask(process, Learn(digest, schemas[digest].packed))
    found: list[InvalidObject] = []
    for start, batch in _batches(work):
        for answer in await ask(process, batch):
            if isinstance(answer, Wrong):
                found += [InvalidObject(start + index, FieldError(path, cause)) for index, path, cause in answer.errors]
        if len(found) >= NAMED:
            break
    return found[:NAMED]


def _batches(work: Validation) -> Iterator[tuple[int, Validate]]:
    """Yield the objects in parts, each with the index of its first."""
    digests = {version: schema.digest for version, schema in work.schemas.items()}
    batch: list[tuple[str, str, msgspec.Raw]] = []
    start = size = 0
    for index, one in enumerate(work.objects):
        packed = msgspec.msgpack.encode(one.fields)
        if batch and size + len(packed) > BATCH_BYTES:
            yield start, Validate(digests, batch)
            batch, start, size = [], index, 0
        batch.append((one.api_version, one.kind, msgspec.Raw(packed)))
        size += len(packed)
    if batch:
        yield start, Validate(digests, batch)
