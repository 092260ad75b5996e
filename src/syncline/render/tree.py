"""Paths in a tree of files: globs, and symbolic links, which must stay in the tree."""

import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence

from syncline.core.selectors import glob_matches, is_glob
from syncline.render.build_spec import Files, SourceFile
from syncline.render.errors import BuildError

MOST_LINKS = 40
"""The maximum number of links in one path, as in Linux."""

ROOT = "."


def normal(path: str) -> str:
    """Return the normalized path; the root is `.`. Raises BuildError if it leads out of the tree."""
    shortest = posixpath.normpath(path or ROOT)
    if shortest == ".." or shortest.startswith(("/", "../")) or "\0" in path:
        raise BuildError("leads out of the repository", file=path)
    return shortest


def join(folder: str, path: str) -> str:
    """Return the path of a relative `path` in a folder. Raises BuildError if it leads out of the tree."""
    if path.startswith("/"):
        raise BuildError("leads out of the repository; write a path relative to the file that names it", file=path)
    return normal(posixpath.join(folder, path))


def within(folder: str, path: str) -> bool:
    """Whether a path is the folder or below it."""
    return folder in {ROOT, path} or path.startswith(folder + "/")


def covers(known: str, path: str) -> bool:
    """Whether a file, folder or glob matches a path."""
    return glob_finds(known, path) if is_glob(known) else within(known, path)


def follow(path: str, link_at: Callable[[str], str | None]) -> str:
    """Return the path with all links followed, at every level. `link_at` returns the target of a link."""
    rest = [part for part in normal(path).split("/") if part != ROOT]
    done: list[str] = []
    links = 0
    while rest:
        done.append(rest.pop(0))
        here = "/".join(done)
        target = link_at(here)
        if target is None:
            continue
        links += 1
        if links > MOST_LINKS:
            raise BuildError("is a symbolic link that refers to itself", file=path)
        if target.startswith("/"):
            raise BuildError("is a symbolic link to a path outside of the repository", file=here)
        try:
            followed = normal(posixpath.join(posixpath.dirname(here), target))
        except BuildError:
            raise BuildError("is a symbolic link to a path outside of the repository", file=here) from None
        rest = [part for part in followed.split("/") if part != ROOT] + rest
        done = []
    return "/".join(done) or ROOT


def glob_finds(pattern: str, path: str) -> bool:
    """Whether a glob matches the path or a folder above it; `*` and `?` stay within a folder, `**` does not."""
    return _segments_match(pattern.split("/"), path.split("/"))


def _segments_match(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    # The possible lengths of the path that the pattern so far can match: there is no backtracking.
    reached = {0}
    for segment in pattern:
        if segment == "**":
            reached = set(range(min(reached), len(parts) + 1)) if reached else reached
        else:
            reached = {at + 1 for at in reached if at < len(parts) and glob_matches(segment, parts[at])}
    return bool(reached - {0}) or (not parts)


class FileTree:
    """Files in memory, with links followed."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._ordered = sorted(files)
        self._has_links = any(file.link is not None for file in files.values())
        self._places: dict[str, str] = {}
        self._folders = {ROOT}
        for path in files:
            folder = posixpath.dirname(path)
            while folder and folder not in self._folders:
                self._folders.add(folder)
                folder = posixpath.dirname(folder)

    def __iter__(self) -> Iterator[str]:
        return iter(self._ordered)

    def follow(self, path: str) -> str:
        """Return the path with all links followed."""
        if not self._has_links and path in self._files:
            return path
        if path not in self._places:
            self._places[path] = follow(path, self._link_at)
        return self._places[path]

    def _link_at(self, path: str) -> str | None:
        file = self._files.get(path)
        return None if file is None else file.link

    def file(self, path: str) -> SourceFile | None:
        """Return the file that a path leads to."""
        return self._files.get(self.follow(path))

    def entry(self, path: str) -> SourceFile | None:
        """Return the file or link at a path, without following it."""
        return self._files.get(path)

    @property
    def links(self) -> list[str]:
        """The paths of all links, in order."""
        return [path for path in self if self._files[path].link is not None]

    def has_folder(self, path: str) -> bool:
        """Whether there is a folder at a path, without following links."""
        return path in self._folders

    def under(self, folder: str) -> list[str]:
        """Return the sorted paths of files and links in a folder and its subfolders."""
        return [path for path in self._ordered if within(folder, path)]

    def select(self, path: str) -> list[str]:
        """Return the sorted paths of a file, folder or glob. Raises BuildError if there are none.

        Files with a leading dot match only a pattern or path that names them.
        """
        if is_glob(path):
            found = [each for each in self if glob_finds(normal(path), each)]
            if not found:
                raise BuildError("no file of the repository matches it", file=path)
            return [each for each in found if not _is_hidden(each) or "/." in f"/{path}"]
        place = self.follow(path)
        if place in self._files:
            return [normal(path)]
        if place not in self._folders:
            raise BuildError("is not in the repository", file=path)
        return [each for each in self.under(place) if not _is_hidden(each if place == ROOT else each[len(place) :])]


def _is_hidden(path: str) -> bool:
    return any(part.startswith(".") and part != ROOT for part in path.split("/"))


def outermost(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the sorted paths, without those below another of the paths."""
    kept: list[str] = []
    for path in sorted(set(paths)):
        if not any(within(folder, path) for folder in kept):
            kept.append(path)
    return (ROOT,) if ROOT in kept else tuple(kept)
