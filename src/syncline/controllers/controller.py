"""What the controllers of all syncs do alike: watch, take turns, publish what came of them.

A turn starts from what is so now, whatever woke it. What a turn does is up to each controller.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Protocol

import structlog
from msgspec import Struct, structs

from syncline.api.common import ObjectMeta
from syncline.api.status import SyncStatus
from syncline.controllers.author_check import AuthorCheck
from syncline.controllers.ended import Ended, EndedSyncs
from syncline.controllers.memory import Memory
from syncline.controllers.quotas import Quotas
from syncline.controllers.removal import FINALIZE_PATIENCE, Remover, is_abandoned
from syncline.controllers.reporting import AnySync, Problem, Report, Reporter
from syncline.controllers.sites import Reached, Sites, emptied_kinds
from syncline.controllers.status_trust import StatusTrust
from syncline.controllers.survey import Site
from syncline.controllers.tenancy import Tenancy
from syncline.controllers.wakes import Wakes
from syncline.controllers.work import Work
from syncline.core.author_policies import AUTHOR_UNCHECKED
from syncline.core.inventory import without_kinds
from syncline.core.marks import sync_id
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.engine.claims import Claim, Claims
from syncline.engine.cluster import Cluster
from syncline.engine.fanout import FanOut, Job, Progress
from syncline.engine.fights import Fights
from syncline.engine.interests import Interest
from syncline.engine.record import Records, StatusConflict, SyncGone, SyncWire
from syncline.engine.statuses import is_refusal
from syncline.engine.unkept import UnkeptFields
from syncline.engine.writer import Writer
from syncline.fairness import on_behalf_of
from syncline.kube.cache import Key
from syncline.kube.errors import ApiError, KubeError
from syncline.kube.event_buffer import EventBuffer
from syncline.kube.events import EventRecorder
from syncline.kube.queue import Queue
from syncline.kube.reflector import Reflector
from syncline.kube.resources import Resource
from syncline.render.transform_pool import TransformPool

log = structlog.get_logger(__name__)


UNSURE = frozenset({"Failed", "Pending", "Unknown"})
HELD_BY_OTHERS = frozenset({"OwnedByOther", "ClaimedByOther"})

Order = tuple[Site, Target, Job]
"""What is to be done at one target."""


class Kind(Protocol):
    """What a controller needs to know of its kind."""

    @property
    def name(self) -> str:
        """The kind."""

    @property
    def resource(self) -> Resource:
        """Where its objects are."""

    @property
    def tenancy(self) -> Tenancy:
        """What governs its syncs."""

    def read(self, wire: SyncWire) -> AnySync:
        """Decode a sync."""

    def finish(self, report: Report, status: SyncStatus, now: str) -> SyncStatus:
        """Add what only this kind reports."""


class Shared(Struct, frozen=True):
    """What the syncs of all kinds share."""

    hub: Cluster
    renderer: TransformPool
    events: EventRecorder
    claims: Claims
    fights: Fights
    unkept: UnkeptFields
    quotas: Quotas
    authors: AuthorCheck | None = None
    """None: nobody asks whether authors are checked."""
    watch_namespaces: Sequence[str] = ()
    allowed_kinds: frozenset[str] = frozenset()
    on_count: Callable[[str], None] = lambda _: None
    """Told the namespace of each sync that comes or goes."""


class Controller(ABC):
    """Reconciles all syncs of one kind."""

    def __init__(self, kind: Kind, sites: Sites, shared: Shared) -> None:
        self.queue: Queue[Key] = Queue(kind.name, group=lambda key: key.namespace)
        self._kind = kind
        self._sites = sites
        self._shared = shared
        self._hub = shared.hub
        self._records = Records(shared.hub.client, kind.resource, shared.hub.marks)
        self._trust = StatusTrust(shared.hub.marks)
        self._reporter = Reporter(kind.name, self._records, shared.events, self._writing, kind.finish)
        self.wakes = Wakes(kind.name, self.queue, shared.hub, shared.claims)
        self._remover = Remover(self._writer)
        self._memory: dict[Key, Memory] = {}
        self._expiry: asyncio.TimerHandle | None = None
        self._ended = EndedSyncs()
        self._events: EventBuffer[Key, AnySync] = EventBuffer(
            lambda sync: (sync.metadata.uid, sync.metadata.resource_version), self._sync_changed
        )
        self.syncs: dict[str | None, Reflector[SyncWire, AnySync]] = {
            namespace: Reflector(
                shared.hub.client,
                kind.resource,
                decode=SyncWire,
                project=kind.read,
                namespace=namespace,
                on_change=self._events.add,
            )
            for namespace in (shared.watch_namespaces or (None,))
        }

    @property
    def plural(self) -> str:
        """The plural of its kind."""
        return self._kind.resource.plural

    @abstractmethod
    async def _turn(self, sync: AnySync, memory: Memory) -> Report:
        """Bring about what a sync wants."""

    @abstractmethod
    async def _finalize(self, sync: AnySync, memory: Memory) -> Report | None:
        """Let go of what a sync has written; None once that is done."""

    @abstractmethod
    def _interest(self, sync: AnySync) -> tuple[Interest, Claim | None]:
        """Return what should wake a sync, and what it lays claim to, as far as its spec alone tells."""

    def writes_through(self, sites: Sites) -> bool:
        """Whether the clusters of its syncs are found by these."""
        return self._sites is sites

    def _remember(self, fan_out: FanOut) -> Memory:
        """Begin to remember a sync."""
        return Memory(fan_out)

    def take_over_statuses(self, uids: Container[str]) -> None:
        """Let the statuses of an earlier version count that are there now: those of these syncs, by their UIDs."""
        for reflector in self.syncs.values():
            for sync in reflector.values():
                if sync.metadata.uid in uids:
                    self._trust.take_over(sync)

    def _sync_changed(self, key: Key, old: AnySync | None, new: AnySync | None, by: str) -> None:
        self._trust.observe(new)
        if new is None and old is not None:
            self._trust.forget(old.metadata.uid)
        if new is None or new.spec is None:
            self.wakes.lose_interest(key)
        elif old is None or _spec_of(old) != _spec_of(new) or new.deleting:
            try:
                interest, claim = self._interest(new)
            except Problem:
                interest, claim = Interest(), None
            self.wakes.take_interest(key, interest, claim, from_spec=True)
        self.wakes.sync_changed(key, old, new, by)
        self._shared.quotas.sync_changed(self._kind.name, key, new)
        if (old is None) != (new is None):
            self._shared.on_count(key.namespace)

    def policies_changed(self, namespaces: frozenset[str]) -> None:
        """Reconcile the syncs of namespaces that are governed otherwise now, also those that are not due."""
        for key in self.syncs_of(namespaces):
            self.look_again(key)

    def look_again(self, key: Key) -> None:
        """Reconcile a sync, also one that is not due."""
        if (memory := self._memory.get(key)) is not None:
            memory.make_due()
        self.queue.add(key)

    def recorded_targets(self, key: Key) -> int:
        """Return how many targets a sync has by its status."""
        sync = self._get(key)
        return sync.status.targets.desired if sync is not None and sync.status.targets is not None else 0

    def syncs_of(self, namespaces: frozenset[str]) -> list[Key]:
        """Return the syncs of some namespaces."""
        return [key for reflector in self.syncs.values() for key, _ in reflector.items() if key.namespace in namespaces]

    async def reconcile(self, key: Key) -> None:
        """Bring one sync about."""
        on_behalf_of.set(key.namespace)
        await self._clean_up_after_ended(key)
        sync = self._get(key)
        if sync is None:
            self._forget(key)
            return
        memory = self._memory_of(sync)
        if (left := memory.until_due(sync, time.monotonic())) > 0:
            self.queue.add(key, delay=left)
            return
        with self._reporter.timed(sync):
            try:
                report = await self._take_turn(sync, memory)
                stored = report is None or await self._reporter.publish(
                    structs.replace(report, sync=self._latest(report.sync))
                )
                if report is not None:
                    await self._sites.observe(sync, None if sync.deleting else report.outcomes)
            except SyncGone:
                log.info("the sync was deleted meanwhile")
                self.queue.add(key)
                return
        if not stored or (report is not None and report.retry):
            self.queue.retry(key)
        else:
            self.queue.forget(key)
        if report is not None and report.again is not None:
            self.queue.add(key, delay=report.again)

    def _memory_of(self, sync: AnySync) -> Memory:
        """Return what is remembered of this very sync: nothing of an earlier one of its name."""
        key = key_of(sync)
        memory = self._memory.get(key)
        if memory is None or memory.uid != sync.metadata.uid:
            fan_out = FanOut(partial(self.queue.add, key), partial(self.queue.is_wanted, key))
            memory = self._memory[key] = self._remember(fan_out)
            memory.uid = sync.metadata.uid
        return memory

    async def _take_turn(self, sync: AnySync, memory: Memory) -> Report | None:
        """Take a turn; a mistake of ours is told where its user looks, not in the log alone."""
        try:
            if self._shared.authors is not None:
                problem = await self._shared.authors.problem(self.plural, sync, memory)
                if problem is not None and (not sync.deleting or not is_abandoned(sync)):
                    return await self._refuse(sync, memory, problem)
            if not sync.deleting:
                waiters, ref = self._shared.claims.waiters, sync.owner.sync
                waiters.begin(ref)
                self._hub.marks.begin(ref)
                report = await self._turn(sync, memory)
                waiters.end(ref)
                self._note_takeover(sync, report)
                return report
            left = await self._finalize(sync, memory)
            if left is None:
                await self._remove_finalizer(sync, memory)
            return left
        except KubeError:
            raise
        except Problem as problem:
            return Report(sync=sync, problem=problem, retry=problem.retry, again=problem.again, waits=problem.retry)
        except Exception as error:
            log.exception("a turn failed in an unforeseen way")
            message = f"unforeseen {type(error).__name__}; the operator's log has the details"
            return Report(sync=sync, problem=Problem("InternalError", message), retry=True)

    def _note_takeover(self, sync: AnySync, report: Report) -> None:
        """Note that a sync has nothing left to take over, once it has looked at all that it wants."""
        marks = self._hub.marks
        if not marks.keys.takeovers or not marks.is_finished(sync.owner.sync):
            return
        is_unsure = report.retry or report.problem is not None or report.outcomes is None
        if not is_unsure and not any(outcome.state in UNSURE for outcome in report.outcomes or ()):
            marks.taken_over.add(sync_id(sync.metadata.uid))

    async def _refuse(self, sync: AnySync, memory: Memory, problem: Problem) -> Report | None:
        """Do nothing for a sync. One that is deleted is not trapped: in the end it goes, and its copies stay."""
        if problem.reason == AUTHOR_UNCHECKED:  # nobody waits for what nobody may ask for
            self._shared.claims.drop(sync.owner.sync)
        if not sync.deleting:
            return Report(sync=sync, problem=problem, again=problem.again)
        memory.finalizing_since = memory.finalizing_since or time.monotonic()
        left = memory.finalizing_since + FINALIZE_PATIENCE - time.monotonic()
        why = problem.message
        if problem.reason == AUTHOR_UNCHECKED:  # nor will it be checked later
            why = "nobody has checked that whoever deleted the sync may delete them"
        elif left > 0:
            return Report(sync=sync, problem=problem, again=left)
        await self._reporter.warn(sync, "CopiesLeft", f"the copies were left where they are: {why}")
        await self._remove_finalizer(sync, memory)
        return None

    def authors_changed(self) -> None:
        """Look again at all syncs: whether their authors are checked has changed."""
        for sync in (sync for reflector in self.syncs.values() for sync in reflector.values()):
            self.queue.add(key_of(sync), priority=1)

    async def _remove_finalizer(self, sync: AnySync, memory: Memory) -> None:
        """Let the sync go, but remember it: a write that a crash left in flight may still make a copy."""
        memory.finalizer_added = None
        self._remember_ended(sync, memory)
        with _refusal_told("the sync stays until then"):
            await self._records.let_go(sync.metadata)

    def _remember_ended(self, sync: AnySync, memory: Memory, *, pending: bool = False) -> None:
        key = key_of(sync)
        for forgotten in self._ended.put(key, Ended(sync, memory, pending=pending), time.monotonic()):
            self.wakes.ended.pop(forgotten, None)
        if key in self._ended:
            memory.shed()
            self.wakes.ended[key] = False
        self._expire_ended()

    def _expire_ended(self) -> None:
        """Forget the syncs that are gone for long enough, now and whenever it is time."""
        now = time.monotonic()
        for forgotten in self._ended.expire(now):
            self.wakes.ended.pop(forgotten, None)
        if self._expiry is not None:
            self._expiry.cancel()
        due = self._ended.next_expiry()
        loop = asyncio.get_running_loop()
        self._expiry = loop.call_later(due - now, self._expire_ended) if due is not None else None

    async def _clean_up_after_ended(self, key: Key) -> None:
        """Remove the copies of a sync that is gone: those that appeared late, and those of one that we could not hold.

        The server removes a sync all the same whose deletion began before its finalizer was added.
        """
        now, memory = self._get(key), self._memory.get(key)
        lost = memory.lost_sync(now.metadata.uid if now is not None else "", time.monotonic()) if memory else None
        if memory is not None and lost is not None:
            try:
                await self._records.verify(lost.metadata)
            except SyncGone:
                log.info("the sync was deleted while its finalizer was being added", sync="/".join(key))
                self._remember_ended(lost, memory, pending=True)
        ended = self._ended.get(key)
        if ended is None or not (ended.pending or self.wakes.ended.get(key)):
            return
        authors = self._shared.authors
        problem = await authors.problem(self.plural, ended.sync, ended.memory) if authors is not None else None
        if problem is not None and problem.reason == AUTHOR_UNCHECKED:
            ended.pending = self.wakes.ended[key] = False
            return
        if problem is not None:
            self.queue.retry(key)
            return
        report = await self._finalize(ended.sync, ended.memory)
        ended.pending = report is not None
        self.wakes.ended[key] = False
        if report is not None:
            log.warning("copies of a sync that is gone cannot be removed yet", sync="/".join(key))
            self.queue.retry(key)

    async def drain(self, grace: float) -> None:
        """Wait so long, and no longer, for writes that a turn has left behind."""
        await asyncio.gather(*(memory.fan_out.drain(grace) for memory in self._memory.values()))

    async def _hold(self, sync: AnySync, memory: Memory) -> AnySync:
        """Add the finalizer before the first write, so that no copy can outlive its sync unseen."""
        with self._writing(sync.metadata) as observe, _refusal_told("nothing is written without it"):
            wire = await self._records.hold(sync.metadata)
            if wire is None:
                return sync
            memory.finalizer_added = sync, time.monotonic()
            observe(wire)
        return self._trust.trusted(self._kind.read(wire))

    async def _record(self, work: Work, reached: Reached, scope: str | None = None) -> None:
        """Write down the kinds and clusters that are about to be written to, before the first write there.

        And the scope as it was judged, before the first removal. Raises `SyncGone` where the sync does not exist any
        more: then nothing may be written.
        """
        latest = self._latest(work.sync)
        status = self._sites.record(work, reached, latest.status)
        status = structs.replace(status, scope=scope if scope is not None else status.scope)
        memory = self._memory.get(key_of(work.sync))
        if memory is None or not memory.fan_out.in_flight:
            status = without_kinds(status, emptied_kinds(work, reached))
        if status != latest.status:
            await self._reporter.record(latest, status)

    async def _carry_out(
        self, work: Work, memory: Memory, orders: Sequence[Order], progress: Progress
    ) -> list[Outcome]:
        """Write to many targets at once, but not to those that are known to be a stranger's until something changes.

        What was not begun with when policies change is not written.
        """
        sync = work.sync
        key, generation = key_of(sync), sync.metadata.generation
        known: list[Outcome] = []
        jobs: list[tuple[Target, Job]] = []
        clusters: dict[Target, Cluster] = {}
        for site, target, job in orders:
            blocked = self.wakes.blocked(key, generation, site.cluster, target)
            if blocked is not None:
                known.append(blocked)
                continue
            clusters[target] = site.cluster
            jobs.append((target, partial(self._unless_changed, work, target, job)))
        self.wakes.attend(key)
        outcomes = await memory.fan_out.run(jobs, progress)
        for outcome in outcomes:
            if outcome.reason == "NotOurs":
                self.wakes.block(key, generation, clusters[outcome.target], outcome)
            elif outcome.reason in HELD_BY_OTHERS:
                self.wakes.wait(key, clusters[outcome.target], outcome)
        return outcomes + known

    async def _unless_changed(self, work: Work, target: Target, job: Job) -> Outcome | None:
        """Write to a target, unless other policies hold by now than when the sync was checked."""
        try:
            self._kind.tenancy.confirm(work.sync.metadata.namespace, work.limits)
        except Problem as problem:
            return Outcome(
                target=target, state="Pending", reason=problem.reason, message=str(problem), retry=problem.retry
            )
        return await job()

    def _writer(self, site: Site) -> Writer:
        return Writer(
            site.cluster,
            site.client,
            site.owner,
            site.place.policy,
            claims=self._shared.claims,
            fights=self._shared.fights,
            unkept=self._shared.unkept,
        )

    def _get(self, key: Key) -> AnySync | None:
        """Return a sync with the status that counts."""
        reflector = self._reflector(key.namespace)
        sync = reflector.get(key) if reflector is not None else None
        return self._trust.trusted(sync) if sync is not None else None

    def _reflector(self, namespace: str) -> Reflector[SyncWire, AnySync] | None:
        return self.syncs.get(None if None in self.syncs else namespace)

    @contextmanager
    def _writing(self, meta: ObjectMeta) -> Iterator[Callable[[SyncWire], None]]:
        """While we write to a sync: tell our own write from those of others, whichever way we learn of it first."""
        key = Key(meta.namespace, meta.name)
        with self._events.hold(key):
            try:
                yield partial(self._observe, by=self._kind.name)
            except StatusConflict as conflict:
                self._observe(conflict.live, by="")
                raise

    def _observe(self, wire: SyncWire, by: str) -> None:
        """Take in a sync that the server answered; an edit by its user is passed on like one that a watch tells."""
        key = Key(wire.metadata.namespace, wire.metadata.name)
        reflector = self._reflector(key.namespace)
        if reflector is not None:
            if by:
                self._events.claim(key, wire.metadata.uid, wire.metadata.resource_version, by)
            reflector.observe(wire, by)

    def _latest(self, sync: AnySync) -> AnySync:
        """Return the sync with its status as it is now: a turn writes to it as it goes."""
        now = self._get(key_of(sync))
        if now is None or now.metadata.uid != sync.metadata.uid:
            return sync
        metadata = structs.replace(sync.metadata, resource_version=now.metadata.resource_version)
        return structs.replace(sync, metadata=metadata, status=now.status, stored=now.stored)

    def _forget(self, key: Key) -> None:
        self._memory.pop(key, None)
        self._sites.forget(self._kind.name, key)
        self._hub.marks.begin(f"{self._kind.name}/{key.namespace}/{key.name}")
        self._reporter.forget(key)
        self.queue.forget(key)


def _spec_of(sync: AnySync) -> tuple[str, int]:
    """Name the spec of a sync."""
    return sync.metadata.uid, sync.metadata.generation


def key_of(sync: AnySync) -> Key:
    """Return the key of a sync."""
    return Key(sync.metadata.namespace, sync.metadata.name)


@contextmanager
def _refusal_told(meanwhile: str) -> Iterator[None]:
    """Raise `Problem` where the API server has something against a change of the finalizers."""
    try:
        yield
    except ApiError as error:
        if not is_refusal(error):
            raise
        remedy = "let the policy or webhook that refuses it admit what the operator writes, and check its rights"
        message = f"the API server refuses a change of the finalizers, and {meanwhile}; {remedy}: {error}"
        raise Problem("FinalizerRefused", message, retry=True) from error


def soonest(*seconds: float | None) -> float | None:
    """Return the least of what is given."""
    return min((given for given in seconds if given is not None), default=None)
