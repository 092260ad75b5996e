"""Operators that go, spares that serve, and certificates that change, under agents that run."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.scene import until
from tests.configmapsync import world as scene
from tests.ignitionsync.agents import Plant, PodAgent
from tests.ignitionsync.certificates import certificates
from tests.ignitionsync.world import PROJECT, PlantWorld

from syncline.sandbox import Sandbox
from syncline.sandbox.pki import Authority
from syncline.testing.gitserver import GitServer
from syncline.testing.operator import OperatorProcess

VIEW = "projects/Plant/views/main.json"


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@pytest.fixture
def world(arena: Sandbox, arena_kubeconfig: Path, git_server: GitServer) -> Iterator[PlantWorld]:
    """A world in a cluster where only the operators of a test run."""
    assert arena_kubeconfig.exists()
    world = PlantWorld(arena, git_server)
    yield world
    world.end_alone()


def flags(folder: Path, *more: str) -> tuple[str, ...]:
    """Return the flags of an operator that has a folder of its own."""
    return ("--allow-loopback", "--git-cache", str(folder / "git"), "--webhook-bind", "127.0.0.1:0", *more)


def pod_agent(plant: Plant, folder: Path, name: str = "line-0") -> PodAgent:
    """Return an agent as it is in a pod, of an application that finds its files by itself."""
    pod = plant.world.pod(name)
    metadata = scene.until(plant.world.metadata().look, lambda seen: seen and "depotCA" in seen.get("data", {}))
    assert metadata is not None
    return PodAgent(folder / name, pod, metadata["data"])


def test_agents_keep_their_files_and_start_while_the_operator_is_away(
    world: PlantWorld, arena_kubeconfig: Path, tmp_path: Path
) -> None:
    bind = ("--depot-bind", f"127.0.0.1:{free_port()}")
    with OperatorProcess(arena_kubeconfig, *flags(tmp_path, *bind)) as operator:
        plant = Plant(world, tmp_path, operator)
        commit = world.push(PROJECT)
        plant.create(apply={"type": "None"}, gateway={})
        agent = pod_agent(plant, tmp_path).start()
        plant.sync.gateway_at("line-0", "Synced", syncedCommit=commit)
    try:
        assert agent.stop() == 0
        agent.start()
        until(lambda: agent.probe("/startupz")[0] == 200, agent.log)
        assert agent.files() == PROJECT
        assert "the folder has the files of an earlier plan" in agent.log()
        newcomer = PodAgent(tmp_path / "newcomer", world.pod("line-1"), agent.depot).start()
        try:
            until(lambda: "the folder has no files yet" in newcomer.probe("/startupz")[1], newcomer.log)
            with OperatorProcess(arena_kubeconfig, *flags(tmp_path, *bind)) as operator:
                plant.operator = operator
                second = plant.push(main='{"a": "back"}')
                for one in (agent, newcomer):
                    until(lambda one=one: one.files().get(VIEW) == '{"a": "back"}', one.log)
                for name in ("line-0", "line-1"):
                    plant.sync.gateway_at(name, "Synced", syncedCommit=second)
        finally:
            newcomer.kill()
    finally:
        agent.kill()


def test_a_spare_serves_agents_and_goes_on_when_the_leader_dies(
    world: PlantWorld, arena_kubeconfig: Path, tmp_path: Path
) -> None:
    port = free_port()
    url = ("--leader-elect", "--depot-url", f"https://127.0.0.1:{port}")
    leading = flags(tmp_path / "leader", *url, "--depot-bind", "127.0.0.1:0")
    sparing = flags(tmp_path / "spare", *url, "--depot-bind", f"127.0.0.1:{port}")
    with (
        OperatorProcess(arena_kubeconfig, *leading) as leader,
        OperatorProcess(arena_kubeconfig, *sparing) as spare,
    ):
        plant = Plant(world, tmp_path, spare)
        commit = world.push(PROJECT)
        plant.create(apply={"type": "None"}, gateway={})
        agent = pod_agent(plant, tmp_path).start()
        try:
            plant.sync.gateway_at("line-0", "Synced", syncedCommit=commit)
            assert 'syncline_depot_requests_total{code="200",request="blobs"}' in spare.get("metrics", "/metrics")[1]
            assert "syncline_depot_requests_total{" not in leader.get("metrics", "/metrics")[1]
            second = plant.push(main='{"a": "by the spare"}')
            plant.sync.gateway_at("line-0", "Synced", syncedCommit=second)
            assert agent.files()[VIEW] == '{"a": "by the spare"}'
            leader.kill()
            third = plant.push(main='{"a": "led by the spare"}')
            plant.sync.gateway_at("line-0", "Synced", syncedCommit=third)
            assert agent.files()[VIEW] == '{"a": "led by the spare"}'
        finally:
            agent.kill()


def test_agents_learn_a_new_authority_and_know_it_after_a_restart(
    world: PlantWorld, arena_kubeconfig: Path, tmp_path: Path
) -> None:
    old, new = Authority.create(), Authority.create()
    folder = certificates(tmp_path / "certificates", old)
    bind = ("--depot-bind", f"127.0.0.1:{free_port()}", "--depot-cert-dir", str(folder))
    with OperatorProcess(arena_kubeconfig, *flags(tmp_path, *bind)) as operator:
        plant = Plant(world, tmp_path, operator)
        commit = world.push(PROJECT)
        plant.create(apply={"type": "None"}, gateway={})
        agent = pod_agent(plant, tmp_path).start()
        try:
            plant.sync.gateway_at("line-0", "Synced", syncedCommit=commit)
            certificates(folder, old, new)
            learned = agent.data / ".syncline" / "depot-ca.json"
            until(lambda: learned.exists() and learned.read_text().count("BEGIN CERTIFICATE") == 2, agent.log)
            certificates(folder, new)
            until(lambda: learned.read_text().count("BEGIN CERTIFICATE") == 1, agent.log)
            assert agent.stop() == 0
            agent.start()
            second = plant.push(main='{"a": "rotated"}')
            plant.sync.gateway_at("line-0", "Synced", syncedCommit=second)
            stale = PodAgent(tmp_path / "stale", world.pod("line-1"), agent.depot).start()
            try:
                until(lambda: "its certificate cannot be verified" in stale.probe("/startupz")[1], stale.log)
                (stale.folder / "ca.crt").write_bytes(new.certificate)
                plant.sync.gateway_at("line-1", "Synced", syncedCommit=second)
            finally:
                stale.kill()
        finally:
            agent.kill()
