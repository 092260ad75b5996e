"""Applies one target: plan, write, and plan again if the object differs from the observed one."""

import time
from contextlib import suppress
from typing import Any

import structlog
from msgspec import structs

from syncline.core.fields import manager_of
from syncline.core.objects import Content, Desired, Observed, Target
from syncline.core.outcome import Outcome, outcome_of
from syncline.core.ownership import Owner, Ownership, must_renew, object_id_of, ownership_of, recognise
from syncline.core.plan import Action, Change, Policy, Verb, lost_message, merged_content, plan
from syncline.core.prune_plan import plan_prune
from syncline.core.remedies import grant_writer, lacks_right, with_cause
from syncline.core.request_bodies import create_body, release_patch, renewal_patch, update_patch, write_digest
from syncline.core.strip import strip_cluster_fields
from syncline.core.wire import DataWire, ObjectWire
from syncline.engine.access import AccessRequest
from syncline.engine.applying import Applier
from syncline.engine.claims import Claims
from syncline.engine.cluster import Cluster
from syncline.engine.competing_owners import CompetingOwners
from syncline.engine.kind_informer import KindInformer
from syncline.engine.unkept import UnkeptFields
from syncline.engine.write_attempts import TRIES, ConflictLimit, WriteAttempts
from syncline.engine.write_loops import WriteLoops
from syncline.engine.write_outcomes import (
    altered,
    contended,
    failed_repair,
    failure,
    is_stale,
    not_recreated,
    write_loop,
)
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
)
from syncline.kube.resources import Resource

Wire = DataWire | ObjectWire

log = structlog.get_logger(__name__)

# Their data goes with them, so they are never deleted to be created again.
IRREPLACEABLE = frozenset({"PersistentVolumeClaim"})
# Objects that an account knows, whatever it may read, because it wrote them.
_KNOWN = (Ownership.OURS, Ownership.PREVIOUS, Ownership.RENEWABLE)
# The words of API servers for a field that cannot be changed.
IMMUTABLE = ("immutable", "forbidden", "may not change once set")


