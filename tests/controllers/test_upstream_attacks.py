"""What a tenant, the owner of an upstream, or somebody with rights in one namespace below would try, and bad luck."""

import asyncio
import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from msgspec import structs

from syncline.api.common import LabelSelector, ObjectMeta
from syncline.api.workspacesync import WorkspaceDownstream, WorkspaceResource, WorkspaceSyncSpec
from syncline.controllers.lowered import Destination, SourceObject, SourceQuery
from syncline.controllers.sources.copies import CopyMaker, CopyRules, ReplicaShare, copy_rules
from syncline.controllers.sources.edited_copies import EditedCopies
from syncline.controllers.sources.held_budget import HeldBudget
from syncline.controllers.sources.held_objects import HeldObjects
from syncline.controllers.sources.object_reader import SourceCluster
from syncline.controllers.sources.upstream_evidence import Evidence
from syncline.controllers.sources.upstream_history import UpstreamHistory
from syncline.controllers.sources.upstream_identity import UpstreamIdentity
from syncline.controllers.sources.upstream_reader import UpstreamReader, UpstreamResource, _take, _TooMuch, _WatchedKind
from syncline.controllers.state import InSyncObject, UnitState
from syncline.controllers.targets.clusters import TargetCluster
from syncline.controllers.targets.layout import Layout, NamespacePlace
from syncline.controllers.targets.prune import RemovalRequest
from syncline.controllers.targets.stages import DesiredAt
from syncline.controllers.targets.upward_deletion import deleted_copies
from syncline.core.digest import DigestKey
from syncline.core.marks import MarkKeys
from syncline.core.namespace_mapping import Workspace
from syncline.core.objects import Marker, Observed, Target
from syncline.core.outcome import UNPROVEN, Outcome
from syncline.core.ownership import Owner
from syncline.core.scope import Namespace, Scope
from syncline.engine.fanout import FanOut
from syncline.engine.markkeys import MarkRing
from syncline.kube.cache import Key
from syncline.kube.cache_budget import held_size
from syncline.kube.errors import NotFound
from syncline.kube.resources import CONFIGMAPS, Resource

KEYS = MarkKeys([b"k" * 32])
KEY = DigestKey(b"a key of digests")
OWNER = Owner("WorkspaceSync", "fleet", "team", "uid-of-the-sync", keys=KEYS)
WIDGETS = Resource("example.com", "v1", "widgets", "Widget")
WIDGET = "Widget.example.com"


class FakeClient:
    """Answers from a map of objects, and remembers what was written."""

    def __init__(self, objects: Mapping[tuple[str, str, str], dict[str, Any]]) -> None:
        self.objects = dict(objects)
        self.written: list[Any] = []

    async def get(self, resource: Resource, name: str, namespace: str | None = None, **options: Any) -> Any:
        found = self.objects.get((resource.kind, namespace or "", name))
        if found is None:
            raise NotFound(404, "NotFound", "", verb="get", resource=resource.plural, name=name, about=name)
        return msgspec.convert(found, options["type"]) if "type" in options else found

    async def create(self, resource: Resource, body: Any, namespace: str | None = None, **_: Any) -> Any:
        self.written.append((resource, body, namespace))
        return body


class FakeCluster:
    """A cluster whose watches have told what a test says."""

    def __init__(self, name: str, client: FakeClient, *kinds: tuple[str, Resource]) -> None:
        self.name, self.uid, self.client = name, f"uid-of-{name}", client
        self.kinds = dict(kinds)
        self.namespaces: dict[str, Namespace] = {}
        self.managed: dict[Target, Observed] = {}
        self.restored = False
        """Whether copies are missing, and no watch has told of a deletion."""

    def is_open(self, kind: str) -> bool:
        return kind in self.kinds

    def informer(self, kind: str) -> Any:
        managed = SimpleNamespace(was_deleted=lambda _: not self.restored)
        resource = self.kinds[kind]
        return SimpleNamespace(kind=kind, resource=resource, managed=managed, observe_unmanaged=lambda *_: None)

    def namespace(self, name: str) -> Namespace | None:
        return self.namespaces.get(name)

    def managed_at(self, target: Target) -> Observed | None:
        return self.managed.get(target.local())


