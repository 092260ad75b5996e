"""Dependency graph of ConfigSyncs. A change of readiness enqueues the dependents, without polling.

A sync decides which other namespaces may depend on it, because they learn that it exists and whether it is ready.
"""

from collections.abc import Callable, Iterator, Sequence

from syncline.api.configsync import ConfigSyncSpec
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import AnySync
from syncline.core.conditions import find
from syncline.core.selectors import glob_matches
from syncline.kube.cache import Key

DEPENDENCY_NOT_READY = "DependencyNotReady"

Get = Callable[[Key], AnySync | None]


class DependencyGraph:
    """The dependencies of all ConfigSyncs, in both directions."""

    def __init__(self) -> None:
        self._on: dict[Key, tuple[Key, ...]] = {}
        self._of: dict[Key, set[Key]] = {}

    def put(self, key: Key, spec: ConfigSyncSpec) -> None:
        """Set the dependencies of a sync."""
        self.drop(key)
        self._on[key] = tuple(Key(one.namespace or key.namespace, one.name) for one in spec.depends_on)
        for other in self._on[key]:
            self._of.setdefault(other, set()).add(key)

    def drop(self, key: Key) -> None:
        """Forget the dependencies of a sync."""
        for other in self._on.pop(key, ()):
            self._of[other].discard(key)
            if not self._of[other]:
                del self._of[other]

    def of(self, key: Key) -> Iterator[Key]:
        """Yield the syncs that depend on this one."""
        yield from tuple(self._of.get(key, ()))

    @staticmethod
    def is_ready(sync: AnySync | None) -> bool:
        """Whether a sync is ready for its dependents."""
        if sync is None or sync.deleting or sync.status.observed_generation != sync.metadata.generation:
            return False
        ready = find(sync.status.conditions, "Ready")
        return ready is not None and ready.status == "True"

    def is_news(self, old: AnySync | None, new: AnySync | None) -> bool:
        """Whether a change of a sync matters to its dependents."""
        return (
            (old is None) != (new is None)
            or self.is_ready(old) != self.is_ready(new)
            or _dependents(old) != _dependents(new)
        )

    def problem(self, key: Key, spec: ConfigSyncSpec, get: Get) -> SyncError | None:
        """Return why a sync waits for a dependency, or None."""
        if not spec.depends_on:
            return None
        if self._leads_back(key, get):
            message = "dependsOn leads back to this sync itself: take one of the dependencies out"
            return SyncError("DependencyCycle", message, stalled=True)
        for other in self._on.get(key, ()):
            found, name = get(other), "/".join(other)
            if found is None or not may_depend(key.namespace, other, found):
                return SyncError(DEPENDENCY_NOT_READY, _unknown(key, other, name))
            if not self.is_ready(found):
                return SyncError(DEPENDENCY_NOT_READY, f"waits for ConfigSync {name}, which is not ready")
        return None

    def _leads_back(self, key: Key, get: Get) -> bool:
        seen: set[Key] = set()
        todo = [key]
        while todo:
            one = todo.pop()
            for other in self._on.get(one, ()):
                # A dependency that is not allowed is not followed, and not reported.
                if other in seen or not may_depend(one.namespace, other, get(other)):
                    continue
                if other == key:
                    return True
                seen.add(other)
                todo.append(other)
        return False


def may_depend(namespace: str, other: Key, sync: AnySync | None) -> bool:
    """Whether the syncs of a namespace may depend on a sync: its own namespace, and those that it lists."""
    return other.namespace == namespace or any(glob_matches(pattern, namespace) for pattern in _dependents(sync))


def _dependents(sync: AnySync | None) -> Sequence[str]:
    """Return the namespaces, as names or globs, whose syncs may depend on a sync."""
    spec = sync.spec if sync is not None else None
    return spec.dependent_namespaces if isinstance(spec, ConfigSyncSpec) else ()


def _unknown(key: Key, other: Key, name: str) -> str:
    if key.namespace == other.namespace:
        return f"waits for ConfigSync {name}, which does not exist"
    return (
        f"waits for ConfigSync {name}: create it, and list namespace {key.namespace} in its dependentNamespaces; it "
        "does not exist, or does not let the syncs of this namespace depend on it"
    )
