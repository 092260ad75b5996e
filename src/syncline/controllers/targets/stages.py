"""Stages: applies the objects of a revision in order, all of one stage at once."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from msgspec import Struct, structs

from syncline.controllers.lowered import SourceObject
from syncline.controllers.targets.clusters import TargetCluster
from syncline.controllers.targets.open_kind import describe_unwatched, open_kind
from syncline.core.objects import Desired, Target
from syncline.core.ordering import Stage, stage_of, stages
from syncline.core.outcome import Outcome
from syncline.core.pair_rules import PairRules
from syncline.core.plan import Policy
from syncline.engine.cluster import Cluster, NotWatchedError
from syncline.engine.fanout import IN_PROGRESS
from syncline.engine.twoway import Upstream
from syncline.engine.write_attempts import ConflictLimit
from syncline.kube.client import Client
from syncline.kube.errors import KindNotServed, KubeError

# How long a stage waits until the kinds of its CRDs are served. Then the other stages wait for an event.
CRD_PATIENCE = 10.0
# The event that a kind is served enqueues the sync too, so an enqueued sync does not always have a newer revision.
CRD_PATIENCE_WHEN_BUSY = 3.0
_POLL = 0.1


class PairedObject(Struct, frozen=True, kw_only=True):
    """An object that is kept in agreement with its source: edits of both count."""

    upstream: Cluster
    client: Client
    """The upstream client, with the identity that the sync has there."""
    rules: PairRules
    desired_of: Callable[[Upstream], Desired | None]
    """Makes the desired object of another version of the source."""
    deletes_upward: bool = False
    """Whether the deletion of the copy deletes the source."""


class DesiredAt(Struct, frozen=True):
    """One desired object in one cluster."""

    site: TargetCluster
    desired: Desired
    source: SourceObject | None = None
    """The name of its source."""
    hidden: bool = False
    """Whether the account of the sync must not know its namespace, which is absent or closed.

    A dry run asks the API server as for any other target, so that the answer is the same; nothing is written.
    """
    policy: Policy | None = None
    """The policy of this object, instead of the policy of its destination."""
    in_own_namespace: bool = False
    """Whether its namespace must be one that the sync has created; see `own_namespaces`."""
    pair: PairedObject | None = None
    """None: the object follows its source."""
    limit: ConflictLimit | None = None
    """The retries after a conflict, for a copy that follows its source."""


Write = Callable[[Sequence[DesiredAt], Sequence[DesiredAt]], Awaitable[list[Outcome]]]
"""Writes objects, and gets those that follow once these are written."""


async def apply_in_stages(
    items: Sequence[DesiredAt], write: Write, is_wanted: Callable[[], bool], *, independent: bool = False
) -> list[Outcome]:
    """Write all objects, and return the outcome of each.

    A failure blocks nothing. A write without an answer blocks the next stage in its cluster; the answer enqueues the
    sync. `is_wanted` returns whether the sync was enqueued again: then the wait for new kinds is shorter. `independent`
    objects need only their namespaces: all others are one stage.
    """
    outcomes: list[Outcome] = []
    parts = _members(items, independent=independent)
    refusals: dict[tuple[int, str, str], Outcome | None] = {}
    if independent:
        refusals = await _open_kinds(items)
    elif not any(stage_of(part[0].desired.target.kind) is Stage.DEFINITIONS for part in parts):
        await begin_kinds(items)  # none is defined by an earlier stage, so no stage waits for a first list
    for number, members in enumerate(parts):
        refusals |= await _open_kinds([item for item in members if _kind(item) not in refusals])
        ready = [item for item in members if refusals[_kind(item)] is None]
        outcomes += [
            structs.replace(refusal, target=item.desired.target)
            for item in members
            if (refusal := refusals[_kind(item)]) is not None
        ]
        unanswered = {outcome.target.cluster for outcome in outcomes if outcome.reason == IN_PROGRESS}
        outcomes += [_waiting(one) for one in ready if one.site.destination.cluster in unanswered]
        ready = [one for one in ready if one.site.destination.cluster not in unanswered]
        later = [one for part in parts[number + 1 :] for one in part] if independent else []
        outcomes += await write(ready, [one for one in later if refusals[_kind(one)] is None])
        if stage_of(members[0].desired.target.kind) is Stage.DEFINITIONS:
            await _wait_for_crds(ready, is_wanted)
    return outcomes


def _members(items: Sequence[DesiredAt], *, independent: bool) -> list[list[DesiredAt]]:
    """Return the items of each stage, first to last."""
    if independent:
        first = [item for item in items if item.desired.target.kind == "Namespace"]
        return [part for part in (first, [item for item in items if item.desired.target.kind != "Namespace"]) if part]
    by_target: dict[Target, list[DesiredAt]] = {}
    for item in items:
        by_target.setdefault(item.desired.target.local(), []).append(item)
    return [[item for target in stage for item in by_target[target]] for stage in stages(by_target)]


async def begin_kinds(items: Sequence[DesiredAt]) -> None:
    """Begin to watch the kinds of objects in their clusters, without a wait for the first lists."""
    for item in {_kind(item): item for item in reversed(items)}.values():
        with suppress(KubeError):  # the outcome of the object when it is written
            await item.site.cluster.open_kind(item.desired.target.group_kind, _version(item))


async def _open_kinds(items: Sequence[DesiredAt]) -> dict[tuple[int, str, str], Outcome | None]:
    """Open the kinds of objects at once, each with one of them. Return the outcomes of kinds that cannot be opened."""
    firsts = {_kind(item): item for item in reversed(items)}
    return dict(zip(firsts, await asyncio.gather(*map(refused_kind, firsts.values())), strict=True))


def _kind(wanted: DesiredAt) -> tuple[int, str, str]:
    body = wanted.desired.body
    return id(wanted.site), wanted.desired.target.kind, body.api_version if body is not None else ""


def _version(wanted: DesiredAt) -> str | None:
    body = wanted.desired.body
    return body.api_version.rpartition("/")[2] if body is not None else None


def for_cluster(site: TargetCluster, desired: Desired) -> Desired:
    """Return the desired object with the name that the sync has for the cluster."""
    cluster = site.destination.cluster
    return structs.replace(desired, target=desired.target._replace(cluster=cluster)) if cluster else desired


async def refused_kind(wanted: DesiredAt) -> Outcome | None:
    """Open the kind of an object in its cluster. Return the outcome of the object if that fails."""
    target = wanted.desired.target
    cluster, place = wanted.site.cluster, wanted.site.destination
    try:
        informer = await open_kind(cluster, target.group_kind, _version(wanted))
        if target.namespace and not informer.resource.namespaced:
            why = f"{target.kind} is cluster-scoped there, which the sync's own cluster does not know"
            return _refused(
                target, "KindNotServed", f"{why}: install its CustomResourceDefinition in the cluster of the sync too"
            )
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
    """Wait until the kinds of new CRDs are served: that takes less time than another reconcile."""
    clock = asyncio.get_running_loop().time
    began = clock()
    missing = [one for one in definitions if not await _is_served(one)]
    while missing and clock() - began < (CRD_PATIENCE_WHEN_BUSY if is_wanted() else CRD_PATIENCE):
        await asyncio.sleep(_POLL)
        for cluster in {id(one.site.cluster): one.site.cluster for one in missing}.values():
            cluster.discovery.forget()
        missing = [one for one in missing if not await _is_served(one)]


async def _is_served(definition: DesiredAt) -> bool:
    """Whether a kind can be written. A kind whose CRD the server does not accept is not waited for."""
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
