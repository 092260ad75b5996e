"""Writes that meet others, and what servers add to what is written: tried again, told, and at rest in the end."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.configmapsync.world import Thing, until
from tests.workspacesync.pairs import Pair
from tests.workspacesync.world import Workspaces, report, resource

from syncline.sandbox import Sandbox
from syncline.testing.faults import Fault, Rule
from syncline.testing.operator import OperatorProcess
from syncline.testing.proxy import FaultProxy

WRITES = ("PATCH", "PUT")
BOTH = {"colour": "green", "size": "large"}


@pytest.mark.parametrize("strategy", ["UpstreamWins", "MergeChanges"])
def test_conflicts_without_end_are_given_up_and_told_and_tried_later(
    world: Workspaces, east_proxy: FaultProxy, strategy: str
) -> None:
    world.credential("east", world.clusters["east"], server=east_proxy.server)
    pair = Pair(world, strategy, retry={"maxRetries": 2, "delay": "10ms"})
    busy = east_proxy.inject(
        Fault(status=409), when=lambda asked: asked.method in WRITES and asked.resource == "configmaps"
    )
    pair.source.put("data", "colour", value="blue")
    pair.sync.has_trouble(pair.namespace, "changed 3 times")
    assert len(busy.hits) >= 3
    busy.lift()
    pair.copy.holds_data(colour="blue", size="small")
    pair.sync.is_ready()


@pytest.mark.parametrize("strategy", ["UpstreamWins", "MergeChanges"])
def test_a_conflict_is_tried_again_as_often_as_the_sync_says_and_each_attempt_is_logged(
    world: Workspaces, operator: OperatorProcess, east_proxy: FaultProxy, strategy: str
) -> None:
    world.credential("east", world.clusters["east"], server=east_proxy.server)
    pair = Pair(world, strategy, retry={"maxRetries": 7, "delay": "10ms"})
    busy = east_proxy.inject(
        Fault(status=409), when=lambda asked: asked.method in WRITES and asked.resource == "configmaps", times=7
    )
    pair.source.put("data", "colour", value="blue")
    pair.copy.holds_data(colour="blue", size="small")
    assert len(busy.hits) == 7
    logged = [json.loads(line) for line in operator.log().splitlines() if pair.namespace in line]
    attempts = [line["attempt"] for line in logged if line.get("resource") == "configmaps" and "attempt" in line]
    assert attempts == [1, 2, 3, 4, 5, 6, 7]


def test_other_errors_are_not_conflicts(world: Workspaces, east_proxy: FaultProxy) -> None:
    world.credential("east", world.clusters["east"], server=east_proxy.server)
    pair = Pair(world, "UpstreamWins")
    refused = east_proxy.inject(
        Fault(status=403), when=lambda asked: asked.method in WRITES and asked.resource == "configmaps"
    )
    pair.source.put("data", "colour", value="blue")
    pair.sync.has_trouble(pair.namespace)
    assert "Conflicted" not in pair.sync.conditions or pair.sync.conditions["Conflicted"]["status"] != "True"
    refused.lift()
    pair.copy.holds_data(colour="blue", size="small")


def test_an_edit_in_the_moment_of_a_write_upward_is_not_lost(world: Workspaces, upstream_proxy: FaultProxy) -> None:
    world.credential("upstream", world.upstream, server=upstream_proxy.server)
    pair = Pair(world, "MergeChanges", "Bidirectional")
    upstream_proxy.inject(
        Fault(before=lambda: pair.source.put("data", "size", value="large")),
        when=lambda asked: asked.changes and asked.resource == "configmaps" and "dryRun" not in asked.query,
        times=1,
    )
    pair.copy.put("data", "colour", value="green")
    pair.hold(BOTH, BOTH)


def silenced(proxy: FaultProxy, plural: str) -> Rule:
    """Have the watches of a resource say nothing more; what is returned counts how often it is listed again."""
    proxy.inject(Fault(silent=True), when=lambda asked: (asked.verb, asked.resource) == ("watch", plural))
    return proxy.inject(Fault(), when=lambda asked: (asked.verb, asked.resource) == ("list", plural))


def test_a_change_that_a_write_upward_has_met_reaches_all_clusters(
    wide: Workspaces, upstream_proxy: FaultProxy
) -> None:
    """The watch of the upstream lags behind: the sync has read the change itself, when its write was refused."""
    wide.credential("upstream", wide.upstream, server=upstream_proxy.server)
    namespace = wide.above("shop")
    source = wide.data(namespace)
    sync = wide.wsync(
        "sync",
        resource("configmaps", direction="Bidirectional", conflictStrategy="MergeChanges"),
        downstream={"syncTargets": ["east", "west"], "writer": "east"},
        retry={"delay": "10ms"},
    )
    sync.is_ready()
    lists = silenced(upstream_proxy, "configmaps")
    upstream_proxy.inject(
        Fault(before=lambda: source.put("data", "colour", value="green")),
        when=lambda asked: asked.changes and asked.resource == "configmaps",
        times=1,
    )
    wide.down("ConfigMap", namespace).put("data", "colour", value="green")
    wide.down("ConfigMap", namespace, at="west").holds_data(colour="green")
    assert lists.hits == []


def test_a_change_that_the_write_of_a_status_has_met_is_not_hidden_by_it(
    world: Workspaces, upstream_proxy: FaultProxy
) -> None:
    world.credential("upstream", world.upstream, server=upstream_proxy.server)
    for cluster in (world.upstream, world.clusters["east"]):
        world.define_widgets(cluster)
    namespace = world.above("shop")
    source = world.widget(namespace, size=1)
    world.wsync("sync", world.widgets(), statusSync=True).is_ready()
    lists = silenced(upstream_proxy, "widgets")
    upstream_proxy.inject(
        Fault(before=lambda: source.put("spec", "size", value=2)),
        when=lambda asked: asked.changes and asked.resource == "widgets",
        times=1,
    )
    copy = world.down("Widget", namespace)
    report(copy, phase="Running")
    source.shows("status", "phase", value="Running")
    copy.shows("spec", "size", value=2)
    assert lists.hits == []


# What servers add.


@contextmanager
def injecting(sandbox: Sandbox, namespace: str) -> Iterator[None]:
    """Have a policy of the API server add a label and a value to each ConfigMap that is written to a namespace."""
    folder = "/apis/admissionregistration.k8s.io/v1"
    policy = Thing(sandbox, f"{folder}/mutatingadmissionpolicies", namespace)
    binding = Thing(sandbox, f"{folder}/mutatingadmissionpolicybindings", namespace)
    expression = 'Object{metadata: Object.metadata{labels: {"injected": "yes"}}, data: {"injected": "yes"}}'
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["configmaps"],
        "operations": ["CREATE", "UPDATE"],
    }
    here = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    spec = {
        "matchConstraints": {"namespaceSelector": here, "resourceRules": [rule]},
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
    }
    policy.create({"metadata": {"name": namespace}, "spec": spec})
    binding.create({"metadata": {"name": namespace}, "spec": {"policyName": namespace}})
    trial = f"/api/v1/namespaces/{namespace}/configmaps?dryRun=All"
    until(
        lambda: sandbox.request("POST", trial, {"metadata": {"name": "trial"}})["metadata"].get("labels"),
        lambda labels: labels == {"injected": "yes"},
    )
    try:
        yield
    finally:
        binding.delete()
        policy.delete()


@pytest.mark.parametrize("direction", ["Down", "Bidirectional"])
@pytest.mark.parametrize("strategy", ["UpstreamWins", "MergeChanges"])
def test_what_a_server_adds_below_neither_flaps_nor_goes_up(world: Workspaces, strategy: str, direction: str) -> None:
    namespace = world.above("shop")
    world.namespace_at(world.clusters["east"], namespace)
    with injecting(world.clusters["east"].sandbox, namespace):
        source = world.data(namespace)
        sync = world.wsync(
            "sync",
            resource("configmaps", direction=direction),
            conflictStrategy=strategy,
            namespaces=world.followed(existing="Use"),
        )
        sync.is_ready()
        world.comes_to_rest(sync)
        source.put("data", "colour", value="blue")
        world.down("ConfigMap", namespace).holds_data(colour="blue", injected="yes")
        world.comes_to_rest(sync)
        assert source.at("data") == {"colour": "blue"}
        assert source.labels == {}
