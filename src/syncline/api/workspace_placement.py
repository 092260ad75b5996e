"""The placement of upstream namespaces on SyncTargets, and the attempts after write conflicts."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field

from syncline.api.common import LabelKey, LabelValue
from syncline.api.duration import Duration
from syncline.api.rules import ValidationRule

PlacementStrategy = Literal["All", "Spread", "Weighted"]
ReplicasPolicy = Literal["Duplicate", "Divide"]


class ConflictRetry(Struct, frozen=True, kw_only=True, rename="camel"):
    """The attempts after a write conflict, before the sync backs off."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "duration(self.delay) >= duration('10ms') && duration(self.delay) <= duration('1h')",
            "write a delay between 10ms and 1h",
            ".delay",
        ),
    )

    max_retries: Annotated[int, Meta(ge=0, le=100, description="The number of attempts after the first.")] = 5
    delay: Annotated[Duration, Meta(description="The time before each attempt, such as `1s`. At least `10ms`.")] = "1s"


class PlacementWeight(Struct, frozen=True, kw_only=True, rename="camel"):
    """The weight of some SyncTargets."""

    match_labels: Annotated[
        dict[Annotated[str, Meta(max_length=316)], LabelValue],
        Meta(min_length=1, max_length=50, description="The labels of the SyncTargets."),
    ]
    weight: Annotated[int, Meta(ge=1, le=1000, description="The share of each of these SyncTargets.")]


class WorkspacePlacement(Struct, frozen=True, kw_only=True, rename="camel"):
    """Decides which SyncTargets receive an upstream namespace."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "self.strategy != 'Spread' || has(self.count)",
            "strategy: Spread needs count: write the number of SyncTargets for each namespace",
            ".count",
        ),
        ValidationRule(
            "self.strategy != 'All' || !has(self.count)",
            "strategy: All uses all SyncTargets: remove count, or write strategy: Spread",
            ".count",
        ),
        ValidationRule(
            "self.strategy == 'Spread' || !has(self.spreadBy)",
            "spreadBy needs strategy: Spread: write strategy: Spread, or remove spreadBy",
            ".spreadBy",
        ),
        ValidationRule(
            "(self.strategy == 'Weighted') == (self.?weights.orValue([]).size() > 0)",
            "strategy: Weighted needs weights, and other strategies take none: write weights with strategy: Weighted,"
            " or remove weights",
            ".weights",
        ),
        ValidationRule(
            "!has(self.evictAfter) || duration(self.evictAfter) >= duration('1s')",
            "write an evictAfter of at least 1s",
            ".evictAfter",
        ),
    )

    strategy: Annotated[
        PlacementStrategy,
        Meta(
            description="All: every SyncTarget receives every namespace. Spread: `count` SyncTargets receive a"
            " namespace. Weighted: SyncTargets receive namespaces, or replicas with `replicas: Divide`, by their"
            " weights."
        ),
    ] = "All"
    count: Annotated[
        Annotated[int, Meta(ge=1, le=100)] | None,
        Meta(description="The number of SyncTargets for each namespace. Default for Weighted: 1, or all with Divide."),
    ] = None
    spread_by: Annotated[
        LabelKey | None,
        Meta(description="The label of SyncTargets whose values should differ, such as `zone`. For Spread."),
    ] = None
    weights: Annotated[
        list[PlacementWeight],
        Meta(
            max_length=50,
            description="The weights of the SyncTargets. The first entry that matches applies. A SyncTarget that no"
            " entry matches receives nothing.",
        ),
    ] = field(default_factory=list)
    replicas: Annotated[
        ReplicasPolicy,
        Meta(
            description="Duplicate: each SyncTarget gets all replicas. Divide: the replicas are divided among the"
            " SyncTargets of the namespace."
        ),
    ] = "Duplicate"
    evict_after: Annotated[
        Duration | None,
        Meta(
            description="The time after which the namespaces of an unreachable SyncTarget move to others. Absent:"
            " they never move by themselves."
        ),
    ] = None
