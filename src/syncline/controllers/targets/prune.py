"""Prune: removes objects that are no longer wanted, whose source is gone, or whose sync is deleted.

Each of the three needs its own evidence. A missing answer is never evidence.
"""

import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from functools import partial

from msgspec import Struct, structs

from syncline.api.common import ABANDON, CONFIRM_DELETION
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import AnySync, LoweredSpec
from syncline.controllers.requeue import NO_REQUEUE, Requeue
from syncline.controllers.state import ObjectUid, SyncState, UnitState
from syncline.controllers.targets.cascade_guard import NAMESPACE, blocking_content, deletes_contents
from syncline.controllers.targets.clusters import ConnectedClusters, TargetCluster
from syncline.controllers.targets.managed_objects import (
    Managed,
    ObjectKey,
    is_unproven,
    is_writable,
    managed_id,
    managed_objects,
    matches_scope,
    object_key,
    observed_copies,
    with_cluster_name,
)
from syncline.controllers.targets.written_objects import CLEANUP_FAILED, find_written
from syncline.core.objects import Observed, Target
from syncline.core.ordering import removal_stages
from syncline.core.outcome import DELETION_HELD, HOLDS_UNMANAGED, UNPROVEN, Outcome
from syncline.core.plan import MARK_UNPROVEN, Action, Verb
from syncline.core.prune_plan import GuardVerdict, deletion_guard, plan_prune
from syncline.core.scope import Namespace
from syncline.engine.fanout import FanOut
from syncline.engine.kind_informer import MetaWire
from syncline.engine.writer import Writer
from syncline.kube.errors import KubeError, NotFound
from syncline.kube.resources import NAMESPACES

# A source that is replaced (deleted and created again) is away for a moment; its copies stay meanwhile.
SOURCE_GRACE = 2.0
# How long the deletion of a sync is retried. Then its copies are left, and its finalizer is removed.
FINALIZE_PATIENCE = 300.0
PATIENCE_ENDS = (
    f"they are left where they are after {FINALIZE_PATIENCE / 60:.0f} minutes of trying, and at once with the "
    f'annotation {ABANDON}: "true"'
)
PRUNED = "Pruned"
# The interval of checks whether the objects of others, which block a removal, still exist.
RECHECK_INTERVAL = 60.0
# A namespace that a sync created for its copies must be empty for this long.
EMPTY_SECONDS = 2.0
EMPTY = "NamespaceEmpty"

OnDelete = Callable[[TargetCluster, Observed], None]


class PruneResult(Struct, frozen=True, kw_only=True):
    """The result of a prune: its outcomes, and the requeue, which is `pending` while a removal waits."""

    outcomes: tuple[Outcome, ...] = ()
    held: SyncError | None = None
    requeue: Requeue = NO_REQUEUE


class FinalizeResult(Struct, frozen=True, kw_only=True):
    """The progress of the deletion of a sync. With a problem, it is retried."""

    outcomes: tuple[Outcome, ...] = ()
    problem: SyncError | None = None
    warning: str = ""


class KeepSet(Struct, frozen=True):
    """The objects that a unit of a sync still wants."""

    targets: frozenset[ObjectKey] = frozenset()
    orphans: frozenset[ObjectKey] = frozenset()
    """Objects whose source does not exist: `prune_orphans` decides about them, not `prune`."""
    absent: frozenset[str] = frozenset()
    """The sources that do not exist, as markers name them."""
    certain: bool = True
    """Whether all names are known."""
    missing: tuple[Target, ...] = ()
    """Named sources that the server says do not exist."""
    missing_message: str = "the source does not exist"
    unread_kinds: frozenset[str] = frozenset()
    """Kinds whose sources could not be read: none of their objects is pruned, nor a namespace that may hold one."""
    confirm: "Confirm | None" = None
    """Called for each object before it is pruned."""
    doubt: SyncError | None = None
    """Why nothing is pruned until a person confirms it, although all names are known."""

    def is_orphan(self, site: TargetCluster, observed: Observed) -> bool:
        """Whether the source of a copy does not exist."""
        marker = observed.marker
        return object_key(site, observed.target) in self.orphans or (
            marker is not None and marker.source in self.absent
        )


