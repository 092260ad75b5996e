"""Locks on folders with `flock`. The kernel releases them when the process ends.

Whoever removes a locked folder leaves others waiting for a lock on a folder that is gone, hence the check that the path
still names what was locked.
"""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path


def try_lock(folder: Path) -> int | None:
    """Lock the folder for this process alone; its file descriptor, or None when it is taken or gone."""
    return _lock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)


def wait_lock(folder: Path) -> int | None:
    """Lock the folder, waiting as long as needed; None when the folder is gone."""
    return _lock(folder, fcntl.LOCK_EX)


def is_locked(folder: Path) -> bool:
    """Whether somebody holds the folder's lock at this moment."""
    with watched(folder) as held:
        return held()


@contextlib.contextmanager
def watched(folder: Path) -> Iterator[Callable[[], bool]]:
    """Give a function that tells whether the folder's lock is held, also after the folder has been removed."""
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
