"""WorkspaceSync: objects of an upstream cluster or workspace in downstream clusters, and their status back upstream."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field

from syncline.api.common import API_VERSION, LabelSelector, ObjectMeta
from syncline.api.connection import ClusterConnection
from syncline.api.names import Group, NamespaceName, ObjectName, PluralName, VersionName, WorkspacePath
from syncline.api.object_transforms import ObjectTransform
from syncline.api.policies import SyncSpec
from syncline.api.rules import ValidationRule, selects_some, text
from syncline.api.workspace_placement import ConflictRetry, WorkspacePlacement
from syncline.api.workspace_status import Direction, WorkspaceSyncStatus

KIND = "WorkspaceSync"
PLURAL = "workspacesyncs"

ConflictStrategy = Literal["UpstreamWins", "DownstreamWins", "LastWriteWins", "MergeChanges", "Skip"]
SpelledStrategy = Literal[
    "UpstreamWins",
    "DownstreamWins",
    "LastWriteWins",
    "MergeChanges",
    "Skip",
    "upstream-wins",
    "last-write-wins",
    "merge-changes",
]
"""The strategies in all spellings that a spec can have."""
OnConflict = Literal["UpstreamWins", "DownstreamWins", "Report"]
ExistingNamespace = Literal["Refuse", "Use"]
DeletePropagation = Literal["Down", "Both", "None"]

_SPELLINGS: dict[SpelledStrategy, ConflictStrategy] = {
    "UpstreamWins": "UpstreamWins",
    "DownstreamWins": "DownstreamWins",
    "LastWriteWins": "LastWriteWins",
    "MergeChanges": "MergeChanges",
    "Skip": "Skip",
    "upstream-wins": "UpstreamWins",
    "last-write-wins": "LastWriteWins",
    "merge-changes": "MergeChanges",
}


def conflict_strategy(spelled: SpelledStrategy) -> ConflictStrategy:
    """Return a strategy in the spelling that the operator uses. Pure."""
    return _SPELLINGS[spelled]


class ApiExportRef(Struct, frozen=True, kw_only=True, rename="camel"):
    """An APIExport of kcp."""

    workspace: Annotated[WorkspacePath, Meta(description="The workspace of the APIExport, such as `root:provider`.")]
    name: Annotated[ObjectName, Meta(description="The name of the APIExport.")]


class WorkspaceUpstream(Struct, frozen=True, kw_only=True, rename="camel"):
    """The cluster or the workspace that objects come from."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "!has(self.workspace) || !has(self.apiExport)",
            "write at most one of workspace (one workspace) and apiExport (all workspaces that are bound to it)",
        ),
        ValidationRule(
            "!has(self.workspace) || has(self.connection)",
            "a workspace is in a kcp, and without connection the upstream is this cluster: write connection, such as a"
            " kubeconfig of kcp, or remove workspace",
            ".connection",
        ),
        ValidationRule(
            "!has(self.connection) || !has(self.connection.selector)",
            "an upstream is one cluster, and a selector can select several: write syncTargetRef",
            ".connection.selector",
        ),
        ValidationRule(
            "!has(self.connection) || !has(self.connection.syncTargetNamespace)",
            "an upstream cannot be a SyncTarget of another namespace, because the right to write to a cluster would"
            " become the right to read it: remove syncTargetNamespace, and name a SyncTarget of this namespace",
            ".connection.syncTargetNamespace",
        ),
        ValidationRule(
            """
            !has(self.connection) || !has(self.connection.server) || !self.connection.server.contains('/clusters/')
            || !has(self.workspace) && !has(self.apiExport)
            || ((has(self.workspace) ? self.workspace : self.apiExport.workspace) + ':')
            .startsWith(self.connection.server.split('/clusters/')[1].split('/')[0] + ':')
            """,
            "the workspace is neither the workspace of the server nor below it: write a path that starts with the"
            " workspace in connection.server",
        ),
    )

    connection: Annotated[
        ClusterConnection | None,
        Meta(
            description="The connection to the upstream: a kubeconfig, a token, or a SyncTarget of this namespace."
            " Default: this cluster."
        ),
    ] = None
    workspace: Annotated[
        WorkspacePath | None,
        Meta(
            description="The workspace of kcp, such as `root:team`: the workspace of the connection, or a workspace"
            " below it. Default: the workspace of the connection."
        ),
    ] = None
    api_export: Annotated[
        ApiExportRef | None,
        Meta(description="An APIExport of kcp. The sync follows all workspaces that are bound to it."),
    ] = None


