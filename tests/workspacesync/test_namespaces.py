"""The namespaces below: made, marked, refused, used, named, and removed when they are empty."""

from typing import Any

import pytest
from tests.configmapsync.world import until
from tests.fleet.world import Remote
from tests.workspacesync.world import Workspaces, resource, told

from syncline import deploy
from syncline.core.ownership import OWNER_LABEL
from syncline.sandbox import RequestError

IGNORE = {"syncline.dev/ignore": "true"}


def test_namespaces_are_made_as_needed_and_marked(world: Workspaces) -> None:
    used, empty = world.above("used"), world.above("empty")
    world.data(used)
    sync = world.wsync()
    sync.is_ready()
    assert world.namespaces_at() == [used]
    made = world.down("Namespace", "", used)
    assert made.marked
    world.data(empty)
    world.down("Namespace", "", empty).appears()


def test_without_a_selector_all_namespaces_but_those_of_the_cluster_are_followed(world: Workspaces) -> None:
    namespace = world.namespace("unlabelled")
    world.data(namespace, metadata={"labels": {"world": world.name}})
    world.data("kube-public", world.name, metadata={"labels": {"world": world.name}})
    chosen = resource("configmaps", selector={"matchLabels": {"world": world.name}})
    sync = world.wsync("sync", chosen, namespaces={"mapping": {"prefix": f"{world.name}-"}})
    sync.is_ready()
    assert world.namespaces_at() == [f"{world.name}-{namespace}"]
    world.up("ConfigMap", "kube-public", world.name).delete()


def test_a_selector_never_matches_the_namespace_of_the_operator_upstream(world: Workspaces) -> None:
    namespace = world.above("shop")
    labels = {"metadata": {"labels": {"world": world.name}}}
    world.data(namespace, **labels)
    guarded = world.data(deploy.NAMESPACE, world.name, **labels)
    chosen = resource("configmaps", selector={"matchLabels": {"world": world.name}})
    sync = world.wsync("sync", chosen, namespaces={"mapping": {"prefix": f"{world.name}-"}})
    sync.is_ready()
    assert world.namespaces_at() == [f"{world.name}-{namespace}"]
    guarded.delete()


def test_a_namespace_that_somebody_else_has_made_is_refused_until_the_sync_may_use_it(world: Workspaces) -> None:
    namespace = world.above("shop")
    world.namespace_at(world.clusters["east"], namespace)
    world.data(namespace)
    sync = world.wsync()
    sync.fails(namespace)
    assert world.down("ConfigMap", namespace).look() is None
    sync.change(namespaces=world.followed(existing="Use"))
    world.down("ConfigMap", namespace).appears()
    sync.is_ready()
    below = world.down("Namespace", "", namespace)
    assert OWNER_LABEL not in below.read()["metadata"].get("labels", {})
    world.up("ConfigMap", namespace).delete()
    world.down("ConfigMap", namespace).gone()
    sync.delete()
    sync.gone()
    assert below.read()["metadata"].get("deletionTimestamp") is None


def test_a_namespace_that_is_to_be_ignored_is_not_written_to_whatever_the_sync_says(world: Workspaces) -> None:
    closed, opened = world.above("closed"), world.above("open")
    world.namespace_at(world.clusters["east"], closed, **IGNORE)
    for namespace in (closed, opened):
        world.data(namespace)
    sync = world.wsync(namespaces=world.followed(existing="Use"))
    world.down("ConfigMap", opened).appears()
    sync.tells_of(closed)
    assert world.down("ConfigMap", closed).look() is None


@pytest.mark.parametrize("name", ["kube-public", deploy.NAMESPACE])
def test_the_namespaces_of_the_cluster_and_of_the_operator_are_never_written_to(world: Workspaces, name: str) -> None:
    world.data(world.above("shop"), world.name)
    try:
        sync = world.wsync(namespaces=world.followed(mapping={"fixed": name}, existing="Use"))
    except RequestError as error:
        assert error.status == 422  # noqa: PT017 - refused earlier is refused, too
    else:
        sync.fails(name)
    assert world.down("ConfigMap", name, world.name).look() is None


def test_a_namespace_of_ours_goes_when_it_is_empty(world: Workspaces) -> None:
    left, unlabelled = world.above("left"), world.above("unlabelled")
    for namespace in (left, unlabelled):
        world.data(namespace)
    sync = world.wsync()
    sync.is_ready()
    world.up("ConfigMap", left).delete()
    world.down("Namespace", "", left).gone()
    world.up("Namespace", "", unlabelled).label(world=None)
    world.down("Namespace", "", unlabelled).gone()
    sync.is_ready()


def test_a_namespace_of_ours_stays_while_somebody_keeps_something_in_it(world: Workspaces) -> None:
    kept, empty = world.above("kept"), world.above("empty")
    for namespace in (kept, empty):
        world.data(namespace)
    sync = world.wsync()
    sync.is_ready()
    theirs = world.down("PodTemplate", kept, "theirs")
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    theirs.create({"metadata": {"name": "theirs"}, "template": template})
    for namespace in (kept, empty):
        world.up("ConfigMap", namespace).delete()
    world.down("ConfigMap", kept).gone()
    world.down("Namespace", "", empty).gone()
    assert world.down("Namespace", "", kept).read()["metadata"].get("deletionTimestamp") is None
    assert theirs.look() is not None
    theirs.delete()
    sync.now()
    world.down("Namespace", "", kept).gone()


