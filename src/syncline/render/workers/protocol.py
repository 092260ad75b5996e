"""The messages between the operator and its worker processes.

A worker sends `Ready` once. Then the operator sends a job. The worker sends any number of answers and then `Done`, or
it sends `Failed`. For a transform job it sends one `Rendered`, `Repeated` or `Refused` for each target, in their order.
It can end the job before the last target: the operator then sends the remaining targets again. Documents come in
several frames, so that no single frame blocks the event loop of the operator.
"""

import hashlib
from typing import Any, NamedTuple

import msgspec

from syncline.api.content import Transform

FRAME_BYTES = 256 * 1024
"""The approximate size of one frame of documents. A larger document has its own frame."""

TEXT = ""
"""The key of a rendered text in an answer."""


class TransformSource(NamedTuple):
    """The source object of the data. Templates can use the kind, if it is set."""

    namespace: str
    name: str
    kind: str = ""


class TransformTarget(NamedTuple):
    """The target object of the data. The cluster is empty for the cluster of the sync."""

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
    """A template to render, for some targets. The answer has the text under the key `TEXT`."""

    template: str
    source: TransformSource
    targets: list[TransformTarget]

    def digest(self) -> bytes:
        """Name the work by its content, whatever the targets."""
        return hashlib.blake2b(_encoder.encode((self.template, self.source)), digest_size=16).digest()


class Text(NamedTuple):
    """A file for the worker. `template`: the file may be a template."""

    path: str
    content: bytes
    template: bool = False


class Prepare(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Files to decrypt or to render as templates. `keys` is None without decryption."""

    files: list[Text]
    variables: dict[str, Any]
    values: dict[str, Any]
    keys: dict[str, bytes] | None


class Parse(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Files to parse: manifests, or data."""

    files: list[Text]


class Sort(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """The output of a tool, for a file.

    If `chart` is a folder, comments `# Source:` name the files of the chart. If `origins` is a prefix of paths,
    annotations name the files, and are removed.
    """

    output: bytes
    file: str
    chart: str | None = None
    origins: str | None = None


class Evaluate(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Jsonnet to evaluate. Arguments are strings, or JSON as code. `sensitive`: no message quotes the files."""

    files: dict[str, bytes]
    entry: str
    libraries: list[str]
    tlas: dict[str, Any]
    ext_vars: dict[str, Any]
    sensitive: bool


class Begin(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """A revision to validate: the specs of its CRDs, and the digests of the necessary schemas."""

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
    """Fields to find in a file: the first line of the document of each field, and the path of the field."""

    content: bytes
    fields: list[tuple[int, str]]


TargetsJob = TransformJob | TextJob
BuildJob = Prepare | Parse | Sort | Evaluate | Begin | Learn | Validate | Locate
Job = TargetsJob | BuildJob


class Ready(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """The worker is confined and waits for jobs."""

    seccomp: bool


class Done(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The end of a job. `shared`: the last answer applies to all targets."""

    shared: bool = False


class Rendered(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The keys with values that differ from the data of the job."""

    changed: dict[str, str]


class Repeated(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The same result as for the previous target."""


class JobRefused(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """A transform, or a text without an index, that failed."""

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
    """A file that the worker cannot decrypt: the `sops` program or one of these key services must."""

    path: str
    services: list[tuple[str, dict[str, str]]]


class Found(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """Some documents: file, line, manifest."""

    documents: list[tuple[str, int, dict[str, Any]]]


class Data(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """A file that is not a manifest."""

    path: str


class Note(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """A note for the user."""

    text: str


class Failed(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """The files are not valid. The worker waits for the next job."""

    file: str
    line: int
    cause: str


class Lacking(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """The digests of schemas that the worker does not have."""

    digests: list[bytes]


class Wrong(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """The errors of objects: the index of the object, the path of the field, the cause."""

    errors: list[tuple[int, str, str]]


class Located(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """The line of each field; 0 if the field is not found."""

    lines: list[int]


BuildAnswer = Prepared | Foreign | Found | Data | Note | Failed | Done | Lacking | Wrong | Located
TargetAnswer = Rendered | Repeated | JobRefused
Answer = Ready | TargetAnswer | BuildAnswer

_encoder = msgspec.msgpack.Encoder()
_answers: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)
_transform_jobs: msgspec.msgpack.Decoder[TargetsJob] = msgspec.msgpack.Decoder(TargetsJob)
_build_jobs: msgspec.msgpack.Decoder[BuildJob] = msgspec.msgpack.Decoder(BuildJob)


def decode_transform_job(body: bytes) -> TargetsJob:
    """Decode a job for a transform worker."""
    return _transform_jobs.decode(body)


def decode_build_job(body: bytes) -> BuildJob:
    """Decode a job for a build worker."""
    return _build_jobs.decode(body)


def decode_answer(body: bytes) -> Answer:
    """Decode an answer of a worker. After a `msgspec.DecodeError`, the worker is not trusted any more."""
    return _answers.decode(body)
