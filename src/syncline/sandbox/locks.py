"""Locks on folders with `flock`. The kernel releases them when the process ends.

A process can wait for a lock on a folder that its owner then removes. Therefore each lock checks that the path still
names the locked folder.
"""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path


def try_lock(folder: Path) -> int | None:
    """Lock the folder for this process. Return its file descriptor, or None if it is locked or gone."""
    return _lock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)


def wait_lock(folder: Path) -> int | None:
    """Lock the folder, and wait for it; None if the folder is gone."""
    return _lock(folder, fcntl.LOCK_EX)


def share_lock(folder: Path) -> int | None:
    """Lock the folder together with others that share it; None when a process has it alone, or it is gone."""
    return _lock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)


def is_locked(folder: Path) -> bool:
    """Whether a process holds the lock of the folder."""
    with watched(folder) as held:
        return held()


@contextlib.contextmanager
def watched(folder: Path) -> Iterator[Callable[[], bool]]:
    """Return a function that returns whether the lock of the folder is held, also after its removal."""
    try:
        descriptor = _open(folder)
    except OSError:
        yield lambda: False
        return

    def held() -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        return False

    try:
        yield held
    finally:
        os.close(descriptor)


def _lock(folder: Path, operation: int) -> int | None:
    try:
        descriptor = _open(folder)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, operation)
        if os.path.samestat(folder.stat(), os.fstat(descriptor)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


def _open(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
