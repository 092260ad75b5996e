"""Brings one target to what its sync wants: plan, write, and plan again when the world turned out otherwise."""

import structlog

from syncline.api.common import TargetState
from syncline.core.objects import Desired, Seen, Target
from syncline.core.outcome import Outcome, outcome_of
from syncline.core.ownership import Owner, Standing, place, standing
from syncline.core.plan import Action, Edit, Policy, Verb, merged_content, plan
from syncline.core.surplus import plan_removal
from syncline.core.wire import ConfigMapWire, see
from syncline.core.writing import create_body, release_patch, update_patch
from syncline.engine.claims import Claims
from syncline.engine.cluster import Cluster
from syncline.engine.fights import Fights
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
from syncline.kube.resources import CONFIGMAPS

log = structlog.get_logger(__name__)

# How often the world may turn out otherwise before the target waits for its next turn.
TRIES = 5
TERMINATING = "NamespaceTerminating"


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

    async def decide(self, desired: Desired, seen: Seen | None, *, kept: bool = False) -> Action:
        """Plan one target, with what is known of other syncs."""
        here = place(self._cluster.uid, desired.target)
        rival = await self._rival(desired, seen, here)
        return plan(desired, seen, self._owner, here, self._policy, rival=rival, kept=kept)

    async def settle(self, desired: Desired, *, kept: bool = False) -> Outcome:
        """Bring one target about. What the API server says against it becomes the outcome; nothing is raised."""
        seen = self._cluster.copies.at(desired.target)
        invalid = 0
        try:
            for _ in range(TRIES):
                try:
                    action = await self.decide(desired, seen, kept=kept)
                    if action.verb is Verb.LEAVE:
                        return outcome_of(action)
                    if action.verb is not Verb.READ:
                        return await self._carry_out(action, desired, seen)
                except KubeError as error:
                    # Refused twice, it is not the patch that came too late but the content that cannot be.
                    invalid += isinstance(error, Invalid)
                    if not _is_surprise(error, existed=seen is not None) or invalid > 1:
                        raise
                    log.debug("planned anew", target=str(desired.target), cause=str(error))
                seen = await self.look(desired)
        except KubeError as error:
            return _failure(desired.target, error)
        return _contended(desired.target)

    async def remove(self, seen: Seen, reason: str, message: str) -> Outcome | None:
        """Let go of one object, or return None where there is none that is ours."""
        try:
            for _ in range(TRIES):
                action = plan_removal(seen, self._owner, self._cluster.uid, reason, message)
                if action is None:
                    return None
                if action.verb is Verb.LEAVE:
                    return outcome_of(action, gone=True)
                try:
                    with self._cluster.copies.writing(seen.target):
                        await self._let_go(action, seen)
                    return outcome_of(action, written=True, gone=True)
                except KubeError as error:
                    if not _is_surprise(error, existed=True):
                        raise
                seen = see(await self._cluster.read(seen.target, self._client))
        except NotFound:
            self._cluster.copies.forget(seen)
            return None
        except KubeError as error:
            return _failure(seen.target, error, gone=True)
        return _contended(seen.target, gone=True)

    async def look(self, desired: Desired) -> Seen | None:
        """Read the target live, body included."""
        try:
            wire = await self._cluster.read(desired.target, self._client)
        except NotFound:
            return None
        self._cluster.note_stranger(wire)
        return see(wire, body=True)

    async def _rival(self, desired: Desired, seen: Seen | None, here: str) -> str:
        if seen is None:
            namespace = self._cluster.namespace(desired.target.namespace)
            return self._claims.older(self._owner.ref, desired.target, namespace) if namespace is not None else ""
        if seen.marker is None or standing(seen, self._owner, here) is not Standing.RIVAL:
            return ""
        return seen.marker.sync if await self._claims.alive(seen.marker.sync) else ""

    async def _carry_out(self, action: Action, desired: Desired, seen: Seen | None) -> Outcome:
        """Write, unless somebody keeps undoing just that."""
        edit, target = action.edit, desired.target
        assert edit is not None  # noqa: S101 - every write of the plan has one
        namespace = self._cluster.namespace(target.namespace)
        uid = namespace.uid if namespace is not None else ""
        if rounds := self._fights.rounds(target, uid, edit.digest):
            return _fight(target, rounds, seen)
        with self._cluster.copies.writing(target):
            await self._write(action, edit, desired, seen)
        self._fights.wrote(target, uid, edit.digest)
        return outcome_of(action, written=True)

    async def _write(self, action: Action, edit: Edit, desired: Desired, seen: Seen | None) -> None:
        here = place(self._cluster.uid, desired.target)
        if action.verb is Verb.CREATE or seen is None:
            wire = await self._create(create_body(desired, self._owner, here, edit, desired.content), desired)
        elif action.verb is Verb.RECREATE:
            body = create_body(desired, self._owner, here, edit, merged_content(desired, seen, edit))
            await self._delete(seen)
            wire = await self._create(body, desired)
        else:
            wire = await self._patch(seen, update_patch(desired, seen, self._owner, here, edit))
        self._cluster.copies.note(wire)

    async def _let_go(self, action: Action, seen: Seen) -> None:
        if action.verb is Verb.DELETE:
            gone = await self._delete(seen)
        else:
            await self._patch(seen, release_patch(seen))
            gone = True
        if gone:
            self._cluster.copies.forget(seen)
            self._fights.forget(seen.target)

    async def _create(self, body: dict[str, object], desired: Desired) -> ConfigMapWire:
        return await self._client.create(
            CONFIGMAPS, body, desired.target.namespace, type=ConfigMapWire, fair_key=self._owner.ref
        )

    async def _delete(self, seen: Seen) -> bool:
        """Delete this very object, in the very state in which it was seen."""
        place = seen.target
        return await self._client.delete(
            CONFIGMAPS, place.name, place.namespace, uid=seen.uid, version=seen.version, fair_key=self._owner.ref
        )

    async def _patch(self, seen: Seen, patch: list[dict[str, object]]) -> ConfigMapWire:
        return await self._client.patch(
            CONFIGMAPS,
            seen.target.name,
            seen.target.namespace,
            patch,
            PatchKind.JSON,
            type=ConfigMapWire,
            fair_key=self._owner.ref,
        )


