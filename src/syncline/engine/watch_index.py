"""An index from sources, targets, namespaces and clusters to the syncs that watch them."""

from collections.abc import Hashable, Iterator
from collections.abc import Set as AbstractSet

from msgspec import Struct

from syncline.core.objects import Target
from syncline.core.scope import Namespace, Reach, Scope
from syncline.engine.claims import Name
from syncline.engine.watch_filter import LabelQuery
from syncline.kube.cache import Key
from syncline.kube.resources import NAMESPACES


class UpstreamWatch(Struct, frozen=True, kw_only=True):
    """Objects of one kind that a sync selects in a cluster, this one or another, by labels and by their namespaces."""

    cluster: str
    kind: str
    query: LabelQuery
    namespaces: Scope

    def matches(self, namespace: Namespace | None) -> bool:
        """Whether objects of a namespace are selected; None: the object is in no namespace."""
        return namespace is None or self.namespaces.matches(namespace)


class WatchSet(Struct, frozen=True, kw_only=True):
    """The objects, namespaces and clusters that one sync watches."""

    objects: frozenset[Target] = frozenset()
    """Objects that it reads by name: its sources, and the objects that they and the sync refer to."""
    queries: tuple[tuple[str, LabelQuery], ...] = ()
    """Sources that it selects, by kind."""
    names: frozenset[Name] = frozenset()
    """The names of its targets."""
    scopes: tuple[tuple[str, Scope], ...] = ()
    """The namespaces that it writes to, by cluster."""
    clusters: frozenset[str] = frozenset()
    """Other clusters that it writes to, whether or not they can be reached now."""
    targets: bool = False
    """Whether it selects clusters by their SyncTargets."""
    upstream: tuple[UpstreamWatch, ...] = ()
    """Objects that it selects in its upstream."""
    health: bool = False
    """Whether it waits for the health of its objects."""

    def has_kind(self, cluster: str, kind: str) -> bool:
        """Whether it watches objects of a kind in a cluster, or namespaces; the sync's own cluster has no name."""
        if kind == NAMESPACES.kind and any(where == cluster for where, _ in self.scopes):
            return True
        if not cluster and (
            any(target.kind == kind for target in self.objects) or any(queried == kind for queried, _ in self.queries)
        ):
            return True
        selected = any((one.cluster, one.kind) == (cluster, kind) for one in self.upstream)
        return selected or any(name[:2] == (cluster, kind) for name in self.names)


