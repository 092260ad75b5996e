"""Copies go when what they were made from is gone, and for no lesser reason."""

import base64
from collections.abc import Callable
from typing import Any

import pytest
from tests.configmapsync.world import until
from tests.fleet.world import Remote
from tests.manifestsync.world import Object
from tests.workspacesync.world import UPSTREAM, Workspaces, WorkspaceSync, resource

from syncline.api.common import ABANDON, CONFIRM_DELETION
from syncline.sandbox import RequestError
from syncline.testing.faults import Asked, Fault, Lines
from syncline.testing.proxy import FaultProxy


class Shop:
    """Some ConfigMaps upstream, and their copies."""

    def __init__(self, world: Workspaces, count: int = 3, **spec: Any) -> None:
        self.world = world
        self.namespace = world.above("shop")
        self.sources = [world.data(self.namespace, f"item-{number:02}") for number in range(count)]
        self.sync: WorkspaceSync = world.wsync(**spec)
        self.sync.is_ready()
        self.copies = world.copies_at()
        assert len(self.copies) == count

    def has_all(self) -> None:
        """Check that every copy is the one that it was."""
        assert self.world.copies_at() == self.copies

    def has_all_after(self, *reconciles: Callable[[], object]) -> None:
        for reconcile in reconciles:
            reconcile()
        self.has_all()


def listed(sync: WorkspaceSync, reason: str) -> set[str]:
    """Return the names of the ConfigMaps that the status lists for a reason."""
    found = sync.status.get("targetStatuses", [])
    return {one["name"] for one in found if one.get("reason") == reason and "kind" not in one}


def _of(namespace: str) -> Callable[[Asked], bool]:
    return lambda asked: namespace in (asked.namespace, asked.name)


# Evidence.


def test_an_object_that_is_deleted_upstream_is_deleted_below_and_nothing_else(world: Workspaces) -> None:
    shop = Shop(world)
    shop.sources[0].delete()
    world.down("ConfigMap", shop.namespace, "item-00").gone()
    shop.sync.is_ready()
    assert set(world.copies_at().items()) <= set(shop.copies.items())
    assert len(world.copies_at()) == 2


def test_a_link_that_is_cut_in_the_middle_deletes_nothing(world: Workspaces, upstream_proxy: FaultProxy) -> None:
    """kcp #2671: the link was lost, and the syncer deleted what was below, and made it again later."""
    world.credential(UPSTREAM, world.upstream, server=upstream_proxy.server)
    shop = Shop(world)
    outage = upstream_proxy.inject(Fault(lost=True), when=lambda _: True)
    upstream_proxy.cut_watches()
    shop.sync.doubts()
    shop.has_all_after(shop.sync.now)
    outage.lift()
    shop.sync.is_ready()
    shop.has_all()


@pytest.mark.parametrize("status", [401, 403, 404, 410, 429, 500, 503])
def test_no_answer_but_the_right_one_is_evidence(world: Workspaces, upstream_proxy: FaultProxy, status: int) -> None:
    world.credential(UPSTREAM, world.upstream, server=upstream_proxy.server)
    shop = Shop(world)
    trouble = upstream_proxy.inject(Fault(status=status), when=lambda _: True)
    upstream_proxy.cut_watches()
    shop.sync.has_trouble()
    shop.has_all_after(shop.sync.now)
    trouble.lift()
    shop.sync.now()
    shop.sync.is_ready()
    shop.has_all()


def test_a_watch_that_says_deleted_is_not_believed_without_a_look(
    world: Workspaces, upstream_proxy: FaultProxy
) -> None:
    world.credential(UPSTREAM, world.upstream, server=upstream_proxy.server)

    async def lying(lines: Lines) -> Lines:
        async for line in lines:
            yield line.replace(b'"type":"MODIFIED"', b'"type":"DELETED"')

    liar = upstream_proxy.inject(
        Fault(events=lying), when=lambda asked: asked.verb == "watch" and asked.resource == "configmaps"
    )
    shop = Shop(world)
    shop.sources[0].put("data", "colour", value="blue")
    shop.sync.now()
    shop.has_all()
    liar.lift()
    upstream_proxy.cut_watches()
    shop.sources[0].put("data", "colour", value="green")
    world.down("ConfigMap", shop.namespace, "item-00").holds_data(colour="green")
    shop.has_all()


def test_an_empty_list_deletes_nothing(world: Workspaces, upstream_proxy: FaultProxy) -> None:
    world.credential(UPSTREAM, world.upstream, server=upstream_proxy.server)
    shop = Shop(world)

    async def silent(lines: Lines) -> Lines:
        async for line in lines:
            if b'"type":"BOOKMARK"' in line:
                yield line

    emptied = upstream_proxy.inject(Fault(events=silent), when=lambda asked: asked.verb == "watch")
    upstream_proxy.cut_watches()
    until(lambda: len(emptied.hits), lambda hits: hits > 0)
    shop.has_all_after(shop.sync.now, shop.sync.now)
    emptied.lift()
    upstream_proxy.cut_watches()
    shop.sync.now()
    shop.has_all()


