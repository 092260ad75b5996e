"""Status upward: writes the combined status of the copies into the status of their upstream object.

    copies as observed -> one status (`core.status_upward`) -> PATCH of the `status` subresource, where it differs

Nothing but `/status` is written. A write names the UID and the version of the object that the status was made for: a
write that comes too late is a conflict, and the status is made again. An object of which nothing has changed costs a
comparison; one whose status changes all the time is written twice a second (`SPACING`), with the last state last.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import structlog
from msgspec import Struct, structs

from syncline.api.common import ObjectMeta
from syncline.controllers.lowered import SourceObject
from syncline.controllers.requeue import NO_REQUEUE, Requeue
from syncline.controllers.targets.copy_statuses import (
    CopyView,
    StatusInputs,
    StatusUnknown,
    UnfitStatus,
    UpwardItem,
    copy_statuses,
)
from syncline.controllers.targets.upward_memory import (
    STATUS,
    MissingRight,
    StatusMemo,
    UpwardMemory,
    right_of,
    status_of,
    without_empty,
)
from syncline.controllers.targets.upward_rights import UpwardRight, UpwardRights
from syncline.core.digest import body_digest
from syncline.core.group_kind import GroupKind
from syncline.core.objects import MAX_STATUS, PLAIN, Target
from syncline.core.outcome import Outcome
from syncline.core.ownership import object_id_of
from syncline.core.remedies import lacks_right, with_cause
from syncline.core.status_upward import ReplicasMode, upward_status
from syncline.engine.access import AccessRequest
from syncline.engine.claims import Claims
from syncline.engine.cluster import Cluster
from syncline.engine.fanout import IN_PROGRESS, FanOut
from syncline.engine.status_writers import place_of
from syncline.engine.statuses import is_refusal
from syncline.engine.write_loops import WriteLoops
from syncline.engine.write_outcomes import failure
from syncline.kube.client import Client, PatchKind
from syncline.kube.errors import ApiError, Conflict, Forbidden, Invalid, KindNotServed, KubeError, NotFound
from syncline.kube.resources import Resource
from syncline.kube.reviews import may_self
from syncline.telemetry import metrics

log = structlog.get_logger(__name__)

Json = dict[str, Any]

# Seconds between two writes of the status of one object.
SPACING = 0.5
# At most this many missing rights are reviewed in a pass.
RIGHTS_ASKED = 8
REFUSED = "StatusRefused"
TOO_LARGE = "StatusTooLarge"
UNREADABLE = "StatusUnreadable"
OWNED_BY_OTHER = "StatusOwnedByOther"


class UpwardPass(Struct, frozen=True, kw_only=True):
    """The statuses of one sync in one reconcile."""

    sync: str
    """The sync, as `Owner.sync` names it."""
    created: str
    """When the sync was created: the oldest of several syncs writes."""
    upstream: Cluster
    client: Client
    """With the identity that the sync has upstream."""
    fan_out: FanOut
    """For these writes only."""
    mode: ReplicasMode = "Duplicate"
    retries: int = 5
    delay: float = 1.0
    """Seconds before each try after a conflict."""
    requested: tuple[object, ...] = ()
    """What the user of the sync requests. After a change of it, missing rights are reviewed at once."""
    workspaces: Mapping[str, tuple[Cluster, Client]] = {}
    """The upstreams by logical cluster, where a sync has several."""

    def at(self, target: Target) -> tuple[Cluster, Client]:
        """Return the upstream of an object, and the client for it."""
        return self.workspaces.get(target.cluster) or (self.upstream, self.client)


class UpwardResult(Struct, frozen=True, kw_only=True):
    """The result of a pass."""

    written: int = 0
    failed: tuple[Outcome, ...] = ()
    """Why the status of some objects is not written; the targets are those objects, with their workspace, if any."""
    forbidden: str = ""
    """The right that is missing upstream; empty if none is."""
    without_status: frozenset[str] = frozenset()
    """The kinds that have no status subresource upstream: their objects are skipped."""
    updated: tuple[SourceObject, ...] = ()
    """The objects as the server answered to our writes."""
    open: frozenset[Target] = frozenset()
    """The objects whose status is not up to date yet."""
    incomplete: bool = False
    """Whether some objects were not looked at, because the upstream did not say what it serves, or what is allowed."""
    requeue: Requeue = NO_REQUEUE


class _Pass:
    """The findings of one pass so far."""

    def __init__(self, memory: UpwardMemory, one: UpwardPass) -> None:
        self.memory = memory
        self.one = one
        self.view = CopyView(one.mode)
        self.resources: dict[tuple[str, str], Resource] = {}
        """By workspace and kind."""
        self.without_status: set[str] = set()
        self.written = 0
        self.updated: list[SourceObject] = []
        self.incomplete = False
        self.requeue = NO_REQUEUE

        self._places: dict[str, str] = {}
        self.away: set[str] = set()
        """The targets that cannot be observed."""

    def place(self, target: Target) -> str:
        """Name the upstream of an object."""
        if target.cluster not in self._places:
            self._places[target.cluster] = place_of(self.one.at(target)[0])
        return self._places[target.cluster]

    def resource(self, target: Target) -> Resource:
        return self.resources[target.cluster, target.kind]

    def right(self, target: Target) -> UpwardRight:
        """Return the right to write the status of an object."""
        upstream, client = self.one.at(target)
        access = AccessRequest(
            verb="patch", resource=self.resource(target), namespace=target.namespace, subresource=STATUS
        )
        return UpwardRight(upstream=upstream, client=client, access=access)

    def loop_id(self, target: Target) -> str:
        return f"{object_id_of(self.place(target), target)}/{STATUS}"

    def waits_for(self, item: UpwardItem) -> bool:
        """Whether an unobserved target must be waited for."""
        left = self.memory.grace_left(self.view.inputs(item).away)
        if left > 0:
            self.look_again(left)
        return left > 0

    def look_again(self, seconds: float) -> None:
        self.requeue |= Requeue(after=seconds)


class _Made(Struct, frozen=True):
    """A status to write, and its digest."""

    fields: Json
    digest: str


class _Moved(Exception):  # noqa: N818 - a state
    """The upstream object has changed since the status was made."""


class StatusUpward:
    """Writes the statuses of upstream objects for the syncs of one kind."""

    def __init__(self, claims: Claims, write_loops: WriteLoops) -> None:
        self._claims = claims
        self._write_loops = write_loops
        self._rights = UpwardRights()
        self._syncs: dict[str, UpwardMemory] = {}

    def forget(self, sync: str) -> None:
        """Write no status for a sync any more: it is gone, suspended, or does not want it."""
        memory = self._syncs.pop(sync, None)
        if memory is not None:
            memory.kept.keep(())
        self._claims.status_writers.drop(sync)
        self._rights.forget(sync)

    async def run(self, items: Sequence[UpwardItem], one: UpwardPass, *, whole: bool = True) -> UpwardResult:
        """Write the statuses that differ; an error of the API server becomes part of the result.

        `whole`: these are all objects of the sync. Else nothing has changed for the others since the last pass, in
        which all was in order.
        """
        memory = self._syncs.setdefault(one.sync, UpwardMemory())
        found = _Pass(memory, one)
        memory.note_request(one.requested)
        items = [item for item in items if item.copies or item.unreachable]
        try:
            await self._find_kinds(items, found)
        except KubeError as error:
            log.warning("cannot tell which kinds have a status upstream", error=str(error))
            return UpwardResult(requeue=Requeue(backoff=True), incomplete=True)
        items = [item for item in items if _kind_at(item) in found.resources]
        if whole:
            memory.kept.keep(items)
        self._take(items, found, whole=whole)
        await self._review_rights(found)
        failed = await self._yield_to_older(items, found) if whole else []
        lost = {outcome.target for outcome in failed}
        due: list[UpwardItem] = []
        for item in items:
            target = item.source.target
            if target in lost or right_of(target) in memory.refused:
                continue
            memo, inputs = memory.memos[target], found.view.inputs(item)
            found.away.update(inputs.away)
            if not inputs.is_same(memo.inputs):
                due.append(item)
            elif memo.outcome is not None:
                failed.append(memo.outcome)
        if whole:
            memory.note_away(found.away)
        failed += await self._write_due(due, found)
        late = frozenset(
            item.source.target
            for item in due
            if not found.view.inputs(item).is_same(memory.memos[item.source.target].inputs)
        )
        return structs.replace(self._result(failed, found), open=late)

    async def _write_due(self, due: Sequence[UpwardItem], found: _Pass) -> list[Outcome]:
        if not await found.memory.kept.read_missing([found.view.inputs(item) for item in due]):
            found.requeue |= Requeue(backoff=True)
        jobs = [(item.source.target, partial(self._bring_up, item, found)) for item in due]
        outcomes = await found.one.fan_out.run(jobs, _no_progress) if jobs else []
        late = [outcome for outcome in outcomes if outcome.reason == IN_PROGRESS]
        return [outcome for outcome in outcomes if outcome not in late]

    def _result(self, failed: Sequence[Outcome], found: _Pass) -> UpwardResult:
        refused = found.memory.refused
        forbidden = ""
        if refused:
            now = time.monotonic()
            found.look_again(max(0.0, min(missing.again for missing in refused.values()) - now))
            first = min(refused)
            more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
            forbidden = f"{refused[first].why}{more}"
        if any(outcome.retry for outcome in failed):
            found.requeue |= Requeue(backoff=True)
        return UpwardResult(
            written=found.written,
            failed=tuple(failed),
            forbidden=forbidden,
            without_status=frozenset(found.without_status),
            updated=tuple(found.updated),
            incomplete=found.incomplete,
            requeue=found.requeue,
        )

    async def _find_kinds(self, items: Sequence[UpwardItem], found: _Pass) -> None:
        """Find the kinds that have a status subresource upstream. Raises what any read raises."""
        for item in {_kind_at(item): item for item in reversed(items)}.values():
            kind = item.source.target.kind
            version = str(item.source.manifest.get("apiVersion", "")).rpartition("/")[2] or None
            try:
                upstream, _ = found.one.at(item.source.target)
                served = await upstream.discovery.served(*GroupKind.parse(kind), version)
            except KindNotServed as error:
                if not error.certain:
                    raise
                continue
            except KubeError:
                if not item.source.target.cluster:
                    raise
                found.requeue |= Requeue(backoff=True)  # a workspace blocks no other
                found.incomplete = True
                continue
            if STATUS in served.subresources:
                found.resources[_kind_at(item)] = served.resource
            else:
                found.without_status.add(kind)

    def _take(self, items: Sequence[UpwardItem], found: _Pass, *, whole: bool) -> None:
        """Record the objects of this pass, and forget all others if these are all of the sync."""
        before = found.memory.memos
        memos = {} if whole else before
        for item in items:
            target = item.source.target
            memo = memos[target] = before.get(target) or StatusMemo(item.source)
            memo.take(item.source)
        if whole:
            found.memory.memos = memos
            rights = {right_of(target) for target in memos}
            found.memory.refused = {right: one for right, one in found.memory.refused.items() if right in rights}

    async def _review_rights(self, found: _Pass) -> None:
        """Review missing rights again."""
        now, refused = time.monotonic(), found.memory.refused
        due = sorted((missing.again, right) for right, missing in refused.items() if missing.again <= now)
        for _, right in due[:RIGHTS_ASKED]:
            resource = found.resources[right[2], right[0]]
            attributes = {
                "verb": "patch",
                "group": resource.group,
                "resource": resource.plural,
                "subresource": STATUS,
                "namespace": right[1],
            }
            try:
                _, client = found.one.at(Target("", "", cluster=right[2]))
                allowed = await may_self(client, attributes, fair_key=found.one.sync)
            except Forbidden:
                allowed = True  # only the write itself can tell
            except KubeError:
                allowed = False
            if allowed:
                del refused[right]
            else:
                refused[right] = refused[right].refused(now)

    async def _yield_to_older(self, items: Sequence[UpwardItem], found: _Pass) -> list[Outcome]:
        """Return the objects whose status an older sync writes. A sync without the right to write blocks nobody."""
        writers, one = self._claims.status_writers, found.one
        targets = [item.source.target for item in items if right_of(item.source.target) not in found.memory.refused]
        rights = {right_of(target): target for target in targets}
        granted = await self._rights.granted(one.sync, {right: found.right(target) for right, target in rights.items()})
        found.incomplete = found.incomplete or self._rights.is_unsure(one.sync)
        writers.put(
            one.sync, one.created, frozenset((found.place(it), it) for it in targets if right_of(it) in granted)
        )
        outcomes: list[Outcome] = []
        names: dict[str, str] = {}
        for (_, target), winner in writers.lost(one.sync).items():
            if winner not in names:
                names[winner] = await self._claims.name_for(winner, by=one.sync)
            found.memory.memos[target].inputs = None
            message = f"{names[winner]} is older and writes the status of this upstream object"
            outcomes.append(Outcome(target=target, state="Skipped", reason=OWNED_BY_OTHER, message=message))
        return outcomes

    async def _bring_up(self, item: UpwardItem, found: _Pass) -> Outcome | None:
        """Write the status of one object, if it differs; return why it cannot be written."""
        target, one = item.source.target, found.one
        memo = found.memory.memos[target]
        # Another object of the namespace may just have been refused.
        if right_of(target) in found.memory.refused or found.waits_for(item):
            return None
        try:
            for attempt in range(1, one.retries + 2):
                try:
                    return await self._attempt(item, memo, found)
                except _Moved:
                    if memo.source.meta.uid != item.source.meta.uid:
                        return None  # another object of this name: the next reconcile reads it
                resource = found.resource(target).plural
                log.info("an object changed while its status was written", attempt=attempt, resource=resource)
                if attempt <= one.retries:
                    await asyncio.sleep(one.delay)
        except StatusUnknown:
            found.requeue |= Requeue(backoff=True)
            return None
        except KubeError as error:
            return self._failed(target, error, found)
        message = f"it changed {one.retries + 1} times while its status was being written; it is tried again"
        return Outcome(target=target, state="Failed", reason="Contended", message=message, retry=True)

    async def _attempt(self, item: UpwardItem, memo: StatusMemo, found: _Pass) -> Outcome | None:
        """Make the status and write it. Raises `_Moved` if the object has changed meanwhile."""
        target = item.source.target
        inputs = found.view.inputs(item)
        try:
            status = self._made(item, memo, inputs, found)
        except UnfitStatus as unfit:
            return memo.settle(inputs, _unfit(target, unfit))
        if status is None:
            return memo.settle(inputs)
        if (left := memo.written + SPACING - time.monotonic()) > 0:
            found.look_again(left)
            return None
        if (paused := self._paused(target, status, found)) is not None:
            return paused
        try:
            await self._write(target, memo, inputs, status, found)
        except ApiError as error:
            if isinstance(error, Conflict | Invalid) and await self._has_moved(target, memo, error, found):
                metrics.count_status_write(target.kind, "conflict")
                raise _Moved from error
            if not is_refusal(error) or lacks_right(str(error)):
                raise
            metrics.count_status_write(target.kind, "refused")
            return memo.settle(inputs, _refused(target, error))
        return None

    def _made(self, item: UpwardItem, memo: StatusMemo, inputs: StatusInputs, found: _Pass) -> _Made | None:
        """Return the status to write; None if it is unchanged. Raises `UnfitStatus` and `StatusUnknown`."""
        source = memo.source
        there = status_of(source.manifest)
        copies = copy_statuses(item, inputs)
        if not any(copy.generation or copy.status or not copy.reachable for copy in copies):
            return None  # no copy exists yet: the last status stays
        try:
            made = upward_status(source.target.kind, source.meta.generation, there, copies, found.one.mode)
            if made is None:
                return None
            made = found.memory.kept_fields(source.target.kind, made, there)
            status, present = _Made(made, _digest(made)), _digest(there)
            size = len(msgspec.json.encode(made))
        except (RecursionError, OverflowError):
            raise UnfitStatus("a copy has a status with numbers or levels beyond all measure") from None
        if status.digest == present or (status.digest == memo.sent and present == memo.answered):
            return None
        if size > MAX_STATUS:
            raise UnfitStatus("the copies together have a status that is too large", too_large=True)
        return status

    def _paused(self, target: Target, status: _Made, found: _Pass) -> Outcome | None:
        """Return the outcome of an object whose status another writer keeps reverting."""
        earlier = self._write_loops.paused_by(found.loop_id(target), status.digest, time.monotonic())
        if earlier is None:
            return None
        message = (
            f"written {earlier.count} times in a short while and changed again each time; set statusSync: false, or "
            "stop what else writes this status upstream"
        )
        return Outcome(target=target, state="Conflict", reason="WriteLoop", message=message, retry=True)

    async def _write(self, target: Target, memo: StatusMemo, inputs: StatusInputs, status: _Made, found: _Pass) -> None:
        source, one = memo.source, found.one
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": source.meta.uid},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": source.meta.resource_version},
            {"op": "add", "path": "/status", "value": status.fields},
        ]
        upstream, client = one.at(target)
        answer: Json = await client.patch(
            found.resource(target),
            target.name,
            target.namespace or None,
            patch,
            PatchKind.JSON,
            subresource=STATUS,
            fair_key=one.sync,
        )
        now = time.monotonic()
        memo.source = _read(source, answer)
        answered, version = status_of(answer), memo.source.meta.resource_version
        memo.written, memo.sent, memo.answered = now, status.digest, _digest(answered)
        memo.settle(inputs)
        found.memory.learn_dropped(target.kind, status.fields, answered)
        self._write_loops.record(found.loop_id(target), status.digest, version, now)
        if version != source.meta.resource_version:
            metrics.count_status_write(target.kind, "written")
            found.written += 1
            found.updated.append(memo.source)
            if upstream.is_open(target.kind):
                # Our own write needs no reconcile, unless it hides a change that was made just before it.
                by = "" if memo.overtaken else one.sync
                upstream.informer(target.kind).observe_unmanaged(memo.source.meta, by)

    async def _has_moved(self, target: Target, memo: StatusMemo, error: ApiError, found: _Pass) -> bool:
        """Read an object again; return whether a change of it explains the refused write."""
        resource, before = found.resource(target), memo.source.meta
        _, client = found.one.at(target)
        live: Json = await client.get(resource, target.name, target.namespace or None, fair_key=found.one.sync)
        memo.source = _read(memo.source, live)
        now = memo.source.meta
        is_other = (now.uid, now.resource_version) != (before.uid, before.resource_version)
        memo.overtaken = memo.overtaken or is_other
        return is_other or isinstance(error, Conflict)

    def _failed(self, target: Target, error: KubeError, found: _Pass) -> Outcome | None:
        """Return the outcome of a failed write. A missing right concerns the whole namespace."""
        if isinstance(error, Forbidden) and lacks_right(str(error)):
            metrics.count_status_write(target.kind, "forbidden")
            resource = found.resource(target)
            who = found.one.at(target)[1].user or "the account of the upstream's credential"
            what = f"{resource.plural}/status" + (f" of {resource.group}" if resource.group else "")
            message = with_cause(f"give {who} the right to patch {what} upstream", error)
            found.memory.refused[right_of(target)] = MissingRight(message).refused(time.monotonic())
            return None
        if isinstance(error, NotFound):
            if error.about in (target.name, target.namespace):
                return None  # it is gone: the next reconcile does not have it
            found.one.at(target)[0].discovery.forget()
        metrics.count_status_write(target.kind, "failed")
        return failure(target, error)


def _kind_at(item: UpwardItem) -> tuple[str, str]:
    return item.source.target.cluster, item.source.target.kind


async def _no_progress(_: list[Outcome]) -> None:
    """Do nothing: nobody follows this progress."""


def _digest(status: Json) -> str:
    return body_digest(without_empty(status), PLAIN)


def _read(source: SourceObject, live: Json) -> SourceObject:
    return structs.replace(source, meta=msgspec.convert(live.get("metadata", {}), ObjectMeta), manifest=live)


def _unfit(target: Target, unfit: UnfitStatus) -> Outcome:
    reason = TOO_LARGE if unfit.too_large else UNREADABLE
    limit = f" (more than {MAX_STATUS // 1024} KiB)" if unfit.too_large else ""
    message = f"{unfit}{limit}, so the status upstream stays as it is"
    return Outcome(target=target, state="Failed", reason=reason, message=message)


def _refused(target: Target, error: ApiError) -> Outcome:
    message = f"the upstream refuses the status that the copies report; it stays until one of the two changes: {error}"
    return Outcome(target=target, state="Failed", reason=REFUSED, message=message)