class WatchIndex:
    """The watch sets of all syncs of one kind, by sync and by watched object."""

    def __init__(self) -> None:
        self._of: dict[Key, WatchSet] = {}
        self._by_object = _SyncsByEntry()
        self._by_query = _SyncsByEntry()
        self._by_name = _SyncsByEntry()
        self._by_namespace = _SyncsByEntry()
        """Only for namespaces that a scope spells out; the syncs with globs and selectors must all be asked."""
        self._open_ended = _SyncsByEntry()
        self._by_cluster = _SyncsByEntry()
        self._by_upstream = _SyncsByEntry()

    def get(self, sync: Key) -> WatchSet | None:
        """Return the watch set of a sync."""
        return self._of.get(sync)

    def of_other_kinds(self, built_in: AbstractSet[str]) -> Iterator[Key]:
        """Yield the syncs that work with kinds that a server need not have."""
        for sync, watches in self._of.items():
            kinds = {target.kind for target in watches.objects} | {kind for kind, _ in watches.queries}
            kinds |= {kind for _, kind, _ in watches.names} | {one.kind for one in watches.upstream}
            if not kinds <= built_in:
                yield sync

    def of_kind(self, cluster: str, kind: str) -> Iterator[Key]:
        """Yield the syncs that read this kind, or write it to this cluster."""
        for sync, watches in self._of.items():
            read = {target.kind for target in watches.objects} | {kind for kind, _ in watches.queries}
            selected = ((one.cluster, one.kind) for one in watches.upstream)
            if (
                kind in read
                or (cluster, kind) in selected
                or any(name[:2] == (cluster, kind) for name in watches.names)
            ):
                yield sync

    def put(self, sync: Key, watches: WatchSet) -> None:
        """Set the watch set of a sync."""
        self.drop(sync)
        self._of[sync] = watches
        for index, entries in self._entries(watches):
            for entry in entries:
                index.add(entry, sync)

    def drop(self, sync: Key) -> None:
        """Forget a sync."""
        watches = self._of.pop(sync, None)
        if watches is None:
            return
        for index, entries in self._entries(watches):
            for entry in entries:
                index.discard(entry, sync)

    def of_object(self, target: Target) -> Iterator[Key]:
        """Yield the syncs that read this object, or might select it."""
        yield from self._by_object.of(target)
        yield from self._by_query.of(target.kind)

    def of_name(self, name: Name) -> Iterator[Key]:
        """Yield the syncs whose targets have this name."""
        yield from self._by_name.of(name)

    def of_upstream(self, cluster: str, kind: str, namespace: Namespace | None) -> Iterator[Key]:
        """Yield the syncs that select objects of this kind and namespace in this cluster; None: of no namespace."""
        for sync in self._by_upstream.of((cluster, kind)):
            watches = (one for one in self._of[sync].upstream if (one.cluster, one.kind) == (cluster, kind))
            if any(one.matches(namespace) for one in watches):
                yield sync

    def of_cluster(self, cluster: str) -> Iterator[Key]:
        """Yield the syncs that write to this cluster."""
        yield from self._by_cluster.of(cluster)

    def of_targets(self) -> Iterator[Key]:
        """Yield the syncs that select clusters by their SyncTargets."""
        yield from (sync for sync, watches in self._of.items() if watches.targets)

    def of_namespace(self, cluster: str, old: Namespace | None, new: Namespace | None) -> Iterator[Key]:
        """Yield the syncs for which a namespace is created, deleted, or newly in or out of scope."""
        names = {namespace.name for namespace in (old, new) if namespace is not None}
        spelled = (self._by_namespace.of((cluster, name)) for name in names)
        for sync in set(self._open_ended.of(cluster)).union(*spelled):
            scopes = [scope for where, scope in self._of[sync].scopes if where == cluster]
            if any(_reach_of(scope, old) != _reach_of(scope, new) for scope in scopes):
                yield sync

    def _entries(self, watches: WatchSet) -> "Iterator[tuple[_SyncsByEntry, frozenset[Hashable]]]":
        scopes = watches.scopes
        spelled = frozenset((cluster, namespace) for cluster, scope in scopes for namespace in scope.names)
        open_ended = frozenset(cluster for cluster, scope in scopes if scope.globs or scope.selector is not None)
        yield self._by_object, watches.objects
        yield self._by_query, frozenset(kind for kind, _ in watches.queries)
        yield self._by_name, watches.names
        yield self._by_namespace, spelled
        yield self._open_ended, open_ended
        yield self._by_cluster, watches.clusters
        yield self._by_upstream, frozenset((one.cluster, one.kind) for one in watches.upstream)


class _SyncsByEntry:
    """The syncs under each entry."""

    def __init__(self) -> None:
        self._syncs: dict[Hashable, set[Key]] = {}

    def add(self, entry: Hashable, sync: Key) -> None:
        self._syncs.setdefault(entry, set()).add(sync)

    def discard(self, entry: Hashable, sync: Key) -> None:
        syncs = self._syncs[entry]
        syncs.discard(sync)
        if not syncs:
            del self._syncs[entry]

    def of(self, entry: Hashable) -> tuple[Key, ...]:
        return tuple(self._syncs.get(entry, ()))


def _reach_of(scope: Scope, namespace: Namespace | None) -> tuple[Reach, str]:
    if namespace is None:
        return Reach.MISSING, ""
    reach = scope.reach(namespace)
    # Outside, a namespace is the same to us whether it exists or not.
    return (Reach.MISSING, "") if reach is Reach.OUTSIDE else (reach, namespace.uid)
