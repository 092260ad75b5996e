"""ManifestSync: copies of objects of any kind in other namespaces and clusters."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field

from syncline.api.common import API_VERSION, LabelSelector, ManagementPolicy, ObjectMeta, Timestamp
from syncline.api.connection import AUTHORITIES, OWN_NAMES, NamedCluster
from syncline.api.content import DataKey, Keys, Transform
from syncline.api.duration import Duration
from syncline.api.names import (
    AnyName,
    ApiVersion,
    KindName,
    MetadataKeyPattern,
    NamespaceName,
    NamespacePattern,
    ObjectName,
)
from syncline.api.policies import CopySpec
from syncline.api.rules import ValidationRule
from syncline.api.status import RemoteSyncStatus

KIND = "ManifestSync"
PLURAL = "manifestsyncs"

PatchStrategy = Literal["Merge", "JSONPatch", "Replace"]
SyncMode = Literal["Immediate", "Interval"]


class ManifestSourceRef(Struct, frozen=True, kw_only=True, rename="camel"):
    """One object, or all objects of a kind with some labels."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "has(self.name) != has(self.selector)",
            "a source needs exactly one of name and selector: write name for one object, or selector for objects with"
            " some labels",
        ),
        ValidationRule(
            """
            !has(self.selector)
            || self.selector.?matchLabels.orValue({}).size() > 0
            || self.selector.?matchExpressions.orValue([]).size() > 0
            """,
            "an empty selector would select every object: write the labels of the source objects",
            ".selector",
        ),
    )

    api_version: Annotated[ApiVersion, Meta(description="The apiVersion of the source, such as `v1` or `apps/v1`.")]
    kind: Annotated[KindName, Meta(description="The kind of the source. It can be any kind that the cluster serves.")]
    name: Annotated[AnyName | None, Meta(description="The name of the source.")] = None
    namespace: Annotated[
        NamespaceName | None,
        Meta(
            description="The namespace of the source. Default: the namespace of the sync. Not used for cluster-scoped"
            " kinds."
        ),
    ] = None
    selector: Annotated[
        LabelSelector | None,
        Meta(description="Selects all objects of the kind with these labels. Only in `sourceRefs`."),
    ] = None


class PatchContentRef(Struct, frozen=True, kw_only=True, rename="camel"):
    """A key of a ConfigMap or Secret in the namespace of the sync."""

    kind: Annotated[
        Literal["ConfigMap", "Secret"], Meta(description="The kind of the object that contains the patch.")
    ] = "ConfigMap"
    name: Annotated[ObjectName, Meta(description="The name of the object.")]
    key: Annotated[DataKey, Meta(description="The key that contains the patch.")]


class Patch(Struct, frozen=True, kw_only=True, rename="camel"):
    """A patch of the copies."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "has(self.patchContent) != has(self.patchContentRef)",
            "write exactly one of patchContent and patchContentRef",
        ),
    )

    patch_strategy: Annotated[
        PatchStrategy,
        Meta(
            description="Merge: a JSON merge patch. JSONPatch: a list of JSON patch operations. Replace: the patch"
            " replaces whole top-level fields. The name and the namespace stay."
        ),
    ] = "Merge"
    patch_content: Annotated[
        Annotated[str, Meta(min_length=1, max_length=262144)] | None,
        Meta(description="The patch, as YAML or JSON. It can use `{{ target.* }}` and `{{ source.* }}`."),
    ] = None
    patch_content_ref: Annotated[
        PatchContentRef | None,
        Meta(description="The ConfigMap or Secret that contains the patch, in the namespace of the sync."),
    ] = None


_NAMESPACES = Meta(max_length=1000, description="The namespaces to write copies to: names, or globs with `*` and `?`.")
_NAMESPACE_SELECTOR = Meta(description="Selects the namespaces to write copies to, by their labels.")
_POLICY = Meta(description="The management policy of these targets, instead of `spec.resourceManagementPolicy`.")
_PATCH = Meta(description="The patch of these copies, instead of `spec.patch`.")
_SELECTS_SOME = ValidationRule(
    """
    !has(self.namespaceSelector)
    || self.namespaceSelector.?matchLabels.orValue({}).size() > 0
    || self.namespaceSelector.?matchExpressions.orValue([]).size() > 0
    """,
    'an empty selector would select every namespace: write labels, or namespaces: ["*"]',
    ".namespaceSelector",
)


class InCluster(Struct, frozen=True, kw_only=True, rename="camel"):
    """Copies in this cluster. Without namespaces and selector: in the namespace of the source, with another name."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (_SELECTS_SOME,)

    namespaces: Annotated[list[NamespacePattern], _NAMESPACES] = field(default_factory=list)
    namespace_selector: Annotated[LabelSelector | None, _NAMESPACE_SELECTOR] = None
    resource_management_policy: Annotated[ManagementPolicy | None, _POLICY] = None
    patch: Annotated[Patch | None, _PATCH] = None


