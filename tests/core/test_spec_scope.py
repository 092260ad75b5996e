"""Which unwanted objects an edit of the spec has removed, and which ones the cluster or the source."""

import pytest

from syncline.api.common import LabelSelector
from syncline.core.scope import Namespace, scope_of
from syncline.core.spec_scope import (
    ClusterScope,
    ClusterSelector,
    EnvironmentScope,
    ListedTarget,
    ManagedObject,
    NamespaceScope,
    SourceScope,
    SpecScope,
    Today,
    is_removed_by_edit,
)

BLUE = LabelSelector(match_labels={"team": "blue"})
RED = LabelSelector(match_labels={"team": "red"})
APP = SourceScope(kind="ConfigMap", namespace="home", name="app")
WEB = SourceScope(kind="ConfigMap", namespace="home", name="web")


def namespaces(*patterns: str, selector: LabelSelector | None = None) -> NamespaceScope:
    return NamespaceScope.of(scope_of((), patterns, selector, frozenset()))


def here(*patterns: str, selector: LabelSelector | None = None) -> tuple[ClusterScope, ...]:
    return (ClusterScope(namespaces=namespaces(*patterns, selector=selector)),)


def copies(clusters: tuple[ClusterScope, ...], *sources: SourceScope, name: str = "") -> SpecScope:
    return SpecScope(clusters=clusters, sources=sources or (APP,), name=name, template="{{" in name)


def copy(
    namespace: str = "a", name: str = "app", *, source: str = "ConfigMap/home/app", via: str = "", **labels: str
) -> ManagedObject:
    return ManagedObject(
        id=b"copy",
        connections=frozenset({via}),
        kind="ConfigMap",
        namespace=Namespace(namespace, f"uid-of-{namespace}", labels),
        name=name,
        source=source,
    )


NAMESPACES = [
    pytest.param(here("a", "b"), here("b"), copy("a"), True, id="a name is taken out"),
    pytest.param(here("a", "b"), here("b"), copy("b"), False, id="a name that stays"),
    pytest.param(here("*"), here("b"), copy("a"), True, id="a glob is narrowed"),
    pytest.param(here("a-*"), here("b-*"), copy("c-1"), False, id="a name that neither has"),
    pytest.param(here(selector=BLUE), here(selector=RED), copy("a", team="blue"), True, id="a selector is changed"),
    pytest.param(here(selector=BLUE), here(selector=RED), copy("a"), False, id="a label is gone, a selector changed"),
    pytest.param(here("x", selector=BLUE), here(selector=BLUE), copy("a"), False, id="a label is gone, a name taken"),
    pytest.param(here("*"), here(selector=BLUE), copy("a"), True, id="all become those with a label"),
    pytest.param(here("*"), here(selector=BLUE), copy("a", team="blue"), False, id="the label is there"),
    pytest.param(here("*"), here("b"), copy("kube-system"), False, id="what a glob never reaches"),
    pytest.param(here("kube-system"), here("b"), copy("kube-system"), True, id="what an exact name reaches"),
    pytest.param(here("a"), (), copy("a"), True, id="no cluster is left"),
]


@pytest.mark.parametrize(("old", "new", "found", "edited"), NAMESPACES)
def test_a_copy_is_removed_by_an_edit_if_the_former_namespaces_still_match(
    old: tuple[ClusterScope, ...], new: tuple[ClusterScope, ...], found: ManagedObject, edited: bool
) -> None:
    assert is_removed_by_edit(copies(old), copies(new), found, Today()) is edited


def test_what_the_operator_protects_today_is_not_removed_by_an_edit() -> None:
    today = Today(guarded=frozenset({"a"}))
    assert not is_removed_by_edit(copies(here("*")), copies(here("b")), copy("a"), today)


PROD, TEST = "prod-connection", "test-connection"
EVERY_BLUE = ClusterSelector(labels=BLUE)


def remote(connection: str, *patterns: str, name: str = "east") -> ClusterScope:
    return ClusterScope(name=name, connection=connection, namespaces=namespaces(*patterns))


