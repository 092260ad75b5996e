"""Synced resources of SyncTargets: which resources syncs write to the cluster of each."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from syncline.api.synctarget import SyncedResource
from syncline.core.compatibility import ACCEPTED, Verdict, synced_resources, verdicts
from syncline.core.outcome import Outcome
from syncline.kube.cache import Key

Publish = Callable[[Key, Sequence[SyncedResource], bool], None]
"""Called with the resources of one SyncTarget when they may have changed, and whether they are certainly all."""


class SyncedResourceTracker:
    """Collects the reports of syncs. `complete` is called once every sync that existed at the start has reported.

    Until then, and until each sync could read the cluster, a resource that no sync reports may be in use.
    """

    def __init__(self, publish: Publish, complete: Callable[[], None]) -> None:
        self._publish = publish
        self._complete = complete
        self._found: dict[Key, dict[Key, dict[str, Verdict | None]]] = {}
        """By SyncTarget and sync."""
        self._names: dict[str, str] = {}
        """The resource name of each kind that was found."""
        self._heard: set[Key] = set()
        self._unheard: set[Key] = set()
        self._is_expecting = False
        self._is_complete = False

    def expect(self, syncs: Iterable[Key]) -> None:
        """Set the existing syncs, before the first of them is reconciled."""
        self._unheard = set(syncs) - self._heard
        self._is_expecting = True
        self._check_complete()

    def observe(
        self,
        sync: Key,
        targets: Mapping[str, Key],
        outcomes: Sequence[Outcome],
        names: Mapping[str, str],
        unseen: Mapping[Key, Iterable[str]] | None = None,
    ) -> None:
        """Record the kinds that one sync has found in the clusters of `targets`, by the names that it has for them.

        `unseen`: kinds that it has written there, by SyncTarget, and may not have read now.
        """
        changed = self._learn(names)
        for cluster, target in targets.items():
            known = self._found.get(target, {}).get(sync, {})
            found = verdicts((one for one in outcomes if one.target.cluster == cluster), known)
            for kind in (unseen or {}).get(target, ()):
                found.setdefault(kind, known.get(kind))
            if found != known:
                self._found.setdefault(target, {})[sync] = found
                changed.add(target)
        changed |= self._drop(sync, but=set(targets.values()))
        self._tell(changed)
        self._hear(sync)

    def _learn(self, names: Mapping[str, str]) -> set[Key]:
        """Record the names of kinds. Return the SyncTargets with kinds that had another name before."""
        renamed = {kind for kind, name in names.items() if self._names.get(kind) != name}
        self._names.update(names)
        return {
            target
            for target, syncs in self._found.items()
            if any(not renamed.isdisjoint(kinds) for kinds in syncs.values())
        }

    def knows(self, sync: Key) -> bool:
        """Whether a sync has reported."""
        return sync in self._heard

    def restore(
        self, sync: Key, written: Mapping[Key, Iterable[str]], names: Mapping[str, str], *, will_look: bool = False
    ) -> None:
        """Record the kinds that a sync has written earlier, by SyncTarget, because it is not reconciled now.

        `will_look`: it was not reconciled yet, as at the start of the operator, so earlier reports stay.
        """
        self._names.update(names)
        verdict = None if will_look else ACCEPTED
        for target, kinds in written.items():
            self._found.setdefault(target, {})[sync] = dict.fromkeys(kinds, verdict)
        self._tell(written)
        self._hear(sync)

    def forget(self, sync: Key) -> None:
        """Forget a deleted sync."""
        self._tell(self._drop(sync, but=set()))
        self._hear(sync)
        self._heard.discard(sync)

    def _drop(self, sync: Key, but: set[Key]) -> set[Key]:
        """Forget the reports of a sync about all clusters but these. Return the clusters."""
        changed = {target for target, found in self._found.items() if sync in found and target not in but}
        for target in changed:
            del self._found[target][sync]
            if not self._found[target]:
                del self._found[target]
        if changed:
            used = {kind for syncs in self._found.values() for kinds in syncs.values() for kind in kinds}
            self._names = {kind: name for kind, name in self._names.items() if kind in used}
        return changed

    def _tell(self, targets: Iterable[Key]) -> None:
        for target in targets:
            found = self._found.get(target, {}).values()
            certain = self._is_complete and not any(None in one.values() for one in found)
            self._publish(target, synced_resources(found, self._names), certain)

    def _hear(self, sync: Key) -> None:
        self._heard.add(sync)
        self._unheard.discard(sync)
        self._check_complete()

    def _check_complete(self) -> None:
        if self._is_expecting and not self._unheard and not self._is_complete:
            self._is_complete = True
            self._complete()
            self._tell(list(self._found))
