"""Two sides of one object, kept in agreement, per value, on digests alone: `agree(...) -> Agreement`. Pure and total.

A change is a difference from the recorded base, never a timestamp. The base is two maps, because a server may store
another value than it was sent: a side that still equals its own half of the base has not changed. Equal values on both
sides are agreed, whichever side was first. So the next reconcile completes one that was interrupted.

Paths that cannot be in one object at the same time are decided together: a key of `data` and the same key of
`binaryData`, a value and the values below it. There, each side ends with everything that one of the two sides had. An
item of a list with keys that one side does not have is also decided as a whole: half an item is not valid.
"""

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import Literal

from msgspec import Struct

from syncline.core.merge import ValueDigests

Side = Literal["Upstream", "Downstream"]
Strategy = Literal["UpstreamWins", "DownstreamWins", "LastWriteWins", "Merge", "Skip"]
OnConflict = Literal["UpstreamWins", "DownstreamWins", "Report"]

STRATEGIES: dict[str, Strategy] = {
    "SourceWins": "UpstreamWins",
    "DestinationWins": "DownstreamWins",
    "MergeChanges": "Merge",
    "UpstreamWins": "UpstreamWins",
    "DownstreamWins": "DownstreamWins",
    "LastWriteWins": "LastWriteWins",
    "Merge": "Merge",
    "Skip": "Skip",
}
"""The strategy behind each name that a kind of the API uses."""


class Base(Struct, frozen=True):
    """The contents of the two sides at their last agreement: only digests, so that no values are stored."""

    up: ValueDigests
    """Upstream, in the form that is sent downstream."""
    down: ValueDigests
    """Downstream, as the server returned it."""

    @classmethod
    def same(cls, digests: ValueDigests) -> "Base":
        """Return the base of two sides that store exactly what they are sent, such as ConfigMaps."""
        return cls(digests, digests)


class AgreementOptions(Struct, frozen=True, kw_only=True):
    """The options of an agreement, in addition to the strategy."""

    upward: bool = True
    """Whether downstream changes may be written upstream; otherwise they stay downstream."""
    on_conflict: OnConflict = "Report"
    """With Merge: the side that wins a path that was changed on both sides."""
    exact: bool = False
    """Whether UpstreamWins and DownstreamWins also remove values from the loser that the winner never had."""
    resolve: Side | None = None
    """The side that a user has chosen for all conflicts."""


NO_OPTIONS = AgreementOptions()


class Changes(Struct, frozen=True):
    """The paths that each side has changed since the base, and the paths where both sides differ."""

    up: tuple[str, ...]
    down: tuple[str, ...]


class Flow(Struct, frozen=True):
    """The write to one side."""

    set: tuple[str, ...] = ()
    """Paths that get the value of the other side."""
    unset: tuple[str, ...] = ()
    """Paths to remove; all of them exist."""

    def __bool__(self) -> bool:
        return bool(self.set or self.unset)


