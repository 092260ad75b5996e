"""The policy Keep: the marks of the targets of a sync, by the present namespaces. `core/keep_marks.py` decides."""

from collections.abc import Iterable, Sequence

from syncline.controllers.lowered import AnySync
from syncline.controllers.targets.clusters import TargetCluster
from syncline.core.keep_marks import KeepRoom, keep_mark, kept_after
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.engine.cluster import Cluster


class KeepMarks:
    """The targets with the policy Keep that have had their copy, during one reconcile.

    A target is identified when it is planned: after a namespace was replaced, its target is another one, and the
    outcome of the plan does not apply to it.
    """

    def __init__(self, sync: AnySync) -> None:
        self._room = KeepRoom(sync.status.kept)
        self._planned: dict[Target, str] = {}

    def has(self, site: TargetCluster, target: Target) -> bool:
        """Whether a target has had its copy."""
        return bool(self._room.kept) and self._mark(site, target) in self._room.kept

    def take(self, site: TargetCluster, target: Target) -> bool:
        """Whether a target can be recorded. With other policies it need not be."""
        if site.destination.policy.management != "Keep":
            return True
        mark = self._planned[target] = mark_at(site.cluster, target)
        return self._room.take(mark)

    def marks(
        self,
        sites: Sequence[TargetCluster],
        outcomes: Iterable[Outcome],
        orphaned: Iterable[Outcome],
        *,
        partial_view: bool,
    ) -> list[str]:
        """Return the marks after the reconcile."""
        keeping = {site.destination.cluster: site for site in sites if site.destination.policy.management == "Keep"}
        if not keeping:
            return []

        def by_mark(ones: Iterable[Outcome]) -> dict[str, Outcome]:
            ours = (one for one in ones if one.target.cluster in keeping)
            return {self._mark(keeping[one.target.cluster], one.target): one for one in ours}

        written = by_mark(one for one in outcomes if not one.gone)
        return kept_after(self._room.kept, written, by_mark(orphaned), partial_view=partial_view)

    def _mark(self, site: TargetCluster, target: Target) -> str:
        return self._planned.get(target) or mark_at(site.cluster, target)


def mark_at(cluster: Cluster, target: Target) -> str:
    """Return the mark of a target in a cluster."""
    namespace = cluster.namespace(target.namespace) if target.namespace else None
    return keep_mark(target, namespace.uid if namespace else "")
