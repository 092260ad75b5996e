"""The informer of one kind in one cluster: it watches managed objects, and unmanaged ones that a sync needs."""

from collections.abc import Callable, Container

from msgspec import Struct, field

from syncline.api.common import ObjectMeta
from syncline.core.digest import DigestKey
from syncline.core.marks import UNSIGNED
from syncline.core.objects import Observed, Target
from syncline.core.ownership import OWNER_LABEL
from syncline.core.wire import DATA_KINDS, DataWire, ObjectWire, to_observed
from syncline.engine.managed_index import ManagedIndex
from syncline.engine.markkeys import MarkRing
from syncline.engine.watch_filter import WatchFilter
from syncline.kube.cache import Key
from syncline.kube.cache_budget import ClusterShare
from syncline.kube.client import Client
from syncline.kube.reflector import AnyReflector, Reflector
from syncline.kube.resources import Resource

Wire = DataWire | ObjectWire


class MetaWire(Struct):
    """An object of which only the metadata was asked for."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)


class KindInformer:
    """`managed` holds the objects with our label, without their bodies.

    Those of the syncs in `status_for`, which may change at any time, have their status.

    `unmanaged` holds the versions of objects without our label that the watch filter matches: sources, and objects at
    the place of a target. It reports that such an object was created, changed or deleted.
    """

    def __init__(
        self,
        client: Client,
        kind: str,
        resource: Resource,
        *,
        key: DigestKey,
        marks: MarkRing,
        watch_filter: WatchFilter,
        status_for: Container[str] = (),
        namespace: str | None = None,
        share: ClusterShare | None = None,
        on_managed: Callable[[Observed | None, Observed | None, str], None],
        on_unmanaged: Callable[[str, Key, str], None],
    ) -> None:
        self.kind = kind
        self.resource = resource
        self.wire: type[DataWire | ObjectWire] = DataWire if kind in DATA_KINDS else ObjectWire
        self._key = key
        self._marks = marks
        self._status_for = status_for
        self.managed = ManagedIndex(
            client, resource, self.wire, self.to_observed, on_managed, namespace=namespace, share=share
        )
        self.unmanaged: Reflector[MetaWire, str] = Reflector(
            client,
            resource,
            decode=MetaWire,
            project=lambda wire: wire.metadata.resource_version if watch_filter.matches(kind, wire.metadata) else None,
            labels=f"!{OWNER_LABEL}",
            namespace=namespace,
            metadata_only=True,
            on_change=lambda at, _old, _new, by: on_unmanaged(kind, at, by),
            part="others",
            share=share,
        )

    @property
    def reflectors(self) -> tuple[AnyReflector, AnyReflector]:
        """The two watches."""
        return (self.managed.reflector, self.unmanaged)

    @property
    def synced(self) -> bool:
        """Whether both watches have listed all objects once."""
        return all(reflector.synced.is_set() for reflector in self.reflectors)

    async def wait_listed(self) -> None:
        """Wait until both watches have listed all objects once."""
        for reflector in self.reflectors:
            await reflector.synced.wait()

    @property
    def failure(self) -> str:
        """Why a watch fails, for a person; empty if none does."""
        return next((status.failure for one in self.reflectors if (status := one.status()).failure), "")

    @property
    def refused(self) -> bool:
        """Whether the server refuses a watch: the kind, or the right to watch it, is gone."""
        return any(one.status().refused for one in self.reflectors)

    @property
    def forbidden(self) -> bool:
        """Whether the right to watch the kind is missing."""
        return any(one.status().forbidden for one in self.reflectors)

    @property
    def full(self) -> bool:
        """Whether the cluster has more objects than the cache has room for, so that some are not known."""
        return any(one.status().full for one in self.reflectors)

    def release(self) -> None:
        """Release the cache budget, after the end of the watches."""
        for reflector in self.reflectors:
            reflector.release()

    def to_observed(self, wire: Wire, *, body: bool = False) -> Observed:
        """Reduce an object to the state that a plan compares."""
        keys = self._marks.keys
        unsigned = UNSIGNED in keys.takeovers and self._was_listed(wire.metadata)
        return to_observed(
            wire,
            kind=self.kind,
            body=body,
            key=self._key,
            marks=keys,
            unsigned=unsigned,
            status_for=self._status_for,
        )

    def _was_listed(self, meta: ObjectMeta) -> bool:
        """Whether an object had its unsigned mark at the first list: a mark that is added later does not count."""
        if not self.managed.reflector.synced.is_set():
            return True
        known = self.managed.at(Target(meta.namespace, meta.name, self.kind))
        return (
            known is not None and known.uid == meta.uid and known.marker is not None and known.marker.proof == UNSIGNED
        )

    def observe_unmanaged(self, meta: ObjectMeta, by: str) -> None:
        """Cache an object without our label that `by` has read or written, so that its deletion is noticed too.

        A list that ran before the watch filter matched the object has left it out.
        """
        if OWNER_LABEL not in meta.labels:
            self.unmanaged.observe(MetaWire(metadata=meta), by)
