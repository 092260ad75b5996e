"""What is watched of one kind in one cluster: our copies, and strangers of interest. Bodies are dropped on arrival."""

from collections.abc import Callable

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
from syncline.kube.client import Client
from syncline.kube.reflector import AnyReflector, Reflector
from syncline.kube.resources import Resource

Wire = DataWire | ObjectWire


class MetaWire(Struct):
    """An object of which only the metadata was asked for."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)


class KindInformer:
    """`copies` holds what carries our label.

    `strangers` only tells that an object without our label, that some sync pays attention to, has come, changed or
    gone: a source, or an object that is in the way.
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
        namespace: str | None = None,
        on_managed: Callable[[Observed | None, Observed | None, str], None],
        on_unmanaged: Callable[[str, Key, str], None],
    ) -> None:
        self.kind = kind
        self.resource = resource
        self.wire: type[DataWire | ObjectWire] = DataWire if kind in DATA_KINDS else ObjectWire
        self._key = key
        self._marks = marks
        self.managed = ManagedIndex(client, resource, self.wire, self.to_observed, on_managed, namespace=namespace)
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
        )

    @property
    def reflectors(self) -> tuple[AnyReflector, AnyReflector]:
        """Its watches, to be run and to be asked for their health."""
        return (self.managed.reflector, self.unmanaged)

    @property
    def synced(self) -> bool:
        """Whether it has been complete once."""
        return all(reflector.synced.is_set() for reflector in self.reflectors)

    @property
    def failure(self) -> str:
        """What stands in the way of a watch, for a person; empty if nothing does."""
        return next((status.failure for one in self.reflectors if (status := one.status()).failure), "")

    @property
    def refused(self) -> bool:
        """Whether the server no longer lets it be watched: the kind, or the right to it, is gone."""
        return any(one.status().refused for one in self.reflectors)

    @property
    def forbidden(self) -> bool:
        """Whether the right to watch it lacks."""
        return any(one.status().forbidden for one in self.reflectors)

    def to_observed(self, wire: Wire, *, body: bool = False) -> Observed:
        """Reduce an object to what a plan needs."""
        keys = self._marks.keys
        unsigned = UNSIGNED in keys.takeovers and self._was_listed(wire.metadata)
        return to_observed(wire, kind=self.kind, body=body, key=self._key, marks=keys, unsigned=unsigned)

    def _was_listed(self, meta: ObjectMeta) -> bool:
        """Whether an object had its unsigned mark when the kind was first listed: so nobody puts one on later."""
        if not self.managed.reflector.synced.is_set():
            return True
        known = self.managed.at(Target(meta.namespace, meta.name, self.kind))
        return (
            known is not None and known.uid == meta.uid and known.marker is not None and known.marker.proof == UNSIGNED
        )

    def observe_unmanaged(self, meta: ObjectMeta, by: str) -> None:
        """Take in an object without our label that `by` has read or written, so that its end is noticed too.

        A list that ran before the interest arose has passed over it.
        """
        if OWNER_LABEL not in meta.labels:
            self.unmanaged.observe(MetaWire(metadata=meta), by)
