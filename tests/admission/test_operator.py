"""`syncline run` with its flags: a pod is injected, its agent gets the files, and nobody gets an agent unchecked."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.admission.scene import IMAGE, Tenant, client_config, configuration, free_port, put_back
from tests.configmapsync.world import until
from tests.configsync.conftest import git_server
from tests.ignitionsync.agents import PodAgent
from tests.ignitionsync.world import PROJECT, PlantWorld, Pod

from syncline import deploy
from syncline.sandbox import Sandbox
from syncline.testing.gateway import GatewayDouble
from syncline.testing.gitserver import GitServer
from syncline.testing.operator import OperatorProcess

__all__ = ["git_server"]


@pytest.fixture(scope="module")
def running(arena: Sandbox, arena_kubeconfig: Path) -> Iterator[OperatorProcess]:
    """An operator that serves a depot and the admission webhook, with the rights that are shipped."""
    port = free_port()
    flags = (
        *("--allow-loopback", "--depot-bind", "127.0.0.1:0", "--agent-image", IMAGE),
        *("--admission-bind", f"127.0.0.1:{port}", "--admission-url", f"https://127.0.0.1:{port}"),
    )
    with OperatorProcess(arena_kubeconfig, *flags) as operator:
        assert operator.address("admission") == f"127.0.0.1:{port}"
        until(lambda: client_config(arena).get("url", ""), lambda url: f":{port}/" in url)
        yield operator
    put_back(arena)


@pytest.fixture
def world(arena: Sandbox, running: OperatorProcess, git_server: GitServer) -> Iterator[PlantWorld]:
    world = PlantWorld(arena, git_server)
    yield world
    world.end()
    assert running.returncode is None, running.log()[-2000:]


def test_a_pod_that_is_made_later_is_injected_and_catches_up(
    arena: Sandbox, world: PlantWorld, running: OperatorProcess, tmp_path: Path
) -> None:
    commit = world.push(PROJECT)
    sync = world.isync()
    sync.at(commit)
    tenant = Tenant(arena, world.home)
    answered = until(lambda: tenant.pod(name="gw-9", dry_run=True), lambda one: bool(one.agent))
    assert answered.agent["image"] == IMAGE
    world._await_account(world.home)
    answered = tenant.pod(name="gw-9", serviceAccountName="default")
    pod = Pod(arena, world.home, "gw-9")
    pod.phase("Running")
    depot = {"depotURL": answered.variables["SYNCLINE_DEPOT_URL"], "depotCA": answered.variables["SYNCLINE_CA"]}
    assert depot["depotURL"] == f"https://{running.address('depot')}"
    (tmp_path / "data").mkdir()
    with GatewayDouble(tmp_path / "data", api_key="name:key") as gateway:
        agent = PodAgent(tmp_path, pod, depot, gateway)
        agent.start()
        try:
            sync.gateway_at("gw-9", "Synced", syncedCommit=commit)
            assert agent.files().keys() >= PROJECT.keys()
        finally:
            agent.kill()
    assert sync.condition("AgentsReady", status="True")["reason"] == "AgentsReporting"


def test_a_pod_that_was_created_without_an_agent_is_named(arena: Sandbox, world: PlantWorld) -> None:
    tenant = Tenant(arena, world.home)
    answered = tenant.pod(name="early")
    assert not answered.agent
    assert "there is no IgnitionSync plant" in answered.warnings[0]
    Pod(arena, world.home, "early").phase("Running")
    world.push(PROJECT)
    sync = world.isync()
    sync.gateway_at("early", "MissingSidecar", reason="AgentMissing")
    assert "early" in sync.condition("AgentsReady", status="False", reason="AgentMissing")["message"]


@pytest.mark.own_rights  # the author of a sync with a service account needs no check
def test_a_sync_whose_author_was_not_checked_gives_no_agents(arena: Sandbox, world: PlantWorld) -> None:
    name = "ignitionsyncs-authors.syncline.dev"
    folder = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
    [binding] = [
        one
        for one in deploy.policy()
        if one["kind"] == "ValidatingAdmissionPolicyBinding" and one["metadata"]["name"] == name
    ]
    arena.request("DELETE", f"{folder}/{name}")
    try:
        sync = world.isync(agent={"image": {"repository": "registry.example.com/evil"}})
        sync.condition("Ready", status="False", reason="AuthorUnchecked")
        answered = Tenant(arena, world.home).pod()
        assert not answered.agent
        assert "IgnitionSync plant is not carried out (AuthorUnchecked)" in answered.warnings[0]
    finally:
        arena.request("POST", folder, binding)


def test_readiness_and_configuration_tell_of_the_webhook(arena: Sandbox, running: OperatorProcess) -> None:
    told = until(lambda: running.get("health", "/readyz?verbose")[1], lambda text: "can ask about new pods" in text)
    assert "[+] admission:" in told
    assert [one["name"] for one in configuration(arena)["webhooks"]] == ["inject.syncline.dev"]
    assert "syncline_ignition_injections_total" in running.get("metrics", "/metrics")[1]
