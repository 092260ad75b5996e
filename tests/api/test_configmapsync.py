"""ConfigMapSync on a real API server: what it takes, what it refuses, and with which words."""

from typing import Any

import msgspec
import pytest
from tests.api.trial import Bad, create, report, stored, table

from syncline.api.common import Condition, HistoryEntry, TargetCounts, TargetStatus
from syncline.api.configmapsync import ConfigMapSync, ConfigMapSyncStatus
from syncline.api.kinds import CONFIG_MAP_SYNC
from syncline.sandbox import RequestError, Sandbox

pytestmark = pytest.mark.usefixtures("crds")

SOURCE = {"sourceNamespace": "team-a", "configMapName": "app"}
ONE = {**SOURCE, "destinationNamespace": "team-b"}
NOW = "2026-01-02T03:04:05Z"

GOOD: dict[str, dict[str, Any]] = {
    "one namespace": ONE,
    "a system namespace by its exact name": {**SOURCE, "destinationNamespace": "kube-system"},
    "names and globs": {**SOURCE, "destinationNamespaces": ["team-b", "stage-*", "?"]},
    "every namespace": {**SOURCE, "destinationNamespaces": ["*"]},
    "a thousand names": {**SOURCE, "destinationNamespaces": [f"{'n' * 58}-{i:04}" for i in range(1000)]},
    "labels": {**SOURCE, "destinationNamespaceSelector": {"matchLabels": {"example.com/team": "b", "empty": ""}}},
    "expressions": {
        **SOURCE,
        "destinationNamespaceSelector": {
            "matchExpressions": [
                {"key": "team", "operator": "In", "values": ["a", "b"]},
                {"key": "example.com/team", "operator": "NotIn", "values": ["c"]},
                {"key": "team", "operator": "Exists"},
                {"key": "old", "operator": "DoesNotExist", "values": []},
            ]
        },
    },
    "the source's namespace under another name": {
        **SOURCE,
        "destinationNamespace": "team-a",
        "destinationName": "app-2",
    },
    "the source's namespace among others": {**SOURCE, "destinationNamespaces": ["team-a", "team-b"]},
    "a glob that may match the source's namespace": {**SOURCE, "destinationNamespaces": ["team-*"]},
    "keys": {**ONE, "keys": {"include": ["*.yaml"], "exclude": ["_?"], "rename": {"a": "b", "b": "a", "c": "d"}}},
    "a hundred renamed keys": {**ONE, "keys": {"rename": {f"{'k' * 240}{i}": f"{'v' * 240}{i}" for i in range(100)}}},
    "transforms": {
        **ONE,
        "transforms": [
            {"key": "a", "set": ""},
            {"key": "*.yaml", "replace": {"pattern": r"(?i)host: (\w+)", "with": r"host: \1"}},
            {"key": "b", "template": "{{ target.namespace }}"},
        ],
    },
    "all policies": {
        **ONE,
        "direction": "OneWay",
        "conflictPolicy": "Merge",
        "resourceManagementPolicy": "Adopt",
        "deletionPolicy": "Orphan",
        "sourceDeletionPolicy": "Orphan",
        "prune": False,
        "suspend": True,
        "serviceAccountName": "robot",
    },
    "both ways": {**ONE, "direction": "Bidirectional"},
    "both ways, listed": {**SOURCE, "direction": "Bidirectional", "destinationNamespaces": ["team-b"]},
    "both ways, in one namespace": {
        **SOURCE,
        "direction": "Bidirectional",
        "destinationNamespace": "team-a",
        "destinationName": "app-2",
    },
    "both ways, the last write wins": {**ONE, "direction": "Bidirectional", "conflictPolicy": "LastWriteWins"},
    "both ways, the destination wins": {**ONE, "direction": "Bidirectional", "conflictPolicy": "DestinationWins"},
    "both ways, overwritten and merged": {
        **ONE,
        "direction": "Bidirectional",
        "conflictPolicy": "Merge",
        "resourceManagementPolicy": "Overwrite",
    },
    "both ways, with changes": {
        **ONE,
        "direction": "Bidirectional",
        "keys": {"rename": {"a": "b"}},
        "transforms": [{"key": "c", "set": "d"}],
    },
    "policies of single keys": {
        **ONE,
        "keyPolicies": [
            {"keys": ["*.conf", "a"], "conflictPolicy": "Merge"},
            {"keys": ["b"], "conflictPolicy": "Skip"},
            {"keys": ["*"], "conflictPolicy": "SourceWins"},
        ],
    },
    "policies of single keys, overwritten": {
        **ONE,
        "resourceManagementPolicy": "Overwrite",
        "keyPolicies": [{"keys": ["a"], "conflictPolicy": "Skip"}],
    },
    "policies of single keys, both ways": {
        **ONE,
        "direction": "Bidirectional",
        "conflictPolicy": "Merge",
        "resourceManagementPolicy": "Overwrite",
        "keyPolicies": [
            {"keys": [name], "conflictPolicy": name}
            for name in ("SourceWins", "DestinationWins", "LastWriteWins", "Merge", "Skip")
        ],
    },
    "as many policies of keys as there may be": {
        **ONE,
        "keyPolicies": [{"keys": ["k" * 253] * 50, "conflictPolicy": "Merge"}] * 50,
    },
    "null for what is not meant": {**ONE, "destinationNamespaceSelector": None, "direction": None},
}


