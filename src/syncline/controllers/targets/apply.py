"""Apply: writes the desired objects of one unit, many at once, and in stages if objects depend on each other."""

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from msgspec import Struct, structs

from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import LoweredSpec, key_of
from syncline.controllers.state import (
    REFUSED_FOR,
    InSyncObject,
    RefusedChange,
    UnitState,
    requested_by_user,
)
from syncline.controllers.targets.cascade_guard import NAMESPACE
from syncline.controllers.targets.clusters import TargetCluster
from syncline.controllers.targets.keep_policy import KeepMarks
from syncline.controllers.targets.namespaces import ignored_namespace
from syncline.controllers.targets.own_namespaces import OwnNamespaces, foreign_namespace
from syncline.controllers.targets.stages import DesiredAt, PairedObject, apply_in_stages
from syncline.controllers.targets.upward_deletion import deleted_copies
from syncline.controllers.targets.visibility import Visibility
from syncline.controllers.tenancy import Tenancy
from syncline.controllers.triggers import Triggers
from syncline.core.keep_marks import no_room_outcome
from syncline.core.keypolicies import KeyPolicies
from syncline.core.objects import Observed, Target
from syncline.core.outcome import SOURCE_MOVED, Outcome
from syncline.core.plan import Policy
from syncline.engine.cluster import Cluster
from syncline.engine.fanout import FanOut, Job, Progress
from syncline.engine.pair_memory import PairMemory
from syncline.engine.pairs import Pairs
from syncline.engine.twoway import TwoWay, Upstream
from syncline.engine.writer import Writer

OWNED_BY_OTHERS = frozenset({"OwnedByOther", "ClaimedByOther"})
REFUSED = frozenset({"Immutable", "RepairRefused"})

WriterOf = Callable[[TargetCluster, Policy | None], Writer]
"""Returns the writer for a cluster, with a given policy or that of the destination."""
ApplyJob = tuple[TargetCluster, Target, Job]
"""A write to one target."""
Record = Callable[[Sequence[DesiredAt]], Awaitable[None]]
"""Records the kinds of objects in the inventory, before the first of them is written."""


class ApplyPass(Struct, frozen=True, kw_only=True):
    """The writes of one unit in one reconcile."""

    lowered: LoweredSpec
    fan_out: FanOut
    marks: KeepMarks
    visibility: Visibility
    record: Record
    progress: Progress
    is_wanted: Callable[[], bool]
    unit: UnitState
    whole: bool = True
    """Whether the items are all of the unit."""
    look_again: Callable[[], None]
    """Enqueues the sync, to check whether the written object is in sync."""


