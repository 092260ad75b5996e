"""Brings the two sides of a two-way sync into agreement: both read live, the upstream written first, the base last.

The base is kept on the downstream object and goes there with the write that it speaks of. A crash in between leaves the
same value on both sides, which is silent, and the next turn does the rest.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from syncline.api.content import Keys, Transform
from syncline.core.content import source_name
from syncline.core.digest import leaves_digest
from syncline.core.keypolicies import KeyPolicies, agree_by_key
from syncline.core.objects import Desired, Seen, Target
from syncline.core.outcome import Outcome, outcome_of
from syncline.core.plan import Action, Edit, Verb, base_too_large, metadata_differs, names_of
from syncline.core.selectors import glob_matches
from syncline.core.stamps import later_side, stamp_of
from syncline.core.twoway import Agreement, Base, Changes, Side, changes
from syncline.core.wire import CopyMeta, DataWire
from syncline.engine.cluster import Cluster
from syncline.engine.writer import TRIES, Writer, contended, failure, is_surprise
from syncline.kube.client import Client, PatchKind
from syncline.kube.errors import Conflict, Invalid, KubeError, NotFound

# Both sides are of one server, whose clock is one: its times are whole seconds.
TOLERANCE = 1.0
# What a plan decides on before any value is looked at.
_BEFORE = frozenset(
    {
        "BaseTooLarge",
        "ClaimedByOther",
        "NotOurs",
        "OwnedByOther",
        "ReconcileDisabled",
        "RecordLost",
        "Terminating",
    }
)


class Upstream(Struct, frozen=True, kw_only=True):
    """The source as it was read."""

    target: Target
    uid: str
    version: str
    manifest: Mapping[str, Any]


class TwoWay:
    """Settles the one target of a two-way sync, with the sync's identity."""

    def __init__(
        self,
        cluster: Cluster,
        client: Client,
        writer: Writer,
        strategies: KeyPolicies,
        *,
        keys: Keys | None,
        transforms: Sequence[Transform],
    ) -> None:
        self._cluster = cluster
        self._client = client
        self._writer = writer
        self._strategies = strategies
        self._keys = keys
        self._transforms = transforms

    async def settle(self, upstream: Upstream, desired: Desired, *, kept: bool) -> Outcome:
        """Bring both sides about. What the API server says against it becomes the outcome; nothing is raised."""
        try:
            for _ in range(TRIES):
                wire = await self._read(desired.target)
                seen = self._see(desired, wire)
                try:
                    action = await self._writer.decide(desired, seen, kept=kept)
                    if seen is None or wire is None or action.verb is Verb.CREATE:
                        return await self._carry_out(action, desired, seen)
                    if action.verb is Verb.LEAVE and action.reason in _BEFORE:
                        return outcome_of(action)
                    return await self._agree(upstream, desired, seen, wire.metadata, action)
                except KubeError as error:
                    if not is_surprise(error, existed=True):
                        raise
        except KubeError as error:
            return failure(desired.target, error)
        return contended(desired.target)

    async def preview(self, upstream: Upstream, desired: Desired, *, kept: bool) -> Action:
        """Return what would be done, without doing it; the message tells what would reach the source."""
        wire = await self._read(desired.target)
        seen = self._see(desired, wire)
        planned = await self._writer.decide(desired, seen, kept=kept)
        if seen is None or wire is None or (planned.verb is Verb.LEAVE and planned.reason in _BEFORE):
            return planned
        agreement, action, settled = self._decide(upstream, desired, seen, wire.metadata, planned)
        return structs.replace(action, verb=Verb.LEAVE) if settled and not agreement.up else action

    def _see(self, desired: Desired, wire: DataWire | None) -> Seen | None:
        if wire is None:
            return None
        return self._writer.recognised(self._cluster.view(desired.target.kind).see(wire, body=True))

    async def _carry_out(self, action: Action, desired: Desired, seen: Seen | None) -> Outcome:
        return outcome_of(action) if action.verb is Verb.LEAVE else await self._writer.carry_out(action, desired, seen)

    async def _read(self, target: Target) -> DataWire | None:
        try:
            wire = await self._cluster.read(target, self._client)
        except NotFound:
            return None
        self._cluster.view(target.kind).observe_unmanaged(wire.metadata, self._writer.sync)
        assert isinstance(wire, DataWire)  # noqa: S101 - only kinds with data go both ways
        return wire

    async def _agree(
        self, upstream: Upstream, desired: Desired, seen: Seen, meta: CopyMeta, planned: Action
    ) -> Outcome:
        """Write the source, then the copy with the new base."""
        agreement, action, settled = self._decide(upstream, desired, seen, meta, planned)
        if action.edit is None:
            return outcome_of(action)
        if agreement.up and (outcome := await self._write_up(upstream, desired, seen, agreement)) is not None:
            return outcome
        if settled:
            await self._writer.renew(seen)
            outcome = outcome_of(structs.replace(action, verb=Verb.LEAVE))
            return structs.replace(outcome, written=Verb.UPDATE) if agreement.up else outcome
        return await self._writer.carry_out(action, desired, seen)

    def _decide(
        self, upstream: Upstream, desired: Desired, seen: Seen, meta: CopyMeta, planned: Action
    ) -> tuple[Agreement, Action, bool]:
        """Decide value by value, and say whether the copy is as it should be; nothing is written."""
        base = _base(desired, seen, planned)
        up, everything = desired.values(), seen.leaves or {}
        down = {path: digest for path, digest in everything.items() if self._flows(path)}
        oneway = frozenset(path for path in (*up, *down) if self._is_transformed(path))
        changed = changes(base, up, down, oneway=oneway)
        later = self._later(upstream, meta, changed)
        agreement = agree_by_key(base, up, down, self._strategies, later, oneway=oneway)
        recorded = agreement.base
        assert recorded is not None  # noqa: S101 - both sides are there
        if (refusal := base_too_large(desired, recorded.down)) is not None:
            return agreement, refusal, True
        hidden = {path: digest for path, digest in everything.items() if path not in down}
        edit = Edit(
            whole=False,
            take=agreement.down.take,
            drop=agreement.down.drop,
            digest=leaves_digest({**(agreement.downstream or {}), **hidden}),
            base=recorded.down,
            mode=planned.edit.mode if planned.edit is not None else (seen.marker.mode if seen.marker else "Created"),
            guard_version=True,
            metadata_only=not agreement.down,
        )
        verb = Verb.ADOPT if planned.verb is Verb.ADOPT else Verb.UPDATE
        action = _action(desired, agreement, edit, verb)
        settled = (
            verb is Verb.UPDATE
            and planned.reason != "Reowned"
            and edit.metadata_only
            and seen.base == edit.base
            and seen.marker is not None
            and (seen.marker.digest, seen.marker.key) == (edit.digest, desired.key)
            and not metadata_differs(desired, seen, extras=False)
        )
        return agreement, action, settled

    async def _write_up(self, upstream: Upstream, desired: Desired, seen: Seen, agreement: Agreement) -> Outcome | None:
        """Write the downstream's changes to the source; None when that is done."""
        assert seen.content is not None  # noqa: S101 - it was read with its body
        target = upstream.target
        if upstream.manifest.get("immutable") is True:
            message = f"{names_of(agreement.up.take or agreement.up.drop)} changed here, but the source is immutable"
            return Outcome(target=desired.target, state="Conflict", reason="SourceImmutable", message=message)
        patch: list[dict[str, Any]] = [
            {"op": "test", "path": "/metadata/uid", "value": upstream.uid},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": upstream.version},
        ]
        patch += [
            {"op": "add", "path": f"/{part}", "value": {}}
            for part in ("data", "binaryData")
            if upstream.manifest.get(part) is None and any(path.startswith(f"{part}/") for path in agreement.up.take)
        ]
        patch += [{"op": "remove", "path": self._pointer(path)} for path in agreement.up.drop]
        patch += [
            {"op": "add", "path": self._pointer(path), "value": seen.content.at(path)} for path in agreement.up.take
        ]
        view = self._cluster.view(target.kind)
        try:
            wire = await self._client.patch(
                view.resource, target.name, target.namespace, patch, PatchKind.JSON, type=DataWire
            )
        except (Conflict, Invalid, NotFound) as error:
            # A patch that no longer fits the source is invalid too.
            if not isinstance(error, Invalid) or await self._has_moved(upstream):
                message = "the source changed while it was being written; it is tried again"
                return Outcome(
                    target=desired.target, state="Pending", reason="SourceMoved", message=message, retry=True
                )
            names = names_of((*agreement.up.take, *agreement.up.drop))
            message = f"undo the change of {names} in the copy, since the source {target} cannot take it: {error}"
            return Outcome(target=desired.target, state="Failed", reason="SourceRefused", message=message, retry=True)
        view.observe_unmanaged(wire.metadata, self._writer.sync)
        return None

    async def _has_moved(self, upstream: Upstream) -> bool:
        """Whether the source is no longer as it was read."""
        wire = await self._read(upstream.target)
        return wire is None or (wire.metadata.uid, wire.metadata.resource_version) != (upstream.uid, upstream.version)

    def _later(self, upstream: Upstream, down: CopyMeta, changed: Changes) -> Side:
        """Tell which side was written later; where times do not tell, versions do: they count on over all objects."""
        ups, downs = (self._last_write_wins(paths) for paths in (changed.up, changed.down))
        if not ups or not downs:
            return "Upstream"
        order: list[Side] = ["Upstream", "Downstream"]
        if _number(upstream.version) > _number(down.resource_version):
            order.reverse()
        return later_side(
            stamp_of(upstream.manifest["metadata"].get("managedFields") or (), self._source_paths(ups)),
            stamp_of(_entries(down), downs),
            now=time.time(),
            seen_order=order,
            tolerance=TOLERANCE,
        )

    def _last_write_wins(self, paths: Sequence[str]) -> list[str]:
        return [path for path in paths if self._strategies.of(path) == "LastWriteWins"]

    def _flows(self, path: str) -> bool:
        return source_name(self._keys, path.partition("/")[2]) is not None

    def _is_transformed(self, path: str) -> bool:
        name = path.partition("/")[2]
        return any(glob_matches(transform.key, name) for transform in self._transforms)

    def _source_paths(self, paths: Sequence[str]) -> Iterator[str]:
        for path in paths:
            part, _, name = path.partition("/")
            yield f"{part}/{source_name(self._keys, name) or name}"

    def _pointer(self, path: str) -> str:
        part, _, name = path.partition("/")
        key = source_name(self._keys, name) or name
        return f"/{part}/{key.replace('~', '~0').replace('/', '~1')}"


