"""SyncTarget: a cluster that can be written to."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field

from syncline.api.common import API_VERSION, ObjectMeta, Timestamp
from syncline.api.connection import ClusterConnection
from syncline.api.names import NamespacePattern
from syncline.api.rules import Role, Rule
from syncline.api.status import Conditions

KIND = "SyncTarget"
PLURAL = "synctargets"


class SyncTargetSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """Which cluster, and who may use it."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.connection.type != 'SyncTarget'",
            "a SyncTarget names a cluster, not another SyncTarget: write type KubeconfigSecret or ServiceAccountToken",
            ".connection.type",
        ),
    )

    connection: Annotated[ClusterConnection, Meta(description="How the cluster is reached.")]
    allowed_namespaces: Annotated[
        list[NamespacePattern],
        Meta(
            max_length=100,
            description="Namespaces whose syncs may use this cluster: names, or globs with `*` and `?`;"
            " default: only the SyncTarget's own.",
        ),
    ] = field(default_factory=list)
    unschedulable: Annotated[
        bool, Meta(description="No sync starts to use this cluster; those that do so already go on.")
    ] = False


class SyncedResource(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A resource that syncs write to this cluster."""

    name: Annotated[str, Meta(max_length=317, description="The resource, such as `secrets` or `deployments.apps`.")]
    state: Annotated[
        Literal["Accepted", "Incompatible"],
        Meta(description="Whether the cluster serves it and the credential may use it."),
    ]
    message: Annotated[
        str, Meta(max_length=1024, description="Why, for a person, and what to do.", extra=Role.REPORT.mark)
    ] = ""


class SyncTargetStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What is so, as of `observedGeneration`."""

    observed_generation: Annotated[int, Meta(ge=0, description="The generation of the spec that this is about.")] = 0
    conditions: Conditions = field(default_factory=list)
    version: Annotated[str, Meta(max_length=64, description="The version of Kubernetes that the cluster runs.")] = ""
    synced_resources: Annotated[
        list[SyncedResource],
        Meta(
            max_length=200,
            description="The resources that syncs write there, and whether the cluster takes them: what it does not"
            " take first, at most 200. It names no sync.",
            extra=Role.REPORT.mark,
        ),
    ] = field(default_factory=list)
    credential_expiry: Annotated[Timestamp | None, Meta(description="When the credential ends, where it says so.")] = (
        None
    )
    last_seen: Annotated[
        Timestamp | None,
        Meta(description="When the cluster was last reached, as of the last change of Ready: a quiet fleet is quiet."),
    ] = None


class SyncTarget(Struct, kw_only=True, rename="camel"):
    """A cluster that syncs can write to."""

    metadata: ObjectMeta
    spec: SyncTargetSpec
    status: SyncTargetStatus = field(default_factory=SyncTargetStatus)
    api_version: str = API_VERSION
    kind: str = KIND
