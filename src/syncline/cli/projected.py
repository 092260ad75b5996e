"""The effect of an action: the live object, and the object after the action.

ConfigMaps and Secrets are changed here in the same way as by the patch. For other kinds only the API server knows the
result of an apply. A dry run with the identity of the write returns it.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import msgspec
from msgspec import structs

from syncline.cli.redact import shown
from syncline.controllers.targets.clusters import TargetCluster
from syncline.core.adoption import hand_over
from syncline.core.fields import owned_fields
from syncline.core.live_fields import keep_live_fields
from syncline.core.objects import Desired, Observed, Target
from syncline.core.ownership import BASE, MARKER, object_id_of
from syncline.core.plan import Action, Verb, merged_content
from syncline.core.request_bodies import apply_body, create_body, release_patch, replace_body, update_patch
from syncline.core.strip import preserve_allocated
from syncline.core.unsent import drop_unsent
from syncline.core.wire import ManagedMeta
from syncline.engine.cluster import Cluster
from syncline.engine.kind_informer import KindInformer
from syncline.kube.client import Client, PatchKind
from syncline.kube.errors import Invalid, NotFound
from syncline.kube.resources import Resource

Json = dict[str, Any]
States = tuple[Json | None, Json | None]
"""The object before and after; None if there is no object."""

_NOT_PATCHED = frozenset({"apiVersion", "kind", "metadata", "status"})


async def written(site: TargetCluster, desired: Desired, action: Action) -> States:
    """Return the effect of a write. Raises `KubeError` if the API server would refuse it or does not answer."""
    cluster, client, change = site.cluster, site.client, action.change
    assert change is not None  # noqa: S101 - every write of the plan has one
    object_id = object_id_of(cluster.uid, desired.target)
    fresh = create_body(desired, site.owner, object_id, change, desired.content)
    informer = next((informer for informer in cluster.informers() if informer.kind == desired.target.kind), None)
    if informer is None:
        return None, fresh  # the same sync creates the CRD of its kind
    live = await _read(client, informer.resource, desired.target)
    if live is None or action.verb is Verb.CREATE:
        return live, fresh
    observed = _to_observed(informer, live)
    return live, await _updated(site, desired, observed, live, action) or fresh


async def _updated(
    site: TargetCluster, desired: Desired, observed: Observed, live: Json, action: Action
) -> Json | None:
    """Return the object after an update; None if it is deleted and created again."""
    change = action.change
    assert change is not None  # noqa: S101 - every write of the plan has one
    if action.after is not None:
        return {"apiVersion": live["apiVersion"], "kind": live["kind"], **action.after}
    object_id = object_id_of(site.cluster.uid, desired.target)
    if desired.body is None:
        if action.verb is Verb.RECREATE:
            return create_body(desired, site.owner, object_id, change, merged_content(desired, observed, change))
        return _changed(live, update_patch(desired, observed, site.owner, object_id, change))
    try:
        return await _applied(site, desired, observed, live, action)
    except Invalid:
        if site.destination.policy.management != "Overwrite":
            raise
        return None  # an immutable field


def is_same(states: States) -> bool:
    """Return whether an object does not change, except for its marker."""
    before, after = (_without_record(state) for state in states)
    old, new = shown(before, after, secret=False)
    return old == new


def _without_record(state: Json | None) -> Json | None:
    if state is None:
        return None
    annotations = state["metadata"].get("annotations") or {}
    kept = {name: value for name, value in annotations.items() if name not in (MARKER, BASE)}
    return {**state, "metadata": {**state["metadata"], "annotations": kept}}


async def removed(cluster: Cluster, client: Client, action: Action) -> States:
    """Return the effect of a removal: the object is deleted, or only its marker is removed."""
    target = action.target._replace(cluster="")
    informer = cluster.informer(target.kind)
    live = await _read(client, informer.resource, target)
    if live is None or action.verb is not Verb.RELEASE:
        return live, None
    return live, _changed(live, release_patch(_to_observed(informer, live)))


async def _read(client: Client, resource: Resource, target: Target) -> Json | None:
    try:
        live: Json = await client.get(resource, target.name, target.namespace or None)
    except NotFound:
        return None
    return {"apiVersion": resource.api_version, "kind": resource.kind, **live}


def _to_observed(informer: KindInformer, live: Json) -> Observed:
    return informer.to_observed(msgspec.json.decode(msgspec.json.encode(live), type=informer.wire), body=True)


async def _applied(site: TargetCluster, desired: Desired, observed: Observed, live: Json, action: Action) -> Json:
    """Return the result of a dry run of the apply."""
    object_id = object_id_of(site.cluster.uid, desired.target)
    change = action.change
    assert change is not None and desired.body is not None  # noqa: S101, PT018 - the caller looked
    resource, target = _resource(site, desired), desired.target
    if desired.ignored:
        kept = keep_live_fields(desired.body.fields, live, desired.ignored)
        desired = structs.replace(desired, body=structs.replace(desired.body, fields=kept))
    if change.exact and not change.metadata_only:
        body = preserve_allocated(live, replace_body(desired, live, site.owner, object_id, change))
        return await site.client.replace(resource, target.name, target.namespace or None, body, dry_run=True)
    body = apply_body(desired, observed, site.owner, object_id, change)
    result: Json = await site.client.patch(
        resource, target.name, target.namespace or None, body, PatchKind.APPLY, force=True, dry_run=True
    )
    # Before a real write, the fields that Syncline created or adopts are recorded as applied. A dry run has no such
    # step.
    managed = live["metadata"].get("managedFields") or []
    handed = hand_over(managed, body, target.kind) if action.verb is Verb.ADOPT else None
    if handed is None and observed.applied:
        return result
    meta = msgspec.json.decode(msgspec.json.encode({"managedFields": handed or managed}), type=ManagedMeta)
    ours = msgspec.json.decode(owned_fields(meta.managed_fields, group=target.group_kind.group))
    return await _defaulted(site.client, resource, live, result) if drop_unsent(result, ours, body) else result


async def _defaulted(client: Client, resource: Resource, live: Json, wanted: Json) -> Json:
    """Return the object of a dry run without some of its fields: the API server sets its own defaults again."""
    fields = {name: value for name, value in wanted.items() if name not in _NOT_PATCHED}
    patch = [{"op": "add", "path": f"/{name}", "value": value} for name, value in fields.items()]
    patch += [{"op": "remove", "path": f"/{name}"} for name in live if name not in {*fields, *_NOT_PATCHED}]
    meta = live["metadata"]
    filled: Json = await client.patch(
        resource, meta["name"], meta.get("namespace"), patch, PatchKind.JSON, dry_run=True
    )
    return {**filled, "metadata": wanted["metadata"]}


def _resource(site: TargetCluster, desired: Desired) -> Resource:
    resource = site.cluster.informer(desired.target.kind).resource
    version = desired.body.api_version.rpartition("/")[2] if desired.body is not None else resource.version
    return structs.replace(resource, version=version)


def _changed(live: Json, patch: Sequence[Json]) -> Json:
    """Apply a JSON patch of Syncline locally. Only the API server evaluates its tests."""
    result = deepcopy(live)
    for operation in patch:
        if operation["op"] == "test":
            continue
        *way, last = (step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:])
        holder = result
        for step in way:
            holder = holder.setdefault(step, {})
        if operation["op"] == "remove":
            holder.pop(last, None)
        else:
            holder[last] = deepcopy(operation["value"])
    return result
