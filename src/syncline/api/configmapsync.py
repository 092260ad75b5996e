"""ConfigMapSync: this ConfigMap, in those namespaces."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field

from syncline.api.common import (
    API_VERSION,
    LabelSelector,
    ObjectMeta,
    Timestamp,
)
from syncline.api.content import KeyPattern, Keys, Transform
from syncline.api.names import NAMESPACE, NamespaceName, NamespacePattern, ObjectName
from syncline.api.policies import CopySpec
from syncline.api.rules import Rule, text
from syncline.api.status import SyncStatus

KIND = "ConfigMapSync"
PLURAL = "configmapsyncs"

ConflictPolicy = Literal["SourceWins", "Skip", "Merge", "DestinationWins", "LastWriteWins"]
Direction = Literal["OneWay", "Bidirectional"]

DestinationNamespace = Annotated[
    str,
    text(
        NAMESPACE,
        'write the name of one namespace: lowercase letters, digits and "-"; globs go into destinationNamespaces',
        max_length=63,
    ),
]


class KeyConflictPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """What becomes of some keys that somebody changed in a copy."""

    keys: Annotated[
        list[KeyPattern],
        Meta(
            min_length=1, max_length=50, description="Keys, or globs of keys, as the copy names them (after renaming)."
        ),
    ]
    conflict_policy: Annotated[
        ConflictPolicy,
        Meta(
            description="Takes the place of the sync's `conflictPolicy` for these keys. All keys with one policy are"
            " treated as if they were a ConfigMap of their own."
        ),
    ]


class ConfigMapSyncSpec(CopySpec, frozen=True, kw_only=True, rename="camel"):
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
            """
            self.direction != 'Bidirectional'
            || !has(self.destinationNamespaceSelector)
            && (has(self.destinationNamespace)
            ? self.?destinationNamespaces.orValue([]).size() == 0
            : self.?destinationNamespaces.orValue([]).size() == 1
            && !self.destinationNamespaces[0].contains('*')
            && !self.destinationNamespaces[0].contains('?'))
            """,
            "Bidirectional needs exactly one destination, or one tenant's edit would reach all: write"
            " destinationNamespace alone",
            ".direction",
        ),
        Rule(
            "self.direction != 'Bidirectional' || self.resourceManagementPolicy != 'Keep'",
            "Bidirectional cannot leave the copy as it became: write resourceManagementPolicy: Sync, Adopt or"
            " Overwrite, or direction: OneWay",
            ".resourceManagementPolicy",
        ),
        Rule(
            "self.direction == 'Bidirectional' || !(self.conflictPolicy in ['DestinationWins', 'LastWriteWins'])",
            "DestinationWins and LastWriteWins need direction: Bidirectional;"
            " for OneWay write SourceWins, Skip or Merge",
            ".conflictPolicy",
        ),
        Rule(
            """
            self.direction == 'Bidirectional'
            || self.resourceManagementPolicy != 'Overwrite'
            || self.conflictPolicy != 'Merge'
            """,
            "Overwrite removes the edits that Merge would keep: write conflictPolicy: SourceWins,"
            " or resourceManagementPolicy: Adopt",
            ".conflictPolicy",
        ),
        Rule(
            """
            self.direction == 'Bidirectional'
            || !has(self.keyPolicies)
            || self.keyPolicies.all(one, !(one.conflictPolicy in ['DestinationWins', 'LastWriteWins']))
            """,
            "DestinationWins and LastWriteWins need direction: Bidirectional, for single keys too;"
            " for OneWay write SourceWins, Skip or Merge",
            ".keyPolicies",
        ),
        Rule(
            """
            self.direction == 'Bidirectional'
            || self.resourceManagementPolicy != 'Overwrite'
            || !has(self.keyPolicies)
            || self.keyPolicies.all(one, one.conflictPolicy != 'Merge')
            """,
            "Overwrite removes the edits that Merge would keep, of single keys too: write conflictPolicy: SourceWins"
            " or Skip for them, or resourceManagementPolicy: Adopt",
            ".keyPolicies",
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
        Meta(
            description="OneWay: from the source to the copies. Bidirectional: edits of the one copy flow back to the"
            " source too, but for keys that a transform writes, which flow one way."
        ),
    ] = "OneWay"
    conflict_policy: Annotated[
        ConflictPolicy,
        Meta(
            description="What becomes of a copy that somebody changed: SourceWins repairs it, Skip leaves it,"
            " Merge keeps edits of keys that the source did not change. DestinationWins and LastWriteWins are for"
            " direction Bidirectional."
        ),
    ] = "SourceWins"
    key_policies: Annotated[
        list[KeyConflictPolicy],
        Meta(
            max_length=50,
            description="Other conflict policies for some keys. The first entry that matches a key applies; a key that"
            " none matches has `conflictPolicy`.",
        ),
    ] = field(default_factory=list)


class ConfigMapSyncStatus(SyncStatus, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What is so, as of `observedGeneration`."""

    last_sync_time: Annotated[Timestamp | None, Meta(description="When a copy was last changed.")] = None


class ConfigMapSync(Struct, kw_only=True, rename="camel"):
    """Copies a ConfigMap into other namespaces and keeps the copies equal to it."""

    metadata: ObjectMeta
    spec: ConfigMapSyncSpec
    status: ConfigMapSyncStatus = field(default_factory=ConfigMapSyncStatus)
    api_version: str = API_VERSION
    kind: str = KIND
