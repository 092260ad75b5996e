"""Author check: whether the rights of the author of a sync without a service account were checked.

The API server checks authors, with the shipped admission policies. While these are not in force, such syncs are not
reconciled. A spec that was written meanwhile is not reconciled afterwards either, until it is written again. While the
policies cannot be read, a new spec waits without a verdict, because a verdict is final.
"""

from typing import Protocol

from syncline.api.common import ObjectMeta
from syncline.api.status import SyncStatus
from syncline.api.synctarget import KIND, PLURAL, SyncTarget, SyncTargetStatus
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import AnySync
from syncline.controllers.targets.synctargets import TargetSync
from syncline.core.author_policies import AUTHOR_UNCHECKED, JudgedSpec, Verdict, judge
from syncline.core.conditions import find
from syncline.core.status_proof import is_status_proven
from syncline.engine.author_policies import AuthorPolicies, PolicyChanging
from syncline.engine.markkeys import MarkRing

LOOK_AGAIN = 60.0
"""Seconds; a watch reports changed policies."""

LOOK_AGAIN_UNKNOWN = 10.0
"""Seconds; no watch reports that the policies can be read again."""

_STAYS = "nothing is written or removed for syncs without serviceAccountName meanwhile"
_UNCHECKED = (
    "write the spec again, of a sync by `syncline suspend` and `syncline resume`, or set serviceAccountName:"
    " nobody has checked that its author may do what it asks for"
)


class AuthorMemory(Protocol):
    """The cached verdict about the author of a sync."""

    author: JudgedSpec | None


class AuthorCheck:
    """Checks the syncs of all kinds. With a default account, no sync acts with the operator's own rights."""

    def __init__(self, policies: AuthorPolicies, default_account: str = "", marks: MarkRing | None = None) -> None:
        self._policies = policies
        self._marks = marks or MarkRing()
        self._default_account = default_account
        self._judged: dict[str, JudgedSpec] = {}
        """The verdicts about the authors of SyncTargets, by their UIDs."""

    async def problem(self, plural: str, sync: AnySync, state: AuthorMemory) -> SyncError | None:
        """Return why a sync must not be reconciled, or None. Raises `KubeError` if that cannot be known."""
        epoch = self._policies.epoch(plural)
        if getattr(sync.spec, "service_account_name", None) or self._default_account:
            state.author = JudgedSpec(sync.metadata.generation, checked=True, epoch=epoch)  # later specs are followed
            return None
        verdict = self._judge(plural, sync, state.author)
        if verdict in {"PolicyMissing", "PolicyUnknown"} and self._policies.is_interrupted():
            raise PolicyChanging(f"the admission policies cannot be read: {self._policies.problem(plural)}")
        if verdict == "Confirm":
            await self._policies.confirm(plural)
        if verdict != "PolicyUnknown":
            checked = verdict != "AuthorUnchecked"
            state.author = JudgedSpec(sync.metadata.generation, checked=checked, epoch=epoch)
        return self._explain(verdict, plural, sync)

    def _explain(self, verdict: Verdict, plural: str, sync: AnySync) -> SyncError | None:
        """Return the error for a verdict; None if the sync may be reconciled."""
        why = self._policies.problem(plural)
        again = LOOK_AGAIN_UNKNOWN if self._policies.enforcement(plural) == "Unknown" else LOOK_AGAIN
        if verdict == "PolicyUnknown" or (verdict == "PolicyMissing" and sync.spec is not None):
            return SyncError(verdict, f"{why}; {_STAYS}", again=again)
        if verdict == "AuthorUnchecked":
            return SyncError(AUTHOR_UNCHECKED, _unchecked(why), again=again if why else None)
        return None

    def refusal(self, target: TargetSync) -> str:
        """Return why a SyncTarget must not be used: the right of its author to use the credential is unchecked.

        A checked SyncTarget stays in use even if the policy is removed: syncs with an account write through it. One
        without a verdict yet is not refused here, but `confirm` raises.
        """
        verdict = self._judge_target(target)
        if verdict not in {"Confirm", "PolicyUnknown"}:
            self._remember(target.metadata, checked=verdict != "AuthorUnchecked")
        return _unchecked(self._policies.problem(PLURAL)) if verdict == "AuthorUnchecked" else ""

    async def confirm(self, target: SyncTarget) -> None:
        """Check the author of a SyncTarget before its first use. Raises `KubeError`."""
        verdict = self._judge_target(target)
        if verdict == "PolicyUnknown":
            raise PolicyChanging(f"the admission policies cannot be read: {self._policies.problem(PLURAL)}")
        if verdict == "Confirm":
            await self._policies.confirm(PLURAL)
            self._remember(target.metadata, checked=True)

    def forget(self, uid: str) -> None:
        """Forget a deleted SyncTarget."""
        self._judged.pop(uid, None)

    def _remembered(self, meta: ObjectMeta) -> JudgedSpec | None:
        return self._judged.get(meta.uid)

    def _remember(self, meta: ObjectMeta, *, checked: bool) -> None:
        self._judged[meta.uid] = JudgedSpec(meta.generation, checked=checked, epoch=self._policies.epoch(PLURAL))

    def _judge_target(self, target: TargetSync | SyncTarget) -> Verdict:
        """Return the verdict about a SyncTarget. Its status counts only if the operator wrote it."""
        meta, status, keys = target.metadata, target.status, self._marks.keys
        if not keys.ids:
            return "PolicyUnknown"  # the keys are not read yet
        if not is_status_proven(status, KIND, meta.uid, keys):
            status = SyncTargetStatus()
        return self._judge_status(PLURAL, meta, status, self._remembered(meta))

    def _judge(self, plural: str, sync: AnySync, remembered: JudgedSpec | None) -> Verdict:
        return self._judge_status(plural, sync.metadata, sync.status, remembered)

    def _judge_status(
        self, plural: str, meta: ObjectMeta, status: SyncStatus | SyncTargetStatus, remembered: JudgedSpec | None
    ) -> Verdict:
        ready, enforcement = find(status.conditions, "Ready"), self._policies.enforcement(plural)
        return judge(
            generation=meta.generation,
            observed=status.observed_generation,
            reason=ready.reason if ready is not None else "",
            remembered=remembered,
            enforcement=enforcement,
            epoch=self._policies.epoch(plural),
            predates=enforcement == "InForce" and self._predates(plural, meta, status.observed_generation),
        )

    def _predates(self, plural: str, meta: ObjectMeta, observed: int) -> bool:
        """Whether the spec may be older than the policy about its author, or the deletion than those about removal."""
        if meta.deletion_timestamp is not None and meta.generation == observed + 1:  # deleted, and not edited before
            return self._policies.is_deletion_older(meta.deletion_timestamp, plural)
        return self._policies.is_older(meta.creation_timestamp, plural, removing=observed > 0)


def _unchecked(why: str) -> str:
    return f"{why}; then {_UNCHECKED}" if why else _UNCHECKED
