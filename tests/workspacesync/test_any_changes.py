"""Whatever happens to both sides of a two-way sync, an incremental reconcile ends where a complete one does.

Apart from the clusters and the status, both leave the same memory: claims, waits and watches decide what enqueues the
sync later.
"""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from tests.configmapsync.world import Json, Sync, conditions
from tests.manifestsync.world import Object
from tests.workspacesync.test_one_change import Inside, inside
from tests.workspacesync.world import RESOLVE, Workspaces, report, resource

from syncline.api.common import ABANDON
from syncline.api.workspacesync import KIND
from syncline.controllers.sources.upstream_selection import UpstreamSelector
from syncline.core.ownership import OWNER_LABEL, RECONCILE
from syncline.kube.cache import Key
from syncline.sandbox import RequestError

__all__ = ["inside"]

KINDS = ("ConfigMap", "Widget")
STEPS = 6
# With each seed, another strategy.
STRATEGIES = {1: ("MergeChanges", "Report"), 2: ("LastWriteWins", "UpstreamWins")}
APP = "app"


class Churn:
    """People and controllers who change objects on both sides, and what becomes of it."""

    def __init__(self, world: Workspaces, seed: int) -> None:
        self.world = world
        self.random = random.Random(seed)
        self.number = 0
        self.namespaces: list[str] = []
        self.writer: Sync | None = None
        """A sync that owns a copy upstream."""

    def begin(self, strategy: str, on_conflict: str) -> Sync:
        """Make some objects, and the sync."""
        world = self.world
        for cluster in (world.upstream, *world.clusters.values()):
            world.define_widgets(cluster)
        self.namespaces = [world.above(f"n{number}") for number in range(2)]
        for namespace in self.namespaces:
            for number in range(3):
                world.data(namespace, f"conf-{number}", colour="red", size="small")
            world.widget(namespace, "wid-0", colour="red")
        world.put(world.home, colour="red")
        both = resource("configmaps", direction="Bidirectional"), world.widgets(direction="Bidirectional")
        return world.wsync("sync", *both, statusSync=True, conflictStrategy=strategy, onConflict=on_conflict)

    def step(self) -> str:
        """Change something; return what. A change of an object that is just being deleted is none."""
        self.number += 1
        chosen, name = self.random.choices(self._moves(), weights=[weight for _, weight in self._moves()])[0][0], ""
        try:
            chosen()
        except RequestError as error:
            name = f" ({error.status})"
        return f"{chosen.__name__}{name}"

    def _moves(self) -> list[tuple[Callable[[], None], int]]:
        return [
            (self.edit_above, 4),
            (self.edit_below, 4),
            (self.edit_both, 2),
            (self.decide, 2),
            (self.report_below, 3),
            (self.report_above, 1),
            (self.replace, 1),
            (self.delete_above, 1),
            (self.delete_below, 2),
            (self.disable, 1),
            (self.disown, 1),
            (self.clone, 1),
            (self.occupy, 1),
            (self.own_copy, 2),
        ]

    def _found(self, cluster: Any, *kinds: str) -> list[tuple[str, str, str]]:
        """Return the objects of this test in a cluster."""
        found = []
        for kind in kinds:
            version, plural = self.world.served(kind)
            path = f"/{'apis' if '/' in version else 'api'}/{version}/{plural}"
            metas = [one["metadata"] for one in cluster.sandbox.request("GET", path)["items"]]
            found += [(kind, meta["namespace"], meta["name"]) for meta in metas if meta["namespace"] in self.namespaces]
        return sorted(one for one in found if one[2].startswith((APP, "conf-", "wid-")))

    def _above(self, *kinds: str) -> Object:
        found = [one for one in self._found(self.world.upstream, *(kinds or KINDS)) if one[2] != APP]
        return self.world.up(*self.random.choice(found))

    def _below(self, *kinds: str) -> Object:
        found = self._found(self.world.clusters["east"], *(kinds or KINDS))
        return self.world.down(*self.random.choice(found)) if found else self._above(*kinds)

    def _edit(self, one: Object, name: str) -> None:
        part = "data" if one.kind == "ConfigMap" else "spec"
        one.edit_if_there(lambda body: body[part].update({name: f"{name}-{self.number}"}))

    def edit_above(self) -> None:
        self._edit(self._above(), self.random.choice(("colour", "size")))

    def edit_below(self) -> None:
        self._edit(self._below(), self.random.choice(("colour", "size")))

    def edit_both(self) -> None:
        above = self._above()
        for one in (above, self.world.down(above.kind, above.namespace, above.name)):
            self.number += 1
            self._edit(one, "colour")

    def decide(self) -> None:
        one = self.random.choice((self._above, self._below))()
        one.annotate({RESOLVE: self.random.choice(("Upstream", "Downstream"))})

    def report_below(self) -> None:
        report(self._below("Widget"), phase=f"phase-{self.random.randrange(3)}")

    def report_above(self) -> None:
        report(self._above("Widget"), phase="wrong")

    def replace(self) -> None:
        one = self._above("ConfigMap")
        one.delete()
        self.world.data(one.namespace, one.name, colour=f"new-{self.number}")

    def delete_above(self) -> None:
        if len(self._found(self.world.upstream, "ConfigMap")) > 4:
            self._above("ConfigMap").delete()

    def delete_below(self) -> None:
        self._below().delete()

    def disable(self) -> None:
        self._below().annotate({RECONCILE: self.random.choice(("Disabled", None))})

    def disown(self) -> None:
        self._below().label(**{OWNER_LABEL: None})

    def clone(self) -> None:
        """Copy a copy with its marks, as a backup tool does."""
        one = self._below("ConfigMap")
        body = one.read()
        kept = {name: body["metadata"].get(name, {}) for name in ("labels", "annotations")}
        self.world.down("ConfigMap", one.namespace, f"{one.name}-clone").create(
            {"metadata": {"name": f"{one.name}-clone", **kept}, "data": body["data"]}
        )

    def occupy(self) -> None:
        """Put somebody else's object where a copy will belong, or take it away again."""
        namespace = self.namespaces[0]
        other = self.world.down("ConfigMap", namespace, "conf-taken")
        if other.look() is None:
            other.create({"metadata": {"name": "conf-taken"}, "data": {"colour": "theirs"}})
            self.world.data(namespace, "conf-taken")
        elif not other.marked:
            other.delete()

    def own_copy(self) -> None:
        """Let another sync write a copy upstream, or leave it there."""
        if self.writer is None:
            self.writer = self.world.sync(f"writer-{self.number}", destinationNamespaces=self.namespaces[:1])
            self.writer.becomes("Synced")
        else:
            self.writer.annotate({ABANDON: "true"})
            self.writer.delete()
            self.writer.gone()
            self.world.up("ConfigMap", self.namespaces[0], APP).delete()
            self.writer = None

    def state(self, sync: Sync) -> Json:
        """Return all objects on both sides, and what the status says, apart from times."""
        found: Json = {}
        for cluster in (self.world.upstream, *self.world.clusters.values()):
            for one in self._found(cluster, *KINDS):
                body = Object(cluster.sandbox, *one, self.world.served(one[0])).look() or {}
                found[f"{cluster.sandbox.server} {one}"] = json.dumps(body, sort_keys=True)
        body = sync.read()
        status = body["status"]
        for name in ("targets", "namespaces", "resources", "placement", "conflicts", "copiesSkipped"):
            found[name] = status.get(name)
        found["targetStatuses"] = [{**one, "lastSyncTime": ""} for one in status.get("targetStatuses", [])]
        found["conditions"] = {
            name: (one["status"], one["reason"], one["message"]) for name, one in conditions(body).items()
        }
        return found


