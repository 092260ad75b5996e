"""An upstream object that is absent was deleted, or was forgotten by a server that was restored from a backup."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from syncline.api.common import ObjectMeta
from syncline.api.workspacesync import WorkspaceResource
from syncline.controllers.lowered import SourceObject, SourceQuery
from syncline.controllers.sources.held_objects import HeldObject, HeldObjects
from syncline.controllers.sources.object_reader import SourceCluster
from syncline.controllers.sources.upstream_history import UpstreamHistory, compare_all
from syncline.controllers.sources.upstream_identity import UpstreamIdentity
from syncline.controllers.sources.upstream_parts import ReadResource, UpstreamPart
from syncline.controllers.sources.upstream_reader import UpstreamReader, UpstreamResource
from syncline.controllers.targets.clusters import ConnectedClusters
from syncline.core.objects import Marker, Target
from syncline.core.source_history import SourceVersion, VersionRange
from syncline.engine.kind_informer import MetaWire
from syncline.kube.cache import Key
from syncline.kube.errors import Gone, NotFound
from syncline.kube.resources import CONFIGMAPS, Resource

OWNER = "WorkspaceSync/fleet/team"


class Upstream:
    """An upstream with ConfigMaps of one namespace, each with its UID and version."""

    def __init__(self, **objects: tuple[str, int]) -> None:
        self.objects = objects
        self.past: dict[str, dict[str, tuple[str, int]]] = {}
        """What the server still knows of earlier versions."""
        self.asked: list[str] = []
        self.repeats: dict[str, list[tuple[str, str, str]]] = {}
        """The changes that the server still repeats since a version: the type, the name and the UID."""
        self.watched: list[str] = []
        self.copied = {"one", "two", "three"}
        self.told: set[str] = set()
        """The UIDs of objects whose end was told."""
        self.held = HeldObjects()
        self.reported = SimpleNamespace(
            gaps=1, version="100", former_version="", has_told_end=lambda _, uid: uid in self.told
        )
        self.at = SourceCluster(cast("Any", SimpleNamespace(name="up", uid="up")), cast("Any", self))
        self.resource = UpstreamResource(
            spec=WorkspaceResource(resource="configmaps"),
            resource=CONFIGMAPS,
            informer=cast("Any", SimpleNamespace(kind="ConfigMap", unmanaged=self.reported)),
        )

    async def get(self, resource: Resource, name: str, namespace: str | None, **_: Any) -> Any:
        if name not in self.objects:
            raise NotFound(404, "NotFound", "", verb="get", resource=resource.plural, name=name, about=name)
        uid, version = self.objects[name]
        return {"metadata": {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": str(version)}}

    async def get_at(self, resource: Resource, name: str, _: str | None, version: str, **__: Any) -> MetaWire | None:
        self.asked.append(version)
        if version not in self.past:
            raise Gone(410, "Expired", "", verb="list", resource=resource.plural)
        found = self.past[version].get(name)
        return MetaWire(ObjectMeta(name=name, uid=found[0], resource_version=str(found[1]))) if found else None

    async def watch(self, resource: Resource, namespace: str | None, **query: Any) -> AsyncIterator[bytes]:
        assert (namespace, query["metadata_only"]) == ("web", True)
        self.watched.append(query["version"])
        if query["version"] not in self.repeats:
            raise Gone(410, "Expired", "", verb="watch", resource=resource.plural)
        yield b""
        for kind, name, uid in self.repeats[query["version"]]:
            metadata = {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": "99"}
            yield msgspec.json.encode({"type": kind, "object": {"metadata": metadata}})

    def read(self) -> ReadResource:
        """Read all objects."""
        known = self.held.by_kind.setdefault("ConfigMap", {})
        known.clear()
        for name, (uid, version) in self.objects.items():
            meta = ObjectMeta(name=name, namespace="web", uid=uid, resource_version=str(version))
            query = SourceQuery(group="", version="v1", kind="ConfigMap", namespace="web", name=name)
            target = Target("web", name)
            source = SourceObject(ref=query, target=target, cluster_uid="", namespaced=True, meta=meta, manifest={})
            known[Key("web", name)] = HeldObject(str(version), source)
        part = UpstreamPart(at=self.at, identity=UpstreamIdentity(uid="up"), resources=(self.resource,), held=self.held)
        return ReadResource(part=part, resource=self.resource)

    async def proves(
        self, name: str, uid: str, version: int, doubtful: VersionRange | None = None, **more: Any
    ) -> bool:
        """Whether the absence of an object that was seen is proven to be a deletion."""
        reader = UpstreamReader(cast("Any", None), cast("Any", None), frozenset())
        history = UpstreamHistory(
            reader=reader,
            at=self.at,
            witnesses=self.held.witnesses,
            doubtful=doubtful,
            repeated=self.held.repeated,
            copied=lambda: self.copied,
            **more,
        )
        return await history.proves(self.resource, CONFIGMAPS, Key("web", name), SourceVersion(uid, version))


def copies(*, incomplete: bool = False, **sources: tuple[str, int]) -> ConnectedClusters:
    """Return a cluster with copies of these sources."""
    marks = [
        Marker(sync=OWNER, object_id="id", source=f"ConfigMap/web/{name}", source_version=f"{uid}@{version}")
        for name, (uid, version) in sources.items()
    ]
    found = [SimpleNamespace(marker=marker) for marker in marks]
    site = SimpleNamespace(cluster=SimpleNamespace(managed_by=lambda _: found))
    return ConnectedClusters(sites=(cast("Any", site),), incomplete=incomplete)


async def test_an_end_that_the_watch_has_told_is_a_deletion() -> None:
    upstream = Upstream()
    upstream.told.add("one")
    assert await upstream.proves("one", "one", 10)
    assert not await upstream.proves("two", "two", 10)
    assert not await upstream.proves("one", "its predecessor", 10)


async def test_an_object_that_the_server_knows_at_an_earlier_version_was_deleted() -> None:
    upstream = Upstream()
    upstream.past["40"] = {"one": ("one", 10), "two": ("its successor", 30)}
    assert await upstream.proves("one", "one", 10, recorded="40")
    assert not await upstream.proves("two", "two", 10, recorded="40")
    upstream.reported.former_version = "50"
    upstream.past["50"] = {"three": ("three", 20)}
    upstream.asked.clear()
    assert await upstream.proves("three", "three", 20, recorded="40")
    assert upstream.asked == ["50"], "the newest first"


async def test_an_object_that_the_server_did_not_have_at_its_version_proves_nothing() -> None:
    upstream = Upstream()
    upstream.past["10"] = {}
    assert not await upstream.proves("one", "one", 10)


async def test_a_deletion_that_the_server_repeats_to_a_watch_is_a_deletion() -> None:
    upstream = Upstream()
    upstream.repeats["10"] = [("DELETED", "one", "one"), ("ADDED", "one", "its successor"), ("MODIFIED", "two", "two")]
    assert await upstream.proves("one", "one", 10)
    assert not await upstream.proves("one", "its successor", 10)
    assert not await upstream.proves("one", "its predecessor", 10)
    assert not await upstream.proves("two", "two", 10)
    assert not await upstream.proves("one", "one", 20), "what happened before it was copied is no deletion of it"


async def test_one_watch_since_the_last_change_of_a_copy_answers_for_all_objects_of_a_namespace() -> None:
    upstream = Upstream()
    upstream.repeats["40"] = [("DELETED", "one", "one"), ("DELETED", "two", "two")]
    assert await upstream.proves("one", "one", 10, recorded="40")
    assert await upstream.proves("two", "two", 20, recorded="40")
    assert not await upstream.proves("three", "three", 30, recorded="40")
    assert upstream.watched == ["40"]
    assert not await upstream.proves("one", "one", 50, recorded="40"), "copied after that: only a later deletion counts"
    assert upstream.watched == ["40", "50"]


async def test_a_server_is_asked_for_deletions_a_limited_number_of_times_after_a_gap() -> None:
    upstream = Upstream()
    for version in range(1000, 2000):
        assert not await upstream.proves("one", "its predecessor", version)
    assert len(upstream.watched) == 100
    upstream.reported.gaps += 1
    compare_all([upstream.read()], copies(), OWNER, None)
    upstream.repeats["2000"] = [("DELETED", "one", "one")]
    assert await upstream.proves("one", "one", 2000)


async def test_of_the_deletions_that_a_server_repeats_only_those_of_copied_objects_are_held() -> None:
    upstream = Upstream()
    upstream.repeats["10"] = [("DELETED", f"other-{number}", f"other-{number}") for number in range(1000)]
    upstream.repeats["10"].append(("DELETED", "one", "one"))
    assert await upstream.proves("one", "one", 10)
    assert [task.result() for task in upstream.held.repeated.values()] == [{"one"}]


async def test_a_later_object_that_is_as_it_was_copied_is_a_witness() -> None:
    upstream = Upstream(later=("later", 20), edited=("edited", 60))
    sources = copies(one=("one", 10), later=("later", 20), edited=("edited", 30), last=("last", 25))
    assert compare_all([upstream.read()], sources, OWNER, None) == VersionRange(20, 100), "`last` is in doubt"
    assert await upstream.proves("one", "one", 10)
    assert not await upstream.proves("last", "last", 25)
    upstream.objects["later"] = ("later", 90)
    assert not await upstream.proves("one", "one", 10), "the witness is looked at live"


async def test_an_object_that_was_copied_after_a_restore_is_no_witness() -> None:
    """Also not for the next operator, which knows only what the status and the marks say."""
    before = {"early": ("early", 10), "later": ("later", 50)}
    upstream = Upstream(early=("early", 10), newer=("newer", 70))
    doubtful = compare_all([upstream.read()], copies(**before), OWNER, None)
    assert doubtful == VersionRange(10, 100)
    now = copies(**before, newer=("newer", 70))
    assert compare_all([upstream.read()], now, OWNER, doubtful) == doubtful
    assert not await upstream.proves("later", "later", 50, doubtful)
    again = Upstream(early=("early", 10), newer=("newer", 70))
    doubtful = compare_all([again.read()], now, OWNER, doubtful)
    assert [one.seen.uid for one in again.held.witnesses] == ["newer", "early"]
    assert not await again.proves("later", "later", 50, doubtful)


def test_a_doubt_that_could_not_be_recorded_is_not_forgotten() -> None:
    upstream = Upstream(early=("early", 10))
    before = copies(early=("early", 10), later=("later", 50))
    doubtful = compare_all([upstream.read()], before, OWNER, None)
    assert compare_all([upstream.read()], before, OWNER, None) == doubtful == VersionRange(10, 100)


def test_the_doubt_ends_with_the_last_copy_that_it_is_about() -> None:
    upstream = Upstream(early=("early", 10))
    assert compare_all([upstream.read()], copies(early=("early", 10)), OWNER, VersionRange(10, 100)) is None


def test_copies_that_cannot_be_seen_now_keep_the_doubt() -> None:
    upstream = Upstream(early=("early", 10))
    hidden = copies(incomplete=True, early=("early", 10))
    assert compare_all([upstream.read()], hidden, OWNER, None) == VersionRange(10, 100)


def test_without_a_gap_nothing_is_compared() -> None:
    upstream = Upstream(early=("early", 10))
    assert compare_all([upstream.read()], copies(early=("early", 10)), OWNER, None) is None
    upstream.objects["newer"] = ("newer", 20)
    assert compare_all([upstream.read()], copies(newer=("newer", 20)), OWNER, None) is None
    assert [one.seen.uid for one in upstream.held.witnesses] == ["early"]
