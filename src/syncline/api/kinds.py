"""The kinds of Syncline, and the parts of their CRDs that are not in the schemas.

A new kind needs a module with its types and one entry here. The CRD, the roles and the reference are generated from
them.
"""

from msgspec import Struct

from syncline.api import (
    configmapsync,
    configsync,
    ignition_status,
    ignitionsync,
    manifestsync,
    synctarget,
    tenantpolicy,
    workspace_status,
    workspacesync,
)
from syncline.api.common import GROUP


class Column(Struct, frozen=True):
    """One column of `kubectl get`. A column with priority 1 appears only with `-o wide`."""

    name: str
    path: str
    description: str
    type: str = "string"
    priority: int = 0


class Kind(Struct, frozen=True, kw_only=True):
    """One kind: its names, its types and its columns."""

    kind: str
    plural: str
    singular: str
    short_names: tuple[str, ...]
    object: type
    spec: type
    status: type
    columns: tuple[Column, ...]
    namespaced: bool = True

    @property
    def crd_name(self) -> str:
        """The name of the CustomResourceDefinition."""
        return f"{self.plural}.{GROUP}"


_READY = '.status.conditions[?(@.type=="Ready")]'
_ALL_SYNCED = '.status.conditions[?(@.type=="AllGatewaysSynced")]'
_OUTCOME = (
    Column(
        "Targets",
        ".status.targets.summary",
        "The targets that equal the source, and all targets that the spec selects.",
    ),
    Column("Ready", f"{_READY}.status", "Whether all targets equal the source."),
    Column("Reason", f"{_READY}.reason", "Why."),
    Column("Age", ".metadata.creationTimestamp", "The age of the sync.", type="date"),
)

CONFIG_MAP_SYNC = Kind(
    kind=configmapsync.KIND,
    plural=configmapsync.PLURAL,
    singular="configmapsync",
    short_names=("cms",),
    object=configmapsync.ConfigMapSync,
    spec=configmapsync.ConfigMapSyncSpec,
    status=configmapsync.ConfigMapSyncStatus,
    columns=(
        Column("Source", ".spec.sourceNamespace", "The namespace of the source."),
        Column("ConfigMap", ".spec.configMapName", "The name of the source."),
        *_OUTCOME,
    ),
)

MANIFEST_SYNC = Kind(
    kind=manifestsync.KIND,
    plural=manifestsync.PLURAL,
    singular="manifestsync",
    short_names=("msync",),
    object=manifestsync.ManifestSync,
    spec=manifestsync.ManifestSyncSpec,
    status=manifestsync.ManifestSyncStatus,
    columns=(
        Column("Kind", ".spec['sourceRef','sourceRefs']..kind", "The kind of the first source."),
        Column(
            "Source",
            ".spec['sourceRef','sourceRefs']..name",
            "The name of the first source that has a name.",
        ),
        *_OUTCOME,
    ),
)

CONFIG_SYNC = Kind(
    kind=configsync.KIND,
    plural=configsync.PLURAL,
    singular="configsync",
    short_names=("csync",),
    object=configsync.ConfigSync,
    spec=configsync.ConfigSyncSpec,
    status=configsync.ConfigSyncStatus,
    columns=(
        Column("Repository", ".spec['source','sources']..repo", "The first repository."),
        Column("Revision", ".status.sourceRevision", "The applied revision."),
        *_OUTCOME,
    ),
)

WORKSPACE_SYNC = Kind(
    kind=workspacesync.KIND,
    plural=workspacesync.PLURAL,
    singular="workspacesync",
    short_names=("wss",),
    object=workspacesync.WorkspaceSync,
    spec=workspacesync.WorkspaceSyncSpec,
    status=workspace_status.WorkspaceSyncStatus,
    columns=(
        Column("Upstream", ".spec.upstream..workspace", "The upstream workspace, or the workspace of the APIExport."),
        *_OUTCOME,
    ),
)

IGNITION_SYNC = Kind(
    kind=ignitionsync.KIND,
    plural=ignitionsync.PLURAL,
    singular="ignitionsync",
    short_names=("isync", "igs"),
    object=ignitionsync.IgnitionSync,
    spec=ignitionsync.IgnitionSyncSpec,
    status=ignition_status.IgnitionSyncStatus,
    columns=(
        Column("Ref", ".status.lastSyncRef", "The ref that gateways follow."),
        Column("Synced", f"{_ALL_SYNCED}.status", "Whether all gateways have the commit."),
        Column("Gateways", f"{_ALL_SYNCED}.message", "The gateways that have the commit, and all gateways."),
        Column("Ready", f"{_READY}.status", "Whether the ref is resolved and all gateways have its files."),
        Column("Age", ".metadata.creationTimestamp", "The age of the sync.", type="date"),
        Column("Reason", f"{_READY}.reason", "Why.", priority=1),
        Column("Commit", ".status.lastSyncCommitShort", "The commit of the ref.", priority=1),
    ),
)

SYNC_TARGET = Kind(
    kind=synctarget.KIND,
    plural=synctarget.PLURAL,
    singular="synctarget",
    short_names=("st",),
    object=synctarget.SyncTarget,
    spec=synctarget.SyncTargetSpec,
    status=synctarget.SyncTargetStatus,
    columns=(
        Column("Ready", f"{_READY}.status", "Whether the operator can connect to the cluster and write to it."),
        Column("Reason", f"{_READY}.reason", "Why."),
        Column("Version", ".status.version", "The Kubernetes version of the cluster."),
        Column("Expires", ".status.credentialExpiry", "The time when the credential expires.", type="date"),
        Column("Age", ".metadata.creationTimestamp", "The age of the SyncTarget.", type="date"),
    ),
)

TENANT_POLICY = Kind(
    kind=tenantpolicy.KIND,
    plural=tenantpolicy.PLURAL,
    singular="tenantpolicy",
    short_names=("tp",),
    object=tenantpolicy.TenantPolicy,
    spec=tenantpolicy.TenantPolicySpec,
    status=tenantpolicy.TenantPolicyStatus,
    namespaced=False,
    columns=(
        Column("Namespaces", ".status.namespaces", "The number of namespaces that the policy selects.", type="integer"),
        Column("Syncs", ".status.syncs", "The number of syncs in these namespaces.", type="integer"),
        Column("Ready", f"{_READY}.status", "Whether the policy is in force."),
        Column("Reason", f"{_READY}.reason", "Why."),
        Column("Age", ".metadata.creationTimestamp", "The age of the policy.", type="date"),
    ),
)

KINDS = (CONFIG_MAP_SYNC, MANIFEST_SYNC, CONFIG_SYNC, WORKSPACE_SYNC, IGNITION_SYNC, SYNC_TARGET)
"""The namespaced kinds, which tenants create."""
ALL_KINDS = (*KINDS, TENANT_POLICY)
