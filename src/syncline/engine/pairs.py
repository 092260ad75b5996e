"""Applies one pair, an upstream object and its copy: both read live, the upstream written first, the base last.

The base is stored on the copy, in the same request as the write that it describes: a dry run shows before what the
server stores. A crash in between leaves the same value on both sides, which is no difference, and the next reconcile
does the rest.
"""

import asyncio
import random
import time
from collections.abc import Callable
from copy import deepcopy

import structlog
from msgspec import Struct, structs

from syncline.core.digest import combined_digest, short_digest
from syncline.core.json_diff import diff_patch
from syncline.core.last_write import later_side, write_time_of
from syncline.core.merge import ValueDigests
from syncline.core.objects import Desired, Observed
from syncline.core.outcome import Outcome, outcome_of
from syncline.core.ownership import OWNER_LABEL, is_proven, object_id_of
from syncline.core.pair_plan import (
    PairPlan,
    base_of,
    decide,
    immutable_copy,
    is_recreated,
    managed_entries,
    marker_digest,
    recorded,
    report,
    resolution_of,
    stops,
    too_large,
    without_resolve,
)
from syncline.core.pair_rules import PairRules, packed, unpacked
from syncline.core.pair_values import PairSide, ValueReader, desired_manifest, without_defaults
from syncline.core.plan import Action, Change, Verb
from syncline.core.request_bodies import Json, base_seal, create_body, marks_of
from syncline.core.source_history import is_another
from syncline.core.strip import NotCopyable
from syncline.core.twoway import Base, Side, changes
from syncline.engine.cluster import Cluster
from syncline.engine.pair_memory import PairMemory
from syncline.engine.pair_sides import Copy, CopySide, UpstreamSide
from syncline.engine.pair_upward import DesiredOf, PairMoved, Problem, Upward, UpwardWriter, moved
from syncline.engine.twoway import Upstream
from syncline.engine.write_outcomes import failure
from syncline.engine.writer import Writer
from syncline.kube.client import Client
from syncline.kube.errors import ApiError, Invalid, KubeError

log = structlog.get_logger(__name__)


class _Recording(Struct, frozen=True, kw_only=True):
    """A write of a copy, its expected result, and the base for any other result."""

    desired: Desired
    change: Change
    expected: ValueDigests
    rebase: Callable[[ValueDigests], Base]


