"""Finds the paths that a build depends on, so that only they are read, and only their changes cause a build."""

import posixpath
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from syncline.api.build import Jsonnet
from syncline.core.selectors import is_glob
from syncline.render import kustomization
from syncline.render.build_spec import BuildSpec, has_marks
from syncline.render.errors import BuildError
from syncline.render.tree import ROOT, FileTree, follow, join, normal, outermost, within

MOST_REFERENCES = 10_000
"""The maximum number of folders and files that kustomizations or imports of one build refer to."""

EntryKind = Literal["file", "folder", "link"]
BuildKind = Literal["Plain", "Kustomize", "Helm", "Jsonnet"]

_IMPORT = re.compile(rb"""\bimport(?:str|bin)?\s*@?(?:"((?:[^"\\\n]|\\.){1,512})"|'((?:[^'\\\n]|\\.){1,512})')""")


class TreeAccess(Protocol):
    """A tree that is examined without reading all of it."""

    def kind(self, path: str) -> EntryKind | None:
        """Return the type of a path from the root, without following links; the root `.` is a folder."""

    def links(self, folder: str) -> Sequence[str]:
        """Return the paths of all symbolic links in a folder and its subfolders."""

    async def read(self, paths: Sequence[str]) -> Mapping[str, bytes]:
        """Read files; the content of a link is its target."""


class BuildInputs(msgspec.Struct, frozen=True):
    """The plan of a build. With `problems` it fails; a change in the paths can solve them."""

    kind: BuildKind
    path: str
    """The file, folder or glob, with links followed."""
    paths: tuple[str, ...]
    problems: tuple[BuildError, ...]
    templates: tuple[str, ...] = ()
    """Kustomization files that are templates: their paths are known after their rendering."""


async def inputs(tree: TreeAccess, spec: BuildSpec) -> tuple[str, ...]:
    """Return the files, folders and globs of the tree that the build depends on.

    These are the path of the spec and all paths that it refers to: bases, components, patches and files of
    kustomizations, imports of jsonnet and its libraries, targets of symbolic links. The result is `.`, the whole tree,
    if a kustomization file is a template, because its paths are not known before its rendering. It does not raise for
    invalid files: a build that fails depends on the files that must change.
    """
    return (await find_inputs(tree, spec)).paths


async def find_inputs(tree: TreeAccess, spec: BuildSpec, rendered: Collection[str] = ()) -> BuildInputs:
    """Return the type of the build, its paths and its problems; `rendered` files are no longer templates."""
    return await _InputFinder(tree, spec, rendered).find()


class TreeReader:
    """A reader of files in memory; `changed` has the contents that differ from the files."""

    def __init__(self, tree: FileTree, changed: Mapping[str, bytes] | None = None) -> None:
        self._tree = tree
        self._changed = changed or {}

    def kind(self, path: str) -> EntryKind | None:
        """Return the type of a path."""
        entry = self._tree.entry(path)
        if entry is not None:
            return "file" if entry.link is None else "link"
        return "folder" if self._tree.has_folder(path) else None

    def links(self, folder: str) -> Sequence[str]:
        """Return the links in a folder."""
        return [path for path in self._tree.links if within(folder, path)]

    async def read(self, paths: Sequence[str]) -> Mapping[str, bytes]:
        """Return contents, and targets of links."""
        entries = {path: self._tree.entry(path) for path in paths}
        return {
            path: self._changed.get(path, entry.content) if entry.link is None else entry.link.encode()
            for path, entry in entries.items()
            if entry
        }


class _UnreadLink(Exception):  # noqa: N818 - a request, not an error
    def __init__(self, path: str) -> None:
        self.path = path


