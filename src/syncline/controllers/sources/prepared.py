"""A prepared revision of one environment, and the result of applying it."""

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Self

from msgspec import Struct, structs

from syncline.api.common import HistoryEntry
from syncline.api.configsync import ConfigSyncSpec, SourceRevision
from syncline.controllers.errors import QuotaError, SyncError
from syncline.controllers.result import ReconcileResult
from syncline.controllers.sources.build import BuildArtifact
from syncline.controllers.sources.tree import SourceTree
from syncline.controllers.state import SyncState
from syncline.controllers.targets.clusters import ConnectedClusters, TargetCluster
from syncline.controllers.targets.prune import KeepSet
from syncline.core.environments import EnvironmentSpec, EnvironmentState
from syncline.core.health import Health
from syncline.core.history import applied
from syncline.core.objects import Desired, Target
from syncline.core.outcome import Outcome
from syncline.core.revisions import Decision, Head, Hold, Past, RevisionHealth, Situation, decide
from syncline.core.tenancy import NOT_ALLOWED, TenantLimits
from syncline.core.validity import Validity
from syncline.engine.fanout import FanOut

_NAMED = 3
_APPLIED = frozenset({"Synced", "Skipped"})


class ValidationResult(Struct, frozen=True, kw_only=True):
    """What validation found out about a revision in one cluster."""

    inputs: str
    """Names what the revision was built from."""
    validity: Validity
    schemas: frozenset[tuple[str, bytes]] = frozenset()
    """The digests of the schemas that it was checked against, by API version."""
    since: float = 0.0
    """When it was found first."""
    settled: bool = True
    """Whether it stands until something changes; else the server may be about to publish another schema."""


class UnitState(SyncState):
    """What is remembered of one environment between reconciles. All of it can be lost."""

    def __init__(self, fan_out: FanOut) -> None:
        super().__init__(fan_out)
        self.artifact: BuildArtifact | None = None
        """What is applied."""
        self.accepted: frozenset[str] = frozenset()
        """The clusters that it may be written to."""
        self.chosen: BuildArtifact | None = None
        """What was to be applied last; it may have been refused by validation."""
        self.candidate: BuildArtifact | None = None
        """What was built last; it may wait for a dependency."""
        self.examined: Mapping[str, ValidationResult] = {}
        """What validation found last, by cluster."""
        self.health: RevisionHealth = "Pending"
        self.failed = ""
        """The inputs that did not become healthy, last time any did not."""
        self._watched: tuple[str, float] = "", 0.0

    def accepts(self, inputs: str, clusters: frozenset[str]) -> bool:
        """Whether what is applied was built from these inputs, and may be written to these clusters."""
        return self.artifact is not None and self.artifact.inputs == inputs and clusters <= self.accepted

    def accept(self, artifact: BuildArtifact, clusters: frozenset[str]) -> None:
        """Note that something is applied from now on, to these clusters too."""
        if self.artifact is None or self.artifact.inputs != artifact.inputs:
            self.health = "Pending"
            self.accepted = frozenset()
        self.artifact = artifact
        self.accepted |= clusters

    def unhealthy_for(self, inputs: str, now: float) -> float:
        """Return for how many seconds what was applied has not been well."""
        if self._watched[0] != inputs:
            self._watched = inputs, now
        return now - self._watched[1]

    def mark_healthy(self, inputs: str, now: float) -> None:
        """Note that what was applied is well: should it fall ill, its time begins anew."""
        self._watched = inputs, now


class ConfigSyncState(SyncState):
    """What is remembered of a ConfigSync."""

    def __init__(self, fan_out: FanOut) -> None:
        super().__init__(fan_out)
        self._units: dict[str, UnitState] = {}

    def unit(self, name: str) -> UnitState:
        """Return the memory of an environment."""
        return self._units.setdefault(name, UnitState(self.fan_out))

    def keep(self, names: Collection[str]) -> None:
        """Forget all other environments."""
        self._units = {name: environment for name, environment in self._units.items() if name in names}

    def shed(self) -> None:
        """Drop what was built."""
        for environment in self._units.values():
            environment.artifact = environment.candidate = None


