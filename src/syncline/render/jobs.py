"""What the operator and its rendering children say to each other: frames of msgpack, each after its length.

The child says `Ready` once. Then the operator sends a `Job` or a `TextJob`, and the child answers with one `Rendered`,
`Repeated` or `Refused` a target, in their order, and `Done` when it stops. It stops early when its turn is
over: what it left out is for the operator to send again.
"""

import hashlib
from typing import NamedTuple

import msgspec

from syncline.api.content import Transform

FRAME_LIMIT = 8 * 1024 * 1024
"""Largest frame either side accepts: 1 MiB of values, their keys, 50 transforms and the names of targets fit well."""


class Source(NamedTuple):
    """The object that the data is from. Templates see the kind where it is given."""

    namespace: str
    name: str
    kind: str = ""


class Target(NamedTuple):
    """The object that the data is for; the cluster is empty where it is the sync's own."""

    namespace: str
    name: str
    cluster: str = ""

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.cluster}: {place}" if self.cluster else place


class Job(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """Data to transform, for some targets."""

    transforms: list[Transform]
    data: dict[str, str]
    binary: dict[str, str]
    source: Source
    targets: list[Target]

    def digest(self) -> bytes:
        """Name the work by its content, whatever the targets."""
        content = _encoder.encode((self.transforms, self.data, self.binary, self.source))
        return hashlib.blake2b(content, digest_size=16).digest()


class TextJob(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A template to render, for some targets; the text is answered under the key `TEXT`."""

    template: str
    source: Source
    targets: list[Target]

    def digest(self) -> bytes:
        """Name the work by its content, whatever the targets."""
        return hashlib.blake2b(_encoder.encode((self.template, self.source)), digest_size=16).digest()


TEXT = ""
AnyJob = Job | TextJob


class Ready(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """The child is confined and waits for work."""

    seccomp: bool


class Rendered(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The keys whose values differ from the data that was sent."""

    changed: dict[str, str]


class Repeated(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The same as for the target before."""


class Refused(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """A transform, or a text without an index, that cannot be carried out."""

    index: int | None
    key: str
    cause: str
    line: int | None


class Done(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """The turn is over; `shared`: the last answer holds for all targets."""

    shared: bool


Answer = Ready | Rendered | Repeated | Refused | Done

_encoder = msgspec.msgpack.Encoder()
_answers: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)
_jobs: msgspec.msgpack.Decoder[AnyJob] = msgspec.msgpack.Decoder(AnyJob)


def decode_job(body: bytes) -> AnyJob:
    """Decode what a child received."""
    return _jobs.decode(body)


def decode_answer(body: bytes) -> Answer:
    """Decode what a child said; a `msgspec.DecodeError` means that it is not to be trusted any more."""
    return _answers.decode(body)
