"""keys and transforms for Secrets, and which labels and annotations travel."""

import base64

from tests.configmapsync.world import until
from tests.manifestsync.world import Manifests

BINARY = base64.b64encode(bytes(range(256))).decode()


def test_keys_are_selected_and_renamed_and_binary_values_survive(world: Manifests) -> None:
    source = world.make(
        "Secret",
        data={"raw": BINARY, "drop-me": BINARY},
        stringData={"username": "admin", "password": "red", "other": "x"},
    )
    target = world.namespace("a")
    sync = world.msync(
        "sync",
        source,
        into=[target],
        keys={"include": ["user*", "password", "raw"], "exclude": ["drop*"], "rename": {"username": "login"}},
    )
    sync.becomes("Synced", synced=1)
    copy = world.find("Secret", target)
    data = copy.at("data")
    assert data.pop("raw") == BINARY
    assert {key: base64.b64decode(value).decode() for key, value in data.items()} == {
        "login": "admin",
        "password": "red",
    }
    world.stays_quiet(sync)
    source.put("data", "raw", value="AP8=")
    copy.shows("data", "raw", value="AP8=")


def test_values_are_transformed_as_text_for_each_target_and_binary_ones_are_left(world: Manifests) -> None:
    source = world.make("Secret", data={"raw": BINARY}, stringData={"url": "http://old/", "where": "x"})
    one, two = world.namespaces("one", "two")
    sync = world.msync(
        "sync",
        source,
        into=[one, two],
        transforms=[
            {"key": "url", "replace": {"pattern": "old", "with": "new"}},
            {"key": "where", "template": "{{ target.namespace }}"},
        ],
    )
    sync.becomes("Synced", synced=2)
    for target in (one, two):
        copy = world.find("Secret", target)
        data = copy.at("data")
        assert data.pop("raw") == BINARY
        assert {key: base64.b64decode(value).decode() for key, value in data.items()} == {
            "url": "http://new/",
            "where": target,
        }
    world.stays_quiet(sync)


def test_a_transform_that_fails_never_shows_the_value(world: Manifests) -> None:
    source = world.secret(password="canary-51c2")
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target], transforms=[{"key": "password", "template": "{{ value.nope }}"}])
    ready = sync.becomes("InvalidContent")
    assert "canary" not in f"{ready}{sync.read()}{sync.events()}"
    assert "password" in ready["message"]
    assert world.find("Secret", target).look() is None


def test_labels_by_which_other_tools_know_their_own_stay_behind(world: Manifests) -> None:
    source = world.make(
        "Deployment",
        metadata={
            "labels": {
                "team": "a",
                "app.kubernetes.io/instance": "argo",
                "app.kubernetes.io/managed-by": "Helm",
                "kustomize.toolkit.fluxcd.io/name": "flux",
                "helm.sh/chart": "app-1",
            },
            "annotations": {
                "note": "x",
                "argocd.argoproj.io/tracking-id": "app:apps/Deployment:a/app",
                "meta.helm.sh/release-name": "app",
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
                "deployment.kubernetes.io/revision": "7",
            },
        },
        spec=world.deployment("other").spec,
    )
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target])
    sync.becomes("Synced", synced=1)
    copy = world.find("Deployment", target)
    assert copy.labels == {"team": "a"}
    assert {key: value for key, value in copy.annotations.items() if not key.startswith("deployment.")} == {"note": "x"}
    assert "ownerReferences" not in copy.read()["metadata"]


def test_labels_and_annotations_are_included_and_excluded_by_pattern(world: Manifests) -> None:
    source = world.make(
        "Secret",
        metadata={
            "labels": {"team": "a", "tier": "web", "app.kubernetes.io/instance": "mine"},
            "annotations": {"note": "x", "secret-note": "y"},
        },
        stringData={"a": "b"},
    )
    target = world.namespace("a")
    options = {
        "labels": {"include": ["app.kubernetes.io/*"], "exclude": ["tier"]},
        "annotations": {"exclude": ["secret-*"]},
    }
    sync = world.msync("sync", source, into=[target], replicationOptions=options)
    sync.becomes("Synced", synced=1)
    copy = world.find("Secret", target)
    assert copy.annotations == {"note": "x"}
    assert copy.labels == {"team": "a", "app.kubernetes.io/instance": "mine"}
    sync.change(replicationOptions={"labels": {"exclude": ["*"]}})
    until(lambda: copy.labels, lambda seen: seen == {})
    world.stays_quiet(sync)


def test_owner_references_never_travel(world: Manifests) -> None:
    owner = world.make("ConfigMap", name="owner")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid}
    source = world.make("Secret", metadata={"ownerReferences": [reference]}, stringData={"a": "b"})
    target = world.namespace("a")
    world.msync("sync", source, into=[target]).becomes("Synced", synced=1)
    assert "ownerReferences" not in world.find("Secret", target).read()["metadata"]
