"""ConfigMapSync: this ConfigMap, in those namespaces."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field

from syncline.api.common import (
    API_VERSION,
    Condition,
    DeletionPolicy,
    HistoryEntry,
    LabelSelector,
    ManagementPolicy,
    ObjectMeta,
    TargetCounts,
    TargetStatus,
    Timestamp,
)
from syncline.api.rules import Rule, text

KIND = "ConfigMapSync"
PLURAL = "configmapsyncs"

ConflictPolicy = Literal["SourceWins", "Skip", "Merge", "DestinationWins", "LastWriteWins"]
Direction = Literal["OneWay", "Bidirectional"]

_NAMESPACE = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_OBJECT = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"

NamespaceName = Annotated[
    str,
    text(
        _NAMESPACE, 'write the name of one namespace: lowercase letters, digits and "-", such as team-a', max_length=63
    ),
]
DestinationNamespace = Annotated[
    str,
    text(
        _NAMESPACE,
        'write the name of one namespace: lowercase letters, digits and "-"; globs go into destinationNamespaces',
        max_length=63,
    ),
]
NamespacePattern = Annotated[
    str,
    text(
        r"^[-a-z0-9*?]+$",
        'write names or globs of namespaces: lowercase letters, digits, "-", "*" and "?", such as team-*',
        max_length=63,
    ),
]
ObjectName = Annotated[
    str,
    text(
        _OBJECT,
        'write the name of one object: lowercase letters, digits, "-" and "."',
        max_length=253,
    ),
]
DataKey = Annotated[
    str,
    text(
        r"^[-._a-zA-Z0-9]+$",
        'write a key of a ConfigMap: letters, digits, "-", "_" and ".", such as app.yaml',
        max_length=253,
    ),
]
KeyPattern = Annotated[
    str,
    text(
        r"^[-._a-zA-Z0-9*?]+$",
        'write keys or globs of keys: letters, digits, "-", "_", ".", "*" and "?", such as *.yaml',
        max_length=253,
    ),
]


class Keys(Struct, frozen=True, kw_only=True, rename="camel"):
    """Which keys of `data` and `binaryData` are copied, and under which names."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            """
            !has(self.rename)
            || self.rename.all(one, self.rename.exists_one(other, self.rename[one] == self.rename[other]))
            """,
            "two keys are renamed to the same name: give each a name of its own",
            ".rename",
        ),
    )

    include: Annotated[
        list[KeyPattern], Meta(max_length=100, description="Only keys that match one of these globs; empty: all.")
    ] = field(default_factory=list)
    exclude: Annotated[list[KeyPattern], Meta(max_length=100, description="Not keys that match one of these.")] = field(
        default_factory=list
    )
    rename: Annotated[
        dict[Annotated[str, Meta(max_length=253)], DataKey],
        Meta(max_length=100, description="Key in the source: key in the copy."),
    ] = field(default_factory=dict)


class Replace(Struct, frozen=True, kw_only=True, rename={"with_": "with"}):
    """A regular expression replacement."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            # Evaluating the pattern is the check: the server's answer to a broken one names its mistake.
            "''.matches(self.pattern) ? true : true",
            "write a regular expression in RE2 syntax (no look-around, no backreferences)",
            ".pattern",
        ),
    )

    pattern: Annotated[str, Meta(min_length=1, max_length=1024, description="RE2 syntax.")]
    with_: Annotated[str, Meta(max_length=4096, description=r"The replacement; \1 is the first group.")] = ""


class Transform(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Changes the values of some keys; exactly one of set, replace and template."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "[has(self.set), has(self.replace), has(self.template)].exists_one(given, given)",
            "write exactly one of set, replace and template; use one transform for each",
        ),
    )

    key: Annotated[KeyPattern, Meta(description="Glob over the keys, after renaming.")]
    set: Annotated[
        Annotated[str, Meta(max_length=65536)] | None,
        Meta(description="The value. Added where `key` is no glob and the key is absent."),
    ] = None
    replace: Annotated[Replace | None, Meta(description="Replace what matches in the value.")] = None
    template: Annotated[
        Annotated[str, Meta(max_length=65536)] | None,
        Meta(
            description="Jinja; sees `value`, `key`, `source.namespace`, `source.name`,"
            " `target.namespace`, `target.name`."
        ),
    ] = None


class ConfigMapSyncSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """What should agree with what."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            """
            has(self.destinationNamespace)
            || has(self.destinationNamespaceSelector)
            || self.?destinationNamespaces.orValue([]).size() > 0
            """,
            "no destination: write destinationNamespace, destinationNamespaces or destinationNamespaceSelector",
        ),
        Rule(
            """
            !has(self.destinationNamespaceSelector)
            || self.destinationNamespaceSelector.?matchLabels.orValue({}).size() > 0
            || self.destinationNamespaceSelector.?matchExpressions.orValue([]).size() > 0
            """,
            'an empty selector would select every namespace: if you mean that, write destinationNamespaces: ["*"]',
            ".destinationNamespaceSelector",
        ),
        Rule(
            """
            !has(self.destinationNamespace) && self.?destinationNamespaces.orValue([]).size() == 0
            || has(self.destinationNamespaceSelector)
            || has(self.destinationName) && self.destinationName != self.configMapName
            || has(self.destinationNamespace) && self.destinationNamespace != self.sourceNamespace
            || has(self.destinationNamespaces)
            && self.destinationNamespaces.exists(name, name != self.sourceNamespace)
            """,
            "the only destination is the source itself: name another namespace,"
            " or write destinationName to copy under another name",
        ),
        Rule(
            "self.direction != 'Bidirectional'",
            "Bidirectional is not available yet; write direction: OneWay",
            ".direction",
        ),
        Rule(
            "self.direction == 'Bidirectional' || !(self.conflictPolicy in ['DestinationWins', 'LastWriteWins'])",
            "DestinationWins and LastWriteWins need direction: Bidirectional;"
            " for OneWay write SourceWins, Skip or Merge",
            ".conflictPolicy",
        ),
    )

    source_namespace: Annotated[NamespaceName, Meta(description="The namespace of the source.")]
    config_map_name: Annotated[ObjectName, Meta(description="The name of the source.")]
    destination_namespace: Annotated[DestinationNamespace | None, Meta(description="One namespace to copy into.")] = (
        None
    )
    destination_namespaces: Annotated[
        list[NamespacePattern],
        Meta(max_length=1000, description="Namespaces to copy into: names, or globs with `*` and `?`."),
    ] = field(default_factory=list)
    destination_namespace_selector: Annotated[
        LabelSelector | None, Meta(description="Copy into the namespaces with these labels.")
    ] = None
    destination_name: Annotated[
        ObjectName | None, Meta(description="The name of the copies; default: the source's.")
    ] = None
    keys: Annotated[Keys | None, Meta(description="Which keys are copied; default: all.")] = None
    transforms: Annotated[list[Transform], Meta(max_length=50, description="Changes to values, in order.")] = field(
        default_factory=list
    )
    direction: Annotated[
        Direction,
        Meta(description="OneWay: from the source to the copies. Bidirectional: both ways (not available yet)."),
    ] = "OneWay"
    conflict_policy: Annotated[
        ConflictPolicy,
        Meta(
            description="What becomes of a copy that somebody changed: SourceWins repairs it, Skip leaves it,"
            " Merge keeps edits of keys that the source did not change. DestinationWins and LastWriteWins are for"
            " direction Bidirectional."
        ),
    ] = "SourceWins"
    resource_management_policy: Annotated[
        ManagementPolicy,
        Meta(
            description="What becomes of an object that is at a target already: Sync leaves it and reports a conflict,"
            " Keep leaves it (and copies as they become), Adopt takes it over, Overwrite makes it exactly the source."
        ),
    ] = "Sync"
    deletion_policy: Annotated[
        DeletionPolicy,
        Meta(
            description="What becomes of the copies when this sync is deleted: Delete removes them, Orphan leaves them."
        ),
    ] = "Delete"
    source_deletion_policy: Annotated[
        DeletionPolicy,
        Meta(
            description="What becomes of the copies when the source is gone: Delete removes them, Orphan leaves them."
        ),
    ] = "Delete"
    prune: Annotated[bool, Meta(description="Remove copies from namespaces that are no longer destinations.")] = True
    suspend: Annotated[bool, Meta(description="Nothing is read or written while true.")] = False
    service_account_name: Annotated[
        ObjectName | None,
        Meta(
            description="Read and write as this service account of the sync's namespace, with its rights;"
            " absent: as the operator, if the author has these rights."
        ),
    ] = None


class ConfigMapSyncStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What is so, as of `observedGeneration`."""

    observed_generation: Annotated[int, Meta(ge=0, description="The generation of the spec that this is about.")] = 0
    conditions: Annotated[
        list[Condition],
        Meta(
            max_length=16,
            description="Ready is the one to wait for.",
            extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = field(default_factory=list)
    targets: Annotated[TargetCounts | None, Meta(description="Counts of targets.")] = None
    target_statuses: Annotated[
        list[TargetStatus], Meta(max_length=100, description="Targets, failures first, at most 100.")
    ] = field(default_factory=list)
    history: Annotated[list[HistoryEntry], Meta(max_length=10, description="The last 10 changes, newest first.")] = (
        field(default_factory=list)
    )
    last_sync_time: Annotated[Timestamp | None, Meta(description="When a copy was last changed.")] = None
    last_handled_request: Annotated[
        Annotated[str, Meta(max_length=256)] | None,
        Meta(description="The last `syncline.dev/requestedAt` that was carried out."),
    ] = None
    source_revision: Annotated[
        Annotated[str, Meta(max_length=256)] | None,
        Meta(description="The resourceVersion of the source that the copies agree with."),
    ] = None
    scope: Annotated[
        Annotated[str, Meta(max_length=64)] | None,
        Meta(
            description="Digest of the destinations last carried out;"
            " tells an edit of the spec from a change of the cluster."
        ),
    ] = None
    kept: Annotated[
        list[Annotated[str, Meta(max_length=80)]],
        Meta(max_length=10000, description="Under Keep: namespaces that have had their copy; it is not created again."),
    ] = field(default_factory=list)


class ConfigMapSync(Struct, kw_only=True, rename="camel"):
    """Copies a ConfigMap into other namespaces and keeps the copies equal to it."""

    metadata: ObjectMeta
    spec: ConfigMapSyncSpec
    status: ConfigMapSyncStatus = field(default_factory=ConfigMapSyncStatus)
    api_version: str = API_VERSION
    kind: str = KIND
