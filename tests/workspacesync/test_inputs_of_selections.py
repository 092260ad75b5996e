"""What a selection follows from is noticed, also if it is neither an object nor the spec of the sync."""

from tests.configmapsync.world import until
from tests.workspacesync.world import Workspaces, resource, told

from syncline.api.common import ABANDON


def test_a_copy_upstream_whose_sync_is_gone_becomes_a_source_like_any_other(world: Workspaces) -> None:
    shop, inner = world.above("shop"), world.above("inner")
    world.put(world.home, colour="red")
    writer = world.sync("writer", destinationNamespaces=[inner])
    world.config_map(inner).appears()
    other = world.data(shop, "other")
    sync = world.wsync()
    sync.is_ready()
    until(lambda: sync.status.get("copiesSkipped"), lambda seen: seen == 1)
    sync.now()  # from then on, only changes are looked at
    world.data(shop, "third")
    world.down("ConfigMap", shop, "third").appears()
    sync.is_ready()
    assert world.down("ConfigMap", inner).look() is None
    writer.annotate({ABANDON: "true"})
    writer.delete()
    writer.gone()
    other.put("data", "colour", value="blue")
    world.down("ConfigMap", inner).holds_data(colour="red")
    until(lambda: sync.status.get("copiesSkipped", 0), lambda seen: seen == 0)


def test_the_end_of_a_sync_that_owns_a_copy_upstream_enqueues_a_sync_that_has_only_looked_at_changes_since(
    world: Workspaces,
) -> None:
    shop, inner = world.above("shop"), world.above("inner")
    world.put(world.home, colour="red")
    writer = world.sync("writer", destinationNamespaces=[inner])
    world.config_map(inner).appears()
    other = world.data(shop, "other")
    sync = world.wsync()
    sync.is_ready()
    until(lambda: sync.status.get("copiesSkipped"), lambda seen: seen == 1)
    for colour in ("green", "blue", "white"):
        other.put("data", "colour", value=colour)
        world.down("ConfigMap", shop, "other").holds_data(colour=colour)
    sync.is_ready()
    writer.annotate({ABANDON: "true"})
    writer.delete()
    writer.gone()
    world.down("ConfigMap", inner).holds_data(colour="red")
    until(lambda: sync.status.get("copiesSkipped", 0), lambda seen: seen == 0)


def test_a_sync_whose_first_reconcile_yields_to_an_older_one_writes_once_that_one_stops(wide: Workspaces) -> None:
    namespace = wide.above("shop")
    source = wide.data(namespace)
    both = resource("configmaps", direction="Bidirectional")
    older = wide.wsync("older", both, to=["east"], conflictStrategy="MergeChanges")
    older.is_ready()
    younger = wide.wsync("younger", both, to=["west"], conflictStrategy="MergeChanges")
    younger.tells_of("older is older")
    younger.change(suspend=True)
    younger.becomes("Suspended")
    younger.change(suspend=None)
    younger.tells_of("older is older")
    older.change(suspend=True)
    older.becomes("Suspended")
    until(younger.read, lambda body: "older is older" not in told(body))
    wide.down("ConfigMap", namespace, at="west").put("data", "colour", value="western")
    source.holds_data(colour="western")


def test_of_several_objects_in_trouble_the_same_one_is_named_after_each_reconcile(world: Workspaces) -> None:
    namespace = world.above("shop")
    edited = world.data(namespace, "b")
    sync = world.wsync(conflictStrategy="MergeChanges", onConflict="Report")
    sync.is_ready()
    world.down("ConfigMap", namespace, "a").create({"metadata": {"name": "a"}, "data": {"colour": "theirs"}})
    with world.asleep(sync):
        edited.put("data", "colour", value="blue")
        world.down("ConfigMap", namespace, "b").put("data", "colour", value="green")
        world.data(namespace, "a")
    until(lambda: sync.counts, lambda seen: seen.get("conflicted") == 2)
    other = world.data(namespace, "c")
    for size in ("small", "large"):
        sync.now()
        version = sync.status["upstream"]["resourceVersion"]
        other.put("data", "size", value=size)
        until(lambda: sync.status["upstream"]["resourceVersion"], lambda seen: seen != version)  # noqa: B023 - called at once
        assert f"{namespace}/a: " in sync.status["resources"][0]["message"]
