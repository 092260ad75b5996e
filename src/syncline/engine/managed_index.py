"""An index of the managed objects of one kind: by target, and by the sync that their marker names."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from msgspec import structs

from syncline.core.objects import Observed, Target
from syncline.core.ownership import OWNER_LABEL
from syncline.core.wire import DataWire, ObjectWire
from syncline.engine.cache_sizes import observed_size
from syncline.kube.cache import Key
from syncline.kube.cache_budget import ClusterShare
from syncline.kube.client import Client
from syncline.kube.event_buffer import EventBuffer
from syncline.kube.reflector import Reflector
from syncline.kube.resources import Resource

Wire = DataWire | ObjectWire


class ManagedIndex:
    """An index over one watch of all objects with our label: after a crash, all objects of a sync are found here."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        wire: type[DataWire] | type[ObjectWire],
        to_observed: Callable[[Wire], Observed],
        on_change: Callable[[Observed | None, Observed | None, str], None],
        *,
        namespace: str | None = None,
        share: ClusterShare | None = None,
    ) -> None:
        self._by_sync: dict[str, set[Key]] = {}
        self._events: EventBuffer[Key, Observed] = EventBuffer(
            lambda observed: (observed.uid, observed.version), lambda _, old, new, by: on_change(old, new, by)
        )
        self.reflector: Reflector[Wire, Observed] = Reflector(
            client,
            resource,
            decode=wire,
            project=to_observed,
            labels=OWNER_LABEL,
            namespace=namespace,
            on_change=self._changed,
            part="copies",
            share=share,
            weigh=observed_size,
        )

    def at(self, target: Target) -> Observed | None:
        """Return the object with our label at this target."""
        return self.reflector.get(Key(target.namespace, target.name))

    def was_deleted(self, observed: Observed) -> bool:
        """Whether a watch event reported the deletion of exactly this object, or the removal of our label.

        False for an object that is missing from a list, as in a cluster that was restored from a backup, and for one
        that Syncline deleted.
        """
        target = observed.target
        return self.reflector.has_told_end(Key(target.namespace, target.name), observed.uid)

    def of(self, sync: str) -> list[Observed]:
        """Return the objects whose marker names this sync; `ownership.ownership_of` checks whether they are its own."""
        found = (self.reflector.get(key) for key in sorted(self._by_sync.get(sync, ())))
        return [observed for observed in found if observed is not None]

    def suppress_events(self, target: Target) -> AbstractContextManager[None]:
        """Hold back the watch events of a target while we write it.

        Most of them are our own write, seen before its answer: `observe` and `observe_gone` claim those. The others are
        passed on when the write is over.
        """
        return self._events.hold(Key(target.namespace, target.name))

    def observe(self, wire: Wire, by: str) -> None:
        """Cache the answer to a write by `by`; the watch event of the same version is not passed on again."""
        meta = wire.metadata
        self._events.claim(Key(meta.namespace, meta.name), meta.uid, meta.resource_version, by)
        self.reflector.observe(wire, by)

    def observe_gone(self, observed: Observed, by: str, version: str | None = None) -> None:
        """Remove an object that `by` has deleted or, at this version, released."""
        key = Key(observed.target.namespace, observed.target.name)
        self._events.claim(key, observed.uid, None, by)
        self.reflector.observe_deleted(key, observed.uid, by, version)

    def project_again(self, wire: Wire) -> None:
        """Cache an object again from a read, because more of it is kept now."""
        key, before = Key(wire.metadata.namespace, wire.metadata.name), self.reflector.get_same(wire)
        self.reflector.project_again(wire)
        if before is not None:
            self._index(key, before, self.reflector.get(key))

    def drop_statuses(self, sync: str) -> None:
        """Drop the cached statuses of the objects of a sync."""
        for observed in self.of(sync):
            key = Key(observed.target.namespace, observed.target.name)
            self.reflector.amend(key, structs.replace(observed, status=None, generation=0))

    def _changed(self, key: Key, old: Observed | None, new: Observed | None, by: str) -> None:
        self._index(key, old, new)
        self._events.add(key, old, new, by)

    def _index(self, key: Key, old: Observed | None, new: Observed | None) -> None:
        before = old.marker.sync if old is not None and old.marker is not None else None
        after = new.marker.sync if new is not None and new.marker is not None else None
        if before == after:
            return
        if before is not None and (keys := self._by_sync.get(before)) is not None:
            keys.discard(key)
            if not keys:
                del self._by_sync[before]
        if after is not None:
            self._by_sync.setdefault(after, set()).add(key)
