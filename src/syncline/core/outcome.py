"""Outcomes: the result at one target, with its reason. Status, events and metrics are views of outcomes."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from operator import attrgetter

from msgspec import Struct

from syncline.api.common import WORST_FIRST, TargetCounts, TargetState, TargetStatus
from syncline.core.conditions import Finding, shorten
from syncline.core.objects import Target
from syncline.core.plan import Action, Verb

LISTED = 100
NAMED = 3
# The status of Ready for each state.
NOT_READY: frozenset[TargetState] = frozenset({"Failed", "Conflict", "Pending"})
HOLDS_UNMANAGED = "HoldsUnmanaged"
UNPROVEN = "Unproven"
DELETION_HELD = "DeletionHeld"
ORPHANED = "Orphaned"
SOURCE_MOVED = "SourceMoved"
"""The reason of a target that waits for the present state of its source, which is read again at once."""
# The reasons of unwanted objects that stay until a user decides.
_STAYS = frozenset({HOLDS_UNMANAGED, UNPROVEN})


class Outcome(Struct, frozen=True, kw_only=True):
    """The result at one target."""

    target: Target
    state: TargetState
    reason: str
    message: str = ""
    written: Verb | None = None
    drift: bool = False
    retry: bool = False
    """Whether a retry without a change may succeed."""
    gone: bool = False
    """Whether the target is no longer wanted: its outcome counts as a change, not as a target."""
    conflicts: tuple[str, ...] = ()
    """The paths with a conflict that a person must decide."""
    upward: bool = False
    """Whether the source was written too, so that its other copies are not in sync any more."""


def outcome_of(action: Action, *, written: bool = False, gone: bool = False) -> Outcome:
    """Return the outcome of an executed action."""
    return Outcome(
        target=action.target,
        state=action.state,
        reason=action.reason,
        message=action.message,
        written=action.verb if written else None,
        drift=action.drift and written,
        # The watch does not report the end of an object that we deleted ourselves.
        retry=action.reason == "Terminating",
        gone=gone,
        conflicts=action.conflicts,
    )


def count(outcomes: Iterable[Outcome]) -> TargetCounts:
    """Count the targets by state, and the objects that are left although they are no targets any more."""
    outcomes = list(outcomes)
    tally = _tally(outcomes)
    states = {state: number for (state, gone), number in tally.items() if not gone}
    has_gone = any(gone for _, gone in tally)
    desired = sum(states.values())
    return TargetCounts(
        desired=desired,
        synced=states.get("Synced", 0),
        pending=states.get("Pending", 0),
        failed=states.get("Failed", 0),
        conflicted=states.get("Conflict", 0),
        skipped=states.get("Skipped", 0),
        unknown=states.get("Unknown", 0),
        unwanted=sum(outcome.gone and _is_left(outcome) for outcome in outcomes) if has_gone else 0,
        summary=f"{states.get('Synced', 0)}/{desired}",
    )


def _tally(outcomes: Iterable[Outcome]) -> Counter[tuple[TargetState, bool]]:
    """Count the outcomes by their state, and by whether they are gone."""
    return Counter(map(attrgetter("state", "gone"), outcomes))


def listing(outcomes: Sequence[Outcome], known: Iterable[TargetStatus], now: str) -> list[TargetStatus]:
    """List the targets for the status: failures first, at most 100."""
    entries = {(entry.namespace, entry.name, entry.kind or "ConfigMap", entry.cluster_name): entry for entry in known}
    by_state: dict[TargetState, list[Outcome]] = {}
    for outcome in outcomes:
        if not outcome.gone or _is_left(outcome):
            by_state.setdefault(outcome.state, []).append(outcome)
    shown = chain.from_iterable(
        sorted(by_state[state], key=attrgetter("target")) for state in WORST_FIRST if state in by_state
    )
    return [_entry(outcome, entries.get(outcome.target), now) for outcome in islice(shown, LISTED)]


def _entry(outcome: Outcome, known: TargetStatus | None, now: str) -> TargetStatus:
    """Return the entry of a target; the known one if nothing of it has changed."""
    target, is_synced = outcome.target, outcome.state == "Synced"
    if known is not None and is_synced and known.status == "Synced" and not outcome.written:
        return known
    written = known.last_sync_time if known is not None else ""
    return TargetStatus(
        type="RemoteCluster" if target.cluster else "InCluster",
        cluster_name=target.cluster,
        kind="" if target.kind == "ConfigMap" else target.kind,
        namespace=target.namespace,
        name=target.name,
        status=outcome.state,
        reason="" if is_synced else outcome.reason,
        message="" if is_synced else shorten(outcome.message, 1000),
        last_sync_time=now if outcome.written else written,
    )


def readiness(outcomes: Sequence[Outcome], unmatched: Sequence[str] = ()) -> Finding:
    """Return the Ready condition over the targets: False beats Unknown beats True.

    `unmatched` describes the selectors that match nothing. That is no failure: later matches are synced.
    """
    states_found = _tally(outcomes)
    for states, status in ((NOT_READY, "False"), (frozenset({"Unknown"}), "Unknown")):
        if not any(state in states for state, _ in states_found):
            continue
        bad = sorted((outcome for outcome in outcomes if outcome.state in states), key=worst_first)
        if bad:
            reasons = {outcome.reason for outcome in bad}
            reason = reasons.pop() if len(reasons) == 1 else "TargetsNotSynced"
            return Finding("Ready", "False" if status == "False" else "Unknown", reason, _explain(bad, outcomes))
    synced, skipped = states_found["Synced", False], states_found["Skipped", False]
    message = f"{synced} {'target agrees' if synced == 1 else 'targets agree'} with the source"
    message += f", {skipped} skipped" if skipped else ""
    if unmatched:
        rest = f"; and {len(unmatched) - NAMED} more" if len(unmatched) > NAMED else ""
        nothing = f"{'; '.join(shorten(one, 300) for one in unmatched[:NAMED])}{rest}"
        message = f"{message}; {nothing}" if synced or skipped else f"there is nothing to write yet: {nothing}"
    stay = (outcome for outcome in outcomes if _stays(outcome)) if states_found["Skipped", True] else ()
    left = sorted(stay, key=worst_first)
    message += f"; {left[0].target}: {shorten(left[0].message, 300)}" if left else ""
    return Finding("Ready", "True", "Synced", message)


def conflicted(outcomes: Sequence[Outcome]) -> Finding | None:
    """Return the Conflicted condition, present only while there is a conflict."""
    bad = sorted((outcome for outcome in outcomes if outcome.state == "Conflict"), key=worst_first)
    return Finding("Conflicted", "True", bad[0].reason, _explain(bad, outcomes)) if bad else None


_CHANGE = re.compile(r"\b(\d{1,9}) ([a-z]{1,20})\b")


def describe_changes(outcomes: Iterable[Outcome]) -> str:
    """Describe the writes in words; empty if there were none."""
    words = {
        Verb.CREATE: "created",
        Verb.UPDATE: "updated",
        Verb.ADOPT: "adopted",
        Verb.RECREATE: "recreated",
        Verb.DELETE: "deleted",
        Verb.RELEASE: "released",
    }
    done: Counter[str] = Counter()
    for outcome in outcomes:
        if outcome.written is not None:
            done["repaired" if outcome.drift else words[outcome.written]] += 1
    return ", ".join(f"{number} {word}" for word, number in sorted(done.items()))


def add_changes(before: str, more: str) -> str:
    """Add up the writes of two reconciles, both in the words of `describe_changes`. One alone stays as it is."""
    if not before or not more:
        return before or more
    done: Counter[str] = Counter()
    for number, word in _CHANGE.findall(f"{before}, {more}"):
        done[word] += int(number)
    return ", ".join(f"{number} {word}" for word, number in sorted(done.items()))


def _stays(outcome: Outcome) -> bool:
    return outcome.gone and outcome.state == "Skipped" and outcome.reason in _STAYS


def _is_left(outcome: Outcome) -> bool:
    """Whether an unwanted object still exists."""
    return outcome.state in NOT_READY or outcome.state == "Unknown" or outcome.reason == ORPHANED or _stays(outcome)


def worst_first(outcome: Outcome) -> tuple[int, Target]:
    """Return the place of an outcome in an order that depends on nothing but the outcomes."""
    return WORST_FIRST.index(outcome.state), outcome.target


def _explain(bad: Sequence[Outcome], outcomes: Sequence[Outcome]) -> str:
    total = sum(not outcome.gone for outcome in outcomes) + sum(outcome.gone for outcome in bad)
    mixed = any(outcome.target.kind != "ConfigMap" for outcome in outcomes)
    named = "; ".join(f"{_name(one.target, mixed=mixed)}: {shorten(one.message, 300)}" for one in bad[:NAMED])
    rest = f"; and {len(bad) - NAMED} more" if len(bad) > NAMED else ""
    return f"{len(bad)} of {total} targets not in agreement: {named}{rest}"


def _name(target: Target, *, mixed: bool) -> str:
    """Return the name of a target; among other kinds, a ConfigMap has its kind too."""
    if target.kind != "ConfigMap" or not mixed:
        return str(target)
    where = f"{target.namespace}/{target.name}"
    return f"{target.cluster}: ConfigMap {where}" if target.cluster else f"ConfigMap {where}"
