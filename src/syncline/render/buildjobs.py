"""What the operator and a child that builds say to each other: frames of msgpack, each after its length.

The child says `Ready` once. Then the operator sends a job, and the child answers with any number of answers and `Done`,
or with `Failed`. Documents come in several frames, so that the operator, which reads one at a time, is never held up.
"""

from typing import Any, NamedTuple

import msgspec

JOB_LIMIT = 48 * 1024 * 1024
ANSWER_LIMIT = 32 * 1024 * 1024
"""Largest frames that the child and the operator accept."""

FRAME_BYTES = 256 * 1024
"""About what one frame of documents holds; a document that is larger has a frame of its own."""


class Text(NamedTuple):
    """A file for the child; `template`: it may be one."""

    path: str
    content: bytes
    template: bool = False


class Prepare(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """Files to decrypt or to template. `keys` is None where nothing is to be decrypted."""

    files: list[Text]
    variables: dict[str, Any]
    values: dict[str, Any]
    keys: dict[str, bytes] | None


class Parse(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Files that are manifests, or data where they are not."""

    files: list[Text]


class Sort(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """What a tool has written, for a file.

    Where `chart` is a folder, comments `# Source:` tell the chart's files. Where `origins` is a prefix of paths,
    annotations tell the files, and go.
    """

    output: bytes
    file: str
    chart: str | None = None
    origins: str | None = None


class Evaluate(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Jsonnet. Strings among the arguments are strings, all else is code, as JSON is. `sensitive`: quote nothing."""

    files: dict[str, bytes]
    entry: str
    libraries: list[str]
    tlas: dict[str, Any]
    ext_vars: dict[str, Any]
    sensitive: bool


class Begin(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """A revision to be checked: the specs of its CRDs, and the digests of the schemas that it needs."""

    definitions: list[Any]
    digests: list[bytes]


class Learn(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """The schemas of one API version: JSON, compressed by zlib."""

    digest: bytes
    packed: bytes


class Validate(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """Objects of the revision (API version, kind, fields), and the digest of the schemas of each API version."""

    digests: dict[str, bytes]
    objects: list[tuple[str, str, Any]]


class Locate(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """Fields to be found in a file: the line that the document of each begins at, and its path."""

    content: bytes
    fields: list[tuple[int, str]]


Job = Prepare | Parse | Sort | Evaluate | Begin | Learn | Validate | Locate


class Ready(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """The child is confined and waits for work."""

    seccomp: bool


class Prepared(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A file that was changed."""

    path: str
    content: bytes
    decrypted: bool


class Foreign(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A file that the child cannot decrypt: the `sops` program must, or these key services must be asked first."""

    path: str
    services: list[tuple[str, dict[str, str]]]


class Found(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Some documents: file, line, manifest."""

    documents: list[tuple[str, int, dict[str, Any]]]


class Data(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """A file that is no manifest."""

    path: str


class Note(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Something to tell the user."""

    text: str


class Failed(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """The files are wrong; the child waits for the next job."""

    file: str
    line: int
    cause: str


class Done(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """All is answered."""


class Lacking(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """The digests of schemas that the child does not have."""

    digests: list[bytes]


class Wrong(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """What is wrong with objects: the index of each, the path of the field, the cause."""

    errors: list[tuple[int, str, str]]


class Located(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """The line of each field; 0 where it is not found."""

    lines: list[int]


Answer = Ready | Prepared | Foreign | Found | Data | Note | Failed | Done | Lacking | Wrong | Located

_answers: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)
_jobs: msgspec.msgpack.Decoder[Job] = msgspec.msgpack.Decoder(Job)


def decode_job(body: bytes) -> Job:
    """Decode what a child received."""
    return _jobs.decode(body)


def decode_answer(body: bytes) -> Answer:
    """Decode what a child said; a `msgspec.DecodeError` means that it is not to be trusted any more."""
    return _answers.decode(body)