def test_a_namespace_that_may_not_be_read_any_more_deletes_nothing(world: Workspaces) -> None:
    upstream = Remote(world.sandbox)
    upstream.allow("*", groups=("*",))
    world.credential(UPSTREAM, upstream)
    shop = Shop(world)
    upstream.allow("namespaces", "configmaps", groups=("nowhere",))
    shop.sync.now()
    shop.sync.has_trouble()
    shop.has_all()
    upstream.allow("*", groups=("*",))
    shop.sync.now()
    shop.sync.is_ready()
    shop.has_all()


def test_a_kind_that_the_upstream_no_longer_serves_deletes_nothing(world: Workspaces) -> None:
    definition = world.define_widgets(world.upstream)
    world.define_widgets(world.clusters["east"])
    namespace = world.above("shop")
    world.widget(namespace, size=1)
    sync = world.wsync("sync", world.widgets(), "configmaps")
    copy = world.down("Widget", namespace)
    copy.appears()
    sync.is_ready()
    uid = copy.uid
    definition.delete()
    definition.gone()
    sync.now()
    sync.tells_of("widgets")
    assert copy.uid == uid
    world.define_widgets(world.upstream)
    world.widget(namespace, size=2)
    copy.shows("spec", "size", value=2)


def test_another_cluster_behind_the_same_credential_deletes_and_changes_nothing(wide: Workspaces) -> None:
    """A workspace that was re-created, or a kubeconfig that was mixed up, has another identity."""
    shop = Shop(wide)
    wide.credential(UPSTREAM, wide.clusters["west"])
    shop.sync.has_trouble()
    shop.has_all_after(shop.sync.now)
    wide.credential(UPSTREAM, wide.upstream)
    shop.sync.now()
    shop.sync.is_ready()
    shop.has_all()


def test_a_lost_credential_deletes_nothing(world: Workspaces) -> None:
    shop = Shop(world)
    world.up("Secret", world.home, UPSTREAM).delete()
    shop.sync.has_trouble(UPSTREAM)
    shop.has_all_after(shop.sync.now)
    world.credential(UPSTREAM, world.upstream)
    shop.sync.is_ready()
    shop.has_all()


def test_an_object_that_was_renamed_is_deleted_by_its_mapped_name_and_no_other(world: Workspaces) -> None:
    """kcp #1787: the path of deletes used the name before the mapping."""
    namespace = world.above("shop")
    world.data(namespace)
    spec = {"mapping": {"prefix": f"{world.name}-team-"}}
    sync = world.wsync(namespaces=world.followed(**spec))
    sync.is_ready()
    theirs = world.down("ConfigMap", world.namespace_at(world.clusters["east"], namespace))
    theirs.create({"metadata": {"name": "app"}, "data": {"colour": "theirs"}})
    mapped = world.down("ConfigMap", f"{world.name}-team-{namespace}")
    assert mapped.look() is not None
    world.up("ConfigMap", namespace).delete()
    mapped.gone()
    assert theirs.at("data") == {"colour": "theirs"}


def test_a_copy_that_somebody_has_made_again_is_not_deleted_as_the_old_one(
    world: Workspaces, east_proxy: FaultProxy
) -> None:
    """kcp #643: a delete that was tried again hit the new object."""
    world.credential("east", world.clusters["east"], server=east_proxy.server)
    shop = Shop(world)
    copy = world.down("ConfigMap", shop.namespace, "item-00")

    def replace() -> None:
        copy.delete()
        copy.create({"metadata": {"name": copy.name}, "data": {"colour": "theirs"}})

    deletes = east_proxy.inject(
        Fault(before=replace), when=lambda asked: asked.method == "DELETE" and asked.name == copy.name, times=1
    )
    shop.sources[0].delete()
    until(lambda: len(deletes.hits), lambda hits: hits == 1)
    shop.sync.now()
    assert copy.at("data") == {"colour": "theirs"}


def test_an_object_that_is_made_again_upstream_has_a_copy(world: Workspaces) -> None:
    shop = Shop(world)
    with world.asleep(shop.sync):
        shop.sources[0].delete()
        world.data(shop.namespace, "item-00", colour="new")
    world.down("ConfigMap", shop.namespace, "item-00").holds_data(colour="new")
    shop.sync.is_ready()
    assert len(world.copies_at()) == 3


