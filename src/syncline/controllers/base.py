"""The base of every reconciler of syncs: queue, reflectors, finalizer, inventory, status and events.

A reconcile starts from what is so now, whatever enqueued it. What a reconcile does is up to each controller.
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
from syncline.controllers.deleted_syncs import DeletedSync, DeletedSyncs
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import AnySync, key_of
from syncline.controllers.quotas import Quotas
from syncline.controllers.requeue import NO_REQUEUE, Requeue
from syncline.controllers.result import ReconcileResult, failed_result
from syncline.controllers.state import SyncState
from syncline.controllers.status.trust import StatusTrust
from syncline.controllers.status.writer import StatusWriter
from syncline.controllers.targets.prune import FINALIZE_PATIENCE, is_abandoned
from syncline.controllers.tenancy import Tenancy
from syncline.controllers.triggers import Triggers
from syncline.core.author_policies import AUTHOR_UNCHECKED
from syncline.core.marks import sync_id
from syncline.engine.claims import Claim, Claims
from syncline.engine.cluster import Cluster
from syncline.engine.fanout import FanOut
from syncline.engine.statuses import is_refusal
from syncline.engine.sync_object import RawSync, StatusConflict, SyncGone, SyncObjectWriter
from syncline.engine.unkept import UnkeptFields
from syncline.engine.watch_index import WatchSet
from syncline.engine.write_loops import WriteLoops
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


UNCERTAIN_STATES = frozenset({"Failed", "Pending", "Unknown"})


class KindSpec(Protocol):
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

    def read(self, wire: RawSync) -> AnySync:
        """Decode a sync."""

    def extend_status(self, report: ReconcileResult, status: SyncStatus, now: str) -> SyncStatus:
        """Add what only this kind reports."""


class SharedServices(Struct, frozen=True):
    """What the syncs of all kinds share."""

    hub: Cluster
    renderer: TransformPool
    events: EventRecorder
    claims: Claims
    write_loops: WriteLoops
    unkept: UnkeptFields
    quotas: Quotas
    authors: AuthorCheck | None = None
    """None: nobody asks whether authors are checked."""
    watch_namespaces: Sequence[str] = ()
    allowed_kinds: frozenset[str] = frozenset()
    on_count: Callable[[str], None] = lambda _: None
    """Told the namespace of each sync that comes or goes."""


class BaseReconciler(ABC):
    """Reconciles all syncs of one kind."""

    def __init__(self, kind: KindSpec, shared: SharedServices) -> None:
        self.queue: Queue[Key] = Queue(kind.name, group=lambda key: key.namespace)
        self._kind = kind
        self._shared = shared
        self._hub = shared.hub
        self._sync_objects = SyncObjectWriter(shared.hub.client, kind.resource, shared.hub.marks)
        self._trust = StatusTrust(shared.hub.marks)
        self._status = StatusWriter(kind.name, self._sync_objects, shared.events, self._own_write, kind.extend_status)
        self.triggers = Triggers(kind.name, self.queue, shared.hub, shared.claims)
        self._states: dict[Key, SyncState] = {}
        self._expiry: asyncio.TimerHandle | None = None
        self._deleted = DeletedSyncs()
        self._events: EventBuffer[Key, AnySync] = EventBuffer(
            lambda sync: (sync.metadata.uid, sync.metadata.resource_version), self._sync_changed
        )
        self.syncs: dict[str | None, Reflector[RawSync, AnySync]] = {
            namespace: Reflector(
                shared.hub.client,
                kind.resource,
                decode=RawSync,
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
    async def _reconcile_sync(self, sync: AnySync, state: SyncState) -> ReconcileResult:
        """Bring about what a sync wants."""

    @abstractmethod
    async def _finalize(self, sync: AnySync, state: SyncState) -> ReconcileResult | None:
        """Release what a sync has written; None once that is done."""

    @abstractmethod
    def _watches_of(self, sync: AnySync) -> tuple[WatchSet, Claim | None]:
        """Return what enqueues a sync, and what it claims, by its spec alone."""

    @abstractmethod
    async def _after(self, sync: AnySync, result: ReconcileResult) -> None:
        """Note the result of a reconcile once it is published."""

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
            self.triggers.drop_watches(key)
        elif old is None or _spec_of(old) != _spec_of(new) or new.deleting:
            try:
                watches, claim = self._watches_of(new)
            except SyncError:
                watches, claim = WatchSet(), None
            self.triggers.set_watches(key, watches, claim, from_spec=True)
        self.triggers.sync_changed(key, old, new, by)
        self._shared.quotas.sync_changed(self._kind.name, key, new)
        if (old is None) != (new is None):
            self._shared.on_count(key.namespace)

    def policies_changed(self, namespaces: frozenset[str]) -> None:
        """Reconcile the syncs of namespaces that are governed otherwise now, also those that are not due."""
        for key in self.syncs_of(namespaces):
            self.look_again(key)

    def look_again(self, key: Key) -> None:
        """Reconcile a sync, also one that is not due."""
        if (state := self._states.get(key)) is not None:
            state.make_due()
        self.queue.add(key)

    def recorded_targets(self, key: Key) -> int:
        """Return how many targets a sync has by its status."""
        sync = self._get(key)
        return sync.status.targets.desired if sync is not None and sync.status.targets is not None else 0

    def keys(self) -> list[Key]:
        """Return all syncs."""
        return [key for reflector in self.syncs.values() for key, _ in reflector.items()]

    def syncs_of(self, namespaces: frozenset[str]) -> list[Key]:
        """Return the syncs of some namespaces."""
        return [key for reflector in self.syncs.values() for key, _ in reflector.items() if key.namespace in namespaces]

    async def reconcile(self, key: Key) -> None:
        """Bring one sync about."""
        on_behalf_of.set(key.namespace)
        await self._clean_up_after_deleted(key)
        sync = self._get(key)
        if sync is None:
            self._drop_state(key)
            return
        state = self._state_of(sync)
        if (left := state.resync_in(sync, time.monotonic())) > 0:
            self.queue.add(key, delay=left)
            return
        with self._status.observed(sync):
            try:
                report = await self._reconcile_or_report(sync, state)
                stored = report is None or await self._status.publish(
                    structs.replace(report, sync=self._latest(report.sync))
                )
                if report is not None:
                    await self._after(sync, report)
            except SyncGone:
                log.info("the sync was deleted meanwhile")
                self.queue.add(key)
                return
        requeue = report.requeue if report is not None else NO_REQUEUE
        if not stored or requeue.backoff:
            self.queue.retry(key)
        else:
            self.queue.forget(key)
        if requeue.after is not None:
            self.queue.add(key, delay=requeue.after)

    def _state_of(self, sync: AnySync) -> SyncState:
        """Return what is remembered of this very sync: nothing of an earlier one of its name."""
        key = key_of(sync)
        state = self._states.get(key)
        if state is None or state.uid != sync.metadata.uid:
            fan_out = FanOut(partial(self.queue.add, key), partial(self.queue.is_wanted, key))
            state = self._states[key] = SyncState(fan_out)
            state.uid = sync.metadata.uid
        return state

    async def _reconcile_or_report(self, sync: AnySync, state: SyncState) -> ReconcileResult | None:
        """Take a reconcile; a mistake of ours is reported where its user looks, not in the log alone."""
        try:
            if self._shared.authors is not None:
                problem = await self._shared.authors.problem(self.plural, sync, state)
                if problem is not None and (not sync.deleting or not is_abandoned(sync)):
                    return await self._refuse(sync, state, problem)
            if not sync.deleting:
                waiters, ref = self._shared.claims.waiters, sync.owner.sync
                waiters.begin(ref)
                self._hub.marks.begin(ref)
                report = await self._reconcile_sync(sync, state)
                waiters.end(ref)
                self._note_takeover(sync, report)
                return report
            left = await self._finalize(sync, state)
            if left is None:
                await self._remove_finalizer(sync, state)
            return left
        except KubeError:
            raise
        except SyncError as problem:
            return failed_result(sync, problem)
        except Exception as error:
            log.exception("a turn failed in an unforeseen way")
            message = f"unforeseen {type(error).__name__}; the operator's log has the details"
            return ReconcileResult(
                sync=sync, problem=SyncError("InternalError", message), requeue=Requeue(backoff=True)
            )

    def _note_takeover(self, sync: AnySync, report: ReconcileResult) -> None:
        """Note that a sync has nothing left to take over, once it has looked at all that it wants."""
        marks = self._hub.marks
        if not marks.keys.takeovers or not marks.is_finished(sync.owner.sync):
            return
        is_unsure = report.requeue.backoff or report.problem is not None or report.outcomes is None
        if not is_unsure and not any(outcome.state in UNCERTAIN_STATES for outcome in report.outcomes or ()):
            marks.taken_over.add(sync_id(sync.metadata.uid))

    async def _refuse(self, sync: AnySync, state: SyncState, problem: SyncError) -> ReconcileResult | None:
        """Do nothing for a sync. One that is deleted is not trapped: in the end it goes, and its copies stay."""
        if problem.reason == AUTHOR_UNCHECKED:  # nobody waits for what nobody may ask for
            self._shared.claims.drop(sync.owner.sync)
        if not sync.deleting:
            return ReconcileResult(sync=sync, problem=problem, requeue=Requeue(after=problem.requeue.after))
        state.finalizing_since = state.finalizing_since or time.monotonic()
        left = state.finalizing_since + FINALIZE_PATIENCE - time.monotonic()
        why = problem.message
        if problem.reason == AUTHOR_UNCHECKED:  # nor will it be checked later
            why = "nobody has checked that whoever deleted the sync may delete them"
        elif left > 0:
            return ReconcileResult(sync=sync, problem=problem, requeue=Requeue(after=left))
        await self._status.warn(sync, "CopiesLeft", f"the copies were left where they are: {why}")
        await self._remove_finalizer(sync, state)
        return None

    def authors_changed(self) -> None:
        """Look again at all syncs: whether their authors are checked has changed."""
        for sync in (sync for reflector in self.syncs.values() for sync in reflector.values()):
            self.queue.add(key_of(sync), priority=1)

    async def _remove_finalizer(self, sync: AnySync, state: SyncState) -> None:
        """Let the sync go, but remember it: a write that a crash left in flight may still make a copy."""
        state.finalizer_added = None
        self._remember_deleted(sync, state)
        with _finalizer_refusal("the sync stays until then"):
            await self._sync_objects.remove_finalizer(sync.metadata)

    def _remember_deleted(self, sync: AnySync, state: SyncState, *, pending: bool = False) -> None:
        key = key_of(sync)
        for forgotten in self._deleted.put(key, DeletedSync(sync, state, pending=pending), time.monotonic()):
            self.triggers.ended.pop(forgotten, None)
        if key in self._deleted:
            state.shed()
            self.triggers.ended[key] = False
        self._expire_deleted()

    def _expire_deleted(self) -> None:
        """Forget the syncs that are gone for long enough, now and whenever it is time."""
        now = time.monotonic()
        for forgotten in self._deleted.expire(now):
            self.triggers.ended.pop(forgotten, None)
        if self._expiry is not None:
            self._expiry.cancel()
        due = self._deleted.next_expiry()
        loop = asyncio.get_running_loop()
        self._expiry = loop.call_later(due - now, self._expire_deleted) if due is not None else None

    async def _clean_up_after_deleted(self, key: Key) -> None:
        """Remove the copies of a sync that is gone: those that appeared late, and those of one that we could not hold.

        The server removes a sync all the same whose deletion began before its finalizer was added.
        """
        now, state = self._get(key), self._states.get(key)
        lost = state.lost_sync(now.metadata.uid if now is not None else "", time.monotonic()) if state else None
        if state is not None and lost is not None:
            try:
                await self._sync_objects.verify(lost.metadata)
            except SyncGone:
                log.info("the sync was deleted while its finalizer was being added", sync="/".join(key))
                self._remember_deleted(lost, state, pending=True)
        ended = self._deleted.get(key)
        if ended is None or not (ended.pending or self.triggers.ended.get(key)):
            return
        authors = self._shared.authors
        problem = await authors.problem(self.plural, ended.sync, ended.state) if authors is not None else None
        if problem is not None and problem.reason == AUTHOR_UNCHECKED:
            ended.pending = self.triggers.ended[key] = False
            return
        if problem is not None:
            self.queue.retry(key)
            return
        report = await self._finalize(ended.sync, ended.state)
        ended.pending = report is not None
        self.triggers.ended[key] = False
        if report is not None:
            log.warning("copies of a sync that is gone cannot be removed yet", sync="/".join(key))
            self.queue.retry(key)

    async def drain(self, grace: float) -> None:
        """Wait this long, and no longer, for writes that a reconcile has left behind."""
        await asyncio.gather(*(state.fan_out.drain(grace) for state in self._states.values()))

    async def _ensure_finalizer(self, sync: AnySync, state: SyncState) -> AnySync:
        """Add the finalizer before the first write, so that no copy can outlive its sync unseen."""
        with self._own_write(sync.metadata) as observe, _finalizer_refusal("nothing is written without it"):
            wire = await self._sync_objects.add_finalizer(sync.metadata)
            if wire is None:
                return sync
            state.finalizer_added = sync, time.monotonic()
            observe(wire)
        return self._trust.trusted(self._kind.read(wire))

    def _get(self, key: Key) -> AnySync | None:
        """Return a sync with the status that counts."""
        reflector = self._reflector(key.namespace)
        sync = reflector.get(key) if reflector is not None else None
        return self._trust.trusted(sync) if sync is not None else None

    def _reflector(self, namespace: str) -> Reflector[RawSync, AnySync] | None:
        return self.syncs.get(None if None in self.syncs else namespace)

    @contextmanager
    def _own_write(self, meta: ObjectMeta) -> Iterator[Callable[[RawSync], None]]:
        """While we write to a sync: tell our own write from those of others, whichever way we learn of it first."""
        key = Key(meta.namespace, meta.name)
        with self._events.hold(key):
            try:
                yield partial(self._observe_write, by=self._kind.name)
            except StatusConflict as conflict:
                self._observe_write(conflict.live, by="")
                raise

    def _observe_write(self, wire: RawSync, by: str) -> None:
        """Take in a sync that the server answered; an edit by its user is passed on like one that a watch tells."""
        key = Key(wire.metadata.namespace, wire.metadata.name)
        reflector = self._reflector(key.namespace)
        if reflector is not None:
            if by:
                self._events.claim(key, wire.metadata.uid, wire.metadata.resource_version, by)
            reflector.observe(wire, by)

    def _latest(self, sync: AnySync) -> AnySync:
        """Return the sync with its status as it is now: a reconcile writes to it as it goes."""
        now = self._get(key_of(sync))
        if now is None or now.metadata.uid != sync.metadata.uid:
            return sync
        metadata = structs.replace(sync.metadata, resource_version=now.metadata.resource_version)
        return structs.replace(sync, metadata=metadata, status=now.status, stored=now.stored)

    def _drop_state(self, key: Key) -> None:
        self._states.pop(key, None)
        self._hub.marks.begin(f"{self._kind.name}/{key.namespace}/{key.name}")
        self._status.forget(key)
        self.queue.forget(key)


def _spec_of(sync: AnySync) -> tuple[str, int]:
    """Name the spec of a sync."""
    return sync.metadata.uid, sync.metadata.generation


@contextmanager
def _finalizer_refusal(meanwhile: str) -> Iterator[None]:
    """Raise `SyncError` where the API server has something against a change of the finalizers."""
    try:
        yield
    except ApiError as error:
        if not is_refusal(error):
            raise
        remedy = "let the policy or webhook that refuses it admit what the operator writes, and check its rights"
        message = f"the API server refuses a change of the finalizers, and {meanwhile}; {remedy}: {error}"
        raise SyncError("FinalizerRefused", message, retry=True) from error
