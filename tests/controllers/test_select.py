"""Target selection: which namespaces get a copy, under which name, and why others do not."""

import pytest
from tests.controllers.parts import MadeUpCluster, lowered, namespace, place, renderer, source

from syncline.api.common import LabelSelector
from syncline.controllers.errors import SyncError
from syncline.controllers.targets.select import MAX_NAME, TargetSelection, select_targets
from syncline.core.scope import IGNORE_LABEL, Namespace, Scope
from syncline.render.errors import TransformError


def places(selection: TargetSelection) -> list[str]:
    return [f"{copy.target.namespace}/{copy.target.name}" for copy in selection.copies]


def missed(selection: TargetSelection) -> dict[str, tuple[str, str]]:
    return {one.target.namespace: (one.state, one.reason) for one in selection.skipped}


async def test_named_namespaces_get_a_copy_under_the_name_of_the_source() -> None:
    here = place(MadeUpCluster(namespace("a"), namespace("b"), namespace("c")), "a", "b")
    assert places(await select_targets(lowered(), [here], [source()], renderer())) == ["a/settings", "b/settings"]


async def test_a_selector_selects_by_labels_and_a_glob_by_names() -> None:
    scope = Scope(globs=("team-*",), selector=LabelSelector(match_labels={"tier": "web"}))
    cluster = MadeUpCluster(namespace("team-a"), namespace("shop", tier="web"), namespace("other", tier="db"))
    found = await select_targets(lowered(), [place(cluster, scope=scope)], [source()], renderer())
    assert places(found) == ["team-a/settings", "shop/settings"]


async def test_the_source_itself_is_no_target() -> None:
    here = place(MadeUpCluster(namespace("team"), namespace("a")), "team", "a")
    assert places(await select_targets(lowered(), [here], [source()], renderer())) == ["a/settings"]


async def test_the_namespace_of_the_source_gets_a_copy_under_another_name() -> None:
    here = place(MadeUpCluster(namespace("team")), "team")
    found = await select_targets(lowered(target_name="copy"), [here], [source()], renderer())
    assert places(found) == ["team/copy"]


async def test_the_same_place_in_another_cluster_is_a_target() -> None:
    there = place(MadeUpCluster(namespace("team"), uid="there"), "team", called="edge")
    found = await select_targets(lowered(), [there], [source()], renderer())
    assert [str(copy.target) for copy in found.copies] == ["edge: team/settings"]


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (namespace("a", **{IGNORE_LABEL: "true"}), ("Skipped", "NamespaceIgnored")),
        (Namespace("a", "uid", {}, terminating=True), ("Skipped", "NamespaceTerminating")),
        (namespace("other"), ("Pending", "NamespaceNotFound")),
    ],
)
async def test_a_namespace_that_takes_no_copy_is_told(one: Namespace, expected: tuple[str, str]) -> None:
    found = await select_targets(lowered(), [place(MadeUpCluster(one), "a")], [source()], renderer())
    assert places(found) == []
    assert missed(found) == {"a": expected}


async def test_names_are_rendered_for_each_target() -> None:
    here = place(MadeUpCluster(namespace("a"), namespace("b")), "a", "b")
    by_place = renderer(lambda target: f"of-{target.namespace}")
    found = await select_targets(lowered(target_name="of-{{ target.namespace }}"), [here], [source()], by_place)
    assert places(found) == ["a/of-a", "b/of-b"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no spaces", "letters, digits"),
        ("x" * (MAX_NAME + 1), "a shorter targetName"),
        (TransformError(None, "", "it has no value"), "it has no value"),
    ],
)
async def test_a_name_that_cannot_be_is_told_and_makes_nothing_unwanted(name: str | TransformError, words: str) -> None:
    here = place(MadeUpCluster(namespace("a")), "a")
    found = await select_targets(lowered(target_name="{{ x }}"), [here], [source()], renderer(lambda _: name))
    assert places(found) == []
    (told,) = found.unresolved_names
    assert (told.state, told.reason) == ("Failed", "InvalidName")
    assert words in told.message


async def test_two_sources_cannot_become_one_object() -> None:
    here = place(MadeUpCluster(namespace("a")), "a")
    with pytest.raises(SyncError, match="give them names of their own") as refused:
        await select_targets(lowered(target_name="one"), [here], [source("first"), source("second")], renderer())
    assert (refused.value.reason, refused.value.stalled) == ("SameTarget", True)


async def test_one_cluster_under_two_names_is_refused() -> None:
    cluster = MadeUpCluster(namespace("a"), uid="there")
    twice = [place(cluster, "a", called="first"), place(cluster, "a", called="second")]
    with pytest.raises(SyncError, match="clusters first and second are one cluster"):
        await select_targets(lowered(), twice, [source()], renderer())


async def test_claims_name_each_object_once() -> None:
    here = place(MadeUpCluster(namespace("a"), namespace("b")), "a", "b")
    found = await select_targets(lowered(), [here], [source()], renderer())
    assert [claimed.name for claimed in found.wants()] == [("", "ConfigMap", "settings")]
