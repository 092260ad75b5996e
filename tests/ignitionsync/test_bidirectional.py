"""Edits on gateways become commits and pull requests; and what a hostile pod cannot have the operator write."""

import http.client
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.agent.scene import until as until_true
from tests.configmapsync.world import until
from tests.git.github_app import TOKEN as APP_TOKEN
from tests.git.github_app import App
from tests.ignitionsync.agents import Plant, token_of
from tests.ignitionsync.world import PROJECT, PlantWorld

from syncline.depot.server import MAX_CHANGE_LINE
from syncline.sandbox import Sandbox
from syncline.testing.forge import Forge
from syncline.testing.gitserver import GitServer
from syncline.testing.operator import OperatorProcess

TOKEN = "hV3xQ9tR7mK2wZ5p"
VIEW = "projects/Plant/views/main.json"
AUTH = {"token": {"secretRef": {"name": "git", "key": "token"}}}
BACK = {
    "enabled": True,
    "watchPaths": ["projects/**"],
    "targetBranch": "edits/{{ gateway.name }}",
    "debounce": "1s",
    "createPR": True,
    "prLabels": ["gateway", "review"],
}
KEY = "-----BEGIN " + "PRIVATE KEY-----\nabc\n"


class EditWorld(PlantWorld):
    """A world whose repository takes pushes with a token, and has pull requests."""

    def __init__(self, sandbox: Sandbox, server: GitServer) -> None:
        super().__init__(sandbox, server)
        self.owned = f"plants/{self.name}"
        self.repository = server.repository(self.owned)
        server.pushable.add(self.owned)
        server.require_basic(self.owned, "x-access-token", TOKEN)
        self.forge = Forge(server, "plants", self.name, TOKEN)
        self.secret("git", token=TOKEN)

    @property
    def url(self) -> str:
        return self.server.url(self.owned)

    def branches(self) -> list[str]:
        """Return all branches of the repository."""
        return self.repository.git("for-each-ref", "--format=%(refname:short)", "refs/heads/").split("\n")


@pytest.fixture
def world(sandbox: Sandbox, operator: OperatorProcess, git_server: GitServer) -> Iterator[EditWorld]:
    world = EditWorld(sandbox, git_server)
    yield world
    world.end()
    assert operator.returncode is None, operator.log()[-2000:]


@pytest.fixture
def plant(world: EditWorld, operator: OperatorProcess, tmp_path: Path) -> Iterator[Plant]:
    """A sync whose edits go back, and no gateway yet."""
    with Plant(world, tmp_path, operator) as plant:
        plant.commit = world.push({**PROJECT, "other/secret.txt": "not mapped"})
        plant.create(git={"auth": AUTH}, bidirectional=BACK)
        plant.sync.at(plant.commit)
        yield plant


def send(plant: Plant, token: str, files: list[dict[str, Any]], content: bytes = b"") -> tuple[int, str]:
    """Send edits to the depot of the operator, as any pod of the cluster can; return the answer."""
    data = plant.world.metadata().data
    plan = until(lambda: _ask(data, token, "GET", "/v1/plan", b""), lambda got: got[0] == 200)[1]
    known = json.loads(plan)
    line = json.dumps({"plan": known["id"], "commit": known["commit"], "files": files}).encode()
    return _ask(data, token, "POST", "/v1/changes", line + b"\n" + content)


