"""One change costs one object, and a reconcile of the changes alone comes to what a reconcile of everything does."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.configmapsync.world import Json, Thing, conditions, until
from tests.fleet.world import Remote
from tests.inside import running
from tests.manifestsync.world import Object
from tests.workspacesync.world import Workspaces, WorkspaceSync, report, resource

from syncline.api.workspacesync import KIND
from syncline.controllers.sources.copies import CopyMaker
from syncline.controllers.sources.upstream_reader import UpstreamReader
from syncline.controllers.sources.upstream_selection import UpstreamSelector
from syncline.controllers.targets.apply import UnitApplier
from syncline.core.scope import IGNORE_LABEL
from syncline.kube.cache import Key
from syncline.operator import Operator
from syncline.sandbox import Sandbox

SPACES = 3
IN_EACH = 40
STEPS = 16
SEEDS = (1, 2, 3)
# A sync is at rest if nothing is due within some seconds, for as many moments.
SOON = 5.0
MOMENTS = 5
MOMENT = 0.05


class Counted:
    """The work of reconciles, by what is done with how many objects."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: Counter[str] = Counter()
        self._follow(monkeypatch, CopyMaker, "make", "copies")
        self._follow(monkeypatch, UnitApplier, "_job", "compared")
        self._follow(monkeypatch, UpstreamReader, "read", "reads of everything")

    def _follow(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, what: str) -> None:
        original: Callable[..., Any] = getattr(owner, name)

        def counted(*args: Any, **more: Any) -> Any:
            self.calls[what] += 1
            return original(*args, **more)

        monkeypatch.setattr(owner, name, counted)


class Inside:
    """A sync, and the operator in this process that reconciles it."""

    def __init__(self, world: Workspaces, operator: Operator) -> None:
        self.world = world
        self.reconciler = next(one for one in operator._syncs if one._kind.name == KIND)

    async def rest(self, sync: WorkspaceSync) -> None:
        """Wait until the sync is not reconciled, will not be soon, and was not a moment ago."""
        quiet, queue, key = 0, self.reconciler.queue, Key(self.world.home, sync.name)
        clock = asyncio.get_running_loop().time
        async with asyncio.timeout(120):
            while quiet < MOMENTS:
                entry = queue._waiting.get(key)
                is_due = entry is not None and entry.due - clock() < SOON
                quiet = 0 if is_due or queue._in_work or queue.is_wanted(key) else quiet + 1
                await asyncio.sleep(MOMENT)


@pytest.fixture
async def inside(
    arena: Sandbox, lone: Remote, west: Remote, arena_kubeconfig: Path, tmp_path: Path
) -> AsyncIterator[Inside]:
    """The arena as hub and upstream, and a cluster below it."""
    world = await asyncio.to_thread(Workspaces, arena, lone, east=west)
    async with running(arena_kubeconfig, tmp_path) as operator:
        yield Inside(world, operator)
        await asyncio.to_thread(world.end)


class OneObject:
    """What can happen to one object among many, each followed until it has its effect."""

    def __init__(self, world: Workspaces, namespaces: list[str]) -> None:
        self.above = world.up("ConfigMap", namespaces[1], "conf-07")
        self.below = world.down("ConfigMap", namespaces[1], "conf-07")
        self.widget, self.copy = world.up("Widget", namespaces[0]), world.down("Widget", namespaces[0])

    def is_edited(self) -> None:
        colour = f"{self.above.at('data', 'colour')}-ish"
        self.above.put("data", "colour", value=colour)
        self.below.holds_data(colour=colour)

    def drifts(self) -> None:
        self.below.put("data", "colour", value="green")
        self.below.holds_data(**self.above.at("data"))

    def loses_its_copy(self) -> None:
        self.below.delete()
        self.below.holds_data(**self.above.at("data"))

    def gets_a_status(self) -> None:
        report(self.copy, phase="Running")
        self.widget.shows("status", "phase", value="Running")


def _fill(world: Workspaces, namespaces: list[str]) -> None:
    for namespace in namespaces:
        for number in range(IN_EACH):
            world.data(namespace, f"conf-{number:02}")
    for cluster in (world.upstream, world.clusters["east"]):
        world.define_widgets(cluster)
    world.widget(namespaces[0], size=1)


