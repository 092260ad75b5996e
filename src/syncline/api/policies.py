"""The policies that all syncs share: management of existing objects, deletion, pruning, service account."""

from typing import Annotated

from msgspec import Meta, Struct

from syncline.api.common import DeletionPolicy, ManagementPolicy
from syncline.api.names import ObjectName


class SyncSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """The fields of a spec that every sync has."""

    resource_management_policy: Annotated[
        ManagementPolicy,
        Meta(
            description="Decides what happens with an object that already exists at a target. Sync does not change an"
            " unmanaged object and reports a conflict. Keep creates an object once and never changes an existing"
            " object. Adopt adopts an unmanaged object. Overwrite adopts it and removes everything that the source"
            " does not have."
        ),
    ] = "Sync"
    deletion_policy: Annotated[
        DeletionPolicy,
        Meta(
            description="Decides what happens with the objects of this sync when the sync is deleted. Delete deletes"
            " them. Orphan keeps them."
        ),
    ] = "Delete"
    prune: Annotated[bool, Meta(description="Remove objects that are no longer in the targets or in the source.")] = (
        True
    )
    suspend: Annotated[bool, Meta(description="If true, the operator does not reconcile this sync.")] = False
    service_account_name: Annotated[
        ObjectName | None,
        Meta(
            description="The service account, in the namespace of the sync, that the operator reads and writes as."
            " Absent: the operator uses its own rights, and the author of the sync needs all rights that the sync"
            " uses. In other clusters, the credential of the cluster decides the identity."
        ),
    ] = None


class CopySpec(SyncSpec, frozen=True, kw_only=True, rename="camel"):
    """The fields of a spec that every sync with an object as source has."""

    source_deletion_policy: Annotated[
        DeletionPolicy,
        Meta(
            description="Decides what happens with the copies when the source is deleted. Delete deletes them. Orphan"
            " keeps them."
        ),
    ] = "Delete"
