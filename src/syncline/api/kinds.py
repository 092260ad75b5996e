"""The kinds of Syncline, and the parts of their CRDs that are not in the schemas.

A new kind needs a module with its types and one entry here. The CRD, the roles and the reference are generated from
them.
"""

from msgspec import Struct

from syncline.api import configmapsync, configsync, manifestsync, synctarget, tenantpolicy
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

KINDS = (CONFIG_MAP_SYNC, MANIFEST_SYNC, CONFIG_SYNC, SYNC_TARGET)
"""The namespaced kinds, which tenants create."""
ALL_KINDS = (*KINDS, TENANT_POLICY)
