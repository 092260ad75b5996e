"""Staging: files are complete, checked and durable in the state folder before the first of them is published.

.syncline/stage/blobs/ID   blobs as they arrived; those of an interrupted attempt are used again
.syncline/stage/files/N    files as they will be published
"""

import hashlib
import os
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple, Self

from syncline.core.protected_paths import STATE_FOLDER
from syncline.files.errors import explained
from syncline.files.folder import Folder, blob_digest, write_all

STAGE = f"{STATE_FOLDER}/stage"
_BLOBS = f"{STAGE}/blobs"
_FILES = f"{STAGE}/files"


class BlobDamagedError(Exception):
    """The content of a blob does not match its id."""


class StagedFile(NamedTuple):
    """A file that can be published."""

    place: str
    hash: str


class BlobWriter:
    """A blob that arrives in parts. A successful `with` block ends with the check of its id."""

    def __init__(self, folder: Folder, blob: str, size: int) -> None:
        self._folder = folder
        self._blob = blob
        self._place = f"{_BLOBS}/{blob}"
        self._left = size
        self._digest = blob_digest(size, blob)
        folder.remove(self._place)
        self._file = folder.create(self._place)

    def write(self, chunk: bytes) -> None:
        """Add a part. Raises `BlobDamagedError` if the blob is larger than its announced size."""
        self._left -= len(chunk)
        if self._left < 0:
            raise BlobDamagedError(f"blob {self._blob} is larger than its size")
        self._digest.update(chunk)
        with explained(self._place):
            write_all(self._file, chunk)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        os.close(self._file)
        intact = kind is None and not self._left and self._digest.hexdigest() == self._blob
        if not intact:
            self._folder.remove(self._place)
        if kind is None and not intact:
            raise BlobDamagedError(f"the content of blob {self._blob} is not what its id says")


class StageFolder:
    """The folder with the files of one publish."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._count = 0

    def restart(self) -> None:
        """Remove the files of an earlier attempt, and keep its blobs."""
        self._folder.remove_tree(_FILES)
        self._count = 0

    def blobs(self, wanted: Collection[str]) -> set[str]:
        """Return the ids of those of these blobs that are staged and intact. All others are removed."""
        found = set()
        for name in self._folder.names(_BLOBS):
            place = f"{_BLOBS}/{name}"
            if name in wanted and self._folder.blob_id(place, like=name) == name:
                found.add(name)
            else:
                self._folder.remove_tree(place)
        return found

    def blob_writer(self, blob: str, size: int) -> "BlobWriter":
        """Begin to store a blob that arrives in parts."""
        return BlobWriter(self._folder, blob, size)

    def read_blob(self, blob: str, limit: int) -> bytes:
        """Return the content of a blob, up to a maximum size."""
        return self._folder.read(f"{_BLOBS}/{blob}", limit)

    def add_file(self, content: bytes, *, executable: bool) -> StagedFile:
        """Stage a file with this content."""
        place = self._next()
        self._folder.write(place, iter((content,)), executable=executable)
        return StagedFile(place, hashlib.sha256(content).hexdigest())

    def add_copy(self, blob: str, *, executable: bool, last: bool) -> StagedFile:
        """Stage a file with the content of a blob. The `last` file of a blob is a hard link to it."""
        place, source, digest = self._next(), f"{_BLOBS}/{blob}", hashlib.sha256()
        if last:
            self._folder.link(source, place)
            for chunk in self._folder.chunks(place):
                digest.update(chunk)
            self._folder.set_executable(place, executable=executable, durable=True)
        else:
            chunks = _hashed(self._folder.chunks(source), digest.update)
            self._folder.write(place, chunks, executable=executable)
        return StagedFile(place, digest.hexdigest())

    def forget_blobs(self) -> None:
        """Remove all blobs, and with them the second links of staged files."""
        self._folder.remove_tree(_BLOBS)

    def clear(self) -> None:
        """Remove all staged files and blobs."""
        self._folder.remove_tree(STAGE)

    def _next(self) -> str:
        self._count += 1
        return f"{_FILES}/{self._count}"


def _hashed(content: Iterator[bytes], update: Callable[[bytes], None]) -> Iterator[bytes]:
    for chunk in content:
        update(chunk)
        yield chunk
