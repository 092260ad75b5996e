"""Ignored fields: `spec.ignoreDifferences`.

    paths = ignored(spec.ignore_differences, "Deployment.apps", "web")
    fields = remove_paths(manifest, paths)

An ignored field is not sent: the API server never counts it as ours, and a change of it is no drift.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from syncline.api.configsync import Ignored
from syncline.core.group_kind import GroupKind
from syncline.core.path_tree import PathNode, path_tree
from syncline.core.selectors import glob_matches

Path = tuple[str, ...]
"""The parts of a JSON pointer; `*` is any item of a list, or any key of a map."""

ANY = "*"
_FEW = 4

_BAD_ESCAPE = re.compile(r"~(?![01])").search
_IDENTITY: frozenset[Path] = frozenset(
    {("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"), ("metadata", "namespace")}
)


class PointerError(Exception):
    """A path of ignoreDifferences is not valid. The message has the remedy."""


def parse_pointer(pointer: str) -> Path:
    """Split a JSON pointer. Raises `PointerError`, also for a path of the identity of the object."""
    if not pointer.startswith("/"):
        raise PointerError(f"{pointer!r} does not begin with a slash: write a JSON pointer, such as /spec/replicas")
    if _BAD_ESCAPE(pointer):
        raise PointerError(f"{pointer!r} has a ~ on its own: write ~0 for ~ and ~1 for /")
    path = tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/"))
    if "" in path:
        raise PointerError(f"{pointer!r} has an empty part: write one slash before each part, and none at the end")
    if path in _IDENTITY:
        raise PointerError(f"{pointer!r} is part of the identity of the object: write another path, or one below it")
    return path


def ignored(entries: Iterable[Ignored], kind: str, name: str) -> tuple[Path, ...]:
    """Return the paths that are ignored in an object of this kind (`Kind` or `Kind.group`). Raises `PointerError`."""
    group, only_kind = GroupKind.parse(kind)
    found = {
        parse_pointer(pointer): None
        for entry in entries
        if entry.group in ("", group)
        and (not entry.kind or glob_matches(entry.kind.lower(), only_kind.lower()))
        and (not entry.name or glob_matches(entry.name, name))
        for pointer in entry.paths
    }
    return tuple(found)


def remove_paths(fields: Mapping[str, Any], paths: Sequence[Path]) -> dict[str, Any]:
    """Return a copy of an object without the fields at the paths; its identity stays."""
    if not paths:
        return dict(fields)
    result = _pruned(fields, _Paths.of(paths), ())
    assert isinstance(result, dict)  # noqa: S101 - no path is empty
    return result


def compared_values(digests: Mapping[str, str], paths: Sequence[Path]) -> dict[str, str]:
    """Return the values of a ConfigMap or Secret (`data/KEY`, `binaryData/KEY`) that the paths do not match."""
    known = _Paths.of(paths)
    return {name: digest for name, digest in digests.items() if not known.cover(name)}


class _Paths:
    """Paths from some place on. Each part of an object is looked up once, however many paths there are."""

    def __init__(self, nodes: Sequence[PathNode]) -> None:
        self.is_end = any(node.is_end for node in nodes)
        self._nodes = nodes
        # Of many nodes, the parts are put together once; of a few, they are looked up in each.
        self._parts = [frozenset(part for node in nodes for part in node.below)] if len(nodes) > _FEW else None
        self._known: dict[str, _Paths | None] = {}

    @staticmethod
    def of(paths: Iterable[Path]) -> "_Paths":
        """Return the place at which all of these paths begin."""
        return _Paths([path_tree(paths)])

    def below(self, part: str) -> "_Paths | None":
        """Return the paths below a part; None if there are none."""
        if not any(part in parts for parts in self._parts or (node.below for node in self._nodes)):
            part = ANY  # all of these are alike
        if part not in self._known:
            found = [node.below[name] for node in self._nodes for name in {part, ANY} if name in node.below]
            self._known[part] = _Paths(found) if found else None
        return self._known[part]

    def cover(self, value_path: str) -> bool:
        """Whether a path is that of a value, or above or below it."""
        at: _Paths | None = self
        for part in value_path.split("/", 1):
            at = at.below(part) if at is not None else None
            if at is None or at.is_end:
                return at is not None
        return True


def _pruned(value: Any, paths: _Paths, here: Path) -> Any:
    """Return a value without the fields at the paths from here. All are removed at once, so that indices stay valid."""
    if isinstance(value, Mapping):
        return {
            name: _pruned(inside, below, (*here, name)) if below is not None else inside
            for name, inside in value.items()
            if (below := paths.below(str(name))) is None or not below.is_end or (*here, name) in _IDENTITY
        }
    if isinstance(value, list):
        return [
            _pruned(item, below, (*here, str(index))) if below is not None else item
            for index, item in enumerate(value)
            if (below := paths.below(str(index))) is None or not below.is_end
        ]
    return value
