"""What all kinds share: metadata, conditions, target counts, policies."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field

from syncline.api.rules import REASON, Importance, Role, Rule, text

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
"""The order in which a person wants to see targets."""


Timestamp = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
LabelKey = Annotated[
    str,
    text(
        r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[a-zA-Z0-9]([-_.a-zA-Z0-9]*[a-zA-Z0-9])?$",
        "write a label's key, such as team or example.com/team",
        max_length=316,
    ),
]
LabelValue = Annotated[
    str,
    text(
        r"^([a-zA-Z0-9]([-_.a-zA-Z0-9]*[a-zA-Z0-9])?)?$",
        'write a label\'s value: letters, digits, "-", "_" and ".", with a letter or digit at both ends',
        min_length=0,
        max_length=63,
    ),
]


class ObjectMeta(Struct, kw_only=True, rename="camel"):
    """The metadata that we read of any object."""

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

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.operator in ['Exists', 'DoesNotExist'] || self.?values.orValue([]).size() > 0",
            "In and NotIn need values: write them, or use Exists or DoesNotExist",
            ".values",
        ),
        Rule(
            "self.operator in ['In', 'NotIn'] || self.?values.orValue([]).size() == 0",
            "Exists and DoesNotExist take no values: leave them out, or use In or NotIn",
            ".values",
        ),
    )

    key: Annotated[LabelKey, Meta(description="The label's key.")]
    operator: Annotated[
        Literal["In", "NotIn", "Exists", "DoesNotExist"], Meta(description="How the label relates to `values`.")
    ]
    values: Annotated[
        list[LabelValue],
        Meta(max_length=30, description="For In and NotIn: the values; for Exists and DoesNotExist: none."),
    ] = field(default_factory=list)


class LabelSelector(Struct, frozen=True, kw_only=True, rename="camel"):
    """Selects objects by their labels; all requirements must hold."""

    match_labels: Annotated[
        dict[Annotated[str, Meta(max_length=316)], LabelValue],
        Meta(max_length=50, description="Labels that must be there with exactly these values."),
    ] = field(default_factory=dict)
    match_expressions: Annotated[
        list[LabelSelectorRequirement], Meta(max_length=20, description="Requirements on labels.")
    ] = field(default_factory=list)


class Condition(Struct, frozen=True, kw_only=True, rename="camel"):
    """A Kubernetes condition."""

    IMPORTANCE: ClassVar[Importance] = Importance("type", ("Ready", "Stalled", "Reconciling", "Conflicted"))

    type: Annotated[str, Meta(max_length=316, description="What the condition is about.")]
    status: Annotated[ConditionStatus, Meta(description="Whether it holds.")]
    reason: Annotated[
        str, Meta(min_length=1, max_length=1024, pattern=REASON, description="Why, in one CamelCase word.")
    ]
    message: Annotated[
        str, Meta(max_length=32768, description="Why, for a person, and what to do.", extra=Role.REPORT.mark)
    ] = ""
    observed_generation: Annotated[int, Meta(ge=0, description="The generation of the spec that this is about.")] = 0
    last_transition_time: Annotated[Timestamp, Meta(description="When the status last changed.")]


class TargetCounts(Struct, frozen=True, kw_only=True, rename="camel"):
    """How many targets are in which state; exact, also where the per-target list is cut."""

    desired: Annotated[int, Meta(ge=0, description="Targets that the spec asks for.")] = 0
    synced: Annotated[int, Meta(ge=0, description="Targets that agree with the source.")] = 0
    pending: Annotated[int, Meta(ge=0, description="Targets that wait for something named in their message.")] = 0
    failed: Annotated[int, Meta(ge=0, description="Targets whose last attempt failed.")] = 0
    conflicted: Annotated[int, Meta(ge=0, description="Targets held by somebody else, or edited on both sides.")] = 0
    skipped: Annotated[int, Meta(ge=0, description="Targets left alone on request.")] = 0
    unknown: Annotated[int, Meta(ge=0, description="Targets whose state cannot be seen.")] = 0
    summary: Annotated[str, Meta(max_length=32, description="synced/desired, for people.")] = ""


class TargetStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What happened at one target, and why."""

    IMPORTANCE: ClassVar[Importance] = Importance("status", WORST_FIRST)

    type: Annotated[TargetType, Meta(description="Where the target is: in this cluster, or in another.")]
    cluster_name: Annotated[str, Meta(max_length=253, description="The target's cluster; absent: this one.")] = ""
    kind: Annotated[
        str, Meta(max_length=317, description="The target's kind, such as `Secret` or `Deployment.apps`.")
    ] = ""
    namespace: Annotated[
        str, Meta(max_length=63, description="The target's namespace; empty for kinds that are in none.")
    ]
    name: Annotated[str, Meta(max_length=253, description="The target's name.")]
    status: Annotated[TargetState, Meta(description="The state of this target.")]
    reason: Annotated[str, Meta(max_length=64, pattern=REASON, description="Why, in one CamelCase word.")] = ""
    message: Annotated[
        str, Meta(max_length=1024, description="Why, for a person, and what to do.", extra=Role.REPORT.mark)
    ] = ""
    last_sync_time: Annotated[Timestamp, Meta(description="When this target was last written.")] = ""


class HistoryEntry(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One change that was made, or one attempt that failed."""

    time: Annotated[
        Timestamp,
        Meta(description="When; of an attempt that keeps failing for one reason, when it first failed."),
    ]
    revision: Annotated[
        str, Meta(max_length=256, description="The revision of the source; empty where it was not found out.")
    ]
    result: Annotated[AttemptResult, Meta(description="How it ended.")]
    changes: Annotated[
        str, Meta(max_length=256, description="What was changed, in words; empty: nothing.", extra=Role.REPORT.mark)
    ]
    reason: Annotated[str, Meta(max_length=64, pattern=REASON, description="Why it failed, in one CamelCase word.")] = (
        ""
    )
    message: Annotated[
        str, Meta(max_length=256, description="Why it failed, for a person: the latest cause.", extra=Role.REPORT.mark)
    ] = ""
