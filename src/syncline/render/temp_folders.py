"""Temporary folders for programs: private, without links to other folders, and deleted afterwards."""

import asyncio
import contextlib
import errno
import fcntl
import os
import posixpath
import secrets
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from syncline.programs import in_thread
from syncline.render.errors import BuildError, RenderFailed
from syncline.render.tree import FileTree, normal

PREFIX = "syncline-build-"
ABANDONED_SECONDS = 60.0
"""The minimum age of an unlocked folder before its removal: its owner may be about to lock it."""


class TempFolders:
    """A folder of this process, with a subfolder for each piece of work.

    The process holds a lock on it. The files of a killed process, which may be secrets, are therefore recognized and
    removed by the next process.
    """

    def __init__(self, parent: Path | None = None) -> None:
        self._parent = Path(parent or tempfile.gettempdir())
        self._own: Path | None = None
        self._lock = -1
        self._opening = asyncio.Lock()

    @asynccontextmanager
    async def folder(self) -> AsyncIterator[Path]:
        """Return an empty private folder. Raises RenderFailed if there is no space for it."""
        async with AsyncExitStack() as stack:
            try:
                async with self._opening:
                    own = await in_thread(self._own_folder)
                folder = own / secrets.token_hex(8)
                # From here on it is removed in any case, also if its creation fails.
                stack.push_async_callback(in_thread, shutil.rmtree, folder, ignore_errors=True)
                await in_thread(folder.mkdir, 0o700)
            except OSError as error:
                raise RenderFailed(
                    f"the folder for the build cannot be created: {error.strerror}", retry_after=10.0
                ) from None
            yield folder

    async def close(self) -> None:
        """Remove all folders."""
        async with self._opening:
            own, self._own = self._own, None
            if own is None:
                return
            try:
                await in_thread(shutil.rmtree, own, ignore_errors=True)
            finally:
                os.close(self._lock)

    def _own_folder(self) -> Path:
        if self._own is None:
            self._remove_abandoned()
            own = Path(os.path.realpath(tempfile.mkdtemp(prefix=PREFIX, dir=self._parent)))
            lock = _try_lock(own)
            if lock is None:
                raise OSError(errno.EAGAIN, "the folder is gone again")
            self._own, self._lock = own, lock
        return self._own

    def _remove_abandoned(self) -> None:
        for folder in self._parent.glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError):
                if time.time() - folder.stat().st_mtime < ABANDONED_SECONDS:
                    continue
                lock = _try_lock(folder)
                if lock is not None:
                    shutil.rmtree(folder, ignore_errors=True)
                    os.close(lock)


def _try_lock(folder: Path) -> int | None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


async def write_tree(folder: Path, tree: FileTree, paths: Iterable[str], contents: Mapping[str, bytes]) -> None:
    """Write files of a tree, with the content in `contents` if there is one. Links stay inside, or become copies."""
    try:
        await in_thread(_write_tree, folder, tree, list(paths), contents)
    except OSError as error:
        raise RenderFailed(f"the files for the build cannot be written: {error.strerror}", retry_after=10.0) from None


def _write_tree(folder: Path, tree: FileTree, paths: list[str], contents: Mapping[str, bytes]) -> None:
    for path in paths:
        if normal(path) != path:
            raise BuildError("is not a valid path of a file", file=path)
        place = tree.follow(path)
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        file = tree.entry(place)
        if file is not None:
            target.write_bytes(contents.get(place, file.content))
        elif tree.has_folder(place) and place != path:
            # Its target is checked, and written too: it is one of the paths of the build.
            target.symlink_to(posixpath.relpath(place, posixpath.dirname(path) or "."))
        else:
            raise BuildError("is a symbolic link to a missing file", file=path)


async def write_private(path: Path, content: bytes) -> None:
    """Write a file that holds a secret."""

    def write() -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)

    await in_thread(write)
