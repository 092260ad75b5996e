"""Conflict policies by key: which one applies to a key, and what a sync with several of them does.

The keys under one policy are decided together, as if they were an object of their own under that policy alone. So a
single policy for `*` means the same as the policy of the whole sync, and no policy reaches into the keys of another.
"""

from collections.abc import Iterable

from msgspec import Struct

from syncline.core.merge import Merge, ValueDigests, merge_one_way
from syncline.core.selectors import glob_matches
from syncline.core.twoway import STRATEGIES, Agreement, Base, Flow, Side, agree

MOST_COMPARISONS = 500_000
"""The most globs of `keyPolicies`, times the keys of a source or a copy."""


class KeyPolicy(Struct, frozen=True):
    """The conflict policy of the keys that match one of some globs; keys are named as the destination names them."""

    keys: tuple[str, ...]
    policy: str


class KeyPolicies(Struct, frozen=True):
    """The policies of all keys: that of the first rule that matches a key, else the default."""

    default: str
    rules: tuple[KeyPolicy, ...] = ()

    @property
    def globs(self) -> int:
        """The number of globs that a key may be compared with."""
        return sum(len(rule.keys) for rule in self.rules)

    def of(self, path: str) -> str:
        """Return the policy of the key at a path."""
        name = path.partition("/")[2]
        matching = (rule for rule in self.rules if any(glob_matches(glob, name) for glob in rule.keys))
        return next((rule.policy for rule in matching), self.default)

    def divide(self, paths: Iterable[str]) -> dict[str, frozenset[str]]:
        """Return the paths under each policy."""
        parts: dict[str, set[str]] = {}
        for path in paths:
            parts.setdefault(self.of(path), set()).add(path)
        return {policy: frozenset(parts[policy]) for policy in sorted(parts)}


class KeyedMerge(Merge, frozen=True):
    """What to do at a destination whose keys have different policies."""

    edited: tuple[str, ...] = ()
    """Paths under Skip that were edited at the destination and stay as they are."""
    repaired: tuple[str, ...] = ()
    """Paths under SourceWins that were edited at the destination and get the source's value again."""


def merge_by_key(
    base: ValueDigests, source: ValueDigests, destination: ValueDigests, policies: KeyPolicies, *, adopting: bool
) -> KeyedMerge:
    """Bring the source's changes to the destination, as the policy of each key says.

    `adopting`: the destination is taken over just now, so that nothing of it is an edit of what the sync wrote.
    """
    parts = [
        _merge_part(policy, *(_only(digests, paths) for digests in (base, source, destination)), adopting=adopting)
        for policy, paths in policies.divide({*base, *source, *destination}).items()
    ]
    return KeyedMerge(
        set=_joined(part.set for part in parts),
        unset=_joined(part.unset for part in parts),
        conflicts=_joined(part.conflicts for part in parts),
        base={path: digest for part in parts for path, digest in part.base.items()},
        result={path: digest for part in parts for path, digest in part.result.items()},
        edited=_joined(part.edited for part in parts),
        repaired=_joined(part.repaired for part in parts),
    )


def _merge_part(
    policy: str, base: dict[str, str], source: dict[str, str], destination: dict[str, str], *, adopting: bool
) -> KeyedMerge:
    if policy == "Merge":
        merged = merge_one_way(base, source, destination)
        return KeyedMerge(merged.set, merged.unset, merged.conflicts, merged.base, merged.result)
    edited = () if adopting else tuple(path for path in {*base, *destination} if _differ(path, base, destination))
    if policy == "Skip" and edited and destination != source:
        return KeyedMerge((), (), (), base, destination, edited=edited)
    return KeyedMerge(
        set=tuple(path for path in source if _differ(path, source, destination)),
        unset=tuple(path for path in destination if path not in source),
        conflicts=(),
        base=source,
        result=source,
        repaired=tuple(path for path in edited if _differ(path, source, destination)),
    )


def agree_by_key(
    base: Base | None,
    upstream: ValueDigests,
    downstream: ValueDigests,
    policies: KeyPolicies,
    later: Side = "Upstream",
    *,
    oneway: frozenset[str] = frozenset(),
) -> Agreement:
    """Decide what flows where between two sides, as the policy of each key says; see `twoway.agree`.

    The policies are names of strategies. `later` is the side that was written later, of the keys under LastWriteWins.
    """
    if not policies.rules:
        return agree(base, upstream, downstream, STRATEGIES[policies.default], later, oneway=oneway)
    was = base or Base.same({})
    parts: list[Agreement] = []
    for strategy, paths in policies.divide({*was.up, *was.down, *upstream, *downstream}).items():
        known = Base(_only(was.up, paths), _only(was.down, paths)) if base is not None else None
        up, down = _only(upstream, paths), _only(downstream, paths)
        parts.append(agree(known, up, down, STRATEGIES[strategy], later, oneway=oneway & paths))
    return Agreement(
        up=_flow(part.up for part in parts),
        down=_flow(part.down for part in parts),
        conflicts=_joined(part.conflicts for part in parts),
        deferred=_joined(part.deferred for part in parts),
        local_only=_joined(part.local_only for part in parts),
        overruled=_joined(part.overruled for part in parts),
        upstream={path: digest for part in parts for path, digest in (part.upstream or {}).items()},
        downstream={path: digest for part in parts for path, digest in (part.downstream or {}).items()},
        previous_base=base,
    )


def _only(digests: ValueDigests, paths: frozenset[str]) -> dict[str, str]:
    return {path: digest for path, digest in digests.items() if path in paths}


def _differ(path: str, one: ValueDigests, other: ValueDigests) -> bool:
    return one.get(path) != other.get(path)


def _joined(found: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(sorted(path for part in found for path in part))


def _flow(flows: Iterable[Flow]) -> Flow:
    flows = list(flows)
    return Flow(_joined(flow.set for flow in flows), _joined(flow.unset for flow in flows))
