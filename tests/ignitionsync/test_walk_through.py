"""The walk-through of the guide, in one piece: its objects and commands, with a real operator, agents and gateways."""

import json
import re
import shlex
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.admission.scene import client_config, free_port, put_back
from tests.commands import run_command
from tests.configmapsync.world import until
from tests.ignitionsync.world import IgnitionSync, Pod

from syncline.deploy import Manifest
from syncline.sandbox import RequestError, Sandbox
from syncline.testing.operator import OperatorProcess, execute
from syncline.testing.plant import DemoPlant

GUIDE = Path(__file__).parents[2] / "docs" / "ignitionsync.md"
FILES = GUIDE.parents[1] / "examples" / "ignitionsync" / "repository"
LINES = ("line-0", "line-1", "line-2")
PROJECT = "projects/site/project.json"
HOME = "/api/v1/namespaces/site"


class Guide:
    """The section of the guide."""

    def __init__(self) -> None:
        text = GUIDE.read_text(encoding="utf-8").partition("\n## Walk-through")[2].partition("\n## ")[0]
        self.flags = shlex.split(_command(text, "syncline run").partition(" 2>")[0])[2:]
        self.agent = _command(text, "syncline agent").partition(" 2>")[0]
        self.gateways = shlex.split(_command(text, "python -m syncline.testing.plant"))[4:-1]
        self.objects = re.findall(r"kubectl apply -f - <<END\n(.*?)\n    END\n", text, re.DOTALL)


def _command(text: str, start: str) -> str:
    (found,) = re.findall(rf"^ +{start} (?:.*\\\n)*.*", text, re.MULTILINE)
    return str(found).replace("\\\n", " ")


class WalkedPlant:
    """What a reader of the guide has started: a repository, gateways and agents."""

    def __init__(self, sandbox: Sandbox, plant: DemoPlant, ends: ExitStack) -> None:
        self.guide = Guide()
        self.sandbox = sandbox
        self.plant = plant
        self.sync = IgnitionSync(sandbox, "site", "plant")
        self._ends = ends

    def create_sync(self) -> None:
        """Create the sync of the guide, and its Secrets."""
        self.sandbox.request("POST", "/api/v1/namespaces", {"metadata": {"name": "site"}})
        secrets = {"git": {"token": "token"}, "git-ca": {"ca.crt": "ca.crt"}, "gateway": {"apiKey": "api-key"}}
        for name, keys in secrets.items():
            values = {key: (self.plant.folder / file).read_text() for key, file in keys.items()}
            self.sandbox.request("POST", f"{HOME}/secrets", {"metadata": {"name": name}, "stringData": values})
        wanted = self._object(0, "")
        self.sandbox.request("PATCH", f"{self.sync.path}?fieldManager=me", wanted)

    def gateway(self, name: str) -> None:
        """Create a pod, which asks for an agent; say that it runs, and start its agent, as the guide does."""
        until(lambda: self._exists(f"{HOME}/serviceaccounts/default"), bool)
        made = self.sandbox.request("PATCH", f"{HOME}/pods/{name}?fieldManager=me", self._object(1, name))
        assert [one["name"] for one in made["spec"]["initContainers"]] == ["syncline-agent"]
        Pod(self.sandbox, "site", name).phase("Running")
        given = self.guide.agent.replace("$(cat $P/$1/url)", self.plant.gateways[name].url)
        known = {"$KUBECONFIG": str(self.sandbox.kubeconfig), "$P": str(self.plant.folder), "$1": name}
        for variable, value in known.items():
            given = given.replace(variable, value)
        agent = execute(shlex.split(given)[1:], self.plant.folder / name / "agent.log")
        self._ends.callback(agent.wait)
        self._ends.callback(agent.kill)

    def push(self, title: str) -> str:
        """Push another title of the project."""
        project = {**json.loads((FILES / PROJECT).read_text()), "title": title}
        return self.plant.repository.commit({PROJECT: json.dumps(project)})

    def reconcile(self) -> tuple[int, str]:
        """Have the operator look now, and wait for all gateways."""
        place = ("-n", "site", "--kubeconfig", self.sandbox.kubeconfig)
        done = run_command(["reconcile", "isync/plant", *place, "--wait"])
        return done.returncode, done.stdout + done.stderr

    def titles(self, *names: str) -> list[str]:
        """Return the titles that gateways have."""
        files = [self.plant.folder / name / "data" / PROJECT for name in names]
        return [json.loads(file.read_text())["title"] for file in files]

    def _object(self, number: int, name: str) -> Manifest:
        text = self.guide.objects[number].replace("$(cat $P/url)", (self.plant.folder / "url").read_text())
        found: Manifest = yaml.safe_load(textwrap.dedent(text.replace("$1", name)))
        return found

    def _exists(self, path: str) -> dict[str, Any]:
        try:
            return dict(self.sandbox.request("GET", path))
        except RequestError:
            return {}


