"""What a sync may tell of namespaces: nothing that its service account could not see itself."""

from collections.abc import Sequence

from syncline.controllers.work import Work
from syncline.core.outcome import Outcome
from syncline.engine.cluster import Cluster
from syncline.kube.errors import KubeError
from syncline.kube.resources import Resource

REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
# The account was let in there, or it was not asked at all because the namespace is closed to everybody.
_SHUT_OUT = frozenset({"Forbidden", "NamespaceIgnored", "NamespaceTerminating"})


async def visible(work: Work, outcomes: Sequence[Outcome], hub: Cluster) -> list[Outcome]:
    """Drop the outcomes of namespaces that a glob or selector found and the account may neither see nor enter."""
    if work.user is None:
        return list(outcomes)
    spelled = {name for place in work.places if place.scope is not None for name in place.scope.names}
    spelled |= {ref.namespace for ref in work.sources}

    def is_hidden(outcome: Outcome) -> bool:
        target = outcome.target
        return not target.cluster and outcome.reason in _SHUT_OUT and target.namespace not in spelled

    if not any(map(is_hidden, outcomes)) or await _may_list_namespaces(hub, work.user):
        return list(outcomes)
    return [outcome for outcome in outcomes if not is_hidden(outcome)]


async def _may_list_namespaces(hub: Cluster, user: str) -> bool:
    body = {
        "apiVersion": REVIEWS.api_version,
        "kind": REVIEWS.kind,
        "spec": {"resourceAttributes": {"verb": "list", "resource": "namespaces"}},
    }
    try:
        answer = await hub.client.impersonating(user).create(REVIEWS, body)
    except KubeError:
        return False
    return bool(answer.get("status", {}).get("allowed"))
