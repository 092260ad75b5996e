"""The rules for a pair, an upstream object and its copy: `PairRules`, and the form in which their base is recorded."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from syncline.api.workspacesync import ConflictStrategy
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
        written = [_segments(path.removeprefix("/")) for path in self.one_way] if self.two_way else []
        return frozenset(path for path in paths if any(_overlap(one, _segments(path)) for one in written))


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


def _segments(path: str) -> list[str]:
    return path.split("/")


def _overlap(written: list[str], path: list[str]) -> bool:
    """Whether one is the other, or above or below it; a place in a list stands for any of its items."""
    return all(
        one == other or (other.startswith("[") and (one == "-" or one.isdecimal()))
        for one, other in zip(written, path, strict=False)
    )