class UnitApplier:
    """Applies desired objects for the syncs of one kind."""

    def __init__(self, writer: WriterOf, triggers: Triggers, tenancy: Tenancy, memory: PairMemory) -> None:
        self._writer = writer
        self._memory = memory
        self._triggers = triggers
        self._tenancy = tenancy

    async def apply(self, items: Sequence[DesiredAt], one: ApplyPass) -> list[Outcome]:
        """Write the items that differ. Return the outcome of every item."""
        writers: dict[tuple[int, Policy | None], Writer] = {}
        for item in items:
            if (key := (id(item.site), item.policy)) not in writers:
                writers[key] = self._writer(item.site, item.policy)
        before: list[Outcome] = []
        deleted = deleted_copies(one.lowered.sync, one.unit, items)

        async def progress(so_far: list[Outcome]) -> None:
            await one.progress([*before, *so_far])

        async def write(stage: Sequence[DesiredAt], later: Sequence[DesiredAt] = ()) -> list[Outcome]:
            jobs: list[ApplyJob] = []
            written: list[DesiredAt] = []
            looked_at: list[tuple[DesiredAt, Observed | None]] = []
            refused: list[Outcome] = []
            own = OwnNamespaces()
            for item in stage:
                job = deleted.get(item.desired.target) or await self._job(
                    item, writers[id(item.site), item.policy], one, own
                )
                if isinstance(job, Outcome):
                    refused.append(job)
                else:
                    jobs.append((item.site, item.desired.target, job))
                    written.append(item)
                    looked_at.append((item, item.site.cluster.managed_at(item.desired.target)))
            await one.record([*written, *namespaced_in(written, later)])
            outcomes = await self._run(one, jobs, progress)
            before.extend(outcomes)
            _settle(one, looked_at, outcomes)
            _remember_refused(one, looked_at, outcomes)
            return [*outcomes, *refused]

        if one.lowered.staged:
            outcomes = await apply_in_stages(items, write, one.is_wanted, independent=one.lowered.independent)
        else:
            outcomes = await write(items)
        if one.whole and (one.unit.in_sync or one.unit.refused):
            _forget_unwanted(one.unit, {_place(item) for item in items})
        return self._followed(one, items, outcomes)

    def _followed(self, one: ApplyPass, items: Sequence[DesiredAt], outcomes: list[Outcome]) -> list[Outcome]:
        """Let the other copies of a written source follow: a watch does not enqueue a sync for its own writes."""
        written = {outcome.target for outcome in outcomes if outcome.upward}
        if not written:
            return outcomes
        sources = {item.source.target for item in items if item.source is not None and item.desired.target in written}
        behind = {item.desired.target for item in items if item.source is not None and item.source.target in sources}
        if behind <= written:
            return outcomes
        self._triggers.look_again(key_of(one.lowered.sync))
        return [_behind(outcome) if outcome.target in behind - written else outcome for outcome in outcomes]

    async def _job(self, item: DesiredAt, writer: Writer, one: ApplyPass, own: OwnNamespaces) -> Job | Outcome:
        """Return the write of an item, or the outcome of an item that is not written."""
        target, site = item.desired.target, item.site
        ask = partial(
            writer.ask_to_create if one.lowered.two_way is None else writer.ask_to_read_and_create, item.desired
        )
        namespace = site.cluster.namespace(target.namespace) if target.namespace and not item.hidden else None
        if namespace is not None and namespace.ignored:
            if await one.visibility.is_hidden(target):
                return ask
            return ignored_namespace(target)
        if item.in_own_namespace and not own.has(site, target.namespace):
            return foreign_namespace(target)
        if not one.marks.take(site, target):
            return no_room_outcome(target)
        if item.hidden:
            return ask
        return _settled(one, item) or _still_refused(one, item) or self._write(item, writer, one)

    def _write(self, item: DesiredAt, writer: Writer, one: ApplyPass) -> Job:
        """Return the write of an item: plain, two-way or as a pair."""
        desired, kept = item.desired, one.marks.has(item.site, item.desired.target)
        if item.pair is not None and not item.pair.rules.is_plain():
            pairs, source = pair_of(item.pair, self._memory, writer, item)
            return partial(pairs.apply, source, desired, created_once=kept)
        if one.lowered.two_way is not None:
            pair, upstream = two_way_of(one.lowered.two_way, one.lowered, writer, item, self._memory)
            return partial(pair.apply, upstream, desired, created_once=kept)
        return partial(writer.apply, desired, created_once=kept, limit=item.limit)

    async def _run(self, one: ApplyPass, jobs: Sequence[ApplyJob], progress: Progress) -> list[Outcome]:
        """Write to many targets at once, except to those where an unmanaged object blocks until something changes.

        Writes that have not begun when policies change are dropped.
        """
        sync = one.lowered.sync
        key, generation = key_of(sync), sync.metadata.generation
        known: list[Outcome] = []
        queued: list[tuple[Target, Job]] = []
        clusters: dict[Target, Cluster] = {}
        for site, target, job in jobs:
            blocked = self._triggers.blocked_outcome(key, generation, site.cluster, target)
            if blocked is not None:
                known.append(blocked)
                continue
            clusters[target] = site.cluster
            queued.append((target, partial(self._unless_changed, one.lowered, target, job)))
        self._triggers.begin_pass(key)
        outcomes = await one.fan_out.run(queued, progress)
        for outcome in outcomes:
            if outcome.reason == "NotOurs":
                self._triggers.mark_blocked(key, generation, clusters[outcome.target], outcome)
            elif outcome.reason in OWNED_BY_OTHERS:
                self._triggers.wait(key, clusters[outcome.target], outcome)
        return outcomes + known

    async def _unless_changed(self, lowered: LoweredSpec, target: Target, job: Job) -> Outcome | None:
        """Write to a target, unless the policies have changed since the sync was checked."""
        try:
            self._tenancy.confirm(lowered.sync.metadata.namespace, lowered.limits)
        except SyncError as error:
            retry = error.requeue.backoff
            return Outcome(target=target, state="Pending", reason=error.reason, message=str(error), retry=retry)
        return await job()


def namespaced_in(written: Sequence[DesiredAt], later: Sequence[DesiredAt]) -> list[DesiredAt]:
    """Return the objects in namespaces that are written now: they follow at once, so one record is for both."""
    spaces = {(id(item.site), item.desired.target.name) for item in written if item.desired.target.kind == NAMESPACE}
    return [item for item in later if (id(item.site), item.desired.target.namespace) in spaces] if spaces else []


def _behind(outcome: Outcome) -> Outcome:
    """Return the outcome of a copy whose source was written after the copy was made from it."""
    if outcome.state != "Synced":
        return outcome
    message = "an edit in another cluster has just changed its source, which it follows in a moment"
    return structs.replace(outcome, state="Pending", reason=SOURCE_MOVED, message=message, retry=True)


