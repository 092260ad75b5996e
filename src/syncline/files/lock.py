"""The lock of a folder: one agent at a time writes to it."""

import fcntl
import os

from syncline.core.protected_paths import STATE_FOLDER
from syncline.files.errors import FilesError, explained
from syncline.files.folder import PRIVATE_MODE, Folder

LOCK = f"{STATE_FOLDER}/lock"


class FolderLock:
    """The lock of a folder. The kernel releases it when the process ends."""

    def __init__(self, folder: Folder) -> None:
        """Take the lock. Raises `FilesError` if another process has it."""
        folder.make(STATE_FOLDER, PRIVATE_MODE)
        self._file = folder.open_for_lock(LOCK)
        try:
            with explained(LOCK):
                self._lock(folder)
        except FilesError:
            os.close(self._file)
            raise

    def _lock(self, folder: Folder) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FilesError(
                "FolderInUse",
                f"another agent writes to {folder.path}: two pods must not share one data folder; delete one of them",
            ) from None

    def release(self) -> None:
        """Release the lock."""
        os.close(self._file)
