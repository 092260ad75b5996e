"""Under the policy Keep: which places have had their copy. One that somebody deleted there is not created again."""

from collections.abc import Sequence

from syncline.controllers.reporting import AnySync
from syncline.controllers.survey import Site
from syncline.core.digest import short_digest
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.engine.cluster import Cluster


def kept_marks(
    sync: AnySync, sites: Sequence[Site], converged: Sequence[Outcome], gone: Sequence[Outcome], *, partial_view: bool
) -> list[str]:
    """Note which places have had their copy; one that went with its source has not."""
    keeping = {site.place.cluster: site for site in sites if site.place.policy.management == "Keep"}
    if not keeping:
        return []

    def marks(outcomes: Sequence[Outcome]) -> dict[str, Outcome]:
        ours = (outcome for outcome in outcomes if outcome.target.cluster in keeping)
        return {kept_mark(keeping[one.target.cluster].cluster, one.target): one for one in ours}

    had = frozenset(sync.status.kept)
    looked_at = marks(converged)
    kept = {
        mark
        for mark, outcome in looked_at.items()
        if mark in had or outcome.state == "Synced" or outcome.reason == "Kept"
    }
    went = {mark for mark, outcome in marks(gone).items() if outcome.written is not None}
    # What was not looked at, for want of its source or cluster, stays as it was.
    unseen = had - looked_at.keys() if partial_view else frozenset()
    return sorted((kept | unseen) - went)


def kept_mark(cluster: Cluster, target: Target) -> str:
    """Name a place that has had its copy; a namespace re-created under the same name has not."""
    namespace = cluster.namespace(target.namespace) if target.namespace else None
    return short_digest(target.cluster, target.kind, target.name, namespace.uid if namespace else "")
