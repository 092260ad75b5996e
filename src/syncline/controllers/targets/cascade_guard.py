"""Cascade guard: what else would be deleted with a Namespace or a CustomResourceDefinition.

The deletion of a Namespace deletes its content, and the deletion of a CustomResourceDefinition deletes every object of
its kind, whoever created them. So before a managed one is deleted, its content is listed, live and with the rights of
the sync:

- objects of this sync, and objects that are being deleted anyway, can be deleted along;
- so can objects that Kubernetes creates in every namespace, and dependents of an object of the same namespace, because
  their owner is checked too;
- any other object, and an object that the sync still wants or must not remove, blocks the deletion: the Namespace or
  definition stays, and its outcome is Skipped, with reason HoldsUnmanaged and the name of one such object;
- a kind that cannot be listed may have objects: then it stays too, with reason Unproven.

Objects that appear between the check and the deletion cannot be known; the check comes last.
"""

from collections.abc import AsyncGenerator, Container, Mapping

from msgspec import Struct, field, structs

from syncline.api.common import ObjectMeta
from syncline.controllers.targets.clusters import TargetCluster
from syncline.core.objects import Observed, Target
from syncline.core.outcome import HOLDS_UNMANAGED, UNPROVEN, Outcome
from syncline.core.ownership import DISABLED, OWNER_LABEL, PRUNE, RECONCILE, is_replaced, object_id_of, read_marks
from syncline.kube.discovery import Served
from syncline.kube.errors import Forbidden, Gone, KubeError, NotFound

NAMESPACE = "Namespace"
DEFINITION = "CustomResourceDefinition.apiextensions.k8s.io"
# The size of a page: most often the first object decides.
_PAGE = 50
# Kubernetes creates these itself: events, leases, and the addresses of Services.
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
    site: TargetCluster, observed: Observed, wanted: Container[tuple[str, Target]] = (), *, empty: bool = False
) -> Outcome | None:
    """Return why a managed Namespace or CRD must stay, or None if only objects of the sync would be deleted with it.

    `wanted` are the targets that the sync still wants, each with the UID of its cluster. With `empty`, the sync's own
    objects must be gone too.
    """
    try:
        resources = await site.cluster.discovery.resources()
        if site.cluster.discovery.silent:
            silent = ", ".join(site.cluster.discovery.silent)
            return _unverified_outcome(
                observed, f"these API services do not answer: {silent}; repair them, or delete it yourself"
            )
        namespaced = {(one.resource.group, one.resource.kind): one.resource.namespaced for one in resources}
        for served in resources:
            if not _is_contained(served, observed.target):
                continue
            async for held, meta in _contents(site, served, observed.target):
                inside = observed.target.kind == NAMESPACE and _has_owner_inside(meta, namespaced)
                if not inside and (why := _blocker(site, held, meta, wanted, empty=empty)):
                    return _blocked_outcome(observed, held, why)
    except Forbidden as error:
        return _unverified_outcome(observed, f"give the right to list all kinds, or delete it yourself: {error}")
    except KubeError as error:
        return structs.replace(_unverified_outcome(observed, str(error)), state="Unknown", retry=True)
    return None


def _is_contained(served: Served, holder: Target) -> bool:
    """Whether objects of a kind are deleted with the holder."""
    resource = served.resource
    if not served.verbs >= {"list", "delete"}:
        return False
    if holder.kind == DEFINITION:
        return str(resource.group_resource) == holder.name
    return resource.namespaced and str(resource.group_kind) not in _BYPRODUCTS


async def _contents(site: TargetCluster, served: Served, holder: Target) -> AsyncGenerator[tuple[Target, _OwnedMeta]]:
    namespace = holder.name if holder.kind == NAMESPACE else None
    kind = str(served.resource.group_kind)
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
    """Whether an object depends on an owner in its namespace, which decides about it."""
    owners = [(one.api_version.rpartition("/")[0], one.kind) for one in meta.owner_references]
    return bool(owners) and all(namespaced.get(owner) for owner in owners)


def _blocker(
    site: TargetCluster, held: Target, meta: _OwnedMeta, wanted: Container[tuple[str, Target]], *, empty: bool
) -> str:
    """Return why an object must not be deleted with its holder, or an empty text."""
    if meta.deletion_timestamp is not None or (held.kind, held.name) in _EVERYWHERE:
        return ""
    marker = read_marks(meta.annotations, site.owner.keys).marker
    ours = (
        marker is not None
        and not is_replaced(marker, meta.uid, meta.creation_timestamp)
        and meta.labels.get(OWNER_LABEL) == site.owner.label
        and (marker.sync, marker.hub_uid, marker.object_id)
        == (site.owner.ref, site.owner.hub_uid, object_id_of(site.cluster.uid, held))
    )
    if not ours:
        return "which this sync has not written"
    if empty or (site.cluster.uid, held) in wanted:
        return "which this sync still wants" if not empty else "which this sync has not removed yet"
    if DISABLED in (meta.annotations.get(PRUNE), meta.annotations.get(RECONCILE)):
        return "which is annotated not to be removed"
    return "which was there before this sync" if marker is not None and marker.mode != "Created" else ""


def _blocked_outcome(observed: Observed, held: Target, why: str) -> Outcome:
    what = observed.target.group_kind.kind
    message = (
        f"it is no longer wanted, but stays, since {held}, {why}, would be deleted with it: move or delete what it"
        f" holds, or delete the {what} yourself"
    )
    return Outcome(target=observed.target, state="Skipped", reason=HOLDS_UNMANAGED, message=message, gone=True)


def _unverified_outcome(observed: Observed, why: str) -> Outcome:
    message = f"it is no longer wanted, but stays, since not all that would be deleted with it can be seen: {why}"
    return Outcome(target=observed.target, state="Skipped", reason=UNPROVEN, message=message, gone=True)
