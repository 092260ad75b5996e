"""What the controllers of all syncs do alike: watch, take turns, publish what came of them.

A turn starts from what is so now, whatever woke it. What a turn does is up to each controller.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Protocol

import structlog
from msgspec import Struct, field, structs

from syncline.api.status import SyncStatus
from syncline.controllers.memory import Memory
from syncline.controllers.removal import Remover
from syncline.controllers.reporting import AnySync, Problem, Report, Reporter
from syncline.controllers.sites import Reached, Sites
from syncline.controllers.survey import Site
from syncline.controllers.wakes import Wakes
from syncline.controllers.work import Work
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.engine.claims import Claim, Claims
from syncline.engine.cluster import Cluster
from syncline.engine.fanout import FanOut, Job, Progress
from syncline.engine.fights import Fights
from syncline.engine.interests import Interest
from syncline.engine.record import Records, SyncWire
from syncline.engine.writer import Writer
from syncline.kube.cache import Key
from syncline.kube.errors import KubeError
from syncline.kube.events import EventRecorder
from syncline.kube.queue import Queue
from syncline.kube.reflector import Reflector
from syncline.kube.resources import Resource
from syncline.render import Renderer

log = structlog.get_logger(__name__)


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

    def read(self, wire: SyncWire) -> AnySync:
        """Decode a sync."""

    def finish(self, report: Report, status: SyncStatus, now: str) -> SyncStatus:
        """Add what only this kind reports."""


class Shared(Struct, frozen=True):
    """What the syncs of all kinds share."""

    hub: Cluster
    renderer: Renderer
    events: EventRecorder
    claims: Claims
    fights: Fights
    watch_namespaces: Sequence[str] = ()
    allowed_kinds: frozenset[str] = frozenset()
    wakes: list[Wakes] = field(default_factory=list)


class Controller(ABC):
    """Reconciles all syncs of one kind."""

    def __init__(self, kind: Kind, sites: Sites, shared: Shared) -> None:
        self.queue: Queue[Key] = Queue(kind.name)
        self._kind = kind
        self._sites = sites
        self._shared = shared
        self._hub = shared.hub
        self._records = Records(shared.hub.client, kind.resource)
        self._reporter = Reporter(kind.name, self._records, shared.events, self._note, kind.finish)
        self.wakes = Wakes(kind.name, self.queue, shared.hub, shared.claims, shared.wakes)
        self._remover = Remover(self._writer, self.wakes)
        self._memory: dict[Key, Memory] = {}
        self.syncs: dict[str | None, Reflector[SyncWire, AnySync]] = {
            namespace: Reflector(
                shared.hub.client,
                kind.resource,
                decode=SyncWire,
                project=kind.read,
                namespace=namespace,
                on_change=self._sync_changed,
            )
            for namespace in (shared.watch_namespaces or (None,))
        }

    @abstractmethod
    async def _turn(self, sync: AnySync, memory: Memory) -> Report:
        """Bring about what a sync wants."""

    @abstractmethod
    async def _finalize(self, sync: AnySync, memory: Memory) -> Report | None:
        """Let go of what a sync has written, then of the sync; None once that is done."""

    @abstractmethod
    def _interest(self, sync: AnySync) -> tuple[Interest, Claim | None]:
        """Return what should wake a sync, and what it lays claim to, as far as its spec alone tells."""

    def _remember(self, fan_out: FanOut) -> Memory:
        """Begin to remember a sync."""
        return Memory(fan_out)

    def _sync_changed(self, key: Key, old: AnySync | None, new: AnySync | None) -> None:
        if new is None or new.spec is None:
            self.wakes.lose_interest(key)
        elif old is None or old.metadata.generation != new.metadata.generation or new.deleting:
            try:
                interest, claim = self._interest(new)
            except Problem:
                interest, claim = Interest(), None
            self.wakes.take_interest(key, interest, claim)
        self.wakes.sync_changed(key, old, new)

    async def reconcile(self, key: Key) -> None:
        """Bring one sync about."""
        sync = self._get(key)
        if sync is None:
            self._forget(key)
            return
        memory = self._memory.get(key)
        if memory is None:
            fan_out = FanOut(partial(self.queue.add, key), partial(self.queue.is_wanted, key))
            memory = self._memory[key] = self._remember(fan_out)
        if (left := memory.until_due(sync, time.monotonic())) > 0:
            self.queue.add(key, delay=left)
            return
        with self._reporter.timed(sync):
            report = await self._take_turn(sync, memory)
            if report is not None:
                await self._reporter.publish(structs.replace(report, sync=self._latest(report.sync)))
        if report is not None and report.retry:
            self.queue.retry(key)
        else:
            self.queue.forget(key)
        if report is not None and report.again is not None:
            self.queue.add(key, delay=report.again)

    async def _take_turn(self, sync: AnySync, memory: Memory) -> Report | None:
        """Take a turn; a mistake of ours is told where its user looks, not in the log alone."""
        try:
            return await (self._finalize(sync, memory) if sync.deleting else self._turn(sync, memory))
        except KubeError:
            raise
        except Exception as error:
            log.exception("a turn failed in an unforeseen way")
            message = f"unforeseen {type(error).__name__}; the operator's log has the details"
            return Report(sync=sync, problem=Problem("InternalError", message), retry=True)

    async def drain(self, grace: float) -> None:
        """Wait so long, and no longer, for writes that a turn has left behind."""
        await asyncio.gather(*(memory.fan_out.drain(grace) for memory in self._memory.values()))

    async def _hold(self, sync: AnySync) -> AnySync:
        """Add the finalizer before the first write, so that no copy can outlive its sync unseen."""
        wire = await self._records.hold(sync.metadata)
        return sync if wire is None else self._note(wire)

    async def _record(self, work: Work, reached: Reached) -> None:
        """Write down the kinds and clusters that are about to be written to, before the first write there."""
        latest = self._get(key_of(work.sync)) or work.sync
        status = self._sites.record(work, reached, latest.status)
        if status != latest.status:
            await self._reporter.record(latest, status)

    async def _carry_out(
        self, sync: AnySync, memory: Memory, orders: Sequence[Order], progress: Progress
    ) -> list[Outcome]:
        """Write to many targets at once, but not to those that are known to be a stranger's until something changes."""
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
            jobs.append((target, job))
        self.wakes.attend(key)
        outcomes = await memory.fan_out.run(jobs, progress)
        for outcome in outcomes:
            if outcome.reason == "NotOurs":
                self.wakes.block(key, generation, clusters[outcome.target], outcome)
        return outcomes + known

    def _writer(self, site: Site) -> Writer:
        return Writer(
            site.cluster,
            site.client,
            site.owner,
            site.place.policy,
            claims=self._shared.claims,
            fights=self._shared.fights,
        )

    def _get(self, key: Key) -> AnySync | None:
        reflector = self._reflector(key.namespace)
        return reflector.get(key) if reflector is not None else None

    def _reflector(self, namespace: str) -> Reflector[SyncWire, AnySync] | None:
        return self.syncs.get(None if None in self.syncs else namespace)

    def _note(self, wire: SyncWire) -> AnySync:
        """Remember the result of our own write to a sync, ahead of its echo."""
        reflector = self._reflector(wire.metadata.namespace)
        if reflector is not None:
            reflector.note(wire)
        return self._kind.read(wire)

    def _latest(self, sync: AnySync) -> AnySync:
        """Return the sync with its status as it is now: a turn writes to it as it goes."""
        now = self._get(key_of(sync))
        if now is None or now.metadata.uid != sync.metadata.uid:
            return sync
        return structs.replace(sync, status=now.status)

    def _forget(self, key: Key) -> None:
        self._memory.pop(key, None)
        self._sites.forget(self._kind.name, key)
        self._reporter.forget(key)
        self.queue.forget(key)


def key_of(sync: AnySync) -> Key:
    """Return the key of a sync."""
    return Key(sync.metadata.namespace, sync.metadata.name)


def soonest(*seconds: float | None) -> float | None:
    """Return the least of what is given."""
    return min((given for given in seconds if given is not None), default=None)
