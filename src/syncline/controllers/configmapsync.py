"""ConfigMapSync: the story of one sync, from top to bottom.

    hold -> lower -> read the source -> desire -> converge -> prune -> report

Each turn starts from what is so now, whatever woke it; nothing is carried over from earlier turns but what saves
requests. What is written is safe against a second operator, a crash at any point, and everybody else.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from functools import partial

from msgspec import Struct, structs

from syncline.api import configmapsync as api
from syncline.api.common import ABANDON, CONFIRM_DELETION, GROUP, VERSION
from syncline.api.configmapsync import ConfigMapSyncSpec, ConfigMapSyncStatus
from syncline.controllers.lowering import ConfigMapSync, Work, desire, lower
from syncline.controllers.reporting import Problem, Report, Reporter
from syncline.controllers.wakes import Wakes
from syncline.core.objects import Desired, Seen, Target
from syncline.core.outcome import Outcome
from syncline.core.ownership import OWNER_LABEL, place, read_marker
from syncline.core.plan import Action, Verb
from syncline.core.scope import Namespace
from syncline.core.surplus import Brake, brake, plan_removal
from syncline.core.wire import ConfigMapWire, see
from syncline.engine.claims import Claims
from syncline.engine.cluster import Cluster, MetaWire
from syncline.engine.fanout import FanOut
from syncline.engine.fights import Fights
from syncline.engine.record import Records, SyncWire, read_sync
from syncline.engine.writer import Writer
from syncline.kube.cache import Key
from syncline.kube.client import Client
from syncline.kube.errors import ApiError, Forbidden, KubeError, NotFound
from syncline.kube.events import EventRecorder
from syncline.kube.queue import Queue
from syncline.kube.reflector import Reflector
from syncline.kube.resources import CONFIGMAPS, NAMESPACES, Resource
from syncline.render import Renderer

RESOURCE = Resource(GROUP, VERSION, api.PLURAL, api.KIND)

# A source that is replaced (deleted and created again) is away for a moment; its copies stay meanwhile.
SOURCE_GRACE = 2.0
# Labels that a script takes off one by one, or that flicker, are one change: it is acted on once it has come to rest.
SHRINKAGE_GRACE = 2.0
# How long a deletion is retried before the copies are left behind and the sync is let go.
FINALIZE_PATIENCE = 300.0
# Removals that nobody asked for count together for so long.
SHRINKAGE_WINDOW = 600.0
UNWANTED = ("Pruned", "no longer a destination of this sync")


class Preview(Struct, frozen=True, kw_only=True):
    """What a turn would do."""

    actions: tuple[Action, ...] = ()
    passed_over: tuple[Outcome, ...] = ()
    problem: Problem | None = None


class Memory:
    """What is remembered of a sync between its turns. All of it can be lost."""

    def __init__(self, fan_out: FanOut) -> None:
        self.fan_out = fan_out
        self.source_missing_since: float | None = None
        self.finalizing_since: float | None = None
        self.unwanted: tuple[frozenset[Target], float] = frozenset(), 0.0
        """The copies that are no longer wanted, and since when it is just these."""
        self.shrunk: list[float] = []
        """When copies were removed lately without anybody asking for it."""

    def unrest(self, unwanted: frozenset[Target], now: float) -> float:
        """Return for how many seconds the set of unwanted copies must still stay the same to count as at rest."""
        if self.unwanted[0] != unwanted:
            self.unwanted = unwanted, now
        return self.unwanted[1] + SHRINKAGE_GRACE - now if unwanted else 0.0


class ConfigMapSyncController:
    """Reconciles all ConfigMapSyncs of a cluster."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        renderer: Renderer,
        events: EventRecorder,
        guarded: frozenset[str],
        watch_namespaces: Sequence[str] = (),
    ) -> None:
        self.queue: Queue[Key] = Queue()
        self._cluster = cluster
        self._client = cluster.client
        self._renderer = renderer
        self._guarded = guarded
        self._records = Records(self._client, RESOURCE)
        self._reporter = Reporter(api.KIND, self._records, events, self._note)
        self._claims = Claims(self._client, {api.KIND: RESOURCE})
        self._wakes: Wakes[ConfigMapSyncSpec, ConfigMapSyncStatus] = Wakes(api.KIND, self.queue, cluster, self._claims)
        self._fights = Fights()
        self._memory: dict[Key, Memory] = {}
        self.syncs: dict[str | None, Reflector[SyncWire, ConfigMapSync]] = {
            namespace: Reflector(
                self._client,
                RESOURCE,
                decode=SyncWire,
                project=_read,
                namespace=namespace,
                on_change=self._sync_changed,
            )
            for namespace in (watch_namespaces or (None,))
        }

    def _sync_changed(self, key: Key, old: ConfigMapSync | None, new: ConfigMapSync | None) -> None:
        if new is None or new.spec is None:
            self._wakes.lose_interest(key)
        else:
            work = lower(new, new.spec, self._guarded, None)
            self._wakes.take_interest(key, work.interest(), work.claim())
        self._wakes.sync_changed(key, old, new)

    async def reconcile(self, key: Key) -> None:
        """Bring one sync about."""
        sync = self._get(key)
        if sync is None:
            self._forget(key)
            return
        memory = self._memory.setdefault(key, Memory(FanOut(partial(self.queue.add, key))))
        with self._reporter.timed(sync):
            report = await (self._finalize(sync, memory) if sync.deleting else self._turn(sync, memory))
            if report is not None:
                await self._reporter.publish(self._up_to_date(key, report))
        if report is not None and report.retry:
            self.queue.retry(key)
        else:
            self.queue.forget(key)
        if report is not None and report.again is not None:
            self.queue.add(key, delay=report.again)

    async def drain(self, grace: float) -> None:
        """Wait so long, and no longer, for writes that a turn has left behind."""
        await asyncio.gather(*(memory.fan_out.drain(grace) for memory in self._memory.values()))

    async def _turn(self, sync: ConfigMapSync, memory: Memory) -> Report:
        if (refusal := _refusal(sync)) is not None:
            return Report(sync=sync, problem=refusal)
        sync = await self._hold(sync)
        work = self._lower(sync)
        try:
            source = await self._read_source(work)
            if source is None:
                return await self._source_gone(work, memory)
            memory.source_missing_since = None
            desired, unsaid = await desire(work, source, self._renderer)
        except Problem as problem:
            outcomes = [*_without_source(work, problem), *work.passed_over]
            return Report(sync=sync, problem=problem, outcomes=outcomes, retry=problem.retry, again=problem.again)
        revision = source.metadata.resource_version
        converged = await self._converge(work, memory, desired, revision)
        removed, held, again = await self._prune(work, memory, desired)
        outcomes = [*converged, *unsaid, *work.passed_over, *removed]
        return Report(
            sync=sync,
            outcomes=outcomes,
            problem=held,
            revision=revision,
            # An edit of the scope stays the reason of a removal until every removal is done.
            scope=work.scope_digest if held is None and not any(outcome.retry for outcome in removed) else None,
            kept=self._kept(work, converged),
            retry=any(outcome.retry for outcome in outcomes),
            again=again,
        )

    async def _hold(self, sync: ConfigMapSync) -> ConfigMapSync:
        """Add the finalizer before the first write, so that no copy can outlive its sync unseen."""
        wire = await self._records.hold(sync.metadata)
        return sync if wire is None else self._note(wire)

    def _lower(self, sync: ConfigMapSync) -> Work:
        assert sync.spec is not None  # noqa: S101 - refused before
        return lower(sync, sync.spec, self._guarded, self._cluster)

    async def _read_source(self, work: Work) -> ConfigMapWire | None:
        """Read the source live, as the sync's identity; None where the server says that there is none."""
        try:
            wire = await self._cluster.read(work.source, self._as(work))
        except NotFound:
            return None
        except Forbidden as error:
            raise Problem("SourceForbidden", str(error), retry=True) from error
        except ApiError as error:
            raise Problem("SourceUnreadable", str(error), retry=True) from error
        self._cluster.note_stranger(wire)
        marker = read_marker(wire.metadata.annotations) if OWNER_LABEL in wire.metadata.labels else None
        here = place(self._cluster.uid, work.source)
        if marker is not None and marker.at == here and await self._claims.alive(marker.sync):
            message = f"the source {work.source} is itself a copy, made by {marker.sync}; name the original instead"
            raise Problem("SourceIsCopy", message, stalled=True)
        return wire

    async def _converge(self, work: Work, memory: Memory, desired: list[Desired], revision: str) -> list[Outcome]:
        """Write what differs, many at once."""
        key, generation = Key(work.sync.metadata.namespace, work.sync.metadata.name), work.sync.metadata.generation
        blocked = self._wakes.blocked(key, generation)
        kept = frozenset(work.sync.status.kept)
        writer = self._writer(work)
        jobs = [
            (item.target, partial(writer.settle, item, kept=self._kept_mark(item.target) in kept))
            for item in desired
            if item.target not in blocked
        ]

        async def progress(so_far: list[Outcome]) -> None:
            await self._reporter.progress(work.sync, so_far, len(desired), revision)

        self._wakes.attend(key)
        outcomes = await memory.fan_out.run(jobs, progress)
        for outcome in outcomes:
            if outcome.reason == "NotOurs":
                self._wakes.block(key, generation, outcome)
        return outcomes + [blocked[item.target] for item in desired if item.target in blocked]

    async def _prune(
        self, work: Work, memory: Memory, desired: list[Desired]
    ) -> tuple[list[Outcome], Problem | None, float | None]:
        """Remove copies from where they are no longer wanted, or return why, or for how long, that must wait.

        Shrinkage that nobody spelled out waits until it has come to rest, so that it is judged as a whole: then, if it
        is large, for a person.
        """
        stale = self._stale(work, desired)
        now = time.monotonic()
        memory.shrunk = [at for at in memory.shrunk if now - at < SHRINKAGE_WINDOW]
        verdict = self._brake(work, self._removals(work, stale), len(memory.shrunk))
        if verdict.held:
            return [], Problem("DeletionHeld", verdict.message), None
        if verdict.derived and (left := memory.unrest(frozenset(seen.target for seen in stale), now)) > 0:
            return [], None, left
        jobs = [(seen.target, partial(self._remove_proven, work, seen)) for seen in stale]
        removed = await memory.fan_out.run(jobs, _no_progress)
        if verdict.derived:
            memory.shrunk += [now for outcome in removed if outcome.written is not None]
        else:
            memory.shrunk.clear()
        return removed, None, None

    def _stale(self, work: Work, desired: list[Desired]) -> list[Seen]:
        """Return the copies that are no longer wanted; a namespace on its way out takes its copy along."""
        if not work.spec.prune:
            return []
        wanted = {item.target for item in desired}
        owned = self._cluster.copies.of(work.sync.owner.ref)
        return [
            seen
            for seen in owned
            if seen.target not in wanted
            and (namespace := self._cluster.namespace(seen.target.namespace)) is not None
            and _is_unwanted(work, seen, namespace)
        ]

    def _removals(self, work: Work, copies: Iterable[Seen], why: tuple[str, str] = UNWANTED) -> list[Action]:
        removals = (plan_removal(seen, work.sync.owner, self._cluster.uid, *why) for seen in copies)
        return [action for action in removals if action is not None]

    def _brake(self, work: Work, removals: list[Action], recent: int = 0) -> Brake:
        return brake(
            removals,
            len(self._cluster.copies.of(work.sync.owner.ref)),
            asked_for=work.sync.status.scope not in (None, work.scope_digest),
            confirmed=work.sync.metadata.annotations.get(CONFIRM_DELETION, ""),
            recent=recent,
        )

    async def _remove_proven(self, work: Work, seen: Seen) -> Outcome | None:
        """Remove a copy after a live look at its namespace has confirmed that it is unwanted."""
        try:
            wire = await self._client.get(NAMESPACES, seen.target.namespace, type=MetaWire, metadata_only=True)
        except NotFound:
            return None
        except KubeError as error:
            return Outcome(
                target=seen.target, state="Unknown", reason="Unproven", message=str(error), retry=True, gone=True
            )
        meta = wire.metadata
        live = Namespace(meta.name, meta.uid, meta.labels, meta.deletion_timestamp is not None)
        if not _is_unwanted(work, seen, live):
            return None
        return await self._let_go(work, seen, UNWANTED)

    async def _let_go(self, work: Work, seen: Seen, why: tuple[str, str]) -> Outcome | None:
        """Remove a copy, and wake those that wait for its place."""
        outcome = await self._writer(work).remove(seen, *why)
        if outcome is not None and outcome.written is not None:
            self._wakes.freed(Key(work.sync.metadata.namespace, work.sync.metadata.name), seen.target)
        return outcome

    async def _source_gone(self, work: Work, memory: Memory) -> Report:
        """Act on a source that does not exist: wait a moment, look again, then follow the policy."""
        what = f"the source ConfigMap {work.source} does not exist"
        problem = Problem("SourceNotFound", what)
        waiting = [*_without_source(work, problem), *work.passed_over]
        owned = self._cluster.copies.of(work.sync.owner.ref)
        if not owned:
            return Report(sync=work.sync, problem=problem, outcomes=waiting)
        if work.spec.source_deletion_policy == "Orphan":
            problem = Problem("SourceNotFound", f"{what}; its copies stay (sourceDeletionPolicy Orphan)")
            return Report(sync=work.sync, problem=problem, outcomes=waiting)
        now = time.monotonic()
        if memory.source_missing_since is None:
            memory.source_missing_since = now
        if (left := memory.source_missing_since + SOURCE_GRACE - now) > 0:
            return Report(sync=work.sync, problem=problem, outcomes=waiting, again=left)
        removed = await self._remove(work, memory, owned, ("SourceDeleted", what))
        retry = any(outcome.retry for outcome in removed)
        # A source that comes back brings the copies back that went with it, also under Keep.
        went = {self._kept_mark(outcome.target) for outcome in removed if outcome.written is not None}
        kept = [mark for mark in work.sync.status.kept if mark not in went]
        return Report(sync=work.sync, problem=problem, outcomes=[*waiting, *removed], kept=kept, retry=retry)

    async def _finalize(self, sync: ConfigMapSync, memory: Memory) -> Report | None:
        """Let go of the copies as the policy says, then of the sync. Never traps it."""
        spec = sync.spec
        abandon = sync.metadata.annotations.get(ABANDON) == "true"
        if abandon or spec is None or spec.suspend:
            why = "abandoned on request" if abandon else "the sync was suspended" if spec else "its spec is unreadable"
            if self._cluster.copies.of(sync.owner.ref):
                await self._reporter.warn(sync, "CopiesLeft", f"the copies were left where they are: {why}")
        elif spec.deletion_policy == "Delete":
            removed = await self._remove_all(self._lower(sync), memory)
            self._reporter.ended(removed)
            failed = [outcome for outcome in removed if outcome.state not in ("Synced", "Skipped")]
            # On our own clock: the API server's may be another, and nothing is left behind because of that.
            memory.finalizing_since = memory.finalizing_since or time.monotonic()
            if failed and time.monotonic() - memory.finalizing_since < FINALIZE_PATIENCE:
                problem = Problem("CleanupFailed", f"{len(failed)} copies cannot be removed yet: {failed[0].message}")
                return Report(sync=sync, problem=problem, outcomes=failed, retry=True)
            if failed:
                message = f"{len(failed)} copies could not be removed and were left: {failed[0].message}"
                await self._reporter.warn(sync, "CopiesLeft", message)
        await self._records.let_go(sync.metadata)
        return None

    async def _remove_all(self, work: Work, memory: Memory) -> list[Outcome]:
        """Remove every copy, found by the cache and by a live list: a cache may lag behind another leader's write."""
        owner = work.sync.owner
        known = {seen.target: seen for seen in self._cluster.copies.of(owner.ref)}
        try:
            found, _ = await self._client.list(CONFIGMAPS, labels=f"{OWNER_LABEL}={owner.label}", type=ConfigMapWire)
        except ApiError as error:
            return [Outcome(target=work.source, state="Failed", reason="CleanupFailed", message=str(error), gone=True)]
        known.update((seen.target, seen) for seen in map(see, found))
        return await self._remove(work, memory, known.values(), ("SyncDeleted", "the sync was deleted"))

    async def _remove(self, work: Work, memory: Memory, copies: Iterable[Seen], why: tuple[str, str]) -> list[Outcome]:
        """Remove copies for a reason that needs no proof; closed namespaces are left alone."""
        jobs = [(seen.target, partial(self._let_go, work, seen, why)) for seen in filter(self._is_open, copies)]
        return await memory.fan_out.run(jobs, _no_progress)

    def _is_open(self, seen: Seen) -> bool:
        """Whether the namespace of a copy lets us touch it."""
        namespace = self._cluster.namespace(seen.target.namespace)
        return namespace is not None and not namespace.terminating and not namespace.ignored

    async def preview(self, wire: SyncWire) -> Preview:
        """Plan a turn without taking it; the sync need not exist."""
        sync = _read(wire)
        if (refusal := _refusal(sync)) is not None:
            return Preview(problem=refusal)
        work = self._lower(sync)
        try:
            source = await self._read_source(work)
            desired, unsaid = await desire(work, source, self._renderer) if source is not None else ([], [])
        except Problem as problem:
            return Preview(problem=problem, passed_over=work.passed_over)
        if source is None:
            missing = Problem("SourceNotFound", f"the source ConfigMap {work.source} does not exist")
            owned = self._cluster.copies.of(sync.owner.ref) if work.spec.source_deletion_policy == "Delete" else []
            going = self._removals(work, filter(self._is_open, owned), ("SourceDeleted", missing.message))
            return Preview(actions=tuple(going), problem=missing, passed_over=work.passed_over)
        writer, kept = self._writer(work), frozenset(sync.status.kept)
        actions = []
        for item in desired:
            seen = self._cluster.copies.at(item.target) or await writer.look(item)
            action = await writer.decide(item, seen, kept=self._kept_mark(item.target) in kept)
            if action.verb is Verb.READ:
                action = await writer.decide(item, await writer.look(item))
            actions.append(action)
        removals = self._removals(work, self._stale(work, desired))
        verdict = self._brake(work, removals)
        held = Problem("DeletionHeld", verdict.message) if verdict.held else None
        return Preview(actions=(*actions, *removals), passed_over=(*unsaid, *work.passed_over), problem=held)

    def _writer(self, work: Work) -> Writer:
        return Writer(
            self._cluster, self._as(work), work.sync.owner, work.policy, claims=self._claims, fights=self._fights
        )

    def _as(self, work: Work) -> Client:
        return self._client if work.user is None else self._client.impersonating(work.user)

    def _kept_mark(self, target: Target) -> str:
        """Name a namespace that has had its copy; one re-created under the same name has not."""
        namespace = self._cluster.namespace(target.namespace)
        return f"{target.namespace}/{namespace.uid[:8] if namespace else ''}"

    def _kept(self, work: Work, outcomes: Sequence[Outcome]) -> list[str]:
        """Under Keep, note which namespaces have had their copy."""
        if work.spec.resource_management_policy != "Keep":
            return []
        had = frozenset(work.sync.status.kept)
        marks = {self._kept_mark(outcome.target): outcome for outcome in outcomes}
        return sorted(
            mark
            for mark, outcome in marks.items()
            if mark in had or outcome.state == "Synced" or outcome.reason == "Kept"
        )

    def _get(self, key: Key) -> ConfigMapSync | None:
        reflector = self.syncs.get(None) or self.syncs.get(key.namespace)
        return reflector.get(key) if reflector is not None else None

    def _note(self, wire: SyncWire) -> ConfigMapSync:
        """Remember the result of our own write to a sync, ahead of its echo."""
        reflector = self.syncs.get(None) or self.syncs[wire.metadata.namespace]
        reflector.note(wire)
        return _read(wire)

    def _up_to_date(self, key: Key, report: Report) -> Report:
        """Compare with the status as it is now: a long turn has written its progress there."""
        latest = self._get(key)
        if latest is None or latest.metadata.uid != report.sync.metadata.uid:
            return report
        return structs.replace(report, sync=structs.replace(report.sync, status=latest.status))

    def _forget(self, key: Key) -> None:
        self._memory.pop(key, None)
        self._reporter.forget(key)
        self.queue.forget(key)


