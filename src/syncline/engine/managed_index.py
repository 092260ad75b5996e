"""The objects of a kind that carry our label, by place and by the sync that wrote them; bodies are dropped."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from syncline.core.objects import Observed, Target
from syncline.core.ownership import OWNER_LABEL
from syncline.core.wire import DataWire, ObjectWire
from syncline.kube.cache import Key
from syncline.kube.client import Client
from syncline.kube.event_buffer import EventBuffer
from syncline.kube.reflector import Reflector
from syncline.kube.resources import Resource

Wire = DataWire | ObjectWire


class ManagedIndex:
    """An index over one watch. What a sync ever wrote is found here after any crash; there is no inventory to lose."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        wire: type[DataWire] | type[ObjectWire],
        to_observed: Callable[[Wire], Observed],
        on_change: Callable[[Observed | None, Observed | None, str], None],
        *,
        namespace: str | None = None,
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
        )

    def at(self, target: Target) -> Observed | None:
        """Return what carries our label at this place."""
        return self.reflector.get(Key(target.namespace, target.name))

    def of(self, sync: str) -> list[Observed]:
        """Return the objects whose marker names this sync; `ownership.ownership_of` tells whether they are its own."""
        found = (self.reflector.get(key) for key in sorted(self._by_sync.get(sync, ())))
        return [observed for observed in found if observed is not None]

    def suppress_events(self, target: Target) -> AbstractContextManager[None]:
        """Hold back what the watch tells of a place while we write there.

        Mostly it is our own write, told ahead of the answer, which `observe` and `observe_gone` then claim. The rest is
        told once the write is over.
        """
        return self._events.hold(Key(target.namespace, target.name))

    def observe(self, wire: Wire, by: str) -> None:
        """Take in what the server answered to a write by `by`; its echo from the watch is no news."""
        meta = wire.metadata
        self._events.claim(Key(meta.namespace, meta.name), meta.uid, meta.resource_version, by)
        self.reflector.observe(wire, by)

    def observe_gone(self, observed: Observed, by: str, version: str | None = None) -> None:
        """Take in what `by` has just deleted or, at this version, released."""
        key = Key(observed.target.namespace, observed.target.name)
        self._events.claim(key, observed.uid, None, by)
        self.reflector.observe_deleted(key, observed.uid, by, version)

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
