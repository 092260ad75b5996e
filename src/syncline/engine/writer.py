"""Brings one target to what its sync wants: plan, write, and plan again when the world turned out otherwise."""

import time
from typing import Any

import structlog
from msgspec import structs

from syncline.api.common import TargetState
from syncline.core.adoption import hand_over, hand_over_patch
from syncline.core.carry import allocated
from syncline.core.fields import apply_ready, holder
from syncline.core.grafting import grafted
from syncline.core.objects import Desired, Seen, Target
from syncline.core.outcome import Outcome, outcome_of
from syncline.core.ownership import OWNER_LABEL, Owner, Standing, place, standing
from syncline.core.plan import NAMED, Action, Edit, Policy, Verb, lost_message, merged_content, plan
from syncline.core.surplus import plan_removal
from syncline.core.wire import DataWire, ObjectWire
from syncline.core.writing import apply_body, create_body, release_patch, replace_body, update_patch, write_digest
from syncline.engine.claims import Claims
from syncline.engine.cluster import Cluster
from syncline.engine.fights import Fights
from syncline.engine.view import View
from syncline.kube.client import Client, PatchKind
from syncline.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Invalid,
    KubeError,
    NotFound,
    Unreachable,
)
from syncline.kube.resources import Resource

Wire = DataWire | ObjectWire

log = structlog.get_logger(__name__)

# How often the world may turn out otherwise before the target waits for its next turn.
TRIES = 5
TERMINATING = "NamespaceTerminating"
# Their data goes with them, so they are never deleted to be created again.
IRREPLACEABLE = frozenset({"PersistentVolumeClaim"})
# How API servers say that a field cannot be changed.
IMMUTABLE = ("immutable", "forbidden", "may not change once set")


