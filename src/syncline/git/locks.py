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
        """Take the lock, and wait for its holder. Only for locks that are held for a moment."""
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def try_take(self) -> bool:
        """Take the lock if it is free."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@contextlib.contextmanager
def open_lock(path: Path) -> Iterator[Lock]:
    """Open a lock without taking it. It is released at the end of the block, or when the process dies."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CacheFailure(f"the folder for mirrors is not writable: {error.strerror}") from None
    try:
        yield Lock(descriptor)
    finally:
        os.close(descriptor)
