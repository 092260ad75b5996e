"""One turn of one track of a ConfigSync: what it knows before it writes, and what came of it."""

import time
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct, structs

from syncline.api.common import HistoryEntry
from syncline.api.configsync import ConfigSyncSpec, SourceRevision
from syncline.controllers.building import Made
from syncline.controllers.forest import Forest
from syncline.controllers.memory import Memory
from syncline.controllers.reporting import OverQuota, Problem
from syncline.controllers.survey import Site
from syncline.controllers.tracks import Course, Track
from syncline.core.health import Health
from syncline.core.history import applied
from syncline.core.objects import Desired, Target
from syncline.core.outcome import Outcome
from syncline.core.revisions import Decision, Head, Hold, Past, RevisionHealth, Situation, decide
from syncline.core.tenancy import NOT_ALLOWED, TenantLimits
from syncline.core.validity import Validity
from syncline.engine.fanout import FanOut

_NAMED = 3
_SETTLED = frozenset({"Synced", "Skipped"})


class Examined(Struct, frozen=True, kw_only=True):
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


class TrackMemory(Memory):
    """What is remembered of one track between turns. All of it can be lost."""

    def __init__(self, fan_out: FanOut) -> None:
        super().__init__(fan_out)
        self.made: Made | None = None
        """What is applied."""
        self.accepted: frozenset[str] = frozenset()
        """The clusters that it may be written to."""
        self.chosen: Made | None = None
        """What was to be applied last; it may have been refused by validation."""
        self.candidate: Made | None = None
        """What was built last; it may wait for a dependency."""
        self.examined: Mapping[str, Examined] = {}
        """What validation found last, by cluster."""
        self.health: RevisionHealth = "Pending"
        self.failed = ""
        """The inputs that did not become healthy, last time any did not."""
        self._watched: tuple[str, float] = "", 0.0

    def accepts(self, inputs: str, clusters: frozenset[str]) -> bool:
        """Whether what is applied was built from these inputs, and may be written to these clusters."""
        return self.made is not None and self.made.inputs == inputs and clusters <= self.accepted

    def accept(self, made: Made, clusters: frozenset[str]) -> None:
        """Note that something is applied from now on, to these clusters too."""
        if self.made is None or self.made.inputs != made.inputs:
            self.health = "Pending"
            self.accepted = frozenset()
        self.made = made
        self.accepted |= clusters

    def waited(self, inputs: str, now: float) -> float:
        """Return for how many seconds what was applied has not been well."""
        if self._watched[0] != inputs:
            self._watched = inputs, now
        return now - self._watched[1]

    def is_well(self, inputs: str, now: float) -> None:
        """Note that what was applied is well: should it fall ill, its time begins anew."""
        self._watched = inputs, now


class SyncMemory(Memory):
    """What is remembered of a ConfigSync."""

    def __init__(self, fan_out: FanOut) -> None:
        super().__init__(fan_out)
        self._tracks: dict[str, TrackMemory] = {}

    def track(self, name: str) -> TrackMemory:
        """Return the memory of a track."""
        return self._tracks.setdefault(name, TrackMemory(self.fan_out))

    def keep(self, names: Collection[str]) -> None:
        """Forget all other tracks."""
        self._tracks = {name: track for name, track in self._tracks.items() if name in names}

    def shed(self) -> None:
        """Drop what was built."""
        for track in self._tracks.values():
            track.made = track.candidate = None


class Lap(Struct, frozen=True, kw_only=True):
    """What one track is about to apply."""

    track: Track
    course: Course
    revision: str | None = None
    """What the status is to say."""
    attempted: str = ""
    """The revision that could not be read or built, where it is known."""
    revisions: tuple[SourceRevision, ...] = ()
    made: Made | None = None
    forest: Forest | None = None
    """The files that it was made from, for the time of a turn."""
    certain: bool = False
    """Whether it is all that the source wants now: only then may anything be removed."""
    problem: Problem | None = None
    decision: Decision | None = None
    passed_over: Mapping[str, Validity] = {}
    """Clusters that it is not written to, and what validation found there."""
    unpacked: tuple[Desired, ...] | None = None
    """What was made, unpacked for the time of a turn."""

    def desired(self) -> Sequence[Desired]:
        """Return what each target should hold."""
        if self.unpacked is not None:
            return self.unpacked
        return self.made.desired() if self.made is not None else ()

    def spread(self) -> "Lap":
        """Unpack what was made, once for the whole turn."""
        return structs.replace(self, unpacked=tuple(self.desired()))


class Lapped(Struct, frozen=True, kw_only=True):
    """What came of it."""

    lap: Lap
    outcomes: tuple[Outcome, ...] = ()
    health: RevisionHealth = "Pending"
    problem: Problem | None = None
    again: float | None = None
    waits: bool = False
    scope_done: bool = True