class RemovalRequest(Struct, frozen=True):
    """A request to prune an object."""

    observed: Observed
    confirmed: bool = False
    """Whether a person has requested it: by an edit of the spec, or by a confirmation."""
    digest: str = ""
    """The digest by which a person confirms the removals of this reconcile."""


Confirm = Callable[[TargetCluster, RemovalRequest], Awaitable[Outcome | None]]
"""Returns the outcome of an object that stays, or None if it is certainly unwanted."""
KEEP_NOTHING = KeepSet()


def is_abandoned(sync: AnySync) -> bool:
    """Whether a person has requested that the copies of a sync stay when it is deleted."""
    return sync.metadata.annotations.get(ABANDON) == "true"


class Pruner:
    """Removes objects for the syncs of one kind."""

    def __init__(self, writer: Callable[[TargetCluster], Writer]) -> None:
        self._writer = writer

    async def prune(
        self,
        lowered: LoweredSpec,
        unit: UnitState,
        connected: ConnectedClusters,
        keep: KeepSet,
        requested: frozenset[bytes],
    ) -> PruneResult:
        """Remove the objects that are no longer wanted, or return why their removal waits, or how long.

        Objects that an edit of the spec removed (`requested`, by `managed_id`) are removed at once. Other removals wait
        until their set stays the same, so that it is judged as a whole. If it is large, it waits for a confirmation.
        """
        if keep.doubt is not None:
            unwanted = prune_candidates(lowered, connected, structs.replace(keep, certain=True))
            return PruneResult(outcomes=_held_outcomes(unwanted, keep.doubt.reason, keep.doubt.message))
        stale = prune_candidates(lowered, connected, keep)
        derived = [one for one in stale if managed_id(*one) not in requested]
        now = time.monotonic()
        recent = unit.recently_pruned(
            lambda: {_uid(*one) for one in managed_objects(connected) if not one[1].deleting}, now
        )
        verdict = self._check_guard(lowered, connected, stale, derived, recent)
        held = SyncError(DELETION_HELD, verdict.message) if verdict.held else None
        requeue = NO_REQUEUE
        if verdict.derived and not verdict.held:
            left = unit.settle_delay(frozenset(observed.target for _, observed in derived), now)
            requeue = Requeue(after=left, pending=True) if left > 0 else NO_REQUEUE
        waits = {observed.target for _, observed in derived} if held is not None or requeue.pending else set()
        going = [one for one in stale if one[1].target not in waits]
        removed = list(_held_outcomes(derived, DELETION_HELD, _asks(verdict))) if verdict.held else []
        if not verdict.derived:
            unit.reset_prune_window()
        unasked = {_uid(*one) for one in derived} if verdict.derived else set()

        def on_delete(site: TargetCluster, observed: Observed) -> None:
            if _uid(site, observed) in unasked:
                unit.record_pruned(_uid(site, observed), time.monotonic())

        for group in _in_order(going, staged=lowered.staged):
            jobs = [
                (
                    request.observed.target,
                    partial(self._prune_verified, lowered, unit, (site, request), keep, on_delete),
                )
                for site, request in _requests(group, unasked, verdict.digest)
            ]
            removed += await unit.fan_out.run(jobs, _no_progress)
        if held is None:
            # While the set changes, the objects that stay are reported as before.
            removed += [one for one in unit.left if one.target in waits]
            unit.left = tuple(one for one in removed if one.gone and one.written is None)
        stays = any(outcome.reason in (HOLDS_UNMANAGED, UNPROVEN) for outcome in removed)
        # No event reports that the objects of others are gone.
        recheck = Requeue(after=RECHECK_INTERVAL) if stays else NO_REQUEUE
        if any(outcome.reason == EMPTY for outcome in removed):
            recheck |= Requeue(after=EMPTY_SECONDS, pending=True)
        return PruneResult(outcomes=tuple(removed), held=held, requeue=requeue | recheck)

    async def prune_orphans(
        self, lowered: LoweredSpec, unit: UnitState, connected: ConnectedClusters, keep: KeepSet
    ) -> PruneResult:
        """Act on sources that do not exist: wait a moment, check again, then follow the policy."""
        now = time.monotonic()
        unit.missing_since = {target: unit.missing_since.get(target, now) for target in keep.missing}
        if not keep.missing or lowered.source_deletion_policy == "Orphan":
            return PruneResult()
        copies = [one for one in managed_objects(connected) if keep.is_orphan(*one)]
        if not copies:
            return PruneResult()
        if (left := max(unit.missing_since.values()) + SOURCE_GRACE - now) > 0:
            return PruneResult(requeue=Requeue(after=left, pending=True))
        # Of two sides, an edit beats a deletion.
        why, both_ways = ("SourceDeleted", keep.missing_message), lowered.two_way is not None
        return PruneResult(outcomes=tuple(await self._remove(unit.fan_out, copies, why, keep_edited=both_ways)))

    async def finalize(
        self, sync: AnySync, lowered: LoweredSpec | None, state: SyncState, connected: ConnectedClusters
    ) -> FinalizeResult:
        """Delete or release all copies, as the policy says. It never blocks the deletion of the sync forever."""
        abandon = is_abandoned(sync)
        if abandon or lowered is None or lowered.suspended:
            why = (
                "abandoned on request" if abandon else "the sync was suspended" if lowered else "its spec is not valid"
            )
            left = any(managed_objects(connected)) or lowered is None
            return FinalizeResult(warning=f"the copies were left where they are: {why}" if left else "")
        if lowered.deletion_policy == "Orphan":
            return FinalizeResult()
        # Read before the list: a write that ends later may have created an object that the list does not contain.
        in_flight = state.fan_out.in_flight
        removed = [*await self._remove_all(sync, state.fan_out, connected, staged=lowered.staged), *connected.outcomes]
        failed = [outcome for outcome in removed if outcome.state not in ("Synced", "Skipped")]
        # By our own clock: the clock of the API server may differ, and must not shorten the retries.
        state.finalizing_since = state.finalizing_since or time.monotonic()
        if (failed or in_flight) and time.monotonic() - state.finalizing_since < FINALIZE_PATIENCE:
            message = (
                f"{len(failed)} copies cannot be removed yet, {PATIENCE_ENDS}: {_first_cause(failed)}"
                if failed
                else f"{in_flight} writes are still in flight, and what they write must go too; {PATIENCE_ENDS}"
            )
            # The last retry is at the end of FINALIZE_PATIENCE.
            again = max(state.finalizing_since + FINALIZE_PATIENCE - time.monotonic(), 0.0)
            problem = SyncError(CLEANUP_FAILED, message, again=again)
            return FinalizeResult(outcomes=tuple(removed), problem=problem)
        closed = sum(not is_writable(site, observed) for site, observed in managed_objects(connected))
        words = [f"{len(failed)} copies could not be removed and were left: {_first_cause(failed)}"] if failed else []
        explained = (HOLDS_UNMANAGED, UNPROVEN, MARK_UNPROVEN)
        words += [f"{one.target}: {one.message}" for one in removed if one.reason in explained][:1]
        words += [f"{closed} copies stay in namespaces that are ignored or being deleted"] if closed else []
        return FinalizeResult(outcomes=tuple(removed), warning="; ".join(words))

    def preview(
        self, lowered: LoweredSpec, connected: ConnectedClusters, keep: KeepSet, requested: frozenset[bytes]
    ) -> tuple[list[Action], SyncError | None]:
        """Plan `prune` and `prune_orphans`, without writes."""
        stale = prune_candidates(lowered, connected, keep)
        derived = [one for one in stale if managed_id(*one) not in requested]
        verdict = self._check_guard(lowered, connected, stale, derived)
        held = SyncError(DELETION_HELD, verdict.message) if verdict.held else None
        removals = _plan_removals(stale, (PRUNED, lowered.prune_reason))
        if lowered.source_deletion_policy == "Delete" and keep.missing:
            gone = [one for one in managed_objects(connected) if keep.is_orphan(*one) and is_writable(*one)]
            why = ("SourceDeleted", keep.missing_message)
            removals += _plan_removals(gone, why, keep_edited=lowered.two_way is not None)
        return removals, held

    def _check_guard(
        self,
        lowered: LoweredSpec,
        connected: ConnectedClusters,
        stale: list[Managed],
        derived: list[Managed],
        recent: int = 0,
    ) -> GuardVerdict:
        return deletion_guard(
            _plan_removals(derived, (PRUNED, lowered.prune_reason)),
            _count_not_deleting(managed_objects(connected)) - _count_not_deleting(stale) + _count_not_deleting(derived)
            if derived
            else 0,
            why=lowered.shrink_reason,
            confirmed=lowered.sync.metadata.annotations.get(CONFIRM_DELETION, ""),
            recent=recent,
        )

    async def _prune_verified(
        self,
        lowered: LoweredSpec,
        unit: UnitState,
        one: tuple[TargetCluster, RemovalRequest],
        keep: KeepSet,
        on_delete: OnDelete,
    ) -> Outcome | None:
        """Remove a copy after live reads have confirmed that it is unwanted, and that its namespace is."""
        site, observed = one[0], one[1].observed
        if (stays := await _why_stays(lowered, unit, one, keep)) is not None:
            return stays
        why = (PRUNED, lowered.prune_reason)
        if not observed.target.namespace:
            return await self._delete_one(site, observed, why, keep.targets, on_delete=on_delete)
        try:
            wire = await site.cluster.client.get(
                NAMESPACES, observed.target.namespace, type=MetaWire, metadata_only=True
            )
        except NotFound:
            return None
        except KubeError as error:
            message = f"it is no longer wanted, but stays until its namespace can be read to be sure: {error}"
            return Outcome(
                target=observed.target, state="Unknown", reason=UNPROVEN, message=message, retry=True, gone=True
            )
        meta = wire.metadata
        live = Namespace(meta.name, meta.uid, meta.labels, meta.deletion_timestamp is not None)
        closed = live.terminating or live.ignored
        if closed or matches_scope(site, live) != matches_scope(site, site.cluster.namespace(meta.name)):
            return None
        return await self._delete_one(site, observed, why, on_delete=on_delete)

    async def _remove_all(
        self, sync: AnySync, fan_out: FanOut, connected: ConnectedClusters, *, staged: bool
    ) -> list[Outcome]:
        """Remove every object that a sync has written."""
        written, failed = await find_written(sync, connected)
        why = ("SyncDeleted", "the sync was deleted")
        removed = [_left_unproven(observed) for site, observed in written if is_unproven(site, observed)]
        for group in _in_order(written, staged=staged):
            removed += await self._remove(fan_out, group, why)
        return [*removed, *failed]

    async def _remove(
        self,
        fan_out: FanOut,
        copies: Iterable[Managed],
        why: tuple[str, str],
        *,
        keep_edited: bool = False,
    ) -> list[Outcome]:
        """Remove copies for a reason that needs no more evidence. Copies in closed namespaces stay."""
        jobs: list[tuple[Target, Callable[[], Awaitable[Outcome | None]]]] = [
            (observed.target, partial(self._delete_one, site, observed, why, keep_edited=keep_edited))
            for site, observed in copies
            if is_writable(site, observed)
        ]
        return await fan_out.run(jobs, _no_progress)

    async def _delete_one(
        self,
        site: TargetCluster,
        observed: Observed,
        why: tuple[str, str],
        wanted: frozenset[ObjectKey] = frozenset(),
        *,
        keep_edited: bool = False,
        on_delete: OnDelete | None = None,
    ) -> Outcome | None:
        """Remove a copy, unless its deletion would delete objects of others. `on_delete` is called just before."""
        if deletes_contents(observed.target) and any(
            one.verb is Verb.DELETE for one in _plan_removals([(site, observed)], why)
        ):
            stays = await blocking_content(site, observed, wanted)
            if stays is not None:
                return stays
        if on_delete is not None:
            on_delete(site, observed)
        return await self._writer(site).remove(observed, *why, keep_edited=keep_edited)


