"""The types that all kinds share: metadata, conditions, target counts, policies."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field

from syncline.api.rules import REASON, Importance, Role, ValidationRule, text

GROUP = "syncline.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

FINALIZER = f"{GROUP}/cleanup"
REQUESTED_AT = f"{GROUP}/requestedAt"
PUSHED_AT = f"{GROUP}/pushedAt"
ABANDON = f"{GROUP}/abandon"
CONFIRM_DELETION = f"{GROUP}/confirm-deletion"

ManagementPolicy = Literal["Sync", "Keep", "Adopt", "Overwrite"]
DeletionPolicy = Literal["Delete", "Orphan"]
TargetType = Literal["InCluster", "RemoteCluster"]
TargetState = Literal["Synced", "Pending", "Failed", "Conflict", "Skipped", "Unknown"]
ConditionStatus = Literal["True", "False", "Unknown"]
AttemptResult = Literal["Synced", "Failed", "Conflict"]

WORST_FIRST: tuple[TargetState, ...] = ("Failed", "Conflict", "Unknown", "Pending", "Skipped", "Synced")
"""The states of targets, the most urgent first."""


Timestamp = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
LabelKey = Annotated[
    str,
    text(
        r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[a-zA-Z0-9]([-_.a-zA-Z0-9]*[a-zA-Z0-9])?$",
        "write the key of a label, such as team or example.com/team",
        max_length=316,
    ),
]
LabelValue = Annotated[
    str,
    text(
        r"^([a-zA-Z0-9]([-_.a-zA-Z0-9]*[a-zA-Z0-9])?)?$",
        'write the value of a label: letters, digits, "-", "_" and ".", with a letter or digit at both ends',
        min_length=0,
        max_length=63,
    ),
]


class ObjectMeta(Struct, kw_only=True, rename="camel"):
    """The metadata fields that the operator reads from an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    finalizers: list[str] = field(default_factory=list)


