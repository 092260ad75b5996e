"""What is not copied, and what the status says has to be done about it."""

import re

import pytest
from tests.configmapsync.world import Thing
from tests.manifestsync.world import Manifests

from syncline.sandbox import RequestError

RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.mark.parametrize(
    ("api_version", "kind", "allow"),
    [
        ("v1", "Pod", "Pod"),
        ("v1", "PersistentVolume", "PersistentVolume"),
        ("coordination.k8s.io/v1", "Lease", "Lease.coordination.k8s.io"),
        ("syncline.dev/v1alpha1", "ConfigMapSync", "ConfigMapSync.syncline.dev"),
        (
            "admissionregistration.k8s.io/v1",
            "ValidatingWebhookConfiguration",
            "ValidatingWebhookConfiguration.admissionregistration.k8s.io",
        ),
    ],
)
def test_a_protected_kind_is_refused_and_the_message_names_the_flag(
    world: Manifests, api_version: str, kind: str, allow: str
) -> None:
    target = world.namespace("a")
    ref = {"apiVersion": api_version, "kind": kind, "name": "app"}
    sync = world.msync(sourceRef=ref, targets={"inCluster": {"namespaces": [target]}})
    ready = sync.becomes("KindProtected")
    assert ready["message"].startswith(f"{allow} is not copied: ")
    assert ready["message"].endswith(f"an operator with --allow-kinds={allow} does it")
    assert "Stalled" in sync.conditions


def test_a_selector_that_matches_more_than_the_operator_can_hold_is_refused_before_it_is_held(world: Manifests) -> None:
    """Whoever may create ConfigMaps in one namespace could end the operator: a selector has it read all of them."""
    target, labels = world.namespace("a"), {"large": world.name}
    for number in range(18):
        world.put(world.home, f"large-{number}", metadata={"labels": labels}, text="x" * 1_000_000)
    ref = {"apiVersion": "v1", "kind": "ConfigMap", "selector": {"matchLabels": labels}}
    sync = world.msync(sourceRefs=[ref], targets={"inCluster": {"namespaces": [target]}})
    ready = sync.becomes("SourceTooLarge")
    assert ready["message"].startswith("select fewer objects, or make several syncs: ")
    assert world.config_map(target, "large-0").look() is None
    for number in range(9):
        world.config_map(world.home, f"large-{number}").delete()
    sync.becomes("Synced", synced=9)


@pytest.mark.own_rights
def test_a_role_is_copied_only_as_an_account_with_its_rights(world: Manifests) -> None:
    source = world.make("Role", rules=[{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}])
    target = world.namespace("a")
    refusal = r"copy roles and role bindings only as a service account.*write spec\.serviceAccountName"
    with pytest.raises(RequestError, match=refusal):
        world.msync("sync", source, into=[target])
    world.make("ServiceAccount", name="robot")
    for namespace in (world.home, target):
        binding = Thing(world.sandbox, f"{RBAC}/namespaces/{namespace}/rolebindings", "robot")
        binding.create(
            {
                "metadata": {"name": "robot"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
                "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": world.home}],
            }
        )
    sync = world.msync("sync", source, into=[target], serviceAccountName="robot")
    copy = world.find("Role", target)
    copy.appears()
    assert copy.at("rules") == source.at("rules")
    sync.becomes("Synced")
    # What the account could not grant itself, it cannot copy either.
    source.put("rules", value=[{"apiGroups": [""], "resources": ["nodes"], "verbs": ["delete"]}])
    sync.becomes("Forbidden", failed=1)
    assert "attempting to grant RBAC permissions not currently held" in sync.target(target)["message"]
    assert copy.at("rules", 0, "resources") == ["configmaps"]


def test_a_kind_that_is_misspelt_is_named_with_what_to_write_instead(world: Manifests) -> None:
    target = world.namespace("a")
    ref = {"apiVersion": "v1", "kind": "Deployment", "name": "app"}
    sync = world.msync(sourceRef=ref, targets={"inCluster": {"namespaces": [target]}})
    ready = sync.becomes("KindNotServed")
    assert "write kind Deployment of apps/v1" in ready["message"]


@pytest.mark.own_rights
def test_a_kind_that_the_operator_has_no_rights_to_is_named_with_what_to_do_and_copied_once_it_has(
    world: Manifests,
) -> None:
    source = world.make("LimitRange", spec={"limits": [{"type": "Container", "default": {"cpu": "1"}}]})
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target])
    ready = sync.becomes("KindNotWatched")
    assert re.search("cannot (watch|list) limitranges: 403", ready["message"])
    assert "forbidden" in ready["message"].lower()
    assert ready["message"].startswith("run `syncline grant limitranges`: ")
    with world.granted("", "limitranges"):
        world.find("LimitRange", target).appears()
        sync.becomes("Synced")
        sync.delete()
        sync.gone()
    assert world.find("LimitRange", target).look() is None


def test_syncs_that_cannot_go_on_do_not_hold_up_the_others(world: Manifests) -> None:
    quota = world.make("ResourceQuota", spec={"hard": {"pods": "1"}})
    target = world.namespace("a")
    stuck = [world.msync(f"stuck-{number}", quota, into=[target]) for number in range(12)]
    for sync in stuck:
        sync.becomes("KindNotWatched")
    source = world.secret()
    world.msync("sync", source, into=[target]).becomes("Synced")
    for number in range(5):
        source.keep(password=str(number))
        world.find("Secret", target).holds(password=str(number))


def test_a_source_that_is_of_use_only_where_it_is_says_so(world: Manifests) -> None:
    world.make("ServiceAccount", name="robot")
    source = world.make(
        "Secret",
        type="kubernetes.io/service-account-token",
        metadata={"annotations": {"kubernetes.io/service-account.name": "robot"}},
    )
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target])
    ready = sync.becomes("InvalidContent")
    assert "is a token of its own service account: make one in the target" in ready["message"]
