"""A push that is announced reaches the cluster at once."""

import hashlib
import hmac
import json
import secrets
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.configmapsync.world import until
from tests.configsync.world import GitWorld, config_map

from syncline.sandbox import Sandbox
from syncline.testing.gitserver import GitServer
from syncline.testing.operator import OperatorProcess

GLOBAL = "the-secret-of-all-1"


@pytest.fixture(scope="module")
def listening(arena_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return where an operator of its own takes webhooks."""
    folder = tmp_path_factory.mktemp("webhooks")
    secret = folder / "secret"
    secret.write_text(GLOBAL + "\n")
    flags = ("--allow-loopback", "--git-cache", str(folder / "git"), "--webhook-bind", "127.0.0.1:0")
    with OperatorProcess(arena_kubeconfig, *flags, "--webhook-secret-file", str(secret)) as running:
        serving = next(event for event in running.events() if event.get("event") == "serving")
        assert serving["webhooks"].startswith("127.0.0.1:")
        yield f"http://{serving['webhooks']}/webhook"


@pytest.fixture
def world(arena: Sandbox, listening: str, git_server: GitServer) -> Iterator[GitWorld]:  # noqa: ARG001 - it acts there
    """Return a world in the cluster of that operator."""
    world = GitWorld(arena, git_server)
    yield world
    world.end()


def post(url: str, secret: str, body: object, **headers: str) -> int:
    """Send a signed message; return the status of the answer."""
    payload = json.dumps(body).encode()
    signature = hmac.new(secret.encode(), payload, hashlib.sha256).hexdigest()
    sent = {"Content-Type": "application/json", "X-Hub-Signature-256": f"sha256={signature}", **headers}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, payload, sent), timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def announce(
    listening: str, world: GitWorld, secret: str, commit: str, name: str = "sync", *, delivery: str | None = None
) -> int:
    """Tell an operator of a push, as GitHub does; return its answer."""
    push = {"ref": "refs/heads/main", "after": commit, "repository": {"clone_url": world.url}}
    headers = {"X-GitHub-Event": "push", "X-GitHub-Delivery": delivery or commit}
    return post(f"{listening}/{world.home}/{name}", secret, push, **headers)


def test_a_push_that_is_announced_with_the_secret_of_the_sync_arrives(listening: str, world: GitWorld) -> None:
    world.secret("hook", token="our secret")
    first = world.push({"app.yaml": config_map(colour="red")})
    sync = world.csync(webhook={"secretRef": {"name": "hook"}}, refreshInterval="24h")
    sync.at(first)
    second = world.push({"app.yaml": config_map(colour="blue")})
    assert announce(listening, world, "our secret", second) == 202
    sync.at(second)
    assert world.find("ConfigMap", world.home).at("data", "colour") == "blue"


def test_the_global_secret_works_for_every_sync_and_tells_which_are_not_there(listening: str, world: GitWorld) -> None:
    first = world.push({"app.yaml": config_map(colour="red")})
    sync = world.csync(refreshInterval="24h")
    sync.at(first)
    second = world.push({"app.yaml": config_map(colour="blue")})
    assert announce(listening, world, GLOBAL, second) == 202
    sync.at(second)
    assert announce(listening, world, GLOBAL, second, "no-such-sync") == 404


def test_a_push_that_nobody_signed_is_refused(listening: str, world: GitWorld) -> None:
    commit = world.push({"app.yaml": config_map(colour="red")})
    world.csync(refreshInterval="24h").at(commit)
    assert announce(listening, world, "guessed", commit) == 401
    assert announce(listening, world, "guessed", commit, "no-such-sync") == 401


def test_a_secret_of_the_size_of_a_file_is_not_kept_for_each_sync(listening: str, world: GitWorld) -> None:
    """The secrets of all syncs stay in memory, and a tenant can have many syncs."""
    hook, long = world.secret("hook", token="our secret"), "x" * 5000
    commit = world.push({"app.yaml": config_map(colour="red")})
    world.csync(webhook={"secretRef": {"name": "hook"}}, refreshInterval="24h").at(commit)
    assert announce(listening, world, "our secret", commit) == 202
    hook.keep(token=long)
    until(lambda: announce(listening, world, "our secret", commit, delivery=secrets.token_hex(8)), lambda it: it == 401)
    assert announce(listening, world, long, commit) == 401
