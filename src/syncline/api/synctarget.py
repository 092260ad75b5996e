"""SyncTarget: a cluster that syncs can write to."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field

from syncline.api.common import API_VERSION, ObjectMeta, Timestamp
from syncline.api.connection import ClusterConnection
from syncline.api.names import NamespacePattern
from syncline.api.rules import Role, ValidationRule
from syncline.api.status import Conditions, StatusProof

KIND = "SyncTarget"
PLURAL = "synctargets"


class SyncTargetSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """The connection to a cluster, and the namespaces that can use it."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "self.connection.type != 'SyncTarget'",
            "a SyncTarget cannot refer to another SyncTarget: write type: KubeconfigSecret or ServiceAccountToken",
            ".connection.type",
        ),
    )

    connection: Annotated[ClusterConnection, Meta(description="The connection to the cluster.")]
    allowed_namespaces: Annotated[
        list[NamespacePattern],
        Meta(
            max_length=100,
            description="The namespaces whose syncs can use this cluster: names, or globs with `*` and `?`. Default:"
            " only the namespace of the SyncTarget.",
        ),
    ] = field(default_factory=list)
    unschedulable: Annotated[
        bool, Meta(description="If true, no new sync uses this cluster. Syncs that already use it continue.")
    ] = False


class SyncedResource(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A resource that syncs write to this cluster."""

    name: Annotated[str, Meta(max_length=317, description="The resource, such as `secrets` or `deployments.apps`.")]
    state: Annotated[
        Literal["Accepted", "Incompatible"],
        Meta(
            description="Accepted: the cluster serves the resource, and the credential has the rights for it. Else"
            " Incompatible."
        ),
    ]
    message: Annotated[
        str, Meta(max_length=1024, description="The cause and the remedy, for people.", extra=Role.REPORT.mark)
    ] = ""


class SyncTargetStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The observed state of the cluster."""

    observed_generation: Annotated[
        int, Meta(ge=0, description="The generation of the spec that this status refers to.")
    ] = 0
    conditions: Conditions = field(default_factory=list)
    version: Annotated[str, Meta(max_length=64, description="The Kubernetes version of the cluster.")] = ""
    synced_resources: Annotated[
        list[SyncedResource],
        Meta(
            max_length=200,
            description="The resources that syncs write to this cluster, at most 200, the incompatible resources"
            " first. The list contains no names of syncs.",
            extra=Role.REPORT.mark,
        ),
    ] = field(default_factory=list)
    credential_expiry: Annotated[
        Timestamp | None, Meta(description="The time when the credential expires, if the credential contains it.")
    ] = None
    last_seen: Annotated[
        Timestamp | None,
        Meta(
            description="The time of the last connection to the cluster. It is updated only when Ready changes, so"
            " that an unchanged cluster causes no writes."
        ),
    ] = None
    proof: StatusProof = None


class SyncTarget(Struct, kw_only=True, rename="camel"):
    """A cluster that syncs can write to."""

    metadata: ObjectMeta
    spec: SyncTargetSpec
    status: SyncTargetStatus = field(default_factory=SyncTargetStatus)
    api_version: str = API_VERSION
    kind: str = KIND
