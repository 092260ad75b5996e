"""What all syncs are asked alike: how they treat what is there, what becomes of what they wrote, with whose rights."""

from typing import Annotated

from msgspec import Meta, Struct

from syncline.api.common import DeletionPolicy, ManagementPolicy
from syncline.api.names import ObjectName


class SyncSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """The part of a spec that every sync has."""

    resource_management_policy: Annotated[
        ManagementPolicy,
        Meta(
            description="What becomes of an object that is at a target already: Sync leaves it and reports a conflict,"
            " Keep leaves it (and what was written as it becomes), Adopt takes it over, Overwrite makes it exactly the"
            " source."
        ),
    ] = "Sync"
    deletion_policy: Annotated[
        DeletionPolicy,
        Meta(
            description="What becomes of what was written when this sync is deleted: Delete removes it, Orphan leaves"
            " it."
        ),
    ] = "Delete"
    prune: Annotated[
        bool, Meta(description="Remove what is no longer wanted: what has left the targets, or the source.")
    ] = True
    suspend: Annotated[bool, Meta(description="Nothing is read or written while true.")] = False
    service_account_name: Annotated[
        ObjectName | None,
        Meta(
            description="Read and write as this service account of the sync's namespace, with its rights; absent: as"
            " the operator, if the author has the rights that the sync needs. Other clusters see the identity of their"
            " credential."
        ),
    ] = None


class CopySpec(SyncSpec, frozen=True, kw_only=True, rename="camel"):
    """The part of a spec that syncs have whose source is an object."""

    source_deletion_policy: Annotated[
        DeletionPolicy,
        Meta(
            description="What becomes of the copies when the source is gone: Delete removes them, Orphan leaves them."
        ),
    ] = "Delete"
