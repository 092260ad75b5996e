"""What the kinds that write copies report alike."""

from typing import Annotated

from msgspec import Meta, Struct, field

from syncline.api.common import Condition, HistoryEntry, TargetCounts, TargetStatus
from syncline.api.connection import WrittenCluster
from syncline.api.rules import Role

MAX_CLUSTERS = 200
MAX_KEPT = 10000

Conditions = Annotated[
    list[Condition],
    Meta(
        max_length=16,
        description="Ready is the one to wait for.",
        extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        extra=Role.REPORT.mark,
    ),
]


class SyncStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What is so, as of `observedGeneration`."""

    observed_generation: Annotated[int, Meta(ge=0, description="The generation of the spec that this is about.")] = 0
    conditions: Conditions = field(default_factory=list)
    targets: Annotated[TargetCounts | None, Meta(description="Counts of targets.")] = None
    target_statuses: Annotated[
        list[TargetStatus],
        Meta(max_length=100, description="Targets, failures first, at most 100.", extra=Role.REPORT.mark),
    ] = field(default_factory=list)
    history: Annotated[
        list[HistoryEntry],
        Meta(
            max_length=10,
            description="The last changes and failures, newest first, at most 10.",
            extra=Role.MEMORY.mark,
        ),
    ] = field(default_factory=list)
    last_handled_request: Annotated[
        Annotated[str, Meta(max_length=256)] | None,
        Meta(description="The last `syncline.dev/requestedAt` that was carried out.", extra=Role.INVENTORY.mark),
    ] = None
    source_revision: Annotated[
        Annotated[str, Meta(max_length=256)] | None,
        Meta(description="The resourceVersion of the source that the copies agree with."),
    ] = None
    scope: Annotated[
        Annotated[str, Meta(max_length=131072)] | None,
        Meta(
            description="The destinations that were last carried out, and the removals that edits of them have asked"
            " for, in a compact form; tells what an edit of the spec removes from what a change of the cluster or the"
            " source removes.",
            extra=Role.INVENTORY.mark,
        ),
    ] = None
    kept: Annotated[
        list[Annotated[str, Meta(max_length=400)]],
        Meta(
            max_length=MAX_KEPT,
            description="Under Keep: places that have had their copy; it is not created again.",
            extra=Role.INVENTORY.mark,
        ),
    ] = field(default_factory=list)
    written: Annotated[
        list[Annotated[str, Meta(max_length=131072)]],
        Meta(
            max_length=1000,
            description="Kinds and clusters that this sync has written to, such as `ConfigMap`, `Deployment.apps`,"
            " `prod-eu/Secret` or, for several of both, `prod-eu,prod-us/ConfigMap,Secret`; recorded before the first"
            " write there, so that nothing written is ever lost.",
            extra=Role.INVENTORY.mark,
        ),
    ] = field(default_factory=list)
    proof: Annotated[
        Annotated[str, Meta(max_length=128)] | None,
        Meta(
            description="Proves that the operator wrote this status, for this very object. A status that somebody else"
            " has written is put right, and not acted on.",
        ),
    ] = None


class RemoteSyncStatus(SyncStatus, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What the kinds report alike that write to other clusters too."""

    clusters: Annotated[
        list[WrittenCluster],
        Meta(
            max_length=MAX_CLUSTERS,
            description="Other clusters that this sync has written to; recorded before the first write there, and kept"
            " until nothing is left there.",
            extra=Role.INVENTORY.mark,
        ),
    ] = field(default_factory=list)
