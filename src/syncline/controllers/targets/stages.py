"""Stages: applies the objects of a revision in order, all of one stage at once."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct, structs

from syncline.controllers.lowered import SourceObject
from syncline.controllers.targets.clusters import TargetCluster
from syncline.controllers.targets.open_kind import describe_unwatched, open_kind
from syncline.core.objects import Desired, Target
from syncline.core.ordering import Stage, stage_of, stages
from syncline.core.outcome import Outcome
from syncline.engine.cluster import NotWatchedError
from syncline.engine.fanout import IN_PROGRESS
from syncline.kube.errors import KindNotServed, KubeError

# How long a stage waits for the kinds that it has defined to be served; after that the rest waits for an event.
CRD_PATIENCE = 10.0
# The news that a kind is served enqueues the sync too, so that something to be done is not always something newer.
CRD_PATIENCE_WHEN_BUSY = 3.0
_POLL = 0.1


class DesiredAt(Struct, frozen=True):
    """One desired object in one cluster."""

    site: TargetCluster
    desired: Desired
    source: SourceObject | None = None
    """What it is a copy of."""
    hidden: bool = False
    """Whether its namespace, which is absent or closed, is none that the account of the sync may know of.

    The API server is asked for it as for any other, so that its answer is the same; nothing is written there.
    """


Write = Callable[[Sequence[DesiredAt]], Awaitable[list[Outcome]]]


async def apply_in_stages(items: Sequence[DesiredAt], write: Write, is_wanted: Callable[[], bool]) -> list[Outcome]:
    """Write everything; return the outcome of each object.

    A failure delays nothing. A write that the server has not answered yet does, in its cluster: the answer enqueues the
    sync, which goes on with the next stage. `is_wanted` tells whether something newer is to be done: then new kinds are
    not waited for as long.
    """
    outcomes: list[Outcome] = []
    for stage in stages({item.desired.target.local(): item for item in items}):
        targets = frozenset(stage)
        members = [item for item in items if item.desired.target.local() in targets]
        # Of each kind the first is asked about for all.
        firsts = {_kind(item): item for item in reversed(members)}
        refusals = dict(zip(firsts, await asyncio.gather(*map(refused_kind, firsts.values())), strict=True))
        ready = [item for item in members if refusals[_kind(item)] is None]
        outcomes += [
            structs.replace(refusal, target=item.desired.target)
            for item in members
            if (refusal := refusals[_kind(item)]) is not None
        ]
        unanswered = {outcome.target.cluster for outcome in outcomes if outcome.reason == IN_PROGRESS}
        outcomes += [_waiting(one) for one in ready if one.site.destination.cluster in unanswered]
        ready = [one for one in ready if one.site.destination.cluster not in unanswered]
        outcomes += await write(ready)
        if stage_of(stage[0].kind) is Stage.DEFINITIONS:
            await _wait_for_crds(ready, is_wanted)
    return outcomes


def _kind(wanted: DesiredAt) -> tuple[int, str, str]:
    body = wanted.desired.body
    return id(wanted.site), wanted.desired.target.kind, body.api_version if body is not None else ""


def for_cluster(site: TargetCluster, desired: Desired) -> Desired:
    """Return what is wanted, by the name that the sync has for the cluster."""
    cluster = site.destination.cluster
    return structs.replace(desired, target=desired.target._replace(cluster=cluster)) if cluster else desired


async def refused_kind(wanted: DesiredAt) -> Outcome | None:
    """Open the kind of an object in its cluster; return the outcome of the object where that cannot be."""
    target = wanted.desired.target
    group = target.kind.partition(".")[2]
    body = wanted.desired.body
    kind = target.kind.partition(".")[0]
    version = body.api_version.rpartition("/")[2] if body is not None else None
    cluster, place = wanted.site.cluster, wanted.site.destination
    try:
        informer = await open_kind(cluster, group, kind, version)
        if target.namespace and not informer.resource.namespaced:
            why = f"{target.kind} is in no namespace there, which the sync's own cluster cannot tell"
            return _refused(target, "KindNotServed", f"{why}: install its definition beside the sync too")
    except KindNotServed as error:
        return _refused(target, "KindNotServed", str(error))
    except NotWatchedError as error:
        return _refused(
            target,
            "KindNotWatched",
            describe_unwatched(error, cluster=place.cluster, reads_as_account=wanted.site.client.user is not None),
        )
    except KubeError as error:
        return Outcome(target=target, state="Unknown", reason="Unreachable", message=str(error), retry=True)
    return None


def _refused(target: Target, reason: str, message: str) -> Outcome:
    return Outcome(target=target, state="Failed", reason=reason, message=message, retry=True)


def _waiting(wanted: DesiredAt) -> Outcome:
    message = "is written after others that the API server has not answered yet"
    return Outcome(target=wanted.desired.target, state="Pending", reason=IN_PROGRESS, message=message)


async def _wait_for_crds(definitions: Sequence[DesiredAt], is_wanted: Callable[[], bool]) -> None:
    """Wait until the kinds that were just defined are served: that is shorter than one more reconcile."""
    clock = asyncio.get_running_loop().time
    began = clock()
    missing = [one for one in definitions if not await _is_served(one)]
    while missing and clock() - began < (CRD_PATIENCE_WHEN_BUSY if is_wanted() else CRD_PATIENCE):
        await asyncio.sleep(_POLL)
        for cluster in {id(one.site.cluster): one.site.cluster for one in missing}.values():
            cluster.discovery.forget()
        missing = [one for one in missing if not await _is_served(one)]


async def _is_served(definition: DesiredAt) -> bool:
    """Whether a kind can be written; one whose definition the server does not take is not waited for."""
    cluster = definition.site.cluster
    observed = cluster.managed_at(definition.desired.target.local())
    if observed is None or definition.desired.body is None or observed.health.state == "Failed":
        return True
    if observed.health.state != "Current":
        return False
    spec = definition.desired.body.fields.get("spec") or {}
    try:
        await cluster.discovery.find(str(spec.get("group")), str((spec.get("names") or {}).get("kind")))
    except KubeError:
        return False
    return True
