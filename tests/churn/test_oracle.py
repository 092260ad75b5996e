"""The oracle finds what is planted, and nothing where all is well."""

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from tests.churn.api import Json, is_outage
from tests.churn.guard import overruns
from tests.churn.history import History
from tests.churn.oracle import judge
from tests.churn.oracle.marks import owner_of
from tests.churn.snapshot import Snapshot
from tests.churn.world import Write

CLUSTER = "the-cluster"
UID = "the-sync"
REF = "ConfigMapSync/home/plain"
SOURCE = ("ConfigMap", "src", "a")
COPY = ("ConfigMap", "t-0", "plain")
Change = Callable[[Snapshot, History], object]


def config_map(namespace: str, name: str, uid: str, data: Json, **meta: Any) -> Json:
    return {
        "metadata": {"namespace": namespace, "name": name, "uid": uid, "resourceVersion": "7", **meta},
        "data": data,
    }


def marks(place: tuple[str, str, str], ref: str = REF, uid: str = UID, **more: str) -> Json:
    marker = {"sync": ref, "at": f"{CLUSTER}/{'/'.join(place)}", "source": "/".join(SOURCE), **more}
    return {
        "labels": {"syncline.dev/owner": owner_of(uid), "team": "red"},
        "annotations": {"syncline.dev/copy": json.dumps(marker)},
    }


def sync(
    spec: Json, ready: tuple[str, str] = ("True", "Synced"), desired: int = 1, unwanted: int = 0, **status: Any
) -> Json:
    name, uid = "plain", UID
    return {
        "metadata": {
            "namespace": "home",
            "name": name,
            "uid": uid,
            "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["syncline.dev/cleanup"],
        },
        "spec": spec,
        "status": {
            "observedGeneration": 3,
            "conditions": [{"type": "Ready", "status": ready[0], "reason": ready[1], "message": ""}],
            "targets": {"desired": desired, "unwanted": unwanted},
            **status,
        },
    }


SPEC = {
    "sourceNamespace": "src",
    "configMapName": "a",
    "destinationName": "plain",
    "destinationNamespaceSelector": {"matchLabels": {"group": "red"}},
}


@pytest.fixture
def history() -> History:
    history = History()
    history.born(REF, {"metadata": {"uid": UID}, "spec": SPEC})
    return history


@pytest.fixture
def scene() -> Snapshot:
    """A source, a sync of it, and a copy where it belongs."""
    spaces = {name: {"metadata": {"name": name, "labels": {}}} for name in ("home", "src", "t-1")}
    spaces["t-0"] = {"metadata": {"name": "t-0", "labels": {"group": "red"}}}
    return Snapshot(
        namespaces=spaces,
        objects={
            SOURCE: config_map("src", "a", "s", {"s0": "1"}, labels={"team": "red"}),
            COPY: config_map("t-0", "plain", "c", {"s0": "1"}, **marks(COPY)),
        },
        syncs={REF: sync(deepcopy(SPEC))},
        cluster=CLUSTER,
    )


def found(scene: Snapshot, history: History) -> set[str]:
    return {deviation.what for deviation in judge(scene, history)}


def test_nothing_is_wrong_where_all_is_well(scene: Snapshot, history: History) -> None:
    assert judge(scene, history) == []


def _delete_copy(scene: Snapshot, _: History) -> None:
    del scene.objects[COPY]


def _edit_copy(scene: Snapshot, _: History) -> None:
    scene.objects[COPY]["data"]["s0"] = "2"


def _extra_key(scene: Snapshot, _: History) -> None:
    scene.objects[COPY]["data"]["s9"] = "2"


def _stale_label(scene: Snapshot, _: History) -> None:
    scene.objects[SOURCE]["metadata"]["labels"] = {}


def _leave_scope(scene: Snapshot, _: History) -> None:
    scene.namespaces["t-0"]["metadata"]["labels"] = {}
    scene.syncs[REF]["status"]["targets"]["desired"] = 0


def _delete_source(scene: Snapshot, _: History) -> None:
    del scene.objects[SOURCE]
    scene.syncs[REF] = sync(SPEC, ("False", "SourceNotFound"))