def _held_outcomes(copies: Iterable[Managed], reason: str, message: str) -> tuple[Outcome, ...]:
    """Return the outcomes of copies that are no longer wanted, and stay until a person confirms their removal."""
    return tuple(
        Outcome(target=action.target, state="Pending", reason=reason, message=message, gone=True)
        for action in _plan_removals(copies, (PRUNED, message))
        if action.verb in (Verb.DELETE, Verb.RELEASE)
    )


def _asks(verdict: GuardVerdict) -> str:
    return (
        "it is no longer wanted, and stays until its removal is confirmed: annotate the sync with"
        f" {CONFIRM_DELETION}={verdict.digest}"
    )


def _left_unproven(observed: Observed) -> Outcome:
    message = (
        "it is left, with all others like it, since its mark is signed with a key that is not known; delete it yourself"
        " if it was this sync's"
    )
    return Outcome(target=observed.target, state="Skipped", reason=MARK_UNPROVEN, message=message, gone=True)


def _count_not_deleting(copies: Iterable[Managed]) -> int:
    """Count the copies that are not being deleted. Copies that only wait for a finalizer do not count."""
    return sum(not observed.deleting for _, observed in copies)


def _uid(site: TargetCluster, observed: Observed) -> ObjectUid:
    return site.cluster.uid, observed.uid