def test_a_copy_with_a_finalizer_of_others_is_asked_for_once_and_waited_for(world: Workspaces) -> None:
    shop = Shop(world)
    copy = world.down("ConfigMap", shop.namespace, "item-00")
    copy.edit(lambda body: body["metadata"].update(finalizers=["example.com/hold"]))
    shop.sources[0].delete()
    until(copy.read, lambda seen: "deletionTimestamp" in seen["metadata"])
    mark = world.mark_at(world.clusters["east"])
    for _ in range(3):
        shop.sync.now()
    written = world.written_at(world.clusters["east"], mark)
    assert [str(entry) for entry in written if entry.resource == "configmaps"] == []
    copy.edit(lambda body: body["metadata"].update(finalizers=[]))
    copy.gone()


def test_an_object_that_waits_for_its_end_upstream_keeps_its_copy_until_it_is_gone(world: Workspaces) -> None:
    """kcp #1891, #2055: what the syncer did with objects that were terminating went back and forth."""
    shop = Shop(world)
    source = shop.sources[0]
    source.edit(lambda body: body["metadata"].update(finalizers=["example.com/hold"]))
    source.delete()
    until(source.read, lambda seen: "deletionTimestamp" in seen["metadata"])
    shop.sync.now()
    world.comes_to_rest(shop.sync)
    shop.has_all()
    source.edit(lambda body: body["metadata"].update(finalizers=[]))
    world.down("ConfigMap", shop.namespace, "item-00").gone()


# What a sync asks for.


def test_an_object_that_leaves_the_selector_loses_its_copy(world: Workspaces) -> None:
    namespace = world.above("shop")
    source = world.data(namespace, metadata={"labels": {"sync": "yes"}})
    sync = world.wsync("sync", resource("configmaps", selector={"matchLabels": {"sync": "yes"}}))
    sync.is_ready()
    source.label(sync="no")
    world.down("ConfigMap", namespace).gone()


def test_a_namespace_that_is_deleted_upstream_goes_below(world: Workspaces) -> None:
    shop = Shop(world)
    world.up("Namespace", "", shop.namespace).delete()
    world.down("Namespace", "", shop.namespace).gone()
    shop.sync.is_ready()


def test_a_resource_that_leaves_the_sync_loses_its_copies(world: Workspaces) -> None:
    namespace = world.above("shop")
    world.data(namespace)
    world.up("Secret", namespace).create({"metadata": {"name": "app"}})
    sync = world.wsync("sync", "configmaps", "secrets")
    sync.is_ready()
    sync.change(resources=[resource("configmaps")])
    world.down("Secret", namespace).gone()
    assert world.down("ConfigMap", namespace).look() is not None
    sync.is_ready()


def test_many_at_once_are_held_until_a_person_confirms(world: Workspaces) -> None:
    shop = Shop(world, count=24)
    with world.asleep(shop.sync):
        for source in shop.sources[:20]:
            source.delete()
    ready = shop.sync.fails()
    assert ready["reason"] == "DeletionHeld"
    assert listed(shop.sync, "DeletionHeld") == {source.name for source in shop.sources[:20]}
    assert shop.sync.status["targets"]["unwanted"] == 20
    shop.has_all()
    shop.sync.annotate({CONFIRM_DELETION: ready["message"].rpartition("=")[2]})
    until(world.copies_at, lambda seen: len(seen) == 4)


def test_without_propagation_nothing_is_deleted_on_either_side(world: Workspaces) -> None:
    shop = Shop(world, deletePropagation="None")
    shop.sources[0].delete()
    shop.sync.tells_of("Orphaned", "item-00")
    shop.has_all()
    world.down("ConfigMap", shop.namespace, "item-01").delete()
    shop.sync.now()
    assert shop.sources[1].look() is not None


def test_down_a_copy_that_is_deleted_is_made_again(world: Workspaces) -> None:
    shop = Shop(world)
    copy = world.down("ConfigMap", shop.namespace, "item-00")
    uid = copy.uid
    copy.delete()
    until(copy.look, lambda seen: seen is not None and seen["metadata"]["uid"] != uid)
    assert shop.sources[0].look() is not None


class Both:
    """One ConfigMap, and deletes that go both ways."""

    def __init__(self, world: Workspaces) -> None:
        self.namespace = world.above("shop")
        self.source = world.data(self.namespace)
        self.keeper = world.data(self.namespace, "keeper")
        self.sync = world.wsync(
            "sync",
            resource("configmaps", direction="Bidirectional"),
            conflictStrategy="MergeChanges",
            deletePropagation="Both",
        )
        self.copy: Object = world.down("ConfigMap", self.namespace)
        self.copy.appears()
        self.sync.is_ready()
        self.sync.now()  # a copy that was not seen in order is made again


def test_both_ways_a_delete_reaches_the_other_side(world: Workspaces) -> None:
    pair = Both(world)
    pair.copy.delete()
    pair.source.gone()
    pair.keeper.delete()
    world.down("ConfigMap", pair.namespace, "keeper").gone()


