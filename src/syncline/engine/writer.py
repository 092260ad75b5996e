"""Brings one target to what its sync wants: plan, write, and plan again when the world turned out otherwise."""

import time
from typing import Any

import structlog
from msgspec import structs

from syncline.api.common import TargetState
from syncline.core.carry import carried
from syncline.core.fields import holder
from syncline.core.objects import Content, Desired, Seen, Target
from syncline.core.outcome import Outcome, outcome_of
from syncline.core.ownership import Owner, Standing, must_renew, place, recognise, standing
from syncline.core.plan import NAMED, Action, Edit, Policy, Verb, lost_message, merged_content, plan
from syncline.core.remedies import grant_writer, lacks_right, with_cause
from syncline.core.surplus import plan_removal
from syncline.core.wire import DataWire, ObjectWire
from syncline.core.writing import create_body, release_patch, renewal_patch, update_patch, write_digest
from syncline.engine.access import Access
from syncline.engine.applying import Applier
from syncline.engine.claims import Claims
from syncline.engine.cluster import Cluster
from syncline.engine.fights import Fights
from syncline.engine.unkept import UnkeptFields
from syncline.engine.view import View
from syncline.kube.client import Client, PatchKind
from syncline.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    Unreachable,
)

Wire = DataWire | ObjectWire

log = structlog.get_logger(__name__)

# How often the world may turn out otherwise before the target waits for its next turn.
TRIES = 5
TERMINATING = "NamespaceTerminating"
# Their data goes with them, so they are never deleted to be created again.
IRREPLACEABLE = frozenset({"PersistentVolumeClaim"})
# Objects that an account knows of, whatever it may read: it made them.
_OWN = (Standing.OURS, Standing.FORMER, Standing.RENEWABLE)
# A sync that may not be named.
ANOTHER = "another sync"
# How API servers say that a field cannot be changed.
IMMUTABLE = ("immutable", "forbidden", "may not change once set")


