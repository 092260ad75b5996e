"""What the operator and its worker processes say to each other: messages of msgpack.

A worker says `Ready` once. Then the operator sends a job, and the worker answers with any number of answers and `Done`,
or with `Failed`. To a transform job it answers with one `Rendered`, `Repeated` or `Refused` a target, in their order,
and may be done early: what it left out is for the operator to send again. Documents come in several frames, so that the
operator, which reads one at a time, is never held up.
"""

import hashlib
from typing import Any, NamedTuple

import msgspec

from syncline.api.content import Transform

FRAME_BYTES = 256 * 1024
"""About what one frame of documents holds; a document that is larger has a frame of its own."""

TEXT = ""
"""The key that a rendered text is answered under."""


class TransformSource(NamedTuple):
    """The object that the data is from. Templates see the kind where it is given."""

    namespace: str
    name: str
    kind: str = ""


class TransformTarget(NamedTuple):
    """The object that the data is for; the cluster is empty where it is the sync's own."""

    namespace: str
    name: str
    cluster: str = ""

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.cluster}: {place}" if self.cluster else place


class TransformJob(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """Data to transform, for some targets."""

    transforms: list[Transform]
    data: dict[str, str]
    binary: dict[str, str]
    source: TransformSource
    targets: list[TransformTarget]

    def digest(self) -> bytes:
        """Name the work by its content, whatever the targets."""
        content = _encoder.encode((self.transforms, self.data, self.binary, self.source))
        return hashlib.blake2b(content, digest_size=16).digest()


class TextJob(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A template to render, for some targets; the text is answered under the key `TEXT`."""

    template: str
    source: TransformSource
    targets: list[TransformTarget]

    def digest(self) -> bytes:
        """Name the work by its content, whatever the targets."""
        return hashlib.blake2b(_encoder.encode((self.template, self.source)), digest_size=16).digest()


class Text(NamedTuple):
    """A file for the child; `template`: it may be one."""

    path: str
    content: bytes
    template: bool = False


class Prepare(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Files to decrypt or to template. `keys` is None where nothing is to be decrypted."""

    files: list[Text]
    variables: dict[str, Any]
    values: dict[str, Any]
    keys: dict[str, bytes] | None


class Parse(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Files that are manifests, or data where they are not."""

    files: list[Text]


class Sort(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """What a tool has written, for a file.

    Where `chart` is a folder, comments `# Source:` tell the chart's files. Where `origins` is a prefix of paths,
    annotations tell the files, and go.
    """

    output: bytes
    file: str
    chart: str | None = None
    origins: str | None = None


class Evaluate(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Jsonnet. Strings among the arguments are strings, all else is code, as JSON is. `sensitive`: quote nothing."""

    files: dict[str, bytes]
    entry: str
    libraries: list[str]
    tlas: dict[str, Any]
    ext_vars: dict[str, Any]
    sensitive: bool


class Begin(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """A revision to be checked: the specs of its CRDs, and the digests of the schemas that it needs."""

    definitions: list[Any]
    digests: list[bytes]


class Learn(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """The schemas of one API version: JSON, compressed by zlib."""

    digest: bytes
    packed: bytes


class Validate(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """Objects of the revision (API version, kind, fields), and the digest of the schemas of each API version."""

    digests: dict[str, bytes]
    objects: list[tuple[str, str, Any]]


class Locate(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """Fields to be found in a file: the line that the document of each begins at, and its path."""

    content: bytes
    fields: list[tuple[int, str]]


TargetsJob = TransformJob | TextJob
BuildJob = Prepare | Parse | Sort | Evaluate | Begin | Learn | Validate | Locate
Job = TargetsJob | BuildJob


class Ready(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """The worker is confined and waits for jobs."""

    seccomp: bool


class Done(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The job is answered. `shared`: the last answer holds for all targets."""

    shared: bool = False


class Rendered(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The keys whose values differ from the data that was sent."""

    changed: dict[str, str]


class Repeated(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The same as for the target before."""


class JobRefused(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """A transform, or a text without an index, that cannot be carried out."""

    index: int | None
    key: str
    cause: str
    line: int | None


class Prepared(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """A file that was changed."""

    path: str
    content: bytes
    decrypted: bool


class Foreign(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """A file that the child cannot decrypt: the `sops` program must, or these key services must be asked first."""

    path: str
    services: list[tuple[str, dict[str, str]]]


class Found(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """Some documents: file, line, manifest."""

    documents: list[tuple[str, int, dict[str, Any]]]


class Data(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """A file that is no manifest."""

    path: str


class Note(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """Something to tell the user."""

    text: str


class Failed(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """The files are wrong; the child waits for the next job."""

    file: str
    line: int
    cause: str


class Lacking(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """The digests of schemas that the child does not have."""

    digests: list[bytes]


class Wrong(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """What is wrong with objects: the index of each, the path of the field, the cause."""

    errors: list[tuple[int, str, str]]


class Located(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """The line of each field; 0 where it is not found."""

    lines: list[int]


BuildAnswer = Prepared | Foreign | Found | Data | Note | Failed | Done | Lacking | Wrong | Located
TargetAnswer = Rendered | Repeated | JobRefused
Answer = Ready | TargetAnswer | BuildAnswer

_encoder = msgspec.msgpack.Encoder()
_answers: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)
_transform_jobs: msgspec.msgpack.Decoder[TargetsJob] = msgspec.msgpack.Decoder(TargetsJob)
_build_jobs: msgspec.msgpack.Decoder[BuildJob] = msgspec.msgpack.Decoder(BuildJob)


def decode_transform_job(body: bytes) -> TargetsJob:
    """Decode what a worker for transforms received."""
    return _transform_jobs.decode(body)


def decode_build_job(body: bytes) -> BuildJob:
    """Decode what a worker for builds received."""
    return _build_jobs.decode(body)


def decode_answer(body: bytes) -> Answer:
    """Decode what a worker said; a `msgspec.DecodeError` means that it is not to be trusted any more."""
    return _answers.decode(body)
