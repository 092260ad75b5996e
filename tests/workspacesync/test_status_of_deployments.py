"""Deployments in a workspace of kcp, which runs nothing, report what the clusters below make of them.

There is no kubelet: tests say that pods run, and the controllers of the clusters count them.
"""

from typing import Any

from tests.configmapsync.world import until
from tests.workspacesync.world import Workspaces, run_every_pod, run_pods

from syncline.testing.faults import Fault
from syncline.testing.proxy import FaultProxy

BOTH = ("east", "west")
COUNTERS = ("replicas", "readyReplicas", "updatedReplicas", "availableReplicas", "unavailableReplicas")
RESTRICTED = "pod-security.kubernetes.io/enforce"


class Rollout:
    """A Deployment in a workspace, and the pods of the clusters."""

    def __init__(self, world: Workspaces, *clusters: str, replicas: int = 3, **spec: Any) -> None:
        self.world = world
        self.namespace = world.above("shop")
        self.source = world.deployment(self.namespace, replicas=replicas)
        self.sync = world.wsync("sync", "deployments", to=clusters, **spec)
        self.copies = {name: world.down("Deployment", self.namespace, at=name) for name in clusters}
        for copy in self.copies.values():
            copy.appears()
        self.sync.is_ready()

    def run(self, **counts: int) -> None:
        """Say how many pods run in each cluster."""
        for cluster, count in counts.items():
            run_pods(self.world.clusters[cluster], self.namespace, count)

    def finish(self) -> None:
        """Say of each pod that comes that it runs, until all is rolled out."""

        def advance() -> bool:
            for cluster in self.copies:
                run_every_pod(self.world.clusters[cluster], self.namespace)
            return self.is_rolled_out()

        until(advance, bool)

    def shows(self, **counters: int) -> None:
        """Wait until the Deployment of the workspace has these counters."""
        wanted = {name: counters.get(name, 0) for name in COUNTERS if name in counters}
        until(lambda: self.counters(), lambda seen: wanted.items() <= seen.items())  # noqa: PLW0108 - it is read anew

    def counters(self) -> dict[str, int]:
        status = self.source.at("status") or {}
        return {name: int(status.get(name, 0)) for name in COUNTERS}

    def condition(self, kind: str) -> dict[str, str]:
        found = self.source.at("status", "conditions") or []
        return next((one for one in found if one["type"] == kind), {})

    def is_rolled_out(self) -> bool:
        """Tell what `kubectl rollout status` would."""
        body = self.source.read()
        status, wanted = body.get("status", {}), body["spec"]["replicas"]
        return (
            status.get("observedGeneration", 0) >= body["metadata"]["generation"]
            and status.get("updatedReplicas", 0) >= wanted
            and status.get("replicas", 0) <= status.get("updatedReplicas", 0)
            and status.get("availableReplicas", 0) >= status.get("updatedReplicas", 0)
        )


def test_a_deployment_of_a_workspace_shows_the_pods_of_its_cluster(kcp_world: Workspaces) -> None:
    rollout = Rollout(kcp_world, "east")
    rollout.run(east=2)
    rollout.shows(replicas=3, readyReplicas=2, availableReplicas=2, unavailableReplicas=1)
    assert not rollout.is_rolled_out()
    rollout.run(east=3)
    until(rollout.is_rolled_out, bool)
    until(lambda: rollout.condition("Available").get("status"), lambda seen: seen == "True")
    kcp_world.comes_to_rest(rollout.sync)


def test_a_new_revision_is_rolled_out_when_the_cluster_has_observed_it(kcp_world: Workspaces) -> None:
    rollout = Rollout(kcp_world, "east", replicas=1)
    rollout.run(east=1)
    until(rollout.is_rolled_out, bool)
    rollout.source.put("spec", "template", "spec", "containers", 0, "image", value="example.com/app:2")
    assert not rollout.is_rolled_out()
    rollout.shows(updatedReplicas=1, replicas=2)
    assert not rollout.is_rolled_out()
    rollout.finish()


def test_of_several_clusters_with_all_replicas_the_slowest_counts(wide_kcp_world: Workspaces) -> None:
    rollout = Rollout(wide_kcp_world, *BOTH)
    rollout.run(east=3, west=1)
    rollout.shows(replicas=3, readyReplicas=1, availableReplicas=1, unavailableReplicas=2)
    assert not rollout.is_rolled_out()
    rollout.run(west=3)
    until(rollout.is_rolled_out, bool)
    rollout.shows(replicas=3, readyReplicas=3, unavailableReplicas=0)


def test_of_several_clusters_with_divided_replicas_the_counters_are_summed(wide_kcp_world: Workspaces) -> None:
    rollout = Rollout(wide_kcp_world, *BOTH, replicas=5, placement={"strategy": "All", "replicas": "Divide"})
    shares = {name: int(copy.at("spec", "replicas")) for name, copy in rollout.copies.items()}
    assert sum(shares.values()) == 5
    rollout.run(east=shares["east"], west=1)
    rollout.shows(replicas=5, readyReplicas=shares["east"] + 1)
    rollout.run(west=shares["west"])
    rollout.shows(readyReplicas=5, availableReplicas=5, unavailableReplicas=0)
    until(rollout.is_rolled_out, bool)


def test_a_failure_in_one_cluster_is_a_failure(wide_kcp_world: Workspaces) -> None:
    rollout = Rollout(wide_kcp_world, *BOTH, replicas=0)
    wide_kcp_world.down("Namespace", "", rollout.namespace, at="west").label(**{RESTRICTED: "restricted"})
    rollout.source.put("spec", "replicas", value=1)
    until(lambda: rollout.condition("ReplicaFailure").get("status"), lambda seen: seen == "True")
    assert "west" in rollout.condition("ReplicaFailure")["message"]


def test_a_cluster_out_of_reach_is_left_out_and_named(wide_kcp_world: Workspaces, west_proxy: FaultProxy) -> None:
    world = wide_kcp_world
    world.credential("west", world.clusters["west"], server=west_proxy.server)
    rollout = Rollout(world, *BOTH, replicas=2)
    rollout.run(east=2, west=1)
    rollout.shows(readyReplicas=1)
    outage = west_proxy.inject(Fault(lost=True), when=lambda _: True)
    west_proxy.cut_watches()
    rollout.shows(readyReplicas=2)
    until(lambda: rollout.condition("Available").get("status"), lambda seen: seen == "Unknown")
    said = rollout.condition("Available")["message"]
    assert "west" in said
    assert "last seen" in said
    rollout.source.put("spec", "minReadySeconds", value=0)
    rollout.source.put("spec", "revisionHistoryLimit", value=3)
    rollout.copies["east"].shows("spec", "revisionHistoryLimit", value=3)
    rollout.sync.now()
    assert not rollout.is_rolled_out()
    outage.lift()
    rollout.sync.now()  # the cluster is asked at once
    rollout.shows(readyReplicas=1)
    rollout.finish()
