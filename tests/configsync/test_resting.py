"""A push wakes the syncs that it concerns, and those of which that cannot be told. All others sleep on."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert

from syncline.api.configsync import ConfigSyncSpec
from syncline.api.source import GitSource
from syncline.controllers.building import Made
from syncline.controllers.configsynckind import GitReport
from syncline.controllers.forest import Forest
from syncline.controllers.laps import Lap, Lapped
from syncline.controllers.reporting import Problem
from syncline.controllers.resting import Rest, Rests, rest_of
from syncline.controllers.tracks import Course, tracks_of
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.core.revisions import Decision
from syncline.engine.record import Sync
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
        self.rests = Rests(mirrors, self.woken.append)

    async def settle(self, key: Key, path: str) -> None:
        git = GitSource(repo=self.remote.url, path=path)
        tree = await self.mirrors.tree(self.remote, await self.mirrors.resolve(self.remote, "main"))
        made = Made(recipe="", paths={path: Forest({"": tree}).digest(path)}, inputs="", packed=b"")
        self.rests.settle(key, Rest(self.remote, (({"": git}, made),)))

    async def push(self, path: str, content: str | None) -> None:
        """Push, and have the syncs told of it."""
        self.repository.commit({path: content})
        await self.told()

    async def told(self) -> None:
        await self.mirrors.refresh(self.remote)
        for key in (MINE, THEIRS):
            self.rests.told(key, self.remote.key)
        await self.rests.looked()


@pytest.fixture
async def scene(git_server: GitServer, tmp_path: Path) -> AsyncIterator[Scene]:
    repository = git_server.repository(tmp_path.name)
    repository.commit({"mine/a.txt": "a", "theirs/a.txt": "a"})
    remote = Remote(git_server.url(tmp_path.name), ca=git_server.ca)
    async with Mirrors(tmp_path / "cache", allow_loopback=True) as mirrors:
        made = Scene(repository, remote, mirrors)
        await made.settle(MINE, "mine")
        await made.settle(THEIRS, "theirs")
        yield made


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
    scene.rests.disturb(MINE)
    await scene.push("readme.md", "hello")
    assert scene.woken == [MINE]


async def test_a_turn_that_begins_while_a_push_is_looked_at_is_followed_by_another(scene: Scene) -> None:
    scene.repository.commit({"readme": "hello"})
    await scene.mirrors.refresh(scene.remote)
    scene.rests.told(MINE, scene.remote.key)
    scene.rests.disturb(MINE)
    await scene.rests.looked()
    assert scene.woken == [MINE]


async def test_a_repository_that_fails_wakes_everybody(scene: Scene, git_server: GitServer) -> None:
    name = scene.repository.path.stem
    git_server.statuses[name] = 503
    await scene.told()
    del git_server.statuses[name]
    assert scene.woken == [MINE, THEIRS]


def report(spec: ConfigSyncSpec, **changes: Any) -> GitReport:
    """Return what a turn reports that has left nothing to do."""
    track = tracks_of(spec, "team")[0]
    made = Made(recipe="", paths={}, inputs="", packed=b"")
    decision = Decision(commit="c", held=False, reason="Head", why="")
    fields = {"track": track, "course": Course(), "made": made, "certain": True, "decision": decision}
    lap = Lap(**{**fields, **changes.pop("lap", {})})
    outcome = Outcome(target=Target("team", "app"), state=changes.pop("state", "Synced"), reason="", message="")
    lapped = Lapped(lap=lap, health=changes.pop("health", "Pending"))
    return GitReport(**{"sync": SYNC, "outcomes": [outcome], "done": True, "laps": (lapped,), **changes})


def spec(**more: Any) -> ConfigSyncSpec:
    source = {"git": {"repo": "https://git.example.com/a.git", **more.pop("git", {})}}
    return convert({"source": source, **more}, ConfigSyncSpec)


def remotes(of: ConfigSyncSpec) -> dict[GitSource, Remote]:
    assert of.source is not None
    assert of.source.git is not None
    return {of.source.git: Remote(of.source.git.repo)}


def test_a_turn_that_left_nothing_to_do_ends_at_rest() -> None:
    assert rest_of(spec(), report(spec()), remotes(spec())) is not None
    waiting = spec(wait=True)
    assert rest_of(waiting, report(waiting, health="Healthy"), remotes(waiting)) is not None


UNREST: dict[str, Callable[[], tuple[ConfigSyncSpec, GitReport]]] = {
    "a problem": lambda: (spec(), report(spec(), problem=Problem("Any", "any"))),
    "a retry": lambda: (spec(), report(spec(), retry=True)),
    "something to wait for": lambda: (spec(), report(spec(), waits=True)),
    "places that were not looked at": lambda: (spec(), report(spec(), done=False)),
    "a target that failed": lambda: (spec(), report(spec(), state="Failed")),
    "a target in other hands": lambda: (spec(), report(spec(), state="Conflict")),
    "what could not be built": lambda: (spec(), report(spec(), lap={"certain": False})),
    "nothing applied": lambda: (spec(), report(spec(), lap={"made": None})),
    "objects that are not well": lambda: (spec(wait=True), report(spec(wait=True))),
    "going back on failure": lambda: (spec(failurePolicy="Rollback"), report(spec(failurePolicy="Rollback"))),
    "another revision than the head": lambda: (
        spec(),
        report(spec(), lap={"decision": Decision(commit="c", held=True, reason="RolledBack", why="")}),
    ),
    "signatures to be checked": lambda: (
        spec(git={"verify": {"secretRef": {"name": "keys"}}}),
        report(spec(git={"verify": {"secretRef": {"name": "keys"}}})),
    ),
}


@pytest.mark.parametrize("unrest", UNREST)
def test_a_sync_is_not_at_rest_with(unrest: str) -> None:
    wanted, came = UNREST[unrest]()
    assert rest_of(wanted, came, remotes(wanted)) is None


def test_a_sync_whose_repository_could_not_be_opened_is_not_at_rest() -> None:
    assert rest_of(spec(), report(spec()), {}) is None
