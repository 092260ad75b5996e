"""The kinds that Syncline serves, and what a CRD says of each beside its schema.

A new kind is a module with its types and one entry here; CRD, roles and reference follow from it.
"""

from msgspec import Struct

from syncline.api import configmapsync
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

    @property
    def crd_name(self) -> str:
        """The name of the CustomResourceDefinition."""
        return f"{self.plural}.{GROUP}"


_OUTCOME = (
    Column("Targets", ".status.targets.summary", "Targets that agree with the source, of all that the spec asks for."),
    Column("Ready", '.status.conditions[?(@.type=="Ready")].status', "Whether all targets agree with the source."),
    Column("Reason", '.status.conditions[?(@.type=="Ready")].reason', "Why."),
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

KINDS = (CONFIG_MAP_SYNC,)
