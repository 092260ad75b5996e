"""ManifestSync: this object, or this set, in those namespaces and clusters."""

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
from syncline.api.rules import Rule
from syncline.api.status import RemoteSyncStatus

KIND = "ManifestSync"
PLURAL = "manifestsyncs"

PatchStrategy = Literal["Merge", "JSONPatch", "Replace"]
SyncMode = Literal["Immediate", "Interval"]


class SourceRef(Struct, frozen=True, kw_only=True, rename="camel"):
    """One object, or all of a kind that have some labels."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.name) != has(self.selector)",
            "a source is one object or those with some labels: write exactly one of name and selector",
        ),
        Rule(
            """
            !has(self.selector)
            || self.selector.?matchLabels.orValue({}).size() > 0
            || self.selector.?matchExpressions.orValue([]).size() > 0
            """,
            "an empty selector would select every object: write the labels of those that you mean",
            ".selector",
        ),
    )

    api_version: Annotated[ApiVersion, Meta(description="The source's apiVersion, such as `v1` or `apps/v1`.")]
    kind: Annotated[KindName, Meta(description="The source's kind; any that the cluster serves.")]
    name: Annotated[AnyName | None, Meta(description="The source's name.")] = None
    namespace: Annotated[
        NamespaceName | None,
        Meta(description="The source's namespace; default: the sync's. Not used for kinds that are in none."),
    ] = None
    selector: Annotated[
        LabelSelector | None, Meta(description="In `sourceRefs`: all objects of the kind with these labels.")
    ] = None


class PatchContentRef(Struct, frozen=True, kw_only=True, rename="camel"):
    """A key of a ConfigMap or Secret of the sync's namespace."""

    kind: Annotated[Literal["ConfigMap", "Secret"], Meta(description="What holds the patch.")] = "ConfigMap"
    name: Annotated[ObjectName, Meta(description="Its name.")]
    key: Annotated[DataKey, Meta(description="The key with the patch.")]


class Patch(Struct, frozen=True, kw_only=True, rename="camel"):
    """A change to what is copied."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.patchContent) != has(self.patchContentRef)",
            "write exactly one of patchContent and patchContentRef",
        ),
    )

    patch_strategy: Annotated[
        PatchStrategy,
        Meta(
            description="Merge: a JSON merge patch. JSONPatch: a list of operations. Replace: the given top-level keys"
            " are replaced; name and namespace stay."
        ),
    ] = "Merge"
    patch_content: Annotated[
        Annotated[str, Meta(min_length=1, max_length=262144)] | None,
        Meta(description="The patch as YAML or JSON; may use `{{ target.* }}` and `{{ source.* }}`."),
    ] = None
    patch_content_ref: Annotated[
        PatchContentRef | None, Meta(description="The patch in a ConfigMap or Secret of the sync's namespace.")
    ] = None


_NAMESPACES = Meta(max_length=1000, description="Namespaces to copy into: names, or globs with `*` and `?`.")
_NAMESPACE_SELECTOR = Meta(description="Copy into the namespaces with these labels.")
_POLICY = Meta(description="Overrides `spec.resourceManagementPolicy` here.")
_PATCH = Meta(description="Replaces `spec.patch` here.")
_SELECTS_SOME = Rule(
    """
    !has(self.namespaceSelector)
    || self.namespaceSelector.?matchLabels.orValue({}).size() > 0
    || self.namespaceSelector.?matchExpressions.orValue([]).size() > 0
    """,
    'an empty selector would select every namespace: if you mean that, write namespaces: ["*"]',
    ".namespaceSelector",
)


class InCluster(Struct, frozen=True, kw_only=True, rename="camel"):
    """Copies in this cluster. With neither namespaces nor a selector: beside the source, under another name."""

    RULES: ClassVar[tuple[Rule, ...]] = (_SELECTS_SOME,)

    namespaces: Annotated[list[NamespacePattern], _NAMESPACES] = field(default_factory=list)
    namespace_selector: Annotated[LabelSelector | None, _NAMESPACE_SELECTOR] = None
    resource_management_policy: Annotated[ManagementPolicy | None, _POLICY] = None
    patch: Annotated[Patch | None, _PATCH] = None


class RemoteCluster(NamedCluster, frozen=True, kw_only=True, rename="camel"):
    """Copies in another cluster. With neither namespaces nor a selector: in the source's namespace there."""

    RULES: ClassVar[tuple[Rule, ...]] = (_SELECTS_SOME, *NamedCluster.RULES)

    namespaces: Annotated[list[NamespacePattern], _NAMESPACES] = field(default_factory=list)
    namespace_selector: Annotated[LabelSelector | None, _NAMESPACE_SELECTOR] = None
    resource_management_policy: Annotated[ManagementPolicy | None, _POLICY] = None
    patch: Annotated[Patch | None, _PATCH] = None


class Targets(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where the copies are."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.inCluster) || self.?remoteClusters.orValue([]).size() > 0",
            "no target: write inCluster or remoteClusters",
        ),
        OWN_NAMES,
        AUTHORITIES,
    )

    in_cluster: Annotated[InCluster | None, Meta(description="Copies in this cluster.")] = None
    remote_clusters: Annotated[
        list[RemoteCluster], Meta(max_length=50, description="Copies in other clusters, at most 50 entries.")
    ] = field(default_factory=list)


class SyncPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """When to act."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.mode != 'Interval' || has(self.interval)", "mode Interval needs an interval, such as 10m", ".interval"
        ),
        Rule(
            "self.mode == 'Interval' || !has(self.interval)",
            "interval is for mode: Interval; write that, or leave interval out",
            ".interval",
        ),
    )

    mode: Annotated[
        SyncMode,
        Meta(
            description="Immediate: as soon as something changes. Interval: every `interval`; repair of drift and"
            " pruning wait for it too."
        ),
    ] = "Immediate"
    interval: Annotated[Duration | None, Meta(description="How often, such as `10m`; at least `10s`.")] = None


class Selection(Struct, frozen=True, kw_only=True, rename="camel"):
    """Which keys of labels or annotations are copied."""

    include: Annotated[
        list[MetadataKeyPattern],
        Meta(
            max_length=100,
            description="Keys, as globs, that are copied though they are a tool's; those that are safe to copy are"
            " copied anyway.",
        ),
    ] = field(default_factory=list)
    exclude: Annotated[
        list[MetadataKeyPattern], Meta(max_length=100, description="Not keys that match one of these.")
    ] = field(default_factory=list)


class ReplicationOptions(Struct, frozen=True, kw_only=True, rename="camel"):
    """What of the metadata is copied."""

    labels: Annotated[
        Selection | None,
        Meta(description="Which labels; default: all but those by which other tools know what is theirs."),
    ] = None
    annotations: Annotated[
        Selection | None,
        Meta(description="Which annotations; default: all but those by which other tools know what is theirs."),
    ] = None


class ManifestSyncSpec(CopySpec, frozen=True, kw_only=True, rename="camel"):
    """What should agree with what."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.sourceRef) != (self.?sourceRefs.orValue([]).size() > 0)",
            "write exactly one of sourceRef (one object) and sourceRefs (several, or by labels)",
        ),
        Rule(
            "!has(self.sourceRef) || !has(self.sourceRef.selector)",
            "sourceRef is one object: write its name, or put the selector into sourceRefs",
            ".sourceRef",
        ),
        Rule(
            """
            !has(self.keys) && self.?transforms.orValue([]).size() == 0
            || (!has(self.sourceRef)
            || self.sourceRef.apiVersion == 'v1' && self.sourceRef.kind in ['ConfigMap', 'Secret'])
            && (!has(self.sourceRefs)
            || self.sourceRefs.all(ref, ref.apiVersion == 'v1' && ref.kind in ['ConfigMap', 'Secret']))
            """,
            "keys and transforms are for ConfigMaps and Secrets of v1: use patch for other kinds",
        ),
        Rule(
            # Where a source names no namespace, only the operator knows which it is in.
            """
            !has(self.targets.inCluster)
            || self.targets.?remoteClusters.orValue([]).size() > 0
            || has(self.targets.inCluster.namespaceSelector)
            || has(self.targetName) && self.targetName != self.?sourceRef.name.orValue('')
            || has(self.targets.inCluster.namespaces) && self.targets.inCluster.namespaces.exists(name,
            has(self.sourceRef) && self.sourceRef.?__namespace__.orValue('') != name
            || has(self.sourceRefs) && self.sourceRefs.exists(ref, ref.?__namespace__.orValue('') != name))
            """,
            "the only target is the source itself: name another namespace or cluster,"
            " or write targetName to copy under another name",
            ".targets",
        ),
    )

    source_ref: Annotated[SourceRef | None, Meta(description="The one object to copy.")] = None
    source_refs: Annotated[
        list[SourceRef], Meta(max_length=50, description="Several objects to copy, by name or by labels.")
    ] = field(default_factory=list)
    targets: Annotated[Targets, Meta(description="Where the copies are.")]
    sync_policy: Annotated[SyncPolicy, Meta(description="When to act; default: at once.")] = field(
        default_factory=SyncPolicy
    )
    patch: Annotated[Patch | None, Meta(description="A change to what is copied.")] = None
    keys: Annotated[
        Keys | None, Meta(description="For ConfigMaps and Secrets: which keys are copied; default: all.")
    ] = None
    transforms: Annotated[
        list[Transform],
        Meta(max_length=50, description="For ConfigMaps and Secrets: changes to values, in order."),
    ] = field(default_factory=list)
    target_name: Annotated[
        Annotated[str, Meta(min_length=1, max_length=253)] | None,
        Meta(
            description="The name of the copies; a template that may use `{{ target.* }}` and `{{ source.* }}`;"
            " default: the source's name."
        ),
    ] = None
    replication_options: Annotated[ReplicationOptions, Meta(description="Which labels and annotations are copied.")] = (
        field(default_factory=ReplicationOptions)
    )


class SourceObservedState(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The source, as last read; of several, the first."""

    uid: Annotated[str, Meta(max_length=128, description="The source's UID.")] = ""
    generation: Annotated[int, Meta(ge=0, description="The source's generation, where its kind has one.")] = 0
    resource_version: Annotated[str, Meta(max_length=128, description="The source's resourceVersion.")] = ""


class ManifestSyncStatus(RemoteSyncStatus, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What is so, as of `observedGeneration`."""

    last_successful_sync_time: Annotated[
        Timestamp | None, Meta(description="When all targets last came to agree with the source.")
    ] = None
    source_observed_state: Annotated[
        SourceObservedState | None, Meta(description="The source, as last read; of several, the first.")
    ] = None


class ManifestSync(Struct, kw_only=True, rename="camel"):
    """Copies objects of any kind into other namespaces and clusters and keeps the copies equal to them."""

    metadata: ObjectMeta
    spec: ManifestSyncSpec
    status: ManifestSyncStatus = field(default_factory=ManifestSyncStatus)
    api_version: str = API_VERSION
    kind: str = KIND