class Agreement(Struct, frozen=True, kw_only=True):
    """The writes to each side, the report, and the new base.

    Write upstream first, then downstream, and record the base last, or in the downstream write if the base is stored
    there. A crash between any two of these leaves the same value on both sides, which is no difference, and the next
    reconcile does the rest. A base that is recorded before its write would turn an edit into its own revert.
    """

    up: Flow = Flow()
    """The write to the upstream side."""
    down: Flow = Flow()
    """The write to the downstream side."""
    conflicts: tuple[str, ...] = ()
    """Paths where each side keeps its own value until a user decides."""
    deferred: tuple[str, ...] = ()
    """Paths that changed only upstream and that wait, with Skip, until there are no conflicts."""
    local_only: tuple[str, ...] = ()
    """Paths of the losing side that the winner never had: they stay there, and are not copied."""
    kept: tuple[str, ...] = ()
    """Paths that changed downstream and stay there, because nothing is written upstream."""
    unknown: tuple[str, ...] = ()
    """Conflicts without a known base: no rule decides them, only a user."""
    overruled: tuple[str, ...] = ()
    """Paths where the edit or deletion of one side is replaced by the other side: no conflict, but an event."""
    upstream: ValueDigests | None = None
    """The upstream side after the write, if its server stores what it is sent; None without a decision."""
    downstream: ValueDigests | None = None
    """The downstream side after the write, if its server stores what it is sent; None without a decision."""
    previous_base: Base | None = None
    """The base of this decision."""

    @property
    def base(self) -> Base | None:
        """The base to record after both writes; None only without a decision and without an earlier base."""
        return self.base_after()

    def base_after(
        self, *, up: ValueDigests | None = None, down: ValueDigests | None = None, unwritten: Iterable[str] = ()
    ) -> Base | None:
        """Return the base to record, from the answers of the servers to the writes.

        `up` and `down` are the digests that a write or its dry run returned; leave out a side that was not written. The
        write must have tested the version of the decision, or an edit in between would count as a part of it.
        `unwritten` paths were not written as decided: they keep their old base.
        """
        up, down = self.upstream if up is None else up, self.downstream if down is None else down
        if up is None or down is None:
            return self.previous_base
        old = self.previous_base or Base.same({})
        undecided = {*self.conflicts, *self.deferred, *self.local_only, *self.kept, *unwritten}
        groups = _group_paths((*undecided, *old.up, *old.down, *up, *down))
        kept = {path for paths in groups if not paths.isdisjoint(undecided) for path in paths}
        unknown = dict.fromkeys(self.unknown, _UNKNOWN)
        return Base({**_with_old(up, old.up, kept), **unknown}, {**_with_old(down, old.down, kept), **unknown})


def agree(
    base: Base | None,
    upstream: ValueDigests | None,
    downstream: ValueDigests | None,
    strategy: Strategy,
    later: Side = "Upstream",
    *,
    oneway: AbstractSet[str] = frozenset(),
    options: AgreementOptions = NO_OPTIONS,
) -> Agreement:
    """Decide the writes between two sides that both exist.

    Without a base, it is lost, or this is the first contact. Then nothing is removed, and only a strategy that names a
    winner overwrites. A side that is None cannot be read: nothing is decided.

    `later` counts only with LastWriteWins. `oneway` paths, and all paths below them, are only written downstream, with
    any strategy.
    """
    if upstream is None or downstream is None:
        return Agreement(previous_base=base)
    if upstream == downstream or (base is not None and (base.up, base.down) == (upstream, downstream)):
        # Most reconciles end here, and an object may have thousands of paths.
        return Agreement(upstream=upstream, downstream=downstream, previous_base=base)
    apart = [group for group in _path_groups(base, upstream, downstream, oneway) if not group.agreed]
    free = [group for group in apart if not group.oneway]
    rules = _Rules(
        strategy=strategy,
        later=later,
        options=options,
        first=base is None,
        edited_up=any(group.up_changed for group in free),
        edited_down=any(group.down_changed for group in free),
    )
    rulings = [(group, rules.rule(group)) for group in apart]

    def paths(which: Callable[[_PathGroup, _Ruling], bool]) -> tuple[str, ...]:
        return tuple(sorted(path for group, ruling in rulings if which(group, ruling) for path in group.present))

    down = _flow((group.up, group.down) for group, ruling in rulings if ruling == "Down")
    up = _flow((group.down, group.up) for group, ruling in rulings if ruling == "Up")
    conflicts = paths(lambda _, ruling: ruling == "Conflict")
    return Agreement(
        up=up,
        down=down,
        conflicts=conflicts,
        unknown=conflicts if base is None and options.on_conflict != "Report" else (),
        deferred=paths(lambda _, ruling: ruling == "Deferred"),
        local_only=paths(lambda _, ruling: ruling == "LocalOnly"),
        kept=paths(lambda _, ruling: ruling == "Kept"),
        overruled=paths(
            lambda group, ruling: (
                (ruling == "Down" and group.down_changed) or (ruling in ("Up", "Kept") and group.up_changed)
            )
        ),
        upstream=_after(upstream, up, downstream),
        downstream=_after(downstream, down, upstream),
        previous_base=base,
    )