def labels(**selector: Any) -> dict[str, Any]:
    return {**SOURCE, "destinationNamespaceSelector": selector}


def expression(**requirement: Any) -> dict[str, Any]:
    return labels(matchExpressions=[requirement])


def keys(**keys: Any) -> dict[str, Any]:
    return {**ONE, "keys": keys}


def transform(**transform: Any) -> dict[str, Any]:
    return {**ONE, "transforms": [transform]}


def key_policy(keys: list[str], policy: str, **spec: Any) -> dict[str, Any]:
    return {**ONE, **spec, "keyPolicies": [{"keys": keys, "conflictPolicy": policy}]}


def both_ways(*namespaces: str) -> dict[str, Any]:
    return {**SOURCE, "direction": "Bidirectional", "destinationNamespaces": list(namespaces)}


NO_DESTINATION = "no destination: write destinationNamespace, destinationNamespaces or destinationNamespaceSelector"
EMPTY = 'an empty selector would select every namespace: write labels, or destinationNamespaces: ["*"]'
ITSELF = "the only destination is the source itself: name another namespace, or write a different destinationName"
TWO_WAY = "DestinationWins and LastWriteWins need direction: Bidirectional; for OneWay, write SourceWins, Skip or Merge"
TWO_WAY_KEY = "DestinationWins and LastWriteWins need direction: Bidirectional, for single keys too; for OneWay, write"
ONE_DESTINATION = (
    "Bidirectional needs exactly one destination, because an edit of one copy would change all others: write"
)
EXACTLY_ONE = "a transform needs exactly one of set, replace and template: write several transforms for several changes"
RE2 = "write a regular expression in RE2 syntax (no look-around, no backreferences)"
NEEDS_VALUES = "In and NotIn need values: add values, or use Exists or DoesNotExist"
NO_VALUES = "Exists and DoesNotExist take no values: remove values, or use In or NotIn"
NAMESPACE = 'write the name of one namespace: lowercase letters, digits and "-"'
NAMESPACES = 'write names or globs of namespaces: lowercase letters, digits, "-", "*" and "?", such as team-*'
OBJECT = 'write the name of one object: lowercase letters, digits, "-" and "."'
KEY = 'write keys or globs of keys: letters, digits, "-", "_", ".", "*" and "?", such as *.yaml'
LABEL_KEY = "write the key of a label, such as team or example.com/team"
LABEL_VALUE = "write the value of a label: letters, digits"
SELECTOR = "spec.destinationNamespaceSelector"