def test_both_ways_an_edit_is_stronger_than_a_delete(world: Workspaces) -> None:
    pair = Both(world)
    with world.asleep(pair.sync):
        pair.copy.delete()
        pair.source.put("data", "colour", value="blue")
    pair.copy.holds_data(colour="blue")
    assert pair.source.at("data") == {"colour": "blue"}
    with world.asleep(pair.sync):
        pair.source.delete()
        pair.copy.put("data", "colour", value="green")
    until(pair.source.look, lambda seen: seen is not None and seen["data"] == {"colour": "green"})
    assert pair.copy.at("data") == {"colour": "green"}


def test_both_ways_a_cluster_below_that_is_out_of_reach_deletes_nothing_upstream(
    world: Workspaces, east_proxy: FaultProxy
) -> None:
    world.credential("east", world.clusters["east"], server=east_proxy.server)
    pair = Both(world)
    outage = east_proxy.inject(Fault(status=404), when=_of(pair.namespace))
    east_proxy.cut_watches()
    pair.sync.now()
    assert pair.source.look() is not None
    outage.lift()
    pair.sync.now()
    assert pair.source.look() is not None
    assert pair.keeper.look() is not None


def test_both_ways_a_namespace_that_is_deleted_below_deletes_nothing_upstream(world: Workspaces) -> None:
    pair = Both(world)
    world.down("Namespace", "", pair.namespace).delete()
    pair.sync.now()
    assert pair.source.look() is not None
    assert pair.keeper.look() is not None


def test_deletes_both_ways_need_a_resource_that_goes_both_ways(world: Workspaces) -> None:
    with pytest.raises(RequestError) as refused:
        world.wsync(deletePropagation="Both")
    assert refused.value.status == 422


# The end of a sync.


def test_a_deleted_sync_takes_its_copies_and_namespaces_with_it_and_leaves_the_upstream(world: Workspaces) -> None:
    shop = Shop(world)
    shop.sync.delete()
    shop.sync.gone()
    assert world.copies_at() == {}
    world.down("Namespace", "", shop.namespace).gone()
    assert all(source.look() is not None for source in shop.sources)


def test_a_deleted_sync_with_orphan_leaves_its_copies(world: Workspaces) -> None:
    shop = Shop(world, deletionPolicy="Orphan")
    shop.sync.delete()
    shop.sync.gone()
    assert world.down("ConfigMap", shop.namespace, "item-00").at("data") == {"colour": "red"}


def test_a_deleted_sync_needs_no_upstream(world: Workspaces, upstream_proxy: FaultProxy) -> None:
    world.credential(UPSTREAM, world.upstream, server=upstream_proxy.server)
    shop = Shop(world)
    upstream_proxy.inject(Fault(lost=True), when=lambda _: True)
    upstream_proxy.cut_watches()
    shop.sync.delete()
    shop.sync.gone()
    assert world.copies_at() == {}


def test_a_deleted_sync_whose_cluster_is_gone_is_let_go_on_request(world: Workspaces, east_proxy: FaultProxy) -> None:
    world.credential("east", world.clusters["east"], server=east_proxy.server)
    shop = Shop(world)
    outage = east_proxy.inject(Fault(lost=True), when=lambda _: True)
    east_proxy.cut_watches()
    shop.sync.doubts()
    shop.sync.annotate({ABANDON: "true"})
    shop.sync.delete()
    shop.sync.gone()
    outage.lift()
    shop.has_all()


def test_a_sync_that_never_reached_its_upstream_can_be_deleted(world: Workspaces) -> None:
    world.keep_credential(UPSTREAM, {"value": base64.b64encode(b"nothing-of-use-1").decode()})
    sync = world.wsync()
    sync.has_trouble(UPSTREAM)
    sync.delete()
    sync.gone()


@pytest.mark.parametrize("propagation", ["Down", "Both"])
def test_both_ways_an_immutable_object_that_is_created_again_is_followed_and_stays(
    world: Workspaces, propagation: str
) -> None:
    namespace = world.above("shop")
    source = world.up("ConfigMap", namespace, "app")
    source.create({"metadata": {"name": "app"}, "data": {"colour": "red"}, "immutable": True})
    both = resource("configmaps", direction="Bidirectional")
    sync = world.wsync("sync", both, conflictStrategy="MergeChanges", deletePropagation=propagation)
    copy = world.down("ConfigMap", namespace)
    copy.holds_data(colour="red")
    sync.is_ready()
    with world.asleep(sync):
        source.delete()
        source.create({"metadata": {"name": "app"}, "data": {"colour": "blue"}, "immutable": True})
    copy.holds_data(colour="blue")
    sync.is_ready()
    world.comes_to_rest(sync)
    assert source.at("data") == {"colour": "blue"}
    assert copy.read()["immutable"] is True
