"""Scope edits: which unwanted objects an edit of the spec has removed, and which others."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.controllers.parts import OWNER, MadeUpCluster, lowered, namespace, place

from syncline.api.common import LabelSelector
from syncline.api.manifestsync import ManifestSyncStatus
from syncline.controllers.lowered import LoweredSpec, SourceQuery, objects_scope
from syncline.controllers.scope_edits import ScopeEdit, ScopeEditJudge
from syncline.controllers.sources.desired import DesiredSet
from syncline.controllers.targets.clusters import ConnectedClusters, TargetCluster
from syncline.controllers.targets.managed_objects import managed_id, managed_objects, object_key
from syncline.controllers.targets.prune import KeepSet
from syncline.core.objects import Marker, Observed, Target
from syncline.core.ownership import object_id_of
from syncline.core.scope import Namespace, Scope
from syncline.core.spec_scope import SourceScope

SETTINGS = SourceQuery(namespace="team", name="settings")


class Reading:
    """A source with nothing but named objects."""

    def __init__(self, spec: LoweredSpec) -> None:
        self.lowered = spec
        self.asked: list[SourceScope] = []

    async def desired(self, unit: str, clusters: ConnectedClusters) -> DesiredSet:
        raise AssertionError((unit, clusters))

    def watches(self, clusters: ConnectedClusters) -> None:
        raise AssertionError(clusters)

    async def selected(self, scopes: Sequence[SourceScope]) -> Mapping[str, frozenset[str]]:
        self.asked += scopes
        return {scope.key: frozenset() for scope in scopes}


def copy_at(where: str) -> Observed:
    target = Target(where, "settings")
    marker = Marker(
        sync=OWNER.ref,
        object_id=object_id_of("here", target),
        source="ConfigMap/team/settings",
        owner=OWNER.label,
        proof=OWNER.keys.current,
    )
    return Observed(target=target, uid=f"uid-{where}", version="1", digest="", owner=OWNER.label, marker=marker)


def spec_of(at: TargetCluster, recorded: str | None = None, **fields: Any) -> LoweredSpec:
    destinations = (at.destination,)
    return lowered(
        *destinations,
        reads=(SETTINGS,),
        scope=objects_scope(destinations, (SETTINGS,), ""),
        status=ManifestSyncStatus(scope=recorded),
        **fields,
    )


async def judged(at: TargetCluster, wanted: set[str], recorded: str | None = None, **keep: Any) -> ScopeEdit:
    edit, _ = await judged_by(at, wanted, recorded, **keep)
    return edit


async def judged_by(
    at: TargetCluster, wanted: set[str], recorded: str | None = None, **keep: Any
) -> tuple[ScopeEdit, Sequence[SourceScope]]:
    """Judge, and tell for which scopes the sources were read."""
    spec = spec_of(at, recorded)
    targets = frozenset(object_key(at, Target(one, "settings")) for one in wanted)
    desired = DesiredSet(clusters=ConnectedClusters(sites=(at,)), keep=KeepSet(targets, **keep))
    judge, reading = ScopeEditJudge(lambda *_: frozenset()), Reading(spec)
    return await judge.judge(reading, spec, desired.clusters, [desired]), reading.asked


def removed(at: TargetCluster, edit: ScopeEdit) -> set[str]:
    names = {
        managed_id(site, one): one.target.namespace for site, one in managed_objects(ConnectedClusters(sites=(at,)))
    }
    return {names[one] for one in edit.requested}


@pytest.fixture
def cluster() -> MadeUpCluster:
    return MadeUpCluster(namespace("a"), namespace("b"), managed=[copy_at("a"), copy_at("b")])


async def test_a_namespace_that_an_edit_takes_out_of_the_spec_is_a_requested_removal(cluster: MadeUpCluster) -> None:
    before = await judged(place(cluster, "a", "b"), {"a", "b"})
    assert before.requested == frozenset()
    after = place(cluster, "a")
    edit = await judged(after, {"a"}, before.text)
    assert removed(after, edit) == {"b"}


async def test_a_namespace_that_leaves_a_selector_by_its_labels_is_not_requested() -> None:
    def at(second: Namespace) -> TargetCluster:
        cluster = MadeUpCluster(namespace("a", tier="web"), second, managed=[copy_at("a"), copy_at("b")])
        return place(cluster, scope=Scope(selector=LabelSelector(match_labels={"tier": "web"})))

    before = await judged(at(namespace("b", tier="web")), {"a", "b"})
    edit = await judged(at(namespace("b")), {"a"}, before.text)
    assert edit.requested == frozenset()


async def test_without_a_record_of_an_earlier_scope_nothing_is_requested(cluster: MadeUpCluster) -> None:
    edit = await judged(place(cluster, "a"), {"a"})
    assert (edit.requested, edit.text is not None) == (frozenset(), True)


async def test_nothing_is_judged_while_names_are_unknown(cluster: MadeUpCluster) -> None:
    before = await judged(place(cluster, "a", "b"), {"a", "b"})
    edit = await judged(place(cluster, "a"), {"a"}, before.text, certain=False)
    assert edit == ScopeEdit()


async def test_a_removal_that_is_done_is_forgotten_and_one_that_is_left_is_remembered(cluster: MadeUpCluster) -> None:
    before = await judged(place(cluster, "a", "b"), {"a", "b"})
    after = place(cluster, "a")
    edit = await judged(after, {"a"}, before.text)
    left = list(managed_objects(ConnectedClusters(sites=(after,))))
    again = await judged(after, {"a"}, edit.after(left))
    assert removed(after, again) == {"b"}
    done = edit.after(one for one in left if one[1].target.namespace == "a")
    assert (await judged(after, {"a"}, done)).requested == frozenset()


async def test_sources_are_read_only_where_an_object_is_judged_by_them(cluster: MadeUpCluster) -> None:
    before, asked = await judged_by(place(cluster, "a", "b"), {"a"})
    assert not asked  # there is no earlier scope
    _, asked = await judged_by(place(cluster, "b"), {"a", "b"}, before.text)
    assert not asked  # nothing is unwanted
    _, asked = await judged_by(place(cluster, "a"), {"a"}, before.text)
    assert asked
