"""What wakes a sync: its own edit, its source, a namespace, a changed copy, or an object that was in its way.

Watches call in here; nothing is decided or written, only work is marked. Shared watches run as the operator and only
wake: every body that reaches a copy is read by the sync's own identity.
"""

from typing import Generic

from syncline.core.objects import Seen, Target
from syncline.core.outcome import Outcome
from syncline.core.scope import Namespace
from syncline.engine.claims import Claim, Claims
from syncline.engine.cluster import Cluster
from syncline.engine.interests import Interest, Interests
from syncline.engine.record import Spec, Status, Sync
from syncline.kube.cache import Key
from syncline.kube.queue import Queue


class Wakes(Generic[Spec, Status]):
    """Marks the syncs of one kind for work, and remembers what stands in their way."""

    def __init__(self, kind: str, queue: Queue[Key], cluster: Cluster, claims: Claims) -> None:
        self._kind = kind
        self._queue = queue
        self._cluster = cluster
        self._claims = claims
        self._interests = Interests()
        self._blocked: dict[Key, dict[Target, tuple[int, Outcome]]] = {}
        self._moved: dict[Key, set[Target]] = {}
        cluster.listen(self._namespace_changed, self._copy_changed, self._stranger_changed)

    def sync_changed(self, key: Key, old: Sync[Spec, Status] | None, new: Sync[Spec, Status] | None) -> None:
        """Take an edit of a sync; our own status and finalizer wake nobody."""
        if new is None or old is None or _user_part(old) != _user_part(new):
            # Whoever edits a sync, or asks for it now, wants a fresh look at what was in the way.
            self._blocked.pop(key, None)
            # Those that were there when we started have most likely nothing to do: edits go first.
            self._queue.add(key, priority=1 if old is None else 0)

    def take_interest(self, key: Key, interest: Interest, claim: Claim | None) -> None:
        """Wake this sync for these things from now on; without a claim it wants nothing (suspended, deleted)."""
        if self._interests.get(key) != interest:
            self.lose_interest(key)
            self._interests.put(key, interest)
            self._cluster.watch_names((interest.source.name, interest.name))
        if claim is not None:
            self._claims.put(claim)
        elif self._claims.drop(self._ref(key)):
            self._wake_others(key, interest.name)

    def lose_interest(self, key: Key) -> None:
        """Wake this sync for nothing any more, and others that were refused because of it."""
        interest = self._interests.get(key)
        if interest is None:
            return
        self._interests.drop(key)
        self._cluster.unwatch_names((interest.source.name, interest.name))
        self._claims.drop(self._ref(key))
        self._blocked.pop(key, None)
        self._moved.pop(key, None)
        self._wake_others(key, interest.name)
        for copy in self._cluster.copies.of(self._ref(key)):
            self._wake_copiers(copy.target)

    def freed(self, key: Key, target: Target) -> None:
        """Wake the others that want, or copy, an object that this sync has just let go: no watch tells of that."""
        namespace = self._cluster.namespace(target.namespace)
        for other in self._interests.of_name(target.name):
            interest = self._interests.get(other)
            if other != key and interest is not None and namespace is not None and interest.scope.matches(namespace):
                self._queue.add(other)
        self._wake_copiers(target)

    def attend(self, key: Key) -> None:
        """Note from now on what moves at the targets of a sync: a turn begins to look at them."""
        self._moved[key] = set()

    def block(self, key: Key, generation: int, outcome: Outcome) -> None:
        """Remember that a stranger holds a target, so that it is not asked for again until something changes there.

        What has changed there since the turn began may be what the turn did not see yet: then it looks again.
        """
        if outcome.target in self._moved.get(key, ()):
            self._queue.add(key)
        else:
            self._blocked.setdefault(key, {})[outcome.target] = (generation, outcome)

    def blocked(self, key: Key, generation: int) -> dict[Target, Outcome]:
        """Return the targets that a stranger is known to hold, found under this generation of the spec."""
        known = self._blocked.get(key, {})
        return {target: outcome for target, (found, outcome) in known.items() if found == generation}

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        names = {namespace.name for namespace in (old, new) if namespace is not None}
        for key in self._interests.of_namespace(old, new):
            known = self._blocked.get(key, {})
            for target in [target for target in known if target.namespace in names]:
                del known[target]
            self._queue.add(key)

    def _copy_changed(self, old: Seen | None, new: Seen | None) -> None:
        for seen in (old, new):
            if seen is None:
                continue
            if seen.marker is not None and seen.marker.sync.startswith(f"{self._kind}/"):
                _, namespace, name = seen.marker.sync.split("/", 2)
                if self._interests.get(Key(namespace, name)) is not None:
                    self._queue.add(Key(namespace, name))
            # A clone of a copy carries our label too, and may be a source or in the way.
            self._stranger_changed(Key(seen.target.namespace, seen.target.name))

    def _stranger_changed(self, key: Key) -> None:
        target = Target(key.namespace, key.name)
        self._wake_copiers(target)
        for sync in self._interests.of_name(key.name):
            if sync in self._moved:
                self._moved[sync].add(target)
            if self._blocked.get(sync, {}).pop(target, None) is not None:
                self._queue.add(sync)

    def _wake_copiers(self, target: Target) -> None:
        for sync in self._interests.of_source(Key(target.namespace, target.name)):
            self._queue.add(sync)

    def _wake_others(self, key: Key, name: str) -> None:
        for other in self._interests.of_name(name):
            if other != key:
                self._blocked.pop(other, None)
                self._queue.add(other)

    def _ref(self, key: Key) -> str:
        return f"{self._kind}/{key.namespace}/{key.name}"


def _user_part(sync: Sync[Spec, Status]) -> tuple[object, ...]:
    meta = sync.metadata
    return meta.uid, meta.generation, meta.deletion_timestamp, meta.annotations
