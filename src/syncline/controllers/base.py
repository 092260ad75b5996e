"""The base of every reconciler of syncs: reflectors, finalizer, trusted status, authors, and deleted syncs.

A reconcile starts from the present state, whatever enqueued it. Each reconciler defines its own steps.
"""

import asyncio
import time
from abc import abstractmethod
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic

import structlog
from msgspec import Struct, structs

from syncline.api.common import ObjectMeta
from syncline.controllers.author_check import AuthorCheck
from syncline.controllers.deleted_syncs import DeletedSync, DeletedSyncs
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import AnySync, Spec, Status, key_of
from syncline.controllers.object_reconciler import ObjectReconciler
from syncline.controllers.quotas import Quotas
from syncline.controllers.requeue import NO_REQUEUE, Requeue
from syncline.controllers.result import ReconcileResult, failed_result
from syncline.controllers.sources.source_memory import SourceMemory
from syncline.controllers.state import SyncState
from syncline.controllers.status.trust import StatusTrust
from syncline.controllers.status.writer import StatusWriter
from syncline.controllers.sync_kind import SyncKind
from syncline.controllers.targets.prune import FINALIZE_PATIENCE, is_abandoned
from syncline.controllers.triggers import Triggers
from syncline.core.author_policies import AUTHOR_UNCHECKED
from syncline.core.marks import sync_id
from syncline.engine.claims import Claim, Claims
from syncline.engine.cluster import Cluster
from syncline.engine.fanout import FanOut
from syncline.engine.sync_object import RawSync, StatusConflict, Sync, SyncGone
from syncline.engine.unkept import UnkeptFields
from syncline.engine.watch_index import WatchSet
from syncline.engine.write_loops import WriteLoops
from syncline.fairness import on_behalf_of
from syncline.kube.cache import Key
from syncline.kube.errors import KubeError
from syncline.kube.event_buffer import EventBuffer
from syncline.kube.events import EventRecorder
from syncline.kube.reflector import Reflector
from syncline.render.transform_pool import TransformPool

log = structlog.get_logger(__name__)


UNCERTAIN_STATES = frozenset({"Failed", "Pending", "Unknown"})


class SharedServices(Struct, frozen=True):
    """The dependencies that the reconcilers of all kinds share."""

    hub: Cluster
    renderer: TransformPool
    events: EventRecorder
    claims: Claims
    write_loops: WriteLoops
    unkept: UnkeptFields
    quotas: Quotas
    source_memory: SourceMemory
    authors: AuthorCheck | None = None
    """None: authors are not checked."""
    watch_namespaces: Sequence[str] = ()
    allowed_kinds: frozenset[str] = frozenset()
    on_count: Callable[[str], None] = lambda _: None
    """Called with the namespace of each sync that is created or deleted."""


