"""What can be wrong with an upstream, a cluster or a spec: each is told in plain words, and nothing is lost."""

import base64
from typing import Any

import pytest
import yaml
from tests.fleet.world import Remote, kubeconfig
from tests.workspacesync.world import UPSTREAM, Workspaces, kubeconfig_of

from syncline.sandbox import RequestError
from syncline.sandbox.pki import Authority
from syncline.testing.faults import Fault
from syncline.testing.proxy import FaultProxy


def held(text: str, key: str = "value") -> dict[str, str]:
    return {key: base64.b64encode(text.encode()).decode()}


def test_a_missing_kubeconfig_is_named_and_taken_up_when_it_is_there(world: Workspaces) -> None:
    namespace = world.above("shop")
    world.data(namespace)
    world.up("Secret", world.home, UPSTREAM).delete()
    sync = world.wsync()
    sync.fails(UPSTREAM)
    world.credential(UPSTREAM, world.upstream)
    world.down("ConfigMap", namespace).appears()
    sync.is_ready()


CONTENTS = {
    "empty": held(""),
    "broken": held("a: [b"),
    "bare": held("{}"),
    "another-key": held("x", "unexpected"),
    "nothing": {},
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_a_kubeconfig_of_no_use_is_told(world: Workspaces, content: dict[str, str]) -> None:
    path = world.up("Secret", world.home, UPSTREAM)
    path.delete()
    world.keep_credential(UPSTREAM, content)
    sync = world.wsync()
    sync.fails(UPSTREAM)
    world.credential(UPSTREAM, world.upstream)
    sync.is_ready()


def test_a_server_with_another_authority_is_not_trusted(world: Workspaces) -> None:
    config = yaml.safe_load(kubeconfig_of(world.upstream.secret()))
    other = base64.b64encode(Authority.create().certificate).decode()
    config["clusters"][0]["cluster"]["certificate-authority-data"] = other
    world.keep_credential(UPSTREAM, held(yaml.safe_dump(config)))
    sync = world.wsync()
    sync.has_trouble("certificate")
    assert sync.conditions["Ready"]["status"] != "True"


def test_a_token_that_nobody_knows_is_told(world: Workspaces) -> None:
    text = kubeconfig(world.sandbox.server, world.sandbox.ca, {"token": "nobody-has-issued-this"})
    world.keep_credential(UPSTREAM, held(text))
    sync = world.wsync()
    sync.has_trouble(UPSTREAM)
    assert "nobody-has-issued-this" not in str(sync.read())


def test_an_account_without_rights_is_told(world: Workspaces) -> None:
    nobody = Remote(world.sandbox)
    nobody.allow(groups=("nowhere",))
    world.credential(UPSTREAM, nobody)
    namespace = world.above("shop")
    world.data(namespace)
    sync = world.wsync()
    sync.has_trouble()
    nobody.allow("*", groups=("*",))
    sync.now()
    world.down("ConfigMap", namespace).appears()


def test_a_missing_right_to_read_a_resource_upstream_asks_for_no_right_to_write_there(world: Workspaces) -> None:
    reader = Remote(world.sandbox)
    reader.allow(read=("namespaces", "configmaps"))
    world.credential(UPSTREAM, reader)
    namespace = world.above("shop")
    world.data(namespace)
    sync = world.wsync("sync", "configmaps", "secrets")
    ready = sync.has_trouble("secrets")
    assert ready["reason"] == "UpstreamForbidden"
    assert ready["message"].startswith(
        "give get, list and watch of secrets to the account of the upstream's credential"
    )
    world.down("ConfigMap", namespace).appears()
    reader.allow(read=("namespaces", "configmaps", "secrets"))
    sync.now()
    sync.is_ready()


def test_a_server_that_is_not_there_is_unknown(world: Workspaces) -> None:
    world.credential(UPSTREAM, world.upstream, server="https://127.0.0.1:1")
    sync = world.wsync()
    sync.doubts()


def test_a_cluster_that_does_not_exist_is_named(world: Workspaces) -> None:
    sync = world.wsync(to=["nowhere"])
    sync.fails("nowhere")


def test_a_cluster_that_was_away_gets_what_has_changed_and_nothing_else(
    wide: Workspaces, west_proxy: FaultProxy
) -> None:
    wide.credential("west", wide.clusters["west"], server=west_proxy.server)
    namespace = wide.above("shop")
    for number in range(5):
        wide.data(namespace, f"item-{number}")
    sync = wide.wsync(to=["east", "west"])
    sync.is_ready()
    outage = west_proxy.inject(Fault(lost=True), when=lambda _: True)
    west_proxy.cut_watches()
    sync.doubts("west")
    wide.up("ConfigMap", namespace, "item-0").put("data", "colour", value="blue")
    wide.up("ConfigMap", namespace, "item-1").delete()
    wide.down("ConfigMap", namespace, "item-0").holds_data(colour="blue")
    wide.down("ConfigMap", namespace, "item-1").gone()
    before = len(west_proxy.requests)
    outage.lift()
    wide.down("ConfigMap", namespace, "item-0", at="west").holds_data(colour="blue")
    wide.down("ConfigMap", namespace, "item-1", at="west").gone()
    sync.is_ready()
    changed = {
        asked.name
        for asked in west_proxy.requests[before:]
        if asked.changes and asked.resource == "configmaps" and "dryRun" not in asked.query
    }
    assert changed == {"item-0", "item-1"}


@pytest.mark.parametrize(
    ("field", "value", "word"),
    [
        ("namespaces", {"mapping": {"prefix": "a-", "fixed": "b"}}, "exactly one"),
        ("namespaces", {"mapping": {"prefix": "Bad_Prefix"}}, "lowercase"),
        ("downstream", {"syncTargets": []}, "syncTargets"),
        ("downstream", {"syncTargets": ["east"], "writer": "west"}, "writer"),
        ("placement", {"strategy": "Spread"}, "count"),
        ("placement", {"strategy": "Weighted"}, "weights"),
        ("placement", {"strategy": "Everywhere"}, "Spread"),
        ("onConflict", "Ask", "Report"),
        ("deletePropagation", "Up", "Both"),
        ("transforms", [{"resource": "secrets", "remove": ["/data"]}], "resource"),
        ("transforms", [{"resource": "configmaps", "remove": ["/metadata/uid"]}], "metadata"),
        ("transforms", [{"resource": "configmaps"}], "at least one"),
        ("retry", {"maxRetries": 1000}, "maxRetries"),
        ("retry", {"delay": "soon"}, "delay"),
    ],
    ids=str,
)
def test_a_spec_that_makes_no_sense_is_refused_with_what_to_write(
    world: Workspaces, field: str, value: Any, word: str
) -> None:
    with pytest.raises(RequestError) as refused:
        world.wsync(**{field: value})
    assert refused.value.status == 422
    assert word in str(refused.value)


def test_an_object_that_the_cluster_below_refuses_is_named_and_holds_up_no_other(world: Workspaces) -> None:
    namespace = world.above("shop")
    world.deployment(namespace, replicas=0)
    world.data(namespace)
    sync = world.wsync(
        "sync",
        "deployments",
        "configmaps",
        transforms=[{"resource": "deployments.apps", "set": {"/spec/replicas": "many"}}],
    )
    world.down("ConfigMap", namespace).appears()
    sync.fails("replicas", namespace)
    sync.change(transforms=None)
    world.down("Deployment", namespace).appears()
    sync.is_ready()


def test_a_test_of_a_patch_that_fails_is_told(world: Workspaces) -> None:
    namespace = world.above("shop")
    world.data(namespace)
    world.data(namespace, "other", colour="blue")
    patch = [{"op": "test", "path": "/data/colour", "value": "blue"}]
    sync = world.wsync(transforms=[{"resource": "configmaps", "patch": patch}])
    world.down("ConfigMap", namespace, "other").appears()
    sync.fails("/data/colour")
    assert world.down("ConfigMap", namespace).look() is None


def test_a_resource_that_nobody_serves_is_told(world: Workspaces) -> None:
    namespace = world.above("shop")
    world.data(namespace)
    sync = world.wsync("sync", world.widgets(), "configmaps")
    world.down("ConfigMap", namespace).appears()
    sync.tells_of("widgets")


def test_metrics_name_the_resource(world: Workspaces, operator: Any) -> None:
    world.data(world.above("shop"))
    world.wsync().is_ready()
    _, text = operator.get("metrics", "/metrics")
    assert 'kind="WorkspaceSync"' in text
    assert "configmaps" in text