def _site(name: str, *kinds: tuple[str, Resource]) -> TargetCluster:
    client = FakeClient({})
    return TargetCluster(
        destination=Destination(cluster=name),
        cluster=cast("Any", FakeCluster(name, client, *kinds)),
        client=cast("Any", client),
        owner=OWNER,
    )


def _copy(kind: str, source: str, mode: str = "Created") -> Observed:
    marker = Marker(sync="WorkspaceSync/fleet/team", object_id="id", source=source, digest="written", mode=mode)
    target = Target("web", "one", kind, "east")
    return Observed(target=target, uid="uid-of-the-copy", version="1", digest="edited", marker=marker)


def _spec(*resources: WorkspaceResource, writer: str | None = None, **more: Any) -> WorkspaceSyncSpec:
    targets = ["east", "west"] if writer else ["east"]
    downstream = WorkspaceDownstream(sync_targets=targets, writer=writer)
    return WorkspaceSyncSpec(downstream=downstream, resources=list(resources), **more)


def _served(spec: WorkspaceResource, resource: Resource) -> UpstreamResource:
    informer = cast("Any", SimpleNamespace(kind=str(resource.group_kind)))
    return UpstreamResource(spec=spec, resource=resource, informer=informer)


def _rules(spec: WorkspaceSyncSpec, *resources: UpstreamResource, client: FakeClient | None = None) -> CopyRules:
    above = client or FakeClient({})
    at = SourceCluster(cast("Any", FakeCluster("upstream", above)), cast("Any", above))
    return copy_rules(spec, Workspace(), at, resources, KEY, reports_status=False)


def _evidence(
    upstream: FakeClient,
    *resources: UpstreamResource,
    layout: Layout | None = None,
    namespaces: Scope | None = None,
    spec: WorkspaceSyncSpec | None = None,
) -> Evidence:
    spec = spec or _spec()
    rules = _rules(spec, *resources, client=upstream)
    nobody = cast("Any", lambda *_: None)
    reader = UpstreamReader(cast("Any", SimpleNamespace(marks=MarkRing(KEYS))), cast("Any", None), frozenset())
    return Evidence(
        reader=reader,
        sync=OWNER.sync,
        at=rules.at,
        identity=UpstreamIdentity(uid="uid-of-upstream"),
        resources=resources,
        spec=spec,
        layout=layout or Layout(),
        namespaces=namespaces or Scope(globs=("*",)),
        edited=EditedCopies(rules=rules, writer=nobody, memory=nobody),
        history=UpstreamHistory(reader=reader, at=rules.at),
    )


async def test_a_kind_that_the_upstream_does_not_serve_is_no_evidence_that_its_objects_are_gone() -> None:
    unserved = UpstreamResource(spec=WorkspaceResource(group="example.com", resource="widgets"), reason="NotServed")
    evidence = _evidence(FakeClient({}), unserved)
    site = _site("east", (WIDGET, WIDGETS), ("ConfigMap", CONFIGMAPS))
    stays = await evidence.confirm(site, RemovalRequest(_copy(WIDGET, f"{WIDGET}/web/one")))
    assert stays is not None
    assert stays.reason == UNPROVEN
    # Of a resource that the spec does not have any more the copies go.
    assert await evidence.confirm(site, RemovalRequest(_copy("ConfigMap", "ConfigMap/web/one"))) is None


