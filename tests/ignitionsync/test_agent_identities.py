"""Agents whose token is not the one of their pod, and agents whose pod has another name than before."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.scene import until
from tests.configmapsync import world as scene
from tests.ignitionsync.agents import ClusterAgent, PodAgent, token_of
from tests.ignitionsync.world import MAPPINGS, PROJECT, IgnitionSync, PlantWorld

NAMED = "config/resources/external/name.txt"
TEMPLATED = [*MAPPINGS, {"source": "named", "destination": "config/resources/external", "template": True}]
FILES = {**PROJECT, "named/name.txt": "{{ gateway.pod }}"}


class Named:
    """A sync that writes the name of the pod into a file."""

    def __init__(self, world: PlantWorld) -> None:
        self.world = world
        self.commit = world.push(FILES)
        self.sync: IgnitionSync = world.isync(
            apply={"type": "None"}, gateway={}, sync={"profiles": {"default": {"mappings": TEMPLATED}}}
        )

    def depot(self) -> dict[str, str]:
        """Return the address and the certificates of the depot."""
        seen = scene.until(self.world.metadata().look, lambda found: found and "depotCA" in found.get("data", {}))
        assert seen is not None
        return dict(seen["data"])


@pytest.fixture
def named(world: PlantWorld) -> Iterator[Named]:
    return Named(world)


def test_an_agent_with_the_token_of_no_pod_or_of_another_namespace_gets_nothing_and_says_so(
    named: Named, tmp_path: Path
) -> None:
    pod = named.world.pod("gw-0")
    stranger = named.world.pod("gw-0", namespace=named.world.namespace("others"))
    named.sync.at(named.commit)
    tokens = {
        "unbound": (token_of(pod, bound=False), "the depot answers 401"),
        "audience": (token_of(pod, audience="https://kubernetes.default.svc"), "the depot answers 401"),
        "namespace": (token_of(stranger), "in the namespace of the pod"),
    }
    for name, (token, cause) in tokens.items():
        agent = PodAgent(tmp_path / name, pod, named.depot())
        (agent.folder / "token").write_text(token)
        agent.start()
        try:
            until(lambda agent=agent, cause=cause: cause in agent.probe("/startupz")[1], agent.log)
            assert agent.probe("/startupz")[0] == 503
            assert agent.files() == {}
            assert token not in agent.log()
        finally:
            agent.kill()
    named.sync.gateway_at("gw-0", "Pending", reason="NoReport")


def test_an_agent_with_the_token_of_another_pod_speaks_for_that_pod_alone(named: Named, tmp_path: Path) -> None:
    victim, other = named.world.pod("victim-0"), named.world.pod("other-0")
    named.sync.at(named.commit)
    agent = PodAgent(tmp_path / "agent", victim, named.depot())
    (agent.folder / "token").write_text(token_of(other))
    agent.start()
    try:
        named.sync.gateway_at("other-0", "Synced", syncedCommit=named.commit)
        assert agent.files()[NAMED] == "other-0"
        named.sync.gateway_at("victim-0", "Pending", reason="NoReport")
        assert named.world.report("victim-0").look() is None
    finally:
        agent.kill()


def test_a_pod_with_another_name_takes_over_the_folder_and_the_old_name_is_forgotten(
    named: Named, tmp_path: Path
) -> None:
    old = named.world.pod("old-0")
    agent = ClusterAgent(tmp_path / "gateway", old)
    agent.start()
    named.sync.gateway_at("old-0", "Synced", syncedCommit=named.commit)
    assert agent.files()[NAMED] == "old-0"
    old.remove()
    old.gone()
    assert agent.stop() == 0
    before = {path: (agent.data / path).stat().st_mtime_ns for path in PROJECT}
    agent.start()
    renamed = ClusterAgent(tmp_path / "gateway", named.world.pod("new-0"))
    try:
        until(lambda: "the token of pod" in agent.log(), agent.log)
        until(lambda: agent.probe("/startupz")[0] == 200, agent.log)
        assert agent.files()[NAMED] == "old-0"
        assert agent.stop() == 0
        renamed.start()
        named.sync.gateway_at("new-0", "Synced", syncedCommit=named.commit)
        assert renamed.files()[NAMED] == "new-0"
        assert {path: (renamed.data / path).stat().st_mtime_ns for path in PROJECT} == before
        assert named.sync.gateway("old-0") == {}
        named.sync.condition("AllGatewaysSynced", status="True", message="1/1 gateways synced")
    finally:
        agent.kill()
        renamed.kill()
