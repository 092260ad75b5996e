"""What a tenant must not get from the depot of a running operator, and what tenants cannot have agents do."""

import http.client
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.configmapsync.world import until
from tests.ignitionsync.agents import Plant, PodAgent, token_of
from tests.ignitionsync.world import PROJECT, PlantWorld

from syncline.core.gateway_plan import GatewayPlan, GatewayReport
from syncline.sandbox import Sandbox
from syncline.testing.gitserver import GitServer
from syncline.testing.operator import OperatorProcess


@pytest.fixture
def plant(sandbox: Sandbox, operator: OperatorProcess, git_server: GitServer, tmp_path: Path) -> Iterator[Plant]:
    """A sync, and no gateway yet."""
    world = PlantWorld(sandbox, git_server)
    with Plant(world, tmp_path, operator) as plant:
        plant.commit = world.push(PROJECT)
        plant.create()
        plant.sync.at(plant.commit)
        yield plant
    world.end()


def ask(plant: Plant, token: str, path: str = "/v1/plan", body: Any = None) -> tuple[int, dict[str, Any]]:
    """Send a request to the depot of the operator, as any pod of the cluster can; again while it is busy."""
    return until(lambda: ask_once(plant, token, path, body), lambda answer: answer[0] not in (429, 503))


def ask_once(plant: Plant, token: str, path: str, body: Any) -> tuple[int, dict[str, Any]]:
    """Return the status of an answer, and what it says."""
    metadata = until(lambda: plant.world.metadata().look() or {}, lambda seen: "depotCA" in seen.get("data", {}))[
        "data"
    ]
    place = urlsplit(metadata["depotURL"])
    context = ssl.create_default_context(cadata=metadata["depotCA"])
    connection = http.client.HTTPSConnection(place.hostname or "", place.port, context=context, timeout=60)
    try:
        content = None if body is None else json.dumps(body)
        connection.request("GET" if body is None else "POST", path, content, {"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    return answer.status, json.loads(text) if text.startswith(b"{") else {"message": text.decode()}


def test_only_a_token_of_this_very_pod_gets_the_plan_of_a_pod(plant: Plant) -> None:
    mine, other = plant.world.pod("mine-0"), plant.world.pod("other-0")
    assert ask(plant, token_of(mine))[1]["gateway"] == "mine-0"
    assert ask(plant, token_of(other))[1]["gateway"] == "other-0"
    assert ask(plant, token_of(mine, bound=False))[0] == 401
    assert ask(plant, token_of(mine, audience="https://kubernetes.default.svc"))[0] == 401
    stale = token_of(mine)
    mine.remove()
    mine.gone()
    plant.world.pod("mine-0")
    assert ask(plant, stale)[0] == 401


def test_a_pod_of_another_namespace_gets_nothing_of_a_sync_that_it_names(plant: Plant) -> None:
    elsewhere = plant.world.namespace("thieves")
    for name in ("plant", f"{plant.world.home}/plant"):
        thief = plant.world.pod(f"thief-{len(name)}", name, namespace=elsewhere)
        status, said = ask(plant, token_of(thief))
        assert status == 404
        assert "in the namespace of the pod" in said["message"]
    plan = ask(plant, token_of(plant.world.pod("mine-0")))[1]
    wanted = {"plan": plan["id"], "ids": [plan["files"][0]["blob"]]}
    assert ask(plant, token_of(thief), "/v1/blobs", wanted)[0] == 404


def test_a_report_speaks_for_the_pod_of_its_token_alone(plant: Plant) -> None:
    victim, liar = plant.world.pod("victim-0"), plant.world.pod("liar-0")
    plan = ask(plant, token_of(victim))[1]
    lie = GatewayReport(state="Synced", reason="Synced", plan=plan["id"], commit=plant.commit)
    body = {"state": lie.state, "reason": lie.reason, "plan": lie.plan, "commit": lie.commit, "pod": "victim-0"}
    assert ask(plant, token_of(liar), "/v1/report", body)[0] in (204, 400)
    body.pop("pod")
    assert ask(plant, token_of(liar), "/v1/report", body)[0] == 204
    plant.sync.gateway_at("victim-0", "Pending", reason="NoReport")
    plant.sync.gateway_at("liar-0", "Syncing", reason="NewPlan")


def test_nothing_in_a_config_map_is_obeyed_in_a_pod(plant: Plant, tmp_path: Path) -> None:
    pod = plant.world.pod("line-0")
    depot = until(plant.world.metadata().look, lambda seen: seen and "depotCA" in seen.get("data", {}))
    assert depot is not None
    agent = PodAgent(tmp_path / "pod", pod, depot["data"])
    plant.sync.change(apply={"type": "None"}, gateway=None)
    agent.start()
    try:
        plant.sync.gateway_at("line-0", "Synced", syncedCommit=plant.commit)
        plant.world.metadata().set(depotURL="https://127.0.0.1:1", depotCA="nothing", commit="0" * 40)
        plant.world.report("line-0").set(report='{"state":"Error","reason":"ScanFailed"}')
        commit = plant.push(main='{"a": "unimpressed"}')
        plant.sync.gateway_at("line-0", "Synced", syncedCommit=commit)
        assert agent.files()["projects/Plant/views/main.json"] == '{"a": "unimpressed"}'
        until(lambda: plant.world.metadata().data["depotURL"], lambda url: url == depot["data"]["depotURL"])
    finally:
        agent.kill()


def test_the_end_of_a_sync_removes_its_config_maps_and_leaves_the_files(plant: Plant) -> None:
    line = plant.gateway("line-0")
    line.agent.start()
    plant.until_synced(plant.commit)
    plant.sync.delete()
    plant.sync.gone()
    plant.world.metadata().gone()
    plant.world.report("line-0").gone()
    before = {path: (line.agent.data / path).stat().st_mtime_ns for path in line.files}
    assert line.files == PROJECT
    plant.create()
    plant.until_synced(plant.commit)
    assert {path: (line.agent.data / path).stat().st_mtime_ns for path in line.files} == before


def test_a_plan_has_only_what_the_gateway_maps(plant: Plant) -> None:
    commit = plant.world.push({"other/secret.txt": "not mapped"})
    plant.sync.now()
    plant.sync.at(commit)
    token = token_of(plant.world.pod("line-0"))
    status, plan = until(lambda: ask(plant, token), lambda got: got[1].get("commit") == commit)
    assert status == 200
    assert sorted(file["path"] for file in plan["files"]) == sorted(PROJECT)
    hidden = plant.world.repository.git("rev-parse", "main:other/secret.txt")
    assert ask(plant, token, "/v1/blobs", {"plan": plan["id"], "ids": [hidden]})[0] == 404
    assert set(plan) <= set(GatewayPlan.__struct_encode_fields__)
