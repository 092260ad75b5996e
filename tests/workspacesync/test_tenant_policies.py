"""A WorkspaceSync is no way around a TenantPolicy: what it writes upstream is limited too."""

from collections.abc import Iterator

import pytest
from tests.tenancy.policies import Govern, governing
from tests.workspacesync.world import Workspaces, report, resource

BOTH = resource("configmaps", direction="Bidirectional")
PREFIX = "t-"
MAPPED = {"mapping": {"prefix": PREFIX}}


@pytest.fixture
def govern(world: Workspaces) -> Iterator[Govern]:
    """Write policies over the namespace of the syncs, for the time of the test."""
    yield from governing(world)


def test_a_two_way_sync_is_no_way_into_upstream_namespaces_that_are_not_listed(
    world: Workspaces, govern: Govern
) -> None:
    above = world.above("victim")
    source = world.data(above)
    policy = govern(destinationNamespaces=[f"{PREFIX}*"])
    sync = world.wsync("sync", BOTH, namespaces=world.followed(**MAPPED), conflictStrategy="MergeChanges")
    sync.fails("NotAllowed", policy.refusal("destinationNamespaces", f"destination namespace {above}"))
    assert world.down("ConfigMap", f"{PREFIX}{above}").look() is None
    policy.change(destinationNamespaces=[f"{PREFIX}*", above])
    sync.is_ready()
    copy = world.down("ConfigMap", f"{PREFIX}{above}")
    copy.put("data", "colour", value="blue")
    source.holds_data(colour="blue")


def test_a_policy_that_is_tightened_stops_the_way_up_and_deletes_nothing(world: Workspaces, govern: Govern) -> None:
    above = world.above("victim")
    source, gone = world.data(above), world.data(above, "gone")
    sync = world.wsync(
        "sync", BOTH, namespaces=world.followed(**MAPPED), conflictStrategy="MergeChanges", deletePropagation="Both"
    )
    sync.is_ready()
    policy = govern(destinationNamespaces=[f"{PREFIX}*"])
    sync.fails("NotAllowed", policy.name)
    world.down("ConfigMap", f"{PREFIX}{above}").put("data", "colour", value="blue")
    world.down("ConfigMap", f"{PREFIX}{above}", "gone").delete()
    sync.now()
    assert source.read()["data"] == {"colour": "red"}
    assert gone.look() is not None
    assert world.down("ConfigMap", f"{PREFIX}{above}").read()["data"] == {"colour": "blue"}


def test_a_status_is_not_written_to_upstream_namespaces_that_are_not_listed(world: Workspaces, govern: Govern) -> None:
    for cluster in (world.upstream, *world.clusters.values()):
        world.define_widgets(cluster)
    above = world.above("victim")
    source = world.widget(above, size=1)
    policy = govern(destinationNamespaces=[f"{PREFIX}*"])
    sync = world.wsync("sync", world.widgets(), namespaces=world.followed(**MAPPED), statusSync=True)
    copy = world.down("Widget", f"{PREFIX}{above}")
    copy.appears()
    report(copy, phase="Forged")
    sync.fails("NotAllowed", policy.refusal("destinationNamespaces", f"destination namespace {above}"))
    sync.now()
    assert "status" not in source.read()
    policy.change(destinationNamespaces=None)
    source.shows("status", "phase", value="Forged")
    sync.is_ready()


def test_addresses_are_not_written_to_upstream_namespaces_that_are_not_listed(
    world: Workspaces, govern: Govern
) -> None:
    above = world.above("victim")
    world.service(above)
    policy = govern(destinationNamespaces=[f"{PREFIX}*"])
    sync = world.wsync("sync", "services", namespaces=world.followed(**MAPPED), endpoints=True)
    below = f"{PREFIX}{above}"
    world.down("Service", below).appears()
    endpoints = world.down("Endpoints", below)
    endpoints.create({"metadata": {"name": "app"}, "subsets": [{"addresses": [{"ip": "10.1.2.3"}]}]})
    sync.fails("NotAllowed", policy.refusal("destinationNamespaces", f"destination namespace {above}"))
    sync.now()
    assert world.up("Endpoints", above).look() is None
    policy.change(destinationNamespaces=None)
    world.up("Endpoints", above).appears()


def test_a_kind_that_only_the_upstream_names_must_be_listed_too(world: Workspaces, govern: Govern) -> None:
    for cluster in (world.upstream, *world.clusters.values()):
        world.define_widgets(cluster)
    above = world.above("shop")
    world.widget(above, size=1)
    policy = govern(kinds=["ConfigMap", "Namespace"])
    sync = world.wsync("sync", world.widgets())
    sync.fails("NotAllowed", policy.refusal("kinds", f"kind Widget.{world.group}"))
    assert world.down("Widget", above).look() is None


def test_workspacesyncs_count_for_the_quota_of_syncs(world: Workspaces, govern: Govern) -> None:
    policy = govern(quotas={"syncs": 0})
    above = world.above("shop")
    world.data(above)
    sync = world.wsync()
    sync.fails("NotAllowed", policy.refusal("quotas.syncs", f"to have more than 0 syncs in namespace {world.home}"))
    assert world.copies_at() == {}
    policy.change(quotas={"syncs": 1})
    sync.is_ready()
    assert list(world.copies_at()) == [(above, "app")]


def test_copies_and_namespaces_of_a_workspacesync_count_for_the_quota_of_targets(
    world: Workspaces, govern: Govern
) -> None:
    policy = govern(quotas={"targets": 2})
    above = world.above("shop")
    world.data(above)
    world.data(above, "second")
    sync = world.wsync()
    what = f"to have 3 targets here and more than 2 in all of namespace {world.home}"
    sync.fails("NotAllowed", policy.refusal("quotas.targets", what))
    assert world.namespaces_at() == []
    policy.change(quotas={"targets": 3})
    sync.is_ready()
    assert sorted(world.copies_at()) == [(above, "app"), (above, "second")]
