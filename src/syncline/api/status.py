"""The status fields that all kinds of syncs share."""

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
        description="The conditions. Wait for Ready.",
        extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        extra=Role.REPORT.mark,
    ),
]


StatusProof = Annotated[
    Annotated[str, Meta(max_length=128)] | None,
    Meta(
        description="A signature of the operator over this status and the identity of this object. The operator"
        " does not use a status that somebody else has written, and replaces it.",
    ),
]
"""The field `proof` of a status (`core/status_proof.py`)."""


class SyncStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The observed state of a sync."""

    observed_generation: Annotated[
        int, Meta(ge=0, description="The generation of the spec that this status refers to.")
    ] = 0
    conditions: Conditions = field(default_factory=list)
    targets: Annotated[TargetCounts | None, Meta(description="The number of targets in each state.")] = None
    target_statuses: Annotated[
        list[TargetStatus],
        Meta(
            max_length=100, description="The state of each target, failures first, at most 100.", extra=Role.REPORT.mark
        ),
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
        Meta(
            description="The value of the annotation `syncline.dev/requestedAt` at the last requested reconcile.",
            extra=Role.INVENTORY.mark,
        ),
    ] = None
    source_revision: Annotated[
        Annotated[str, Meta(max_length=256)] | None,
        Meta(description="The resourceVersion of the source that the copies equal."),
    ] = None
    scope: Annotated[
        Annotated[str, Meta(max_length=131072)] | None,
        Meta(
            description="The destinations of the last reconcile, and the unfinished removals that edits of the spec"
            " requested, in a compact form. With this record the operator distinguishes removals by an edit of the"
            " spec from removals by a change of the cluster or the source.",
            extra=Role.INVENTORY.mark,
        ),
    ] = None
    kept: Annotated[
        list[Annotated[str, Meta(max_length=400)]],
        Meta(
            max_length=MAX_KEPT,
            description="The places that already received their copy under the policy Keep. The operator does not"
            " create these copies again.",
            extra=Role.INVENTORY.mark,
        ),
    ] = field(default_factory=list)
    written: Annotated[
        list[Annotated[str, Meta(max_length=131072)]],
        Meta(
            max_length=1000,
            description="The kinds and clusters that this sync has written to, such as `ConfigMap`,"
            " `Deployment.apps`, `prod-eu/Secret` or, for several of both, `prod-eu,prod-us/ConfigMap,Secret`. The"
            " operator records them before the first write, so that it finds every object that it has written.",
            extra=Role.INVENTORY.mark,
        ),
    ] = field(default_factory=list)
    proof: StatusProof = None


class RemoteSyncStatus(SyncStatus, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The status fields of all kinds that can write to other clusters."""

    clusters: Annotated[
        list[WrittenCluster],
        Meta(
            max_length=MAX_CLUSTERS,
            description="The other clusters that this sync has written to. The operator records a cluster before the"
            " first write, and keeps the entry until no object of the sync is left there.",
            extra=Role.INVENTORY.mark,
        ),
    ] = field(default_factory=list)