def _read(wire: SyncWire) -> ConfigMapSync:
    return read_sync(api.KIND, ConfigMapSyncSpec, ConfigMapSyncStatus, wire)


def _refusal(sync: ConfigMapSync) -> Problem | None:
    """Return why nothing is to be done for this sync at all."""
    if sync.spec is None:
        return Problem("InvalidSpec", sync.error, stalled=True)
    if sync.spec.suspend:
        return Problem("Suspended", "spec.suspend is true: nothing is read or written", status="Unknown")
    if sync.spec.direction != "OneWay":
        message = "direction Bidirectional is not available yet; write direction: OneWay"
        return Problem("NotSupported", message, stalled=True)
    return None


def _is_unwanted(work: Work, seen: Seen, namespace: Namespace) -> bool:
    """Whether this state of the namespace is evidence that the copy is unwanted, and does not forbid to touch it."""
    return not namespace.terminating and not namespace.ignored and not work.wants(seen.target, namespace)


def _without_source(work: Work, problem: Problem) -> list[Outcome]:
    missing = problem.reason == "SourceNotFound"
    return [
        Outcome(
            target=work.target(namespace.name),
            state="Pending" if missing else "Unknown",
            reason=problem.reason,
            message="waits for the source",
        )
        for namespace in work.wanted
    ]


async def _no_progress(_: list[Outcome]) -> None:
    return
