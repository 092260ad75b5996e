"""Who is to be woken by what: sources, targets and namespaces, back to the syncs that care."""

from collections.abc import Iterator

from msgspec import Struct

from syncline.core.scope import Namespace, Reach, Scope
from syncline.kube.cache import Key


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
        self._by_source: dict[Key, set[Key]] = {}
        self._by_name: dict[str, set[Key]] = {}

    def get(self, sync: Key) -> Interest | None:
        """Return what a sync cares about."""
        return self._of.get(sync)

    def put(self, sync: Key, interest: Interest) -> None:
        """Enter or replace the interest of a sync."""
        self.drop(sync)
        self._of[sync] = interest
        self._by_source.setdefault(interest.source, set()).add(sync)
        self._by_name.setdefault(interest.name, set()).add(sync)

    def drop(self, sync: Key) -> None:
        """Forget a sync."""
        interest = self._of.pop(sync, None)
        if interest is not None:
            _discard(self._by_source, interest.source, sync)
            _discard(self._by_name, interest.name, sync)

    def of_source(self, source: Key) -> Iterator[Key]:
        """Yield the syncs that copy this object."""
        yield from tuple(self._by_source.get(source, ()))

    def of_name(self, name: str) -> Iterator[Key]:
        """Yield the syncs whose copies have this name."""
        yield from tuple(self._by_name.get(name, ()))

    def of_namespace(self, old: Namespace | None, new: Namespace | None) -> Iterator[Key]:
        """Yield the syncs for which a namespace has come, gone, or changed its standing."""
        for sync, interest in self._of.items():
            before, after = _standing(interest.scope, old), _standing(interest.scope, new)
            if before != after:
                yield sync


def _standing(scope: Scope, namespace: Namespace | None) -> tuple[Reach, str]:
    if namespace is None:
        return Reach.MISSING, ""
    reach = scope.reach(namespace)
    # Outside, a namespace is the same to us whether it exists or not.
    return (Reach.MISSING, "") if reach is Reach.OUTSIDE else (reach, namespace.uid)


def _discard(index: dict[Key, set[Key]] | dict[str, set[Key]], entry: Key | str, sync: Key) -> None:
    keys = index[entry]  # type: ignore[index]  # either index, with its own kind of entry
    keys.discard(sync)
    if not keys:
        del index[entry]  # type: ignore[arg-type]
