"""Author check: whether a sync without a service account was written by somebody whose rights were checked.

The API server checks authors, by the admission policies that are shipped. While these are not in force, such syncs are
not carried out; a spec that was written meanwhile is not carried out afterwards either, until it is written again.
"""

from syncline.api.common import ObjectMeta
from syncline.api.synctarget import PLURAL, SyncTarget
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import AnySync
from syncline.controllers.state import SyncState
from syncline.controllers.targets.synctargets import TargetSync
from syncline.core.author_policies import AUTHOR_UNCHECKED, POLICY_MISSING, Verdict, judge
from syncline.core.conditions import find
from syncline.engine.author_policies import AuthorPolicies

LOOK_AGAIN = 60.0
"""Seconds; the watch tells of policies, and this of a right to watch them that is back."""

_STAYS = "nothing is written or removed for syncs without serviceAccountName meanwhile"
_UNCHECKED = (
    "write the spec again, of a sync by `syncline suspend` and `syncline resume`, or set serviceAccountName:"
    " nobody has checked that its author may do what it asks for"
)


class AuthorCheck:
    """Judges the syncs of all kinds. With a default account, no sync acts with the operator's own rights."""

    def __init__(self, policies: AuthorPolicies, default_account: str = "") -> None:
        self._policies = policies
        self._default_account = default_account
        self._judged: dict[str, tuple[int, bool]] = {}
        """The generations of SyncTargets, by UID, whose authors were judged, and whether they had been checked."""

    async def problem(self, plural: str, sync: AnySync, state: SyncState) -> SyncError | None:
        """Say why a sync must not be carried out; None where it may. Raises `KubeError` where that cannot be known."""
        if getattr(sync.spec, "service_account_name", None) or self._default_account:
            state.author = sync.metadata.generation, True  # a later spec was written while this process looks
            return None
        why = self._policies.problem(plural)
        verdict = self._judge(plural, sync, why, state.author)
        if verdict == "Confirm":
            await self._policies.confirm(plural)
        state.author = sync.metadata.generation, verdict != "AuthorUnchecked"
        if verdict == "PolicyMissing" and sync.spec is not None:
            return SyncError(POLICY_MISSING, f"{why}; {_STAYS}", again=LOOK_AGAIN)
        if verdict == "AuthorUnchecked":
            return SyncError(AUTHOR_UNCHECKED, _unchecked(why), again=LOOK_AGAIN if why else None)
        return None

    def refusal(self, target: TargetSync) -> str:
        """Say why a SyncTarget must not be used: nobody has checked that its author may use its credential.

        One that was checked stays in use whatever becomes of the policy: syncs with an account write through it.
        """
        why = self._policies.problem(PLURAL)
        verdict = self._judge(PLURAL, target, why, self._remembered(target.metadata))
        if verdict != "Confirm":
            self._judged[target.metadata.uid] = target.metadata.generation, verdict != "AuthorUnchecked"
        return _unchecked(why) if verdict == "AuthorUnchecked" else ""

    async def confirm(self, target: SyncTarget) -> None:
        """Make sure, before the first use of a SyncTarget, that its author is checked. Raises `KubeError`."""
        meta = target.metadata
        if self._judge(PLURAL, target, self._policies.problem(PLURAL), self._remembered(meta)) == "Confirm":
            await self._policies.confirm(PLURAL)
            self._judged[meta.uid] = meta.generation, True

    def forget(self, uid: str) -> None:
        """Forget a SyncTarget that is gone."""
        self._judged.pop(uid, None)

    def _remembered(self, meta: ObjectMeta) -> tuple[int, bool] | None:
        return self._judged.get(meta.uid)

    def _judge(
        self, plural: str, sync: AnySync | TargetSync | SyncTarget, why: str, remembered: tuple[int, bool] | None = None
    ) -> Verdict:
        meta, ready = sync.metadata, find(sync.status.conditions, "Ready")
        return judge(
            generation=meta.generation,
            observed=sync.status.observed_generation,
            reason=ready.reason if ready is not None else "",
            remembered=remembered,
            in_force=not why,
            predates=not why and self._predates(plural, meta, sync.status.observed_generation),
        )

    def _predates(self, plural: str, meta: ObjectMeta, observed: int) -> bool:
        """Whether the spec may be older than the policy about its author, or the deletion than those about removal."""
        if meta.deletion_timestamp is not None and meta.generation == observed + 1:  # deleted, and not edited before
            return self._policies.is_deletion_older(meta.deletion_timestamp, plural)
        return self._policies.is_older(meta.creation_timestamp, plural, removing=observed > 0)


def _unchecked(why: str) -> str:
    return f"{why}; then {_UNCHECKED}" if why else _UNCHECKED