def prune_candidates(lowered: LoweredSpec, connected: ConnectedClusters, keep: KeepSet) -> list[Managed]:
    """Return the copies that are no longer wanted, except those in namespaces that are being deleted."""
    if not lowered.prune or not keep.certain:
        return []
    unwanted = (
        (site, with_cluster_name(site, observed))
        for site, observed in observed_copies(connected)
        if object_key(site, observed.target) not in keep.targets
    )
    return [
        (site, observed)
        for site, observed in unwanted
        if not keep.is_orphan(site, observed) and not _is_unread(keep, observed) and is_writable(site, observed)
    ]


def count_left(lowered: LoweredSpec, connected: ConnectedClusters, keep: KeepSet) -> int:
    """Return the number of copies that are no longer wanted and that stay, because their author has requested it."""
    return sum(
        object_key(site, observed.target) not in keep.targets and _is_left(lowered, keep, site, observed)
        for site, observed in observed_copies(connected)
    )


def _is_left(lowered: LoweredSpec, keep: KeepSet, site: TargetCluster, observed: Observed) -> bool:
    if not lowered.prune or observed.prune_disabled or observed.reconcile_disabled:
        return True
    return lowered.source_deletion_policy == "Orphan" and keep.is_orphan(site, observed)


def _is_unread(keep: KeepSet, observed: Observed) -> bool:
    """Whether an object may be wanted, because the sources of its kind could not be read."""
    kind = observed.target.kind
    return kind in keep.unread_kinds or (bool(keep.unread_kinds) and kind == NAMESPACE)


