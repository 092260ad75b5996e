"""Triggers: which change enqueues which sync.

Watches call this module. It decides and writes nothing; it only enqueues syncs. Shared watches run as the operator and
only enqueue: every body that reaches a copy is read by the sync's own identity.
"""

from collections.abc import Collection, Iterator

from msgspec import structs

from syncline.api.common import FINALIZER, PUSHED_AT
from syncline.controllers.lowered import AnySync
from syncline.core.objects import Observed, Target
from syncline.core.outcome import Outcome
from syncline.core.scope import Namespace
from syncline.engine.claims import Claim, Claims
from syncline.engine.cluster import BUILT_IN, Cluster, NotWatchedError
from syncline.engine.watch_index import UpstreamWatch, WatchIndex, WatchSet
from syncline.kube.cache import Key
from syncline.kube.queue import Queue

# The delay before a status that others wrote is corrected. Two operators must not correct each other in a loop.
REPAIR_DELAY = 0.5
# The delay for objects that controllers create for ours: the addresses of a Service change many at a time.
FOLLOW_DELAY = 0.2

DEFINITIONS = "CustomResourceDefinition.apiextensions.k8s.io"
ObjectPlace = tuple[str, Target]
"""A cluster by its name, and a target in it."""


class Triggers:
    """Enqueues the syncs of one kind, and remembers their blocked targets."""

    def __init__(self, kind: str, queue: Queue[Key], hub: Cluster, claims: Claims) -> None:
        self._kind = kind
        self._queue = queue
        self._hub = hub
        self._claims = claims
        self._clusters: dict[str, Cluster] = {}
        self._watch_index = WatchIndex()
        self._blocked: dict[Key, dict[ObjectPlace, tuple[int, Outcome]]] = {}
        self._moved: dict[Key, set[ObjectPlace]] = {}
        self._follows: dict[Key, frozenset[tuple[str, str, str]]] = {}
        self._followers: dict[tuple[str, str, str], set[Key]] = {}
        """By cluster, kind and namespace: the syncs that any object there enqueues."""
        self.ended: dict[Key, bool] = {}
        """Deleted syncs, and whether a copy of theirs has appeared since."""
        claims.listen(self._enqueue_waiter)
        self.attach(hub)

    def attach(self, cluster: Cluster) -> None:
        """Listen to a cluster. Repeated calls do nothing."""
        if self._clusters.get(cluster.name) is not cluster:
            self._clusters[cluster.name] = cluster
            cluster.listen(
                self._namespace_changed, self._managed_changed, self._unmanaged_changed, self._view_completed
            )

    def detach(self, cluster: Cluster) -> None:
        """Forget a closed cluster, and the blocked targets in it."""
        if self._clusters.get(cluster.name) is cluster:
            del self._clusters[cluster.name]
        for key, known in list(self._blocked.items()):
            for place in [place for place in known if place[0] == cluster.name]:
                del known[place]
            if not known:
                del self._blocked[key]
        for moved in self._moved.values():
            moved -= {place for place in moved if place[0] == cluster.name}

    def sync_changed(self, key: Key, old: AnySync | None, new: AnySync | None, by: str) -> bool:
        """Handle a change of a sync. Our own status and finalizer enqueue nobody; changes of others are corrected.

        Return whether there is something to correct, which does not wait for an interval.
        """
        if new is None or old is None or _user_fields(old) != _user_fields(new):
            # A user who edits a sync, or requests a reconcile, expects that its blocked targets are read again.
            self._blocked.pop(key, None)
            # Syncs that existed at the start have most likely nothing to do: edited syncs are first.
            self._queue.add(key, priority=1 if old is None else 0)
        elif not by and _own_fields(old) != _own_fields(new):
            self._queue.add(key, delay=REPAIR_DELAY)
            return True
        return False

    def set_watches(self, key: Key, watches: WatchSet, claim: Claim | None, *, from_spec: bool = False) -> None:
        """Set the watches and the claim of a sync. Without a claim it wants nothing: it is suspended or deleted.

        `from_spec`: the claim follows from the spec alone, until the next reconcile has read more.
        """
        before = self._watch_index.get(key)
        if from_spec and before is not None and before.upstream:
            # Changes upstream until that reconcile must not be missed: nothing would list the objects again.
            watches = structs.replace(
                watches,
                upstream=before.upstream,
                scopes=(*watches.scopes, *(one for one in before.scopes if one not in watches.scopes)),
                clusters=before.clusters | watches.clusters,
            )
        if before != watches:
            self._retain(watches)
            if before is not None:
                self._release(before)
            self._watch_index.put(key, watches)
        if claim is None:
            self._claims.drop(self._ref(key))
        elif from_spec:
            self._claims.extend(claim)
        else:
            self._claims.put(claim)

    def watch_cluster(self, key: Key, cluster: str) -> None:
        """Enqueue this sync also when a cluster becomes unreachable, or reachable."""
        before = self._watch_index.get(key) or WatchSet()
        if cluster not in before.clusters:
            self._watch_index.put(key, structs.replace(before, clusters=before.clusters | {cluster}))

    def extend_watches(self, key: Key, upstream: tuple[UpstreamWatch, ...], clusters: frozenset[str]) -> None:
        """Enqueue this sync also for changes of these upstream objects and clusters, before they are read."""
        before = self._watch_index.get(key) or WatchSet()
        watches = structs.replace(before, upstream=upstream, clusters=before.clusters | clusters)
        if watches != before:
            self._retain(watches)
            self._release(before)
            self._watch_index.put(key, watches)

    def follow(self, key: Key, places: Collection[tuple[str, str, str]]) -> None:
        """Enqueue this sync also for any object of exactly these kinds in these namespaces, by cluster.

        The addresses of its Services, for example: the controller that writes them does not know the sync.
        """
        wanted, known = frozenset(places), self._follows.get(key, frozenset())
        for place in known - wanted:
            self._followers[place].discard(key)
            if not self._followers[place]:
                del self._followers[place]
        for place in wanted - known:
            self._followers.setdefault(place, set()).add(key)
        self._follows[key] = wanted
        if not wanted:
            del self._follows[key]

    def drop_watches(self, key: Key) -> None:
        """Drop all watches of a sync, and enqueue the syncs that it blocked."""
        self.follow(key, ())
        watches = self._watch_index.get(key)
        if watches is not None:
            self._watch_index.drop(key)
            self._release(watches)
        self._blocked.pop(key, None)
        self._moved.pop(key, None)
        self._claims.waiters.drop(self._ref(key))
        self._claims.drop(self._ref(key))

    def blind(self, key: Key) -> Iterator[tuple[Cluster, NotWatchedError]]:
        """Yield the watches of a sync that have failed for long, so that changes are not noticed."""
        watches = self._watch_index.get(key) or WatchSet()
        for cluster in self._clusters.values():
            for kind, error in cluster.blind.items():
                if watches.has_kind(cluster.name, kind):
                    yield cluster, error

    def look_again(self, key: Key) -> None:
        """Enqueue a sync."""
        self._queue.add(key)

    def cluster_changed(self, name: str) -> None:
        """Enqueue the syncs that write to a cluster: it became unreachable, or reachable."""
        for key in self._watch_index.of_cluster(name):
            self._queue.add(key)

    def kinds_changed(self) -> None:
        """Enqueue the syncs with kinds that the server may have started or stopped to serve."""
        for key in self._watch_index.of_other_kinds(BUILT_IN.keys()):
            self._queue.add(key, priority=1)

    def targets_changed(self) -> None:
        """Enqueue the syncs that may refer to a SyncTarget: one was created, changed or deleted."""
        for key in self._watch_index.of_targets():
            self._queue.add(key)

    def begin_pass(self, key: Key) -> None:
        """Record the changes at the targets of a sync from now on, because a reconcile begins."""
        self._moved[key] = set()

    def mark_blocked(self, key: Key, generation: int, cluster: Cluster, outcome: Outcome) -> None:
        """Remember that an unmanaged object is at a target. The target is not read again until something changes there.

        If something has changed there since the reconcile began, the reconcile may not have seen it: it runs again.
        """
        place = (cluster.name, outcome.target.local())
        if place in self._moved.get(key, ()):
            self._queue.add(key)
        else:
            self._blocked.setdefault(key, {})[place] = (generation, outcome)

    def wait(self, key: Key, cluster: Cluster, outcome: Outcome) -> None:
        """Reconcile again if a target of another sync has changed since the reconcile began.

        Later changes are reported: the writer has recorded the sync as a waiter.
        """
        if (cluster.name, outcome.target.local()) in self._moved.get(key, ()):
            self._queue.add(key)

    def blocked_outcome(self, key: Key, generation: int, cluster: Cluster, target: Target) -> Outcome | None:
        """Return the outcome of a target with an unmanaged object, if it was found with this generation of the spec."""
        known = self._blocked.get(key)
        if not known:
            return None
        found, outcome = known.get((cluster.name, target.local()), (0, None))
        return outcome if found == generation else None

    def _namespace_changed(self, cluster: Cluster, old: Namespace | None, new: Namespace | None) -> None:
        names = {namespace.name for namespace in (old, new) if namespace is not None}
        for key in self._watch_index.of_namespace(cluster.name, old, new):
            known = self._blocked.get(key, {})
            for place in [place for place in known if place[0] == cluster.name and place[1].namespace in names]:
                del known[place]
            self._queue.add(key)
        for name in names:  # another sync may not reach it any more
            for waiter in self._claims.waiters.in_namespace(cluster.name, name):
                self._enqueue_waiter(waiter)
        if old is not None and new is not None and old.ignored and not new.ignored:
            # An unwanted copy was left there, in a namespace that its sync does not watch.
            for owner in cluster.owners_in(new.name):
                self._enqueue_owner(owner)

    def _enqueue_owner(self, ref: str) -> None:
        key = self._named(ref)
        if key is not None and self._watch_index.get(key) is not None:
            self._queue.add(key)

    def _named(self, ref: str) -> Key | None:
        """Return the sync of this kind that a marker names. The content of a marker is not trusted."""
        kind, _, rest = ref.partition("/")
        namespace, _, name = rest.partition("/")
        name = name.partition("/")[0]
        return Key(namespace, name) if kind == self._kind and namespace and name else None

    def _managed_changed(self, cluster: Cluster, old: Observed | None, new: Observed | None, by: str) -> None:
        refs = {one.marker.sync for one in (old, new) if one is not None and one.marker is not None}
        for key in filter(None, map(self._named, refs)):
            is_own = self._ref(key) == by
            if (is_own and key not in self.ended) or not self._is_concerned(key, old, new):
                continue
            if key in self.ended and new is not None:
                self.ended[key] = True
            if not is_own and (self._watch_index.get(key) is not None or key in self.ended):
                self._queue.add(key)
        # A clone of a copy has our label too. It may be a source, or block a target.
        for target in {observed.target for observed in (old, new) if observed is not None}:
            self._unmanaged_changed(cluster, target, by)

    def _is_concerned(self, key: Key, old: Observed | None, new: Observed | None) -> bool:
        """Whether a change of an object can change the plan of its sync.

        A plan does not read the status of an object, for example, and only some syncs wait for its health. All syncs
        wait for CRDs.
        """
        if old is None or new is None:
            return True
        watches = self._watch_index.get(key)
        waits = watches is None or watches.health or new.target.kind == DEFINITIONS
        return not _plan_equal(old, new, health=waits)

    def _unmanaged_changed(self, cluster: Cluster, target: Target, by: str) -> None:
        """Handle a change of an object. The sync that made the change (`by`) is not enqueued."""
        if cluster is self._hub:
            self._enqueue_readers(target, by)
        self._enqueue_followers(cluster, target, by)
        for follower in self._followers.get((cluster.name, target.kind, target.namespace), ()):
            if self._ref(follower) != by:
                self._queue.add(follower, delay=FOLLOW_DELAY)
        place = (cluster.name, target)
        for sync in self._watch_index.of_name((cluster.name, target.kind, target.name)):
            if self._ref(sync) == by:
                continue
            if sync in self._moved:
                self._moved[sync].add(place)
            if self._blocked.get(sync, {}).pop(place, None) is not None:
                self._queue.add(sync)
        for waiter in self._claims.waiters.for_target(place):
            if waiter != by:
                self._enqueue_waiter(waiter)

    def _view_completed(self, cluster: Cluster, kind: str) -> None:
        for sync in self._watch_index.of_kind(cluster.name, kind):
            self._queue.add(sync, priority=1)

    def _retain(self, watches: WatchSet) -> None:
        for target in watches.objects:
            self._hub.watch_filter.retain(target.kind, (target.name,))
        for kind, query in watches.queries:
            self._hub.watch_filter.retain(kind, (), (query,))
        for cluster, kind, name in watches.names:
            if (known := self._clusters.get(cluster)) is not None:
                known.watch_filter.retain(kind, (name,))
        for one in watches.upstream:
            if (known := self._clusters.get(one.cluster)) is not None:
                known.watch_filter.retain(one.kind, (), (one.query,))

    def _release(self, watches: WatchSet) -> None:
        for target in watches.objects:
            self._hub.watch_filter.release(target.kind, (target.name,))
        for kind, query in watches.queries:
            self._hub.watch_filter.release(kind, (), (query,))
        for cluster, kind, name in watches.names:
            if (known := self._clusters.get(cluster)) is not None:
                known.watch_filter.release(kind, (name,))
        for one in watches.upstream:
            if (known := self._clusters.get(one.cluster)) is not None:
                known.watch_filter.release(one.kind, (), (one.query,))

    def _enqueue_readers(self, target: Target, by: str = "") -> None:
        for sync in self._watch_index.of_object(target):
            if self._ref(sync) != by:
                self._queue.add(sync)

    def _enqueue_followers(self, cluster: Cluster, target: Target, by: str) -> None:
        """Enqueue the syncs whose upstream has the object; all of them if its namespace is not known yet."""
        if target.kind == DEFINITIONS:  # what is served may have changed
            cluster.discovery.forget()
        namespace = cluster.namespace(target.namespace) if target.namespace else None
        for sync in self._watch_index.of_upstream(cluster.name, target.kind, namespace):
            if self._ref(sync) != by:
                self._queue.add(sync)

    def _enqueue_waiter(self, ref: str) -> None:
        kind, namespace, name = ref.split("/")
        if kind == self._kind:
            self._queue.add(Key(namespace, name))

    def _ref(self, key: Key) -> str:
        return f"{self._kind}/{key.namespace}/{key.name}"


def _plan_equal(old: Observed, new: Observed, *, health: bool) -> bool:
    """Whether two states of a copy give the same plan. Version and last writer do not affect a plan.

    `health`: whether its health counts.
    """
    same = structs.replace(old, version=new.version, changed_by=new.changed_by)
    return (same if health else structs.replace(same, health=new.health)) == new


def _user_fields(sync: AnySync) -> tuple[object, ...]:
    meta = sync.metadata
    # A push that another replica received concerns repositories, not the sync.
    annotations = {name: value for name, value in meta.annotations.items() if name != PUSHED_AT}
    return meta.uid, meta.generation, meta.deletion_timestamp, annotations


def _own_fields(sync: AnySync) -> tuple[object, ...]:
    return sync.status, FINALIZER in sync.metadata.finalizers
