"""The target commit of all gateways, and the strategy of its rollout, by the spec of their sync. Pure."""

from msgspec import Struct

from syncline.api.configsync import HeldRollback
from syncline.api.ignition_status import IgnitionSyncStatus
from syncline.api.ignitionsync import IgnitionSyncSpec
from syncline.core.durations import seconds
from syncline.core.gateway_rollout import RolloutStage, RolloutStrategy
from syncline.core.revisions import ActiveRollback, AppliedRevision, HeadRevision, RevisionState, decide

ALL_AT_ONCE = RolloutStrategy()


class TargetCommit(Struct, frozen=True, kw_only=True):
    """The target commit of all gateways."""

    commit: str
    """Empty if none is known."""
    rollback: HeldRollback | None = None
    """The rollback that holds them there."""
    problem: str = ""
    """Why `spec.rollback` cannot be executed."""


def target_commit(spec: IgnitionSyncSpec, status: IgnitionSyncStatus, head: str, now: str) -> TargetCommit:
    """Return the target commit. `head` is the commit of the ref; empty if it is not known."""
    held, rollout = status.rollback, status.rollout
    decision = decide(
        RevisionState(
            head=HeadRevision(head or None),
            rollback_to=spec.rollback.to if spec.rollback is not None else None,
            active_rollback=ActiveRollback(held.to, held.requested) if held is not None else None,
            history=[AppliedRevision(one.revision, one.result == "Synced") for one in status.history if one.revision],
            current=rollout.commit or None if rollout is not None else None,
            last_healthy=rollout.healthy_commit or None if rollout is not None else None,
        )
    )
    active = decision.rollback if spec.rollback is not None else None
    rollback = None
    if active is not None:
        same = held is not None and (held.to, held.requested) == (active.to, active.requested)
        since = held.since if held is not None and same else now
        rollback = HeldRollback(to=active.to, requested=active.requested, since=since)
    return TargetCommit(
        commit=decision.commit or "",
        rollback=rollback,
        problem=decision.why if decision.reason == "NotFound" else "",
    )


def strategy_of(spec: IgnitionSyncSpec) -> RolloutStrategy:
    """Return the strategy of a rollout. A rollback reaches all gateways at once."""
    deployment = spec.deployment
    if deployment is None or spec.rollback is not None:
        return ALL_AT_ONCE
    back = deployment.auto_rollback
    return RolloutStrategy(
        stages=tuple(RolloutStage(stage.name, stage.gateway_selector) for stage in deployment.stages),
        order=tuple(deployment.sync_order),
        triggers=frozenset(back.triggers or ["scanFailure"]) if back.enabled else frozenset(),
        timeout=seconds(back.timeout),
    )
