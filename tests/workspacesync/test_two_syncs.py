"""Two syncs that meet: at one place below, at one status above, or in a circle."""

from tests.configmapsync.world import until
from tests.workspacesync.world import UPSTREAM, Workspaces, report, resource


def test_of_two_syncs_with_one_place_the_older_keeps_it_and_the_other_says_so(world: Workspaces) -> None:
    namespace = world.above("shop")
    source = world.data(namespace)
    older = world.wsync("older")
    older.is_ready()
    copy = world.down("ConfigMap", namespace)
    uid = copy.uid
    younger = world.wsync("younger", transforms=[{"resource": "configmaps", "set": {"/data/colour": "stolen"}}])
    younger.fails(namespace)
    source.put("data", "size", value="large")
    copy.holds_data(colour="red", size="large")
    older.is_ready()
    younger.fails(namespace)
    assert copy.uid == uid
    younger.delete()
    younger.gone()
    assert copy.uid == uid


def test_a_place_that_is_let_go_can_be_taken_by_the_other(world: Workspaces) -> None:
    namespace = world.above("shop")
    world.data(namespace)
    older = world.wsync("older")
    older.is_ready()
    younger = world.wsync("younger")
    younger.fails(namespace)
    older.delete()
    older.gone()
    younger.now()
    world.down("ConfigMap", namespace).appears()
    younger.is_ready()


def test_two_syncs_with_places_of_their_own_do_not_meet(world: Workspaces) -> None:
    namespace = world.above("shop")
    world.data(namespace)
    syncs = [
        world.wsync(name, namespaces=world.followed(mapping={"prefix": f"{world.name}-{name}-"}))
        for name in ("one", "two")
    ]
    for sync in syncs:
        sync.is_ready()
    assert len(world.copies_at()) == 2
    world.comes_to_rest(*syncs)


def test_the_status_of_one_object_is_written_by_the_older_of_two_syncs_and_the_other_says_so(
    wide: Workspaces,
) -> None:
    for cluster in (wide.upstream, *wide.clusters.values()):
        wide.define_widgets(cluster)
    namespace = wide.above("shop")
    source = wide.widget(namespace, size=1)
    older = wide.wsync("older", wide.widgets(), to=["east"], statusSync=True)
    older.is_ready()
    younger = wide.wsync("younger", wide.widgets(), to=["west"], statusSync=True)
    east, west = wide.down("Widget", namespace), wide.down("Widget", namespace, at="west")
    west.appears()
    report(west, phase="Western")
    report(east, phase="Eastern")
    source.shows("status", "phase", value="Eastern")
    younger.tells_of("older")
    younger.now()
    assert source.at("status", "phase") == "Eastern"
    older.delete()
    older.gone()
    younger.now()
    source.shows("status", "phase", value="Western")


def test_of_two_syncs_that_go_both_ways_only_one_writes_the_object_upstream(wide: Workspaces) -> None:
    namespace = wide.above("shop")
    source = wide.data(namespace)
    both = resource("configmaps", direction="Bidirectional")
    older = wide.wsync("older", both, to=["east"], conflictStrategy="MergeChanges")
    older.is_ready()
    younger = wide.wsync("younger", both, to=["west"], conflictStrategy="MergeChanges")
    west = wide.down("ConfigMap", namespace, at="west")
    west.appears()
    west.put("data", "colour", value="western")
    younger.tells_of("older")
    assert source.at("data") == {"colour": "red"}
    wide.down("ConfigMap", namespace).put("data", "colour", value="eastern")
    source.holds_data(colour="eastern")


def test_a_circle_of_syncs_copies_nothing_twice(world: Workspaces) -> None:
    """A goes down to B, and B down to A under other names: copies are never sources."""
    world.credential("back", world.clusters["east"])
    world.target("hub", secret=UPSTREAM)
    namespace = world.above("shop")
    world.data(namespace)
    there = world.wsync("there")
    there.is_ready()
    world.down("Namespace", "", namespace).label(world=world.name)
    connection = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "back"}}
    again = world.wsync(
        "again",
        to=["hub"],
        upstream={"connection": connection},
        namespaces=world.followed(mapping={"prefix": f"{world.name}-back-"}),
    )
    again.is_ready()
    for _ in range(2):
        there.now()
        again.now()
    assert world.up("ConfigMap", f"{world.name}-back-{namespace}").look() is None
    assert len(world.copies_at()) == 1
    assert again.status["copiesSkipped"] == 1
    world.comes_to_rest(there, again)


def test_a_circle_with_the_same_names_changes_nothing_that_was_there(world: Workspaces) -> None:
    world.credential("back", world.clusters["east"])
    world.target("hub", secret=UPSTREAM)
    namespace = world.above("shop")
    source = world.data(namespace)
    version = source.version
    there = world.wsync("there")
    there.is_ready()
    world.down("Namespace", "", namespace).label(world=world.name)
    connection = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "back"}}
    again = world.wsync(
        "again", to=["hub"], upstream={"connection": connection}, namespaces=world.followed(existing="Use")
    )
    until(lambda: again.conditions.get("Ready", {}).get("status"), bool)
    for _ in range(2):
        there.now()
        again.now()
    assert source.version == version
    assert world.down("ConfigMap", namespace).at("data") == {"colour": "red"}
    again.delete()
    again.gone()
    assert source.version == version
