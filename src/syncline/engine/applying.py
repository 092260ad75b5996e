"""Writes objects of kinds that are not compared by content: with create, server-side apply, or replace.

The fields that we send are ours. The fields that others added stay, except with the policy Overwrite, or if they
conflict with ours.
"""

from typing import Any

import msgspec
from msgspec import structs

from syncline.core.adoption import hand_over, hand_over_patch
from syncline.core.fields import owned_fields, to_apply_patch, unkept
from syncline.core.ignored_fields import remove_paths
from syncline.core.live_fields import keep_live_fields
from syncline.core.objects import Desired, Observed
from syncline.core.obstacles import clearing_patch
from syncline.core.ownership import OWNER_LABEL, Owner, object_id_of
from syncline.core.plan import Action, Change, Verb
from syncline.core.request_bodies import apply_body, create_body, marks_patch, replace_body
from syncline.core.strip import preserve_allocated
from syncline.core.wire import ManagedMeta, ObjectWire
from syncline.engine.cluster import Cluster
from syncline.engine.unkept import APPLY, CREATE, RequestKind, UnkeptFields
from syncline.kube.client import Client, PatchKind
from syncline.kube.errors import Conflict, Invalid
from syncline.kube.resources import Resource

Json = dict[str, Any]

# How often the managers of an object are written again because its own controllers were faster.
TRIES = 5


