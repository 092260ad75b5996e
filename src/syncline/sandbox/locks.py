"""A folder as its own lock: `flock` on the folder, given back by the kernel however its holder ends.

Whoever removes a locked folder leaves others waiting for a lock on a folder that is gone, hence the check that the path
still names what was locked.
"""

import fcntl
import os
from pathlib import Path


def try_lock(folder: Path) -> int | None:
    """Lock the folder for this process alone; its file descriptor, or None when it is taken or gone."""
    return _lock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)


def wait_lock(folder: Path) -> int | None:
    """Lock the folder, waiting as long as needed; None when the folder is gone."""
    return _lock(folder, fcntl.LOCK_EX)


def is_locked(folder: Path) -> bool:
    """Whether somebody holds the folder's lock at this moment."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _lock(folder: Path, operation: int) -> int | None:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
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