def test_what_stays_is_reported_also_while_the_removal_of_others_waits_for_further_changes(world: Workspaces) -> None:
    kept, empty = world.above("kept"), world.above("empty")
    for namespace in (kept, empty):
        world.data(namespace)
    sync = world.wsync()
    sync.is_ready()
    world.down("ConfigMap", kept, "theirs").create({"metadata": {"name": "theirs"}})
    world.up("ConfigMap", kept).delete()
    sync.tells_of("HoldsUnmanaged", "theirs")
    world.up("ConfigMap", empty).delete()
    silent: list[Any] = []

    def emptied() -> bool:
        body = sync.read()
        if "HoldsUnmanaged" not in told(body) or body["status"]["targets"]["unwanted"] < 1:
            silent.append(body["status"])
        return world.down("Namespace", "", empty).look() is None

    until(emptied, bool)
    assert silent == []
    world.down("ConfigMap", kept, "theirs").delete()
    sync.now()
    world.down("Namespace", "", kept).gone()


def test_a_namespace_stays_where_not_every_kind_can_be_listed(world: Workspaces) -> None:
    blind = Remote(world.clusters["east"].sandbox)
    blind.allow("namespaces", "configmaps")
    world.clusters["blind"] = blind
    world.credential("blind", blind)
    world.target("blind")
    namespace = world.above("shop")
    world.data(namespace)
    sync = world.wsync(to=["blind"])
    sync.is_ready()
    world.up("ConfigMap", namespace).delete()
    world.down("ConfigMap", namespace).gone()
    for _ in range(3):
        sync.now()
    assert world.down("Namespace", "", namespace).read()["metadata"].get("deletionTimestamp") is None


# Names.


def test_a_prefix_goes_before_each_name(world: Workspaces) -> None:
    namespace = world.above("shop")
    source = world.data(namespace)
    sync = world.wsync(namespaces=world.followed(mapping={"prefix": f"{world.name}-team-"}))
    sync.is_ready()
    mapped = f"{world.name}-team-{namespace}"
    assert world.namespaces_at() == [mapped]
    source.put("data", "colour", value="blue")
    world.down("ConfigMap", mapped).holds_data(colour="blue")
    source.delete()
    world.down("ConfigMap", mapped).gone()


def test_a_template_makes_the_names(world: Workspaces) -> None:
    namespace = world.above("shop")
    world.data(namespace)
    sync = world.wsync(namespaces=world.followed(mapping={"template": "of-{{ namespace }}-here"}))
    sync.is_ready()
    assert world.namespaces_at() == [f"of-{namespace}-here"]


def test_an_unknown_word_in_a_template_is_named(world: Workspaces) -> None:
    world.data(world.above("shop"))
    sync = world.wsync(namespaces=world.followed(mapping={"template": "{{ nowhere }}-{{ namespace }}"}))
    sync.fails("nowhere")
    assert world.namespaces_at() == []


def test_of_two_namespaces_with_one_name_below_the_first_stays_and_the_second_is_refused(world: Workspaces) -> None:
    first = world.above("a")
    world.data(first, colour="red")
    sync = world.wsync(namespaces=world.followed(mapping={"template": f"{world.name}-one{{{{ workspace.name }}}}"}))
    sync.is_ready()
    copy = world.down("ConfigMap", f"{world.name}-one")
    uid = copy.uid
    second = world.above("0")
    world.data(second, colour="blue")
    sync.fails(second)
    assert copy.at("data") == {"colour": "red"}
    assert copy.uid == uid
    world.up("Namespace", "", first).delete()
    copy.holds_data(colour="blue")
    sync.is_ready()


def test_in_a_fixed_namespace_a_second_object_of_one_kind_and_name_is_refused(world: Workspaces) -> None:
    first = world.above("a")
    world.data(first, colour="red")
    place = f"{world.name}-one"
    sync = world.wsync(namespaces=world.followed(mapping={"fixed": place}))
    sync.is_ready()
    second = world.above("0")
    world.data(second, colour="blue")
    world.data(second, "other", size="1")
    world.down("ConfigMap", place, "other").holds_data(size="1")
    sync.fails(second)
    assert world.down("ConfigMap", place).at("data") == {"colour": "red"}
    world.up("ConfigMap", first).delete()
    world.down("ConfigMap", place).holds_data(colour="blue")
    sync.is_ready()


def test_names_with_more_than_63_characters_are_cut_and_stay_different(world: Workspaces) -> None:
    prefix = f"{world.name}-{'x' * 45}-"
    first, second = world.above("a"), world.above("b")
    for namespace in (first, second):
        world.data(namespace, of=namespace)
    sync = world.wsync(namespaces=world.followed(mapping={"prefix": prefix}))
    sync.is_ready()
    made = world.namespaces_at()
    assert len(made) == 2
    assert all(len(name) <= 63 and name.startswith(prefix[:40]) for name in made)
    assert {world.down("ConfigMap", name).at("data", "of") for name in made} == {first, second}
    world.up("ConfigMap", first).delete()
    until(world.copies_at, lambda seen: len(seen) == 1)


def test_copies_move_when_the_names_change(world: Workspaces) -> None:
    namespace = world.above("shop")
    world.data(namespace)
    sync = world.wsync(namespaces=world.followed(mapping={"prefix": f"{world.name}-old-"}))
    sync.is_ready()
    sync.change(namespaces=world.followed(mapping={"prefix": f"{world.name}-new-"}))
    world.down("ConfigMap", f"{world.name}-new-{namespace}").appears()
    world.down("ConfigMap", f"{world.name}-old-{namespace}").gone()
    sync.is_ready()