@pytest.fixture
def walked(arena: Sandbox, arena_kubeconfig: Path, tmp_path: Path) -> Iterator[WalkedPlant]:
    """The first step of the guide, with free ports."""
    port, guide = free_port(), Guide()
    others = [re.sub(r":8\d{3}$", ":0", flag) for flag in guide.flags if flag != "--as-installed"]
    flags = [flag.replace(":9443", f":{port}") for flag in others]
    with ExitStack() as ends:
        ends.callback(put_back, arena)
        operator = ends.enter_context(OperatorProcess(arena_kubeconfig, *flags))
        until(lambda: client_config(arena).get("url", ""), lambda url: f":{port}/" in url)
        plant = ends.enter_context(DemoPlant(tmp_path / "plant", guide.gateways))
        walked = WalkedPlant(arena, plant, ends)
        yield walked
        walked.sync.delete()
        walked.sync.gone()
        arena.request("DELETE", "/api/v1/namespaces/site")
        assert operator.returncode is None, operator.log()[-2000:]


@pytest.mark.own_rights
def test_the_walk_through_of_the_guide(walked: WalkedPlant) -> None:
    plant, sync = walked.plant, walked.sync
    files = {str(path.relative_to(FILES)): path.read_text() for path in FILES.rglob("*") if path.is_file()}
    plant.repository.commit(files)
    walked.create_sync()
    sync.condition("Ready", status="False", reason="NoGatewaysDiscovered")
    for name in LINES:
        walked.gateway(name)
    sync.condition("Ready", status="True", message="3/3 gateways synced")

    second = walked.push("Second")
    assert walked.reconcile() == (0, "IgnitionSync site/plant is ready: 3/3 gateways synced\n")
    assert walked.titles(*LINES) == ["Second"] * 3

    (plant.folder / "line-2" / "broken").write_text("site\n")
    third = walked.push("Third")
    code, said = walked.reconcile()
    assert (code, "VerifyFailed" in said) == (1, True)
    assert f"commit {third[:12]} failed" in sync.tells("RolloutRolledBack")["note"]
    until(lambda: walked.titles(*LINES), lambda titles: titles == ["Second"] * 3)
    for name in LINES:
        until(lambda name=name: sync.gateway(name), lambda one: one.get("syncedCommit") == second)
    (plant.folder / "line-2" / "broken").unlink()
    sync.condition("Ready", status="False", reason="RolledBackOnFailure")
    fourth = walked.push("Fourth")
    assert walked.reconcile()[0] == 0

    edited = plant.folder / "line-1" / "data" / PROJECT
    edited.write_text(edited.read_text().replace("Fourth", "Edited"))
    until(lambda: sync.gateway("line-1").get("edits", {}), lambda edits: edits.get("sent") == 1)
    (pull,) = plant.forge.pulls
    assert (pull["head"]["ref"], pull["labels"]) == ("gateway-changes/line-1", ["gateway"])
    assert sync.gateway("line-1")["edits"]["pullRequest"] == pull["html_url"]
    git = plant.repository.git
    assert git("rev-parse", "gateway-changes/line-1^") == fourth
    git("update-ref", "refs/heads/main", git("rev-parse", "gateway-changes/line-1"))
    assert walked.reconcile()[0] == 0
    assert walked.titles(*LINES) == ["Edited"] * 3

    walked.gateway("late-0")
    sync.condition("Ready", status="True", message="4/4 gateways synced")
    assert walked.titles("late-0") == ["Edited"]