class LabelSelectorRequirement(Struct, frozen=True, kw_only=True, rename="camel"):
    """One requirement on a label."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "self.operator in ['Exists', 'DoesNotExist'] || self.?values.orValue([]).size() > 0",
            "In and NotIn need values: add values, or use Exists or DoesNotExist",
            ".values",
        ),
        ValidationRule(
            "self.operator in ['In', 'NotIn'] || self.?values.orValue([]).size() == 0",
            "Exists and DoesNotExist take no values: remove values, or use In or NotIn",
            ".values",
        ),
    )

    key: Annotated[LabelKey, Meta(description="The key of the label.")]
    operator: Annotated[
        Literal["In", "NotIn", "Exists", "DoesNotExist"],
        Meta(description="The relation between the label and `values`."),
    ]
    values: Annotated[
        list[LabelValue],
        Meta(max_length=30, description="The values for In and NotIn. Empty for Exists and DoesNotExist."),
    ] = field(default_factory=list)


class LabelSelector(Struct, frozen=True, kw_only=True, rename="camel"):
    """Selects objects by their labels. An object must meet all requirements."""

    match_labels: Annotated[
        dict[Annotated[str, Meta(max_length=316)], LabelValue],
        Meta(max_length=50, description="The object must have these labels with exactly these values."),
    ] = field(default_factory=dict)
    match_expressions: Annotated[
        list[LabelSelectorRequirement], Meta(max_length=20, description="The object must meet all these requirements.")
    ] = field(default_factory=list)


class Condition(Struct, frozen=True, kw_only=True, rename="camel"):
    """A Kubernetes condition."""

    IMPORTANCE: ClassVar[Importance] = Importance("type", ("Ready", "Stalled", "Reconciling", "Conflicted"))

    type: Annotated[str, Meta(max_length=316, description="The type of the condition, such as `Ready`.")]
    status: Annotated[ConditionStatus, Meta(description="The status of the condition: True, False or Unknown.")]
    reason: Annotated[
        str, Meta(min_length=1, max_length=1024, pattern=REASON, description="The cause, as one CamelCase word.")
    ]
    message: Annotated[
        str, Meta(max_length=32768, description="The cause and the remedy, for people.", extra=Role.REPORT.mark)
    ] = ""
    observed_generation: Annotated[
        int, Meta(ge=0, description="The generation of the spec that the condition refers to.")
    ] = 0
    last_transition_time: Annotated[
        Timestamp, Meta(description="The time when the status of the condition last changed.")
    ]


class TargetCounts(Struct, frozen=True, kw_only=True, rename="camel"):
    """The number of targets in each state. The counts are exact even if the list of targets is shortened."""

    desired: Annotated[int, Meta(ge=0, description="The number of targets that the spec selects.")] = 0
    synced: Annotated[int, Meta(ge=0, description="The number of targets that equal the source.")] = 0
    pending: Annotated[
        int, Meta(ge=0, description="The number of targets that wait for the condition in their message.")
    ] = 0
    failed: Annotated[int, Meta(ge=0, description="The number of targets whose last attempt failed.")] = 0
    conflicted: Annotated[
        int, Meta(ge=0, description="The number of targets that have another owner, or an edit that stays.")
    ] = 0
    skipped: Annotated[
        int, Meta(ge=0, description="The number of targets that the operator does not touch, on request.")
    ] = 0
    unknown: Annotated[int, Meta(ge=0, description="The number of targets that the operator cannot read.")] = 0
    unwanted: Annotated[
        int,
        Meta(
            ge=0,
            description="The number of objects that are no longer wanted and still exist, such as those whose removal"
            " waits for a confirmation. They are none of the desired targets.",
        ),
    ] = 0
    summary: Annotated[str, Meta(max_length=32, description="The synced and the desired targets, such as `3/4`.")] = ""


class TargetStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The result at one target."""

    IMPORTANCE: ClassVar[Importance] = Importance("status", WORST_FIRST)

    type: Annotated[TargetType, Meta(description="The place of the target: this cluster or another cluster.")]
    cluster_name: Annotated[
        str, Meta(max_length=253, description="The name of the target's cluster. Absent for this cluster.")
    ] = ""
    kind: Annotated[
        str, Meta(max_length=317, description="The kind of the target, such as `Secret` or `Deployment.apps`.")
    ] = ""
    namespace: Annotated[
        str, Meta(max_length=63, description="The namespace of the target. Empty for cluster-scoped kinds.")
    ]
    name: Annotated[str, Meta(max_length=253, description="The name of the target.")]
    status: Annotated[TargetState, Meta(description="The state of the target.")]
    reason: Annotated[str, Meta(max_length=64, pattern=REASON, description="The cause, as one CamelCase word.")] = ""
    message: Annotated[
        str, Meta(max_length=1024, description="The cause and the remedy, for people.", extra=Role.REPORT.mark)
    ] = ""
    last_sync_time: Annotated[Timestamp, Meta(description="The time of the last write to the target.")] = ""


class HistoryEntry(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One change, or one failed attempt."""

    time: Annotated[
        Timestamp,
        Meta(
            description="The time of the change or failure. For a failure that repeats, the time of the first attempt."
        ),
    ]
    revision: Annotated[str, Meta(max_length=256, description="The revision of the source. Empty if it is not known.")]
    result: Annotated[AttemptResult, Meta(description="The result of the change or attempt.")]
    changes: Annotated[
        str,
        Meta(max_length=256, description="A summary of the changes. Empty if nothing changed.", extra=Role.REPORT.mark),
    ]
    reason: Annotated[
        str, Meta(max_length=64, pattern=REASON, description="The cause of the failure, as one CamelCase word.")
    ] = ""
    message: Annotated[
        str, Meta(max_length=256, description="The latest cause of the failure, for people.", extra=Role.REPORT.mark)
    ] = ""
