"""Apply: writes the desired objects of one unit, many at once, and in stages where objects need one another."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from msgspec import Struct

from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import LoweredSpec, key_of
from syncline.controllers.targets.clusters import TargetCluster
from syncline.controllers.targets.keep_policy import KeepMarks, no_room_outcome
from syncline.controllers.targets.namespaces import ignored_namespace
from syncline.controllers.targets.stages import DesiredAt, apply_in_stages
from syncline.controllers.targets.visibility import Visibility
from syncline.controllers.tenancy import Tenancy
from syncline.controllers.triggers import Triggers
from syncline.core.keypolicies import KeyPolicies
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.engine.cluster import Cluster
from syncline.engine.fanout import FanOut, Job, Progress
from syncline.engine.twoway import TwoWay, Upstream
from syncline.engine.writer import Writer

OWNED_BY_OTHERS = frozenset({"OwnedByOther", "ClaimedByOther"})

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


class UnitApplier:
    """Applies desired objects for the syncs of one kind."""

    def __init__(self, writer: Callable[[TargetCluster], Writer], triggers: Triggers, tenancy: Tenancy) -> None:
        self._writer = writer
        self._triggers = triggers
        self._tenancy = tenancy

    async def apply(self, items: Sequence[DesiredAt], one: ApplyPass) -> list[Outcome]:
        """Write what differs; return the outcome of every item."""
        writers = {id(item.site): self._writer(item.site) for item in items}
        before: list[Outcome] = []

        async def progress(so_far: list[Outcome]) -> None:
            await one.progress([*before, *so_far])

        async def write(stage: Sequence[DesiredAt]) -> list[Outcome]:
            jobs: list[ApplyJob] = []
            written: list[DesiredAt] = []
            refused: list[Outcome] = []
            for item in stage:
                job = await self._job(item, writers[id(item.site)], one)
                if isinstance(job, Outcome):
                    refused.append(job)
                else:
                    jobs.append((item.site, item.desired.target, job))
                    written.append(item)
            await one.record(written)
            outcomes = await self._run(one, jobs, progress)
            before.extend(outcomes)
            return [*outcomes, *refused]

        if one.lowered.staged:
            return await apply_in_stages(items, write, one.is_wanted)
        return await write(items)

    async def _job(self, item: DesiredAt, writer: Writer, one: ApplyPass) -> Job | Outcome:
        """Return the write of an item, or the outcome of an item that is not written."""
        target, site = item.desired.target, item.site
        namespace = site.cluster.namespace(target.namespace) if target.namespace and not item.hidden else None
        if namespace is not None and namespace.ignored:
            if await one.visibility.is_hidden(target):
                return partial(writer.ask_to_create, item.desired)
            return ignored_namespace(target)
        if not one.marks.take(site, target):
            return no_room_outcome(target)
        if item.hidden:
            return partial(writer.ask_to_create, item.desired)
        kept = one.marks.has(site, target)
        if one.lowered.two_way is None:
            return partial(writer.apply, item.desired, created_once=kept)
        pair, upstream = two_way_of(one.lowered.two_way, one.lowered, writer, item)
        return partial(pair.apply, upstream, item.desired, created_once=kept)

    async def _run(self, one: ApplyPass, jobs: Sequence[ApplyJob], progress: Progress) -> list[Outcome]:
        """Write to many targets at once, but not to those that an unmanaged object holds until something changes.

        What was not begun with when policies change is not written.
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
        """Write to a target, unless other policies hold by now than when the sync was checked."""
        try:
            self._tenancy.confirm(lowered.sync.metadata.namespace, lowered.limits)
        except SyncError as error:
            retry = error.requeue.backoff
            return Outcome(target=target, state="Pending", reason=error.reason, message=str(error), retry=retry)
        return await job()


def two_way_of(
    strategies: KeyPolicies, lowered: LoweredSpec, writer: Writer, item: DesiredAt
) -> tuple[TwoWay, Upstream]:
    """Return what keeps a source and its copy in agreement, and the source as it was read."""
    source, site = item.source, item.site
    assert source is not None  # noqa: S101 - only copies go both ways
    upstream = Upstream(
        target=source.target, uid=source.meta.uid, version=source.meta.resource_version, manifest=source.manifest
    )
    pair = TwoWay(site.cluster, site.client, writer, strategies, keys=lowered.keys, transforms=lowered.transforms)
    return pair, upstream