class Pairs:
    """Applies pairs to one target cluster on behalf of one sync, by one set of rules."""

    def __init__(
        self,
        upstream: Cluster,
        upstream_client: Client,
        writer: Writer,
        rules: PairRules,
        *,
        memory: PairMemory,
        desired_of: DesiredOf,
    ) -> None:
        self._above = UpstreamSide(upstream, upstream_client, writer.sync)
        self._below = CopySide(writer)
        self._upward = UpwardWriter(self._above, writer.write_loops, desired_of)
        self._writer = writer
        self._rules = rules
        self._memory = memory
        self._desired_of = desired_of

    async def apply(self, source: Upstream, desired: Desired, *, created_once: bool = False) -> Outcome:
        """Make the two objects agree. An error of an API server becomes the outcome; nothing is raised."""
        target, attempt = desired.target, 0
        try:
            while True:
                try:
                    return await self._apply_once(source, desired, created_once=created_once)
                except PairMoved:
                    attempt += 1
                if attempt > self._rules.max_retries:
                    return _given_up(desired, attempt)
                await self._back_off(desired, attempt)
                found = await self._above.read(source)
                wanted = self._desired_of(found) if found is not None else None
                if found is None or wanted is None:
                    return _upstream_gone(desired)
                source, desired = found, wanted
        except KubeError as error:
            return failure(target, error)
        except NotCopyable as error:
            return Outcome(target=target, state="Failed", reason="NotCopyable", message=str(error))

    async def preview(self, source: Upstream, desired: Desired, *, created_once: bool = False) -> Action:
        """Return the action; the message names the changes upstream. Raises the errors of a read."""
        reader = await self._reader(desired)
        copy = await self._below.read(desired)
        planned = await self._writer.plan(desired, copy.observed if copy else None, created_once=created_once)
        if copy is None or stops(planned):
            return planned
        plan = await self._decide(source, desired, copy, planned, reader)
        if (refusal := _refusal(plan, copy.observed)) is not None:
            return planned if is_recreated(refusal, plan, planned) else refusal
        base = plan.agreement.base_after(down=plan.down.stored if not plan.agreement.down else None) or Base.same({})
        marked = recorded(plan, desired, copy.observed)
        change = _change(marked, copy, planned, base, reader, resolved=plan.resolution.counted)
        verb = Verb.ADOPT if planned.verb is Verb.ADOPT else Verb.UPDATE
        if not plan.agreement.up and _is_noop(plan, marked, change, copy.observed, planned):
            verb = Verb.LEAVE
        after = self._merged(plan, copy, reader)
        self._mark(after, marked, change)
        return structs.replace(report(plan, verb, change, skips=self._rules.strategy == "Skip"), after=after)

    async def is_edited(self, desired: Desired) -> bool:
        """Whether the copy was changed since the two sides last agreed. Raises what a read raises.

        `desired` names the copy, the version of its kind, and the fields that are left to others (`ignored`). A copy
        whose base cannot be verified counts as changed.
        """
        copy = await self._below.read(desired)
        if copy is None:
            return False
        observed = copy.observed
        marker = observed.marker
        if marker is None or not is_proven(observed, self._writer.owner):
            return True
        if not marker.base:
            return observed.digest != marker.digest
        reader = await self._reader(desired)
        if observed.base is None or base_seal(observed.base) != marker.base or marker.key != reader.key.id:
            return True
        base = unpacked(observed.base)
        return base.down != reader.downstream(copy.manifest, {*base.up, *base.down}).digests

    async def _apply_once(
        self, source: Upstream, desired: Desired, *, created_once: bool, overwritten: Outcome | None = None
    ) -> Outcome:
        """`overwritten`: the outcome of the write that has just made the copy exactly the upstream object."""
        reader = await self._reader(desired)
        copy = await self._below.read(desired)
        planned = await self._writer.plan(desired, copy.observed if copy else None, created_once=created_once)
        if copy is None:
            return outcome_of(planned) if planned.verb is Verb.LEAVE else await self._create(desired, planned, reader)
        if stops(planned):
            await self._writer.renew(copy.observed)
            return outcome_of(planned)
        if planned.verb is Verb.ADOPT and planned.change is not None and planned.change.exact:
            # If it was overwritten just now, somebody has removed our marks at once.
            return overwritten or await self._overwrite(source, desired, planned, copy, created_once=created_once)
        plan = await self._decide(source, desired, copy, planned, reader)
        if (refusal := _refusal(plan, copy.observed)) is not None:
            stays = overwritten is not None or not is_recreated(refusal, plan, planned)
            return outcome_of(refusal) if stays else await self._recreate(source, plan, copy, refusal, reader)
        upward = await self._upward.write(source, plan, copy, reader)
        outcome = await self._write_down(plan, upward, copy, planned, reader)
        if plan.resolution.on_upstream and upward.problem is None:
            return await self._remove_resolve(upward.source, outcome)
        return outcome

    async def _overwrite(
        self, source: Upstream, desired: Desired, planned: Action, copy: Copy, *, created_once: bool
    ) -> Outcome:
        """Make an object exactly the upstream object, as planned, and record that as the base.

        Without a base, the first edit of the copy would be a conflict.
        """
        try:
            outcome = await self._writer.execute(planned, desired, copy.observed)
        except KubeError as error:
            raise moved(error) from error
        if outcome.written is None or outcome.state != "Synced":
            return outcome
        agreed = await self._apply_once(source, desired, created_once=created_once, overwritten=outcome)
        return outcome if agreed.state == "Synced" else agreed

    async def _recreate(
        self, source: Upstream, plan: PairPlan, copy: Copy, refusal: Action, reader: ValueReader
    ) -> Outcome:
        """Delete a copy that cannot be changed, and create it again from its upstream object.

        The upstream object gets the edits of the copy first. If it does not take them, the copy stays.
        """
        upward = await self._upward.write(source, plan, copy, reader)
        planned = await self._writer.plan(upward.desired, copy.observed)
        if upward.problem is not None or planned.verb is not Verb.RECREATE:
            return outcome_of(refusal)
        outcome = await self._overwrite(upward.source, upward.desired, planned, copy, created_once=False)
        return structs.replace(outcome, upward=upward.written)

    async def _reader(self, desired: Desired) -> ValueReader:
        cluster, body = self._writer.cluster, desired.body
        version = body.api_version if body is not None else "v1"
        shape = await self._memory.shape_of(cluster, desired.target.kind, version)
        return ValueReader(shape, cluster.key, desired.ignored)

    async def _decide(
        self, source: Upstream, desired: Desired, copy: Copy, planned: Action, reader: ValueReader
    ) -> PairPlan:
        """Decide value by value; nothing is written."""
        up = reader.upstream(desired)
        known = {*up.digests, *(copy.observed.base or ())}
        sides = up, reader.downstream(copy.manifest, known)
        rules = self._rules
        is_ending = (source.manifest.get("metadata") or {}).get("deletionTimestamp") is not None
        if is_ending or self._is_taken_over(copy):
            rules = structs.replace(rules, two_way=False)
        base = base_of(desired, copy.observed, planned, self._writer.owner, sides)
        if base is None:
            sides = up, without_defaults(up, sides[1], await self._defaults(desired, reader))
        later = self._later(source, desired, copy, base, sides)
        marker = copy.observed.marker
        counted = marker.resolved if marker is not None else ""
        resolution = resolution_of(source.manifest, copy.manifest, two_way=rules.two_way, counted=counted)
        return decide(desired, base, sides, rules, empty_map=reader.empty_map, later=later, resolution=resolution)

    def _is_taken_over(self, copy: Copy) -> bool:
        """Whether the object was adopted, and the sync no longer adopts objects.

        Otherwise, a user who can make a sync write to a cluster could read from it.
        """
        marker = copy.observed.marker
        return marker is not None and marker.mode != "Created" and not self._writer.takes_over

    async def _defaults(self, desired: Desired, reader: ValueReader) -> ValueDigests:
        """Return the defaults of the server for the desired object: without a base, they would look like edits.

        They come from a dry run of a create under another name. Without an answer, there are none.
        """
        object_id = self._object_id(desired)
        body = create_body(desired, self._writer.owner, object_id, Change(digest=desired.digest), desired.content)
        name = f"{desired.target.name[:40]}-{short_digest(object_id)}"
        body["metadata"] = {**desired_manifest(desired)["metadata"], "name": name}
        try:
            answer = await self._below.answer_to_create(desired, body)
        except ApiError as error:
            log.debug("the defaults are not known", error=str(error), **desired.target.fields())
            return {}
        return reader.downstream(answer, ()).digests

    def _later(
        self, source: Upstream, desired: Desired, copy: Copy, base: Base | None, sides: tuple[PairSide, PairSide]
    ) -> Side:
        """Return the side that was written later. Versions of two servers cannot be compared."""
        if self._rules.strategy != "LastWriteWins":
            return "Upstream"
        up, down = (side.digests for side in sides)
        order = self._memory.order(self._pair_id(desired), combined_digest(up), combined_digest(down))
        changed = changes(base, up, down, oneway=self._rules.flowing_down({*up, *down}))
        skews = self._above.client.skew, self._writer.client.skew
        return later_side(
            write_time_of(managed_entries(source.manifest), changed.up),
            write_time_of(managed_entries(copy.manifest), changed.down),
            now=time.time() + max(skews),
            seen_order=order,
            skew=skews[0] - skews[1],
        )

    async def _create(self, desired: Desired, planned: Action, reader: ValueReader) -> Outcome:
        """Create the copy with its base: what the upstream has, and what the server makes of it."""
        up = reader.upstream(desired).digests
        owner, object_id = self._writer.owner, self._object_id(desired)
        if (refusal := too_large(desired.target, Base.same(up))) is not None:
            return outcome_of(refusal)
        first = Change(digest=desired.digest, base=packed(Base.same(up)))
        try:
            body = create_body(desired, owner, object_id, first, desired.content)
            answer = await self._below.answer_to_create(desired, body)
            down = reader.downstream(answer, up).digests
            if (refusal := too_large(desired.target, Base(up, down))) is not None:
                return outcome_of(refusal)
            change = Change(digest=marker_digest(desired, answer, reader), base=packed(Base(up, down)))
            if (paused := self._paused(desired, change)) is not None:
                return paused
            now = self._writer.client.server_time
            body = create_body(desired, owner, object_id, change, desired.content, made=now)
            made = await self._below.create(desired, body)
        except KubeError as error:
            raise moved(error) from error
        recording = _Recording(desired=desired, change=change, expected=down, rebase=lambda found: Base(up, found))
        return await self._recorded(recording, made, reader) or outcome_of(planned, written=True)

    async def _write_down(
        self, plan: PairPlan, upward: Upward, copy: Copy, planned: Action, reader: ValueReader
    ) -> Outcome:
        """Write the copy together with the new base."""
        flow, desired = plan.agreement.down, upward.desired

        def rebase(found: ValueDigests) -> Base:
            base = plan.agreement.base_after(up=upward.digests, down=found, unwritten=upward.unwritten)
            assert base is not None  # noqa: S101 - both sides are there
            return base

        after = self._merged(plan, copy, reader)
        try:
            answer, down = after, plan.down.stored
            if flow:
                patch = diff_patch(copy.manifest, after)
                answer = await self._below.answer_to_patch(desired, copy, patch, after)
                down = reader.downstream(answer, plan.known).digests
            if (refusal := too_large(desired.target, rebase(down))) is not None:
                return outcome_of(refusal)
            there = structs.replace(copy, manifest=answer)
            marked = recorded(plan, desired, copy.observed)
            change = _change(marked, there, planned, rebase(down), reader, resolved=plan.resolution.counted)
            if _is_noop(plan, marked, change, copy.observed, planned):
                await self._writer.renew(copy.observed)
                return self._outcome(plan, upward, Verb.LEAVE, change)
            if (paused := self._paused(desired, change)) is not None:
                return paused
            self._mark(after, marked, change)
            written = await self._below.patch(desired, copy, diff_patch(copy.manifest, after))
        except Invalid as error:
            if await self._below.has_moved(desired, copy):
                raise PairMoved from error
            raise
        except KubeError as error:
            raise moved(error) from error
        recording = _Recording(desired=marked, change=change, expected=down, rebase=rebase)
        altered = await self._recorded(recording, written, reader)
        self._memory.settle(self._pair_id(desired), combined_digest(upward.digests), combined_digest(down))
        verb = Verb.ADOPT if planned.verb is Verb.ADOPT else Verb.UPDATE
        return altered or self._outcome(plan, upward, verb, change)

    async def _recorded(self, recording: _Recording, written: Copy, reader: ValueReader) -> Outcome | None:
        """Compare the answer to a write with its base, and correct the base if the dry run returned something else.

        Returns the outcome of a copy that is altered with every write.
        """
        desired, change = recording.desired, recording.change
        digest = self._write_digest(change)
        self._writer.write_loops.record(self._object_id(desired), digest, written.observed.version, time.monotonic())
        known = {*recording.expected, *(change.base or ())}
        found = reader.downstream(written.manifest, known).digests
        if found == recording.expected:
            return None
        base = recording.rebase(found)
        if (refusal := too_large(desired.target, base)) is not None:
            return outcome_of(refusal)
        content = marker_digest(desired, written.manifest, reader)
        after = deepcopy(dict(written.manifest))
        self._mark(after, desired, structs.replace(change, base=packed(base), digest=content))
        try:
            again = await self._below.patch(desired, written, diff_patch(written.manifest, after))
        except KubeError as error:
            raise moved(error) from error
        return None if reader.downstream(again.manifest, known).digests == found else _altered(desired)

    async def _remove_resolve(self, source: Upstream, outcome: Outcome) -> Outcome:
        """Remove the annotation upstream, last: before, a crash would lose what the person decided."""
        try:
            problem = await self._upward.remove_resolve(source)
        except (KubeError, PairMoved) as error:
            log.info("the annotation resolve stays upstream for now", error=str(error), **source.target.fields())
            return structs.replace(outcome, retry=True)
        return _with_problem(outcome, problem)

    async def _back_off(self, desired: Desired, attempt: int) -> None:
        log.info(
            "the pair changed while it was written, and is read again",
            attempt=attempt,
            resource=self._writer.cluster.resource_name(desired.target.kind),
            **desired.target.fields(),
        )
        await asyncio.sleep(self._rules.delay * random.uniform(0.5, 1.5))  # noqa: S311 - no secret

    def _merged(self, plan: PairPlan, copy: Copy, reader: ValueReader) -> Json:
        """Return the copy with the values that flow down to it."""
        flow = plan.agreement.down
        put = {path: plan.up.values[path] for path in flow.set}
        after = reader.changed(copy.manifest, put, flow.unset, desired_manifest(plan.desired))
        if plan.resolution.on_copy:
            without_resolve(after)
        return after

    def _mark(self, manifest: Json, desired: Desired, change: Change) -> None:
        """Put our marks on an object."""
        metadata = manifest["metadata"]
        marks = marks_of(desired, self._writer.owner, self._object_id(desired), change, uid=metadata["uid"])
        metadata["labels"] = {**(metadata.get("labels") or {}), OWNER_LABEL: self._writer.owner.label}
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **marks}

    def _outcome(self, plan: PairPlan, upward: Upward, verb: Verb, change: Change) -> Outcome:
        action = report(plan, verb, change, skips=self._rules.strategy == "Skip")
        outcome = outcome_of(action, written=verb is not Verb.LEAVE)
        if upward.written:
            outcome = structs.replace(outcome, written=outcome.written or Verb.UPDATE, upward=True)
        return _with_problem(outcome, upward.problem)

    def _paused(self, desired: Desired, change: Change) -> Outcome | None:
        """Return the outcome of a write that others keep reverting, and that therefore waits."""
        loops, digest = self._writer.write_loops, self._write_digest(change)
        earlier = loops.paused_by(self._object_id(desired), digest, time.monotonic())
        if earlier is None:
            return None
        message = (
            f"written {earlier.count} times in a short while and changed back each time; writes are spaced out: let "
            "one of the two sides decide, or annotate the copy with syncline.dev/reconcile: Disabled"
        )
        return Outcome(target=desired.target, state="Conflict", reason="WriteLoop", message=message, retry=True)

    def _write_digest(self, change: Change) -> str:
        return short_digest(self._writer.owner.label, change.digest, combined_digest(change.base or {}))

    def _object_id(self, desired: Desired) -> str:
        return object_id_of(self._writer.cluster.uid, desired.target)

    def _pair_id(self, desired: Desired) -> str:
        return f"{self._writer.owner.ref} {self._object_id(desired)}"


