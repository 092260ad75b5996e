"""Writes objects of kinds that are not compared by content: created, applied by the server's own rules, or replaced.

What we send is ours, and what others added stays theirs, unless the object is ours to the last field (Overwrite) or
theirs stands in the way of ours.
"""

from typing import Any

import msgspec
from msgspec import structs

from syncline.core.adoption import hand_over, hand_over_patch
from syncline.core.carry import allocated
from syncline.core.fields import apply_ready, owned, unkept
from syncline.core.grafting import grafted
from syncline.core.ignoring import without
from syncline.core.objects import Desired, Seen
from syncline.core.obstacles import clearing_patch
from syncline.core.ownership import OWNER_LABEL, Owner, place
from syncline.core.plan import Action, Edit, Verb
from syncline.core.wire import CopyMeta, ObjectWire
from syncline.core.writing import apply_body, create_body, marks_patch, replace_body
from syncline.engine.cluster import Cluster
from syncline.engine.unkept import UnkeptFields, Way
from syncline.kube.client import Client, PatchKind
from syncline.kube.errors import Conflict, Invalid
from syncline.kube.resources import Resource

Json = dict[str, Any]

# How often the managers of an object are written anew because its own controllers were faster.
TRIES = 5
CREATE = "create"
APPLY = "apply"


