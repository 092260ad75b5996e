"""The kinds that Syncline serves, and what a CRD says of each beside its schema.

A new kind is a module with its types and one entry here; CRD, roles and reference follow from it.
"""

from msgspec import Struct

from syncline.api import configmapsync, configsync, manifestsync, synctarget, tenantpolicy
from syncline.api.common import GROUP


class Column(Struct, frozen=True):
    """One column of `kubectl get`; priority 1 shows only with `-o wide`."""

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
    Column("Targets", ".status.targets.summary", "Targets that agree with the source, of all that the spec asks for."),
    Column("Ready", f"{_READY}.status", "Whether all targets agree with the source."),
    Column("Reason", f"{_READY}.reason", "Why."),
    Column("Age", ".metadata.creationTimestamp", "How long the sync exists.", type="date"),
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
        Column("Kind", ".spec['sourceRef','sourceRefs']..kind", "The kind of the source; of several, of the first."),
        Column(
            "Source",
            ".spec['sourceRef','sourceRefs']..name",
            "The name of the source; of several, of the first that is named.",
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
        Column("Repository", ".spec['source','sources']..repo", "The repository; of several, the first."),
        Column("Revision", ".status.sourceRevision", "The commit that was applied."),
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
        Column("Ready", f"{_READY}.status", "Whether the cluster can be reached and written to."),
        Column("Reason", f"{_READY}.reason", "Why."),
        Column("Version", ".status.version", "The version of Kubernetes there."),
        Column("Expires", ".status.credentialExpiry", "When the credential ends.", type="date"),
        Column("Age", ".metadata.creationTimestamp", "How long the SyncTarget exists.", type="date"),
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
        Column("Namespaces", ".status.namespaces", "Namespaces that the policy governs.", type="integer"),
        Column("Syncs", ".status.syncs", "Syncs in these namespaces.", type="integer"),
        Column("Ready", f"{_READY}.status", "Whether the policy is in force."),
        Column("Reason", f"{_READY}.reason", "Why."),
        Column("Age", ".metadata.creationTimestamp", "How long the policy exists.", type="date"),
    ),
)

KINDS = (CONFIG_MAP_SYNC, MANIFEST_SYNC, CONFIG_SYNC, SYNC_TARGET)
"""The kinds of tenants: what is in namespaces."""
ALL_KINDS = (*KINDS, TENANT_POLICY)