class _InputFinder:
    def __init__(self, tree: TreeAccess, spec: BuildSpec, rendered: Collection[str]) -> None:
        self._tree = tree
        self._spec = spec
        self._rendered = rendered
        self._links: dict[str, str] = {}
        self._paths: set[str] = set()
        self._problems: list[BuildError] = []
        self._templates: list[str] = []

    async def find(self) -> BuildInputs:
        path = self._spec.path
        kind: BuildKind = "Plain"
        try:
            path = normal(path)
            self._paths.add(path)
            if not is_glob(path):
                path = self._folder_of(await self._follow(path))
                self._paths.add(path)
            kind = await self._kind(path)
            if kind == "Kustomize":
                await self._walk_kustomizations(path)
            elif kind == "Jsonnet":
                path = await self._walk_imports(path)
        except BuildError as error:
            self._problems.append(error)
        return BuildInputs(kind, path, await self._with_links(), tuple(self._problems), tuple(self._templates))

    def _folder_of(self, path: str) -> str:
        """Return the folder, if the path is its kustomization file or Chart.yaml."""
        marks = {"Kustomize": kustomization.NAMES, "Helm": ("Chart.yaml",)}
        for kind, names in marks.items():
            if self._spec.build.type in {"Auto", kind} and posixpath.basename(path) in names:
                return posixpath.dirname(path) or ROOT
        return path

    async def _kind(self, path: str) -> BuildKind:
        asked = self._spec.build.type
        if is_glob(path):
            if asked not in {"Auto", "Plain"}:
                raise BuildError(f"{asked} takes a folder, not a glob", file=path)
            return "Plain"
        at = self._tree.kind(path)
        if at is None:
            raise BuildError("is not in the repository", file=self._spec.path)
        if at == "file":
            if asked in {"Kustomize", "Helm"}:
                raise BuildError(f"{asked} takes a folder, not a file", file=self._spec.path)
            return "Jsonnet" if asked == "Jsonnet" or (asked == "Auto" and path.endswith(".jsonnet")) else "Plain"
        if asked != "Auto":
            return asked
        if await self._kustomization_of(path) is not None:
            return "Kustomize"
        if await self._exists(join(path, "Chart.yaml")):
            return "Helm"
        return "Jsonnet" if await self._exists(join(path, self._jsonnet.entry)) else "Plain"

    @property
    def _jsonnet(self) -> Jsonnet:
        return self._spec.build.jsonnet or Jsonnet()

    async def _walk_kustomizations(self, root: str) -> None:
        """Read the kustomization of the root and of every folder that it refers to, each once."""
        waiting, seen = [root], {root}
        while waiting:
            folder = waiting.pop()
            file = await self._kustomization_of(folder)
            if file is None:
                self._problems.append(BuildError("has no kustomization file, and is named as a base", file=folder))
                continue
            place = await self._follow(file)
            content = (await self._tree.read([place])).get(place, b"")
            if self._spec.template and place not in self._rendered and has_marks(content):
                self._paths.add(ROOT)
                self._templates.append(place)
                continue
            try:
                named = kustomization.references(file, content)
            except BuildError as error:
                self._problems.append(error)
                continue
            for reference in named:
                found = await self._refer(file, folder, reference)
                if found is None or found in seen:
                    continue
                seen.add(found)
                if len(seen) > MOST_REFERENCES:
                    raise BuildError(f"refers to more than {MOST_REFERENCES} files and folders", file=file)
                self._paths.add(found)
                if self._tree.kind(found) == "folder":
                    waiting.append(found)

    async def _refer(self, file: str, folder: str, reference: str) -> str | None:
        try:
            named = join(folder, reference)
            self._paths.add(named)
            place = await self._follow(named)
        except BuildError:
            self._problems.append(BuildError("names a path outside of the repository", file=file))
            return None
        if self._tree.kind(place) is None:
            self._problems.append(
                BuildError(
                    "names a file or folder that is not in the repository; remote bases are not fetched: copy them",
                    file=file,
                )
            )
            return None
        return place

    async def _kustomization_of(self, folder: str) -> str | None:
        for name in kustomization.NAMES:
            if await self._exists(join(folder, name)):
                return join(folder, name)
        return None

    async def _walk_imports(self, path: str) -> str:
        """Read the entry and all its imports; return the path of the entry."""
        at_file = self._tree.kind(path) == "file"
        entry = path if at_file else join(path, self._jsonnet.entry)
        libraries = [normal(library) for library in self._jsonnet.library_paths]
        self._paths.update(libraries)
        if not await self._exists(entry):
            raise BuildError("is not in the repository; name another in build.jsonnet.entry", file=entry)
        waiting, seen = [entry], {entry}
        while waiting:
            file = waiting.pop()
            place = await self._follow(file)
            content = (await self._tree.read([place])).get(place, b"")
            for found in _IMPORT.finditer(content):
                name = (found[1] or found[2]).decode(errors="replace")
                for candidate in self._candidates(name, [posixpath.dirname(file) or ROOT, *libraries]):
                    self._paths.add(candidate)
                    if candidate not in seen and await self._exists(candidate):
                        seen.add(candidate)
                        waiting.append(candidate)
                if len(seen) > MOST_REFERENCES:
                    raise BuildError(f"refers to more than {MOST_REFERENCES} imports", file=entry)
        return entry

    @staticmethod
    def _candidates(name: str, folders: Iterable[str]) -> list[str]:
        found = []
        for folder in folders:
            try:
                found.append(join(folder, name))
            except BuildError:
                continue  # the evaluation reports it, with the line
        return found

    async def _exists(self, path: str) -> bool:
        try:
            return self._tree.kind(await self._follow(path)) == "file"
        except BuildError:
            return False

    async def _follow(self, path: str) -> str:
        while True:
            try:
                return follow(path, self._link_at)
            except _UnreadLink as unread:
                targets = await self._tree.read([unread.path])
                self._links[unread.path] = targets.get(unread.path, b"").decode(errors="replace")

    def _link_at(self, path: str) -> str | None:
        if path not in self._links and self._tree.kind(path) == "link":
            raise _UnreadLink(path)
        return self._links.get(path)

    async def _with_links(self) -> tuple[str, ...]:
        """Return all paths, and the targets of their links."""
        waiting, seen = list(self._paths), set(self._paths)
        while waiting:
            path = waiting.pop()
            folder = _fixed_part(path)
            if self._tree.kind(folder) != "folder":
                continue
            for link in self._tree.links(folder):
                try:
                    place = await self._follow(link)
                except BuildError:
                    continue  # the build reports it
                if place not in seen and not any(within(known, place) for known in seen):
                    seen.add(place)
                    waiting.append(place)
                if len(seen) > MOST_REFERENCES:
                    return (ROOT,)
        return outermost(seen)


def _fixed_part(path: str) -> str:
    """Return the folder of a glob."""
    parts = path.split("/")
    fixed = next((at for at, part in enumerate(parts) if is_glob(part)), len(parts))
    return "/".join(parts[:fixed]) or ROOT
