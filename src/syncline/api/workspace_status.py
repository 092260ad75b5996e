"""The status of a WorkspaceSync."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field

from syncline.api.common import Timestamp
from syncline.api.rules import REASON, Importance, Role
from syncline.api.status import RemoteSyncStatus

MAX_LISTED = 100
MAX_RECORDED = 10000
MAX_BINDINGS = 1000
MAX_SHARDS = 64

Direction = Literal["Down", "Bidirectional"]
NamespaceState = Literal["Synced", "Pending", "Refused", "Failed", "Removing"]
ResourceState = Literal["Synced", "Pending", "Failed", "Conflict", "NotServed", "Incompatible", "Unknown"]

_REASON = Meta(max_length=64, pattern=REASON, description="The cause, as one CamelCase word.")
_MESSAGE = Meta(max_length=1024, description="The cause and the remedy, for people.", extra=Role.REPORT.mark)
_CLUSTER = Meta(max_length=253, description="The logical cluster of the workspace. Absent if the sync has only one.")


class UpstreamStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The upstream that the operator last read."""

    identity: Annotated[
        str,
        Meta(
            max_length=128,
            description="The UID of the upstream: of its LogicalCluster, else of its namespace `kube-system`, else of"
            " `default`. If it changes, the operator deletes nothing.",
            extra=Role.INVENTORY.mark,
        ),
    ] = ""
    workspace: Annotated[str, Meta(max_length=512, description="The path of the workspace.")] = ""
    version: Annotated[str, Meta(max_length=64, description="The Kubernetes version of the upstream.")] = ""
    resource_version: Annotated[
        str,
        Meta(
            max_length=64,
            description="The resourceVersion of the upstream at the last change of a copy. If the upstream goes back"
            " behind it, as after a restore from a backup, the operator writes nothing.",
            extra=Role.INVENTORY.mark,
        ),
    ] = ""
    doubtful: Annotated[
        str,
        Meta(
            max_length=64,
            description="The resourceVersions of objects that the upstream may have lost, as after a restore from a"
            " backup, such as `120-345`. If such an object is absent, the operator keeps its copies. Absent if there"
            " are none.",
            extra=Role.INVENTORY.mark,
        ),
    ] = ""
    endpoints: Annotated[
        bool,
        Meta(
            description="Whether this sync has written Endpoints or EndpointSlices upstream.",
            extra=Role.INVENTORY.mark,
        ),
    ] = False
    workspaces: Annotated[
        int, Meta(ge=0, description="For `apiExport`: the number of workspaces that are bound to it.")
    ] = 0
    bindings: Annotated[
        list[Annotated[str, Meta(max_length=192)]],
        Meta(
            max_length=MAX_BINDINGS,
            description="For `apiExport`: the logical clusters of the workspaces, each with the UID of its APIBinding."
            " If that changes, the operator deletes nothing of the workspace.",
            extra=Role.INVENTORY.mark,
        ),
    ] = field(default_factory=list)
    shards: Annotated[
        list[Annotated[str, Meta(max_length=64)]],
        Meta(
            max_length=MAX_SHARDS,
            description="For `apiExport`: the resourceVersion of each shard at the last change of a copy, as"
            " `resourceVersion` for a single upstream.",
            extra=Role.INVENTORY.mark,
        ),
    ] = field(default_factory=list)


