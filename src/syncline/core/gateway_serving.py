"""The commit that a gateway is served, from the decision in the status of its sync. Pure.

Every replica serves gateways, and only the leader decides. So a replica reads the decision from the status, which only
the leader can sign. No gateway is served by a spec that the leader has not checked yet.
"""

from datetime import UTC, datetime

from msgspec import Struct, structs

from syncline.api.ignition_status import IgnitionSyncStatus, RolloutGateway, RolloutStatus
from syncline.api.ignitionsync import IgnitionSyncSpec, is_paused
from syncline.core.conditions import find
from syncline.core.gateway_plan import PlanAction
from syncline.core.gateway_rollout import RolloutState

_TIME = "%Y-%m-%dT%H:%M:%SZ"


class Serving(Struct, frozen=True):
    """The decision for one gateway."""

    action: PlanAction
    message: str = ""
    """Why the gateway keeps its files."""
    ref: str = ""
    commit: str = ""


def serving(
    spec: IgnitionSyncSpec | None, generation: int, status: IgnitionSyncStatus, pod: str, *, deleting: bool = False
) -> Serving | None:
    """Return the decision for a pod; None while the leader has not reconciled the spec yet."""
    if deleting:
        return Serving("Hold", "the IgnitionSync is being deleted; the files stay")
    if status.observed_generation != generation:
        return None
    rollout = status.rollout
    if spec is not None and is_paused(spec):
        return Serving("Pause", "the IgnitionSync is suspended")
    if spec is None or rollout is None or rollout.generation != generation:
        ready = find(status.conditions, "Ready")
        why = f": {ready.reason}" if ready is not None else ""
        return Serving("Hold", f"the IgnitionSync cannot be reconciled; see its condition Ready{why}")
    return serve_commit(rollout_state(rollout), status.last_sync_ref, pod)


def serve_commit(state: RolloutState, ref: str, pod: str) -> Serving:
    """Return the decision for a pod from the state of a rollout."""
    if not state.commit:
        return Serving("Hold", "no commit is known yet; see the condition RefResolved of the IgnitionSync")
    commit = state.commit_for(pod)
    if not commit:
        return Serving("Hold", f"the gateway waits for its stage; the rollout is at stage {state.stage}")
    return Serving("Publish", ref=ref, commit=commit)


def rollout_state(status: RolloutStatus | None) -> RolloutState:
    """Return the recorded state of a rollout."""
    if status is None:
        return RolloutState()
    return RolloutState(
        commit=status.commit,
        stage=status.stage,
        since=_seconds(status.since),
        healthy_commit=status.healthy_commit,
        failed_commits=tuple(status.failed_commits),
        assigned={one.pod: one.commit for one in status.gateways},
    )


def rollout_status(state: RolloutState, generation: int) -> RolloutStatus:
    """Return the state of a rollout for the status."""
    return RolloutStatus(
        generation=generation,
        commit=state.commit,
        stage=state.stage,
        since=datetime.fromtimestamp(state.since, UTC).strftime(_TIME) if state.since else None,
        healthy_commit=state.healthy_commit,
        failed_commits=list(state.failed_commits),
        gateways=[RolloutGateway(pod=pod, commit=commit) for pod, commit in sorted(state.assigned.items())],
    )


def withdrawn(status: IgnitionSyncStatus) -> IgnitionSyncStatus:
    """Return a status that serves no files, and keeps the state of the rollout."""
    if status.rollout is None:
        return status
    return structs.replace(status, rollout=structs.replace(status.rollout, generation=0))


def _seconds(text: str | None) -> float:
    try:
        return datetime.strptime(text or "", _TIME).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0
