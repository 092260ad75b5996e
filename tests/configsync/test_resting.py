"""A push wakes the syncs that it concerns, and those of which that cannot be told. All others sleep on."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert

from syncline.api.configsync import ConfigSyncSpec
from syncline.api.source import GitSource
from syncline.controllers.errors import SyncError
from syncline.controllers.requeue import Requeue
from syncline.controllers.result import ReconcileResult
from syncline.controllers.sources.changes import BuiltFrom, ChangeFilter, built_from
from syncline.controllers.sources.desired import DesiredSet, UnitResult
from syncline.controllers.sources.prepared import PreparedRevision
from syncline.controllers.sources.tree import SourceTree
from syncline.core.desired import BuildArtifact
from syncline.core.environments import EnvironmentState, environments_of
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.core.revisions import Decision
from syncline.engine.sync_object import Sync
from syncline.git import Mirrors, Remote
from syncline.kube.cache import Key
from syncline.testing.gitserver import GitServer, Repository

MINE, THEIRS = Key("team", "mine"), Key("team", "theirs")
SYNC: Any = Sync


class Scene:
    """Two syncs at rest, each with a folder of one repository."""

    def __init__(self, repository: Repository, remote: Remote, mirrors: Mirrors) -> None:
        self.repository = repository
        self.remote = remote
        self.mirrors = mirrors
        self.woken: list[Key] = []
        self.rests = ChangeFilter(mirrors, self.woken.append)

    async def settle(self, key: Key, path: str) -> None:
        git = GitSource(repo=self.remote.url, path=path)
        tree = await self.mirrors.tree(self.remote, await self.mirrors.resolve(self.remote, "main"))
        artifact = BuildArtifact(
            recipe="", paths={path: SourceTree({"": tree}).digest(path)}, inputs="", compressed=b""
        )
        self.rests.remember(key, BuiltFrom(self.remote, (({"": git}, artifact),)))

    async def push(self, path: str, content: str | None) -> None:
        """Push, and have the syncs told of it."""
        self.repository.commit({path: content})
        await self.told()

    async def told(self) -> None:
        await self.mirrors.refresh(self.remote)
        for key in (MINE, THEIRS):
            self.rests.on_push(key, self.remote.key)
        await self.rests.drained()


@pytest.fixture
async def scene(git_server: GitServer, tmp_path: Path) -> AsyncIterator[Scene]:
    repository = git_server.repository(tmp_path.name)
    repository.commit({"mine/a.txt": "a", "theirs/a.txt": "a"})
    remote = Remote(git_server.url(tmp_path.name), ca=git_server.ca)
    async with Mirrors(tmp_path / "cache", allow_loopback=True) as mirrors:
        scene = Scene(repository, remote, mirrors)
        await scene.settle(MINE, "mine")
        await scene.settle(THEIRS, "theirs")
        yield scene


async def test_a_push_wakes_the_sync_whose_folder_it_changes(scene: Scene) -> None:
    await scene.push("mine/a.txt", "b")
    assert scene.woken == [MINE]


async def test_a_push_to_neither_folder_wakes_nobody(scene: Scene) -> None:
    await scene.push("readme.md", "hello")
    assert scene.woken == []


async def test_a_push_that_removes_a_folder_wakes_its_sync(scene: Scene) -> None:
    await scene.push("theirs/a.txt", None)
    assert scene.woken == [THEIRS]


async def test_a_sync_in_the_middle_of_a_turn_is_always_woken(scene: Scene) -> None:
    scene.rests.forget(MINE)
    await scene.push("readme.md", "hello")
    assert scene.woken == [MINE]


async def test_a_turn_that_begins_while_a_push_is_looked_at_is_followed_by_another(scene: Scene) -> None:
    scene.repository.commit({"readme": "hello"})
    await scene.mirrors.refresh(scene.remote)
    scene.rests.on_push(MINE, scene.remote.key)
    scene.rests.forget(MINE)
    await scene.rests.drained()
    assert scene.woken == [MINE]


async def test_a_repository_that_fails_wakes_everybody(scene: Scene, git_server: GitServer) -> None:
    name = scene.repository.path.stem
    git_server.statuses[name] = 503
    await scene.told()
    del git_server.statuses[name]
    assert scene.woken == [MINE, THEIRS]


def report(spec: ConfigSyncSpec, **changes: Any) -> ReconcileResult:
    """Return what a turn reports that has left nothing to do."""
    environment = environments_of(spec, "team")[0]
    artifact = BuildArtifact(recipe="", paths={}, inputs="", compressed=b"")
    decision = Decision(commit="c", held=False, reason="Head", why="")
    fields = {
        "environment": environment,
        "recorded": EnvironmentState(),
        "artifact": artifact,
        "certain": True,
        "decision": decision,
    }
    prepared = PreparedRevision(**{**fields, **changes.pop("prepared", {})})
    outcome = Outcome(target=Target("team", "app"), state=changes.pop("state", "Synced"), reason="", message="")
    unit = UnitResult(desired=DesiredSet(prepared=prepared), health=changes.pop("health", "Pending"))
    return ReconcileResult(**{"sync": SYNC, "outcomes": [outcome], "complete": True, "units": (unit,), **changes})


def rest(of: ConfigSyncSpec, result: ReconcileResult, known: dict[GitSource, Remote]) -> BuiltFrom | None:
    """Return what is remembered of a sync after a reconcile."""
    return built_from(of, result.units, known) if result.is_settled else None


def spec(**more: Any) -> ConfigSyncSpec:
    source = {"git": {"repo": "https://git.example.com/a.git", **more.pop("git", {})}}
    return convert({"source": source, **more}, ConfigSyncSpec)


def remotes(of: ConfigSyncSpec) -> dict[GitSource, Remote]:
    assert of.source is not None
    assert of.source.git is not None
    return {of.source.git: Remote(of.source.git.repo)}


def test_a_turn_that_left_nothing_to_do_ends_at_rest() -> None:
    assert rest(spec(), report(spec()), remotes(spec())) is not None
    waiting = spec(wait=True)
    assert rest(waiting, report(waiting, health="Healthy"), remotes(waiting)) is not None


UNREST: dict[str, Callable[[], tuple[ConfigSyncSpec, ReconcileResult]]] = {
    "a problem": lambda: (spec(), report(spec(), problem=SyncError("Any", "any"))),
    "a retry": lambda: (spec(), report(spec(), requeue=Requeue(backoff=True))),
    "something to wait for": lambda: (spec(), report(spec(), requeue=Requeue(pending=True))),
    "places that were not looked at": lambda: (spec(), report(spec(), complete=False)),
    "a target that failed": lambda: (spec(), report(spec(), state="Failed")),
    "a target in other hands": lambda: (spec(), report(spec(), state="Conflict")),
    "what could not be built": lambda: (spec(), report(spec(), prepared={"certain": False})),
    "nothing applied": lambda: (spec(), report(spec(), prepared={"artifact": None})),
    "objects that are not well": lambda: (spec(wait=True), report(spec(wait=True))),
    "going back on failure": lambda: (spec(failurePolicy="Rollback"), report(spec(failurePolicy="Rollback"))),
    "another revision than the head": lambda: (
        spec(),
        report(spec(), prepared={"decision": Decision(commit="c", held=True, reason="RolledBack", why="")}),
    ),
    "signatures to be checked": lambda: (
        spec(git={"verify": {"secretRef": {"name": "keys"}}}),
        report(spec(git={"verify": {"secretRef": {"name": "keys"}}})),
    ),
}


@pytest.mark.parametrize("unrest", UNREST)
def test_a_sync_is_not_at_rest_with(unrest: str) -> None:
    wanted, came = UNREST[unrest]()
    assert rest(wanted, came, remotes(wanted)) is None


def test_a_sync_whose_repository_could_not_be_opened_is_not_at_rest() -> None:
    assert rest(spec(), report(spec()), {}) is None
