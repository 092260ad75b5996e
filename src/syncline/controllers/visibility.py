"""What a sync may tell of namespaces: nothing that its service account could not learn itself.

Globs and selectors are matched by the operator, which sees every namespace. What it finds is told only where the
account has been, or may go.
"""

import asyncio
from collections.abc import Iterable, Sequence

from syncline.controllers.work import Work
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.engine.access import Access, AccessReviews, is_allowed
from syncline.engine.cluster import Cluster
from syncline.kube.client import Client
from syncline.kube.errors import KubeError
from syncline.kube.resources import NAMESPACES, Resource


async def is_hidden(work: Work, hub: Cluster, access: AccessReviews, target: Target) -> bool:
    """Tell whether the account of a sync may know nothing of a namespace that the sync names.

    It may know of it where it could read the namespace or create the target, and where it has managed objects.
    """
    if work.user is None or target.cluster or not target.namespace:
        return False
    if any(seen.target.namespace == target.namespace for seen in hub.copies_of(work.sync.owner.ref)):
        return False
    namespace, resource, by = target.namespace, hub.view(target.kind).resource, work.sync.owner.sync
    create = Access(verb="create", resource=resource, namespace=namespace)
    read = Access(verb="get", resource=NAMESPACES, namespace=namespace, name=namespace)
    return not (await access.may(work.user, create, by=by) or await access.may(work.user, read, by=by))


async def visible(work: Work, outcomes: Sequence[Outcome], hub: Cluster) -> list[Outcome]:
    """Drop the outcomes of namespaces that a glob or selector found and the account may neither see nor enter."""
    if work.user is None:
        return list(outcomes)
    known = _known(work, hub)
    doubtful = [outcome for outcome in outcomes if not _is_known(outcome, known)]
    if not doubtful:
        return list(outcomes)
    client = hub.client.impersonating(work.user)
    if await _may(client, "list", NAMESPACES):
        return list(outcomes)
    # Whom the API server has turned away need not be asked about again.
    refused = f'User "{work.user}" cannot '
    open_ = await _open(client, hub, {outcome.target for outcome in doubtful if not _is_refusal(outcome, refused)})
    return [outcome for outcome in outcomes if _is_known(outcome, known) or outcome.target in open_]


def _known(work: Work, hub: Cluster) -> frozenset[str]:
    """Return the namespaces that the sync spells out, and those that have its copies: the account made them."""
    spelled = {name for place in work.places if place.scope is not None for name in place.scope.names}
    spelled |= {ref.namespace for ref in work.sources}
    return frozenset(spelled | {seen.target.namespace for seen in hub.copies_of(work.sync.owner.ref)})


def _is_known(outcome: Outcome, known: frozenset[str]) -> bool:
    target = outcome.target
    return bool(target.cluster) or not target.namespace or target.namespace in known or outcome.state == "Synced"


def _is_refusal(outcome: Outcome, refused: str) -> bool:
    """Whether the account lacks the right; a full quota is Forbidden too, and says so in other words."""
    return outcome.reason == "Forbidden" and refused in outcome.message


async def _open(client: Client, hub: Cluster, targets: Iterable[Target]) -> set[Target]:
    """Return the targets that the account may create."""
    asked = list(targets)
    resources = {view.kind: view.resource for view in hub.views()}

    async def is_open(target: Target) -> bool:
        resource = resources.get(target.kind)
        return resource is not None and await _may(client, "create", resource, target.namespace)

    answers = await asyncio.gather(*map(is_open, asked))
    return {target for target, answer in zip(asked, answers, strict=True) if answer}


async def _may(client: Client, verb: str, resource: Resource, namespace: str = "") -> bool:
    try:
        return await is_allowed(client, Access(verb=verb, resource=resource, namespace=namespace))
    except KubeError:
        return False
