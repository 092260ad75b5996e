"""The operator: everything wired together, started in order and stopped in order."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Sequence

import structlog
from msgspec import Struct

from syncline.controllers.configmapsync import ConfigMapSyncController
from syncline.engine.cluster import Cluster
from syncline.kube.cache import Key
from syncline.kube.client import Client
from syncline.kube.config import Connection
from syncline.kube.errors import KubeError
from syncline.kube.events import EventRecorder
from syncline.kube.lease import LeaderElection
from syncline.kube.queue import run_workers
from syncline.kube.reflector import AnyReflector
from syncline.render import Renderer
from syncline.telemetry import serve

log = structlog.get_logger(__name__)

LEASE = "syncline"
WORKERS = 8
# Kubernetes gives a pod 30 s: so long for the turns in hand, then for their writes in flight, then for the lease.
FINISH_GRACE = 12.0
WRITES_GRACE = 6.0
RELEASE_GRACE = 3.0


class Settings(Struct, frozen=True, kw_only=True):
    """How the operator runs; each field is a flag of `syncline run`."""

    namespace: str = "syncline-system"
    leader_elect: bool = False
    metrics_bind: str = "0"
    health_bind: str = "0"
    watch_namespaces: Sequence[str] = ()
    min_interval: float = 10.0


async def run(connection: Connection, settings: Settings) -> None:
    """Run until SIGINT or SIGTERM; then finish the writes in flight and stop."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with Client(connection) as client, Renderer() as renderer:
        await Operator(client, renderer, settings).run(stop)


class Operator:
    """One process of the operator."""

    def __init__(self, client: Client, renderer: Renderer, settings: Settings) -> None:
        identity = f"{os.environ.get('POD_NAME') or socket.gethostname()}_{os.getpid()}"
        self._settings = settings
        self._cluster = Cluster(client)
        self._controller = ConfigMapSyncController(
            self._cluster,
            renderer=renderer,
            events=EventRecorder(client, "syncline", identity),
            guarded=frozenset({settings.namespace}),
            watch_namespaces=settings.watch_namespaces,
        )
        self._reflectors: tuple[AnyReflector, ...] = (*self._cluster.reflectors, *self._controller.syncs.values())
        self._election = LeaderElection(client, settings.namespace, LEASE, identity) if settings.leader_elect else None

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set. Turns in hand are finished, writes in flight too, nothing new is started."""
        endpoints = await serve(
            health=self._settings.health_bind,
            metrics=self._settings.metrics_bind,
            checks={"watches": self._watches_healthy},
        )
        served = {name: end.address for name in ("health", "metrics") if (end := getattr(endpoints, name)) is not None}
        if served:
            log.info("serving", **served)
        watches = [asyncio.create_task(reflector.run()) for reflector in self._reflectors]
        election = asyncio.create_task(self._election.run()) if self._election else None
        work = asyncio.create_task(self._work())
        told = asyncio.create_task(stop.wait())
        log.info("started", namespaces=list(self._settings.watch_namespaces) or "all")
        try:
            # Work has no end of its own: if it ends, the process must too, rather than look alive and do nothing.
            await asyncio.wait([told, work], return_when=asyncio.FIRST_COMPLETED)
            log.info("stopping: writes in flight finish, nothing new is started")
        finally:
            # Workers end before the watches, and the lease is released last: until then nobody else writes.
            told.cancel()
            self._controller.queue.close()
            await asyncio.wait([work], timeout=FINISH_GRACE if self._is_working() else 0)
            await _end([work], WRITES_GRACE)
            await self._controller.drain(1.0)
            await _end(watches, 1.0)
            if self._election is not None and election is not None:
                await _end([election], 1.0)
                await _end([asyncio.create_task(self._election.release())], RELEASE_GRACE, cancel=False)
            await endpoints.close()
            log.info("stopped")

    async def _work(self) -> None:
        """Reconcile, once all caches are complete and while we lead: an incomplete view decides nothing."""
        for reflector in self._reflectors:
            await reflector.synced.wait()
        log.info("caches are complete")
        await run_workers(self._controller.queue, WORKERS, self._reconcile)

    async def _reconcile(self, key: Key) -> None:
        if self._election is not None:
            await self._election.leading.wait()
        try:
            await self._controller.reconcile(key)
        except KubeError as error:
            # What the API server says is no fault of ours: one line, no traceback.
            delay = self._controller.queue.retry(key)
            log.warning("cannot go on; trying again", sync="/".join(key), error=str(error), retry_in=round(delay, 1))

    def _is_working(self) -> bool:
        """Whether turns may be in hand: before the caches are complete and while another leads, there are none."""
        leads = self._election is None or self._election.leading.is_set()
        return leads and all(reflector.synced.is_set() for reflector in self._reflectors)

    def _watches_healthy(self) -> tuple[bool, str]:
        sick = [reflector.status() for reflector in self._reflectors if not reflector.healthy()]
        words = [f"{one.resource}: {one.failure or ('silent' if one.synced else 'not listed yet')}" for one in sick]
        return not sick, "; ".join(words) or "all watches are live"


async def _end(tasks: Sequence["asyncio.Task[None]"], grace: float, *, cancel: bool = True) -> None:
    """Wait for the end of tasks, and bring it about where they take longer than they are given."""
    for task in tasks if cancel else ():
        task.cancel()
    done, pending = await asyncio.wait(tasks, timeout=grace)
    for task in pending:
        log.warning("did not end in time", task=task.get_name())
        task.cancel()
    if pending:
        done |= (await asyncio.wait(pending, timeout=1.0))[0]
    for task in done:
        with contextlib.suppress(asyncio.CancelledError):
            task.result()