def _base(desired: Desired, seen: Seen, planned: Action) -> Base | None:
    """Return what both sides last agreed on; None on first contact, and where the record cannot be read."""
    marker = seen.marker
    if planned.verb is Verb.ADOPT or marker is None or (desired.key and marker.key != desired.key):
        return None
    if seen.base is not None:
        return Base.same(seen.base)
    # A copy that only the source could change until now.
    return Base.same(seen.leaves or {}) if marker.digest == seen.digest else None


def _action(desired: Desired, agreement: Agreement, edit: Edit, verb: Verb) -> Action:
    flowed = [
        f"{names_of((*flow.take, *flow.drop))} to the {side}"
        for flow, side in ((agreement.up, "source"), (agreement.down, "destination"))
        if flow
    ]
    reason, message = "Agreed", f"agreed: {', '.join(flowed)}" if flowed else "both sides agree"
    if agreement.overruled:
        reason, message = "Overruled", f"{message}; an edit gave way: {names_of(agreement.overruled)}"
    if agreement.conflicts:
        reason = "EditedOnBothSides"
        message = f"changed on both sides, each keeps its own value: {names_of(agreement.conflicts)}"
        if agreement.held:
            message += f"; waiting for that: {names_of(agreement.held)}"
    return Action(
        verb=verb,
        target=desired.target,
        reason=reason,
        message=message,
        state="Conflict" if agreement.conflicts else "Synced",
        edit=edit,
        conflicts=agreement.conflicts,
    )


def _entries(meta: CopyMeta) -> Iterator[Mapping[str, object]]:
    for entry in meta.managed_fields:
        fields = msgspec.json.decode(entry.fields) if bytes(entry.fields) else {}
        yield {
            "manager": entry.manager,
            "time": entry.time,
            "subresource": entry.subresource,
            "fieldsV1": fields,
        }


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else 0
