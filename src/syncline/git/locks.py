"""Locks between processes."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from syncline.git.errors import CacheFailure


class Lock:
    """A lock between processes, on a file."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def take(self) -> None:
        """Take the lock, waiting for whoever has it; only for what is held for a moment."""
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def try_take(self) -> bool:
        """Take the lock if nobody else has it."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@contextlib.contextmanager
def open_lock(path: Path) -> Iterator[Lock]:
    """Open a lock, not taken yet; it is let go of at the end, or when the process dies."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CacheFailure(f"the folder for mirrors cannot be written: {error.strerror}") from None
    try:
        yield Lock(descriptor)
    finally:
        os.close(descriptor)
