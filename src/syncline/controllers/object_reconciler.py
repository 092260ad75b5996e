"""The base of the reconcilers of every kind: the queue, the finalizer, the status and the events of its objects.

SyncTarget and TenantPolicy use it directly; syncs use `base`, which extends it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from syncline.api.common import API_VERSION, ObjectMeta
from syncline.controllers.errors import SyncError
from syncline.controllers.requeue import NO_REQUEUE, Requeue
from syncline.engine.markkeys import MarkRing
from syncline.engine.statuses import Status, Stored, is_refusal, store
from syncline.engine.sync_object import RawSync, SyncGone, SyncObjectWriter
from syncline.kube.cache import Key
from syncline.kube.client import Client
from syncline.kube.errors import ApiError
from syncline.kube.events import EventRecorder, ObjectReference
from syncline.kube.queue import Queue
from syncline.kube.resources import Resource


class ObjectReconciler(ABC):
    """Reconciles all objects of one kind."""

    def __init__(
        self, resource: Resource, client: Client, events: EventRecorder, marks: MarkRing | None = None
    ) -> None:
        self.queue: Queue[Key] = Queue(resource.kind, group=lambda key: key.namespace)
        self._resource = resource
        self._objects = SyncObjectWriter(client, resource, marks)
        self._recorder = events

    @property
    def plural(self) -> str:
        """The plural of its kind."""
        return self._resource.plural

    async def reconcile(self, key: Key) -> None:
        """Reconcile one object, and schedule the next reconcile."""
        try:
            requeue = await self._reconcile(key)
        except SyncGone:
            requeue = NO_REQUEUE  # the watch reports its deletion, and a new object of the same name
        if requeue.backoff:
            self.queue.retry(key)
        else:
            self.queue.forget(key)
        if requeue.after is not None:
            self.queue.add(key, delay=requeue.after)

    async def drain(self, grace: float) -> None:  # noqa: B027 - most leave nothing behind
        """Wait at most this long for writes in flight."""

    @abstractmethod
    async def _reconcile(self, key: Key) -> Requeue:
        """Reconcile one object. Raises `SyncGone` if it was deleted meanwhile."""

    @abstractmethod
    def _observe(self, wire: RawSync) -> None:
        """Cache the object from the answer to our own write."""

    async def _add_finalizer(self, meta: ObjectMeta) -> RawSync | None:
        """Add our finalizer; None if it is present. Raises `SyncGone`, and `SyncError` if it is refused."""
        with _finalizer_refusal("nothing is written without it"):
            return await self._objects.add_finalizer(meta)

    async def _drop_finalizer(self, meta: ObjectMeta) -> None:
        """Remove our finalizer. Raises `SyncError` if that is refused."""
        with _finalizer_refusal("the sync stays until then"):
            await self._objects.remove_finalizer(meta)

    async def _store(self, meta: ObjectMeta, old: Status, new: Status, now: str) -> Stored[Status]:
        """Store a status if it differs from the old one."""
        stored = await store(self._objects, meta, old, new, now)
        if stored.wire is not None:
            self._observe(stored.wire)
        return stored

    async def _emit(
        self, meta: ObjectMeta, level: Literal["Normal", "Warning"], reason: str, message: str, action: str
    ) -> None:
        """Send an event about an object."""
        about = ObjectReference(
            api_version=API_VERSION,
            kind=self._resource.kind,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
        )
        await self._recorder.emit(about, level, reason, message, action)


@contextmanager
def _finalizer_refusal(meanwhile: str) -> Iterator[None]:
    """Raise `SyncError` if the API server refuses a change of the finalizers."""
    try:
        yield
    except ApiError as error:
        if not is_refusal(error):
            raise
        remedy = "let the policy or webhook that refuses it admit what the operator writes, and check its rights"
        message = f"the API server refuses a change of the finalizers, and {meanwhile}; {remedy}: {error}"
        raise SyncError("FinalizerRefused", message, retry=True) from error
