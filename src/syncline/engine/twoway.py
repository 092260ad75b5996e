"""Brings the two sides of a two-way sync into agreement: both read live, the upstream written first, the base last.

The base is stored on the downstream object, in the same request as the write that it describes. A crash in between
leaves the same value on both sides, which is no difference, and the next reconcile does the rest.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from syncline.api.content import Keys, Transform
from syncline.core.content import source_name
from syncline.core.digest import combined_digest
from syncline.core.keypolicies import KeyPolicies, agree_by_key
from syncline.core.last_write import later_side, write_time_of
from syncline.core.objects import Desired, Observed, Target
from syncline.core.outcome import SOURCE_MOVED, Outcome, outcome_of
from syncline.core.plan import (
    MARK_UNPROVEN,
    Action,
    Change,
    Verb,
    base_too_large,
    metadata_differs,
    names_of,
    too_many_comparisons,
)
from syncline.core.selectors import glob_matches
from syncline.core.twoway import Agreement, Base, Changes, Side, changes
from syncline.core.wire import DataWire, ManagedMeta
from syncline.engine.cluster import Cluster
from syncline.engine.sent_values import SentValues
from syncline.engine.write_attempts import TRIES
from syncline.engine.write_outcomes import contended, failure, is_stale
from syncline.engine.writer import Writer
from syncline.kube.client import Client, PatchKind
from syncline.kube.errors import Conflict, Invalid, KubeError, NotFound

# Both sides have the clock of one server, with times in whole seconds.
TOLERANCE = 1.0
# The verbs that a plan decides before it compares values.
_BEFORE = frozenset(
    {
        MARK_UNPROVEN,
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
    """The source that was read."""

    target: Target
    uid: str
    version: str
    manifest: Mapping[str, Any]


class TwoWay:
    """Applies the one target of a two-way sync, with the sync's identity."""

    def __init__(
        self,
        cluster: Cluster,
        client: Client,
        writer: Writer,
        strategies: KeyPolicies,
        *,
        keys: Keys | None,
        transforms: Sequence[Transform],
        sent: SentValues,
    ) -> None:
        self._sent = sent
        self._cluster = cluster
        self._client = client
        self._writer = writer
        self._strategies = strategies
        self._keys = keys
        self._transforms = transforms
        names = len(keys.include) + len(keys.exclude) + len(keys.rename) if keys is not None else 0
        self._globs = strategies.globs + len(transforms) + names
        """The names and globs that each key is compared with."""

    async def apply(self, upstream: Upstream, desired: Desired, *, created_once: bool) -> Outcome:
        """Apply both sides. An error of the API server becomes the outcome. Raises nothing."""
        try:
            for _ in range(TRIES):
                wire = await self._read(desired.target)
                observed = self._to_observed(desired, wire)
                try:
                    action = await self._writer.plan(desired, observed, created_once=created_once)
                    if observed is None or wire is None or action.verb is Verb.CREATE:
                        return await self._execute(action, desired, observed)
                    if action.verb is Verb.LEAVE and action.reason in _BEFORE:
                        return outcome_of(action)
                    return await self._agree(upstream, desired, observed, wire.metadata, action)
                except KubeError as error:
                    if not is_stale(error, existed=True):
                        raise
        except KubeError as error:
            return failure(desired.target, error)
        return contended(desired.target)

    async def preview(self, upstream: Upstream, desired: Desired, *, created_once: bool) -> Action:
        """Return the planned action, without writes. The message names the changes of the source."""
        wire = await self._read(desired.target)
        observed = self._to_observed(desired, wire)
        planned = await self._writer.plan(desired, observed, created_once=created_once)
        if observed is None or wire is None or (planned.verb is Verb.LEAVE and planned.reason in _BEFORE):
            return planned
        agreement, action, is_noop = self._plan(upstream, desired, observed, wire.metadata, planned)
        return structs.replace(action, verb=Verb.LEAVE) if is_noop and not agreement.up else action

    def _to_observed(self, desired: Desired, wire: DataWire | None) -> Observed | None:
        if wire is None:
            return None
        return self._writer.with_own_marker(self._cluster.informer(desired.target.kind).to_observed(wire, body=True))

    async def _execute(self, action: Action, desired: Desired, observed: Observed | None) -> Outcome:
        return (
            outcome_of(action) if action.verb is Verb.LEAVE else await self._writer.execute(action, desired, observed)
        )

    async def _read(self, target: Target) -> DataWire | None:
        try:
            wire = await self._cluster.read(target, self._client)
        except NotFound:
            return None
        self._cluster.informer(target.kind).observe_unmanaged(wire.metadata, self._writer.sync)
        assert isinstance(wire, DataWire)  # noqa: S101 - only kinds with data go both ways
        return wire

    async def _agree(
        self, upstream: Upstream, desired: Desired, observed: Observed, meta: ManagedMeta, planned: Action
    ) -> Outcome:
        """Write the source, then the copy with the new base."""
        agreement, action, is_noop = self._plan(upstream, desired, observed, meta, planned)
        if action.change is None:
            return outcome_of(action)
        if agreement.up:
            if (base := _base(desired, observed, planned)) is not None:
                digests = observed.value_digests or {}
                sent = {path: digests.get(path, "") for path in (*agreement.up.set, *agreement.up.unset)}
                self._sent.note(_pair_of(upstream, observed), base, sent)
            if (outcome := await self._write_up(upstream, desired, observed, agreement)) is not None:
                return outcome
        if is_noop:
            await self._writer.renew(observed)
            self._sent.forget(_pair_of(upstream, observed))
            outcome = outcome_of(structs.replace(action, verb=Verb.LEAVE))
            return structs.replace(outcome, written=Verb.UPDATE) if agreement.up else outcome
        outcome = await self._writer.execute(action, desired, observed)
        if outcome.written is not None:
            self._sent.forget(_pair_of(upstream, observed))
        return outcome

    def _plan(
        self, upstream: Upstream, desired: Desired, observed: Observed, meta: ManagedMeta, planned: Action
    ) -> tuple[Agreement, Action, bool]:
        """Decide value by value, without writes. Return also whether the downstream object needs no write."""
        up, everything = desired.digests_by_path(), observed.value_digests or {}
        base = self._sent.added_to(_base(desired, observed, planned), _pair_of(upstream, observed), up)
        if (refusal := too_many_comparisons(desired, self._globs, len(up) + len(everything))) is not None:
            return Agreement(), refusal, True
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
        change = Change(
            replace_all=False,
            set=agreement.down.set,
            unset=agreement.down.unset,
            digest=combined_digest({**(agreement.downstream or {}), **hidden}),
            base=recorded.down,
            mode=planned.change.mode
            if planned.change is not None
            else (observed.marker.mode if observed.marker else "Created"),
            guard_version=True,
            metadata_only=not agreement.down,
        )
        verb = Verb.ADOPT if planned.verb is Verb.ADOPT else Verb.UPDATE
        action = _action(desired, agreement, change, verb)
        is_noop = (
            verb is Verb.UPDATE
            and planned.reason != "Reowned"
            and change.metadata_only
            and observed.base == change.base
            and observed.marker is not None
            and (observed.marker.digest, observed.marker.key) == (change.digest, desired.key)
            and not metadata_differs(desired, observed, exact=False)
        )
        return agreement, action, is_noop

    async def _write_up(
        self, upstream: Upstream, desired: Desired, observed: Observed, agreement: Agreement
    ) -> Outcome | None:
        """Write the downstream's changes to the source; None when that is done."""
        assert observed.content is not None  # noqa: S101 - it was read with its body
        target = upstream.target
        if upstream.manifest.get("immutable") is True:
            message = f"{names_of(agreement.up.set or agreement.up.unset)} changed here, but the source is immutable"
            return Outcome(target=desired.target, state="Conflict", reason="SourceImmutable", message=message)
        patch: list[dict[str, Any]] = [
            {"op": "test", "path": "/metadata/uid", "value": upstream.uid},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": upstream.version},
        ]
        patch += [
            {"op": "add", "path": f"/{part}", "value": {}}
            for part in ("data", "binaryData")
            if upstream.manifest.get(part) is None and any(path.startswith(f"{part}/") for path in agreement.up.set)
        ]
        patch += [{"op": "remove", "path": self._pointer(path)} for path in agreement.up.unset]
        patch += [
            {"op": "add", "path": self._pointer(path), "value": observed.content.value_at(path)}
            for path in agreement.up.set
        ]
        informer = self._cluster.informer(target.kind)
        try:
            wire = await self._client.patch(
                informer.resource, target.name, target.namespace, patch, PatchKind.JSON, type=DataWire
            )
        except (Conflict, Invalid, NotFound) as error:
            # A patch that no longer fits the source is invalid too.
            if not isinstance(error, Invalid) or await self._has_moved(upstream):
                message = "the source changed while it was being written; it is tried again"
                return Outcome(target=desired.target, state="Pending", reason=SOURCE_MOVED, message=message, retry=True)
            names = names_of((*agreement.up.set, *agreement.up.unset))
            message = f"undo the change of {names} in the copy, since the source {target} cannot take it: {error}"
            return Outcome(target=desired.target, state="Failed", reason="SourceRefused", message=message, retry=True)
        informer.observe_unmanaged(wire.metadata, self._writer.sync)
        return None

    async def _has_moved(self, upstream: Upstream) -> bool:
        """Whether the source has changed since it was read."""
        wire = await self._read(upstream.target)
        return wire is None or (wire.metadata.uid, wire.metadata.resource_version) != (upstream.uid, upstream.version)

    def _later(self, upstream: Upstream, down: ManagedMeta, changed: Changes) -> Side:
        """Return the side that was written later. With equal times the versions decide, which one server counts."""
        ups, downs = (self._last_write_wins(paths) for paths in (changed.up, changed.down))
        if not ups or not downs:
            return "Upstream"
        order: list[Side] = ["Upstream", "Downstream"]
        if _number(upstream.version) > _number(down.resource_version):
            order.reverse()
        return later_side(
            write_time_of(upstream.manifest["metadata"].get("managedFields") or (), self._source_paths(ups)),
            write_time_of(_entries(down), downs),
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


def _pair_of(upstream: Upstream, observed: Observed) -> str:
    return f"{upstream.uid}/{observed.uid}"


def _base(desired: Desired, observed: Observed, planned: Action) -> Base | None:
    """Return the last agreed content; None on first contact, and if the record is not valid."""
    marker = observed.marker
    if planned.verb is Verb.ADOPT or marker is None or (desired.key and marker.key != desired.key):
        return None
    if observed.base is not None:
        return Base.same(observed.base)
    # Until now, only the source could change the copy.
    return Base.same(observed.value_digests or {}) if marker.digest == observed.digest else None


def _action(desired: Desired, agreement: Agreement, change: Change, verb: Verb) -> Action:
    flowed = [
        f"{names_of((*flow.set, *flow.unset))} to the {side}"
        for flow, side in ((agreement.up, "source"), (agreement.down, "destination"))
        if flow
    ]
    reason, message = "Agreed", f"agreed: {', '.join(flowed)}" if flowed else "both sides agree"
    if agreement.overruled:
        reason, message = "Overruled", f"{message}; an edit gave way: {names_of(agreement.overruled)}"
    if agreement.conflicts:
        reason = "EditedOnBothSides"
        message = f"changed on both sides, each keeps its own value: {names_of(agreement.conflicts)}"
        if agreement.deferred:
            message += f"; waiting for that: {names_of(agreement.deferred)}"
    return Action(
        verb=verb,
        target=desired.target,
        reason=reason,
        message=message,
        state="Conflict" if agreement.conflicts else "Synced",
        change=change,
        conflicts=agreement.conflicts,
    )


def _entries(meta: ManagedMeta) -> Iterator[Mapping[str, object]]:
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
