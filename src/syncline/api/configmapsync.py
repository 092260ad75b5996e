"""ConfigMapSync: copies of one ConfigMap in other namespaces."""

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
from syncline.api.rules import ValidationRule, text
from syncline.api.status import SyncStatus

KIND = "ConfigMapSync"
PLURAL = "configmapsyncs"

ConflictPolicy = Literal["SourceWins", "Skip", "Merge", "DestinationWins", "LastWriteWins"]
Direction = Literal["OneWay", "Bidirectional"]

DestinationNamespace = Annotated[
    str,
    text(
        NAMESPACE,
        'write the name of one namespace: lowercase letters, digits and "-"; write globs in destinationNamespaces',
        max_length=63,
    ),
]


class KeyConflictPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """The conflict policy of some keys."""

    keys: Annotated[
        list[KeyPattern],
        Meta(min_length=1, max_length=50, description="Keys or globs of keys of the copy, after renaming."),
    ]
    conflict_policy: Annotated[
        ConflictPolicy,
        Meta(
            description="The conflict policy of these keys, instead of `spec.conflictPolicy`. All keys with the same"
            " policy are treated like a separate ConfigMap."
        ),
    ]


class ConfigMapSyncSpec(CopySpec, frozen=True, kw_only=True, rename="camel"):
    """The source, the destinations and the policies of a ConfigMapSync."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            """
            has(self.destinationNamespace)
            || has(self.destinationNamespaceSelector)
            || self.?destinationNamespaces.orValue([]).size() > 0
            """,
            "no destination: write destinationNamespace, destinationNamespaces or destinationNamespaceSelector",
        ),
        ValidationRule(
            """
            !has(self.destinationNamespaceSelector)
            || self.destinationNamespaceSelector.?matchLabels.orValue({}).size() > 0
            || self.destinationNamespaceSelector.?matchExpressions.orValue([]).size() > 0
            """,
            'an empty selector would select every namespace: write labels, or destinationNamespaces: ["*"]',
            ".destinationNamespaceSelector",
        ),
        ValidationRule(
            """
            !has(self.destinationNamespace) && self.?destinationNamespaces.orValue([]).size() == 0
            || has(self.destinationNamespaceSelector)
            || has(self.destinationName) && self.destinationName != self.configMapName
            || has(self.destinationNamespace) && self.destinationNamespace != self.sourceNamespace
            || has(self.destinationNamespaces)
            && self.destinationNamespaces.exists(name, name != self.sourceNamespace)
            """,
            "the only destination is the source itself: name another namespace, or write a different destinationName",
        ),
        ValidationRule(
            """
            self.direction != 'Bidirectional'
            || !has(self.destinationNamespaceSelector)
            && (has(self.destinationNamespace)
            ? self.?destinationNamespaces.orValue([]).size() == 0
            : self.?destinationNamespaces.orValue([]).size() == 1
            && !self.destinationNamespaces[0].contains('*')
            && !self.destinationNamespaces[0].contains('?'))
            """,
            "Bidirectional needs exactly one destination, because an edit of one copy would change all others: write"
            " only destinationNamespace",
            ".direction",
        ),
        ValidationRule(
            "self.direction != 'Bidirectional' || self.resourceManagementPolicy != 'Keep'",
            "Bidirectional cannot be combined with Keep: write resourceManagementPolicy: Sync, Adopt or Overwrite, or"
            " direction: OneWay",
            ".resourceManagementPolicy",
        ),
        ValidationRule(
            "self.direction == 'Bidirectional' || !(self.conflictPolicy in ['DestinationWins', 'LastWriteWins'])",
            "DestinationWins and LastWriteWins need direction: Bidirectional; for OneWay, write SourceWins, Skip or"
            " Merge",
            ".conflictPolicy",
        ),
        ValidationRule(
            """
            self.direction == 'Bidirectional'
            || self.resourceManagementPolicy != 'Overwrite'
            || self.conflictPolicy != 'Merge'
            """,
            "Overwrite removes the edits that Merge keeps: write conflictPolicy: SourceWins, or"
            " resourceManagementPolicy: Adopt",
            ".conflictPolicy",
        ),
        ValidationRule(
            """
            self.direction == 'Bidirectional'
            || !has(self.keyPolicies)
            || self.keyPolicies.all(one, !(one.conflictPolicy in ['DestinationWins', 'LastWriteWins']))
            """,
            "DestinationWins and LastWriteWins need direction: Bidirectional, for single keys too; for OneWay, write"
            " SourceWins, Skip or Merge",
            ".keyPolicies",
        ),
        ValidationRule(
            """
            self.direction == 'Bidirectional'
            || self.resourceManagementPolicy != 'Overwrite'
            || !has(self.keyPolicies)
            || self.keyPolicies.all(one, one.conflictPolicy != 'Merge')
            """,
            "Overwrite removes the edits that Merge keeps, for single keys too: write conflictPolicy: SourceWins or"
            " Skip in keyPolicies, or resourceManagementPolicy: Adopt",
            ".keyPolicies",
        ),
    )

    source_namespace: Annotated[NamespaceName, Meta(description="The namespace of the source ConfigMap.")]
    config_map_name: Annotated[ObjectName, Meta(description="The name of the source ConfigMap.")]
    destination_namespace: Annotated[
        DestinationNamespace | None, Meta(description="One namespace to write a copy to.")
    ] = None
    destination_namespaces: Annotated[
        list[NamespacePattern],
        Meta(max_length=1000, description="The namespaces to write copies to: names, or globs with `*` and `?`."),
    ] = field(default_factory=list)
    destination_namespace_selector: Annotated[
        LabelSelector | None, Meta(description="Selects the namespaces to write copies to, by their labels.")
    ] = None
    destination_name: Annotated[
        ObjectName | None, Meta(description="The name of the copies. Default: the name of the source.")
    ] = None
    keys: Annotated[
        Keys | None,
        Meta(description="Selects and renames the keys that are copied. Default: all keys, with their names."),
    ] = None
    transforms: Annotated[
        list[Transform], Meta(max_length=50, description="Changes of values in the copies, applied in order.")
    ] = field(default_factory=list)
    direction: Annotated[
        Direction,
        Meta(
            description="OneWay: changes of the source are written to the copies. Bidirectional: edits of the one copy"
            " are also written to the source, except keys that a transform writes."
        ),
    ] = "OneWay"
    conflict_policy: Annotated[
        ConflictPolicy,
        Meta(
            description="Decides what happens with edits of a copy. SourceWins reverts the edit. Skip keeps the edit"
            " and reports a conflict. Merge keeps edits of keys that did not change in the source. DestinationWins and"
            " LastWriteWins need `direction: Bidirectional`."
        ),
    ] = "SourceWins"
    key_policies: Annotated[
        list[KeyConflictPolicy],
        Meta(
            max_length=50,
            description="Different conflict policies for some keys. The first entry that matches a key applies."
            " `conflictPolicy` applies to all other keys.",
        ),
    ] = field(default_factory=list)


class ConfigMapSyncStatus(SyncStatus, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The observed state of the sync."""

    last_sync_time: Annotated[Timestamp | None, Meta(description="The time of the last change of a copy.")] = None


class ConfigMapSync(Struct, kw_only=True, rename="camel"):
    """Copies a ConfigMap to other namespaces and keeps the copies equal to the source."""

    metadata: ObjectMeta
    spec: ConfigMapSyncSpec
    status: ConfigMapSyncStatus = field(default_factory=ConfigMapSyncStatus)
    api_version: str = API_VERSION
    kind: str = KIND
