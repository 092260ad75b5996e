"""Cascade guard: what else would be deleted with a Namespace or a CustomResourceDefinition.

To delete a Namespace is to delete all that is in it, and to delete a CustomResourceDefinition is to delete every object
of its kind, whoever made them. So, before one of ours goes, everything that it holds is looked at, live and with the
rights of the sync:

- what this sync has written itself, and what is on its way out anyway, may go along;
- so may what Kubernetes puts into every namespace, and what belongs to an object of the same namespace, since that
  object was looked at too;
- anything else is somebody's, and so is what the sync still wants or has been told not to remove: then the Namespace or
  definition stays, and its outcome is Skipped, with reason HoldsForeign and the name of one such object;
- a kind that cannot be listed may hold something: then it stays too, with reason Unproven.

What appears between the look and the removal cannot be known; the look comes last of all.
"""

from collections.abc import AsyncGenerator, Container, Mapping

from msgspec import Struct, field, structs

from syncline.api.common import ObjectMeta
from syncline.controllers.targets.clusters import TargetCluster
from syncline.core.objects import Observed, Target
from syncline.core.outcome import HOLDS_FOREIGN, UNPROVEN, Outcome
from syncline.core.ownership import DISABLED, OWNER_LABEL, PRUNE, RECONCILE, object_id_of, read_marks
from syncline.engine.cluster import kind_name
from syncline.kube.discovery import Served
from syncline.kube.errors import Forbidden, Gone, KubeError, NotFound

NAMESPACE = "Namespace"
DEFINITION = "CustomResourceDefinition.apiextensions.k8s.io"
# So many are read at a time: most often the first one settles it.
_PAGE = 50
# Kubernetes makes these by itself: notes, votes, and addresses of Services.
_BYPRODUCTS = frozenset({"Event", "Event.events.k8s.io", "Lease.coordination.k8s.io", "Endpoints"})
_EVERYWHERE = frozenset({("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt")})


class _OwnerReference(Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""


class _OwnedMeta(ObjectMeta, kw_only=True):
    owner_references: list[_OwnerReference] = field(default_factory=list)


class _OwnedWire(Struct):
    metadata: _OwnedMeta = field(default_factory=_OwnedMeta)


def deletes_contents(target: Target) -> bool:
    """Whether the removal of an object is also the removal of others."""
    return target.kind in (NAMESPACE, DEFINITION)


async def blocking_content(
    site: TargetCluster, observed: Observed, wanted: Container[tuple[str, Target]] = ()
) -> Outcome | None:
    """Say why a Namespace or definition of ours must stay, or None where nothing but ours would go with it.

    `wanted` are the targets that the sync goes on to want, each with the UID of its cluster.
    """
    try:
        resources = await site.cluster.discovery.resources()
        if site.cluster.discovery.silent:
            silent = ", ".join(site.cluster.discovery.silent)
            return _unverified_outcome(
                observed, f"these API services do not answer: {silent}; mend them, or delete it yourself"
            )
        namespaced = {(one.resource.group, one.resource.kind): one.resource.namespaced for one in resources}
        for served in resources:
            if not _is_contained(served, observed.target):
                continue
            async for held, meta in _contents(site, served, observed.target):
                inside = observed.target.kind == NAMESPACE and _has_owner_inside(meta, namespaced)
                if not inside and (why := _blocker(site, held, meta, wanted)):
                    return _blocked_outcome(observed, held, why)
    except Forbidden as error:
        return _unverified_outcome(observed, f"give the right to list all kinds, or delete it yourself: {error}")
    except KubeError as error:
        return structs.replace(_unverified_outcome(observed, str(error)), state="Unknown", retry=True)
    return None


def _is_contained(served: Served, holder: Target) -> bool:
    """Whether objects of a kind go with the holder."""
    resource = served.resource
    if not served.verbs >= {"list", "delete"}:
        return False
    if holder.kind == DEFINITION:
        return f"{resource.plural}.{resource.group}" == holder.name
    return resource.namespaced and kind_name(resource.group, resource.kind) not in _BYPRODUCTS


async def _contents(site: TargetCluster, served: Served, holder: Target) -> AsyncGenerator[tuple[Target, _OwnedMeta]]:
    namespace = holder.name if holder.kind == NAMESPACE else None
    kind = kind_name(served.resource.group, served.resource.kind)
    for last_chance in (False, True):
        try:
            async for page in site.client.pages(
                served.resource, namespace, type=_OwnedWire, page=_PAGE, metadata_only=True
            ):
                for wire in page.items:
                    meta = wire.metadata
                    yield Target(meta.namespace, meta.name, kind), meta
        except NotFound:
            return  # the kind has just gone, and its objects with it
        except Gone:
            if last_chance:
                raise
        else:
            return


def _has_owner_inside(meta: _OwnedMeta, namespaced: Mapping[tuple[str, str], bool]) -> bool:
    """Whether an object belongs to others of its namespace, which say what becomes of it."""
    owners = [(one.api_version.rpartition("/")[0], one.kind) for one in meta.owner_references]
    return bool(owners) and all(namespaced.get(owner) for owner in owners)


def _blocker(site: TargetCluster, held: Target, meta: _OwnedMeta, wanted: Container[tuple[str, Target]]) -> str:
    """Say whose an object is that must not go along; empty where it may."""
    if meta.deletion_timestamp is not None or (held.kind, held.name) in _EVERYWHERE:
        return ""
    marker = read_marks(meta.annotations, site.owner.keys).marker
    ours = (
        marker is not None
        and meta.labels.get(OWNER_LABEL) == site.owner.label
        and (marker.sync, marker.hub_uid, marker.object_id)
        == (site.owner.ref, site.owner.hub_uid, object_id_of(site.cluster.uid, held))
    )
    if not ours:
        return "which this sync has not written"
    if (site.cluster.uid, held) in wanted:
        return "which this sync still wants"
    if DISABLED in (meta.annotations.get(PRUNE), meta.annotations.get(RECONCILE)):
        return "which is annotated not to be removed"
    return "which was there before this sync" if marker is not None and marker.mode != "Created" else ""


def _blocked_outcome(observed: Observed, held: Target, why: str) -> Outcome:
    what = observed.target.kind.partition(".")[0]
    message = (
        f"it is no longer wanted, but stays, since {held}, {why}, would be deleted with it: move or delete what it"
        f" holds, or delete the {what} yourself"
    )
    return Outcome(target=observed.target, state="Skipped", reason=HOLDS_FOREIGN, message=message, gone=True)


def _unverified_outcome(observed: Observed, why: str) -> Outcome:
    message = f"it is no longer wanted, but stays, since not all that would be deleted with it can be seen: {why}"
    return Outcome(target=observed.target, state="Skipped", reason=UNPROVEN, message=message, gone=True)
