"""The rules for a pair, an upstream object and its copy: `PairRules`, and the form in which their base is recorded."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from syncline.api.workspacesync import ConflictStrategy
from syncline.core.path_tree import PathNode, path_tree
from syncline.core.plan import MAX_BASE
from syncline.core.twoway import STRATEGIES, AgreementOptions, Base, OnConflict, Side, Strategy

_APART = ","


class PairRules(Struct, frozen=True, kw_only=True):
    """The rules of a sync for its pairs of one resource."""

    strategy: ConflictStrategy = "UpstreamWins"
    two_way: bool = False
    """Whether changes of the copy are written upstream (direction Bidirectional)."""
    on_conflict: OnConflict = "UpstreamWins"
    """Under MergeChanges: the side that wins a path that was changed on both sides."""
    exact: bool = False
    """Whether the winner of UpstreamWins and DownstreamWins also removes values that it never set."""
    one_way: tuple[str, ...] = ()
    """Paths that transforms write, as JSON pointers or as paths of values: they flow down only."""
    max_retries: int = 5
    """The number of retries after a conflict of versions."""
    delay: float = 1.0
    """The seconds before the first retry."""

    def is_plain(self) -> bool:
        """Whether the copy only follows the upstream: then a plain write is enough, and no base is kept."""
        return not self.two_way and self.strategy == "UpstreamWins"

    def core_strategy(self) -> Strategy:
        """Return the strategy by its name in the core."""
        return STRATEGIES[self.strategy]

    def options(self, resolve: Side | None = None) -> AgreementOptions:
        """Return the options of the agreement."""
        return AgreementOptions(upward=self.two_way, on_conflict=self.on_conflict, exact=self.exact, resolve=resolve)

    def flowing_down(self, paths: Iterable[str]) -> frozenset[str]:
        """Return the paths that flow down only, because a transform writes them, a part of them, or a parent."""
        if not self.two_way or not self.one_way:
            return frozenset()
        written = _WrittenPaths.of(path.removeprefix("/").split("/") for path in self.one_way)
        return frozenset(path for path in paths if written.overlaps(path.split("/")))


def packed(base: Base) -> dict[str, str]:
    """Return a base as it is recorded: one map, with two digests only where the two sides differ."""
    entries: dict[str, str] = {}
    for path in base.up.keys() | base.down.keys():
        up, down = base.up.get(path, ""), base.down.get(path, "")
        entries[path] = up if up == down else f"{up}{_APART}{down}"
    return entries


def unpacked(entries: Mapping[str, str]) -> Base:
    """Return the base of a record."""
    up: dict[str, str] = {}
    down: dict[str, str] = {}
    for path, entry in entries.items():
        first, apart, second = entry.partition(_APART)
        if first:
            up[path] = first
        if there := second if apart else first:
            down[path] = there
    return Base(up, down)


def base_size(entries: Mapping[str, str]) -> int:
    """Return the bytes that a record takes."""
    return sum(
        len(path.encode()) + path.count('"') + path.count("\\") + len(digest) + 6 for path, digest in entries.items()
    )


def is_too_large(entries: Mapping[str, str]) -> bool:
    """Whether a record does not fit into an annotation."""
    return base_size(entries) > MAX_BASE


class _WrittenPaths:
    """The paths that transforms write, from some places on. Each part of a path is looked up once."""

    def __init__(self, nodes: Sequence[PathNode]) -> None:
        self.is_end = any(node.is_end for node in nodes)
        self._below: dict[str, list[PathNode]] = {}
        for node in nodes:
            for part, inside in node.below.items():
                self._below.setdefault(part, []).append(inside)
        self._known: dict[str, _WrittenPaths | None] = {}

    @staticmethod
    def of(paths: Iterable[Sequence[str]]) -> "_WrittenPaths":
        """Return the place at which all of these paths begin."""
        return _WrittenPaths([path_tree(paths)])

    def overlaps(self, path: Sequence[str]) -> bool:
        """Whether a path is written, or is above or below a written one; a place in a list means any of its items."""
        at = self
        for part in path:
            if at.is_end:
                return True
            found = at._next(part)
            if found is None:
                return False
            at = found
        return True

    def _next(self, part: str) -> "_WrittenPaths | None":
        is_item = part.startswith("[")
        if part not in self._below and not is_item:
            return None
        # All items are alike, unless a written path has the very text of one.
        name = part if part in self._below else "["
        if name not in self._known:
            nodes = list(self._below.get(part, ()))
            if is_item:
                places = (one for one in self._below if one == "-" or one.isdecimal())
                nodes += [node for place in places for node in self._below[place]]
            self._known[name] = _WrittenPaths(nodes) if nodes else None
        return self._known[name]