def _delete_sync(scene: Snapshot, history: History) -> None:
    del scene.syncs[REF]
    history.died(REF, "")


def _terminate(scene: Snapshot, _: History) -> None:
    scene.syncs[REF]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


def _edit_spec(scene: Snapshot, _: History) -> None:
    scene.syncs[REF]["metadata"]["generation"] = 4


def _say_unready(scene: Snapshot, _: History) -> None:
    scene.syncs[REF] = sync(SPEC, ("False", "NotOurs"))


def _strip(scene: Snapshot, _: History) -> None:
    scene.objects[COPY]["metadata"]["labels"].pop("syncline.dev/owner")


def _touch_foreign(scene: Snapshot, history: History) -> None:
    _strip(scene, history)
    scene.syncs[REF] = sync(SPEC, ("False", "NotOurs"))
    history.foreign[COPY] = ("c", "6")


def _delete_foreign(_: Snapshot, history: History) -> None:
    history.foreign["ConfigMap", "t-1", "other"] = ("o", "1")


def _hold(scene: Snapshot, history: History) -> None:
    _leave_scope(scene, history)
    scene.syncs[REF] = sync(SPEC, ("False", "DeletionHeld"), desired=0, unwanted=1)


def _drop_finalizer(scene: Snapshot, _: History) -> None:
    scene.syncs[REF]["metadata"]["finalizers"] = []


def _ask(scene: Snapshot, _: History) -> None:
    scene.syncs[REF]["metadata"]["annotations"] = {"syncline.dev/requestedAt": "now"}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (_delete_copy, {"missing"}),
        (_edit_copy, {"wrong content"}),
        (_extra_key, {"wrong content"}),
        (_stale_label, {"wrong content"}),
        (_leave_scope, {"unwanted"}),
        (_delete_source, {"unwanted"}),
        (_delete_sync, {"orphan"}),
        (_terminate, {"stuck"}),
        (_edit_spec, {"stale status"}),
        (_ask, {"stale status"}),
        (_say_unready, {"untrue status"}),
        (_strip, {"untrue status"}),
        (_touch_foreign, {"foreign touched"}),
        (_delete_foreign, {"foreign deleted"}),
        (_hold, {"held without cause"}),
        (_drop_finalizer, {"no finalizer"}),
    ],
)
def test_what_is_planted_is_found(scene: Snapshot, history: History, change: Change, what: set[str]) -> None:
    change(scene, history)
    assert found(scene, history) == what


def _hold_many(scene: Snapshot, _: History) -> list[Json]:
    """Take the label off more namespaces than the guard lets go, and return the entries of their copies."""
    listed = []
    for name in (f"t-{number}" for number in range(2, 14)):
        scene.namespaces[name] = {"metadata": {"name": name, "labels": {}}}
        place = ("ConfigMap", name, "plain")
        scene.objects[place] = config_map(name, "plain", name, {"s0": "1"}, **marks(place))
        listed.append({"namespace": name, "name": "plain", "status": "Pending", "reason": "DeletionHeld"})
    scene.syncs[REF] = sync(SPEC, ("False", "DeletionHeld"), unwanted=len(listed), targetStatuses=listed)
    return listed


def test_copies_whose_removal_is_held_are_counted_and_listed(scene: Snapshot, history: History) -> None:
    listed = _hold_many(scene, history)
    assert judge(scene, history) == []
    history.restored.add(("ConfigMap", "t-2", "plain"))  # it may stay, and may go
    assert judge(scene, history) == []
    history.restored.clear()
    listed[0]["namespace"] = "t-1"  # where nothing is held
    assert found(scene, history) == {"untrue target"}
    listed[0] |= {"namespace": "t-2", "status": "Failed", "reason": "Forbidden"}
    assert found(scene, history) == {"untrue target"}
    listed.clear()
    scene.syncs[REF]["status"]["targets"]["unwanted"] = 3
    assert found(scene, history) == {"untrue status"}


def _orphaned(scene: Snapshot, history: History) -> None:
    del scene.syncs[REF]
    history.died(REF, "Orphan")


def _suspended(scene: Snapshot, _: History) -> None:
    scene.syncs[REF] = sync({**SPEC, "suspend": True}, ("Unknown", "Suspended"))
    scene.objects[COPY]["data"]["s0"] = "old"


