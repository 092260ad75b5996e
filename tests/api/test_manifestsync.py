"""ManifestSync on a real API server: what it takes, what it refuses, and with which words."""

from typing import Any

import msgspec
import pytest
from tests.api.trial import Bad, Spec, create, report, stored, table

from syncline.api.common import Condition, TargetCounts, TargetStatus
from syncline.api.connection import ClusterConnection, SecretKeyRef, WrittenCluster
from syncline.api.kinds import MANIFEST_SYNC
from syncline.api.manifestsync import ManifestSync, ManifestSyncStatus, SourceObservedState
from syncline.sandbox import RequestError, Sandbox

pytestmark = pytest.mark.usefixtures("crds")

NOW = "2026-01-02T03:04:05Z"
SECRET = {"apiVersion": "v1", "kind": "Secret", "name": "login"}
CONFIG_MAPS = {"apiVersion": "v1", "kind": "ConfigMap", "selector": {"matchLabels": {"copy": "yes"}}}
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
CLUSTER_ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "system:node-proxier"}
KUBECONFIG = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "prod"}}
TOKEN = {
    "type": "ServiceAccountToken",
    "serviceAccountTokenRef": {"name": "prod", "key": "token"},
    "server": "https://api.example.com:6443/path",
    "caData": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==",
}
BY_NAME = {"type": "SyncTarget", "syncTargetRef": {"name": "prod"}}
BY_LABELS = {"type": "SyncTarget", "selector": {"matchLabels": {"stage": "prod"}}}


def spec(**changes: Any) -> Spec:
    """Copy a Secret into one namespace, with some fields different; those that are None are left out."""
    whole = {"sourceRef": SECRET, "targets": {"inCluster": {"namespaces": ["team-b"]}}, **changes}
    return {name: value for name, value in whole.items() if value is not None}


def source(**changes: Any) -> Spec:
    return spec(sourceRef={name: value for name, value in {**SECRET, **changes}.items() if value is not None})


def sources(*refs: Spec, **changes: Any) -> Spec:
    return spec(sourceRef=None, sourceRefs=list(refs), **changes)


def in_cluster(**changes: Any) -> Spec:
    return spec(targets={"inCluster": changes})


def remote(*connections: Spec, **changes: Any) -> Spec:
    clusters = [
        {"clusterName": f"c{number}", "connection": connection, **changes}
        for number, connection in enumerate(connections)
    ]
    return spec(targets={"remoteClusters": clusters})


def selected(**changes: Any) -> Spec:
    return spec(targets={"remoteClusters": [{"connection": BY_LABELS, **changes}]})


def patch(**patch: Any) -> Spec:
    return spec(patch=patch)