class Writer:
    """Writes on behalf of one sync, with its identity."""

    def __init__(
        self, cluster: Cluster, client: Client, owner: Owner, policy: Policy, *, claims: Claims, fights: Fights
    ) -> None:
        self._cluster = cluster
        self._client = client
        self._owner = owner
        self._policy = policy
        self._claims = claims
        self._fights = fights

    @property
    def sync(self) -> str:
        """Name the sync that this writes for."""
        return self._owner.sync

    async def decide(self, desired: Desired, seen: Seen | None, *, kept: bool = False) -> Action:
        """Plan one target, with what is known of other syncs."""
        here = place(self._cluster.uid, desired.target)
        rival = await self._rival(desired, seen, here)
        return plan(desired, seen, self._owner, here, self._policy, rival=rival, kept=kept)

    async def settle(self, desired: Desired, *, kept: bool = False) -> Outcome:
        """Bring one target about. What the API server says against it becomes the outcome; nothing is raised."""
        seen = self._cluster.at(desired.target)
        invalid, overtaken = 0, False
        try:
            for _ in range(TRIES):
                try:
                    action = await self.decide(desired, seen, kept=kept)
                    if action.verb is Verb.LEAVE:
                        return outcome_of(action)
                    if action.verb is not Verb.READ:
                        action = _guarded(action) if overtaken else action
                        outcome, wire = await self._execute(await self._told(action, desired), desired, seen)
                        left = self._left_to_do(desired, wire) if wire is not None else None
                        if left is None:
                            return outcome
                        if overtaken or left.verb is action.verb is Verb.RECREATE:
                            return _altered(desired.target, left)
                        # Somebody else's edit came between what was seen and our write, which has not touched it.
                        overtaken = True
                except KubeError as error:
                    # Refused twice, it is not the patch that came too late but the content that cannot be.
                    invalid += isinstance(error, Invalid)
                    if invalid > 1 and desired.body is not None:
                        return await self._unchangeable(desired, error)
                    if not is_surprise(error, existed=seen is not None) or invalid > 1:
                        raise
                    log.debug("planned anew", cause=type(error).__name__, **desired.target.fields())
                seen = await self.look(desired)
        except KubeError as error:
            return failure(desired.target, error)
        return contended(desired.target)

    async def remove(self, seen: Seen, reason: str, message: str, *, keep_edited: bool = False) -> Outcome | None:
        """Let go of one object, or return None where there is none that is ours.

        `keep_edited` holds for what is there at the moment of the write, not only for what was seen: after a conflict
        the object is read, and the removal is planned again.
        """
        try:
            for _ in range(TRIES):
                action = plan_removal(seen, self._owner, self._cluster.uid, reason, message, keep_edited=keep_edited)
                if action is None:
                    return None
                if action.verb is Verb.LEAVE:
                    return outcome_of(action, gone=True)
                try:
                    with self._view(seen.target).copies.writing(seen.target):
                        await self._let_go(action, seen)
                    return outcome_of(action, written=True, gone=True)
                except KubeError as error:
                    if not is_surprise(error, existed=True):
                        raise
                fresh = self._view(seen.target).see(await self._cluster.read(seen.target, self._client))
                seen = structs.replace(fresh, target=seen.target)
        except NotFound:
            self._view(seen.target).copies.observe_gone(seen, self._owner.sync)
            return None
        except KubeError as error:
            return failure(seen.target, error, gone=True)
        return contended(seen.target, gone=True)

    async def look(self, desired: Desired) -> Seen | None:
        """Read the target live, body included."""
        try:
            wire = await self._cluster.read(desired.target, self._client)
        except NotFound:
            return None
        view = self._view(desired.target)
        view.observe_unmanaged(wire.metadata, self._owner.sync)
        return view.see(wire, body=True)

    def _left_to_do(self, desired: Desired, wire: Wire) -> Action | None:
        """Return what is still to be done after a write of ours, by its own answer; None: nothing is.

        The watch does not tell of it: for the cache, an answer is what we know already.
        """
        seen = self._view(desired.target).see(wire, body=True)
        action = plan(desired, seen, self._owner, place(self._cluster.uid, desired.target), self._policy)
        return None if action.verb is Verb.LEAVE else action

    def _view(self, target: Target) -> View:
        return self._cluster.view(target.kind)

    async def _rival(self, desired: Desired, seen: Seen | None, here: str) -> str:
        """Name the sync with the better claim, if there is one, and note that ours waits for it."""
        target, sync, cluster = desired.target, self._owner.sync, self._cluster.name
        if seen is None:
            namespace = self._cluster.namespace(target.namespace) if target.namespace else None
            older = self._claims.older(sync, cluster, target, namespace)
            if older:
                self._claims.wait(sync, cluster, target, older)
            return older
        marker = seen.marker
        if marker is None or standing(seen, self._owner, here) is not Standing.RIVAL:
            return ""
        if marker.hub != self._owner.hub:  # a sync of another cluster: whether it lives cannot be known from here
            self._claims.wait(sync, cluster, target)
            return f"{marker.sync} of another cluster"
        # It may go while the server is asked for it: that is told from now on.
        self._claims.wait(sync, cluster, target, marker.sync)
        if await self._claims.alive(marker.sync):
            return marker.sync
        self._claims.wait_no_more(sync, cluster, target)
        return ""

    async def _told(self, action: Action, desired: Desired) -> Action:
        """Name who has taken a field of ours; the last one to write need not be the one."""
        if not action.lost:
            return action
        target = desired.target
        wire = await self._client.get(
            self._resource(desired), target.name, target.namespace or None, type=ObjectWire, metadata_only=True
        )
        return structs.replace(
            action, message=lost_message(action.lost, holder(wire.metadata.managed_fields, action.lost[0]))
        )

    async def carry_out(self, action: Action, desired: Desired, seen: Seen | None) -> Outcome:
        """Write, unless somebody keeps undoing just that. Raises what the server says against it."""
        outcome, _ = await self._execute(action, desired, seen)
        return outcome

    async def _execute(self, action: Action, desired: Desired, seen: Seen | None) -> tuple[Outcome, Wire | None]:
        """Write, and return what the server has made of it; None where nothing was written."""
        edit, target = action.edit, desired.target
        assert edit is not None  # noqa: S101 - every write of the plan has one
        here = place(self._cluster.uid, target)
        namespace = self._cluster.namespace(target.namespace)
        # An object in another namespace of the same name is another matter.
        digest = f"{namespace.uid if namespace is not None else ''}/{write_digest(desired, self._owner, edit)}"
        if (earlier := self._fights.pausing(here, digest, time.monotonic())) is not None:
            if seen is not None and seen.version == earlier.version:  # nobody but us has written
                return _altered(target, action), None
            return _fight(target, earlier.count, seen), None
        with self._view(target).copies.writing(target):
            wire = await self._write(action, edit, desired, seen)
        self._fights.record(here, digest, wire.metadata.resource_version, time.monotonic())
        return outcome_of(action, written=True), wire

    async def _write(self, action: Action, edit: Edit, desired: Desired, seen: Seen | None) -> Wire:
        here = place(self._cluster.uid, desired.target)
        if action.verb is Verb.CREATE or seen is None:
            wire = await self._create(create_body(desired, self._owner, here, edit, desired.content), desired)
        elif action.verb is Verb.RECREATE:
            content = desired.content if desired.body is not None else merged_content(desired, seen, edit)
            body = create_body(desired, self._owner, here, edit, content)
            await self._delete(seen)
            wire = await self._create(body, desired)
        elif desired.body is not None:
            wire = await self._apply(action, edit, desired, seen, here)
        else:
            wire = await self._patch(seen, update_patch(desired, seen, self._owner, here, edit))
        self._view(desired.target).copies.observe(wire, self._owner.sync)
        return wire

    async def _apply(self, action: Action, edit: Edit, desired: Desired, seen: Seen, here: str) -> Wire:
        """Write an object that is not compared by content: what we send is ours, what others added stays theirs."""
        guard = ""
        if edit.extras:
            desired, _ = await self._spared(desired)
            # It bears our mark from here on, so that nobody's write in between makes it less ours.
            await self._replace(action, edit, desired, seen, here)
        else:
            version = await self._own_fields(action, edit, desired, seen, here)
            guard = version if action.verb is Verb.ADOPT or edit.guard_version else ""
            desired, spared = await self._spared(desired)
            guard = spared or guard
        body = apply_body(desired, seen, self._owner, here, edit, version=guard)
        resource, target = self._resource(desired), desired.target
        return await self._client.patch(
            resource,
            target.name,
            target.namespace or None,
            body,
            PatchKind.APPLY,
            force=True,
            type=ObjectWire,
            fair_key=self._owner.ref,
        )

    async def _spared(self, desired: Desired) -> tuple[Desired, str]:
        """Send what is left to others as it is now; the version makes the server refuse it if that changed since."""
        if not desired.ignored or desired.body is None:
            return desired, ""
        resource, target = self._resource(desired), desired.target
        live: dict[str, Any] = await self._client.get(resource, target.name, target.namespace or None)
        fields = grafted(desired.body.fields, live, desired.ignored)
        return structs.replace(desired, body=structs.replace(desired.body, fields=fields)), str(
            live["metadata"]["resourceVersion"]
        )

    async def _replace(self, action: Action, edit: Edit, desired: Desired, seen: Seen, here: str) -> None:
        """Make the object exactly the source; what the server has allocated, finalizers and owners stay."""
        resource, target = self._resource(desired), desired.target
        live: dict[str, Any] = await self._client.get(resource, target.name, target.namespace or None)
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
            resource, target = self._resource(desired), desired.target
            live: dict[str, Any] = await self._client.get(
                resource, target.name, target.namespace or None, metadata_only=True
            )
            body = apply_body(desired, seen, self._owner, here, edit)
            managed = hand_over(live["metadata"].get("managedFields") or [], body, target.kind)
            if managed is not None:
                # Refused where the object is no longer the one that the plan was made for.
                wire = await self._client.patch(
                    resource,
                    target.name,
                    target.namespace or None,
                    hand_over_patch(managed, seen.uid, seen.version),
                    PatchKind.JSON,
                    type=ObjectWire,
                    fair_key=self._owner.ref,
                )
                return wire.metadata.resource_version
        return seen.version if seen.applied else await self._take_up(desired, seen.uid)

    async def _take_up(self, desired: Desired, uid: str, *, alone: bool = False) -> str:
        """Before the first apply: let the server count what we created as applied, or removed fields would stay.

        `alone`: and nothing as anybody else's.
        """
        resource, target = self._resource(desired), desired.target
        tries = TRIES
        while True:
            live: dict[str, Any] = await self._client.get(resource, target.name, target.namespace or None)
            meta = live["metadata"]
            version = str(meta["resourceVersion"])
            patch = apply_ready(meta.get("managedFields") or [], uid, version, alone=alone)
            if patch is None:
                return version
            try:
                wire = await self._client.patch(
                    resource, target.name, target.namespace or None, patch, PatchKind.JSON, type=ObjectWire
                )
            except Conflict:
                # The kind's own controllers write just after us. What they write does not matter here.
                tries -= 1
                if not tries:
                    raise
            else:
                return wire.metadata.resource_version

    async def _unchangeable(self, desired: Desired, error: KubeError) -> Outcome:
        """Deal with a change that the server refuses: a field that cannot be changed, or content that cannot be."""
        seen = await self.look(desired)
        ours = seen is not None and standing(seen, self._owner, place(self._cluster.uid, desired.target)) in (
            Standing.OURS,
            Standing.FORMER,
        )
        immutable = any(word in str(error).lower() for word in IMMUTABLE)
        if seen is None or not ours or not immutable:
            return failure(desired.target, error)
        if self._policy.management != "Overwrite" or desired.target.kind in IRREPLACEABLE:
            hint = (
                "delete the copy to have it created again"
                if desired.target.kind in IRREPLACEABLE
                else "delete the copy, or set resourceManagementPolicy: Overwrite to have it deleted and created again"
            )
            return Outcome(target=desired.target, state="Failed", reason="Immutable", message=f"{error}; {hint}")
        edit = Edit(digest=desired.digest, mode=seen.marker.mode if seen.marker else "Created")
        action = Action(
            verb=Verb.RECREATE,
            target=desired.target,
            reason="Recreated",
            message="a field that cannot be changed differs, so it is deleted and created again",
            edit=edit,
        )
        return await self.carry_out(action, desired, seen)

    async def _let_go(self, action: Action, seen: Seen) -> None:
        copies = self._view(seen.target).copies
        if action.verb is Verb.DELETE:
            if not await self._delete(seen):
                return
            copies.observe_gone(seen, self._owner.sync)
        else:
            wire = await self._patch(seen, release_patch(seen))
            copies.observe_gone(seen, self._owner.sync, wire.metadata.resource_version)
        self._fights.forget(place(self._cluster.uid, seen.target))

    async def _create(self, body: dict[str, Any], desired: Desired) -> Wire:
        view = self._view(desired.target)
        return await self._client.create(
            self._resource(desired),
            body,
            desired.target.namespace or None,
            type=view.wire,
            fair_key=self._owner.ref,
        )

    async def _delete(self, seen: Seen) -> bool:
        """Delete this very object, in the very state in which it was seen, and in the background what it owns."""
        place, view = seen.target, self._view(seen.target)
        return await self._client.delete(
            view.resource,
            place.name,
            place.namespace or None,
            uid=seen.uid,
            version=seen.version,
            propagation=None if view.wire is DataWire else "Background",
            fair_key=self._owner.ref,
        )

    async def _patch(self, seen: Seen, patch: list[dict[str, Any]]) -> Wire:
        view = self._view(seen.target)
        return await self._client.patch(
            view.resource,
            seen.target.name,
            seen.target.namespace or None,
            patch,
            PatchKind.JSON,
            type=view.wire,
            fair_key=self._owner.ref,
        )

    def _resource(self, desired: Desired) -> Resource:
        """Return where to write: in the version that the body is of."""
        resource = self._view(desired.target).resource
        version = desired.body.api_version.rpartition("/")[2] if desired.body is not None else resource.version
        return resource if version == resource.version else structs.replace(resource, version=version)