@pytest.mark.timeout(300)
async def test_a_change_of_one_object_among_many_costs_that_object(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = inside.world
    namespaces = await asyncio.to_thread(lambda: [world.above(f"n{number}") for number in range(SPACES)])
    await asyncio.to_thread(_fill, world, namespaces)
    sync = await asyncio.to_thread(world.wsync, "sync", "configmaps", world.widgets(), statusSync=True)
    await asyncio.to_thread(sync.is_ready)
    one = OneObject(world, namespaces)
    await asyncio.to_thread(one.copy.appears)
    await inside.rest(sync)
    counted = Counted(monkeypatch)
    for change in (one.is_edited, one.drifts, one.loses_its_copy, one.is_edited, one.gets_a_status, one.is_edited):
        counted.calls.clear()
        await asyncio.to_thread(change)
        await inside.rest(sync)
        assert counted.calls["copies"] > 0, f"{change.__name__} was not noticed"
        assert not counted.calls["reads of everything"], (change.__name__, counted.calls)
        assert max(counted.calls.values()) <= SPACES * IN_EACH // 6, (change.__name__, counted.calls)


class Play:
    """People who change everything that a selection depends on, one thing after the other."""

    def __init__(self, world: Workspaces, sync: WorkspaceSync, namespaces: list[str], seed: int) -> None:
        self.world = world
        self.sync = sync
        self.namespaces = namespaces
        self.random = random.Random(seed)
        self.number = 0
        self.prefix = ""
        self.transformed = False
        self.region = "eu"
        self.left: set[str] = set()
        """The namespaces that are not followed."""
        self.closed: set[str] = set()
        """The namespaces that are ignored below."""

    def step(self) -> str:
        """Change something; return what."""
        self.number += 1
        chosen = self.random.choices(self._moves(), weights=[weight for _, weight in self._weighed()])[0]
        chosen()
        return chosen.__name__

    def _weighed(self) -> list[tuple[Callable[[], None], int]]:
        return [
            (self.edit, 6),
            (self.edit_two, 2),
            (self.create, 2),
            (self.delete, 2),
            (self.replace, 1),
            (self.select, 2),
            (self.drift, 3),
            (self.take_away, 2),
            (self.occupy, 2),
            (self.transform, 1),
            (self.move_target, 1),
            (self.map, 1),
            (self.follow, 1),
            (self.close, 1),
        ]

    def _moves(self) -> list[Callable[[], None]]:
        return [move for move, _ in self._weighed()]

    def _any(self) -> Object:
        found = sorted(self.upstream())
        return self.world.up("ConfigMap", *self.random.choice(found))

    def upstream(self) -> dict[tuple[str, str], Json]:
        """Return the objects upstream."""
        found = self.world.upstream.sandbox.request("GET", "/api/v1/configmaps")["items"]
        return {
            (one["metadata"]["namespace"], one["metadata"]["name"]): one
            for one in found
            if one["metadata"]["namespace"] in self.namespaces and one["metadata"]["name"].startswith("conf-")
        }

    def edit(self) -> None:
        self._any().put("data", "colour", value=f"colour-{self.number}")

    def edit_two(self) -> None:
        self.edit()
        self._any().annotate({"note": str(self.number)})

    def create(self) -> None:
        self._make(self.random.choice(self.namespaces), f"conf-{self.number:02}x")

    def _make(self, namespace: str, name: str) -> None:
        self.world.data(namespace, name, metadata={"labels": {"sync": "yes"}}, colour=f"new-{self.number}")

    def delete(self) -> None:
        if len(self.upstream()) > 4:
            self._any().delete()

    def replace(self) -> None:
        one = self._any()
        one.delete()
        self._make(one.namespace, one.name)

    def select(self) -> None:
        one = self._any()
        is_selected = one.read()["metadata"].get("labels", {}).get("sync") == "yes"
        one.label(sync="no" if is_selected else "yes")

    def _below(self) -> Object | None:
        found = sorted(place for place in self.world.copies_at() if self._name_of(place[0]) not in self.closed)
        return self.world.down("ConfigMap", *self.random.choice(found)) if found else None

    def drift(self) -> None:
        if (one := self._below()) is not None:
            one.edit_if_there(lambda body: body["data"].update(colour="drifted"))

    def take_away(self) -> None:
        if (one := self._below()) is not None:
            one.delete()

    def occupy(self) -> None:
        """Put somebody else's object where a copy will belong, or take it away again."""
        place = self._place(self.namespaces[0])
        other = self.world.down("ConfigMap", place, "conf-taken")
        if other.look() is not None and not other.marked:
            other.delete()
        elif other.look() is None and place in self.world.namespaces_at():
            other.create({"metadata": {"name": "conf-taken"}, "data": {"colour": "theirs"}})
            if self.world.up("ConfigMap", self.namespaces[0], "conf-taken").look() is None:
                self._make(self.namespaces[0], "conf-taken")

    def transform(self) -> None:
        self.transformed = not self.transformed
        region = {"matchLabels": {"region": "eu"}}
        one = {"resource": "configmaps", "set": {"/data/cluster": "{{ target.cluster }}"}, "targets": region}
        self.sync.change(transforms=[one] if self.transformed else None)

    def move_target(self) -> None:
        self.region = "us" if self.region == "eu" else "eu"
        self.world.find_target("east").label(region=self.region)

    def map(self) -> None:
        self.prefix = "" if self.prefix else "p-"
        self.sync.change(namespaces=self.world.followed(**self._mapping()))

    def _mapping(self) -> Json:
        return {"mapping": {"prefix": self.prefix}} if self.prefix else {}

    def follow(self) -> None:
        """Let a namespace of the upstream be followed, or not."""
        name = self.namespaces[-1]
        self.left ^= {name}
        space = Thing(self.world.upstream.sandbox, "/api/v1/namespaces", name)
        space.label(world="other" if name in self.left else self.world.name)

    def close(self) -> None:
        """Let a namespace below be ignored, or not."""
        name = self.namespaces[1]
        place = self._place(name)
        if name in self.closed:
            self.closed.discard(name)
            for one in self.world.namespaces_at():
                Thing(self.world.clusters["east"].sandbox, "/api/v1/namespaces", one).label(**{IGNORE_LABEL: None})
        elif place in self.world.namespaces_at():
            self.closed.add(name)
            Thing(self.world.clusters["east"].sandbox, "/api/v1/namespaces", place).label(**{IGNORE_LABEL: "true"})

    def _place(self, namespace: str) -> str:
        return f"{self.prefix}{namespace}"

    def _name_of(self, place: str) -> str:
        return place.removeprefix("p-")

    def expected(self) -> dict[tuple[str, str], Json]:
        """Return the data of all copies that should be there, apart from those in closed namespaces."""
        more = {"cluster": "east"} if self.transformed and self.region == "eu" else {}
        found = {
            (self._place(namespace), name): {**one["data"], **more}
            for (namespace, name), one in self.upstream().items()
            if namespace not in self.left | self.closed and one["metadata"].get("labels", {}).get("sync") == "yes"
        }
        return {place: data for place, data in found.items() if place not in self._occupied()}

    def _occupied(self) -> set[tuple[str, str]]:
        return self._objects().keys() - self.world.copies_at().keys()

    def _objects(self) -> dict[tuple[str, str], Json]:
        found = self.world.clusters["east"].sandbox.request("GET", "/api/v1/configmaps")["items"]
        return {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in found}

    def present(self) -> dict[tuple[str, str], Json]:
        """Return the data of all copies, apart from those in closed namespaces."""
        objects, copies = self._objects(), self.world.copies_at()
        there = (place for place in copies if place in objects and self._name_of(place[0]) not in self.closed)
        return {place: objects[place]["data"] for place in there}

    def versions(self) -> dict[tuple[str, str], str]:
        """Return the versions of everything below."""
        found = self._objects().items()
        return {place: one["metadata"]["resourceVersion"] for place, one in found if self.world.name in place[0]}

    def said(self) -> Json:
        """Return what the status says, apart from times."""
        status = self.sync.status
        told: Json = {name: status.get(name) for name in ("targets", "namespaces", "resources", "placement")}
        told["conflicts"] = status.get("conflicts")
        told["targetStatuses"] = [{**one, "lastSyncTime": ""} for one in status.get("targetStatuses", [])]
        told["conditions"] = {
            name: (one["status"], one["reason"], one["message"]) for name, one in conditions(self.sync.read()).items()
        }
        return told


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
async def test_whatever_changes_a_reconcile_of_the_changes_comes_to_what_a_reconcile_of_everything_does(
    inside: Inside, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    world, partial = inside.world, Counter[bool]()
    select = UpstreamSelector.select

    def counted(*args: Any, whole: bool = True, **more: Any) -> Any:
        partial[whole] += 1
        return select(*args, whole=whole, **more)

    monkeypatch.setattr(UpstreamSelector, "select", counted)
    namespaces = await asyncio.to_thread(lambda: [world.above(f"n{number}") for number in range(SPACES)])
    one = resource("configmaps", selector={"matchLabels": {"sync": "yes"}})
    sync = await asyncio.to_thread(world.wsync, "sync", one)
    play = Play(world, sync, namespaces, seed)
    for namespace in namespaces:
        for number in range(2):
            await asyncio.to_thread(play._make, namespace, f"conf-{number:02}")
    done: list[str] = []
    for _ in range(STEPS):
        done.append(await asyncio.to_thread(play.step))
        await asyncio.to_thread(until, lambda: (play.present(), play.expected()), lambda seen: seen[0] == seen[1])
        await inside.rest(sync)
        said, versions = await asyncio.to_thread(lambda: (play.said(), play.versions()))
        await asyncio.to_thread(sync.now)  # a request of a person looks at everything
        await inside.rest(sync)
        assert await asyncio.to_thread(play.said) == said, done
        assert await asyncio.to_thread(play.versions) == versions, done
    assert partial[False] >= STEPS // 4, partial