class WorkspaceDownstream(Struct, frozen=True, kw_only=True, rename="camel"):
    """The clusters that objects are written to."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "(self.?syncTargets.orValue([]).size() > 0) != has(self.selector)",
            "write exactly one of syncTargets (names) and selector (labels of SyncTargets)",
        ),
        selects_some("selector", "an empty selector would select every cluster: write the labels of the SyncTargets"),
        ValidationRule(
            "!has(self.writer) || !has(self.syncTargets) || self.writer in self.syncTargets",
            "the writer is not one of the syncTargets: write the name of one of them, or add it to syncTargets",
            ".writer",
        ),
    )

    sync_targets: Annotated[
        list[ObjectName],
        Meta(
            max_length=100,
            description="The names of the SyncTargets.",
            extra_json_schema={"x-kubernetes-list-type": "set"},
        ),
    ] = field(default_factory=list)
    selector: Annotated[LabelSelector | None, Meta(description="Selects the SyncTargets by their labels.")] = None
    sync_target_namespace: Annotated[
        NamespaceName | None,
        Meta(
            description="The namespace of the SyncTargets. Default: the namespace of this object. A SyncTarget in"
            " another namespace must list the namespace of this object in `allowedNamespaces`."
        ),
    ] = None
    writer: Annotated[
        ObjectName | None,
        Meta(description="The SyncTarget whose edits are written upstream, if there are several SyncTargets."),
    ] = None


_DIRECTION = Meta(
    description="Down: the upstream is never written, except its status. Bidirectional: edits of the copy are also"
    " written upstream; this needs one SyncTarget or a `writer`."
)


class WorkspaceResource(Struct, frozen=True, kw_only=True, rename="camel"):
    """A resource that is synced."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            """
            !(self.resource == 'events' && self.group in ['', 'events.k8s.io'])
            && !(self.resource == 'leases' && self.group == 'coordination.k8s.io')
            """,
            "events and leases are never synced, because they describe their own cluster: remove this resource",
            ".resource",
        ),
        ValidationRule(
            """
            !(self.resource == 'endpoints' && self.group == '')
            && !(self.resource == 'endpointslices' && self.group == 'discovery.k8s.io')
            """,
            "Endpoints and EndpointSlices are never sent down: remove this resource, and write spec.endpoints: true to"
            " send them up",
            ".resource",
        ),
        ValidationRule(
            "!(self.resource == 'namespaces' && self.group == '')",
            "namespaces are created as needed: remove this resource, and select them with spec.namespaces",
            ".resource",
        ),
        selects_some("selector", "an empty selector selects every object: write labels, or remove selector"),
    )

    group: Annotated[Group, Meta(description='The API group, such as `apps`. `""`: the core group.')] = ""
    version: Annotated[VersionName, Meta(description="The version of the group, such as `v1`.")] = "v1"
    resource: Annotated[PluralName, Meta(description="The resource in plural, such as `deployments`.")]
    selector: Annotated[
        LabelSelector | None, Meta(description="Selects the objects by their labels. Default: all objects.")
    ] = None
    direction: Annotated[Direction, _DIRECTION] = "Down"
    conflict_strategy: Annotated[
        SpelledStrategy | None,
        Meta(description="The conflict strategy of this resource, instead of `spec.conflictStrategy`."),
    ] = None


DEFAULT_RESOURCES = (
    WorkspaceResource(group="apps", resource="deployments"),
    WorkspaceResource(resource="services"),
    WorkspaceResource(resource="configmaps"),
    WorkspaceResource(resource="secrets"),
)
_DEFAULT_NAMES = "['deployments.apps', 'services', 'configmaps', 'secrets']"


class NamespaceMapping(Struct, frozen=True, kw_only=True, rename="camel"):
    """The names of the downstream namespaces."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "[has(self.prefix), has(self.template), has(self.fixed)].exists_one(given, given)",
            "write exactly one of prefix, template and fixed; for the same names, remove mapping",
        ),
        ValidationRule(
            "!has(self.template) || self.template.contains('{{')",
            "a template needs an expression, such as {{ namespace }}: write fixed for one namespace",
            ".template",
        ),
        ValidationRule(
            "!self.?prefix.orValue('').startsWith('kube-') && !self.?fixed.orValue('').startsWith('kube-')"
            " && !self.?template.orValue('').startsWith('kube-')",
            "namespaces whose names start with kube- belong to the cluster and are never written: write another name",
        ),
    )

    prefix: Annotated[
        Annotated[
            str,
            text(
                r"^[a-z0-9][-a-z0-9]*$",
                'write the start of a name: lowercase letters, digits and "-", such as team-',
                max_length=62,
            ),
        ]
        | None,
        Meta(description="The downstream name is this text and the upstream name."),
    ] = None
    template: Annotated[
        Annotated[str, Meta(min_length=1, max_length=253)] | None,
        Meta(
            description="A template of the downstream name, such as `{{ workspace.name }}-{{ namespace }}`. It can use"
            " `workspace.path`, `workspace.name`, `workspace.cluster` and `namespace`. A name with more than 63"
            " characters is shortened and gets a hash."
        ),
    ] = None
    fixed: Annotated[NamespaceName | None, Meta(description="One namespace for all objects.")] = None


