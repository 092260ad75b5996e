"""Where copies go: names, globs, labels of namespaces, and another name."""

import pytest
from tests.configmapsync.world import World, until

from syncline.sandbox import RequestError


def test_a_config_map_is_copied_into_the_named_namespace_and_follows_its_source(world: World) -> None:
    source = world.source(colour="red", size="big")
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target)
    world.config_map(target).becomes(colour="red", size="big")
    ready = sync.becomes("Synced")
    assert (ready["status"], ready["message"]) == ("True", "1 target agrees with the source")
    source.set(colour="blue", size=None, taste="sweet")
    world.config_map(target).becomes(colour="blue", taste="sweet")


def test_the_destinations_are_the_union_of_names_globs_and_labels(world: World) -> None:
    world.source()
    by_field, by_name, by_glob, by_other_glob = world.namespaces("field", "name", "glob-1", "team-x")
    by_label = world.namespace("label", team=world.name)
    by_all = world.namespace("glob-2", team=world.name)
    outside = world.namespace("outside", team="other")
    sync = world.sync(
        destinationNamespace=by_field,
        destinationNamespaces=[by_name, f"{world.name}-glob-*", f"{world.name}-team-?"],
        destinationNamespaceSelector={"matchLabels": {"team": world.name}},
    )
    sync.becomes("Synced", desired=6, synced=6)
    for namespace in (by_field, by_name, by_glob, by_other_glob, by_label, by_all):
        assert world.config_map(namespace).data == {"colour": "red"}
    assert world.config_map(outside).look() is None


@pytest.mark.own_rights  # an account is told less
def test_globs_and_labels_that_match_nothing_are_named_and_what_comes_later_is_served(world: World) -> None:
    world.source()
    glob, other = f"{world.name}-late-*", f"{world.name}-other-*"
    sync = world.sync(
        destinationNamespaces=[glob, other],
        destinationNamespaceSelector={"matchLabels": {"team": world.name}},
    )
    ready = sync.becomes("Synced")
    labels = f"no namespace to write to has the labels team={world.name}"
    assert ready["status"] == "True"
    assert ready["message"] == (
        f"there is nothing to write yet: no namespace to write to matches {glob}; "
        f"no namespace to write to matches {other}; {labels}"
    )
    late = world.namespace("late-1", team=world.name)
    world.config_map(late).appears()
    said = f"1 target agrees with the source; no namespace to write to matches {other}"
    until(lambda: sync.conditions["Ready"]["message"], lambda message: message == said)
    world.namespace("other-1")
    until(lambda: sync.conditions["Ready"]["message"], lambda message: message == "2 targets agree with the source")


@pytest.mark.parametrize(
    ("expression", "reached"),
    [
        ({"operator": "In", "values": ["a", "b"]}, {"a", "b"}),
        ({"operator": "NotIn", "values": ["a", "b"]}, {"c"}),
        ({"operator": "Exists"}, {"a", "b", "c"}),
    ],
    ids=["In", "NotIn", "Exists"],
)
def test_a_selector_may_use_expressions(world: World, expression: dict[str, object], reached: set[str]) -> None:
    world.source()
    for tier in ("a", "b", "c"):
        world.namespace(tier, tier=tier, world=world.name)
    sync = world.sync(
        destinationNamespaceSelector={
            "matchLabels": {"world": world.name},
            "matchExpressions": [{"key": "tier", **expression}],
        }
    )
    sync.becomes("Synced", desired=len(reached))
    assert {entry["namespace"] for entry in sync.status["targetStatuses"]} == {f"{world.name}-{one}" for one in reached}


def test_a_pattern_reaches_neither_kube_nor_the_operators_namespace_nor_the_source(world: World) -> None:
    source = world.source(world.name)
    target = world.namespace("a")
    before = source.read()
    patterns = [f"{world.name}*", "defau*", "kube-*", "syncline-*"]
    sync = world.sync(configMapName=world.name, destinationNamespaces=patterns)
    sync.becomes("Synced", desired=2)
    for wanted in (target, "default"):
        world.config_map(wanted, world.name).becomes(colour="red")
    assert {entry["namespace"] for entry in sync.status["targetStatuses"]} == {target, "default"}
    for guarded in ("kube-system", "kube-public", "syncline-system"):
        assert world.config_map(guarded, world.name).look() is None
    assert source.read() == before
    sync.delete()
    world.config_map("default", world.name).gone()


def test_a_selector_does_not_reach_kube_namespaces_but_their_names_do(world: World) -> None:
    world.source(world.name)
    target = world.namespace("a", everywhere=world.name)
    guarded = [world.namespace_object(name) for name in ("kube-public", "syncline-system")]
    for namespace in guarded:
        namespace.label(everywhere=world.name)
    sync = world.sync(
        configMapName=world.name, destinationNamespaceSelector={"matchLabels": {"everywhere": world.name}}
    )
    sync.becomes("Synced", desired=1)
    assert world.config_map(target, world.name).data
    sync.change(destinationNamespaces=["kube-public", "syncline-system"])
    sync.becomes("Synced", desired=3, synced=3)
    for namespace in guarded:
        assert world.config_map(namespace.name, world.name).data == {"colour": "red"}
        namespace.label(everywhere=None)
    sync.delete()
    for namespace in guarded:
        world.config_map(namespace.name, world.name).gone()


def test_copies_may_have_another_name_also_beside_the_source(world: World) -> None:
    world.source()
    target = world.namespace("a")
    world.sync(destinationNamespaces=[target, world.home], destinationName="settings").becomes("Synced", synced=2)
    assert world.config_map(target, "settings").data == {"colour": "red"}
    assert world.config_map(world.home, "settings").data == {"colour": "red"}
    assert world.config_map(target).look() is None


def test_a_new_name_moves_the_copies(world: World) -> None:
    world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target)
    world.config_map(target).becomes(colour="red")
    sync.change(destinationName="settings")
    world.config_map(target, "settings").becomes(colour="red")
    world.config_map(target).gone()


def test_a_sync_that_names_only_its_source_is_refused(world: World) -> None:
    world.source()
    with pytest.raises(RequestError, match="the only destination is the source itself: name another namespace"):
        world.sync(destinationNamespace=world.home)