class _NotRecreated(Exception):  # noqa: N818 - a state
    """The server would refuse to create the object, so it was not deleted."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(str(error))
        self.error = error


class Writer:
    """Writes targets on behalf of one sync, with its identity."""

    def __init__(
        self,
        cluster: Cluster,
        client: Client,
        owner: Owner,
        policy: Policy,
        *,
        claims: Claims,
        write_loops: WriteLoops,
        unkept: UnkeptFields,
    ) -> None:
        self._cluster = cluster
        self._client = client
        self._owner = owner
        self._policy = policy
        self._claims = claims
        self._competing_owners = CompetingOwners(cluster, client, owner, claims)
        self._write_loops = write_loops
        self._applier = Applier(cluster, client, owner, unkept)

    @property
    def sync(self) -> str:
        """The sync that this writes for."""
        return self._owner.sync

    @property
    def owner(self) -> Owner:
        """The owner of the written objects."""
        return self._owner

    @property
    def cluster(self) -> Cluster:
        """The cluster that this writes to."""
        return self._cluster

    @property
    def client(self) -> Client:
        """The client that this writes with, which has the identity of the sync."""
        return self._client

    @property
    def write_loops(self) -> WriteLoops:
        """The memory of repeated writes."""
        return self._write_loops

    def resource(self, desired: Desired) -> Resource:
        """Return the resource of a desired object, in the API version of its body."""
        return self._applier.resource(desired)

    @property
    def takes_over(self) -> bool:
        """Whether the sync takes over objects of others."""
        return self._policy.takes_over

    async def observed(self, target: Target) -> Observed | None:
        """Return the cached object of a target; None if the account of the sync may not read it.

        The sync then tries to create its own object, and the API server refuses it with its own message.
        """
        observed, user = self._cluster.managed_at(target), self._client.user
        if (
            observed is None
            or user is None
            or ownership_of(observed, self._owner, object_id_of(self._cluster.uid, target)) in _KNOWN
        ):
            return observed
        access = AccessRequest(
            verb="get", resource=self._informer(target).resource, namespace=target.namespace, name=target.name
        )
        return observed if await self._claims.access.may(user, access, by=self.sync) else None

    async def plan(self, desired: Desired, observed: Observed | None, *, created_once: bool = False) -> Action:
        """Plan one target, with the claims of other syncs."""
        object_id = object_id_of(self._cluster.uid, desired.target)
        owner = await self._competing_owners.find(desired, observed)
        return plan(
            desired, observed, self._owner, object_id, self._policy, competing_owner=owner, created_once=created_once
        )

    async def apply(
        self, desired: Desired, *, created_once: bool = False, limit: ConflictLimit | None = None
    ) -> Outcome:
        """Apply one target. An error of the API server becomes the outcome. Raises nothing.

        Without a limit, a target is planned again at once.
        """
        invalid, overtaken = 0, False
        action: Action | None = None
        attempts = WriteAttempts(limit)
        try:
            observed = await self._first_observed(desired, created_once=created_once)
            while attempts.begin():
                try:
                    action = await self.plan(desired, observed, created_once=created_once)
                    if action.verb is Verb.LEAVE:
                        await self.renew(observed)
                        return outcome_of(action)
                    if action.verb is not Verb.READ:
                        action = await self._name_drift_manager(_guarded(action) if overtaken else action, desired)
                        outcome, wire = await self._execute(action, desired, observed)
                        left = self._remaining_action(desired, wire) if wire is not None else None
                        if left is None:
                            return outcome
                        if overtaken or left.verb is action.verb is Verb.RECREATE:
                            return altered(desired.target, left)
                        # Another writer has changed the object between the read and our write, which has not touched
                        # it.
                        overtaken = True
                except KubeError as error:
                    # Refused twice: the patch is not outdated, but the content is not valid.
                    invalid += isinstance(error, Invalid)
                    if invalid > 1 and action is not None and desired.body is not None:
                        return await self._handle_immutable(action, desired, error)
                    if not is_stale(error, existed=observed is not None) or invalid > 1:
                        raise
                    note = log.info if isinstance(error, Conflict) else log.debug
                    resource = self._cluster.resource_name(desired.target.kind)
                    cause = type(error).__name__
                    note(
                        "planned anew",
                        cause=cause,
                        attempt=attempts.begun,
                        resource=resource,
                        **desired.target.fields(),
                    )
                    await attempts.failed(error)
                observed = await self.get_live(desired)
        except KubeError as error:
            return failed_repair(action, error) or self._failure(desired.target, error)
        return contended(desired.target, attempts.begun)

    async def remove(
        self, observed: Observed, reason: str, message: str, *, keep_edited: bool = False
    ) -> Outcome | None:
        """Prune one object: delete or release it. Return None if there is no object of ours.

        `keep_edited` also holds for the live object at the moment of the write: after a conflict the object is read,
        and the removal is planned again.
        """
        invalid = 0
        try:
            for _ in range(TRIES):
                action = plan_prune(observed, self._owner, self._cluster.uid, reason, message, keep_edited=keep_edited)
                if action is None:
                    return None
                if action.verb is Verb.LEAVE:
                    return outcome_of(action, gone=True)
                try:
                    with self._informer(observed.target).managed.suppress_events(observed.target):
                        await self._delete_or_release(action, observed)
                    return outcome_of(action, written=True, gone=True)
                except KubeError as error:
                    # Refused twice: the object has not changed, but an admission policy refuses the write.
                    invalid += isinstance(error, Invalid)
                    if not is_stale(error, existed=True) or invalid > 1:
                        raise
                fresh = self._informer(observed.target).to_observed(
                    await self._cluster.read(observed.target, self._client)
                )
                observed = structs.replace(fresh, target=observed.target)
        except NotFound:
            self._informer(observed.target).managed.observe_gone(observed, self._owner.sync)
            return None
        except KubeError as error:
            return self._failure(observed.target, error, gone=True)
        return contended(observed.target, gone=True)

    async def ask_to_create(self, desired: Desired) -> Outcome:
        """Return the API server's answer to a dry-run create, and create nothing.

        For a target whose owner the sync must not know: the sync gets the answer of a create.
        """
        try:
            await self._create_nothing(desired)
        except KubeError as error:
            return self._failure(desired.target, error)
        return contended(desired.target)

    async def ask_to_read_and_create(self, desired: Desired) -> Outcome:
        """Return the answer of `ask_to_create` to a sync that reads each target before it writes."""
        try:
            with suppress(NotFound):
                await self._cluster.read(desired.target, self._client)
            await self._create_nothing(desired)
        except KubeError as error:
            return failure(desired.target, error)
        return contended(desired.target)

    async def _create_nothing(self, desired: Desired) -> None:
        object_id = object_id_of(self._cluster.uid, desired.target)
        body = create_body(desired, self._owner, object_id, Change(digest=desired.digest), desired.content)
        resource, namespace = self._applier.resource(desired), desired.target.namespace or None
        await self._client.create(resource, body, namespace, dry_run=True, fair_key=self._owner.ref)

    async def get_live(self, desired: Desired) -> Observed | None:
        """Read the target live, with its body."""
        try:
            wire = await self._cluster.read(desired.target, self._client)
        except NotFound:
            return None
        informer = self._informer(desired.target)
        informer.observe_unmanaged(wire.metadata, self._owner.sync)
        return self.with_own_marker(informer.to_observed(wire, body=True))

    async def renew(self, observed: Observed | None) -> None:
        """Sign the mark of an unchanged object again if its key is not the current one.

        Only a few at a time, and not an object that another writer has just changed: the next reconcile tries again.
        """
        if observed is None or not must_renew(observed, self._owner, object_id_of(self._cluster.uid, observed.target)):
            return
        marks = self._cluster.marks
        if observed.deleting or observed.reconcile_disabled or observed.trimmed:
            marks.unfinished.add(self._owner.sync)
            return
        if not marks.may_renew(self._owner.sync):
            return
        try:
            with self._informer(observed.target).managed.suppress_events(observed.target):
                wire = await self._patch(observed, renewal_patch(observed, self._owner))
                self._informer(observed.target).managed.observe(wire, self._owner.sync)
        except KubeError as error:
            marks.unfinished.add(self._owner.sync)
            log.debug("a mark could not be renewed yet", error=str(error), **observed.target.fields())

    def with_own_marker(self, observed: Observed | None) -> Observed | None:
        """Return an object with the marker that counts for this sync."""
        return (
            recognise(observed, self._owner, object_id_of(self._cluster.uid, observed.target))
            if observed is not None
            else None
        )

    async def _first_observed(self, desired: Desired, *, created_once: bool) -> Observed | None:
        """Return the observed object before the first plan.

        With the policy Keep, the mark that a namespace has had its copy is permanent, so the first time the object is
        read live: the cached object may have been deleted with an earlier namespace of that name, because both are
        watched separately.
        """
        observed = self.with_own_marker(await self.observed(desired.target))
        if observed is None or created_once or self._policy.management != "Keep":
            return observed
        return await self.get_live(desired)

    def _remaining_action(self, desired: Desired, wire: Wire) -> Action | None:
        """Return the action that remains after a write of ours, planned from its answer; None if none remains.

        The watch does not report it: the cache has this answer already.
        """
        informer, object_id = self._informer(desired.target), object_id_of(self._cluster.uid, desired.target)
        # The cache has reduced this answer already, without the body: few plans need a body.
        observed = informer.managed.reflector.get_same(wire)
        action = plan(desired, observed, self._owner, object_id, self._policy) if observed is not None else None
        if action is None or action.verb is Verb.READ:
            action = plan(desired, informer.to_observed(wire, body=True), self._owner, object_id, self._policy)
        return None if action.verb is Verb.LEAVE else action

    def _informer(self, target: Target) -> KindInformer:
        return self._cluster.informer(target.kind)

    async def _name_drift_manager(self, action: Action, desired: Desired) -> Action:
        """Add the name of the manager that has changed a field of ours; others may have written later."""
        if not action.lost_fields:
            return action
        target = desired.target
        wire = await self._client.get(
            self._applier.resource(desired), target.name, target.namespace or None, type=ObjectWire, metadata_only=True
        )
        return structs.replace(
            action,
            message=lost_message(action.lost_fields, manager_of(wire.metadata.managed_fields, action.lost_fields[0])),
        )

    async def execute(self, action: Action, desired: Desired, observed: Observed | None) -> Outcome:
        """Execute an action, unless it is in a write loop. Raises the errors of the server."""
        outcome, _ = await self._execute(action, desired, observed)
        return outcome

    async def _execute(
        self, action: Action, desired: Desired, observed: Observed | None
    ) -> tuple[Outcome, Wire | None]:
        """Write, and return the object as the server stored it; None if nothing was written."""
        change, target = action.change, desired.target
        assert change is not None  # noqa: S101 - every write of the plan has one
        object_id = object_id_of(self._cluster.uid, target)
        namespace = self._cluster.namespace(target.namespace)
        # An object in a new namespace of the same name is another object.
        digest = f"{namespace.uid if namespace is not None else ''}/{write_digest(desired, self._owner, change)}"
        if change.marks_only:  # each revision is another write
            digest = f"{digest}/{desired.revision}/{desired.source_version}"
        if (earlier := self._write_loops.paused_by(object_id, digest, time.monotonic())) is not None:
            if observed is not None and observed.version == earlier.version:  # no other writer has written
                return altered(target, action), None
            return write_loop(target, earlier.count, observed), None
        try:
            with self._informer(target).managed.suppress_events(target):
                wire = await self._write(action, change, desired, observed)
        except _NotRecreated as refusal:
            return not_recreated(action, refusal.error), None
        self._write_loops.record(object_id, digest, wire.metadata.resource_version, time.monotonic())
        return outcome_of(action, written=True), wire

    async def _write(self, action: Action, change: Change, desired: Desired, observed: Observed | None) -> Wire:
        wire: Wire
        if action.verb is Verb.CREATE or observed is None:
            wire = await self._create(desired, change, desired.content)
        elif action.verb is Verb.RECREATE:
            content = desired.content if desired.body is not None else merged_content(desired, observed, change)
            await self._check_create(desired, change, content)
            await self._delete(observed)
            wire = await self._create(desired, change, content)
        elif desired.body is not None:
            wire = await self._applier.apply(action, change, desired, observed)
        else:
            object_id = object_id_of(self._cluster.uid, desired.target)
            wire = await self._patch(observed, update_patch(desired, observed, self._owner, object_id, change))
        self._informer(desired.target).managed.observe(wire, self._owner.sync)
        return wire

    async def _handle_immutable(self, action: Action, desired: Desired, error: KubeError) -> Outcome:
        """Handle a change that the server refuses: an immutable field, or invalid content."""
        target, observed = desired.target, await self.get_live(desired)
        object_id = object_id_of(self._cluster.uid, target)
        if observed is None or ownership_of(observed, self._owner, object_id) not in (
            Ownership.OURS,
            Ownership.RENEWABLE,
            Ownership.PREVIOUS,
        ):
            return self._failure(target, error)
        change = Change(digest=desired.digest, mode=observed.marker.mode if observed.marker else "Created")
        if not await self._could_be_created(desired, change, error):
            return failed_repair(action, error) or self._failure(target, error)
        if self._policy.management != "Overwrite" or target.kind in IRREPLACEABLE:
            hint = "delete the copy to have it created again"
            if target.kind not in IRREPLACEABLE:
                hint = (
                    "delete the copy, or set resourceManagementPolicy: Overwrite to have it deleted and created again"
                )
            if (outcome := failed_repair(action, error, hint)) is not None:
                return outcome
            message = f"the API server refuses the change; {hint}: {error}"
            return Outcome(target=target, state="Failed", reason="Immutable", message=message)
        message = "a field that cannot be changed differs, so it is deleted and created again"
        anew = Action(verb=Verb.RECREATE, target=target, reason="Recreated", message=message, change=change)
        return await self.execute(anew, desired, observed)

    async def _could_be_created(self, desired: Desired, change: Change, error: KubeError) -> bool:
        """Whether the server refuses only the change, and would accept a new object with this content."""
        try:
            await self._check_create(desired, change, desired.content)
        except _NotRecreated as refusal:
            # If the check itself is refused, as without the right to create, only the words of the message decide.
            return not isinstance(refusal.error, Invalid) and any(word in str(error).lower() for word in IMMUTABLE)
        return True

    async def _delete_or_release(self, action: Action, observed: Observed) -> None:
        managed = self._informer(observed.target).managed
        if action.verb is Verb.DELETE:
            if await self._delete(observed):  # otherwise a finalizer holds it
                managed.observe_gone(observed, self._owner.sync)
        else:
            wire = await self._patch(observed, release_patch(observed))
            managed.observe_gone(observed, self._owner.sync, wire.metadata.resource_version)
        self._write_loops.forget(object_id_of(self._cluster.uid, observed.target))

    async def _create(self, desired: Desired, change: Change, content: Content) -> Wire:
        if desired.body is not None:
            return await self._applier.create(desired, change)
        object_id, now = object_id_of(self._cluster.uid, desired.target), self._client.server_time
        body = create_body(desired, self._owner, object_id, change, content, made=now)
        informer, namespace = self._informer(desired.target), desired.target.namespace or None
        return await self._client.create(
            informer.resource, body, namespace, type=informer.wire, fair_key=self._owner.ref
        )

    async def _check_create(self, desired: Desired, change: Change, content: Content) -> None:
        """Check that the object could be created, before it is deleted to be created again.

        A dry run creates it under the existing name. The server looks for the name last, in its storage. It checks
        rights, validation, policies, webhooks and quotas (with one more object) first. So the answer that the object
        exists means that nothing else prevents the create. Else it raises `_NotRecreated`.
        """
        body = create_body(desired, self._owner, object_id_of(self._cluster.uid, desired.target), change, content)
        if desired.target.kind == "Service":  # its addresses and ports are free after the deletion
            body |= strip_cluster_fields(body)
        resource, namespace = self._applier.resource(desired), desired.target.namespace or None
        try:
            await self._client.create(resource, body, namespace, dry_run=True, fair_key=self._owner.ref)
        except AlreadyExists:
            return
        except (BadRequest, Forbidden, Invalid) as error:
            raise _NotRecreated(error) from error

    async def _delete(self, observed: Observed) -> bool:
        """Delete exactly this object in exactly the observed state, and its dependents in the background."""
        place, informer = observed.target, self._informer(observed.target)
        return await self._client.delete(
            informer.resource,
            place.name,
            place.namespace or None,
            uid=observed.uid,
            version=observed.version,
            propagation=None if informer.wire is DataWire else "Background",
            fair_key=self._owner.ref,
        )

    async def _patch(self, observed: Observed, patch: list[dict[str, Any]]) -> Wire:
        informer = self._informer(observed.target)
        return await self._client.patch(
            informer.resource,
            observed.target.name,
            observed.target.namespace or None,
            patch,
            PatchKind.JSON,
            type=informer.wire,
            fair_key=self._owner.ref,
        )

    def _failure(self, target: Target, error: KubeError, *, gone: bool = False) -> Outcome:
        """Return the outcome of an error. For a missing right, the message has the command that grants it."""
        outcome = failure(target, error, gone=gone)
        resource = self._cluster.resource_name(target.kind)
        if not isinstance(error, Forbidden) or self._cluster.name or resource is None or not lacks_right(str(error)):
            return outcome
        remedy = grant_writer(self._client.user, resource, target.namespace)
        return structs.replace(outcome, message=with_cause(remedy, outcome.message))


def _guarded(action: Action) -> Action:
    """Let the server refuse the write if the object has changed since it was observed."""
    assert action.change is not None  # noqa: S101 - every write of the plan has one
    return structs.replace(action, change=structs.replace(action.change, guard_version=True))