def is_surprise(error: KubeError, *, existed: bool) -> bool:
    """Whether the world is only not as it was seen: then look again."""
    if isinstance(error, Unreachable):
        return error.ambiguous
    return isinstance(error, AlreadyExists | Conflict) or (existed and isinstance(error, Invalid | NotFound))


def failure(target: Target, error: KubeError, *, gone: bool = False) -> Outcome:
    """Say for a person what stands in the way, and whether it may pass."""
    state: TargetState = "Failed"
    reason, message = "Failed", str(error)
    if isinstance(error, Unreachable):
        state, reason = "Unknown", "Unreachable"
    elif isinstance(error, ApiError) and TERMINATING in error.causes:
        state, reason, message = "Skipped", TERMINATING, f"namespace {target.namespace!r} is being deleted"
    elif isinstance(error, NotFound) and error.about == target.namespace:
        state, reason, message = "Pending", "NamespaceNotFound", f"namespace {target.namespace!r} does not exist"
    elif isinstance(error, ApiError):
        reason = error.reason
    return Outcome(target=target, state=state, reason=reason, message=message, retry=state != "Skipped", gone=gone)


def _guarded(action: Action) -> Action:
    """Let the server refuse the write if anybody wrote since the object was seen."""
    assert action.edit is not None  # noqa: S101 - every write of the plan has one
    return structs.replace(action, edit=structs.replace(action.edit, guard_version=True))


def _altered(target: Target, left: Action) -> Outcome:
    what = names if (names := ", ".join(left.lost[:NAMED])) else "its content, labels or annotations"
    message = (
        f"{what} of the object differ from what was sent, although nobody else has written it: an admission webhook or "
        "policy changes it on the way; exempt the object from that, or put into the source what is made of it"
    )
    return Outcome(target=target, state="Conflict", reason="Altered", message=message, retry=True)


def _fight(target: Target, rounds: int, seen: Seen | None) -> Outcome:
    who = (seen.changed_by if seen is not None else "") or "somebody"
    how = "changed" if seen is not None else "deleted"
    message = (
        f"written {rounds} times in a short while and {how} again each time, last by {who}; repairs are spaced out: "
        "let one of the two manage the object, or annotate it with syncline.dev/reconcile: Disabled"
    )
    return Outcome(target=target, state="Conflict", reason="Fight", message=message, retry=True)


def contended(target: Target, *, gone: bool = False) -> Outcome:
    """Say that somebody else keeps changing the object while we write it."""
    message = f"the object changed {TRIES} times while it was being written; it is tried again"
    return Outcome(target=target, state="Failed", reason="Contended", message=message, retry=True, gone=gone)