class Departed(Struct, frozen=True, kw_only=True):
    """What became of the environments that left the spec."""

    names: tuple[str, ...] = ()
    """Those of which something is still there."""
    outcomes: tuple[Outcome, ...] = ()
    problem: Problem | None = None
    again: float | None = None
    done: bool = True
    """Whether nothing is left to be removed; what stays on purpose does not count."""


def permitted(lap: Lap, limits: TenantLimits) -> Lap:
    """Return a lap as TenantPolicies allow it: where one object is not allowed, nothing of the revision is applied.

    Nor is anything of an earlier one where its sources or keys are not allowed any more.
    """
    if lap.problem is not None and lap.problem.reason == NOT_ALLOWED and not isinstance(lap.problem, OverQuota):
        return _withheld(lap, lap.problem)
    targets = dict.fromkeys((one.target.kind, one.target.namespace, one.target.name) for one in lap.desired())
    for kind, namespace, name in targets if limits.policies else ():
        if (violation := limits.target(kind, namespace)) is not None:
            message = f"{violation}; it is about {kind} {f'{namespace}/' if namespace else ''}{name}"
            return _withheld(lap, Problem(NOT_ALLOWED, message, stalled=True))
    return lap


def _withheld(lap: Lap, problem: Problem) -> Lap:
    """Return a lap that applies nothing and removes nothing."""
    return Lap(
        track=lap.track,
        course=lap.course,
        revision=lap.course.revision,
        revisions=lap.course.revisions,
        attempted=lap.attempted or lap.revision or "",
        decision=lap.decision,
        problem=problem,
        unpacked=(),
    )


def choose(
    spec: ConfigSyncSpec, track: Track, course: Course, head: Head, *, health: RevisionHealth, requested: bool
) -> Decision:
    """Decide which revision a track applies, given how the current one is and whether a person asked for a sync."""
    hold = Hold(course.rollback.to, course.rollback.requested) if course.rollback is not None else None
    return decide(
        Situation(
            head=head,
            rollback_to=track.rollback,
            hold=hold,
            history=[_past(entry, spec) for entry in applied(course.history)],
            current=course.revision,
            health=health,
            last_healthy=course.healthy,
            policy=spec.failure_policy,
            requested=requested,
        )
    )


def _past(entry: HistoryEntry, spec: ConfigSyncSpec) -> Past:
    healthy = None
    if spec.wait:
        healthy = True if entry.result == "Synced" else False if entry.result == "Failed" else None
    return Past(entry.revision, healthy)


class Wellness(Struct, frozen=True, kw_only=True):
    """How what was applied is."""

    state: RevisionHealth = "Pending"
    problem: Problem | None = None
    again: float | None = None


def wellness(
    lap: Lap, sites: Sequence[Site], outcomes: Sequence[Outcome], memory: TrackMemory, timeout: float
) -> Wellness:
    """Tell whether everything that was applied does what it should, and for how long to wait for it."""
    made = lap.made
    if made is None:
        return Wellness()
    now = time.monotonic()
    unsettled = {outcome.state for outcome in outcomes if outcome.state not in _SETTLED and not outcome.gone}
    if unsettled == {"Unknown"}:
        # That a server is out of reach says nothing against a revision.
        return Wellness()
    if unsettled:
        # What was not applied cannot be well; when its time is over, the revision has failed.
        left = timeout - memory.waited(made.inputs, now)
        return Wellness(state="Pending" if left > 0 else "Failed", again=left if left > 0 else None)
    passed_over = {outcome.target for outcome in outcomes if outcome.state == "Skipped"}
    states = ((target, health) for target, health in _states(lap, sites) if target not in passed_over)
    ill = [(target, health) for target, health in states if health.state != "Current"]
    if not ill:
        memory.is_well(made.inputs, now)
        return Wellness(state="Healthy")
    left = timeout - memory.waited(made.inputs, now)
    failed = [one for one in ill if one[1].state == "Failed"]
    if failed or left <= 0:
        words = _words(failed or ill)
        late = "" if failed else f" after {timeout:g} s"
        return Wellness(state="Failed", problem=Problem("HealthCheckFailed", f"not healthy{late}: {words}"))
    problem = Problem("Progressing", f"waits until {_count(ill)} healthy: {_words(ill)}")
    return Wellness(state="Pending", problem=problem, again=left)


def _states(lap: Lap, sites: Sequence[Site]) -> list[tuple[Target, Health]]:
    found: list[tuple[Target, Health]] = []
    for site in sites:
        for desired in lap.desired():
            seen = site.cluster.at(desired.target)
            target = desired.target._replace(cluster=site.place.cluster)
            found.append((target, seen.health if seen is not None else Health("Unknown", "is not there")))
    return found


def _count(ill: Sequence[object]) -> str:
    return f"{len(ill)} {'object is' if len(ill) == 1 else 'objects are'}"


def _words(ill: Sequence[tuple[Target, Health]]) -> str:
    named = "; ".join(f"{target}: {health.message or health.state}" for target, health in ill[:_NAMED])
    return named + (f"; and {len(ill) - _NAMED} more" if len(ill) > _NAMED else "")
