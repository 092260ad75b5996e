"""The files of one commit: their list, their digest, and their content on request."""

import posixpath
import sys
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from hashlib import sha256

from msgspec import Struct

from syncline.core.path_globs import glob
from syncline.git.errors import GitError, InvalidSource, NeedsMore, PathNotFound, Refused, TooLarge
from syncline.git.limits import Limits
from syncline.git.refs import Commit
from syncline.git.tool_errors import Damaged

_MAX_LINKS = 40
_MAX_PATTERN = 1024
_LONGEST_LINK = 4096
_KEPT_GLOBS = 100
_WILD = frozenset("*?[")
_TOLD_BYTES = 200  # mode, kind, id and size
_ENTRY_COST = 232  # the entry, its id and size, and its place in the lists


class Mode(StrEnum):
    """The type of a path in a commit."""

    REGULAR = "100644"
    EXECUTABLE = "100755"
    SYMLINK = "120000"
    SUBMODULE = "160000"


_MODES = {mode.value: mode for mode in Mode}


class TreeEntry(Struct, frozen=True, gc=False):
    """A file, a link or a submodule of a commit."""

    path: str
    mode: Mode
    id: str
    size: int
    """The size in bytes; 0 for a submodule."""


Blobs = Callable[[Sequence[TreeEntry]], Awaitable[Mapping[str, bytes]]]
"""Reads the content of entries, by their ids."""


class Listing(Struct, frozen=True, weakref=True):
    """The parsed output of `git ls-tree` for a commit."""

    root: str
    entries: tuple[TreeEntry, ...]
    """Sorted by path."""
    folders: Mapping[str, str]
    """The ids of folders, by path."""
    cost: int = 0
    """The approximate size in memory, in bytes."""