class PreparedRevision(Struct, frozen=True, kw_only=True):
    """What one environment is about to apply."""

    environment: EnvironmentSpec
    recorded: EnvironmentState
    revision: str | None = None
    """What the status is to say."""
    attempted: str = ""
    """The revision that could not be read or built, where it is known."""
    revisions: tuple[SourceRevision, ...] = ()
    artifact: BuildArtifact | None = None
    source_tree: SourceTree | None = None
    """The files that it was made from, for the time of a reconcile."""
    certain: bool = False
    """Whether it is all that the source wants now: only then may anything be removed."""
    problem: SyncError | None = None
    decision: Decision | None = None
    skipped: Mapping[str, Validity] = {}
    """Clusters that it is not written to, and what validation found there."""
    unpacked: tuple[Desired, ...] | None = None
    """What was made, unpacked for the time of a reconcile."""

    def desired(self) -> Sequence[Desired]:
        """Return what each target should hold."""
        if self.unpacked is not None:
            return self.unpacked
        return self.artifact.desired() if self.artifact is not None else ()

    def unpack(self) -> Self:
        """Unpack what was made, once for the whole reconcile."""
        return structs.replace(self, unpacked=tuple(self.desired()))


class ApplyResult(Struct, frozen=True, kw_only=True):
    """What came of it."""

    prepared: PreparedRevision
    outcomes: tuple[Outcome, ...] = ()
    health: RevisionHealth = "Pending"
    problem: SyncError | None = None
    again: float | None = None
    waits: bool = False
    scope_done: bool = True


class RemovedEnvironments(Struct, frozen=True, kw_only=True):
    """What became of the environments that left the spec."""

    names: tuple[str, ...] = ()
    """Those of which something is still there."""
    outcomes: tuple[Outcome, ...] = ()
    problem: SyncError | None = None
    again: float | None = None
    done: bool = True
    """Whether nothing is left to be removed; what stays on purpose does not count."""


def within_limits(prepared: PreparedRevision, limits: TenantLimits) -> PreparedRevision:
    """Return a revision as TenantPolicies allow it: where one object is not allowed, nothing of it is applied.

    Nor is anything of an earlier one where its sources or keys are not allowed any more.
    """
    if (
        prepared.problem is not None
        and prepared.problem.reason == NOT_ALLOWED
        and not isinstance(prepared.problem, QuotaError)
    ):
        return _withheld(prepared, prepared.problem)
    targets = dict.fromkeys((one.target.kind, one.target.namespace, one.target.name) for one in prepared.desired())
    for kind, namespace, name in targets if limits.policies else ():
        if (violation := limits.target(kind, namespace)) is not None:
            message = f"{violation}; it is about {kind} {f'{namespace}/' if namespace else ''}{name}"
            return _withheld(prepared, SyncError(NOT_ALLOWED, message, stalled=True))
    return prepared


def _withheld(prepared: PreparedRevision, problem: SyncError) -> PreparedRevision:
    """Return a prepared revision that applies nothing and removes nothing."""
    return PreparedRevision(
        environment=prepared.environment,
        recorded=prepared.recorded,
        revision=prepared.recorded.revision,
        revisions=prepared.recorded.revisions,
        attempted=prepared.attempted or prepared.revision or "",
        decision=prepared.decision,
        problem=problem,
        unpacked=(),
    )


def choose_revision(
    spec: ConfigSyncSpec,
    environment: EnvironmentSpec,
    recorded: EnvironmentState,
    head: Head,
    *,
    health: RevisionHealth,
    requested: bool,
) -> Decision:
    """Decide which revision an environment applies, given the health of the current one and a request for a sync."""
    hold = Hold(recorded.rollback.to, recorded.rollback.requested) if recorded.rollback is not None else None
    return decide(
        Situation(
            head=head,
            rollback_to=environment.rollback,
            hold=hold,
            history=[_applied_revision(entry, spec) for entry in applied(recorded.history)],
            current=recorded.revision,
            health=health,
            last_healthy=recorded.healthy,
            policy=spec.failure_policy,
            requested=requested,
        )
    )


