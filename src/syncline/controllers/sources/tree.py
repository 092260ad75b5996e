"""Source tree: the files of all sources of an environment, each source in its folder."""

import hashlib
import posixpath
from collections.abc import Iterable, Mapping, Sequence

from syncline.git import CommitTree, Limits, Mode, PathNotFound, TooLarge
from syncline.render.build_spec import SourceFile
from syncline.render.inputs import EntryKind

ROOT = "."
READ_LIMIT = Limits().read_bytes


class DataTree:
    """The keys of a ConfigMap or Secret as files of one folder."""

    def __init__(self, data: Mapping[str, bytes]) -> None:
        self._data = data

    def paths(self, path: str) -> list[str]:
        """Return the files at a path."""
        return sorted(self._data) if path == ROOT else [name for name in self._data if name == path]

    def digest(self, path: str) -> str:
        """Return the digest of the content at a path. It must be hashed with a key, because it may be of a Secret."""
        hashed = hashlib.sha256()
        for name in self.paths(path):
            hashed.update(f"{name}\0{len(self._data[name])}\0".encode() + self._data[name])
        return hashed.hexdigest()

    def kind(self, path: str) -> EntryKind | None:
        """Return the type of a path."""
        return "folder" if path == ROOT else "file" if path in self._data else None

    def files(self, path: str) -> dict[str, SourceFile]:
        """Return the files at a path."""
        return {name: SourceFile(content=self._data[name]) for name in self.paths(path)}


class SourceTree:
    """The trees of all sources, by their folders. Names are in memory; contents are read on demand."""

    def __init__(self, trees: Mapping[str, CommitTree | DataTree]) -> None:
        self._trees = trees

    def kind(self, path: str) -> EntryKind | None:
        """Return the type of a path from the root, without following links; the root `.` is a folder."""
        if path == ROOT:
            return "folder"
        tree, rest = self._at(path)
        if tree is None:
            return None
        return tree.kind(rest) if isinstance(tree, DataTree) else _kind(tree, rest)

    def is_missing(self, path: str) -> bool:
        """Whether a path does not exist, or a glob matches nothing."""
        tree, rest = self._at(path)
        return path != ROOT and self.kind(path) is None and not (isinstance(tree, CommitTree) and _entries(tree, rest))

    def commit(self, path: str) -> str:
        """Return the commit that a path is read from; empty if it is not from a repository."""
        tree, _ = self._at(path)
        return tree.commit.sha if isinstance(tree, CommitTree) else ""

    def links(self, folder: str) -> Sequence[str]:
        """Return the paths of all symbolic links in a folder and its subfolders."""
        found: list[str] = []
        for name, tree in self._trees.items():
            if isinstance(tree, CommitTree):
                links = (entry.path for entry in tree.entries if entry.mode is Mode.SYMLINK)
                found += [path for link in links if _is_in(path := posixpath.join(name, link), folder)]
        return found

    async def read(self, paths: Sequence[str]) -> Mapping[str, bytes]:
        """Read files; the content of a link is its target."""
        return {path: content for path, (content, _) in (await self._read(paths)).items()}

    def digest(self, path: str) -> str:
        """Return the digests of everything at a file, folder or glob."""
        if path == ROOT:
            return "+".join(tree.digest(ROOT) for _, tree in sorted(self._trees.items()))
        tree, rest = self._at(path)
        return tree.digest(rest) if tree is not None else ""

    async def files(self, paths: Iterable[str]) -> dict[str, SourceFile]:
        """Read all files at some files, folders and globs; paths that do not exist are left out."""
        wanted: list[str] = []
        found: dict[str, SourceFile] = {}
        for path in paths:
            for name, tree, rest in self._parts(path):
                if isinstance(tree, DataTree):
                    found |= {posixpath.join(name, one): file for one, file in tree.files(rest).items()}
                else:
                    wanted += [posixpath.join(name, one) for one in _entries(tree, rest)]
        for path, (content, mode) in (await self._read(list(dict.fromkeys(wanted)))).items():
            if mode is Mode.SYMLINK:
                found[path] = SourceFile(link=content.decode(errors="surrogateescape"))
            else:
                found[path] = SourceFile(content=content, executable=mode is Mode.EXECUTABLE)
        return found

    async def _read(self, paths: Sequence[str]) -> dict[str, tuple[bytes, Mode]]:
        by_tree: dict[str, list[str]] = {}
        for path in paths:
            name = next(iter(self._trees)) if "" in self._trees else path.split("/", 1)[0]
            by_tree.setdefault(name, []).append(path)
        found: dict[str, tuple[bytes, Mode]] = {}
        self._refuse_too_much(paths)
        for name, members in by_tree.items():
            tree = self._trees.get(name)
            rests = {path: self._at(path)[1] for path in members}
            if isinstance(tree, DataTree):
                held = tree.files(ROOT)
                found |= {path: (held[rest].content, Mode.REGULAR) for path, rest in rests.items() if rest in held}
            elif tree is not None:
                contents = await tree.read(rests.values())
                for path, rest in rests.items():
                    entry = tree.entry(rest)
                    found[path] = (contents[rest], entry.mode if entry is not None else Mode.REGULAR)
        return found

    def _refuse_too_much(self, paths: Sequence[str]) -> None:
        """Raise `TooLarge` if the files of all sources together exceed the limit. `git` checks each source."""
        size = 0
        for path in paths:
            tree, rest = self._at(path)
            entry = tree.entry(rest) if isinstance(tree, CommitTree) else None
            size += entry.size if entry is not None else 0
        if len(self._trees) > 1 and size > READ_LIMIT:
            raise TooLarge(
                f"choose smaller paths: {len(paths)} files of all sources have {size} bytes, not {READ_LIMIT}"
            )

    def _parts(self, path: str) -> list[tuple[str, CommitTree | DataTree, str]]:
        if path == ROOT:
            return [(name, tree, ROOT) for name, tree in self._trees.items()]
        tree, rest = self._at(path)
        name = "" if "" in self._trees else path.split("/", 1)[0]
        return [(name, tree, rest)] if tree is not None else []

    def _at(self, path: str) -> tuple[CommitTree | DataTree | None, str]:
        if "" in self._trees:
            return self._trees[""], path
        name, _, rest = path.partition("/")
        return self._trees.get(name), rest or ROOT


def _kind(tree: CommitTree, path: str) -> EntryKind | None:
    entry = tree.entry(path)
    if entry is None:
        return "folder" if tree.is_folder(path) else None
    if entry.mode is Mode.SYMLINK:
        return "link"
    return "folder" if entry.mode is Mode.SUBMODULE else "file"


def _entries(tree: CommitTree, path: str) -> list[str]:
    try:
        return [entry.path for entry in tree.find(path)]
    except PathNotFound:
        return []


def _is_in(path: str, folder: str) -> bool:
    return folder in (ROOT, path) or path.startswith(folder + "/")