class MappedNamespace(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An upstream namespace, and its namespace in the downstream clusters."""

    IMPORTANCE: ClassVar[Importance] = Importance("state", ("Failed", "Refused", "Removing", "Pending", "Synced"))

    cluster: Annotated[str, _CLUSTER] = ""
    upstream: Annotated[str, Meta(max_length=63, description="The name of the upstream namespace.")]
    downstream: Annotated[str, Meta(max_length=63, description="The name of the downstream namespace.")] = ""
    state: Annotated[NamespaceState, Meta(description="The state of the downstream namespace.")]
    reason: Annotated[str, _REASON] = ""
    message: Annotated[str, _MESSAGE] = ""


class NamespacePlacement(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The SyncTargets that receive one upstream namespace."""

    cluster: Annotated[str, _CLUSTER] = ""
    namespace: Annotated[str, Meta(max_length=63, description="The name of the upstream namespace.")]
    targets: Annotated[
        list[Annotated[str, Meta(max_length=253)]],
        Meta(max_length=100, description="The names of the SyncTargets, at most 100.", extra=Role.REPORT.mark),
    ] = field(default_factory=list)
    reason: Annotated[str, _REASON] = ""
    message: Annotated[str, _MESSAGE] = ""


class ResourceSyncStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The state of one resource."""

    IMPORTANCE: ClassVar[Importance] = Importance(
        "state", ("Failed", "Conflict", "Unknown", "Incompatible", "Pending", "NotServed", "Synced")
    )

    group: Annotated[str, Meta(max_length=253, description="The API group. Absent for the core group.")] = ""
    resource: Annotated[str, Meta(max_length=63, description="The resource, such as `deployments`.")]
    direction: Annotated[Direction, Meta(description="The direction of the resource.")]
    state: Annotated[
        ResourceState,
        Meta(
            description="The state of the resource. NotServed: the upstream does not serve it. Incompatible: a"
            " SyncTarget does not serve it."
        ),
    ]
    synced: Annotated[int, Meta(ge=0, description="The number of copies that equal the upstream.")] = 0
    failed: Annotated[int, Meta(ge=0, description="The number of copies whose last attempt failed.")] = 0
    conflicted: Annotated[
        int, Meta(ge=0, description="The number of copies that have another owner, or an edit that stays.")
    ] = 0
    reason: Annotated[str, _REASON] = ""
    message: Annotated[str, _MESSAGE] = ""


class PathConflict(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An object with paths that changed on both sides."""

    resource: Annotated[str, Meta(max_length=317, description="The resource, such as `deployments.apps`.")]
    namespace: Annotated[
        str, Meta(max_length=63, description="The upstream namespace. Absent for cluster-scoped resources.")
    ] = ""
    name: Annotated[str, Meta(max_length=253, description="The name of the upstream object.")]
    cluster: Annotated[str, Meta(max_length=253, description="The SyncTarget of the copy.")] = ""
    paths: Annotated[
        list[Annotated[str, Meta(max_length=512)]],
        Meta(
            max_length=20,
            description="JSON pointers of the paths, at most 20. Values are not shown.",
            extra=Role.REPORT.mark,
        ),
    ] = field(default_factory=list)
    message: Annotated[str, _MESSAGE] = ""


class WorkspaceSyncStatus(RemoteSyncStatus, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The observed state of the sync."""

    upstream: Annotated[
        UpstreamStatus | None,
        Meta(description="The upstream that the operator last read.", extra=Role.INVENTORY.mark),
    ] = None
    namespaces: Annotated[
        list[MappedNamespace],
        Meta(
            max_length=MAX_LISTED,
            description="The upstream namespaces and their downstream namespaces, failures first, at most 100.",
            extra=Role.REPORT.mark,
        ),
    ] = field(default_factory=list)
    recorded_namespaces: Annotated[
        list[Annotated[str, Meta(max_length=4096)]],
        Meta(
            max_length=MAX_RECORDED,
            description="All upstream namespaces with their downstream namespaces and SyncTargets, such as"
            " `web=team-web@east,west`, or with the logical cluster in front, such as `2kcs1p9z/web=team-web@east`."
            " The operator records them before the first write, so that a namespace keeps its name and its place.",
            extra=Role.INVENTORY.mark,
        ),
    ] = field(default_factory=list)
    placement: Annotated[
        list[NamespacePlacement],
        Meta(
            max_length=MAX_LISTED,
            description="The SyncTargets of each upstream namespace, with the reason, at most 100.",
            extra=Role.REPORT.mark,
        ),
    ] = field(default_factory=list)
    resources: Annotated[
        list[ResourceSyncStatus],
        Meta(max_length=50, description="The state of each resource.", extra=Role.REPORT.mark),
    ] = field(default_factory=list)
    conflicts: Annotated[
        list[PathConflict],
        Meta(
            max_length=MAX_LISTED,
            description="The objects with paths that changed on both sides, at most 100.",
            extra=Role.REPORT.mark,
        ),
    ] = field(default_factory=list)
    copies_skipped: Annotated[
        int,
        Meta(ge=0, description="The number of upstream objects that another sync has written. They are not copied."),
    ] = 0
    last_sync_time: Annotated[Timestamp | None, Meta(description="The time of the last change of a copy.")] = None
