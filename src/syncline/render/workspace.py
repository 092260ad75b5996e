"""Folders on disk for programs that want one: private, with no link that leads out, and gone afterwards."""

import asyncio
import os
import posixpath
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from syncline.render.errors import BuildError, RenderFailed
from syncline.render.trees import Tree, normal

PREFIX = "syncline-build-"


@asynccontextmanager
async def workspace(parent: Path | None) -> AsyncIterator[Path]:
    """Lend an empty folder that only this user can look into; RenderFailed where there is no room for one."""
    try:
        folder = Path(await asyncio.to_thread(_new_folder, parent))
    except OSError as error:
        raise RenderFailed(f"no folder to build in: {error.strerror}", retry_after=10.0) from None
    try:
        yield folder
    finally:
        await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))


def _new_folder(parent: Path | None) -> str:
    return os.path.realpath(tempfile.mkdtemp(prefix=PREFIX, dir=parent))


async def write_tree(folder: Path, tree: Tree, paths: Iterable[str], contents: Mapping[str, bytes]) -> None:
    """Write files of a tree, those in `contents` with that content. Links become copies, or links within the folder."""
    try:
        await asyncio.to_thread(_write_tree, folder, tree, list(paths), contents)
    except OSError as error:
        raise RenderFailed(f"the files cannot be written to build in: {error.strerror}", retry_after=10.0) from None


def _write_tree(folder: Path, tree: Tree, paths: list[str], contents: Mapping[str, bytes]) -> None:
    for path in paths:
        if normal(path) != path:
            raise BuildError("is no path that a file can have", file=path)
        place = tree.follow(path)
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        file = tree.entry(place)
        if file is not None:
            target.write_bytes(contents.get(place, file.content))
        elif tree.has_folder(place) and place != path:
            # Where it leads is checked, and written as well: it is among the paths of the build.
            target.symlink_to(posixpath.relpath(place, posixpath.dirname(path) or "."))
        else:
            raise BuildError("is a symbolic link to nothing", file=path)


async def write_private(path: Path, content: bytes) -> None:
    """Write a file that holds a secret."""

    def write() -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)

    await asyncio.to_thread(write)