class Applier:
    """Writes on behalf of one sync, with its identity. Every write may raise the errors of the server."""

    def __init__(self, cluster: Cluster, client: Client, owner: Owner, fields: UnkeptFields) -> None:
        self._cluster = cluster
        self._client = client
        self._owner = owner
        self._fields = fields

    async def create(self, desired: Desired, change: Change) -> ObjectWire:
        """Create the object. Its marks record the fields that the server has not kept."""
        object_id = object_id_of(self._cluster.uid, desired.target)
        change = self._expecting(desired, change, CREATE)
        now = self._client.server_time
        body = create_body(desired, self._owner, object_id, change, desired.content, made=now)
        wire = await self._client.create(
            self.resource(desired),
            body,
            desired.target.namespace or None,
            type=ObjectWire,
            fair_key=self._owner.ref,
        )
        corrected = self._corrected(desired, change, wire, CREATE)
        if corrected is None:
            return wire
        observed = self._cluster.informer(desired.target.kind).to_observed(wire)
        return await self._patch(desired, marks_patch(desired, observed, self._owner, object_id, corrected))

    async def apply(self, action: Action, change: Change, desired: Desired, observed: Observed) -> ObjectWire:
        """Change the object as planned."""
        object_id, guard = object_id_of(self._cluster.uid, desired.target), ""
        if change.marks_only and not observed.applied and observed.marker is not None:
            # An apply would first have to convert the created fields into applied fields: two more requests.
            kept = structs.replace(change, unkept=observed.marker.unkept)
            return await self._patch(desired, marks_patch(desired, observed, self._owner, object_id, kept))
        change = self._expecting(desired, change, APPLY)
        if change.exact:
            whole, spared = (await self._with_live_ignored(desired))[0], ""
            # From here on it has our mark, so that a write of others in between does not change its owner.
            await self._replace(action, change, whole, observed, object_id)
        else:
            version = await self._own_fields(action, change, desired, observed, object_id)
            guard = version if action.verb is Verb.ADOPT or change.guard_version else ""
            whole, spared = await self._with_live_ignored(desired)
        try:
            wire = await self._send(whole, change, observed, spared or guard)
        except Invalid as error:
            if action.verb is Verb.ADOPT or change.exact or not await self._clear(whole, observed, error):
                raise
            version = await self._migrate_managed_fields(desired, observed.uid)
            whole, spared = await self._with_live_ignored(desired)
            wire = await self._send(whole, change, observed, spared or (version if guard else ""))
        corrected = self._corrected(desired, change, wire, APPLY)
        return wire if corrected is None else await self._send_again(desired, corrected, observed)

    def resource(self, desired: Desired) -> Resource:
        """Return the resource, in the API version of the body."""
        resource = self._cluster.informer(desired.target.kind).resource
        version = desired.body.api_version.rpartition("/")[2] if desired.body is not None else resource.version
        return resource if version == resource.version else structs.replace(resource, version=version)

    def _request_kind(self, desired: Desired, operation: str) -> RequestKind:
        assert desired.body is not None  # noqa: S101 - others are not written here
        return RequestKind(self._cluster.uid, desired.body.api_version, desired.body.kind, operation)

    def _expecting(self, desired: Desired, change: Change, operation: str) -> Change:
        """Record in the marks the fields that the server is expected not to keep."""
        return structs.replace(
            change, unkept=self._fields.expected(self._request_kind(desired, operation), _compared(desired))
        )

    def _corrected(self, desired: Desired, change: Change, wire: ObjectWire, operation: str) -> Change | None:
        """Return the change that records the fields that the server really dropped; None if the marks are right."""
        entries = wire.metadata.managed_fields
        found = unkept(_compared(desired), owned_fields(entries, group=desired.target.group_kind.group))
        if found == change.unkept:
            return None
        self._fields.learn(self._request_kind(desired, operation), found)
        return structs.replace(change, unkept=found)

    async def _send(self, desired: Desired, change: Change, observed: Observed, guard: str) -> ObjectWire:
        object_id = object_id_of(self._cluster.uid, desired.target)
        return await self._client.patch(
            self.resource(desired),
            desired.target.name,
            desired.target.namespace or None,
            apply_body(desired, observed, self._owner, object_id, change, version=guard),
            PatchKind.APPLY,
            force=True,
            type=ObjectWire,
            fair_key=self._owner.ref,
        )

    async def _send_again(self, desired: Desired, change: Change, observed: Observed) -> ObjectWire:
        """Apply the same content again with other marks. The kind's own controllers may write at the same time."""
        tries = TRIES
        while True:
            whole, spared = await self._with_live_ignored(desired)
            try:
                return await self._send(whole, change, observed, spared)
            except Conflict:
                tries -= 1
                if not tries:
                    raise

    async def _clear(self, desired: Desired, observed: Observed, error: Invalid) -> bool:
        """Replace fields of others that conflict with ours. Return whether there were any."""
        assert desired.body is not None  # noqa: S101 - others are not written here
        live = await self._read(desired)
        meta = live["metadata"]
        if (meta.get("labels") or {}).get(OWNER_LABEL, "") != observed.owner:
            return False
        entries = msgspec.json.decode(msgspec.json.encode(meta), type=ManagedMeta).managed_fields
        fields = owned_fields(entries, group=desired.target.group_kind.group)
        steps = clearing_patch(desired.body.fields, live, fields, error.fields)
        if steps is None:
            return False
        guards: list[Json] = [
            {"op": "test", "path": "/metadata/uid", "value": observed.uid},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": meta["resourceVersion"]},
        ]
        try:
            await self._patch(desired, [*guards, *steps])
        except Invalid:
            return False  # the server refuses for another reason: nothing was changed
        return True

    async def _read(self, desired: Desired) -> Json:
        target = desired.target
        live: Json = await self._client.get(self.resource(desired), target.name, target.namespace or None)
        return live

    async def _patch(self, desired: Desired, patch: list[Json]) -> ObjectWire:
        wire = await self._client.patch(
            self.resource(desired),
            desired.target.name,
            desired.target.namespace or None,
            patch,
            PatchKind.JSON,
            type=ObjectWire,
            fair_key=self._owner.ref,
        )
        return self._observe(desired, wire)

    def _observe(self, desired: Desired, wire: ObjectWire) -> ObjectWire:
        """Cache the answer to a write before another write, so that its watch event does not enqueue our own sync.

        The next write may be refused, and then nothing else marks this write as ours.
        """
        informer = self._cluster.informer(desired.target.kind)
        if OWNER_LABEL in wire.metadata.labels:
            informer.managed.observe(wire, self._owner.sync)
        else:
            informer.observe_unmanaged(wire.metadata, self._owner.sync)
        return wire

    async def _with_live_ignored(self, desired: Desired) -> tuple[Desired, str]:
        """Send ignored fields with their live values; the version makes the server refuse it if they changed."""
        if not desired.ignored or desired.body is None:
            return desired, ""
        live = await self._read(desired)
        fields = keep_live_fields(desired.body.fields, live, desired.ignored)
        return structs.replace(desired, body=structs.replace(desired.body, fields=fields)), str(
            live["metadata"]["resourceVersion"]
        )

    async def _replace(
        self, action: Action, change: Change, desired: Desired, observed: Observed, object_id: str
    ) -> None:
        """Make the object exactly the source. Allocated values, finalizers and owners stay."""
        resource, target = self.resource(desired), desired.target
        live = await self._read(desired)
        body = preserve_allocated(live, replace_body(desired, live, self._owner, object_id, change))
        owner = (live["metadata"].get("labels") or {}).get(OWNER_LABEL, "")
        if action.verb is Verb.ADOPT or owner != observed.owner:
            body["metadata"]["resourceVersion"] = observed.version  # refused if the object has changed since the plan
        body["metadata"]["uid"] = observed.uid
        wire = await self._client.replace(
            resource, target.name, target.namespace or None, body, type=ObjectWire, fair_key=self._owner.ref
        )
        self._observe(desired, wire)
        await self._migrate_managed_fields(desired, wire.metadata.uid, alone=True)

    async def _own_fields(
        self, action: Action, change: Change, desired: Desired, observed: Observed, object_id: str
    ) -> str:
        """Make our fields applied fields, before an apply. Return the version for the next write."""
        if action.verb is Verb.ADOPT:
            resource, target = self.resource(desired), desired.target
            live: Json = await self._client.get(resource, target.name, target.namespace or None, metadata_only=True)
            body = apply_body(desired, observed, self._owner, object_id, change)
            managed = hand_over(live["metadata"].get("managedFields") or [], body, target.kind)
            if managed is not None:
                # Refused if the object has changed since the plan.
                wire = await self._patch(desired, hand_over_patch(managed, observed.uid, observed.version))
                return wire.metadata.resource_version
        return observed.version if observed.applied else await self._migrate_managed_fields(desired, observed.uid)

    async def _migrate_managed_fields(self, desired: Desired, uid: str, *, alone: bool = False) -> str:
        """Make our created fields applied fields, before the first apply. Otherwise removed fields would stay.

        `alone`: remove all other managers too.
        """
        tries = TRIES
        while True:
            live = await self._read(desired)
            meta = live["metadata"]
            version = str(meta["resourceVersion"])
            patch = to_apply_patch(meta.get("managedFields") or [], uid, version, alone=alone)
            if patch is None:
                return version
            try:
                wire = await self._patch(desired, patch)
            except Conflict:
                # The kind's own controllers write just after us. Their fields do not matter here.
                tries -= 1
                if not tries:
                    raise
            else:
                return wire.metadata.resource_version


def _compared(desired: Desired) -> Json:
    """Return the compared fields of an object: all except those that are left to others."""
    assert desired.body is not None  # noqa: S101 - others are not written here
    return remove_paths(desired.body.fields, desired.ignored)
