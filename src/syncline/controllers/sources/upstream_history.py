"""Upstream history: whether an upstream object that is absent was deleted, or was forgotten by a restored server.

A server that was restored from a backup lacks later writes, and after a while its resourceVersions do not show it. So
an absence alone is no evidence. One of four facts must prove that the object existed in the present history of the
server: the watch reported its deletion; the server still returns its state at an earlier version; there is a witness, a
later object that is exactly as it was copied; or a new watch from an earlier version still reports the deletion.

A higher resourceVersion is no such fact: a restored server reaches it after a while, or at once if its administrator
raises the versions, as the documentation of etcd recommends.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from functools import reduce

from msgspec import Struct, field

from syncline.controllers.sources.held_objects import RepeatedDeletions, Witness
from syncline.controllers.sources.object_reader import SourceCluster
from syncline.controllers.sources.upstream_parts import ReadResource
from syncline.controllers.sources.upstream_reader import UpstreamReader, UpstreamResource
from syncline.controllers.targets.clusters import ConnectedClusters
from syncline.core.source_history import (
    SourceVersion,
    VersionRange,
    intact,
    read_source_version,
    united,
    version_number,
)
from syncline.core.source_names import SourceName, read_source_name
from syncline.engine.kind_informer import MetaWire
from syncline.kube.cache import Key
from syncline.kube.errors import ApiError, KubeError
from syncline.kube.resources import Resource
from syncline.kube.wire import ObjectDecoder

# The number of seconds in which a server repeats the changes since an earlier version.
_REPLAY_SECONDS = 1
_REPLAY_PATIENCE = 5.0
# The number of kinds and namespaces for which this is requested after a gap: a hostile server takes long each time.
_REPLAYS = 100
# The number of kept witnesses: some of them change over time.
_WITNESSES = 5


class CopiedSource(Struct, frozen=True):
    """A source, as named in the marker of one of its copies."""

    name: SourceName
    seen: SourceVersion


def copied_sources(clusters: ConnectedClusters, owner: str) -> list[CopiedSource]:
    """Return the sources of all copies of a sync."""
    marks = (
        observed.marker
        for site in (*clusters.sites, *clusters.former)
        for observed in site.cluster.managed_by(owner)
        if observed.marker is not None
    )
    found = ((read_source_name(one.source), read_source_version(one.source_version)) for one in marks)
    return [CopiedSource(name, seen) for name, seen in found if name is not None and seen is not None]


def compare_all(
    read: Sequence[ReadResource], clusters: ConnectedClusters, owner: str, before: VersionRange | None
) -> VersionRange | None:
    """Search for witnesses after a gap in the watches; return the doubtful versions.

    Call it before objects that were read after the gap are copied: a later object proves nothing about the time before.
    """
    listed: dict[str, list[ReadResource]] = {}
    for one in read:
        informer, held = one.resource.informer, one.part.held
        if informer is not None and one.problem is None and held.gaps.get(one.resource.kind) != informer.unmanaged.gaps:
            held.gaps[informer.kind] = informer.unmanaged.gaps
            held.repeated.clear()
            listed.setdefault(one.part.at.workspace, []).append(one)
    found = reduce(united, {one.part.at.workspace: one.part.held.doubtful for one in read}.values(), before)
    if not listed and found is None:
        return None
    copied = copied_sources(clusters, owner)
    for workspace, resources in listed.items():
        mine = [one for one in copied if one.name.workspace == workspace]
        found = united(found, _compare(resources, mine, complete=not clusters.incomplete))
    if found is not None and not clusters.incomplete and all(one.problem is None for one in read):
        here = {(one.part.at.workspace, one.resource.kind): one for one in read}
        doubted = (one for one in copied if one.seen.version in found)
        if all(_is_known(here.get((one.name.workspace, one.name.kind)), one) for one in doubted):
            found = None
    for one in read:
        one.part.held.doubtful = found
    return found


def _compare(listed: Sequence[ReadResource], copied: Sequence[CopiedSource], *, complete: bool) -> VersionRange | None:
    """Search for witnesses in one upstream; return the versions that none of them covers, if that matters.

    `complete`: all copies are known.
    """
    held, kinds = listed[0].part.held, {one.resource.kind: one for one in listed}
    mine = [one for one in copied if one.name.kind in kinds]
    held.witnesses = _witnesses(kinds, mine) or held.witnesses
    covered = max((one.seen.version for one in held.witnesses), default=0)
    absent = [one.seen.version for one in mine if not _is_known(kinds[one.name.kind], one)]
    forgotten = [version for version in absent if version > covered]
    if not forgotten and complete:
        return None
    now = (version_number(one.resource.informer.unmanaged.version) for one in listed if one.resource.informer)
    return VersionRange(covered, max([*forgotten, *now]))


def _witnesses(listed: Mapping[str, ReadResource], copied: Sequence[CopiedSource]) -> tuple[Witness, ...]:
    present: dict[str, str] = {}
    places: dict[str, tuple[Resource, Key]] = {}
    for kind, one in listed.items():
        for key, entry in one.part.held.by_kind.get(kind, {}).items():
            if entry.source is not None and one.resource.resource is not None:
                present[entry.source.meta.uid] = entry.version
                places[entry.source.meta.uid] = one.resource.resource, key
    return tuple(Witness(*places[seen.uid], seen) for seen in intact((one.seen for one in copied), present, _WITNESSES))


def _is_known(read: ReadResource | None, copied: CopiedSource) -> bool:
    """Whether a source is present, or its deletion was reported."""
    if read is None or read.resource.informer is None:
        return False
    key = Key(copied.name.namespace, copied.name.name)
    is_there = key in read.part.held.by_kind.get(read.resource.kind, {})
    return is_there or read.resource.informer.unmanaged.has_told_end(key, copied.seen.uid)


class UpstreamHistory(Struct, frozen=True, kw_only=True):
    """Proves that objects existed in the history that an upstream has."""

    reader: UpstreamReader
    at: SourceCluster
    recorded: str = ""
    """The version of the upstream at the last change of a copy."""
    witnesses: tuple[Witness, ...] = ()
    doubtful: VersionRange | None = None
    """The versions that no witness covers: the server may have lost their writes."""
    repeated: RepeatedDeletions = field(default_factory=dict)
    """The deletions that the server repeats, since the last gap of the watches."""
    copied: Callable[[], Collection[str]] = frozenset
    """Returns the UIDs of the sources of all copies: no others are held, however many the server repeats."""

    async def proves(self, one: UpstreamResource, resource: Resource, key: Key, seen: SourceVersion | None) -> bool:
        """Whether an absent object existed before, and so was deleted. Raises `KubeError` without an answer."""
        if seen is None:
            return False
        if one.informer is not None and one.informer.unmanaged.has_told_end(key, seen.uid):
            return True
        former = one.informer.unmanaged.former_version if one.informer is not None else ""
        known = {seen.version, version_number(self.recorded), version_number(former)}
        versions = sorted(version for version in known if version >= seen.version)
        return (
            await self._was_there(resource, key, seen, versions)
            or await self._is_witnessed(seen)
            or await self._is_repeated(resource, key, seen, max(seen.version, version_number(self.recorded)))
        )

    async def _was_there(self, resource: Resource, key: Key, seen: SourceVersion, versions: Sequence[int]) -> bool:
        """Whether the server returns the object at an earlier version."""
        for version in reversed(versions):
            try:
                found = await self.at.client.get_at(
                    resource, key.name, key.namespace or None, str(version), type=MetaWire, metadata_only=True
                )
            except ApiError:
                continue  # the version is too old, or the server has not reached it
            if found is not None and found.metadata.uid == seen.uid:
                return True
        return False

    async def _is_repeated(self, resource: Resource, key: Key, seen: SourceVersion, version: int) -> bool:
        """Whether a watch from an earlier version reports the deletion of exactly this object.

        Servers keep the last changes of a kind in memory, often for much longer than the objects at earlier versions.
        One watch answers for all objects of a namespace.
        """
        place = str(resource.group_kind), key.namespace, version
        if (task := self.repeated.get(place)) is None:
            if len(self.repeated) >= _REPLAYS:
                return False
            task = self.repeated[place] = asyncio.create_task(self._deleted_since(resource, key.namespace, version))
        try:
            return seen.uid in await asyncio.shield(task)
        except KubeError:
            self.repeated.pop(place, None)
            raise

    async def _deleted_since(self, resource: Resource, namespace: str, version: int) -> frozenset[str]:
        """Return the UIDs of the objects that were deleted since a version, as far as the server still knows."""
        reader, copied, found = ObjectDecoder(resource.plural, MetaWire), self.copied(), set[str]()
        lines = self.at.client.watch(
            resource,
            namespace or None,
            version=str(version),
            metadata_only=True,
            seconds=_REPLAY_SECONDS,
            silence=_REPLAY_PATIENCE,
        )
        try:
            async with asyncio.timeout(_REPLAY_PATIENCE), aclosing(lines):
                async for line in lines:
                    event = reader.line(line) if line else None
                    if event is not None and event.kind == "DELETED" and event.metadata.uid in copied:
                        found.add(event.metadata.uid)
        except (ApiError, TimeoutError):
            pass  # the version is too old, watches are not allowed, or the server repeats without end
        return frozenset(found)

    async def _is_witnessed(self, seen: SourceVersion) -> bool:
        if self.doubtful is not None and seen.version in self.doubtful:
            return False
        for witness in self.witnesses:
            if witness.seen.version < seen.version:
                return False
            meta = await self.reader.find(self.at, witness.resource, witness.key)
            if meta is not None and read_source_version(f"{meta.uid}@{meta.resource_version}") == witness.seen:
                return True
        return False