GOOD: dict[str, Spec] = {
    "a Secret": spec(),
    "an object of another namespace": source(namespace="team-a"),
    "a kind in no namespace": spec(
        sourceRef=CLUSTER_ROLE, targets={"inCluster": {}}, targetName="copy", serviceAccountName="robot"
    ),
    "a custom kind": source(apiVersion="stable.example.com/v1beta1", kind="CronTab"),
    "several objects": sources(SECRET, DEPLOYMENT),
    "objects by their labels": sources(CONFIG_MAPS, {**SECRET, "namespace": "team-a"}),
    "namespaces by name, glob and label": in_cluster(
        namespaces=["team-b", "stage-*"], namespaceSelector={"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    ),
    "the source's namespace among others": spec(
        sourceRef={**SECRET, "namespace": "a"}, targets={"inCluster": {"namespaces": ["a", "b"]}}
    ),
    "the source's namespace under another name": spec(
        sourceRef={**SECRET, "namespace": "a"}, targets={"inCluster": {"namespaces": ["a"]}}, targetName="copy"
    ),
    "sources that change places": sources(
        {**SECRET, "namespace": "a"},
        {**SECRET, "namespace": "b"},
        targets={"inCluster": {"namespaces": ["a", "b"]}},
    ),
    "a namespace that may be the source's": in_cluster(namespaces=["default"]),
    "a cluster by kubeconfig": remote(KUBECONFIG),
    "a cluster by a key of a kubeconfig Secret": remote(
        {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "prod", "key": "value"}}
    ),
    "a cluster by token": remote(TOKEN),
    "a cluster by token, its certificates elsewhere": remote(
        {name: value for name, value in TOKEN.items() if name != "caData"}
    ),
    "a cluster by its SyncTarget": spec(targets={"remoteClusters": [{"connection": BY_NAME}]}),
    "a cluster by its SyncTarget, under another name": remote(BY_NAME),
    "clusters by label": selected(namespaces=["team-b"]),
    "clusters of another namespace": spec(
        targets={
            "remoteClusters": [
                {"connection": {**BY_NAME, "syncTargetNamespace": "fleet"}},
                {"connection": {**BY_LABELS, "syncTargetNamespace": "fleet"}},
            ]
        }
    ),
    "here and there": spec(
        targets={
            "inCluster": {"namespaces": ["*"], "resourceManagementPolicy": "Keep"},
            "remoteClusters": [
                {"clusterName": "eu", "connection": KUBECONFIG, "resourceManagementPolicy": "Adopt"},
                {"clusterName": "us", "connection": TOKEN, "patch": {"patchContent": "a: b"}},
                {"connection": BY_NAME},
                {"connection": BY_NAME, "namespaces": ["other"]},
                {"connection": BY_LABELS},
            ],
        }
    ),
    "every so often": spec(syncPolicy={"mode": "Interval", "interval": "1h30m"}),
    "at once": spec(syncPolicy={"mode": "Immediate"}),
    "a patch": patch(patchContent="metadata: {labels: {cluster: '{{ target.cluster }}'}}"),
    "operations": patch(patchStrategy="JSONPatch", patchContent="[]"),
    "a patch of 256 KiB": patch(patchStrategy="Replace", patchContent="a" * 262144),
    "a patch elsewhere": patch(patchContentRef={"name": "patches", "key": "web.yaml"}),
    "a secret patch": patch(patchContentRef={"kind": "Secret", "name": "patches", "key": "web.yaml"}),
    "keys and transforms": spec(keys={"include": ["*.pem"]}, transforms=[{"key": "a", "set": "b"}]),
    "keys of a bundle": sources(SECRET, CONFIG_MAPS, keys={"rename": {"a": "b"}}),
    "labels and annotations": spec(
        replicationOptions={
            "labels": {"include": ["app.kubernetes.io/*"]},
            "annotations": {"exclude": ["example.com/note", "*"]},
        }
    ),
    "a name by template": spec(targetName="{{ source.name }}-{{ target.cluster }}"),
    "all policies": spec(
        resourceManagementPolicy="Overwrite",
        deletionPolicy="Orphan",
        sourceDeletionPolicy="Orphan",
        prune=False,
        suspend=True,
        serviceAccountName="robot",
    ),
    "as much as can be": sources(
        *[
            {
                **SECRET,
                "name": f"{'n' * 250}{number}",
                "namespace": "n" * 63,
                "kind": "ConfigMap",
            }
            for number in range(50)
        ],
        targets={
            "inCluster": {"namespaces": ["n" * 63] * 999 + ["other"]},
            "remoteClusters": [
                {
                    "clusterName": f"{'c' * 250}{number}",
                    "connection": {**TOKEN, "caData": "A" * 4096},
                    "namespaces": ["n" * 63] * 100,
                    "namespaceSelector": {
                        "matchExpressions": [
                            {"key": "k" * 63, "operator": "In", "values": ["v" * 63] * 10} for _ in range(10)
                        ]
                    },
                }
                for number in range(50)
            ],
        },
        keys={"include": ["k" * 253] * 100},
    ),
    "null for what is not meant": {**spec(), "sourceRefs": None, "patch": None, "prune": None},
}

ONE_OR_SEVERAL = (
    "write exactly one of sourceRef (one object) and sourceRefs (several objects, or objects with some labels)"
)
NAME_OR_LABELS = "a source needs exactly one of name and selector: write name for one object"
ITSELF = "the only target is the source itself: name another namespace or cluster, or write a different targetName"
NO_TARGET = "no target: write inCluster or remoteClusters"
EVERY_NAMESPACE = 'an empty selector would select every namespace: write labels, or namespaces: ["*"]'
SAME_NAME = "two clusters have the same clusterName: write a different name for each"
FOR_DATA = "keys and transforms work only for ConfigMaps and Secrets of v1: write patch for other kinds"
ONE_CONTENT = "write exactly one of patchContent and patchContentRef"
NEEDS_KUBECONFIG = (
    "type: KubeconfigSecret needs kubeconfigSecretRef and no other field: the kubeconfig contains all other settings"
)
NEEDS_TOKEN = (
    "type: ServiceAccountToken needs serviceAccountTokenRef and server: write both, and no other field except caData"
)
NEEDS_TARGET = "type: SyncTarget needs exactly one of syncTargetRef and selector, and no other field except syncTarget"
ONLY_INTERVAL = "interval needs mode: Interval: write mode: Interval, or remove interval"
DURATION = "write a duration: numbers with h, m, s or ms, such as 30s, 10m or 1h30m"
SERVER = "write the address of an API server, such as https://api.example.com:6443"
NAME = 'write the name of one object: letters, digits, "-", "_", ".", ":" and "@"'
VERSION = "write an apiVersion, such as v1 or apps/v1"
KEYS = 'write keys or globs of keys: letters, digits, "-", "_", ".", "/", "*" and "?", such as example.com/*'
CONNECTION = "spec.targets.remoteClusters[0].connection"

RULES: dict[str, Bad] = {
    "no source": (spec(sourceRef=None), "spec", ONE_OR_SEVERAL),
    "an empty bundle": (sources(), "spec", ONE_OR_SEVERAL),
    "a source and a bundle": (spec(sourceRefs=[DEPLOYMENT]), "spec", ONE_OR_SEVERAL),
    "a source without a name": (source(name=None), "spec.sourceRef", NAME_OR_LABELS),
    "a name and labels": (sources({**CONFIG_MAPS, "name": "a"}), "spec.sourceRefs[0]", NAME_OR_LABELS),
    "one source by labels": (
        spec(sourceRef=CONFIG_MAPS),
        "spec.sourceRef",
        "sourceRef names one object: write name, or move the selector to sourceRefs",
    ),
    "sources by no label": (
        sources({**CONFIG_MAPS, "selector": {}}),
        "spec.sourceRefs[0].selector",
        "an empty selector would select every object: write the labels of the source objects",
    ),
    "a source that is no name": (source(name="a/b"), "spec.sourceRef.name", NAME),
    "a source that leads elsewhere": (source(name=".."), "spec.sourceRef.name", NAME),
    "a kind as a resource": (
        source(kind="secrets"),
        "spec.sourceRef.kind",
        "write a kind as in manifests, such as ConfigMap",
    ),
    "an address for a version": (source(apiVersion="apis/apps/v1"), "spec.sourceRef.apiVersion", VERSION),
    "a version that leads elsewhere": (source(apiVersion="../v1"), "spec.sourceRef.apiVersion", VERSION),
    "no target": (spec(targets={}), "spec.targets", NO_TARGET),
    "no cluster": (spec(targets={"remoteClusters": []}), "spec.targets", NO_TARGET),
    "only beside the source": (in_cluster(), "spec.targets", ITSELF),
    "only beside the sources": (sources(SECRET, targets={"inCluster": {"namespaces": []}}), "spec.targets", ITSELF),
    "only the source": (
        spec(sourceRef={**SECRET, "namespace": "a"}, targets={"inCluster": {"namespaces": ["a", "a"]}}),
        "spec.targets",
        ITSELF,
    ),
    "only the source, by name": (
        spec(sourceRef={**SECRET, "namespace": "a"}, targets={"inCluster": {"namespaces": ["a"]}}, targetName="login"),
        "spec.targets",
        ITSELF,
    ),
    "only the sources": (
        sources({**SECRET, "namespace": "a"}, targets={"inCluster": {"namespaces": ["a"]}}),
        "spec.targets",
        ITSELF,
    ),
    "every namespace by no label": (
        in_cluster(namespaceSelector={}),
        "spec.targets.inCluster.namespaceSelector",
        EVERY_NAMESPACE,
    ),
    "every namespace there by no label": (
        remote(KUBECONFIG, namespaceSelector={"matchLabels": {}}),
        "spec.targets.remoteClusters[0].namespaceSelector",
        EVERY_NAMESPACE,
    ),
    "more certificates than a status has room for": (
        remote(*[{**TOKEN, "caData": "A" * 32768}] * 9),
        "spec.targets.remoteClusters",
        "the caData of all clusters have more than 262144 characters in total",
    ),
    "two clusters with one name": (
        spec(targets={"remoteClusters": [{"clusterName": "a", "connection": KUBECONFIG}] * 2}),
        "spec.targets.remoteClusters",
        SAME_NAME,
    ),
    "a cluster without a name": (
        spec(targets={"remoteClusters": [{"connection": KUBECONFIG}]}),
        "spec.targets.remoteClusters[0]",
        "the cluster has no name for status and events: write clusterName with a name of your choice",
    ),
    "one name for several clusters": (
        selected(clusterName="a"),
        "spec.targets.remoteClusters[0].clusterName",
        "a selector can select several clusters, and each has the name of its SyncTarget: remove clusterName",
    ),
    "a kubeconfig nowhere": (remote({"type": "KubeconfigSecret"}), CONNECTION, NEEDS_KUBECONFIG),
    "a kubeconfig and a server": (
        remote({**KUBECONFIG, "server": "https://api.example.com"}),
        CONNECTION,
        NEEDS_KUBECONFIG,
    ),
    "a kubeconfig and a SyncTarget": (
        remote({**KUBECONFIG, "syncTargetRef": {"name": "a"}}),
        CONNECTION,
        NEEDS_KUBECONFIG,
    ),
    "a kubeconfig of another namespace": (
        remote({**KUBECONFIG, "syncTargetNamespace": "fleet"}),
        CONNECTION,
        NEEDS_KUBECONFIG,
    ),
    "a token of another namespace": (remote({**TOKEN, "syncTargetNamespace": "fleet"}), CONNECTION, NEEDS_TOKEN),
    "a token for nowhere": (
        remote({"type": "ServiceAccountToken", "serviceAccountTokenRef": {"name": "a"}}),
        CONNECTION,
        NEEDS_TOKEN,
    ),
    "a token nowhere": (
        remote({"type": "ServiceAccountToken", "server": "https://api.example.com"}),
        CONNECTION,
        NEEDS_TOKEN,
    ),
    "a token and a kubeconfig": (remote({**KUBECONFIG, **TOKEN}), CONNECTION, NEEDS_TOKEN),
    "a SyncTarget nowhere": (remote({"type": "SyncTarget"}), CONNECTION, NEEDS_TARGET),
    "a SyncTarget by name and by label": (remote({**BY_NAME, **BY_LABELS}), CONNECTION, NEEDS_TARGET),
    "a SyncTarget and a kubeconfig": (remote({**KUBECONFIG, **BY_NAME}), CONNECTION, NEEDS_TARGET),
    "every SyncTarget by no label": (
        spec(targets={"remoteClusters": [{"connection": {"type": "SyncTarget", "selector": {}}}]}),
        f"{CONNECTION}.selector",
        "an empty selector would select every cluster: write the labels of the SyncTargets",
    ),
    "a server without TLS": (remote({**TOKEN, "server": "http://api.example.com"}), f"{CONNECTION}.server", SERVER),
    "a server with a password": (remote({**TOKEN, "server": "https://me:it@api.io"}), f"{CONNECTION}.server", SERVER),
    "a server with a query": (remote({**TOKEN, "server": "https://api.io/?a"}), f"{CONNECTION}.server", SERVER),
    "certificates as they are": (
        remote({**TOKEN, "caData": "-----BEGIN CERTIFICATE-----"}),
        f"{CONNECTION}.caData",
        "write certificates as base64 of PEM, like certificate-authority-data in a kubeconfig",
    ),
    "an interval of unknown length": (
        spec(syncPolicy={"mode": "Interval"}),
        "spec.syncPolicy.interval",
        "mode: Interval needs an interval: write interval, such as 10m",
    ),
    "an interval that nobody asked for": (
        spec(syncPolicy={"interval": "10m"}),
        "spec.syncPolicy.interval",
        ONLY_INTERVAL,
    ),
    "an interval in words": (
        spec(syncPolicy={"mode": "Interval", "interval": "daily"}),
        "spec.syncPolicy.interval",
        DURATION,
    ),
    "an interval in days": (
        spec(syncPolicy={"mode": "Interval", "interval": "1d"}),
        "spec.syncPolicy.interval",
        DURATION,
    ),
    "a patch that says nothing": (patch(patchStrategy="Merge"), "spec.patch", ONE_CONTENT),
    "a patch that says it twice": (
        patch(patchContent="{}", patchContentRef={"name": "a", "key": "b"}),
        "spec.patch",
        ONE_CONTENT,
    ),
    "a patch of one target that says nothing": (in_cluster(patch={}), "spec.targets.inCluster.patch", ONE_CONTENT),
    "keys of a Deployment": (spec(sourceRef=DEPLOYMENT, keys={"include": ["a"]}), "spec", FOR_DATA),
    "keys of another group's Secret": (
        spec(sourceRef={**SECRET, "apiVersion": "example.com/v1"}, keys={"include": ["a"]}),
        "spec",
        FOR_DATA,
    ),
    "transforms of a bundle with a Deployment": (
        sources(SECRET, DEPLOYMENT, transforms=[{"key": "a", "set": "b"}]),
        "spec",
        FOR_DATA,
    ),
    "a label with a space": (
        spec(replicationOptions={"labels": {"include": ["my label"]}}),
        "spec.replicationOptions.labels.include[0]",
        KEYS,
    ),
}
SCHEMA: dict[str, Bad] = {
    "no targets": (spec(targets=None), "spec.targets", "Required value"),
    "too many clusters": (remote(*[KUBECONFIG] * 51), "spec.targets.remoteClusters", "must have at most 50 items"),
    "an unknown connection": (remote({"type": "SSH"}), f"{CONNECTION}.type", 'supported values: "KubeconfigSecret"'),
    "an unknown strategy": (
        patch(patchStrategy="Strategic", patchContent="a"),
        "spec.patch.patchStrategy",
        'supported values: "JSONPatch"',
    ),
    "a patch in a Pod": (
        patch(patchContentRef={"kind": "Pod", "name": "a", "key": "b"}),
        "spec.patch.patchContentRef.kind",
        'supported values: "ConfigMap", "Secret"',
    ),
    "a Secret of another namespace": (
        remote({"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "a", "namespace": "b"}}),
        f"{CONNECTION}.kubeconfigSecretRef.namespace",
        "unknown field",
    ),
}
BAD = RULES | SCHEMA


@pytest.mark.parametrize("spec", GOOD.values(), ids=GOOD)
def test_a_good_spec_is_taken_and_means_the_same_to_the_operator(sandbox: Sandbox, spec: Spec) -> None:
    taken = create(sandbox, MANIFEST_SYNC, spec)
    given = {name: value for name, value in spec.items() if value is not None}
    local = msgspec.convert({"metadata": taken["metadata"], "spec": given}, ManifestSync)
    assert msgspec.convert(taken, ManifestSync).spec == local.spec


@pytest.mark.parametrize(("spec", "where", "words"), BAD.values(), ids=BAD)
def test_a_bad_spec_is_refused_with_what_to_write_instead(sandbox: Sandbox, spec: Spec, where: str, words: str) -> None:
    with pytest.raises(RequestError) as refusal:
        create(sandbox, MANIFEST_SYNC, spec)
    assert where in str(refusal.value)
    assert words in str(refusal.value)


def test_the_server_fills_in_the_defaults(sandbox: Sandbox) -> None:
    given = patch(patchContentRef={"name": "patches", "key": "a"})
    assert create(sandbox, MANIFEST_SYNC, {**given, "syncPolicy": {}})["spec"] == {
        **given,
        "patch": {"patchStrategy": "Merge", "patchContentRef": {"kind": "ConfigMap", "name": "patches", "key": "a"}},
        "syncPolicy": {"mode": "Immediate"},
        "resourceManagementPolicy": "Sync",
        "deletionPolicy": "Delete",
        "sourceDeletionPolicy": "Delete",
        "prune": True,
        "suspend": False,
    }


STATUS = ManifestSyncStatus(
    observed_generation=3,
    conditions=[Condition(type="Ready", status="False", reason="Failed", last_transition_time=NOW)],
    targets=TargetCounts(desired=2, synced=1, unknown=1, summary="1/2"),
    target_statuses=[
        TargetStatus(
            type="InCluster", kind="ClusterRole.rbac.authorization.k8s.io", namespace="", name="copy", status="Synced"
        ),
        TargetStatus(
            type="RemoteCluster",
            cluster_name="prod-eu",
            kind="Secret",
            namespace="team-b",
            name="login",
            status="Unknown",
            reason="Unreachable",
            message="last seen an hour ago",
            last_sync_time=NOW,
        ),
    ],
    written=["ClusterRole.rbac.authorization.k8s.io", "prod-eu/Secret"],
    last_successful_sync_time=NOW,
    clusters=[
        WrittenCluster(
            name="prod-eu",
            connection=ClusterConnection(
                type="KubeconfigSecret", kubeconfig_secret_ref=SecretKeyRef(name="prod", key="value")
            ),
        )
    ],
    source_observed_state=SourceObservedState(uid="u", generation=2, resource_version="7"),
)


def test_the_server_keeps_every_field_of_the_status(sandbox: Sandbox) -> None:
    with stored(sandbox, MANIFEST_SYNC, spec()) as address:
        reported = report(sandbox, address, STATUS)
    assert msgspec.convert(reported, ManifestSync).status == STATUS


@pytest.mark.parametrize("spec", [spec(), sources(SECRET, DEPLOYMENT, CONFIG_MAPS)], ids=["one source", "several"])
def test_kubectl_get_shows_the_first_source_and_the_outcome(sandbox: Sandbox, spec: Spec) -> None:
    with stored(sandbox, MANIFEST_SYNC, spec) as address:
        columns, cells = table(sandbox, address, STATUS)
    assert columns == ["Name", "Kind", "Source", "Targets", "Ready", "Reason", "Age"]
    assert cells[1:-1] == ["Secret", "login", "1/2", "False", "Failed"]