class WorkspaceNamespaces(Struct, frozen=True, kw_only=True, rename="camel"):
    """The upstream namespaces, and their names in the downstream clusters."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        selects_some("selector", "an empty selector selects every namespace: write labels, or remove selector"),
    )

    selector: Annotated[
        LabelSelector | None,
        Meta(
            description="Selects the upstream namespaces by their labels. Default: all. Namespaces `kube-*`,"
            " namespaces with the name of the operator's own and those with the label `syncline.dev/ignore` are never"
            " selected."
        ),
    ] = None
    mapping: Annotated[
        NamespaceMapping | None, Meta(description="The names of the downstream namespaces. Default: the same names.")
    ] = None
    existing: Annotated[
        ExistingNamespace,
        Meta(
            description="Decides what happens with a downstream namespace that this operator did not create. Refuse"
            " writes nothing to it. Use writes to it."
        ),
    ] = "Refuse"


_WINS = "['UpstreamWins', 'upstream-wins']"


class WorkspaceSyncSpec(SyncSpec, frozen=True, kw_only=True, rename="camel"):
    """The upstream, the downstream clusters and the policies of a WorkspaceSync."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            """
            !has(self.resources)
            || !self.resources.exists(one, one.direction == 'Bidirectional')
            || has(self.downstream.writer)
            || self.downstream.?syncTargets.orValue([]).size() == 1
            """,
            "direction: Bidirectional needs one SyncTarget that writes upward: name exactly one in"
            " downstream.syncTargets, or write downstream.writer",
            ".downstream.writer",
        ),
        ValidationRule(
            """
            self.resourceManagementPolicy != 'Keep'
            || !has(self.resources)
            || !self.resources.exists(one, one.direction == 'Bidirectional')
            """,
            "Bidirectional cannot be combined with Keep: write resourceManagementPolicy: Sync, Adopt or Overwrite, or"
            " direction: Down",
            ".resourceManagementPolicy",
        ),
        ValidationRule(
            """
            self.deletePropagation != 'Both'
            || has(self.resources) && self.resources.exists(one, one.direction == 'Bidirectional')
            """,
            "deletePropagation: Both deletes upstream, and no resource may write there: write direction: Bidirectional"
            " for a resource, or deletePropagation: Down",
            ".deletePropagation",
        ),
        ValidationRule(
            f"""
            !self.exact
            || self.conflictStrategy in {_WINS}
            || has(self.resources)
            && self.resources.exists(one, has(one.conflictStrategy) && one.conflictStrategy in {_WINS})
            """,
            "exact is a part of UpstreamWins: write conflictStrategy: UpstreamWins, or remove exact",
            ".exact",
        ),
        ValidationRule(
            f"""
            !has(self.transforms)
            || self.transforms.all(change, has(self.resources)
            ? self.resources.exists(one,
            change.resource == (one.group == '' ? one.resource : one.resource + '.' + one.group))
            : change.resource in {_DEFAULT_NAMES})
            """,
            "a transform changes a resource that this sync does not have: add it to resources, or correct the"
            " transform, such as deployments.apps",
            ".transforms",
        ),
        ValidationRule(
            "!self.endpoints || !has(self.upstream) || !has(self.upstream.apiExport)",
            "Endpoints are written to one upstream, and an APIExport has several: write upstream.workspace, or remove"
            " endpoints",
            ".endpoints",
        ),
        ValidationRule(
            "!has(self.upstream) || !has(self.upstream.apiExport) || has(self.upstream.connection)",
            "an APIExport is in a workspace of kcp: write upstream.connection, such as a kubeconfig of that workspace",
            ".upstream.connection",
        ),
        ValidationRule(
            """
            !has(self.upstream) || !has(self.upstream.apiExport)
            || !has(self.namespaces) || !has(self.namespaces.mapping) || !has(self.namespaces.mapping.template)
            || self.namespaces.mapping.template.contains('workspace.')
            """,
            "workspaces can have namespaces of the same name: use workspace.name or workspace.cluster in the template",
            ".namespaces.mapping.template",
        ),
        ValidationRule(
            """
            !has(self.upstream) || !has(self.upstream.connection) || !has(self.upstream.connection.syncTargetRef)
            || has(self.upstream.workspace) || has(self.upstream.apiExport)
            || has(self.namespaces) && has(self.namespaces.mapping)
            || has(self.downstream.syncTargetNamespace) || !has(self.downstream.syncTargets)
            || !(self.upstream.connection.syncTargetRef.name in self.downstream.syncTargets)
            """,
            "upstream and downstream are the same cluster with the same names: write another SyncTarget, or"
            " namespaces.mapping",
            ".downstream.syncTargets",
        ),
    )

    upstream: Annotated[
        WorkspaceUpstream, Meta(description="The cluster or workspace that objects come from. Default: this cluster.")
    ] = field(default_factory=WorkspaceUpstream)
    downstream: Annotated[WorkspaceDownstream, Meta(description="The clusters that objects are written to.")]
    resources: Annotated[
        list[WorkspaceResource],
        Meta(
            max_length=50,
            description="The resources that are synced. Default: `deployments.apps`, `services`, `configmaps` and"
            " `secrets`. The sync reports a resource that the upstream does not serve.",
            extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["group", "resource"]},
        ),
    ] = field(default_factory=list)
    namespaces: Annotated[
        WorkspaceNamespaces,
        Meta(description="The upstream namespaces, and their names downstream. Default: all, with the same names."),
    ] = field(default_factory=WorkspaceNamespaces)
    conflict_strategy: Annotated[
        SpelledStrategy,
        Meta(
            description="Decides what happens with edits of a copy. UpstreamWins reverts them. DownstreamWins keeps"
            " them. LastWriteWins keeps the later edit. MergeChanges keeps edits of paths that did not change"
            " upstream. Skip keeps them and reports them. `upstream-wins`, `last-write-wins` and `merge-changes` are"
            " other spellings."
        ),
    ] = "UpstreamWins"
    on_conflict: Annotated[
        OnConflict,
        Meta(
            description="For MergeChanges: decides what happens with a path that changed on both sides. Report keeps"
            " both values until the annotation `syncline.dev/resolve: Upstream` or `Downstream` of the object decides."
        ),
    ] = "UpstreamWins"
    exact: Annotated[
        bool, Meta(description="If true, UpstreamWins also removes fields of a copy that the upstream never set.")
    ] = False
    transforms: Annotated[
        list[ObjectTransform],
        Meta(
            max_length=50,
            description="Changes of the copies, applied in order. Paths that a transform writes are never written"
            " upstream.",
        ),
    ] = field(default_factory=list)
    status_sync: Annotated[
        bool | None,
        Meta(
            description="If true, the status of the copies is written upstream. Default: true for a workspace, false"
            " for a plain cluster, where controllers write the status."
        ),
    ] = None
    endpoints: Annotated[bool, Meta(description="If true, Endpoints and EndpointSlices are written upstream.")] = False
    retry: Annotated[ConflictRetry, Meta(description="The attempts after a write conflict.")] = field(
        default_factory=ConflictRetry
    )
    placement: Annotated[
        WorkspacePlacement,
        Meta(description="Decides which SyncTargets receive an upstream namespace. Default: all of them."),
    ] = field(default_factory=WorkspacePlacement)
    delete_propagation: Annotated[
        DeletePropagation,
        Meta(
            description="Decides what happens after a deletion. Down deletes the copies of a deleted upstream object."
            " Both also deletes the upstream object of a deleted copy, for Bidirectional resources. None deletes"
            " nothing."
        ),
    ] = "Down"


def resources_of(spec: WorkspaceSyncSpec) -> tuple[WorkspaceResource, ...]:
    """Return the resources that a spec asks for: its own, or the default resources. Pure."""
    return tuple(spec.resources) or DEFAULT_RESOURCES


def strategy_of(spec: WorkspaceSyncSpec, resource: WorkspaceResource) -> ConflictStrategy:
    """Return the conflict strategy of a resource. Pure."""
    return conflict_strategy(resource.conflict_strategy or spec.conflict_strategy)


class WorkspaceSync(Struct, kw_only=True, rename="camel"):
    """Copies objects of a cluster or workspace to other clusters, and reports their status back."""

    metadata: ObjectMeta
    spec: WorkspaceSyncSpec
    status: WorkspaceSyncStatus = field(default_factory=WorkspaceSyncStatus)
    api_version: str = API_VERSION
    kind: str = KIND
