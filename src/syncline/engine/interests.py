"""Who is to be woken by what: sources, targets and namespaces, back to the syncs that care."""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from msgspec import Struct

from syncline.core.scope import Namespace, Reach, Scope
from syncline.kube.cache import Key

Entry = TypeVar("Entry", bound=Hashable)


class Interest(Struct, frozen=True, kw_only=True):
    """What one sync cares about."""

    source: Key
    name: str
    """The name of its copies."""
    scope: Scope


class Interests:
    """The interests of all syncs of a kind, found from either side."""

    def __init__(self) -> None:
        self._of: dict[Key, Interest] = {}
        self._by_source: _Index[Key] = _Index()
        self._by_name: _Index[str] = _Index()
        self._by_namespace: _Index[str] = _Index()
        """Only for namespaces that a scope spells out; the syncs with globs and selectors must all be asked."""
        self._open_ended: set[Key] = set()

    def get(self, sync: Key) -> Interest | None:
        """Return what a sync cares about."""
        return self._of.get(sync)

    def put(self, sync: Key, interest: Interest) -> None:
        """Enter or replace the interest of a sync."""
        self.drop(sync)
        self._of[sync] = interest
        self._by_source.add(interest.source, sync)
        self._by_name.add(interest.name, sync)
        for namespace in interest.scope.names:
            self._by_namespace.add(namespace, sync)
        if interest.scope.globs or interest.scope.selector is not None:
            self._open_ended.add(sync)

    def drop(self, sync: Key) -> None:
        """Forget a sync."""
        interest = self._of.pop(sync, None)
        if interest is None:
            return
        self._by_source.discard(interest.source, sync)
        self._by_name.discard(interest.name, sync)
        for namespace in interest.scope.names:
            self._by_namespace.discard(namespace, sync)
        self._open_ended.discard(sync)

    def of_source(self, source: Key) -> Iterator[Key]:
        """Yield the syncs that copy this object."""
        yield from self._by_source.of(source)

    def of_name(self, name: str) -> Iterator[Key]:
        """Yield the syncs whose copies have this name."""
        yield from self._by_name.of(name)

    def of_namespace(self, old: Namespace | None, new: Namespace | None) -> Iterator[Key]:
        """Yield the syncs for which a namespace has come, gone, or changed its standing."""
        names = {namespace.name for namespace in (old, new) if namespace is not None}
        for sync in self._open_ended.union(*(self._by_namespace.of(name) for name in names)):
            scope = self._of[sync].scope
            if _standing(scope, old) != _standing(scope, new):
                yield sync


class _Index(Generic[Entry]):
    """The syncs under each entry."""

    def __init__(self) -> None:
        self._syncs: dict[Entry, set[Key]] = {}

    def add(self, entry: Entry, sync: Key) -> None:
        self._syncs.setdefault(entry, set()).add(sync)

    def discard(self, entry: Entry, sync: Key) -> None:
        syncs = self._syncs[entry]
        syncs.discard(sync)
        if not syncs:
            del self._syncs[entry]

    def of(self, entry: Entry) -> tuple[Key, ...]:
        return tuple(self._syncs.get(entry, ()))


def _standing(scope: Scope, namespace: Namespace | None) -> tuple[Reach, str]:
    if namespace is None:
        return Reach.MISSING, ""
    reach = scope.reach(namespace)
    # Outside, a namespace is the same to us whether it exists or not.
    return (Reach.MISSING, "") if reach is Reach.OUTSIDE else (reach, namespace.uid)