def _is_surprise(error: KubeError, *, existed: bool) -> bool:
    """Whether the world is only not as it was seen: then look again."""
    if isinstance(error, Unreachable):
        return error.ambiguous
    return isinstance(error, AlreadyExists | Conflict) or (existed and isinstance(error, Invalid | NotFound))


def _failure(target: Target, error: KubeError, *, gone: bool = False) -> Outcome:
    """Say for a person what stands in the way, and whether it may pass."""
    state: TargetState = "Failed"
    reason, message = "Failed", str(error)
    if isinstance(error, Unreachable):
        state, reason = "Unknown", "Unreachable"
    elif isinstance(error, ApiError) and TERMINATING in error.causes:
        state, reason, message = "Skipped", TERMINATING, f"namespace {target.namespace!r} is being deleted"
    elif isinstance(error, NotFound):
        state, reason, message = "Pending", "NamespaceNotFound", f"namespace {target.namespace!r} does not exist"
    elif isinstance(error, ApiError):
        reason = error.reason
    return Outcome(target=target, state=state, reason=reason, message=message, retry=state != "Skipped", gone=gone)


def _fight(target: Target, rounds: int, seen: Seen | None) -> Outcome:
    who = (seen.changed_by if seen is not None else "") or "somebody"
    how = "changed" if seen is not None else "deleted"
    message = (
        f"written {rounds} times in a short while and {how} again each time, last by {who}; repairs are spaced out"
    )
    return Outcome(target=target, state="Conflict", reason="Fight", message=message, retry=True)


def _contended(target: Target, *, gone: bool = False) -> Outcome:
    message = f"the object changed {TRIES} times while it was being written; it is tried again"
    return Outcome(target=target, state="Failed", reason="Contended", message=message, retry=True, gone=gone)
