"""Placement: the targets of an upstream namespace, and the division of replicas among them.

The unit is the namespace, so that a Deployment finds its ConfigMap. Only a target that is ready, schedulable and
compatible is chosen. Copies stay in place: a target that is unreachable or unschedulable keeps its namespaces, unless
`evictAfter` has passed and another target can take them.

A hash of namespace and target decides: any replica of the operator chooses the same, and a new namespace moves no
other.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from fractions import Fraction
from hashlib import blake2b
from typing import Literal

from msgspec import Struct

from syncline.api.workspace_placement import WorkspacePlacement
from syncline.core.durations import seconds

PlacementReason = Literal["Placed", "Moving", "TooFewTargets", "NoTarget"]

_NAMED = 5
_SCALE = 1 << 52


class PlacementTarget(Struct, frozen=True, kw_only=True):
    """A target that a sync selects, as it is now."""

    name: str
    labels: Mapping[str, str] = {}
    ready: bool = True
    schedulable: bool = True
    compatible: bool = True
    lost_for: float = 0.0
    """The seconds for which it could not be reached; 0: it can be."""

    @property
    def obstacle(self) -> str:
        """Why it cannot be chosen; empty if it can."""
        if self.lost_for > 0:
            return "cannot be reached"
        if not self.ready:
            return "is not ready"
        if not self.schedulable:
            return "is unschedulable"
        return "" if self.compatible else "does not serve the resources"


class PlacementDecision(Struct, frozen=True, kw_only=True):
    """Where one namespace goes."""

    targets: tuple[str, ...]
    """Sorted by name."""
    leaving: tuple[str, ...] = ()
    """Targets whose copies are removed once all `targets` hold the copies. Without any target, the copies stay."""
    reason: PlacementReason
    message: str


class DividedReplicas(Struct, frozen=True, kw_only=True):
    """The replicas at each target."""

    replicas: Mapping[str, int]
    exact: bool
    """Whether the sum is that of the upstream. It is not if another manager holds some of them."""


def place_namespace(
    spec: WorkspacePlacement, targets: Iterable[PlacementTarget], namespace: str, current: AbstractSet[str]
) -> PlacementDecision:
    """Place one namespace, named by its key upstream, given the targets that hold its copies now."""
    weights = target_weights(spec, targets := list(targets))
    known = [target for target in targets if weights[target.name] > 0]
    ranking = _Ranking(namespace, weights, spec.spread_by)
    held = [target for target in known if target.name in current]
    free = [target for target in known if target.name not in current and not target.obstacle]
    count = wanted_count(spec)
    if count is None:
        chosen = [*held, *free]
    else:
        lost = [target for target in held if _is_evicted(spec, target)]
        staying = ranking.pick([target for target in held if target not in lost], count, ())
        added = ranking.pick(free, count - len(staying), staying)
        # Copies leave an unreachable target only for another target.
        kept = ranking.pick(lost, count - len(staying) - len(added), [*staying, *added])
        chosen = [*staying, *added, *kept]
    return _decision(chosen, current, count, targets, weights)


def wanted_count(spec: WorkspacePlacement) -> int | None:
    """Return how many targets a namespace gets; None: all of them."""
    if spec.strategy == "All":
        return None
    if spec.count is not None or spec.strategy == "Spread":
        return spec.count or 1
    return None if spec.replicas == "Divide" else 1


def target_weights(spec: WorkspacePlacement, targets: Iterable[PlacementTarget]) -> dict[str, int]:
    """Return the weight of each target: under Weighted that of the first entry that matches, or 0; else 1."""
    return {target.name: _weight(spec, target) for target in targets}


def divide_replicas(total: int, weights: Mapping[str, int], held: Mapping[str, int] | None = None) -> DividedReplicas:
    """Divide replicas among targets by their weights: the sum is exact, and the first names get what is left over.

    `held`: the replicas of targets where another manager scales (an autoscaler). They stay, and the others get their
    normal shares: to compensate for an autoscaler would be to fight with it.
    """
    names = sorted(weights)
    whole = sum(max(0, weight) for weight in weights.values())
    shares = {
        name: Fraction(max(0, total) * (max(0, weights[name]) if whole else 1), whole or len(names)) for name in names
    }
    replicas = {name: math.floor(share) for name, share in shares.items()}
    rest = max(0, total) - sum(replicas.values()) if names else 0
    for name in sorted(names, key=lambda name: (replicas[name] - shares[name], name))[:rest]:
        replicas[name] += 1
    kept = {name: number for name, number in (held or {}).items() if name in replicas}
    return DividedReplicas(replicas={**replicas, **kept}, exact=bool(names) and not kept)


class _Ranking:
    """The order in which targets are chosen for one namespace."""

    def __init__(self, namespace: str, weights: Mapping[str, int], spread_by: str | None) -> None:
        self._namespace = namespace
        self._weights = weights
        self._spread_by = spread_by

    def pick(
        self, candidates: Sequence[PlacementTarget], count: int, beside: Sequence[PlacementTarget]
    ) -> list[PlacementTarget]:
        """Choose targets: spread by the label first, then reachable ones, then by the hash."""
        ranked = sorted(candidates, key=lambda target: (target.lost_for > 0, -self._score(target.name), target.name))
        chosen: list[PlacementTarget] = []
        while ranked and len(chosen) < count:
            used = [self._value(target) for target in (*beside, *chosen)]
            best = min(ranked, key=lambda target: used.count(self._value(target)))
            ranked.remove(best)
            chosen.append(best)
        return chosen

    def _value(self, target: PlacementTarget) -> str | None:
        return target.labels.get(self._spread_by) if self._spread_by else None

    def _score(self, name: str) -> float:
        """Return a score that is the highest in proportion to the weight, over all namespaces."""
        digest = blake2b(f"{self._namespace}\0{name}".encode(), digest_size=8).digest()
        # As many bits as a float has below 1, and never 0 or 1 itself.
        uniform = ((int.from_bytes(digest) >> 12) + 0.5) / _SCALE
        return -self._weights[name] / math.log(uniform)


def _weight(spec: WorkspacePlacement, target: PlacementTarget) -> int:
    if spec.strategy != "Weighted":
        return 1
    for entry in spec.weights:
        if entry.match_labels.items() <= target.labels.items():
            return entry.weight
    return 0


def _is_evicted(spec: WorkspacePlacement, target: PlacementTarget) -> bool:
    return spec.evict_after is not None and 0 < seconds(spec.evict_after) <= target.lost_for


def _decision(
    chosen: Iterable[PlacementTarget],
    current: AbstractSet[str],
    count: int | None,
    targets: Sequence[PlacementTarget],
    weights: Mapping[str, int],
) -> PlacementDecision:
    names = tuple(sorted(target.name for target in chosen))
    leaving = tuple(sorted(current - {*names}))
    words = [f"{', '.join(names[:_NAMED])}{', ...' if len(names) > _NAMED else ''}" if names else _no_target(targets)]
    if count is not None and targets:
        words[0] += f" ({len(names)} of {count})"
    if leaving:
        words.append(f"leaves {', '.join(leaving[:_NAMED])} when the copies are there")
    words += _obstacles(names, current, targets, weights)
    reason: PlacementReason = "Placed"
    if not names:
        reason = "NoTarget"
    elif leaving:
        reason = "Moving"
    elif count is not None and len(names) < count:
        reason = "TooFewTargets"
        words.append("add SyncTargets, or reduce placement.count")
    return PlacementDecision(targets=names, leaving=leaving, reason=reason, message="; ".join(words))


def _no_target(targets: Sequence[PlacementTarget]) -> str:
    if targets:
        return "no SyncTarget can take it"
    return "the sync selects no SyncTarget: correct downstream, or add a SyncTarget"


def _obstacles(
    names: Sequence[str], current: AbstractSet[str], targets: Sequence[PlacementTarget], weights: Mapping[str, int]
) -> list[str]:
    """Return why targets are not chosen, or why they stay although they would not be chosen."""
    words = []
    for target in sorted(targets, key=lambda target: target.name):
        if target.name in names and target.name in current and target.obstacle:
            words.append(f"{target.name} {target.obstacle} and keeps its copies")
        elif target.name not in names and weights[target.name] <= 0:
            words.append(f"{target.name} has no weight")
        elif target.name not in names and target.obstacle:
            words.append(f"{target.name} {target.obstacle}")
    return words[:_NAMED]
