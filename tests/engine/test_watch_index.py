import pytest

from syncline.api.common import LabelSelector
from syncline.core.objects import Target
from syncline.core.scope import Namespace, Scope
from syncline.engine.watch_filter import LabelQuery
from syncline.engine.watch_index import UpstreamWatch, WatchIndex, WatchSet
from syncline.kube.cache import Key

SYNC = Key("home", "sync")
TEAM = Namespace("team-a", "uid-1", {"team": "a"})


def interests(**scope: object) -> WatchIndex:
    known = WatchIndex()
    known.put(SYNC, interest("source", "copy", Scope(**scope)))  # type: ignore[arg-type]
    return known


def interest(source: str, name: str, scope: Scope) -> WatchSet:
    return WatchSet(
        objects=frozenset({Target("home", source)}), names=frozenset({("", "ConfigMap", name)}), scopes=(("", scope),)
    )


def test_a_namespace_that_comes_wakes_who_spells_it_out_or_matches_it() -> None:
    assert [*interests(names=frozenset({"team-a"})).of_namespace("", None, TEAM)] == [SYNC]
    assert [*interests(globs=("team-*",)).of_namespace("", None, TEAM)] == [SYNC]
    assert [*interests(selector=LabelSelector(match_labels={"team": "a"})).of_namespace("", None, TEAM)] == [SYNC]
    assert [*interests(names=frozenset({"team-b"}), globs=("x*",)).of_namespace("", None, TEAM)] == []


def test_a_sync_is_woken_once_however_often_its_scope_names_a_namespace() -> None:
    assert [*interests(names=frozenset({"team-a"}), globs=("team-*",)).of_namespace("", None, TEAM)] == [SYNC]


def test_a_change_that_is_no_concern_of_the_scope_wakes_nobody() -> None:
    relabelled = Namespace("team-a", "uid-1", {"team": "a", "other": "label"})
    assert [*interests(names=frozenset({"team-a"})).of_namespace("", TEAM, relabelled)] == []
    recreated = Namespace("team-a", "uid-2", {"team": "a"})
    assert [*interests(names=frozenset({"team-a"})).of_namespace("", TEAM, recreated)] == [SYNC]


def test_an_interest_that_is_dropped_or_replaced_is_found_no_more() -> None:
    known = interests(names=frozenset({"team-a"}), globs=("team-*",))
    known.put(SYNC, interest("other", "other", Scope(names=frozenset({"team-b"}))))
    former = (known.of_object(Target("home", "source")), known.of_name(("", "ConfigMap", "copy")))
    assert [*known.of_namespace("", None, TEAM), *former[0], *former[1]] == []
    assert [*known.of_object(Target("home", "other")), *known.of_name(("", "ConfigMap", "other"))] == [SYNC, SYNC]
    known.drop(SYNC)
    assert [*known.of_object(Target("home", "other")), *known.of_name(("", "ConfigMap", "other"))] == []
    assert known.get(SYNC) is None


def test_a_namespace_of_another_cluster_wakes_nobody_here() -> None:
    assert [*interests(globs=("*",)).of_namespace("elsewhere", None, TEAM)] == []


QUERY = LabelQuery("home", LabelSelector(match_labels={"a": "b"}))


@pytest.mark.parametrize(
    ("watches", "cluster", "kind", "expected"),
    [
        (WatchSet(objects=frozenset({Target("home", "app", "Secret")})), "", "Secret", True),
        (WatchSet(objects=frozenset({Target("home", "app", "Secret")})), "far", "Secret", False),
        (WatchSet(queries=(("Secret", QUERY),)), "", "Secret", True),
        (WatchSet(names=frozenset({("far", "Secret", "app")})), "far", "Secret", True),
        (WatchSet(names=frozenset({("far", "Secret", "app")})), "", "Secret", False),
        (WatchSet(names=frozenset({("", "Secret", "app")})), "", "ConfigMap", False),
        (WatchSet(scopes=(("far", Scope(names=frozenset({"a"}))),)), "far", "Namespace", True),
        (WatchSet(scopes=(("far", Scope(names=frozenset({"a"}))),)), "", "Namespace", False),
        (
            WatchSet(upstream=(UpstreamWatch(cluster="up", kind="Secret", query=QUERY, namespaces=Scope()),)),
            "up",
            "Secret",
            True,
        ),
    ],
)
def test_a_sync_watches_a_kind_where_it_has_objects_of_it(
    watches: WatchSet, cluster: str, kind: str, expected: bool
) -> None:
    assert watches.has_kind(cluster, kind) is expected