CLUSTERS = [
    pytest.param((remote(PROD, "a"), *here("a")), here("a"), copy(via=PROD), True, id="a cluster is taken out"),
    pytest.param((remote(PROD, "a"), *here("a")), here("a"), copy(), False, id="the own cluster stays"),
    pytest.param(here("a"), (remote(PROD, "a"),), copy(), True, id="the own cluster is taken out"),
    pytest.param((remote(PROD, "a"),), (remote(TEST, "a"),), copy(via=PROD), True, id="another connection"),
    pytest.param((remote(PROD, "a"),), (remote(PROD, "b"),), copy(via=PROD), True, id="other namespaces there"),
    pytest.param((remote(PROD, "b"),), (remote(PROD, "c"),), copy(via=PROD), False, id="not in either"),
    pytest.param((remote(PROD, "a"),), (remote(PROD, "a", name="west"),), copy(via=PROD), False, id="another name"),
    pytest.param(
        (ClusterScope(selector=EVERY_BLUE, namespaces=namespaces("a")),),
        (remote(TEST, "a"),),
        copy(via=PROD),
        True,
        id="clusters are no longer selected",
    ),
    pytest.param(
        (ClusterScope(selector=EVERY_BLUE, namespaces=namespaces("a", "b")),),
        (ClusterScope(selector=EVERY_BLUE, namespaces=namespaces("b")),),
        copy(via="red-connection"),
        False,
        id="a SyncTarget has lost its label",
    ),
]


@pytest.mark.parametrize(("old", "new", "found", "edited"), CLUSTERS)
def test_a_copy_is_removed_by_an_edit_if_the_former_clusters_still_mean_its_own(
    old: tuple[ClusterScope, ...], new: tuple[ClusterScope, ...], found: ManagedObject, edited: bool
) -> None:
    today = Today(clusters={EVERY_BLUE.key: frozenset({PROD})})
    assert is_removed_by_edit(copies(old), copies(new), found, today) is edited


def test_a_cluster_that_is_reached_in_a_new_way_is_the_same_cluster() -> None:
    found = copy(via=PROD)
    both = ManagedObject(
        id=found.id,
        connections=frozenset({PROD, TEST}),
        kind=found.kind,
        namespace=found.namespace,
        name=found.name,
        source=found.source,
    )
    old, new = copies((remote(PROD, "a", "b"),)), copies((remote(TEST, "b"),))
    assert is_removed_by_edit(old, new, both, Today())
    assert not is_removed_by_edit(old, copies((remote(TEST, "a"),)), both, Today())


ALL_BLUE = SourceScope(kind="ConfigMap", namespace="home", selector=BLUE)
ALL_RED = SourceScope(kind="ConfigMap", namespace="home", selector=RED)
SELECTED = Today(sources={ALL_BLUE.key: frozenset({"ConfigMap/home/app"}), ALL_RED.key: frozenset()})
A = here("a")

SOURCES = [
    pytest.param(copies(A, APP, WEB), copies(A, WEB), copy(), True, id="a source is taken out"),
    pytest.param(copies(A, APP, WEB), copies(A, WEB), copy(source="ConfigMap/home/old"), False, id="no source of ours"),
    pytest.param(copies(A, ALL_BLUE), copies(A, ALL_RED), copy(), True, id="other sources are selected"),
    pytest.param(copies(A, ALL_RED), copies(A, WEB), copy(), False, id="a source has lost its label"),
    pytest.param(copies(A, ALL_BLUE), copies(here("b"), ALL_BLUE), copy(), True, id="a selected source, and an edit"),
    pytest.param(copies(A), copies(A, name="other"), copy(), True, id="another name"),
    pytest.param(copies(A, name="old"), copies(A, name="new"), copy(), False, id="a name that neither gives"),
    pytest.param(copies(A, name="x-{{ t }}"), copies(A, name="y-{{ t }}"), copy(), True, id="another template"),
    pytest.param(
        copies(A, name="x-{{ t }}"), copies(A, WEB, name="x-{{ t }}"), copy(), True, id="a template that stays"
    ),
    pytest.param(copies(A, name="x-{{ t }}"), copies(A, name="x-{{ t }}"), copy(), False, id="nothing is edited"),
    pytest.param(
        copies((remote(PROD, "a"),), name="x-{{ t }}"),
        copies((remote(PROD, "a", name="west"),), name="x-{{ t }}"),
        copy(via=PROD),
        True,
        id="another name of the cluster, which a template may use",
    ),
]