RULES: dict[str, Bad] = {
    "no destination": (SOURCE, "spec", NO_DESTINATION),
    "an empty list of destinations": ({**SOURCE, "destinationNamespaces": []}, "spec", NO_DESTINATION),
    "an empty selector": ({**ONE, "destinationNamespaceSelector": {}}, SELECTOR, EMPTY),
    "a selector of empty lists": (labels(matchLabels={}, matchExpressions=[]), SELECTOR, EMPTY),
    "only the source": ({**SOURCE, "destinationNamespace": "team-a"}, "spec", ITSELF),
    "only the source, twice": ({**SOURCE, "destinationNamespaces": ["team-a", "team-a"]}, "spec", ITSELF),
    "only the source, by name": (
        {**SOURCE, "destinationNamespace": "team-a", "destinationName": "app"},
        "spec",
        ITSELF,
    ),
    "both ways, several namespaces": (both_ways("team-b", "team-c"), "spec.direction", ONE_DESTINATION),
    "both ways, a glob": (both_ways("team-*"), "spec.direction", ONE_DESTINATION),
    "both ways, a glob of one letter": (both_ways("team-?"), "spec.direction", ONE_DESTINATION),
    "both ways, a name and a list": (
        {**both_ways("team-b"), "destinationNamespace": "team-c"},
        "spec.direction",
        ONE_DESTINATION,
    ),
    "both ways, labels": (
        {**labels(matchLabels={"a": "b"}), "direction": "Bidirectional"},
        "spec.direction",
        ONE_DESTINATION,
    ),
    "both ways, onto itself": (both_ways("team-a"), "spec", ITSELF),
    "both ways, yet kept": (
        {**both_ways("team-b"), "resourceManagementPolicy": "Keep"},
        "spec.resourceManagementPolicy",
        "Bidirectional cannot be combined with Keep: write resourceManagementPolicy: Sync, Adopt or Overwrite",
    ),
    "overwritten, yet merged": (
        {**ONE, "resourceManagementPolicy": "Overwrite", "conflictPolicy": "Merge"},
        "spec.conflictPolicy",
        "Overwrite removes the edits that Merge keeps: write conflictPolicy: SourceWins, or",
    ),
    "the last write wins, one way": ({**ONE, "conflictPolicy": "LastWriteWins"}, "spec.conflictPolicy", TWO_WAY),
    "the destination wins, one way": ({**ONE, "conflictPolicy": "DestinationWins"}, "spec.conflictPolicy", TWO_WAY),
    "the last write wins of a key, one way": (key_policy(["a"], "LastWriteWins"), "spec.keyPolicies", TWO_WAY_KEY),
    "the destination wins of a key, one way": (key_policy(["a"], "DestinationWins"), "spec.keyPolicies", TWO_WAY_KEY),
    "overwritten, yet merged of a key": (
        key_policy(["a"], "Merge", resourceManagementPolicy="Overwrite"),
        "spec.keyPolicies",
        "Overwrite removes the edits that Merge keeps, for single keys too: write conflictPolicy: SourceWins or",
    ),
    "a policy of a key with a slash": (key_policy(["a/b"], "Skip"), "spec.keyPolicies[0].keys[0]", KEY),
    "a transform that does nothing": (transform(key="a"), "spec.transforms[0]", EXACTLY_ONE),
    "a transform that does two things": (transform(key="a", set="", template=""), "spec.transforms[0]", EXACTLY_ONE),
    "a broken expression": (transform(key="a", replace={"pattern": "a(b"}), "missing closing ): `a(b`", RE2),
    "an expression that looks ahead": (transform(key="a", replace={"pattern": "a(?=b)"}), "`(?=`", RE2),
    "two keys with one name": (
        keys(rename={"a": "c", "b": "c"}),
        "spec.keys.rename",
        "two keys are renamed to the same name: write a different name for each",
    ),
    "a renamed key that is too long": (keys(rename={"k" * 254: "a"}), "spec.keys.rename", "keys have at most 253"),
    "a new name that is no key": (
        keys(rename={"a": "b/c"}),
        "spec.keys.rename",
        'write a key of a ConfigMap or Secret: letters, digits, "-", "_" and ".", such as app.yaml',
    ),
    "an included key with a slash": (keys(include=["a/b"]), "spec.keys.include[0]", KEY),
    "an excluded key with a slash": (keys(exclude=["a/b"]), "spec.keys.exclude[0]", KEY),
    "a transformed key with a slash": (transform(key="a/b", set=""), "spec.transforms[0].key", KEY),
    "In without values": (expression(key="a", operator="In"), "matchExpressions[0].values", NEEDS_VALUES),
    "NotIn with no value": (expression(key="a", operator="NotIn", values=[]), "[0].values", NEEDS_VALUES),
    "Exists with values": (expression(key="a", operator="Exists", values=["b"]), "[0].values", NO_VALUES),
    "DoesNotExist with values": (expression(key="a", operator="DoesNotExist", values=["b"]), "[0].values", NO_VALUES),
    "a label with a space": (expression(key="my team", operator="Exists"), "matchExpressions[0].key", LABEL_KEY),
    "a value with a slash": (expression(key="a", operator="In", values=["b/c"]), "[0].values[0]", LABEL_VALUE),
    "a value with a dash in front": (labels(matchLabels={"a": "-b"}), f"{SELECTOR}.matchLabels", LABEL_VALUE),
    "a label that is too long": (
        labels(matchLabels={"k" * 317: "a"}),
        f"{SELECTOR}.matchLabels",
        "keys have at most 316",
    ),
    "a glob for one destination": (
        {**SOURCE, "destinationNamespace": "team-*"},
        "spec.destinationNamespace",
        f"{NAMESPACE}; write globs in destinationNamespaces",
    ),
    "a glob for the source": (
        {**ONE, "sourceNamespace": "team-*"},
        "spec.sourceNamespace",
        f"{NAMESPACE}, such as team-a",
    ),
    "a namespace in capitals": (
        {**SOURCE, "destinationNamespaces": ["b", "Team"]},
        'spec.destinationNamespaces[1]: Invalid value: "Team"',
        NAMESPACES,
    ),
    "a source that is no name": ({**ONE, "configMapName": "App"}, "spec.configMapName", OBJECT),
    "a copy that is no name": ({**ONE, "destinationName": "app_2"}, "spec.destinationName", OBJECT),
    "an account of another namespace": ({**ONE, "serviceAccountName": "ns/robot"}, "spec.serviceAccountName", OBJECT),
}
SCHEMA: dict[str, Bad] = {
    "no source": ({"destinationNamespace": "b"}, "spec.sourceNamespace", "Required value"),
    "an empty source": ({**ONE, "configMapName": ""}, "spec.configMapName", "should be at least 1 chars long"),
    "an unknown policy": (
        {**ONE, "conflictPolicy": "Win"},
        "spec.conflictPolicy",
        'supported values: "DestinationWins"',
    ),
    "an unknown policy of a key": (key_policy(["a"], "Win"), "[0].conflictPolicy", 'supported values: "Destination'),
    "a policy of no key": (key_policy([], "Skip"), "spec.keyPolicies[0].keys", "should have at least 1 items"),
    "a policy without keys": ({**ONE, "keyPolicies": [{"conflictPolicy": "Skip"}]}, "[0].keys", "Required value"),
    "keys without a policy": (
        {**ONE, "keyPolicies": [{"keys": ["a"]}]},
        "[0].conflictPolicy",
        "Required value",
    ),
    "an unknown operator": (expression(key="a", operator="Is"), "[0].operator", 'supported values: "DoesNotExist"'),
    "too many namespaces": (
        {**SOURCE, "destinationNamespaces": ["b"] * 1001},
        "spec.destinationNamespaces",
        "must have at most 1000 items",
    ),
    "a misspelt field": ({**ONE, "destinationNamespce": "x"}, "spec.destinationNamespce", "unknown field"),
}
BAD = RULES | SCHEMA


