"""Rollouts: the commit of each gateway, step by step, and automatic rollbacks. Pure: the clock is an argument.

- A gateway belongs to the first stage whose selector matches its labels. Gateways that match no stage come last.
- In a stage, the gateways that the order names go one after another, before the other gateways of the stage.
- A step begins once all running gateways of the steps before it are synced at the commit.
- A commit is healthy once all running gateways are synced at it. A healthy commit cannot fail later.
- If a gateway fails for a reason that is a trigger, the commit has failed: all gateways go back to the last healthy
  commit at once. The failed commit is not tried again until the ref moves, or until a person requests a reconcile.
- If no commit was healthy before, there is nothing to go back to: the rollout stops where it is.

Every decision starts from the recorded state and the reports. Without a change of them, it does not change.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct, structs

from syncline.api.ignition_rollout import RollbackTrigger as Trigger
from syncline.api.ignition_status import MAX_FAILED_COMMITS, MAX_GATEWAYS
from syncline.core.gateway_plan import GatewayState

RolloutEvent = Literal[
    "", "RolloutStarted", "RolloutAdvanced", "RolloutCompleted", "RolloutRolledBack", "RolloutFailed"
]

DEFAULT_TIMEOUT = 600.0
"""The seconds after which a step counts as failed under the trigger `timeout`."""
REMAINING = "remaining"
"""The stage of the gateways that match no stage of the spec."""
_FIRST = "first"
_NAMED = 3
_SHORT = 12


class RolloutStage(Struct, frozen=True):
    """A stage of a rollout."""

    name: str
    labels: Mapping[str, str]
    """The labels that a gateway of this stage has."""


class RolloutStrategy(Struct, frozen=True, kw_only=True):
    """How a commit reaches the gateways."""

    stages: tuple[RolloutStage, ...] = ()
    order: tuple[str, ...] = ()
    """The names of gateways that go one after another."""
    triggers: frozenset[Trigger] = frozenset()
    """The failures that cause a rollback."""
    timeout: float = DEFAULT_TIMEOUT

    @property
    def is_staged(self) -> bool:
        """Whether some gateways wait for others."""
        return bool(self.stages or self.order)


class GatewayProgress(Struct, frozen=True, kw_only=True):
    """The progress of one gateway."""

    pod: str
    name: str
    labels: Mapping[str, str]
    running: bool = True
    """Whether its pod runs. A rollout does not wait for other pods."""
    state: GatewayState = "Pending"
    commit: str = ""
    """The commit of its state; empty if the state is not about the newest plan."""
    failure: Trigger | None = None
    """The kind of its failure, if the state is Error."""

    def is_synced_at(self, commit: str) -> bool:
        """Whether the gateway is synced at a commit."""
        return self.state == "Synced" and self.commit == commit


class RolloutState(Struct, frozen=True, kw_only=True):
    """The recorded state of a rollout."""

    commit: str = ""
    """The commit that is rolled out."""
    stage: str = ""
    """The step in progress; empty if no gateway waits for another."""
    since: float = 0.0
    """When this step began, in seconds since the epoch."""
    healthy_commit: str = ""
    """The last commit that was healthy."""
    failed_commits: tuple[str, ...] = ()
    """Newest first."""
    assigned: Mapping[str, str] = {}
    """The commits of pods during a staged rollout, if they differ from the healthy commit."""

    def commit_for(self, pod: str) -> str:
        """Return the commit that a pod gets; empty if it waits for its step."""
        if not self.stage:
            return self.commit
        return self.assigned.get(pod, self.healthy_commit)


class RolloutDecision(Struct, frozen=True, kw_only=True):
    """The state to record, and the event to send."""

    state: RolloutState
    event: RolloutEvent = ""
    message: str = ""
    """The cause of the event, or of a wait."""
    wait: float | None = None
    """The seconds after which to decide again, if nothing happens."""
    held: bool = False
    """Whether the head is held back, because it failed."""


class _Step(Struct, frozen=True):
    name: str
    gateways: tuple[GatewayProgress, ...]


def decide(
    strategy: RolloutStrategy,
    state: RolloutState,
    head: str,
    gateways: Sequence[GatewayProgress],
    now: float,
    *,
    retry: bool = False,
) -> RolloutDecision:
    """Decide which gateways get `head`, the commit of the ref now. `retry`: a failed commit is tried again. Total."""
    if retry and head in state.failed_commits:
        failed = tuple(commit for commit in state.failed_commits if commit != head)
        state = structs.replace(state, failed_commits=failed, since=now)
    if head in state.failed_commits:
        return _held(state, head, gateways, now)
    if strategy.is_staged and len(gateways) > MAX_GATEWAYS:
        message = f"a staged rollout reaches at most {MAX_GATEWAYS} gateways: remove deployment, or split the sync"
        return RolloutDecision(state=state, message=message, held=True)
    started = state.commit != head
    if started:
        state = _begin(strategy, state, head, gateways, now)
    if state.commit == state.healthy_commit:
        done = structs.replace(state, stage="", assigned={})
        return RolloutDecision(
            state=done, event="RolloutStarted" if started else "", message=_to(head) if started else ""
        )
    if (cause := _failure(strategy, state, gateways)) is not None:
        return _fail(state, cause, now)
    decision = _advance(strategy, state, gateways, now)
    if decision.event == "" and started:
        message = f"{_to(head)}; {decision.message}" if decision.message else _to(head)
        return structs.replace(decision, event="RolloutStarted", message=message)
    return decision


def _begin(
    strategy: RolloutStrategy, state: RolloutState, head: str, gateways: Iterable[GatewayProgress], now: float
) -> RolloutState:
    """Start a rollout. Each pod keeps its present commit until its step."""
    if not strategy.is_staged or head == state.healthy_commit:
        return structs.replace(state, commit=head, stage="", since=now, assigned={})
    has = {one.pod: state.commit_for(one.pod) for one in gateways}
    kept = {pod: commit for pod, commit in has.items() if commit not in ("", state.healthy_commit)}
    return structs.replace(state, commit=head, stage=_FIRST, since=now, assigned=kept)


def _held(state: RolloutState, head: str, gateways: Sequence[GatewayProgress], now: float) -> RolloutDecision:
    """Hold back a head that has failed."""
    message = f"commit {head[:_SHORT]} failed; push another commit, or request a reconcile to try it again"
    if state.healthy_commit:
        if state.commit != state.healthy_commit or state.stage:
            state = structs.replace(state, commit=state.healthy_commit, stage="", since=now, assigned={})
        return RolloutDecision(state=state, message=message, held=True)
    running = [one for one in gateways if one.running]
    if running and all(one.is_synced_at(head) for one in running):  # the agents have retried by themselves
        failed = tuple(commit for commit in state.failed_commits if commit != head)
        return _complete(structs.replace(state, commit=head, failed_commits=failed), now)
    return RolloutDecision(state=state, message=f"{message}; no commit before it was healthy", held=True)


def _failure(strategy: RolloutStrategy, state: RolloutState, gateways: Iterable[GatewayProgress]) -> str | None:
    """Return the failure that causes a rollback, with its gateway."""
    for one in gateways:
        tried = one.state == "Error" and one.commit == state.commit == state.commit_for(one.pod)
        if tried and one.failure in strategy.triggers:
            return f"gateway {one.name} (pod {one.pod}) reports {one.failure}"
    return None


def _fail(state: RolloutState, cause: str, now: float) -> RolloutDecision:
    failed = (state.commit, *(one for one in state.failed_commits if one != state.commit))[:MAX_FAILED_COMMITS]
    what = f"commit {state.commit[:_SHORT]} failed: {cause}"
    if not state.healthy_commit:
        stopped = structs.replace(state, failed_commits=failed)
        message = f"{what}; no commit before it was healthy, so the rollout stops: push a better one"
        return RolloutDecision(state=stopped, event="RolloutFailed", message=message, held=True)
    back = structs.replace(state, commit=state.healthy_commit, stage="", since=now, failed_commits=failed, assigned={})
    message = f"{what}; all gateways go back to {back.commit[:_SHORT]}"
    return RolloutDecision(state=back, event="RolloutRolledBack", message=message, held=True)


def _advance(
    strategy: RolloutStrategy, state: RolloutState, gateways: Sequence[GatewayProgress], now: float
) -> RolloutDecision:
    """Assign the commit to the gateways of every step that has begun."""
    steps = _steps(strategy, gateways)
    assigned = dict(state.assigned)
    for place, step in enumerate(steps):
        assigned |= {one.pod: state.commit for one in step.gateways}
        missing = [one for one in step.gateways if one.running and not one.is_synced_at(state.commit)]
        if missing:
            return _waiting(strategy, state, steps, place=place, missing=missing, assigned=assigned, now=now)
    if not any(one.running for one in gateways):
        return _waiting(strategy, state, steps, place=len(steps) - 1, missing=(), assigned=assigned, now=now)
    return _complete(state, now)


def _complete(state: RolloutState, now: float) -> RolloutDecision:
    healthy = structs.replace(state, stage="", since=now, healthy_commit=state.commit, assigned={})
    message = f"all gateways are synced at {state.commit[:_SHORT]}"
    return RolloutDecision(state=healthy, event="RolloutCompleted", message=message)


def _waiting(
    strategy: RolloutStrategy,
    state: RolloutState,
    steps: Sequence[_Step],
    *,
    place: int,
    missing: Sequence[GatewayProgress],
    assigned: Mapping[str, str],
    now: float,
) -> RolloutDecision:
    """Record the step in progress, and wait for its gateways."""
    staged = strategy.is_staged
    name = (steps[place].name if steps else _FIRST) if staged else ""
    since = state.since if state.stage in (name, _FIRST, "") else now
    left = since + strategy.timeout - now
    if missing and "timeout" in strategy.triggers and left <= 0:
        names = ", ".join(sorted({one.name for one in missing})[:_NAMED])
        return _fail(state, f"not synced within {strategy.timeout:g} s: {names}", now)
    kept = {pod: commit for pod, commit in assigned.items() if commit != state.healthy_commit} if staged else {}
    new = structs.replace(state, stage=name, since=since, assigned=dict(sorted(kept.items())[:MAX_GATEWAYS]))
    where = f"stage {name}: " if staged else ""
    what = f"waiting for {len(missing)} gateway{'s' * (len(missing) != 1)}" if missing else "no gateway runs"
    return RolloutDecision(
        state=new,
        event="RolloutAdvanced" if any(step.name == state.stage for step in steps[: max(place, 0)]) else "",
        message=where + what,
        wait=left if missing and "timeout" in strategy.triggers else None,
    )


def _steps(strategy: RolloutStrategy, gateways: Sequence[GatewayProgress]) -> list[_Step]:
    """Return the gateways of each step, in the order of the rollout, without empty steps."""
    rank = {name: place for place, name in reversed(list(enumerate(strategy.order)))}
    groups: dict[tuple[int, int], list[GatewayProgress]] = {}
    for one in gateways:
        groups.setdefault((_stage_of(strategy, one), rank.get(one.name, len(strategy.order))), []).append(one)
    names = [*(stage.name for stage in strategy.stages), REMAINING]
    return [
        _Step(_step_name(names[stage], place, strategy.order), tuple(found))
        for (stage, place), found in sorted(groups.items(), key=lambda item: item[0])
    ]


def _step_name(stage: str, place: int, order: Sequence[str]) -> str:
    return f"{stage}/{order[place]}" if place < len(order) else stage


def _stage_of(strategy: RolloutStrategy, gateway: GatewayProgress) -> int:
    for place, stage in enumerate(strategy.stages):
        if stage.labels.items() <= gateway.labels.items():
            return place
    return len(strategy.stages)


def _to(commit: str) -> str:
    return f"commit {commit[:_SHORT]} is rolled out"