def memory(inside: Inside, sync: Sync) -> Json:
    """Return what the operator remembers of a sync in order to enqueue it, and to choose between syncs."""
    reconciler, key = inside.reconciler, Key(inside.world.home, sync.name)
    claims, ref = reconciler._shared.claims, f"{KIND}/{key.namespace}/{key.name}"
    writers = (claims.spec_writers._claims.get(ref), claims.status_writers._claims.get(ref))
    return {
        "claim": claims._claims.get(ref),
        "waits": {place: wait.winner for place, wait in claims.waiters._waits.get(ref, {}).items()},
        "writers": [one.objects if one is not None else None for one in writers],
        "watches": reconciler.triggers._watch_index.get(key),
    }


async def look_at_everything(inside: Inside, sync: Sync) -> None:
    """Reconcile a sync completely, although nothing has changed."""
    key = Key(inside.world.home, sync.name)
    inside.reconciler.source._last.pop(key, None)
    inside.reconciler.queue.add(key)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", STRATEGIES)
async def test_whatever_happens_on_both_sides_an_incremental_reconcile_ends_where_a_complete_one_does(
    inside: Inside, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    partial = Counter[bool]()
    select = UpstreamSelector.select

    def counted(*args: Any, whole: bool = True, **more: Any) -> Any:
        partial[whole] += 1
        return select(*args, whole=whole, **more)

    monkeypatch.setattr(UpstreamSelector, "select", counted)
    churn = Churn(inside.world, seed)
    sync = await asyncio.to_thread(churn.begin, *STRATEGIES[seed])
    await inside.rest(sync)
    done: list[str] = []
    for _ in range(STEPS):
        done.append(await asyncio.to_thread(churn.step))
        await inside.rest(sync)
        inside.reconciler.queue.add(Key(inside.world.home, sync.name))  # what its own writes have changed
        await inside.rest(sync)
        state, known = await asyncio.to_thread(churn.state, sync), memory(inside, sync)
        await look_at_everything(inside, sync)
        await inside.rest(sync)
        assert await asyncio.to_thread(churn.state, sync) == state, done
        assert memory(inside, sync) == known, done
    assert partial[False] >= STEPS // 2, partial
