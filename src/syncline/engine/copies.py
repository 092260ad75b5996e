"""The objects of a kind that carry our label, by place and by the sync that wrote them; bodies are dropped."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from syncline.core.objects import Seen, Target
from syncline.core.ownership import OWNER_LABEL
from syncline.core.wire import DataWire, ObjectWire
from syncline.kube.cache import Key
from syncline.kube.client import Client
from syncline.kube.reflector import Reflector
from syncline.kube.resources import Resource

Wire = DataWire | ObjectWire


class Copies:
    """An index over one watch. What a sync ever wrote is found here after any crash; there is no inventory to lose."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        wire: type[DataWire] | type[ObjectWire],
        see: Callable[[Wire], Seen],
        on_change: Callable[[Seen | None, Seen | None], None],
    ) -> None:
        self._by_sync: dict[str, set[Key]] = {}
        self._held_back: dict[Key, list[tuple[Seen | None, Seen | None]]] = {}
        self._on_change = on_change
        self.reflector: Reflector[Wire, Seen] = Reflector(
            client, resource, decode=wire, project=see, labels=OWNER_LABEL, on_change=self._changed, part="copies"
        )

    def at(self, target: Target) -> Seen | None:
        """Return what carries our label at this place."""
        return self.reflector.get(Key(target.namespace, target.name))

    def of(self, sync: str) -> list[Seen]:
        """Return everything whose marker names this sync; whether it is truly its own, `ownership.standing` tells."""
        found = (self.reflector.get(key) for key in sorted(self._by_sync.get(sync, ())))
        return [seen for seen in found if seen is not None]

    @contextmanager
    def writing(self, target: Target) -> Iterator[None]:
        """Hold back what the watch tells of a place while we write there.

        Mostly it is our own write, told ahead of the answer: `note` and `forget` drop that, so that it wakes nobody.
        The rest is told once the write is over.
        """
        key = Key(target.namespace, target.name)
        if key in self._held_back:  # another sync writes there, and holds back for both
            yield
            return
        self._held_back[key] = []
        try:
            yield
        finally:
            for change in self._held_back.pop(key):
                self._on_change(*change)

    def note(self, wire: Wire) -> None:
        """Remember the result of our own write, ahead of its echo from the watch."""
        meta = wire.metadata
        key = Key(meta.namespace, meta.name)
        old = self.reflector.get(key)
        self.reflector.note(wire)
        self._index(key, old, self.reflector.get(key))
        if (held := self._held_back.get(key)) is not None:
            ours = (meta.uid, meta.resource_version)
            held[:] = [change for change in held if change[1] is None or (change[1].uid, change[1].version) != ours]

    def forget(self, seen: Seen) -> None:
        """Forget what we have just deleted or released."""
        key = Key(seen.target.namespace, seen.target.name)
        self.reflector.forget(key, seen.uid)
        self._index(key, seen, self.reflector.get(key))
        if (held := self._held_back.get(key)) is not None:
            held[:] = [(old, new) for old, new in held if new is not None or old is None or old.uid != seen.uid]

    def _changed(self, key: Key, old: Seen | None, new: Seen | None) -> None:
        self._index(key, old, new)
        if (held := self._held_back.get(key)) is not None:
            held.append((old, new))
        else:
            self._on_change(old, new)

    def _index(self, key: Key, old: Seen | None, new: Seen | None) -> None:
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
