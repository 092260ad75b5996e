"""The error of a folder that cannot be read or written, with a reason for the status and a message for people."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

FilesReason = Literal["FolderMissing", "FolderReadOnly", "FolderInUse", "DiskFull", "UnsafePath", "FolderError"]

_REASONS: dict[int, tuple[FilesReason, str]] = {
    errno.EROFS: ("FolderReadOnly", "the file system is read-only: mount it writable"),
    errno.EACCES: ("FolderReadOnly", "the agent's user may not write here: run it as the user of the gateway"),
    errno.EPERM: ("FolderReadOnly", "the agent's user may not write here: run it as the user of the gateway"),
    errno.ENOSPC: ("DiskFull", "the volume is full: enlarge it, or remove what is not needed"),
    errno.EDQUOT: ("DiskFull", "the quota of the volume is used up: enlarge it"),
    errno.ELOOP: ("UnsafePath", "it is a symbolic link, and links are not followed: replace it by a folder"),
}


class FilesError(Exception):
    """A folder cannot be read or written. Files that were published before are still there."""

    def __init__(self, reason: FilesReason, message: str) -> None:
        super().__init__(as_text(message))
        self.reason = reason


def as_text(path: str) -> str:
    """Return a path that can be reported. A name can have any bytes, and those that are not UTF-8 are escaped.

    The result is for people, and opens no file.
    """
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Raise each failure of the operating system as a `FilesError` that names the operation."""
    try:
        yield
    except OSError as error:
        reason, remedy = _REASONS.get(error.errno or 0, ("FolderError", error.strerror or type(error).__name__))
        raise FilesError(reason, f"{what}: {remedy}") from None
