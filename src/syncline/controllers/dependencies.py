"""Which ConfigSync waits for which. A change of readiness wakes those that wait; nobody polls."""

from collections.abc import Callable, Iterator

from syncline.api.configsync import ConfigSyncSpec
from syncline.controllers.reporting import AnySync, Problem
from syncline.core.conditions import find
from syncline.kube.cache import Key

WAITS = "DependencyNotReady"


class Dependencies:
    """The dependencies of all ConfigSyncs, found from either side."""

    def __init__(self) -> None:
        self._on: dict[Key, tuple[Key, ...]] = {}
        self._of: dict[Key, set[Key]] = {}

    def put(self, key: Key, spec: ConfigSyncSpec) -> None:
        """Enter what a sync depends on."""
        self.drop(key)
        self._on[key] = tuple(Key(one.namespace or key.namespace, one.name) for one in spec.depends_on)
        for other in self._on[key]:
            self._of.setdefault(other, set()).add(key)

    def drop(self, key: Key) -> None:
        """Forget what a sync depends on."""
        for other in self._on.pop(key, ()):
            self._of[other].discard(key)
            if not self._of[other]:
                del self._of[other]

    def of(self, key: Key) -> Iterator[Key]:
        """Yield the syncs that depend on this one."""
        yield from tuple(self._of.get(key, ()))

    @staticmethod
    def is_ready(sync: AnySync | None) -> bool:
        """Whether others may go ahead that depend on a sync."""
        if sync is None or sync.deleting or sync.status.observed_generation != sync.metadata.generation:
            return False
        ready = find(sync.status.conditions, "Ready")
        return ready is not None and ready.status == "True"

    def problem(self, key: Key, spec: ConfigSyncSpec, get: Callable[[Key], AnySync | None]) -> Problem | None:
        """Say what a sync waits for, if it waits."""
        if not spec.depends_on:
            return None
        if self._leads_back(key):
            message = "dependsOn leads back to this sync itself: take one of the dependencies out"
            return Problem("DependencyCycle", message, stalled=True)
        for other in self._on.get(key, ()):
            found = get(other)
            name = "/".join(other)
            if found is None:
                return Problem(WAITS, f"waits for ConfigSync {name}, which does not exist")
            if not self.is_ready(found):
                return Problem(WAITS, f"waits for ConfigSync {name}, which is not ready")
        return None

    def _leads_back(self, key: Key) -> bool:
        seen: set[Key] = set()
        todo = list(self._on.get(key, ()))
        while todo:
            one = todo.pop()
            if one == key:
                return True
            if one not in seen:
                seen.add(one)
                todo += self._on.get(one, ())
        return False