def _ask(data: dict[str, str], token: str, method: str, path: str, body: bytes) -> tuple[int, str]:
    place = urlsplit(data["depotURL"])
    context = ssl.create_default_context(cadata=data["depotCA"])
    connection = http.client.HTTPSConnection(place.hostname or "", place.port, context=context, timeout=120)
    try:
        connection.request(method, path, body or None, {"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except (ssl.SSLEOFError, ConnectionError):
        # A body that is far too large is not read to its end: the depot closes, and its answer may be lost on the way.
        assert len(body) > MAX_CHANGE_LINE
        return 413, ""
    finally:
        connection.close()


def test_an_edit_on_a_gateway_becomes_a_commit_and_a_pull_request(plant: Plant, world: EditWorld) -> None:
    gateway = plant.gateway("line-0")
    gateway.agent.start()
    plant.until_synced(plant.commit)
    assert plant.sync.condition("BidirectionalReady", status="True", reason="EditsWatched")
    (gateway.agent.data / VIEW).write_text('{"a": "edited"}\n')
    (gateway.agent.data / "projects/Plant/views/new.json").write_text("{}\n")
    said = until(lambda: plant.sync.gateway("line-0").get("edits", {}), lambda one: one.get("sent") == 2)
    assert (said["branch"], said["pullRequest"]) == ("edits/line-0", world.forge.pulls[0]["html_url"])
    git = world.repository.git
    assert said["commit"] == git("rev-parse", "edits/line-0")
    assert git("rev-parse", "edits/line-0^") == plant.commit == git("rev-parse", "main")
    assert git("show", f"edits/line-0:{VIEW}") == '{"a": "edited"}'
    changed = git("diff", "--name-only", "main", "edits/line-0").split("\n")
    assert changed == [VIEW, "projects/Plant/views/new.json"]
    assert git("log", "-1", "--format=%an, %cn", "edits/line-0") == "gateway line-0, Syncline"
    assert len(world.forge.pulls) == 1
    pull = world.forge.pulls[0]
    assert (pull["head"]["ref"], pull["base"]["ref"]) == ("edits/line-0", "main")
    assert pull["labels"] == ["gateway", "review"]
    assert "edits/line-0" in plant.sync.tells("EditsCommitted")["note"]
    assert pull["html_url"] in plant.sync.tells("PullRequestOpened")["note"]
    condition = plant.sync.condition("BidirectionalReady", status="True", reason="EditsWatched")
    assert condition["message"] == "2 edits are in branches and not in main"
    (gateway.agent.data / "projects/Plant/project.json").unlink()
    until_true(lambda: git("rev-list", "--count", "main..edits/line-0") == "2", gateway.agent.log)
    assert git("diff", "--name-status", "edits/line-0^", "edits/line-0").split() == ["D", "projects/Plant/project.json"]
    until(lambda: plant.sync.gateway("line-0").get("edits", {}), lambda one: one.get("sent") == 3)
    assert len(world.forge.pulls) == 1
    git("update-ref", "refs/heads/main", git("rev-parse", "edits/line-0"))
    merged = git("rev-parse", "main")
    plant.announce(merged)
    plant.sync.gateway_at("line-0", "Synced", syncedCommit=merged, files=2)
    until(lambda: plant.sync.gateway("line-0").get("edits", {}), lambda one: not one.get("sent"))
    assert gateway.files == {VIEW: '{"a": "edited"}\n', "projects/Plant/views/new.json": "{}\n"}


def test_a_github_app_pushes_edits_and_opens_the_pull_request(
    world: EditWorld, operator: OperatorProcess, git_server: GitServer, tmp_path: Path
) -> None:
    app = App(git_server, installation=4711)
    world.secret("app", pem=app.pem.decode())
    git_server.require_basic(world.owned, "x-access-token", f"{APP_TOKEN}-1")
    world.forge.token = f"{APP_TOKEN}-1"
    auth = {"appId": 7, "installationId": 4711, "privateKeySecretRef": {"name": "app", "key": "pem"}}
    with Plant(world, tmp_path, operator) as plant:
        commit = world.push(PROJECT)
        plant.create(git={"auth": {"githubApp": auth}}, bidirectional=BACK)
        plant.sync.at(commit)
        status, said = send(plant, token_of(world.pod("line-0")), [{"path": VIEW, "size": 3}], b"{}\n")
        git = world.repository.git
        assert (status, json.loads(said)) == (
            200,
            {
                "branch": "edits/line-0",
                "commit": git("rev-parse", "edits/line-0"),
                "pullRequest": world.forge.pulls[0]["html_url"],
            },
        )
        assert git("rev-parse", "edits/line-0^") == commit
        assert git("diff", "--name-only", "main", "edits/line-0") == VIEW
        assert {path for _, path in world.forge.requests} >= {"/pulls", "/issues/1/labels"}
        assert app.issued == 1, "one token reads, pushes and opens the pull request"
    assert APP_TOKEN not in operator.log()


def test_what_a_hostile_pod_asks_for_is_not_written(plant: Plant, world: EditWorld) -> None:
    pod = world.pod("evil-0")
    token = token_of(pod)
    gigabyte = 1024**3
    attacks: list[tuple[int, list[dict[str, Any]], bytes]] = [
        (422, [{"path": "../../main.json", "size": 1}], b"x"),
        (422, [{"path": "other/secret.txt", "size": 1}], b"x"),
        (422, [{"path": "projects/.github/workflows/x.yml", "size": 1}], b"x"),
        (422, [{"path": "projects/Plant/VIEWS/main.json", "size": 1}], b"x"),
        (422, [{"path": VIEW, "size": len(KEY)}], KEY.encode()),
        (413, [{"path": VIEW, "size": gigabyte}], b"x"),
        (413, [{"path": VIEW, "size": 20 * 1024 * 1024}], b"x"),
        (413, [{"path": f"projects/{number}", "size": 1} for number in range(101)], b"x" * 101),
        (413, [{"path": f"projects/{number}", "size": 1} for number in range(100_000)], b""),
        (400, [{"path": VIEW, "size": 5}], b"x"),
        (400, [{"path": VIEW, "size": 1}], b"longer"),
        (400, [], b""),
    ]
    for status, files, content in attacks:
        assert send(plant, token, files, content)[0] == status, files[:1]
    assert world.branches() == ["main"]
    assert world.repository.git("rev-parse", "main") == plant.commit
    assert world.forge.pulls == []
    notes = until(
        lambda: [event["note"] for event in plant.sync.events() if event["reason"] == "EditsRefused"],
        lambda notes: any("looks like a private key" in note for note in notes),
    )
    assert not any(KEY in note for note in notes)
    status, said = send(plant, token, [{"path": VIEW, "size": 3}], b"{}\n")
    assert (status, json.loads(said)["branch"]) == (200, "edits/evil-0")
    assert world.branches() == ["edits/evil-0", "main"]


def test_a_branch_that_gateways_follow_is_never_written(plant: Plant, world: EditWorld) -> None:
    pod = world.pod("in-0", annotations={"gateway-name": "in"})
    plant.sync.change(bidirectional={**BACK, "targetBranch": "ma{{ gateway.name }}"})
    condition = plant.sync.condition("BidirectionalReady", status="False", reason="InvalidBranch")
    assert "in (pod in-0)" in condition["message"]
    status, said = send(plant, token_of(pod), [{"path": VIEW, "size": 1}], b"x")
    assert status == 422
    assert "targetBranch" in said
    plant.sync.change(bidirectional={**BACK, "targetBranch": "{{ gateway.name }}"})
    plant.sync.condition("BidirectionalReady", status="False", reason="InvalidBranch")
    assert world.branches() == ["main"]
    anonymous = {"repo": world.url, "ref": "main", "caSecretRef": {"name": "git-ca"}}
    plant.sync.change(git=anonymous, bidirectional={**BACK, "createPR": False})
    plant.sync.condition("BidirectionalReady", status="False", reason="CredentialMissing")


def test_a_pull_request_that_cannot_be_opened_is_retried_with_the_same_commit(plant: Plant, world: EditWorld) -> None:
    token = token_of(world.pod("line-0"))
    world.forge.status = 403
    status, said = send(plant, token, [{"path": VIEW, "size": 3}], b"{}\n")
    first = json.loads(said)
    assert status == 200
    assert "AuthenticationFailed" in first["problem"]
    assert TOKEN not in plant.sync.tells("PullRequestFailed")["note"]
    world.forge.status = 0
    again = json.loads(send(plant, token, [{"path": VIEW, "size": 3}], b"{}\n")[1])
    assert again == {
        "branch": "edits/line-0",
        "commit": first["commit"],
        "pullRequest": world.forge.pulls[0]["html_url"],
    }


def test_a_server_that_refuses_the_push_is_told_to_people_and_not_to_pods(plant: Plant, world: EditWorld) -> None:
    hook = world.repository.path / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'ask the boss first' >&2\nexit 1\n")
    hook.chmod(0o755)
    status, said = send(plant, token_of(world.pod("line-0")), [{"path": VIEW, "size": 3}], b"{}\n")
    assert status == 422
    assert "PushRejected" in said
    assert "boss" not in said
    assert "ask the boss first" in plant.sync.tells("EditsNotCommitted")["note"]
    assert world.branches() == ["main"]
