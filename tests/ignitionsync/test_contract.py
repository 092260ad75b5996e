"""The contract of the kind, as a stranger reads it: the spec with all of its words, and both forms of templates."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from tests.ignitionsync.agents import PlantGateway
from tests.ignitionsync.world import IgnitionSync, PlantWorld

SPEC = """
git: {ref: main, auth: {token: {secretRef: {name: git, key: token}}}}
polling: {enabled: true, interval: 60s}
webhook: {enabled: true, secretRef: {name: hook, key: token}}
gateway: {port: 8043, tls: true, apiKeySecretRef: {name: gw, key: apiKey}}
normalize: {systemName: true}
ignition: {designerSessionPolicy: wait}
sync:
  defaults: {vars: {site: "7"}}
  profiles:
    default:
      mappings:
        - {source: projects, destination: projects, type: dir}
        - {source: "gateways/{{ gateway.name }}/config", destination: config/resources/external, required: false}
    upstream:
      mappings:
        - {source: projects/, destination: projects/, type: dir}
        - {source: "gateways/{{.GatewayName}}/config", destination: config/resources/external, required: false}
        - {source: notes, destination: "notes-{{.Vars.site}}", template: true}
"""
SYSTEM = "ignition/system-properties/config.json"
FILES = {
    "projects/Plant/project.json": '{"title": "Plant"}\n',
    f"gateways/blue/config/{SYSTEM}": '{ "systemName": "template",  "other": 1 }\n',
    f"gateways/red/config/{SYSTEM}": '{ "systemName": "template",  "other": 2 }\n',
    "notes/site.txt": "site {{.Vars.site}} of {{.GatewayName}} in pod {{.PodName}}\n",
}


@pytest.fixture
def sync(world: PlantWorld) -> IgnitionSync:
    """The sync of the contract, with a repository of the test."""
    world.server.require_basic(world.name, "x-access-token", "pX7vRb2mKq9TzL4s")
    world.secret("git", token="pX7vRb2mKq9TzL4s")
    world.secret("hook", token="mV3nWc8hYd5RjG6t")
    world.push(FILES)
    return world.isync(**yaml.safe_load(SPEC))


@pytest.fixture
def gateways(world: PlantWorld, sync: IgnitionSync, tmp_path: Path) -> Iterator[dict[str, PlantGateway]]:
    """Two gateways that listen; one has the mappings in the words of upstream."""
    assert sync.read()
    made = {
        name: PlantGateway(
            world,
            tmp_path / name,
            f"gw-{number}",
            annotations={"gateway-name": name, **({"profile": "upstream"} if name == "red" else {})},
        )
        for number, name in enumerate(("blue", "red"))
    }
    with ExitStack() as held:
        for one in made.values():
            held.enter_context(one.double)
            held.callback(one.agent.kill)
        yield made


def test_the_spec_of_the_contract_reaches_its_gateways(
    world: PlantWorld, sync: IgnitionSync, gateways: dict[str, PlantGateway]
) -> None:
    sync.condition("AllGatewaysSynced", status="False", message="0/2 gateways synced")
    for one in gateways.values():
        agent = one.agent
        agent.start(
            *("--data", str(agent.data), "--gateway-url", one.double.url, "--api-key-file", str(agent.folder / "key")),
            *("--health-bind", "127.0.0.1:0", "--once"),
        )
        assert agent.wait() == 0, agent.log()
    sync.condition("AllGatewaysSynced", status="True", reason="SyncSucceeded", message="2/2 gateways synced")
    sync.condition("Ready", status="True")
    system = f"config/resources/external/{SYSTEM}"
    project = {"projects/Plant/project.json": FILES["projects/Plant/project.json"]}
    assert gateways["blue"].files == {**project, system: '{ "systemName": "blue",  "other": 1 }\n'}
    assert gateways["red"].files == {
        **project,
        system: '{ "systemName": "red",  "other": 2 }\n',
        "notes-7/site.txt": "site 7 of red in pod gw-1\n",
    }
    told = sync.gateway("gw-1")
    assert (told["name"], told["profile"], told["projectsSynced"]) == ("red", "upstream", ["Plant"])
    assert world.metadata().data["commit"] == told["syncedCommit"]