def changes(
    base: Base | None,
    upstream: ValueDigests,
    downstream: ValueDigests,
    *,
    oneway: AbstractSet[str] = frozenset(),
) -> Changes:
    """Return the changes of each side in two-way paths; their writers decide which side was later."""
    free = [group for group in _path_groups(base, upstream, downstream, oneway) if not (group.oneway or group.agreed)]
    return Changes(
        up=tuple(sorted(path for group in free if group.up_changed for path in group.present)),
        down=tuple(sorted(path for group in free if group.down_changed for path in group.present)),
    )


_Ruling = Literal["Down", "Up", "Conflict", "Deferred", "LocalOnly", "Kept", "Settled"]
_ITEM = "/["
_UNKNOWN = "?"
_WINNERS: dict[str, Side] = {"UpstreamWins": "Upstream", "DownstreamWins": "Downstream"}


class _PathGroup(Struct, frozen=True, kw_only=True):
    """Paths that are decided together, with the content of each side; empty for a side without any of them."""

    up: ValueDigests
    down: ValueDigests
    up_changed: bool
    down_changed: bool
    oneway: bool
    unknown: bool
    """Whether the base records only that the agreement is unknown."""

    @property
    def present(self) -> AbstractSet[str]:
        return self.up.keys() | self.down.keys()

    @property
    def agreed(self) -> bool:
        """Whether the two sides are equal, or both are as at their last agreement."""
        return self.up == self.down or not (self.up_changed or self.down_changed)


class _Rules(Struct, frozen=True, kw_only=True):
    """The table of strategies, for one object."""

    strategy: Strategy
    later: Side
    options: AgreementOptions
    first: bool
    edited_up: bool
    edited_down: bool

    def rule(self, group: _PathGroup) -> _Ruling:
        """Decide a group of paths in which the sides differ."""
        resolve, upward = self.options.resolve, self.options.upward
        ruling = self._by_strategy(group)
        if ruling == "Up" and not upward:
            ruling = "Conflict" if self.strategy == "Skip" else "Kept"
        if resolve is None or ruling not in ("Conflict", "Deferred"):
            return ruling
        if ruling == "Deferred" or resolve == "Upstream":
            return "Down"
        return "Up" if upward else "Settled"

    def _by_strategy(self, group: _PathGroup) -> _Ruling:
        if group.oneway:
            return _side_wins("Upstream", group, exact=False)
        if self.strategy == "DownstreamWins" and not self.options.upward:
            # The upstream is never reverted: values that did not change downstream follow it.
            return "Up" if group.down_changed else "Down"
        if self.first:
            return self._first_contact(group)
        return self._since_base(group)

    def _since_base(self, group: _PathGroup) -> _Ruling:
        if (winner := _WINNERS.get(self.strategy)) is not None:
            return _side_wins(winner, group, exact=self.options.exact)
        if self.strategy == "LastWriteWins" and self.edited_up and self.edited_down:
            # The later object wins as a whole: a mixture that no user wrote must not appear.
            return _side_wins(self.later, group, exact=True)
        if self.strategy == "Skip" and self.edited_down:
            return "Conflict" if group.down_changed else "Deferred"
        return self._merge(group)

    def _merge(self, group: _PathGroup) -> _Ruling:
        if not (group.up_changed and group.down_changed):
            return "Down" if group.up_changed else "Up"
        winner = _WINNERS.get(self.options.on_conflict) if self.strategy == "Merge" else None
        if winner is not None and group.up and group.down and not group.unknown:
            return _side_wins(winner, group, exact=True)
        return self._first_contact(group)

    def _first_contact(self, group: _PathGroup) -> _Ruling:
        """Prefer a value to none. Of two different values, the named winner or a user decides."""
        if not (group.up and group.down):
            return "Down" if group.up else "Up"
        winner = self.later if self.strategy == "LastWriteWins" else _WINNERS.get(self.strategy)
        if winner is None:
            return "Conflict"
        return _side_wins(winner, group, exact=True)