class CommitTree:
    """The files of one commit. Everything except the content is in memory."""

    def __init__(
        self,
        commit: Commit,
        listing: Listing,
        blobs: Blobs,
        limits: Limits,
        mounts: Mapping[str, "CommitTree"] | None = None,
    ) -> None:
        self.commit = commit
        self._listing = listing
        self._blobs = blobs
        self._limits = limits
        self._mounts = dict(mounts or {})
        entries = [entry for entry in listing.entries if entry.path not in self._mounts]
        for place, tree in self._mounts.items():
            entries += [TreeEntry(f"{place}/{each.path}", each.mode, each.id, each.size) for each in tree.entries]
        self.entries: tuple[TreeEntry, ...] = tuple(sorted(entries, key=_path)) if self._mounts else listing.entries
        """All files, links and submodules, sorted by path."""
        self._paths = [entry.path for entry in self.entries]
        self._globs: dict[str, tuple[TreeEntry, ...]] = {}

    @property
    def root(self) -> str:
        """The id of the whole tree."""
        return self._listing.root

    @property
    def cost(self) -> int:
        """The approximate size in memory, in bytes, with the files of its submodules."""
        return self._listing.cost + sum(tree.cost for tree in self._mounts.values())

    @property
    def submodules(self) -> tuple[TreeEntry, ...]:
        """The paths of submodules, with or without their files."""
        return tuple(entry for entry in self._listing.entries if entry.mode is Mode.SUBMODULE)

    def entry(self, path: str) -> TreeEntry | None:
        """Return the file, link or submodule at a path."""
        index = bisect_left(self._paths, path)
        return self.entries[index] if index < len(self._paths) and self._paths[index] == path else None

    def is_folder(self, path: str) -> bool:
        """Whether a path is a folder that is not empty."""
        plain = normalize(path)
        return not plain or bool(self._under(plain))

    def find(self, pattern: str) -> tuple[TreeEntry, ...]:
        """Return the files and links of a file, folder or glob, sorted by path.

        In a glob, `*` and `?` stay within one folder, `**` does not. A matching folder means all its files. A path that
        exists is not read as a glob. Raises `PathNotFound` if there is no match, and `Refused` for a submodule whose
        files were not requested.
        """
        found = self._match(normalize(pattern))
        if not found:
            raise PathNotFound(f"the commit {self.commit.sha[:12]} has no file or folder {pattern!r}; check the path")
        for entry in found:
            if entry.mode is Mode.SUBMODULE:
                raise Refused(f"{entry.path!r} is a submodule: set submodules to true, or choose another path")
        return found

    def digest(self, pattern: str) -> str:
        """Return the digest of a file, folder or glob: equal digests mean equal paths, modes and contents.

        It is empty if there is no match. The digest of a folder is its git id, so it does not depend on the commit.
        """
        plain = normalize(pattern)
        if not self._mounts:
            if not plain:
                return self.root if self.entries else ""
            if folder := self._listing.folders.get(plain):
                return folder
        found = self._match(plain)
        if not found:
            return ""
        if len(found) == 1 and found[0].path == plain:
            return f"{found[0].mode}:{found[0].id}"
        lines = "".join(f"{entry.mode} {entry.id} {entry.path}\0" for entry in found)
        return sha256(lines.encode(errors="surrogatepass")).hexdigest()

    async def read(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Read files, all at once. The content of a link is its target.

        Raises `PathNotFound` for a path that is not a file, and `TooLarge` if the files exceed the limits.
        """
        wanted: dict[str, TreeEntry] = {}
        for path in paths:
            entry = self.entry(path)
            if entry is None or entry.mode is Mode.SUBMODULE:
                raise PathNotFound(f"the commit {self.commit.sha[:12]} has no file {path!r}")
            wanted[path] = entry
        size = sum(entry.size for entry in wanted.values())
        if size > self._limits.read_bytes:
            largest = max(wanted.values(), key=lambda entry: entry.size)
            raise TooLarge(
                f"{len(wanted)} files of {size} bytes are more than the {self._limits.read_bytes} that are read at "
                f"once; the largest is {largest.path!r} with {largest.size}: choose a smaller path"
            )
        return await self._read(wanted)

    async def _read(self, wanted: Mapping[str, TreeEntry]) -> dict[str, bytes]:
        result: dict[str, bytes] = {}
        for place, tree in self._mounts.items():
            inside = [path for path in wanted if path.startswith(f"{place}/")]
            if inside:
                read = await tree.read(path[len(place) + 1 :] for path in inside)
                result |= {f"{place}/{path}": content for path, content in read.items()}
        own = {path: entry for path, entry in wanted.items() if path not in result}
        if own:
            blobs = await self._blobs(list(own.values()))
            result |= {path: blobs[entry.id] for path, entry in own.items()}
        return result

    async def follow(self, path: str) -> str:
        """Return the path of the file or folder that a path leads to, through links.

        Raises `Refused` for a link out of the tree or in a loop, and `PathNotFound` for a link to a missing file.
        """
        todo, done = [part for part in path.split("/") if part not in ("", ".")], ""
        for _ in range(_MAX_LINKS):
            while todo:
                part = todo.pop(0)
                if part == "..":
                    if not done:
                        raise Refused(f"the link {path!r} leads out of the repository")
                    done = posixpath.dirname(done)
                    continue
                done = f"{done}/{part}" if done else part
                entry = self.entry(done)
                if entry is not None and entry.mode is Mode.SYMLINK:
                    todo = [*await self._target(entry), *todo]
                    done = posixpath.dirname(done)
                    break
            else:
                if self.entry(done) or self.is_folder(done):
                    return done
                raise PathNotFound(f"{path!r} leads to {done!r}, which the commit {self.commit.sha[:12]} does not have")
        raise Refused(f"the link {path!r} is part of a loop")

    async def _target(self, link: TreeEntry) -> list[str]:
        if link.size > _LONGEST_LINK:
            raise Refused(f"the link {link.path!r} is too long")
        target = (await self.read([link.path]))[link.path].decode(errors="backslashreplace")
        if target.startswith("/"):
            raise Refused(f"the link {link.path!r} leads out of the repository")
        return [part for part in target.split("/") if part not in ("", ".")]

    def _match(self, plain: str) -> tuple[TreeEntry, ...]:
        if not plain:
            return self.entries
        if entry := self.entry(plain):
            return (entry,)
        if (found := self._under(plain)) or not _WILD & set(plain):
            return found
        if plain not in self._globs:
            while len(self._globs) >= _KEPT_GLOBS:
                self._globs.pop(next(iter(self._globs)))
            self._globs[plain] = self._glob(plain)
        return self._globs[plain]

    def _glob(self, plain: str) -> tuple[TreeEntry, ...]:
        # Only files below the literal folders of the glob can match.
        start = plain[: min(plain.index(wild) for wild in _WILD if wild in plain)].rpartition("/")[0]
        pattern = glob(plain)
        candidates = self._under(start) if start else self.entries
        return tuple(entry for entry in candidates if pattern.match(entry.path))

    def _under(self, folder: str) -> tuple[TreeEntry, ...]:
        # "0" is the next character after "/".
        return self.entries[bisect_left(self._paths, f"{folder}/") : bisect_left(self._paths, f"{folder}0")]


def normalize(path: str) -> str:
    """Return the normalized path, empty for the whole tree. Raises `InvalidSource` for a path out of the tree."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or ".." in parts or "\0" in path or len(path) > _MAX_PATTERN:
        raise InvalidSource(f"the path {path[:80]!r} must lie within the repository: no '..', no '/' at its start")
    return "/".join(parts)


class ListingReader:
    """Parses the output of `git ls-tree -r -t -l -z` as a stream, within limits."""

    def __init__(self, root: str, limits: Limits, most: int) -> None:
        self._root = root
        self._limits = limits
        self._most = most
        self._entries: list[TreeEntry] = []
        self._folders: dict[str, str] = {}
        self._rest = b""
        self._cost = 0

    def feed(self, chunk: bytes) -> None:
        """Parse a piece. Raises `TooLarge`, `NeedsMore` if only the size is too large, `Refused` for unsafe paths."""
        try:
            self._feed(chunk)
        except GitError:
            # An error can be stored for a while, and its traceback would keep these objects in memory.
            self._entries, self._folders, self._rest = [], {}, b""
            raise

    def _feed(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\0")
        for line in lines:
            self._take(line)
        if len(self._rest) > self._limits.path_bytes + _TOLD_BYTES:
            raise TooLarge(f"the commit has a path of more than the allowed {self._limits.path_bytes} bytes")

    def finish(self) -> Listing:
        """Return what was read."""
        return Listing(self._root, tuple(sorted(self._entries, key=_path)), self._folders, self._cost)

    def _take(self, line: bytes) -> None:
        fields, _, raw = line.partition(b"\t")
        limits = self._limits
        if len(self._entries) + len(self._folders) >= limits.files:
            raise TooLarge(f"the commit has more than {limits.files} files and folders")
        if len(raw) > limits.path_bytes:
            raise TooLarge(f"the commit has a path of {len(raw)} bytes; {limits.path_bytes} are allowed")
        mode, kind, identity, size = fields.decode().split()
        path = raw.decode(errors="backslashreplace")
        self._cost += sys.getsizeof(path) + _ENTRY_COST
        if self._cost > self._most:
            raise NeedsMore(
                f"the list of the commit's files needs more than {self._most} bytes: use shorter paths or fewer files"
            )
        if any(part in ("", ".", "..") or part.lower() == ".git" for part in path.split("/")):
            raise Refused(f"the commit has a path that Git forbids: {path!r}")
        if kind == "tree":
            self._folders[path] = identity
        elif size == "BAD":
            raise Damaged(f"the object of {path!r} is not there")
        else:
            # Modes of old tools, such as 100664, count as files.
            known = _MODES.get(mode, Mode.REGULAR)
            self._entries.append(TreeEntry(path, known, identity, 0 if size == "-" else int(size)))


def _path(entry: TreeEntry) -> str:
    return entry.path