class RemoteClusterTarget(NamedCluster, frozen=True, kw_only=True, rename="camel"):
    """Copies in another cluster. Without namespaces and selector: in a namespace named like the source's."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (_SELECTS_SOME, *NamedCluster.RULES)

    namespaces: Annotated[list[NamespacePattern], _NAMESPACES] = field(default_factory=list)
    namespace_selector: Annotated[LabelSelector | None, _NAMESPACE_SELECTOR] = None
    resource_management_policy: Annotated[ManagementPolicy | None, _POLICY] = None
    patch: Annotated[Patch | None, _PATCH] = None


class Targets(Struct, frozen=True, kw_only=True, rename="camel"):
    """The places of the copies."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "has(self.inCluster) || self.?remoteClusters.orValue([]).size() > 0",
            "no target: write inCluster or remoteClusters",
        ),
        OWN_NAMES,
        AUTHORITIES,
    )

    in_cluster: Annotated[InCluster | None, Meta(description="The copies in this cluster.")] = None
    remote_clusters: Annotated[
        list[RemoteClusterTarget], Meta(max_length=50, description="The copies in other clusters, at most 50 entries.")
    ] = field(default_factory=list)


class SyncPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """The time of a reconcile."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "self.mode != 'Interval' || has(self.interval)",
            "mode: Interval needs an interval: write interval, such as 10m",
            ".interval",
        ),
        ValidationRule(
            "self.mode == 'Interval' || !has(self.interval)",
            "interval needs mode: Interval: write mode: Interval, or remove interval",
            ".interval",
        ),
    )

    mode: Annotated[
        SyncMode,
        Meta(
            description="Immediate: the sync is reconciled as soon as an object changes. Interval: the sync is"
            " reconciled every `interval`, also to repair drift and to prune."
        ),
    ] = "Immediate"
    interval: Annotated[
        Duration | None, Meta(description="The time between two reconciles, such as `10m`. At least `10s`.")
    ] = None


class Selection(Struct, frozen=True, kw_only=True, rename="camel"):
    """Selects the labels or annotations that are copied, by key."""

    include: Annotated[
        list[MetadataKeyPattern],
        Meta(
            max_length=100,
            description="Globs of keys that are copied even if another tool uses them to track objects. All other"
            " keys are copied by default.",
        ),
    ] = field(default_factory=list)
    exclude: Annotated[
        list[MetadataKeyPattern], Meta(max_length=100, description="Globs of keys that are not copied.")
    ] = field(default_factory=list)


class ReplicationOptions(Struct, frozen=True, kw_only=True, rename="camel"):
    """Selects the metadata that is copied."""

    labels: Annotated[
        Selection | None,
        Meta(
            description="The labels that are copied. Default: all, except labels that other tools use to track their"
            " objects."
        ),
    ] = None
    annotations: Annotated[
        Selection | None,
        Meta(
            description="The annotations that are copied. Default: all, except annotations that other tools use to"
            " track their objects."
        ),
    ] = None


class ManifestSyncSpec(CopySpec, frozen=True, kw_only=True, rename="camel"):
    """The sources, the targets and the policies of a ManifestSync."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "has(self.sourceRef) != (self.?sourceRefs.orValue([]).size() > 0)",
            "write exactly one of sourceRef (one object) and sourceRefs (several objects, or objects with some labels)",
        ),
        ValidationRule(
            "!has(self.sourceRef) || !has(self.sourceRef.selector)",
            "sourceRef names one object: write name, or move the selector to sourceRefs",
            ".sourceRef",
        ),
        ValidationRule(
            """
            !has(self.keys) && self.?transforms.orValue([]).size() == 0
            || (!has(self.sourceRef)
            || self.sourceRef.apiVersion == 'v1' && self.sourceRef.kind in ['ConfigMap', 'Secret'])
            && (!has(self.sourceRefs)
            || self.sourceRefs.all(ref, ref.apiVersion == 'v1' && ref.kind in ['ConfigMap', 'Secret']))
            """,
            "keys and transforms work only for ConfigMaps and Secrets of v1: write patch for other kinds",
        ),
        ValidationRule(
            # If a source names no namespace, only the operator knows the namespace.
            """
            !has(self.targets.inCluster)
            || self.targets.?remoteClusters.orValue([]).size() > 0
            || has(self.targets.inCluster.namespaceSelector)
            || has(self.targetName) && self.targetName != self.?sourceRef.name.orValue('')
            || has(self.targets.inCluster.namespaces) && self.targets.inCluster.namespaces.exists(name,
            has(self.sourceRef) && self.sourceRef.?__namespace__.orValue('') != name
            || has(self.sourceRefs) && self.sourceRefs.exists(ref, ref.?__namespace__.orValue('') != name))
            """,
            "the only target is the source itself: name another namespace or cluster, or write a different targetName",
            ".targets",
        ),
    )

    source_ref: Annotated[ManifestSourceRef | None, Meta(description="The object to copy.")] = None
    source_refs: Annotated[
        list[ManifestSourceRef], Meta(max_length=50, description="The objects to copy, selected by name or by labels.")
    ] = field(default_factory=list)
    targets: Annotated[Targets, Meta(description="The clusters and namespaces to write copies to.")]
    sync_policy: Annotated[
        SyncPolicy, Meta(description="The time of a reconcile. Default: immediately after a change.")
    ] = field(default_factory=SyncPolicy)
    patch: Annotated[Patch | None, Meta(description="A patch that is applied to every copy.")] = None
    keys: Annotated[
        Keys | None,
        Meta(
            description="Selects and renames the keys that are copied, for ConfigMaps and Secrets. Default: all keys,"
            " with their names."
        ),
    ] = None
    transforms: Annotated[
        list[Transform],
        Meta(
            max_length=50, description="Changes of values in the copies, for ConfigMaps and Secrets, applied in order."
        ),
    ] = field(default_factory=list)
    target_name: Annotated[
        Annotated[str, Meta(min_length=1, max_length=253)] | None,
        Meta(
            description="The name of the copies, as a template. It can use `{{ target.* }}` and `{{ source.* }}`."
            " Default: the name of the source."
        ),
    ] = None
    replication_options: Annotated[
        ReplicationOptions, Meta(description="Selects the labels and annotations that are copied.")
    ] = field(default_factory=ReplicationOptions)


class SourceObservedState(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The source that the operator last read. If there are several sources, the first one."""

    uid: Annotated[str, Meta(max_length=128, description="The UID of the source.")] = ""
    generation: Annotated[int, Meta(ge=0, description="The generation of the source, if its kind has one.")] = 0
    resource_version: Annotated[str, Meta(max_length=128, description="The resourceVersion of the source.")] = ""


class ManifestSyncStatus(RemoteSyncStatus, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The observed state of the sync."""

    last_successful_sync_time: Annotated[
        Timestamp | None, Meta(description="The last time when all targets became equal to the source.")
    ] = None
    source_observed_state: Annotated[
        SourceObservedState | None,
        Meta(description="The source that the operator last read. If there are several sources, the first one."),
    ] = None


class ManifestSync(Struct, kw_only=True, rename="camel"):
    """Copies objects of any kind to other namespaces and clusters and keeps the copies equal to the sources."""

    metadata: ObjectMeta
    spec: ManifestSyncSpec
    status: ManifestSyncStatus = field(default_factory=ManifestSyncStatus)
    api_version: str = API_VERSION
    kind: str = KIND