@pytest.mark.parametrize(("labels", "stays"), [({"sync": "yes"}, True), ({}, False)])
async def test_a_namespace_of_which_nothing_was_read_is_no_evidence_that_its_objects_belong_nowhere(
    labels: dict[str, str], stays: bool
) -> None:
    upstream = FakeClient(
        {
            ("ConfigMap", "web", "one"): {"metadata": {"name": "one", "namespace": "web"}},
            ("Namespace", "", "web"): {"metadata": {"name": "web", "uid": "u", "labels": labels}},
        }
    )
    resource = _served(WorkspaceResource(resource="configmaps"), CONFIGMAPS)
    chosen = Scope(selector=LabelSelector(match_labels={"sync": "yes"}))
    evidence = _evidence(upstream, resource, namespaces=chosen)
    found = await evidence.confirm(
        _site("east", ("ConfigMap", CONFIGMAPS)), RemovalRequest(_copy("ConfigMap", "ConfigMap/web/one"))
    )
    assert (found is not None) is stays


async def test_a_copy_in_a_cluster_or_namespace_that_its_object_has_left_goes() -> None:
    live = {"metadata": {"name": "one", "namespace": "web"}}
    resource = _served(WorkspaceResource(resource="configmaps"), CONFIGMAPS)
    layout = Layout(places={"web": NamespacePlace(namespace="team-web", targets=("east",))})
    evidence = _evidence(FakeClient({("ConfigMap", "web", "one"): live}), resource, layout=layout)
    site = _site("east", ("ConfigMap", CONFIGMAPS))
    assert await evidence.confirm(site, RemovalRequest(_copy("ConfigMap", "ConfigMap/web/one"))) is None


def test_only_the_writer_of_a_two_way_resource_writes_or_deletes_upstream() -> None:
    both = WorkspaceResource(resource="configmaps", direction="Bidirectional")
    down = WorkspaceResource(group="example.com", resource="widgets", conflict_strategy="MergeChanges")
    spec = _spec(both, down, writer="east", delete_propagation="Both")
    rules = _rules(spec, _served(both, CONFIGMAPS), _served(down, WIDGETS))
    deletes = {
        (cluster, kind): _made(rules, cluster, kind, resource).pair
        for cluster in ("east", "west")
        for kind, resource in (("ConfigMap", CONFIGMAPS), (WIDGET, WIDGETS))
    }
    assert [place for place, pair in deletes.items() if pair and pair.deletes_upward] == [("east", "ConfigMap")]
    assert [place for place, pair in deletes.items() if pair and pair.rules.two_way] == [("east", "ConfigMap")]


def test_a_cluster_that_the_spec_no_longer_names_writes_nothing_upstream() -> None:
    both = WorkspaceResource(resource="configmaps", direction="Bidirectional", conflict_strategy="MergeChanges")
    rules = _rules(_spec(both), _served(both, CONFIGMAPS))
    source = Target("web", "one", "ConfigMap")
    former, present = rules.pair_at("former", source), rules.pair_at("east", source)
    assert former is not None
    assert not former.two_way
    assert present is not None
    assert present.two_way


async def test_what_a_sync_has_taken_over_does_not_reach_the_upstream_when_its_source_is_deleted() -> None:
    both = WorkspaceResource(resource="configmaps", direction="Bidirectional", conflict_strategy="MergeChanges")
    resource, upstream = _served(both, CONFIGMAPS), FakeClient({})
    rules = _rules(_spec(both), resource, client=upstream)
    writer = cast("Any", lambda *_: SimpleNamespace(takes_over=False))
    edited = EditedCopies(rules=rules, writer=writer, memory=cast("Any", None))
    site = _site("east", ("ConfigMap", CONFIGMAPS))
    taken = _copy("ConfigMap", "ConfigMap/web/one", mode="Adopted")
    assert await edited.outcome(site, taken, resource, Key("web", "one")) is None
    assert not upstream.written