@pytest.mark.parametrize("spec", GOOD.values(), ids=GOOD)
def test_a_good_spec_is_taken_and_means_the_same_to_the_operator(sandbox: Sandbox, spec: dict[str, Any]) -> None:
    taken = create(sandbox, CONFIG_MAP_SYNC, spec)
    given = {name: value for name, value in spec.items() if value is not None}
    local = msgspec.convert({"metadata": taken["metadata"], "spec": given}, ConfigMapSync)
    assert msgspec.convert(taken, ConfigMapSync).spec == local.spec


@pytest.mark.parametrize(("spec", "where", "words"), BAD.values(), ids=BAD)
def test_a_bad_spec_is_refused_with_what_to_write_instead(
    sandbox: Sandbox, spec: dict[str, Any], where: str, words: str
) -> None:
    with pytest.raises(RequestError) as refusal:
        create(sandbox, CONFIG_MAP_SYNC, spec)
    assert where in str(refusal.value)
    assert words in str(refusal.value)


def test_the_server_fills_in_the_defaults(sandbox: Sandbox) -> None:
    assert create(sandbox, CONFIG_MAP_SYNC, ONE)["spec"] == {
        **ONE,
        "direction": "OneWay",
        "conflictPolicy": "SourceWins",
        "resourceManagementPolicy": "Sync",
        "deletionPolicy": "Delete",
        "sourceDeletionPolicy": "Delete",
        "prune": True,
        "suspend": False,
    }


STATUS = ConfigMapSyncStatus(
    observed_generation=3,
    conditions=[Condition(type="Ready", status="True", reason="Synced", last_transition_time=NOW)],
    targets=TargetCounts(desired=2, synced=1, failed=1, summary="1/2"),
    target_statuses=[
        TargetStatus(
            type="InCluster",
            kind="ConfigMap",
            namespace="team-b",
            name="app",
            status="Failed",
            reason="Forbidden",
            message="no",
        )
    ],
    history=[HistoryEntry(time=NOW, revision="7", result="Synced", changes="1 created")],
    last_sync_time=NOW,
    last_handled_request="1",
    source_revision="7",
    scope="abc",
    kept=["team-b"],
    written=["ConfigMap"],
)


def test_the_server_keeps_every_field_of_the_status(sandbox: Sandbox) -> None:
    with stored(sandbox, CONFIG_MAP_SYNC, ONE) as address:
        reported = report(sandbox, address, STATUS)
    assert msgspec.convert(reported, ConfigMapSync).status == STATUS


def test_kubectl_get_shows_source_targets_readiness_and_reason(sandbox: Sandbox) -> None:
    with stored(sandbox, CONFIG_MAP_SYNC, ONE) as address:
        columns, cells = table(sandbox, address, STATUS)
    assert columns == ["Name", "Source", "ConfigMap", "Targets", "Ready", "Reason", "Age"]
    assert cells[1:-1] == ["team-a", "app", "1/2", "True", "Synced"]


def test_the_crd_is_structural_and_established(sandbox: Sandbox) -> None:
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CONFIG_MAP_SYNC.crd_name}"
    found = sandbox.request("GET", path)["status"]
    assert {condition["type"]: condition["status"] for condition in found["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    assert found["acceptedNames"]["shortNames"] == ["cms"]
    assert found["acceptedNames"]["categories"] == ["syncline"]