def _side_wins(winner: Side, group: _PathGroup, *, exact: bool) -> _Ruling:
    """Let one side win all paths that it has, or has had."""
    mine, changed = (group.up, group.up_changed) if winner == "Upstream" else (group.down, group.down_changed)
    if not (mine or changed or exact):
        return "LocalOnly"
    return "Down" if winner == "Upstream" else "Up"


def _path_groups(
    base: Base | None, upstream: ValueDigests, downstream: ValueDigests, oneway: AbstractSet[str]
) -> list[_PathGroup]:
    was = base or Base.same({})
    shielded = {_name(path) for path in oneway}
    whole = items_of(upstream) ^ items_of(downstream)
    return [
        _PathGroup(
            up=(up := _part(upstream, paths)),
            down=(down := _part(downstream, paths)),
            up_changed=up != _part(was.up, paths),
            down_changed=down != _part(was.down, paths),
            oneway=any(_covered(path, shielded) for path in paths),
            unknown=any(was.up.get(path) == _UNKNOWN for path in paths),
        )
        for paths in _group_paths((*was.up, *was.down, *upstream, *downstream), whole)
    ]


def items_of(paths: Iterable[str]) -> set[str]:
    """Return the items of lists with keys (`object_paths`), by the beginnings of paths."""
    found: set[str] = set()
    for path in paths:
        end = path.find(_ITEM)
        while end >= 0:
            is_item = path[end + 2 : end + 3] != "="
            end = path.find("/", end + 1)
            if is_item:
                found.add(path if end < 0 else path[:end])
            end = path.find(_ITEM, end) if end >= 0 else -1
    return found


def _group_paths(paths: Iterable[str], whole: AbstractSet[str] = frozenset()) -> list[set[str]]:
    """Group paths that may exclude each other in one object, and the paths of `whole` items."""
    groups: list[set[str]] = []
    root: tuple[str, ...] | None = None
    # Sorted by segments, not as texts: the paths below a path follow it directly.
    for name, path in sorted((tuple(_name(path).split("/")), path) for path in set(paths)):
        if root is None or name[: len(root)] != root:
            root = _whole_root(name, whole)
            groups.append(set())
        groups[-1].add(path)
    return groups


def _whole_root(name: tuple[str, ...], whole: AbstractSet[str]) -> tuple[str, ...]:
    """Return the first item in `whole` that a path is below; else the path."""
    for end in range(1, len(name)) if whole else ():
        # Only items are decided as a whole.
        if name[end - 1].startswith("[") and "/".join(name[:end]) in whole:
            return name[:end]
    return name


def _name(path: str) -> str:
    """Return one name for a path and its twin in the other map."""
    part, _, rest = path.partition("/")
    return f"data/{rest}" if part == "binaryData" else path


def _covered(path: str, shielded: AbstractSet[str]) -> bool:
    segments = _name(path).split("/")
    return any("/".join(segments[:end]) in shielded for end in range(1, len(segments) + 1)) if shielded else False


def _part(digests: ValueDigests, paths: AbstractSet[str]) -> dict[str, str]:
    return {path: digests[path] for path in paths if path in digests}


def _flow(pairs: Iterable[tuple[ValueDigests, ValueDigests]]) -> Flow:
    take: list[str] = []
    drop: list[str] = []
    for wanted, there in pairs:
        take += (path for path, digest in wanted.items() if there.get(path) != digest)
        drop += (path for path in there if path not in wanted)
    return Flow(tuple(sorted(take)), tuple(sorted(drop)))


def _after(there: ValueDigests, flow: Flow, other: ValueDigests) -> dict[str, str]:
    gone = set(flow.unset)
    return {path: digest for path, digest in there.items() if path not in gone} | _part(other, set(flow.set))


def _with_old(new: ValueDigests, old: ValueDigests, kept: AbstractSet[str]) -> dict[str, str]:
    return {path: digest for path, digest in new.items() if path not in kept} | _part(old, kept)