def _refusal(plan: PairPlan, observed: Observed) -> Action | None:
    return too_large(plan.desired.target, plan.agreement.base) or immutable_copy(plan, observed)


def _change(marked: Desired, copy: Copy, planned: Action, base: Base, reader: ValueReader, *, resolved: str) -> Change:
    """Return the write that makes a copy what was agreed on."""
    marker = copy.observed.marker
    mode = planned.change.mode if planned.change is not None else marker.mode if marker is not None else "Created"
    digest = marker_digest(marked, copy.manifest, reader)
    return Change(replace_all=False, digest=digest, base=packed(base), mode=mode, guard_version=True, resolved=resolved)


def _is_noop(plan: PairPlan, marked: Desired, change: Change, observed: Observed, planned: Action) -> bool:
    """Whether the copy needs no write."""
    marker = observed.marker
    return (
        planned.verb is not Verb.ADOPT
        and planned.reason != "Reowned"
        and not plan.agreement.down
        and not plan.resolution.on_copy
        and marker is not None
        and (observed.base, marker.base) == (change.base, base_seal(change.base))
        and (marker.digest, marker.key, marker.revision) == (change.digest, marked.key, marked.revision)
        and marker.resolved == change.resolved
        and not is_another(marker.source_version, marked.source_version)
    )


def _with_problem(outcome: Outcome, problem: Problem | None) -> Outcome:
    if problem is None:
        return outcome
    return structs.replace(outcome, state="Failed", reason=problem.reason, message=problem.message, retry=True)


def _given_up(desired: Desired, attempts: int) -> Outcome:
    message = (
        f"the upstream object or its copy changed {attempts} times while they were written; it is tried again later"
    )
    return Outcome(target=desired.target, state="Failed", reason="Contended", message=message, retry=True)


def _upstream_gone(desired: Desired) -> Outcome:
    message = "the upstream object was deleted, or is no longer wanted, while it was written; it is planned again"
    return Outcome(target=desired.target, state="Pending", reason="UpstreamGone", message=message, retry=True)


def _altered(desired: Desired) -> Outcome:
    message = (
        "the copy differs from what was sent after every write, although nobody else writes it: an admission webhook "
        "or policy changes it on the way; exempt the copy from that"
    )
    return Outcome(target=desired.target, state="Conflict", reason="Mutated", message=message, retry=True)