async def test_a_large_copy_is_made_while_other_tasks_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its transforms and digests take long, and a tenant chooses how large it is, and how many there are."""
    maker = CopyMaker(_rules(_spec(), _served(WorkspaceResource(resource="configmaps"), CONFIGMAPS)), 1, HeldObjects())
    others_ran, makes, make = threading.Event(), 0, maker._make

    def slowly(*given: Any) -> Any:
        nonlocal makes
        makes += 1
        assert others_ran.wait(60), "the event loop waited for a copy"
        return make(*given)

    monkeypatch.setattr(maker, "_make", slowly)
    source = _source("ConfigMap", CONFIGMAPS)
    data = {f"k{number}": "" for number in range(5_000)}
    place = (
        _site("east"),
        structs.replace(source, manifest={**source.manifest, "data": data}),
        Target("web", "one", "ConfigMap", "east"),
        ReplicaShare(),
    )
    preparing = asyncio.create_task(maker.prepare(*place))
    asyncio.get_running_loop().call_soon(others_ran.set)
    await preparing
    assert isinstance(maker.make(*place), DesiredAt)
    assert makes == 1


def _made(rules: CopyRules, cluster: str, kind: str, resource: Resource) -> DesiredAt:
    maker = CopyMaker(rules, 1, HeldObjects())
    made = maker.make(_site(cluster), _source(kind, resource), Target("web", "one", kind, cluster), ReplicaShare())
    assert isinstance(made, DesiredAt)
    return made


def _source(kind: str, resource: Resource, name: str = "one") -> SourceObject:
    meta = ObjectMeta(name=name, namespace="web", uid=f"uid-of-{name}", resource_version="1")
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    return SourceObject(
        ref=SourceQuery(group=resource.group, version="v1", kind=resource.kind),
        target=Target("web", name, kind),
        cluster_uid="uid-of-upstream",
        namespaced=True,
        meta=meta,
        manifest={**head, "metadata": {"name": name, "namespace": "web"}},
    )


class DeletedBelow:
    """Copies that were in order, in one namespace, and are gone."""

    def __init__(self, count: int) -> None:
        both = WorkspaceResource(resource="configmaps", direction="Bidirectional", conflict_strategy="MergeChanges")
        rules = _rules(_spec(both, delete_propagation="Both"), _served(both, CONFIGMAPS))
        self.site = _site("east", ("ConfigMap", CONFIGMAPS))
        self.cluster = cast("Any", self.site.cluster)
        self.cluster.namespaces["web"] = Namespace("web", "first", {})
        self.unit = UnitState(FanOut(lambda: None))
        self.sync = cast("Any", SimpleNamespace(metadata=ObjectMeta(name="team", namespace="fleet")))
        maker, self.items = CopyMaker(rules, 1, HeldObjects()), []
        for number in range(count):
            name = f"n{number}"
            made = maker.make(
                self.site,
                _source("ConfigMap", CONFIGMAPS, name),
                Target("web", name, "ConfigMap", "east"),
                ReplicaShare(),
            )
            assert isinstance(made, DesiredAt)
            self.items.append(made)
            target = made.desired.target
            observed = structs.replace(_copy("ConfigMap", f"ConfigMap/web/{name}"), target=target)
            outcome = Outcome(target=target, state="Synced", reason="Synced")
            settled = InSyncObject(made.desired, made.source, observed, KEYS, outcome, "first")
            self.unit.in_sync[self.cluster.uid, target] = settled

    def look(self) -> dict[Target, Any]:
        return deleted_copies(self.sync, self.unit, self.items)

    def wait(self) -> None:
        """Have the moment pass in which a copy may return."""
        self.unit.deleted_since = dict.fromkeys(self.unit.deleted_since, float("-inf"))


def test_a_copy_that_somebody_deletes_takes_its_upstream_object_along() -> None:
    world = DeletedBelow(1)
    (first,) = world.look().values()
    assert first.reason == "CopyDeleted"
    world.wait()
    (job,) = world.look().values()
    assert callable(job)


def test_a_namespace_that_is_deleted_and_created_again_deletes_nothing_upstream() -> None:
    world = DeletedBelow(3)
    world.cluster.namespaces["web"] = Namespace("web", "second", {})
    assert world.look() == {}


def test_copies_that_are_missing_after_a_restore_delete_nothing_upstream() -> None:
    world = DeletedBelow(3)
    world.cluster.restored = True
    assert world.look() == {}


def test_copies_that_a_script_deletes_one_by_one_are_held_as_a_whole() -> None:
    world = DeletedBelow(15)
    world.look()
    world.wait()
    before = dict(world.unit.deleted_since)
    first = dict(list(before.items())[:5])  # these are due, and the others have just gone
    world.unit.deleted_since = first
    reasons = {getattr(found, "reason", "deleted") for found in world.look().values()}
    assert "deleted" not in reasons
    assert "DeletionHeld" in reasons


def test_upstream_objects_that_were_deleted_a_moment_ago_count_with_those_that_follow() -> None:
    world = DeletedBelow(6)
    world.look()
    world.wait()
    earlier = [Target("web", f"earlier{number}", "ConfigMap", "east") for number in range(6)]
    world.unit.deleted_upward = dict.fromkeys(earlier, float("inf"))
    assert {found.reason for found in world.look().values()} == {"DeletionHeld"}


def _watched(room: int) -> _WatchedKind:
    resource = WorkspaceResource(resource="configmaps")
    cluster = FakeCluster("upstream", FakeClient({}), ("ConfigMap", CONFIGMAPS))
    lowered = cast("Any", SimpleNamespace(sync=SimpleNamespace(owner=SimpleNamespace(sync="WorkspaceSync/fleet/team"))))
    return _WatchedKind(
        lowered=lowered,
        at=SourceCluster(cast("Any", cluster), cast("Any", cluster.client)),
        spec=resource,
        resource=CONFIGMAPS,
        informer=cluster.informer("ConfigMap"),
        namespaces=frozenset({"web"}),
        held=HeldObjects("fleet"),
        budget=HeldBudget(room, room),
    )


def _raw(name: str, size: int = 0, namespace: str = "web") -> msgspec.Raw:
    meta = {"name": name, "namespace": namespace, "resourceVersion": "1"}
    return msgspec.Raw(msgspec.json.encode({"metadata": meta, "data": {"blob": "x" * size}}))


def test_an_upstream_that_serves_more_than_there_is_room_for_is_left_at_once() -> None:
    known: dict[Key, Any] = {}
    with pytest.raises(_TooMuch):
        _take(_watched(1_000_000), (_raw(f"n{number}", 100_000) for number in range(1_000_000)), known, 0)
    assert len(known) < 12


def test_what_is_in_namespaces_that_nobody_selects_takes_no_room() -> None:
    known: dict[Key, Any] = {}
    _take(_watched(10_000), (_raw(f"n{number}", 10_000, "other") for number in range(100)), known, 0)
    assert not known


def test_many_small_parts_of_an_object_count_for_what_they_take_in_memory() -> None:
    small = b'{"a":' + b"[" * 1000 + b"]" * 1000 + b"}"
    assert held_size(small) > 50 * len(small)


def test_one_namespace_leaves_half_of_the_room_to_the_others() -> None:
    budget = HeldBudget(most=100, of_namespace=50)
    one, two, three, other = (HeldObjects(name) for name in ("mallory", "mallory", "mallory", "fleet"))
    for held, size in ((one, 30), (two, 20)):
        budget.room(held, "ConfigMap")
        held.sizes["ConfigMap"] = size
    assert budget.room(three, "ConfigMap") == 0
    assert budget.room(two, "ConfigMap") == 20
    assert budget.room(two, "Secret") == 0
    assert budget.room(other, "ConfigMap") == 50
    del one, held
    assert budget.room(three, "ConfigMap") == 30


async def test_what_is_still_being_read_for_another_upstream_or_spec_is_not_taken_for_this_one() -> None:
    held = HeldObjects("fleet")
    held.begin("first", 1)
    for upstream, generation in (("first", 2), ("second", 2)):
        task = asyncio.create_task(asyncio.Event().wait())
        held.reading["ConfigMap"] = cast("Any", task)
        held.begin(upstream, generation)
        assert not held.reading
        with pytest.raises(asyncio.CancelledError):
            await task
