"""Policy Keep: which places have had their object. One that somebody deleted is not created again."""

from collections.abc import Sequence

from syncline.api.status import MAX_KEPT
from syncline.controllers.lowered import AnySync
from syncline.controllers.targets.clusters import TargetCluster
from syncline.core.digest import short_digest
from syncline.core.inventory import FULL
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.engine.cluster import Cluster


class KeepMarks:
    """The places under Keep that have had their copy, and room for more of them: one status remembers so many.

    It lasts for one reconcile. A place is named when it is planned: a namespace that was replaced since then is another
    place, and what became of the plan says nothing about it.
    """

    def __init__(self, sync: AnySync) -> None:
        self._kept = frozenset(sync.status.kept)
        self._taken = set(self._kept)
        self._planned: dict[Target, str] = {}

    def has(self, site: TargetCluster, target: Target) -> bool:
        """Whether a place has had its copy."""
        return bool(self._kept) and self._mark(site, target) in self._kept

    def take(self, site: TargetCluster, target: Target) -> bool:
        """Whether a place can be remembered; under other policies it need not be."""
        if site.destination.policy.management != "Keep":
            return True
        mark = self._planned[target] = keep_mark(site.cluster, target)
        if mark not in self._taken and len(self._taken) >= MAX_KEPT:
            return False
        self._taken.add(mark)
        return True

    def marks(
        self,
        sites: Sequence[TargetCluster],
        outcomes: Sequence[Outcome],
        gone: Sequence[Outcome],
        *,
        partial_view: bool,
    ) -> list[str]:
        """Note which places have had their copy; one that went with its source, or was pruned, has not."""
        keeping = {site.destination.cluster: site for site in sites if site.destination.policy.management == "Keep"}
        if not keeping:
            return []

        def named(ones: Sequence[Outcome]) -> dict[str, Outcome]:
            ours = (one for one in ones if one.target.cluster in keeping)
            return {self._mark(keeping[one.target.cluster], one.target): one for one in ours}

        looked_at = named([one for one in outcomes if not one.gone])
        kept = {
            mark
            for mark, outcome in looked_at.items()
            if mark in self._kept or outcome.state == "Synced" or outcome.reason == "Kept"
        }
        went = {mark for mark, outcome in named(gone).items() if outcome.written is not None}
        # What was not looked at, lacking its source or cluster, stays as it was.
        unseen = self._kept - looked_at.keys() if partial_view else frozenset()
        return sorted((kept | unseen) - went)

    def _mark(self, site: TargetCluster, target: Target) -> str:
        return self._planned.get(target) or keep_mark(site.cluster, target)


def no_room_outcome(target: Target) -> Outcome:
    """Say why a place under Keep gets no copy."""
    message = (
        f"split the sync: under Keep it remembers the copies of {MAX_KEPT} places, and nothing is created that it"
        " could create again after somebody has deleted it"
    )
    return Outcome(target=target, state="Failed", reason=FULL, message=message)


def keep_mark(cluster: Cluster, target: Target) -> str:
    """Name a place that has had its copy; a namespace re-created under the same name has not."""
    namespace = cluster.namespace(target.namespace) if target.namespace else None
    return short_digest(target.cluster, target.kind, target.name, namespace.uid if namespace else "")