@pytest.mark.parametrize(("old", "new", "found", "edited"), SOURCES)
def test_a_copy_is_removed_by_an_edit_if_the_former_sources_and_names_still_make_it(
    old: SpecScope, new: SpecScope, found: ManagedObject, edited: bool
) -> None:
    assert is_removed_by_edit(old, new, found, SELECTED) is edited


def test_a_copy_next_to_its_source_follows_the_source() -> None:
    beside = (ClusterScope(connection=PROD),)
    found = copy("home", via=PROD)
    assert is_removed_by_edit(copies(beside), copies(beside, WEB), found, Today())
    assert not is_removed_by_edit(copies(beside), copies(beside, WEB), copy("elsewhere", via=PROD), Today())


def built(*environments: EnvironmentScope, targets: tuple[ListedTarget, ...] = ()) -> SpecScope:
    return SpecScope(clusters=(ClusterScope(),), environments=environments, targets=targets)


def from_git(name: str = "app", *, environment: str = "", namespace: str = "a") -> ManagedObject:
    where = Namespace(namespace, "uid") if namespace else None
    return ManagedObject(id=b"git", environment=environment, kind="Deployment.apps", namespace=where, name=name)


def environment(name: str = "", path: str = "apps", namespace: str = "") -> EnvironmentScope:
    return EnvironmentScope(name=name, origin=path, namespace=namespace)


DEV, LIVE = environment("dev"), environment("live")
LISTED = ListedTarget(kind="deployment", name="app")

BUILT = [
    pytest.param(built(environment()), built(environment()), from_git(), False, id="a commit without it"),
    pytest.param(built(environment()), built(environment(path="other")), from_git(), True, id="another path"),
    pytest.param(built(DEV, LIVE), built(DEV), from_git(environment="live"), True, id="an environment is taken out"),
    pytest.param(built(DEV, LIVE), built(DEV), from_git(environment="dev"), False, id="an environment that stays"),
    pytest.param(
        built(DEV, LIVE),
        built(environment("dev", "new"), LIVE),
        from_git(environment="live"),
        False,
        id="another path of another environment",
    ),
    pytest.param(
        built(environment(namespace="a")), built(environment(namespace="b")), from_git(), True, id="another namespace"
    ),
    pytest.param(
        built(environment(namespace="x")), built(environment(namespace="b")), from_git(), False, id="neither namespace"
    ),
    pytest.param(
        built(environment(namespace="a")),
        built(environment(namespace="b")),
        from_git(namespace=""),
        False,
        id="a kind without namespaces, though the namespace was edited",
    ),
    pytest.param(
        built(environment(), targets=(LISTED,)), built(environment()), from_git(), False, id="no list any more"
    ),
    pytest.param(
        built(environment()),
        built(environment(), targets=(ListedTarget(kind="Deployment", name="web"),)),
        from_git(),
        True,
        id="a list that has it not",
    ),
    pytest.param(
        built(environment(), targets=(LISTED, ListedTarget(kind="Deployment.apps", name="web"))),
        built(environment(), targets=(ListedTarget(kind="Deployment.apps", name="web"),)),
        from_git("web"),
        False,
        id="an entry that stays",
    ),
    pytest.param(
        built(environment(), targets=(ListedTarget(kind="Deployment", name="app", namespace="a"),)),
        built(environment(), targets=(ListedTarget(kind="Deployment", name="app", namespace="b"),)),
        from_git(),
        True,
        id="an entry for another namespace",
    ),
]


@pytest.mark.parametrize(("old", "new", "found", "edited"), BUILT)
def test_an_object_from_git_is_removed_by_an_edit_if_only_the_former_spec_lets_it_be(
    old: SpecScope, new: SpecScope, found: ManagedObject, edited: bool
) -> None:
    assert is_removed_by_edit(old, new, found, Today()) is edited
