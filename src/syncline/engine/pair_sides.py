"""The two sides of a pair on their servers: the upstream object and its copy. Any request may raise a `KubeError`."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, structs

from syncline.core.objects import Desired, Observed, Target
from syncline.core.ownership import RESOLVE
from syncline.core.request_bodies import Json, escape
from syncline.core.wire import DataWire, ManagedMeta, ObjectWire
from syncline.engine.cluster import Cluster
from syncline.engine.twoway import Upstream
from syncline.engine.writer import Writer
from syncline.kube.client import Client, PatchKind
from syncline.kube.errors import BadRequest, NotFound
from syncline.kube.resources import Resource


class _Headed(Struct):
    metadata: ManagedMeta


class Copy(Struct, frozen=True, kw_only=True):
    """The downstream object as it was read."""

    manifest: Mapping[str, Any]
    observed: Observed


class UpstreamSide:
    """Reads and writes upstream objects, with the identity of the sync there."""

    def __init__(self, cluster: Cluster, client: Client, sync: str) -> None:
        self._cluster = cluster
        self.client = client
        self._sync = sync

    @property
    def uid(self) -> str:
        """The UID of the upstream cluster."""
        return self._cluster.uid

    def resource(self, source: Upstream) -> Resource:
        """Return the resource of an upstream object, in the API version in which it was read."""
        resource = self._cluster.informer(source.target.kind).resource
        version = str(source.manifest.get("apiVersion", "")).rpartition("/")[2] or resource.version
        return resource if version == resource.version else structs.replace(resource, version=version)

    async def read(self, source: Upstream) -> Upstream | None:
        """Read an upstream object again, because somebody may have changed it; None where there is none."""
        target = source.target
        try:
            raw = await self.client.get(
                self.resource(source),
                target.name,
                target.namespace or None,
                type=msgspec.Raw,
                fair_key=self._sync,
            )
        except NotFound:
            return None
        # A change by others enqueues this sync too: its other copies, and what it selects, depend on it.
        return self._upstream(target, raw, by="")

    async def has_moved(self, source: Upstream) -> bool:
        """Whether an upstream object has changed since it was read."""
        now = await self.read(source)
        return now is None or (now.uid, now.version) != (source.uid, source.version)

    async def patch(self, source: Upstream, changes: list[Json]) -> Upstream:
        """Change an upstream object, if it is still the very one that was read, in the same version."""
        return await self._patch(source, changes, by=self._sync)

    async def remove_resolve(self, source: Upstream) -> Upstream:
        """Remove the annotation that resolved the conflicts.

        It enqueues this sync too: the other copies have recorded that the annotation has counted.
        """
        return await self._patch(source, [{"op": "remove", "path": f"/metadata/annotations/{escape(RESOLVE)}"}], by="")

    async def _patch(self, source: Upstream, changes: list[Json], *, by: str) -> Upstream:
        target = source.target
        guards: list[Json] = [
            {"op": "test", "path": "/metadata/uid", "value": source.uid},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": source.version},
        ]
        raw = await self.client.patch(
            self.resource(source),
            target.name,
            target.namespace or None,
            [*guards, *changes],
            PatchKind.JSON,
            type=msgspec.Raw,
            fair_key=self._sync,
        )
        return self._upstream(target, raw, by=by)

    def _upstream(self, target: Target, raw: msgspec.Raw, *, by: str) -> Upstream:
        meta = msgspec.json.decode(raw, type=_Headed).metadata
        self._cluster.informer(target.kind).observe_unmanaged(meta, by)
        return Upstream(target=target, uid=meta.uid, version=meta.resource_version, manifest=msgspec.json.decode(raw))


class CopySide:
    """Reads and writes copies."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._cluster = writer.cluster
        self._client = writer.client

    async def read(self, desired: Desired) -> Copy | None:
        """Read a copy; None where there is no object."""
        target = desired.target
        try:
            raw = await self._client.get(
                self._writer.resource(desired),
                target.name,
                target.namespace or None,
                type=msgspec.Raw,
                fair_key=self._writer.owner.ref,
            )
        except NotFound:
            return None
        copy, wire = self._copy(desired, raw)
        self._cluster.informer(target.kind).observe_unmanaged(wire.metadata, self._writer.sync)
        return copy

    async def create(self, desired: Desired, body: Json) -> Copy:
        """Create a copy."""
        with self._cluster.informer(desired.target.kind).managed.suppress_events(desired.target):
            return self._written(desired, await self._create(desired, body, dry_run=False))

    async def answer_to_create(self, desired: Desired, body: Json) -> Json:
        """Return the object that a create would store; the body itself where the server takes no dry runs."""
        try:
            answer: Json = msgspec.json.decode(await self._create(desired, body, dry_run=True))
        except BadRequest:
            return body  # a webhook with side effects; the write itself reports any other error
        return answer

    async def patch(self, desired: Desired, copy: Copy, changes: list[Json]) -> Copy:
        """Change a copy, if it is still the very one that was read, in the same version."""
        with self._cluster.informer(desired.target.kind).managed.suppress_events(desired.target):
            return self._written(desired, await self._patch(desired, copy, changes, dry_run=False))

    async def answer_to_patch(self, desired: Desired, copy: Copy, changes: list[Json], expected: Json) -> Json:
        """Return the object that a change would store; the expected one where the server takes no dry runs."""
        try:
            answer: Json = msgspec.json.decode(await self._patch(desired, copy, changes, dry_run=True))
        except BadRequest:
            return expected  # a webhook with side effects; the write itself reports any other error
        return answer

    async def has_moved(self, desired: Desired, copy: Copy) -> bool:
        """Whether a copy has changed since it was read."""
        now = await self.read(desired)
        before = copy.observed
        return now is None or (now.observed.uid, now.observed.version) != (before.uid, before.version)

    async def _create(self, desired: Desired, body: Json, *, dry_run: bool) -> msgspec.Raw:
        return await self._client.create(
            self._writer.resource(desired),
            body,
            desired.target.namespace or None,
            dry_run=dry_run,
            type=msgspec.Raw,
            fair_key=self._writer.owner.ref,
        )

    async def _patch(self, desired: Desired, copy: Copy, changes: list[Json], *, dry_run: bool) -> msgspec.Raw:
        target, observed = desired.target, copy.observed
        guards: list[Json] = [
            {"op": "test", "path": "/metadata/uid", "value": observed.uid},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": observed.version},
        ]
        return await self._client.patch(
            self._writer.resource(desired),
            target.name,
            target.namespace or None,
            [*guards, *changes],
            PatchKind.JSON,
            dry_run=dry_run,
            type=msgspec.Raw,
            fair_key=self._writer.owner.ref,
        )

    def _written(self, desired: Desired, raw: msgspec.Raw) -> Copy:
        copy, wire = self._copy(desired, raw)
        self._cluster.informer(desired.target.kind).managed.observe(wire, self._writer.sync)
        return copy

    def _copy(self, desired: Desired, raw: msgspec.Raw) -> tuple[Copy, DataWire | ObjectWire]:
        informer = self._cluster.informer(desired.target.kind)
        wire = msgspec.json.decode(raw, type=informer.wire)
        observed = self._writer.with_own_marker(informer.to_observed(wire, body=True))
        assert observed is not None  # noqa: S101 - it is there
        return Copy(manifest=msgspec.json.decode(raw), observed=observed), wire
