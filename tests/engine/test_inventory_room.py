"""What the status has no room to remember is not written, and told; what it has goes on."""

from types import SimpleNamespace
from typing import Any, cast

from msgspec import structs

from syncline.api.common import ObjectMeta
from syncline.api.connection import ClusterConnection, NameRef, WrittenCluster
from syncline.api.manifestsync import ManifestSyncStatus
from syncline.api.status import MAX_CLUSTERS, MAX_KEPT
from syncline.controllers.lowered import Destination, LoweredSpec, WriteRef
from syncline.controllers.targets.clusters import TargetCluster
from syncline.controllers.targets.connections import ClusterVisit, with_room
from syncline.controllers.targets.keep_policy import KeepMarks, mark_at
from syncline.core.keep_marks import no_room_outcome
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.core.plan import Policy
from syncline.core.scope import Scope
from syncline.engine.sync_object import Sync

CLUSTER = cast("Any", SimpleNamespace(namespace=lambda name: SimpleNamespace(uid=f"uid-of-{name}")))


def sync(**status: Any) -> Any:
    return Sync(
        kind="ManifestSync",
        metadata=ObjectMeta(name="sync", namespace="team", uid="u"),
        spec=None,
        status=ManifestSyncStatus(**status),
    )


def site(name: str = "", management: Any = "Sync") -> TargetCluster:
    connection = ClusterConnection(type="SyncTarget", sync_target_ref=NameRef(name=name)) if name else None
    destination = Destination(
        cluster=name,
        connection=connection,
        scope=Scope(names=frozenset({"a"})),
        policy=Policy(management=management, conflict="SourceWins"),
    )
    return TargetCluster(destination=destination, cluster=CLUSTER, client=cast("Any", None), owner=cast("Any", None))


def recorded(one: TargetCluster) -> WrittenCluster:
    assert one.destination.connection is not None
    return WrittenCluster(name=one.destination.cluster, connection=one.destination.connection)


def test_clusters_beyond_the_room_of_the_inventory_are_not_written_to_and_told() -> None:
    known = [site(f"known-{number}") for number in range(MAX_CLUSTERS - 1)]
    new = [site("first"), site("second"), site("third")]
    lowered = LoweredSpec(
        sync=sync(clusters=[recorded(one) for one in known]),
        writes=(WriteRef(kind="Secret", namespace="team", name="token"),),
        destinations=(),
    )
    arrivals = with_room(lowered, [ClusterVisit(site=one) for one in (*new, *known)])
    assert [one.site for one in arrivals] == [new[0], None, None, *known]
    (told,) = arrivals[1].outcomes
    assert (told.target, told.state, told.reason) == (
        Target("a", "token", "Secret", "second"),
        "Failed",
        "InventoryFull",
    )
    assert told.message.startswith("split the sync: its status has no room for cluster second")


def test_a_sync_that_is_being_deleted_visits_all_its_clusters() -> None:
    known = [site(f"known-{number}") for number in range(MAX_CLUSTERS)]
    ending = sync(clusters=[recorded(one) for one in known])
    ending = structs.replace(
        ending, metadata=structs.replace(ending.metadata, deletion_timestamp="2026-01-02T03:04:05Z")
    )
    arrivals = [ClusterVisit(site=one) for one in (*known, site("new"))]
    assert with_room(LoweredSpec(sync=ending, destinations=()), arrivals) == arrivals


def test_under_keep_a_place_that_cannot_be_remembered_gets_no_copy() -> None:
    here = site(management="Keep")
    known = [Target("a", f"n{number}") for number in range(MAX_KEPT - 1)]
    of_known = [mark_at(CLUSTER, target) for target in known]
    room = KeepMarks(sync(kept=of_known))
    assert room.has(here, known[0])
    assert all(room.take(here, target) for target in known)
    assert room.take(here, Target("a", "one-more"))
    assert not room.take(here, Target("a", "too-many"))
    assert room.take(here, Target("a", "one-more"))
    assert not room.has(here, Target("a", "one-more"))
    assert no_room_outcome(Target("a", "too-many")).reason == "InventoryFull"


def test_a_place_without_room_is_not_marked_as_one_that_has_had_its_copy() -> None:
    here = site(management="Keep")
    outcomes = [no_room_outcome(Target("a", "b")), Outcome(target=Target("a", "c"), state="Synced", reason="Synced")]
    marks = KeepMarks(sync()).marks([here], outcomes, [], partial_view=False)
    assert marks == [mark_at(CLUSTER, Target("a", "c"))]


def test_a_namespace_that_was_replaced_during_a_reconcile_has_not_had_its_copy() -> None:
    here, target = site(management="Keep"), Target("a", "b")
    uids = ["uid-of-the-first"]
    cluster = cast("Any", SimpleNamespace(namespace=lambda _: SimpleNamespace(uid=uids[-1])))
    here = structs.replace(here, cluster=cluster)
    of_first = mark_at(cluster, target)
    room = KeepMarks(sync(kept=[of_first]))
    assert room.take(here, target)
    uids.append("uid-of-the-second")
    outcomes = [Outcome(target=target, state="Skipped", reason="Kept")]
    assert room.marks([here], outcomes, [], partial_view=False) == [of_first]
    assert not KeepMarks(sync(kept=[of_first])).has(here, target)


def test_an_object_that_was_pruned_has_not_had_its_place() -> None:
    here, target = site(management="Keep"), Target("a", "b")
    pruned = Outcome(target=target, state="Synced", reason="Pruned", gone=True)
    assert KeepMarks(sync(kept=[mark_at(CLUSTER, target)])).marks([here], [pruned], [], partial_view=False) == []


def test_other_policies_need_no_room() -> None:
    room = KeepMarks(sync(kept=[f"{number:016x}" for number in range(MAX_KEPT)]))
    assert room.take(site(), Target("a", "b"))