def _place(item: DesiredAt) -> tuple[str, Target]:
    return item.site.cluster.uid, item.desired.target


def _settled(one: ApplyPass, item: DesiredAt) -> Outcome | None:
    """Return the outcome of an object that was in sync at the last reconcile, if none of its inputs has changed."""
    known = one.unit.in_sync.get(_place(item))
    if known is None or known.desired is not item.desired or known.source is not item.source:
        return None
    is_same = known.observed is item.site.cluster.managed_at(item.desired.target) and known.keys is item.site.owner.keys
    return known.outcome if is_same else None


def _settle(
    apply: ApplyPass, looked_at: Sequence[tuple[DesiredAt, Observed | None]], outcomes: Sequence[Outcome]
) -> None:
    """Record the objects that were in sync, in the state that this pass planned with.

    An object that has changed since is not recorded: its watch event enqueues the sync.
    """
    found = {outcome.target: outcome for outcome in outcomes if outcome.state == "Synced" and outcome.written is None}
    for item, observed in looked_at:
        outcome = found.get(item.desired.target)
        is_same = observed is not None and observed is item.site.cluster.managed_at(item.desired.target)
        if outcome is not None and observed is not None and is_same and not outcome.retry:
            keys = item.site.owner.keys
            namespace = item.site.cluster.namespace(item.desired.target.namespace)
            apply.unit.in_sync[_place(item)] = InSyncObject(
                item.desired, item.source, observed, keys, outcome, namespace.uid if namespace is not None else ""
            )
        else:
            apply.unit.in_sync.pop(_place(item), None)
    written = {outcome.target for outcome in outcomes if outcome.written is not None}
    if any(one.pair is not None and one.pair.deletes_upward and one.desired.target in written for one, _ in looked_at):
        apply.look_again()  # only the deletion of a copy that was in sync is propagated


def _still_refused(one: ApplyPass, item: DesiredAt) -> Outcome | None:
    """Return the outcome of a change that the server refused, if none of its inputs has changed.

    An edit of the sync or a request to reconcile is an input: its user expects a new try.
    """
    known = one.unit.refused.get(_place(item))
    if known is None or known.requested != requested_by_user(one.lowered.sync) or known.desired != item.desired:
        return None
    is_same = known.observed is item.site.cluster.managed_at(item.desired.target)
    return known.outcome if is_same and time.monotonic() - known.since < REFUSED_FOR else None


def _remember_refused(
    apply: ApplyPass, looked_at: Sequence[tuple[DesiredAt, Observed | None]], outcomes: Sequence[Outcome]
) -> None:
    """Record the changes that the server refused, with the objects as this reconcile has read them.

    If both sides can be edited, the other side may change too: such changes are tried each time.
    """
    found = {outcome.target: outcome for outcome in outcomes if outcome.reason in REFUSED and not outcome.retry}
    for item, observed in looked_at:
        outcome = found.get(item.desired.target)
        is_one_way = item.pair is None and apply.lowered.two_way is None
        if outcome is not None and observed is not None and is_one_way:
            requested, now = requested_by_user(apply.lowered.sync), time.monotonic()
            apply.unit.refused[_place(item)] = RefusedChange(item.desired, observed, requested, now, outcome)
        else:
            apply.unit.refused.pop(_place(item), None)


def _forget_unwanted(unit: UnitState, wanted: set[tuple[str, Target]]) -> None:
    for known in (unit.in_sync, unit.refused):
        for place in known.keys() - wanted:
            del known[place]


def pair_of(pair: PairedObject, memory: PairMemory, writer: Writer, item: DesiredAt) -> tuple[Pairs, Upstream]:
    """Return the `Pairs` for an upstream object and its copy, and the upstream object that was read."""
    pairs = Pairs(pair.upstream, pair.client, writer, pair.rules, memory=memory, desired_of=pair.desired_of)
    return pairs, _upstream_of(item)


def _upstream_of(item: DesiredAt) -> Upstream:
    source = item.source
    assert source is not None  # noqa: S101 - only copies go both ways
    return Upstream(
        target=source.target, uid=source.meta.uid, version=source.meta.resource_version, manifest=source.manifest
    )


def two_way_of(
    strategies: KeyPolicies, lowered: LoweredSpec, writer: Writer, item: DesiredAt, memory: PairMemory
) -> tuple[TwoWay, Upstream]:
    """Return the `TwoWay` for a source and its copy, and the source that was read."""
    site, upstream = item.site, _upstream_of(item)
    pair = TwoWay(
        *(site.cluster, site.client, writer, strategies),
        keys=lowered.keys,
        transforms=lowered.transforms,
        sent=memory.sent,
    )
    return pair, upstream
