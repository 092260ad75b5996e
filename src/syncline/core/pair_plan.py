"""The plan for one pair: `decide(...) -> PairPlan`. Pure.

A pair is an upstream object and its copy. `twoway.agree` decides; this module prepares its inputs from the two objects,
and describes its result.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from syncline.core.digest import combined_digest, short_digest, value_digests
from syncline.core.merge import ValueDigests
from syncline.core.objects import Desired, Observed, Target
from syncline.core.ownership import RESOLVE, Owner, is_proven
from syncline.core.pair_rules import PairRules, base_size, is_too_large, packed, unpacked
from syncline.core.pair_values import PairSide, ValueReader, shown_paths
from syncline.core.plan import MAX_BASE, REVISION_TRACKED, Action, Change, Verb
from syncline.core.request_bodies import base_seal
from syncline.core.twoway import Agreement, Base, Flow, Side, agree
from syncline.core.wire import DATA_KINDS

_SIDES: Mapping[str, Side] = {"Upstream": "Upstream", "Downstream": "Downstream"}
IMMUTABLE = "Immutable"
_CONTENT = ("data/", "binaryData/")
# A plan with one of these reasons leaves our own copy unchanged, because it is in sync.
_IN_ORDER = frozenset({"Synced", REVISION_TRACKED})


class Resolution(Struct, frozen=True, kw_only=True):
    """The decision of a person for the conflicts of a pair, by annotations."""

    side: Side | None = None
    on_upstream: bool = False
    """Whether the upstream object has the annotation, and may be written. The annotation is removed afterwards."""
    on_copy: bool = False
    counted: str = ""
    """A digest of the annotation of an upstream object that may not be written: it counts once, and stays."""
    is_used: bool = False
    """Whether the annotation of the upstream object has counted before, and does not count again."""
    problem: str = ""
    """Why an annotation does not count."""


UNRESOLVED = Resolution()


class PairPlan(Struct, frozen=True, kw_only=True):
    """The values that flow between the two sides of a pair."""

    desired: Desired
    up: PairSide
    down: PairSide
    agreement: Agreement
    resolution: Resolution

    @property
    def known(self) -> set[str]:
        """The paths that the upstream or the base has: of labels and annotations, these flow in any case."""
        base = self.agreement.previous_base or Base.same({})
        return {*self.up.digests, *base.up, *base.down}


def stops(planned: Action) -> bool:
    """Whether the plan of an existing copy forbids every change of it."""
    return planned.verb is Verb.LEAVE and planned.reason not in _IN_ORDER


def resolution_of(
    upstream: Mapping[str, Any], copy: Mapping[str, Any], *, two_way: bool, counted: str = ""
) -> Resolution:
    """Read the annotations that resolve conflicts. Each counts once, and is removed from an object that may be written.

    `counted` is what the marker of the copy records of an annotation that could not be removed.
    """
    above, below = _annotation(upstream), _annotation(copy)
    record = _record(upstream, above) if above in _SIDES and not two_way else ""
    is_used = bool(record) and record == counted
    if is_used:
        above = None
    for text, where in ((above, "upstream object"), (below, "copy")):
        if text is not None and text not in _SIDES:
            problem = f"annotation {RESOLVE} of the {where} must say Upstream or Downstream"
            return Resolution(problem=problem, counted=counted, is_used=is_used)
    if above is not None and below is not None and above != below:
        problem = f"annotation {RESOLVE} of the upstream object contradicts that of the copy"
        return Resolution(problem=problem, counted=counted)
    return Resolution(
        side=_SIDES.get(above or below or ""),
        on_upstream=above is not None and two_way,
        on_copy=below is not None,
        counted=record,
        is_used=is_used,
    )


def base_of(
    desired: Desired, observed: Observed, planned: Action, owner: Owner, sides: tuple[PairSide, PairSide]
) -> Base | None:
    """Return the base of the last agreement; None on first contact, and if the base cannot be verified."""
    marker = observed.marker
    if planned.verb is Verb.ADOPT or marker is None or not is_proven(observed, owner):
        return None
    if desired.key and marker.key != desired.key:
        return None
    up, down = sides
    if marker.base:
        sealed = observed.base is not None and base_seal(observed.base) == marker.base
        return unpacked(observed.base or {}) if sealed else None
    # Until now, only the upstream could change this copy.
    if planned.reason in _IN_ORDER:
        return Base(up.digests, down.digests)
    if desired.target.kind in DATA_KINDS and marker.digest == observed.digest:
        names = {
            *(f"metadata/labels/{_escape(name)}" for name in marker.labels),
            *(f"metadata/annotations/{_escape(name)}" for name in marker.annotations),
        }
        sent = {path: digest for path, digest in down.digests.items() if path in names or path.startswith(_CONTENT)}
        return Base.same(sent)
    return None


def decide(
    desired: Desired,
    base: Base | None,
    sides: tuple[PairSide, PairSide],
    rules: PairRules,
    *,
    empty_map: str,
    later: Side = "Upstream",
    resolution: Resolution = UNRESOLVED,
) -> PairPlan:
    """Decide value by value what flows where.

    `empty_map` is the digest of an empty map (`ValueReader`). `later` is the side that was written later, for
    LastWriteWins.
    """
    up, down = sides
    was = base or Base.same({})
    every = {*was.up, *was.down, *up.digests, *down.digests}
    hollow = _hollow((was.up, was.down, up.digests, down.digests), every, empty_map)
    oneway = rules.flowing_down(every - hollow)
    agreement = agree(
        Base(_without(was.up, hollow), _without(was.down, hollow)) if base is not None else None,
        _without(up.digests, hollow),
        _without(down.digests, hollow),
        rules.core_strategy(),
        later,
        oneway=oneway,
        options=rules.options(resolution.side),
    )
    return PairPlan(desired=desired, up=up, down=down, agreement=agreement, resolution=resolution)


def _hollow(maps: Sequence[ValueDigests], every: set[str], empty_map: str) -> set[str]:
    """Return the paths of empty maps that have values on another side: next to values, an empty map has no meaning.

    An empty item of a list stays: that it is there says something.
    """
    empty = {path for digests in maps for path, digest in digests.items() if digest == empty_map}
    empty = {path for path in empty if not path.rpartition("/")[2].startswith("[")}
    if not empty:
        return empty
    above = {path[:end] for path in every for end in _ends(path)}
    return empty & above


def _ends(path: str) -> Iterator[int]:
    end = path.find("/")
    while end >= 0:
        yield end
        end = path.find("/", end + 1)


def _without(digests: ValueDigests, hollow: set[str]) -> ValueDigests:
    return {path: digest for path, digest in digests.items() if path not in hollow} if hollow else digests


def marker_digest(desired: Desired, manifest: Mapping[str, Any], reader: ValueReader) -> str:
    """Return the digest that the marker of a copy records: of its content, or of the sent object."""
    if desired.body is not None:
        return desired.digest
    content = value_digests(manifest.get("data") or {}, manifest.get("binaryData") or {}, reader.key)
    return combined_digest(content)


def recorded(plan: PairPlan, desired: Desired, observed: Observed) -> Desired:
    """Return the desired object with the revision that the marker may claim: the last one that arrived whole."""
    marker, agreement = observed.marker, plan.agreement
    if marker is None or not (agreement.conflicts or agreement.deferred):
        return desired
    return structs.replace(desired, revision=marker.revision, digest=marker.digest)


def too_large(target: Target, base: Base | None) -> Action | None:
    """Return the refusal to record a base that does not fit into an annotation; None where it fits."""
    entries = packed(base) if base is not None else {}
    if not is_too_large(entries):
        return None
    message = (
        "take this object out of the sync, or write direction: Down and conflictStrategy: UpstreamWins: the record "
        f"that this strategy needs would have {base_size(entries)} bytes, more than {MAX_BASE}"
    )
    return Action(verb=Verb.LEAVE, target=target, reason="BaseTooLarge", message=message, state="Failed")


def immutable_copy(plan: PairPlan, observed: Observed) -> Action | None:
    """Return the refusal to change a copy that cannot be changed."""
    touched = (*plan.agreement.down.set, *plan.agreement.down.unset)
    retyped = plan.desired.body is None and observed.type != plan.desired.content.type
    if not retyped and not (observed.immutable and any(path.startswith((*_CONTENT, "immutable")) for path in touched)):
        return None
    what = f"of the unchangeable type {observed.type}" if retyped else "immutable"
    message = f"the copy is {what} and differs from the upstream object: delete the copy to have it created again"
    return Action(verb=Verb.LEAVE, target=plan.desired.target, reason=IMMUTABLE, message=message, state="Conflict")


def is_recreated(refusal: Action, plan: PairPlan, planned: Action) -> bool:
    """Whether a copy that cannot be changed is deleted and created again, like any other copy.

    It stays if it has values that it keeps, because they would be lost.
    """
    agreement = plan.agreement
    kept = (*agreement.conflicts, *agreement.deferred, *agreement.kept, *agreement.local_only)
    return refusal.reason == IMMUTABLE and planned.verb is Verb.RECREATE and not kept


def report(plan: PairPlan, verb: Verb, change: Change | None, *, skips: bool) -> Action:
    """Describe the decision. Paths are named, values never."""
    agreement, resolution = plan.agreement, plan.resolution
    flowed = [
        f"{_names(flow)} to the {side}"
        for flow, side in ((agreement.up, "upstream object"), (agreement.down, "copy"))
        if flow
    ]
    reason, notes = "Agreed", [f"agreed: {', '.join(flowed)}" if flowed else "both sides agree"]
    if agreement.kept:
        notes.append(f"kept as changed in the copy: {shown_paths(agreement.kept)}")
    if agreement.overruled:
        reason = "Overruled"
        notes.append(f"a change gave way to the other side: {shown_paths(agreement.overruled)}")
    if agreement.conflicts:
        reason, notes = _conflict_report(agreement, skips=skips, is_used=resolution.is_used)
    if resolution.problem:
        notes.append(resolution.problem)
    is_conflict = bool(agreement.conflicts)
    return Action(
        verb=verb,
        target=plan.desired.target,
        reason="InvalidResolve" if resolution.problem and not is_conflict else reason,
        message="; ".join(notes),
        state="Conflict" if is_conflict or resolution.problem else "Synced",
        change=change,
        conflicts=agreement.conflicts,
    )


def _conflict_report(agreement: Agreement, *, skips: bool, is_used: bool) -> tuple[str, list[str]]:
    names = shown_paths(agreement.conflicts)
    remedy = f"make them equal, or annotate either object with {RESOLVE}: Upstream or Downstream"
    remedy += "; the present annotation of the upstream object has counted before: remove it first" if is_used else ""
    if skips:
        reason, notes = "Edited", [f"changed in the copy, and Skip leaves it as it is: {names}; {remedy}"]
    else:
        reason, notes = "EditedOnBothSides", [f"changed on both sides, each keeps its own value: {names}; {remedy}"]
    if agreement.deferred:
        notes.append(f"waiting for that: {shown_paths(agreement.deferred)}")
    return reason, notes


def _names(flow: Flow) -> str:
    return shown_paths((*flow.set, *flow.unset))


def _annotation(manifest: Mapping[str, Any]) -> str | None:
    annotations = (manifest.get("metadata") or {}).get("annotations") or {}
    found = annotations.get(RESOLVE)
    return str(found) if found is not None else None


def _record(manifest: Mapping[str, Any], text: str | None) -> str:
    return short_digest("resolve", (manifest.get("metadata") or {}).get("uid") or "", text or "")


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def without_resolve(manifest: dict[str, Any]) -> None:
    """Remove the annotation that resolves conflicts."""
    annotations = manifest["metadata"].get("annotations")
    if annotations:
        annotations.pop(RESOLVE, None)


def managed_entries(manifest: Mapping[str, Any]) -> Sequence[Mapping[str, object]]:
    """Return the managed fields of an object."""
    return (manifest.get("metadata") or {}).get("managedFields") or ()