def _requests(
    copies: Iterable[Managed], unasked: Collection[ObjectUid], digest: str
) -> Iterator[tuple[TargetCluster, RemovalRequest]]:
    for site, observed in copies:
        yield site, RemovalRequest(observed, _uid(site, observed) not in unasked, digest)


async def _why_stays(
    lowered: LoweredSpec, unit: UnitState, one: tuple[TargetCluster, RemovalRequest], keep: KeepSet
) -> Outcome | None:
    """Return the outcome of an object that stays because of its content, or because of its source."""
    site, request = one
    if lowered.independent and request.observed.target.kind == NAMESPACE:
        return await _empty_for_long(unit, site, request.observed)
    return await keep.confirm(site, request) if keep.confirm is not None else None


async def _empty_for_long(unit: UnitState, site: TargetCluster, observed: Observed) -> Outcome | None:
    """Return the outcome of a namespace of ours that stays because it is not empty, or not for long enough."""
    uid = _uid(site, observed)
    stays = await blocking_content(site, observed, empty=True)
    if stays is not None:
        unit.empty_since.pop(uid, None)
        return stays
    now = time.monotonic()
    if now - unit.empty_since.setdefault(uid, now) >= EMPTY_SECONDS:
        return None
    message = "it is empty, and is removed if it still is in a moment"
    return Outcome(target=observed.target, state="Pending", reason=EMPTY, message=message, gone=True)


def _first_cause(failed: Sequence[Outcome]) -> str:
    """Return a target that could not be removed and why; preferably one that is not already being deleted."""
    cause = next((one for one in failed if one.state != "Pending"), failed[0])
    return f"{cause.target}: {cause.message}"


def _plan_removals(copies: Iterable[Managed], why: tuple[str, str], *, keep_edited: bool = False) -> list[Action]:
    removals = (
        plan_prune(observed, site.owner, site.cluster.uid, *why, keep_edited=keep_edited) for site, observed in copies
    )
    return [action for action in removals if action is not None]


def _in_order(copies: Iterable[Managed], *, staged: bool) -> list[list[Managed]]:
    """Return copies in the order of their removal: an object before the objects that it needs."""
    if not staged:
        return [list(copies)]
    by_target = {observed.target: (site, observed) for site, observed in copies}
    return [[by_target[target] for target in stage] for stage in removal_stages(by_target)]


async def _no_progress(_: list[Outcome]) -> None:
    return