class Applier:
    """Writes on behalf of one sync, with its identity. Every write may raise what the server says against it."""

    def __init__(self, cluster: Cluster, client: Client, owner: Owner, fields: UnkeptFields) -> None:
        self._cluster = cluster
        self._client = client
        self._owner = owner
        self._fields = fields

    async def create(self, desired: Desired, edit: Edit) -> ObjectWire:
        """Create the object; the marks on it say what the server has not kept of it."""
        here = place(self._cluster.uid, desired.target)
        edit = self._expecting(desired, edit, CREATE)
        body = create_body(desired, self._owner, here, edit, desired.content)
        wire = await self._client.create(
            self.resource(desired),
            body,
            desired.target.namespace or None,
            type=ObjectWire,
            fair_key=self._owner.ref,
        )
        corrected = self._corrected(desired, edit, wire, CREATE)
        if corrected is None:
            return wire
        seen = self._cluster.view(desired.target.kind).see(wire)
        return await self._patch(desired, marks_patch(desired, seen, self._owner, here, corrected))

    async def apply(self, action: Action, edit: Edit, desired: Desired, seen: Seen) -> ObjectWire:
        """Make the object what the plan wants."""
        here, guard = place(self._cluster.uid, desired.target), ""
        edit = self._expecting(desired, edit, APPLY)
        if edit.extras:
            whole, spared = (await self._spared(desired))[0], ""
            # It bears our mark from here on, so that nobody's write in between makes it less ours.
            await self._replace(action, edit, whole, seen, here)
        else:
            version = await self._own_fields(action, edit, desired, seen, here)
            guard = version if action.verb is Verb.ADOPT or edit.guard_version else ""
            whole, spared = await self._spared(desired)
        try:
            wire = await self._send(whole, edit, seen, spared or guard)
        except Invalid as error:
            if action.verb is Verb.ADOPT or edit.extras or not await self._clear(whole, seen, error):
                raise
            version = await self._take_up(desired, seen.uid)
            whole, spared = await self._spared(desired)
            wire = await self._send(whole, edit, seen, spared or (version if guard else ""))
        corrected = self._corrected(desired, edit, wire, APPLY)
        return wire if corrected is None else await self._send_again(desired, corrected, seen)

    def resource(self, desired: Desired) -> Resource:
        """Return where to write: in the version that the body is of."""
        resource = self._cluster.view(desired.target.kind).resource
        version = desired.body.api_version.rpartition("/")[2] if desired.body is not None else resource.version
        return resource if version == resource.version else structs.replace(resource, version=version)

    def _way(self, desired: Desired, operation: str) -> Way:
        assert desired.body is not None  # noqa: S101 - others are not written here
        return Way(self._cluster.uid, desired.body.api_version, desired.body.kind, operation)

    def _expecting(self, desired: Desired, edit: Edit, operation: str) -> Edit:
        """Have the marks say what the server is expected not to keep."""
        return structs.replace(edit, unkept=self._fields.expected(self._way(desired, operation), _compared(desired)))

    def _corrected(self, desired: Desired, edit: Edit, wire: ObjectWire, operation: str) -> Edit | None:
        """Return the edit whose marks say what the server has not kept in truth; None where they say it already."""
        entries = wire.metadata.managed_fields
        found = unkept(_compared(desired), owned(entries, group=desired.target.kind.partition(".")[2]))
        if found == edit.unkept:
            return None
        self._fields.learn(self._way(desired, operation), found)
        return structs.replace(edit, unkept=found)

    async def _send(self, desired: Desired, edit: Edit, seen: Seen, guard: str) -> ObjectWire:
        here = place(self._cluster.uid, desired.target)
        return await self._client.patch(
            self.resource(desired),
            desired.target.name,
            desired.target.namespace or None,
            apply_body(desired, seen, self._owner, here, edit, version=guard),
            PatchKind.APPLY,
            force=True,
            type=ObjectWire,
            fair_key=self._owner.ref,
        )

    async def _send_again(self, desired: Desired, edit: Edit, seen: Seen) -> ObjectWire:
        """Apply what was applied just now with other marks; the kind's own controllers write at the same time."""
        tries = TRIES
        while True:
            whole, spared = await self._spared(desired)
            try:
                return await self._send(whole, edit, seen, spared)
            except Conflict:
                tries -= 1
                if not tries:
                    raise

    async def _clear(self, desired: Desired, seen: Seen, error: Invalid) -> bool:
        """Put ours in the place of what others have added and the server finds in its way; tell whether that was so."""
        assert desired.body is not None  # noqa: S101 - others are not written here
        live = await self._read(desired)
        meta = live["metadata"]
        if (meta.get("labels") or {}).get(OWNER_LABEL, "") != seen.owner:
            return False
        entries = msgspec.json.decode(msgspec.json.encode(meta), type=CopyMeta).managed_fields
        fields = owned(entries, group=desired.target.kind.partition(".")[2])
        steps = clearing_patch(desired.body.fields, live, fields, error.fields)
        if steps is None:
            return False
        guards: list[Json] = [
            {"op": "test", "path": "/metadata/uid", "value": seen.uid},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": meta["resourceVersion"]},
        ]
        try:
            await self._patch(desired, [*guards, *steps])
        except Invalid:
            return False  # it is something else that the server refuses: nothing was changed
        return True

    async def _read(self, desired: Desired) -> Json:
        target = desired.target
        live: Json = await self._client.get(self.resource(desired), target.name, target.namespace or None)
        return live

    async def _patch(self, desired: Desired, patch: list[Json]) -> ObjectWire:
        return await self._client.patch(
            self.resource(desired),
            desired.target.name,
            desired.target.namespace or None,
            patch,
            PatchKind.JSON,
            type=ObjectWire,
            fair_key=self._owner.ref,
        )

    async def _spared(self, desired: Desired) -> tuple[Desired, str]:
        """Send what is left to others as it is now; the version makes the server refuse it if that changed since."""
        if not desired.ignored or desired.body is None:
            return desired, ""
        live = await self._read(desired)
        fields = grafted(desired.body.fields, live, desired.ignored)
        return structs.replace(desired, body=structs.replace(desired.body, fields=fields)), str(
            live["metadata"]["resourceVersion"]
        )

    async def _replace(self, action: Action, edit: Edit, desired: Desired, seen: Seen, here: str) -> None:
        """Make the object exactly the source; what the server has allocated, finalizers and owners stay."""
        resource, target = self.resource(desired), desired.target
        live = await self._read(desired)
        body = allocated(live, replace_body(desired, live, self._owner, here, edit))
        owner = (live["metadata"].get("labels") or {}).get(OWNER_LABEL, "")
        if action.verb is Verb.ADOPT or owner != seen.owner:
            body["metadata"]["resourceVersion"] = seen.version  # refused if it is no longer what was planned for
        body["metadata"]["uid"] = seen.uid
        wire = await self._client.replace(
            resource, target.name, target.namespace or None, body, type=ObjectWire, fair_key=self._owner.ref
        )
        await self._take_up(desired, wire.metadata.uid, alone=True)

    async def _own_fields(self, action: Action, edit: Edit, desired: Desired, seen: Seen, here: str) -> str:
        """Before an apply: have the server count as applied by us what is ours; return the version to go on from."""
        if action.verb is Verb.ADOPT:
            resource, target = self.resource(desired), desired.target
            live: Json = await self._client.get(resource, target.name, target.namespace or None, metadata_only=True)
            body = apply_body(desired, seen, self._owner, here, edit)
            managed = hand_over(live["metadata"].get("managedFields") or [], body, target.kind)
            if managed is not None:
                # Refused where the object is no longer the one that the plan was made for.
                wire = await self._patch(desired, hand_over_patch(managed, seen.uid, seen.version))
                return wire.metadata.resource_version
        return seen.version if seen.applied else await self._take_up(desired, seen.uid)

    async def _take_up(self, desired: Desired, uid: str, *, alone: bool = False) -> str:
        """Before the first apply: let the server count what we created as applied, or removed fields would stay.

        `alone`: and nothing as anybody else's.
        """
        tries = TRIES
        while True:
            live = await self._read(desired)
            meta = live["metadata"]
            version = str(meta["resourceVersion"])
            patch = apply_ready(meta.get("managedFields") or [], uid, version, alone=alone)
            if patch is None:
                return version
            try:
                wire = await self._patch(desired, patch)
            except Conflict:
                # The kind's own controllers write just after us. What they write does not matter here.
                tries -= 1
                if not tries:
                    raise
            else:
                return wire.metadata.resource_version


def _compared(desired: Desired) -> Json:
    """Return what is compared of an object: all but what is left to others."""
    assert desired.body is not None  # noqa: S101 - others are not written here
    return without(desired.body.fields, desired.ignored)