class BaseReconciler(ObjectReconciler, Generic[Spec, Status]):
    """Reconciles all syncs of one kind."""

    def __init__(self, kind: SyncKind[Spec, Status], shared: SharedServices) -> None:
        super().__init__(kind.resource, shared.hub.client, shared.events, shared.hub.marks)
        self._kind = kind
        self._shared = shared
        self._hub = shared.hub
        self._trust: StatusTrust[Spec, Status] = StatusTrust(shared.hub.marks)
        self._status = StatusWriter(kind.name, self._objects, shared.events, self._own_write, kind.extend_status)
        self.triggers = Triggers(kind.name, self.queue, shared.hub, shared.claims)
        self._states: dict[Key, SyncState[Spec, Status]] = {}
        self._expiry: asyncio.TimerHandle | None = None
        self._deleted: DeletedSyncs[Spec, Status] = DeletedSyncs()
        self._events: EventBuffer[Key, Sync[Spec, Status]] = EventBuffer(
            lambda sync: (sync.metadata.uid, sync.metadata.resource_version), self._sync_changed
        )
        self.syncs: dict[str | None, Reflector[RawSync, Sync[Spec, Status]]] = {
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

    @abstractmethod
    async def _reconcile_sync(self, sync: Sync[Spec, Status], state: SyncState) -> ReconcileResult[Spec, Status]:
        """Reconcile an existing sync."""

    @abstractmethod
    async def _finalize(self, sync: Sync[Spec, Status], state: SyncState) -> ReconcileResult[Spec, Status] | None:
        """Release the objects of a deleted sync. Return None when this is done."""

    @abstractmethod
    def _watches_of(self, sync: Sync[Spec, Status]) -> tuple[WatchSet, Claim | None]:
        """Return the watches and the claim of a sync that follow from its spec alone."""

    @abstractmethod
    async def _after(self, sync: Sync[Spec, Status], result: ReconcileResult[Spec, Status]) -> None:
        """Take the result of a reconcile after its status is written."""

    def take_over_statuses(self, uids: Container[str]) -> None:
        """Trust the present statuses of these syncs, by UID, although an earlier version did not sign them."""
        for reflector in self.syncs.values():
            for sync in reflector.values():
                if sync.metadata.uid in uids:
                    self._trust.take_over(sync)

    def _sync_changed(self, key: Key, old: Sync[Spec, Status] | None, new: Sync[Spec, Status] | None, by: str) -> None:
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
        if self.triggers.sync_changed(key, old, new, by) and (state := self._states.get(key)) is not None:
            state.make_due()
        self._shared.quotas.sync_changed(self._kind.name, key, new)
        if (old is None) != (new is None):
            self._shared.on_count(key.namespace)

    def policies_changed(self, namespaces: frozenset[str]) -> None:
        """Reconcile the syncs of namespaces whose policies have changed, even if they are not due."""
        for key in self.syncs_of(namespaces):
            self.look_again(key)

    def look_again(self, key: Key) -> None:
        """Reconcile a sync, even if it is not due."""
        if (state := self._states.get(key)) is not None:
            state.make_due()
        self.queue.add(key)

    def recorded_targets(self, key: Key) -> int:
        """Return the number of targets in the status of a sync."""
        sync = self._get(key)
        return sync.status.targets.desired if sync is not None and sync.status.targets is not None else 0

    def keys(self) -> list[Key]:
        """Return all syncs."""
        return [key for reflector in self.syncs.values() for key, _ in reflector.items()]

    def syncs_of(self, namespaces: frozenset[str]) -> list[Key]:
        """Return the syncs of some namespaces."""
        return [key for reflector in self.syncs.values() for key, _ in reflector.items() if key.namespace in namespaces]

    async def _reconcile(self, key: Key) -> Requeue:
        """Reconcile one sync."""
        on_behalf_of.set(key.namespace)
        cleanup = await self._clean_up_after_deleted(key)
        sync = self._get(key)
        if sync is None:
            self._drop_state(key)
            return cleanup
        return cleanup | await self._reconcile_existing(sync)

    async def _reconcile_existing(self, sync: Sync[Spec, Status]) -> Requeue:
        state = self._state_of(sync)
        if (left := state.resync_in(sync, time.monotonic())) > 0:
            return Requeue(after=left)
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
                return Requeue(after=0.0)
            except KubeError:
                state.make_due()  # what was found is not in the status, whatever the interval
                raise
        if not stored:
            state.make_due()
        requeue = report.requeue if report is not None else NO_REQUEUE
        return requeue if stored else requeue | Requeue(backoff=True)

    def _state_of(self, sync: Sync[Spec, Status]) -> SyncState[Spec, Status]:
        """Return the state of exactly this sync, not of an earlier sync with its name."""
        key = key_of(sync)
        state = self._states.get(key)
        if state is None or state.uid != sync.metadata.uid:
            fan_out = FanOut(partial(self.queue.add, key), partial(self.queue.is_wanted, key))
            state = self._states[key] = SyncState(fan_out)
            state.uid = sync.metadata.uid
        return state

    async def _reconcile_or_report(
        self, sync: Sync[Spec, Status], state: SyncState[Spec, Status]
    ) -> ReconcileResult[Spec, Status] | None:
        """Reconcile a sync. A bug of the operator is reported in the status too, not only in the log."""
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
            log.exception("a reconcile failed in an unforeseen way")
            message = f"unforeseen {type(error).__name__}; the operator's log has the details"
            return ReconcileResult(
                sync=sync, problem=SyncError("InternalError", message), requeue=Requeue(backoff=True)
            )

    def _note_takeover(self, sync: Sync[Spec, Status], report: ReconcileResult[Spec, Status]) -> None:
        """Note that a sync has no objects left to take over, after a complete reconcile."""
        marks = self._hub.marks
        if not marks.keys.takeovers or not marks.is_finished(sync.owner.sync):
            return
        is_unsure = report.requeue.backoff or report.problem is not None or report.outcomes is None
        if not is_unsure and not any(outcome.state in UNCERTAIN_STATES for outcome in report.outcomes or ()):
            marks.taken_over.add(sync_id(sync.metadata.uid))

    async def _refuse(
        self, sync: Sync[Spec, Status], state: SyncState[Spec, Status], problem: SyncError
    ) -> ReconcileResult[Spec, Status] | None:
        """Reconcile nothing for a sync. If it is deleted, its copies stay and its deletion is not blocked."""
        if problem.reason == AUTHOR_UNCHECKED:  # a refused sync claims nothing
            self._shared.claims.drop(sync.owner.sync)
        if not sync.deleting:
            return ReconcileResult(sync=sync, problem=problem, requeue=Requeue(after=problem.requeue.after))
        state.finalizing_since = state.finalizing_since or time.monotonic()
        left = state.finalizing_since + FINALIZE_PATIENCE - time.monotonic()
        why = problem.message
        if problem.reason == AUTHOR_UNCHECKED:  # nor will it be checked later
            why = "it was not checked that the user who deleted the sync may delete them"
        elif left > 0:
            return ReconcileResult(sync=sync, problem=problem, requeue=Requeue(after=left))
        await self._status.warn(sync, "CopiesLeft", f"the copies were left where they are: {why}")
        await self._remove_finalizer(sync, state)
        return None

    def authors_changed(self) -> None:
        """Enqueue all syncs, because the check of authors has changed."""
        for sync in (sync for reflector in self.syncs.values() for sync in reflector.values()):
            self.queue.add(key_of(sync), priority=1)

    async def _remove_finalizer(self, sync: Sync[Spec, Status], state: SyncState[Spec, Status]) -> None:
        """Remove the finalizer, but remember the sync: a write in flight may still create a copy."""
        state.finalizer_added = None
        self._remember_deleted(sync, state)
        await self._drop_finalizer(sync.metadata)

    def _remember_deleted(
        self, sync: Sync[Spec, Status], state: SyncState[Spec, Status], *, pending: bool = False
    ) -> None:
        key = key_of(sync)
        for forgotten in self._deleted.put(key, DeletedSync(sync, state, pending=pending), time.monotonic()):
            self.triggers.ended.pop(forgotten, None)
        if key in self._deleted:
            state.shed()
            self.triggers.ended[key] = False
        self._expire_deleted()

    def _expire_deleted(self) -> None:
        """Forget the deleted syncs after their time, now and later."""
        now = time.monotonic()
        for forgotten in self._deleted.expire(now):
            self.triggers.ended.pop(forgotten, None)
        if self._expiry is not None:
            self._expiry.cancel()
        due = self._deleted.next_expiry()
        loop = asyncio.get_running_loop()
        self._expiry = loop.call_later(due - now, self._expire_deleted) if due is not None else None

    async def _clean_up_after_deleted(self, key: Key) -> Requeue:
        """Remove the copies of a deleted sync that appeared late, or that its finalizer could not protect.

        The server removes a sync at once if its deletion began before its finalizer was added.
        """
        now, state = self._get(key), self._states.get(key)
        lost = state.lost_sync(now.metadata.uid if now is not None else "", time.monotonic()) if state else None
        if state is not None and lost is not None:
            try:
                await self._objects.verify(lost.metadata)
            except SyncGone:
                log.info("the sync was deleted while its finalizer was being added", sync="/".join(key))
                self._remember_deleted(lost, state, pending=True)
        ended = self._deleted.get(key)
        if ended is None or not (ended.pending or self.triggers.ended.get(key)):
            return NO_REQUEUE
        authors = self._shared.authors
        problem = await authors.problem(self.plural, ended.sync, ended.state) if authors is not None else None
        if problem is not None and problem.reason == AUTHOR_UNCHECKED:
            ended.pending = self.triggers.ended[key] = False
            return NO_REQUEUE
        if problem is not None:
            return Requeue(backoff=True)
        report = await self._finalize(ended.sync, ended.state)
        # A sync that is being deleted needs nothing more.
        ended.pending = report is not None and any(one.reason != "Terminating" for one in report.outcomes or ())
        self.triggers.ended[key] = False
        if ended.pending:
            log.warning("copies of a sync that is gone cannot be removed yet", sync="/".join(key))
        return Requeue(backoff=ended.pending)

    async def drain(self, grace: float) -> None:
        """Wait at most this long for writes in flight."""
        fans = (fan_out for state in self._states.values() for fan_out in (state.fan_out, state.upward))
        await asyncio.gather(*(fan_out.drain(grace) for fan_out in fans))

    async def _ensure_finalizer(self, sync: Sync[Spec, Status], state: SyncState) -> Sync[Spec, Status]:
        """Add the finalizer before the first write, so that no copy outlives its sync unnoticed."""
        with self._own_write(sync.metadata) as observe:
            wire = await self._add_finalizer(sync.metadata)
            if wire is None:
                return sync
            state.finalizer_added = sync, time.monotonic()
            observe(wire)
        return self._trust.trusted(self._kind.read(wire))

    def _get(self, key: Key) -> Sync[Spec, Status] | None:
        """Return a sync with its trusted status."""
        reflector = self._reflector(key.namespace)
        sync = reflector.get(key) if reflector is not None else None
        return self._trust.trusted(sync) if sync is not None else None

    def _reflector(self, namespace: str) -> Reflector[RawSync, Sync[Spec, Status]] | None:
        return self.syncs.get(None if None in self.syncs else namespace)

    @contextmanager
    def _own_write(self, meta: ObjectMeta) -> Iterator[Callable[[RawSync], None]]:
        """Distinguish our own write to a sync from writes of others, by answer or by watch event, during a block."""
        key = Key(meta.namespace, meta.name)
        with self._events.hold(key):
            try:
                yield self._observe
            except StatusConflict as conflict:
                self._observe_write(conflict.live, by="")
                raise

    def _observe(self, wire: RawSync) -> None:
        self._observe_write(wire, by=self._kind.name)

    def _observe_write(self, wire: RawSync, by: str) -> None:
        """Cache a sync from an answer of the server. An edit of its user is handled like one from a watch."""
        key = Key(wire.metadata.namespace, wire.metadata.name)
        reflector = self._reflector(key.namespace)
        if reflector is not None:
            if by:
                self._events.claim(key, wire.metadata.uid, wire.metadata.resource_version, by)
            reflector.observe(wire, by)

    def _latest(self, sync: Sync[Spec, Status]) -> Sync[Spec, Status]:
        """Return the sync with its newest status: a reconcile writes the status several times."""
        now = self._get(key_of(sync))
        if now is None or now.metadata.uid != sync.metadata.uid:
            return sync
        metadata = structs.replace(sync.metadata, resource_version=now.metadata.resource_version)
        return structs.replace(sync, metadata=metadata, status=now.status, stored=now.stored)

    def _drop_state(self, key: Key) -> None:
        self._states.pop(key, None)
        self._hub.marks.begin(f"{self._kind.name}/{key.namespace}/{key.name}")
        self._status.forget(key)
        ended = self._deleted.get(key)
        if ended is None or not ended.pending:  # otherwise it is retried, with a growing delay
            self.queue.forget(key)


AnySyncReconciler = BaseReconciler[Any, Any]
"""The reconciler of any kind of sync."""


def _spec_of(sync: AnySync) -> tuple[str, int]:
    """Return the identifier of the spec of a sync."""
    return sync.metadata.uid, sync.metadata.generation