def _applied_revision(entry: HistoryEntry, spec: ConfigSyncSpec) -> Past:
    healthy = None
    if spec.wait:
        healthy = True if entry.result == "Synced" else False if entry.result == "Failed" else None
    return Past(entry.revision, healthy)


class HealthResult(Struct, frozen=True, kw_only=True):
    """How what was applied is."""

    state: RevisionHealth = "Pending"
    problem: SyncError | None = None
    again: float | None = None


def check_health(
    prepared: PreparedRevision,
    sites: Sequence[TargetCluster],
    outcomes: Sequence[Outcome],
    state: UnitState,
    timeout: float,
) -> HealthResult:
    """Tell whether everything that was applied does what it should, and for how long to wait for it."""
    artifact = prepared.artifact
    if artifact is None:
        return HealthResult()
    now = time.monotonic()
    unsettled = {outcome.state for outcome in outcomes if outcome.state not in _APPLIED and not outcome.gone}
    if unsettled == {"Unknown"}:
        # That a server is out of reach says nothing against a revision.
        return HealthResult()
    if unsettled:
        # What was not applied cannot be well; when its time is over, the revision has failed.
        left = timeout - state.unhealthy_for(artifact.inputs, now)
        return HealthResult(state="Pending" if left > 0 else "Failed", again=left if left > 0 else None)
    skipped = {outcome.target for outcome in outcomes if outcome.state == "Skipped"}
    states = ((target, health) for target, health in _states(prepared, sites) if target not in skipped)
    ill = [(target, health) for target, health in states if health.state != "Current"]
    if not ill:
        state.mark_healthy(artifact.inputs, now)
        return HealthResult(state="Healthy")
    left = timeout - state.unhealthy_for(artifact.inputs, now)
    failed = [one for one in ill if one[1].state == "Failed"]
    if failed or left <= 0:
        words = _words(failed or ill)
        late = "" if failed else f" after {timeout:g} s"
        return HealthResult(state="Failed", problem=SyncError("HealthCheckFailed", f"not healthy{late}: {words}"))
    problem = SyncError("Progressing", f"waits until {_count(ill)} healthy: {_words(ill)}")
    return HealthResult(state="Pending", problem=problem, again=left)


def _states(prepared: PreparedRevision, sites: Sequence[TargetCluster]) -> list[tuple[Target, Health]]:
    found: list[tuple[Target, Health]] = []
    for site in sites:
        for desired in prepared.desired():
            seen = site.cluster.at(desired.target)
            target = desired.target._replace(cluster=site.destination.cluster)
            found.append((target, seen.health if seen is not None else Health("Unknown", "is not there")))
    return found


def _count(ill: Sequence[object]) -> str:
    return f"{len(ill)} {'object is' if len(ill) == 1 else 'objects are'}"


def _words(ill: Sequence[tuple[Target, Health]]) -> str:
    named = "; ".join(f"{target}: {health.message or health.state}" for target, health in ill[:_NAMED])
    return named + (f"; and {len(ill) - _NAMED} more" if len(ill) > _NAMED else "")


class ConfigSyncResult(ReconcileResult, frozen=True, kw_only=True):
    """What came of one reconcile, environment by environment."""

    results: tuple[ApplyResult, ...] = ()
    former: tuple[str, ...] = ()
    """Parts that left the spec and still have something."""
    plan: tuple[str, ...] | None = None
    """What would be done; None where it was done."""
    done: bool = False
    """Whether everything was looked at, and nothing is left to be removed."""


def keep_set_of(part: ConnectedClusters, prepared: PreparedRevision) -> KeepSet:
    """Return all that an environment wants; the rest of what the part has is unwanted."""
    targets = frozenset((site.cluster.uid, one.target) for site in part.sites for one in prepared.desired())
    return KeepSet(targets, frozenset(), frozenset(), certain=True)