def _unpruned(scene: Snapshot, history: History) -> None:
    _leave_scope(scene, history)
    scene.syncs[REF]["spec"]["prune"] = False


def _kept(scene: Snapshot, history: History) -> None:
    _delete_copy(scene, history)
    scene.syncs[REF]["spec"]["resourceManagementPolicy"] = "Keep"
    history.deleted(COPY)


def _skipped(scene: Snapshot, history: History) -> None:
    _edit_copy(scene, history)
    scene.syncs[REF] = sync({**SPEC, "conflictPolicy": "Skip"}, ("False", "Edited"))
    history.edited(COPY, "c", {"s0": "2"})


def _skipped_and_put_back(scene: Snapshot, history: History) -> None:
    _skipped(scene, history)
    scene.objects[COPY]["metadata"]["uid"] = "another"
    history.restored.add(COPY)


def _merged(scene: Snapshot, history: History) -> None:
    scene.objects[COPY]["data"]["u-0"] = "mine"
    scene.syncs[REF]["spec"]["conflictPolicy"] = "Merge"
    history.edited(COPY, "c", {"u-0": "mine"})


def _ignored(scene: Snapshot, history: History) -> None:
    scene.namespaces["t-0"]["metadata"]["labels"]["syncline.dev/ignore"] = "true"
    _edit_copy(scene, history)


@pytest.mark.parametrize(
    "change", [_orphaned, _suspended, _unpruned, _kept, _skipped, _skipped_and_put_back, _merged, _ignored]
)
def test_what_users_ask_for_is_no_deviation(scene: Snapshot, history: History, change: Change) -> None:
    change(scene, history)
    assert judge(scene, history) == []


def test_an_accepted_edit_of_one_side_must_be_on_both(scene: Snapshot, history: History) -> None:
    pair = {**SPEC, "direction": "Bidirectional", "conflictPolicy": "Merge"}
    scene.syncs[REF]["spec"] = pair
    history.edited(SOURCE, "s", {"s0": "1"})
    history.edited(COPY, "c", {"u-0": "mine"})
    assert found(scene, history) == {"wrong content"}
    scene.objects[COPY]["data"]["u-0"] = "mine"
    assert found(scene, history) == {"wrong content"}
    scene.objects[SOURCE]["data"]["u-0"] = "mine"
    assert found(scene, history) == set()


def test_of_two_sides_an_edit_beats_a_deletion_also_in_what_was_put_back(scene: Snapshot, history: History) -> None:
    scene.syncs[REF]["spec"] = {**SPEC, "direction": "Bidirectional"}
    del scene.objects[SOURCE]
    assert "unwanted" in found(scene, history)
    history.restored.add(COPY)
    assert "unwanted" not in found(scene, history)


def test_of_two_that_want_one_place_the_younger_says_so(scene: Snapshot, history: History) -> None:
    rival = sync(deepcopy(SPEC))
    rival["metadata"] |= {"name": "rival", "uid": "rival", "creationTimestamp": "2026-01-02T00:00:00Z"}
    scene.syncs["ConfigMapSync/home/rival"] = rival
    assert found(scene, history) == {"untrue status"}
    rival["status"]["conditions"][0] |= {"status": "False", "reason": "OwnedByOther"}
    assert found(scene, history) == set()


def test_many_removals_that_nobody_confirmed_are_an_overrun() -> None:
    removed = [Write(100.0 + number, "delete", "configmaps", f"w-{number:02}", "wide", 200) for number in range(11)]
    assert overruns(removed, [], [])
    assert not overruns(removed[1:], [], [])
    assert not overruns(removed, [105.5], [])
    assert not overruns(removed, [], [99.0])


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (503, "service unavailable", True),
        (429, "too many requests", True),
        (403, 'configmaps "a" is forbidden: not yet ready to handle request', True),
        (403, 'configmaps "a" is forbidden: a policy says no', False),
        (409, "the object has been modified", False),
    ],
)
def test_a_server_that_has_just_started_refuses_nothing(status: int, message: str, expected: bool) -> None:
    assert is_outage(status, message) is expected