class _NotRecreated(Exception):  # noqa: N818 - a state
    """The server would refuse to create the object, so it was not deleted."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(str(error))
        self.error = error


class Writer:
    """Writes on behalf of one sync, with its identity."""

    def __init__(
        self,
        cluster: Cluster,
        client: Client,
        owner: Owner,
        policy: Policy,
        *,
        claims: Claims,
        fights: Fights,
        unkept: UnkeptFields,
    ) -> None:
        self._cluster = cluster
        self._client = client
        self._owner = owner
        self._policy = policy
        self._claims = claims
        self._fights = fights
        self._applier = Applier(cluster, client, owner, unkept)

    @property
    def sync(self) -> str:
        """Name the sync that this writes for."""
        return self._owner.sync

    async def observed(self, target: Target) -> Seen | None:
        """Return what the caches know of a target. An account learns nothing of what it could not read itself.

        To it, such an object is not there: it tries to create its own, and the API server says what there is to say.
        """
        seen, user = self._cluster.at(target), self._client.user
        if seen is None or user is None or standing(seen, self._owner, place(self._cluster.uid, target)) in _OWN:
            return seen
        access = Access(verb="get", resource=self._view(target).resource, namespace=target.namespace, name=target.name)
        return seen if await self._claims.access.may(user, access, by=self.sync) else None

    async def decide(self, desired: Desired, seen: Seen | None, *, kept: bool = False) -> Action:
        """Plan one target, with what is known of other syncs."""
        here = place(self._cluster.uid, desired.target)
        rival = await self._rival(desired, seen, here)
        return plan(desired, seen, self._owner, here, self._policy, rival=rival, kept=kept)

    async def settle(self, desired: Desired, *, kept: bool = False) -> Outcome:
        """Bring one target about. What the API server says against it becomes the outcome; nothing is raised."""
        invalid, overtaken = 0, False
        action: Action | None = None
        try:
            seen = await self._first_look(desired, kept=kept)
            for _ in range(TRIES):
                try:
                    action = await self.decide(desired, seen, kept=kept)
                    if action.verb is Verb.LEAVE:
                        await self.renew(seen)
                        return outcome_of(action)
                    if action.verb is not Verb.READ:
                        action = await self._told(_guarded(action) if overtaken else action, desired)
                        outcome, wire = await self._execute(action, desired, seen)
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
                    if invalid > 1 and action is not None and desired.body is not None:
                        return await self._refused(action, desired, error)
                    if not is_surprise(error, existed=seen is not None) or invalid > 1:
                        raise
                    log.debug("planned anew", cause=type(error).__name__, **desired.target.fields())
                seen = await self.look(desired)
        except KubeError as error:
            return _failed_repair(action, error) or self._failure(desired.target, error)
        return contended(desired.target)

    async def remove(self, seen: Seen, reason: str, message: str, *, keep_edited: bool = False) -> Outcome | None:
        """Let go of one object, or return None where there is none that is ours.

        `keep_edited` holds for what is there at the moment of the write, not only for what was seen: after a conflict
        the object is read, and the removal is planned again.
        """
        invalid = 0
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
                    # Refused twice, it is not that the object has changed: an admission policy says no.
                    invalid += isinstance(error, Invalid)
                    if not is_surprise(error, existed=True) or invalid > 1:
                        raise
                fresh = self._view(seen.target).see(await self._cluster.read(seen.target, self._client))
                seen = structs.replace(fresh, target=seen.target)
        except NotFound:
            self._view(seen.target).copies.observe_gone(seen, self._owner.sync)
            return None
        except KubeError as error:
            return self._failure(seen.target, error, gone=True)
        return contended(seen.target, gone=True)

    async def ask_to_create(self, desired: Desired) -> Outcome:
        """Return what the API server has against creating an object, and create nothing.

        For a target of which the sync may not know why nothing is written there: it hears what it would hear anyway.
        """
        here = place(self._cluster.uid, desired.target)
        body = create_body(desired, self._owner, here, Edit(digest=desired.digest), desired.content)
        resource, namespace = self._applier.resource(desired), desired.target.namespace or None
        try:
            await self._client.create(resource, body, namespace, dry_run=True, fair_key=self._owner.ref)
        except KubeError as error:
            return self._failure(desired.target, error)
        return contended(desired.target)

    async def look(self, desired: Desired) -> Seen | None:
        """Read the target live, body included."""
        try:
            wire = await self._cluster.read(desired.target, self._client)
        except NotFound:
            return None
        view = self._view(desired.target)
        view.observe_unmanaged(wire.metadata, self._owner.sync)
        return self.recognised(view.see(wire, body=True))

    async def renew(self, seen: Seen | None) -> None:
        """Sign the mark of an object anew that is left as it is, where its key is not the current one.

        Not more than a few at a time, and not where somebody has just written it: the next pass looks again.
        """
        if seen is None or not must_renew(seen, self._owner, place(self._cluster.uid, seen.target)):
            return
        marks = self._cluster.marks
        if seen.deleting or seen.reconcile_disabled:
            marks.unfinished.add(self._owner.sync)
            return
        if not marks.may_renew(self._owner.sync):
            return
        try:
            with self._view(seen.target).copies.writing(seen.target):
                wire = await self._patch(seen, renewal_patch(seen, self._owner))
                self._view(seen.target).copies.observe(wire, self._owner.sync)
        except KubeError as error:
            marks.unfinished.add(self._owner.sync)
            log.debug("a mark could not be signed anew yet", error=str(error), **seen.target.fields())

    def recognised(self, seen: Seen | None) -> Seen | None:
        """Return an object with the marker that counts for this sync."""
        return recognise(seen, self._owner, place(self._cluster.uid, seen.target)) if seen is not None else None

    async def _first_look(self, desired: Desired, *, kept: bool) -> Seen | None:
        """Return what is known of the target before anything is planned.

        Under Keep it is noted for good that a namespace has had its copy, so the first time the server is asked: what
        the cache has may have gone with an earlier namespace of that name, since the two are watched separately.
        """
        seen = self.recognised(await self.observed(desired.target))
        if seen is None or kept or self._policy.management != "Keep":
            return seen
        return await self.look(desired)

    def _left_to_do(self, desired: Desired, wire: Wire) -> Action | None:
        """Return what is still to be done after a write of ours, by its own answer; None: nothing is.

        The watch does not tell of it: for the cache, an answer is what we know already.
        """
        view, here = self._view(desired.target), place(self._cluster.uid, desired.target)
        # The cache has reduced this very answer already, without the body: few plans need that.
        seen = view.copies.reflector.get_same(wire)
        action = plan(desired, seen, self._owner, here, self._policy) if seen is not None else None
        if action is None or action.verb is Verb.READ:
            action = plan(desired, view.see(wire, body=True), self._owner, here, self._policy)
        return None if action.verb is Verb.LEAVE else action

    def _view(self, target: Target) -> View:
        return self._cluster.view(target.kind)

    async def _rival(self, desired: Desired, seen: Seen | None, here: str) -> str:
        """Name the sync with the better claim, if there is one, and note that ours waits for it."""
        target, sync, cluster = desired.target, self._owner.sync, self._cluster.name
        if seen is None:
            return await self._claimed_by(target)
        marker = seen.marker or seen.claim
        if marker is None or standing(seen, self._owner, here) is not Standing.RIVAL:
            return ""
        if marker.hub != self._owner.hub:  # a sync of another cluster: whether it lives cannot be known from here
            self._claims.wait(sync, cluster, target)
            return f"{marker.sync} of another cluster"
        # It may go while the server is asked for it: that is told from now on.
        self._claims.wait(sync, cluster, target, marker.sync)
        # Anybody can write a mark that proves nothing, to learn whether there is such a sync.
        is_guess = seen.marker is None and not await self._may_know(marker.sync)
        if is_guess or await self._claims.alive(marker.sync):
            return marker.sync
        self._claims.wait_no_more(sync, cluster, target)
        return ""

    async def _claimed_by(self, target: Target) -> str:
        """Name the sync with the better claim on a target that is not there, as far as this one may know of it."""
        sync, cluster, user = self.sync, self._cluster.name, self._client.user
        namespace = self._cluster.namespace(target.namespace) if target.namespace else None
        resource = self._view(target).resource
        winner = await self._claims.winner(sync, cluster, target, namespace, resource)
        if not winner:
            return winner
        create = Access(verb="create", resource=resource, namespace=target.namespace)
        if user is not None and not await self._claims.access.may(user, create, by=sync):
            # It cannot be served anyway, whoever else wants the target: the API server says so.
            self._claims.wait_no_more(sync, cluster, target)
            return ""
        return winner if await self._may_know(winner) else ANOTHER

    async def _may_know(self, ref: str) -> bool:
        """Whether this sync may know of another one: its account, if it has one, must be able to read that one."""
        # In another cluster it writes as whom the credential says; what it may know here is up to its account still.
        user = self._claims.user_of(self.sync) if self._cluster.name else self._client.user
        return user is None or await self._claims.may_read(user, ref, by=self.sync)

    async def _told(self, action: Action, desired: Desired) -> Action:
        """Name who has taken a field of ours; the last one to write need not be the one."""
        if not action.lost:
            return action
        target = desired.target
        wire = await self._client.get(
            self._applier.resource(desired), target.name, target.namespace or None, type=ObjectWire, metadata_only=True
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
        try:
            with self._view(target).copies.writing(target):
                wire = await self._write(action, edit, desired, seen)
        except _NotRecreated as refusal:
            return _not_recreated(action, refusal.error), None
        self._fights.record(here, digest, wire.metadata.resource_version, time.monotonic())
        return outcome_of(action, written=True), wire

    async def _write(self, action: Action, edit: Edit, desired: Desired, seen: Seen | None) -> Wire:
        wire: Wire
        if action.verb is Verb.CREATE or seen is None:
            wire = await self._create(desired, edit, desired.content)
        elif action.verb is Verb.RECREATE:
            content = desired.content if desired.body is not None else merged_content(desired, seen, edit)
            await self._check_create(desired, edit, content)
            await self._delete(seen)
            wire = await self._create(desired, edit, content)
        elif desired.body is not None:
            wire = await self._applier.apply(action, edit, desired, seen)
        else:
            here = place(self._cluster.uid, desired.target)
            wire = await self._patch(seen, update_patch(desired, seen, self._owner, here, edit))
        self._view(desired.target).copies.observe(wire, self._owner.sync)
        return wire

    async def _refused(self, action: Action, desired: Desired, error: KubeError) -> Outcome:
        """Deal with a change that the server refuses: a field that cannot be changed, or content that cannot be."""
        target, seen = desired.target, await self.look(desired)
        here = place(self._cluster.uid, target)
        if seen is None or standing(seen, self._owner, here) not in (
            Standing.OURS,
            Standing.RENEWABLE,
            Standing.FORMER,
        ):
            return self._failure(target, error)
        edit = Edit(digest=desired.digest, mode=seen.marker.mode if seen.marker else "Created")
        if not await self._could_be_created(desired, edit, error):
            return _failed_repair(action, error) or self._failure(target, error)
        if self._policy.management != "Overwrite" or target.kind in IRREPLACEABLE:
            hint = "delete the copy to have it created again"
            if target.kind not in IRREPLACEABLE:
                hint = (
                    "delete the copy, or set resourceManagementPolicy: Overwrite to have it deleted and created again"
                )
            if (outcome := _failed_repair(action, error, hint)) is not None:
                return outcome
            message = f"the API server refuses the change; {hint}: {error}"
            return Outcome(target=target, state="Failed", reason="Immutable", message=message)
        message = "a field that cannot be changed differs, so it is deleted and created again"
        anew = Action(verb=Verb.RECREATE, target=target, reason="Recreated", message=message, edit=edit)
        return await self.carry_out(anew, desired, seen)

    async def _could_be_created(self, desired: Desired, edit: Edit, error: KubeError) -> bool:
        """Tell whether it is only the change that the server refuses, not what the object would be then."""
        try:
            await self._check_create(desired, edit, desired.content)
        except _NotRecreated as refusal:
            # Where the name alone stands in the way, as without the right to create, only the words are left to go by.
            return not isinstance(refusal.error, Invalid) and any(word in str(error).lower() for word in IMMUTABLE)
        return True

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

    async def _create(self, desired: Desired, edit: Edit, content: Content) -> Wire:
        if desired.body is not None:
            return await self._applier.create(desired, edit)
        body = create_body(desired, self._owner, place(self._cluster.uid, desired.target), edit, content)
        view, namespace = self._view(desired.target), desired.target.namespace or None
        return await self._client.create(view.resource, body, namespace, type=view.wire, fair_key=self._owner.ref)

    async def _check_create(self, desired: Desired, edit: Edit, content: Content) -> None:
        """Ask whether the object could be created: before it is deleted for that, or it would be gone.

        It is created in a dry run under the very name that is taken. The server looks for the name last, in its
        storage; rights, validation, policies, webhooks and quotas (for which it is one more) come first. So the answer
        that it exists already means that nothing else stands in the way. Raises `_NotRecreated` where something does.
        """
        body = create_body(desired, self._owner, place(self._cluster.uid, desired.target), edit, content)
        if desired.target.kind == "Service":  # the addresses and ports that it has now are free once it is gone
            body |= carried(body)
        resource, namespace = self._applier.resource(desired), desired.target.namespace or None
        try:
            await self._client.create(resource, body, namespace, dry_run=True, fair_key=self._owner.ref)
        except AlreadyExists:
            return
        except (BadRequest, Forbidden, Invalid) as error:
            raise _NotRecreated(error) from error

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

    def _failure(self, target: Target, error: KubeError, *, gone: bool = False) -> Outcome:
        """Say what stands in the way; where it is a right, with the command that grants it."""
        outcome = failure(target, error, gone=gone)
        resource = self._cluster.resource_name(target.kind)
        if not isinstance(error, Forbidden) or self._cluster.name or resource is None or not lacks_right(str(error)):
            return outcome
        remedy = grant_writer(self._client.user, resource, target.namespace)
        return structs.replace(outcome, message=with_cause(remedy, outcome.message))


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


def _failed_repair(action: Action | None, error: KubeError, hint: str = "") -> Outcome | None:
    """Say that a drifted object stays so because the server refuses its repair; None where it is no repair."""
    if action is None or not action.drift or not isinstance(error, BadRequest | Forbidden | Invalid):
        return None
    message = f"{action.message}, and the API server refuses the repair{f'; {hint}' if hint else ''}: {error}"
    return Outcome(target=action.target, state="Failed", reason="RepairRefused", message=message, retry=not hint)


def _not_recreated(action: Action, error: ApiError) -> Outcome:
    message = (
        "it would have to be deleted and created again, but stays, because the API server would refuse the new one; "
        f"allow that, or delete the object yourself: {error}"
    )
    return Outcome(target=action.target, state="Failed", reason="RecreateRefused", message=message, retry=True)


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
