"""One churn: users and trouble for a while, then quiet, then a check; again and again."""

import threading
import time
import traceback
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.churn import snapshot
from tests.churn.api import FAR
from tests.churn.evidence import Evidence
from tests.churn.guard import WIDE_REF, overruns
from tests.churn.history import History
from tests.churn.names import FAR_SPACES, GIT, GROUPS, HOME, REQUESTED, SRC
from tests.churn.operations import Actor, Stage, choose
from tests.churn.operations import fleet as fleet_operations
from tests.churn.operations import git as git_operations
from tests.churn.operations import kinds as kind_operations
from tests.churn.operations import namespaces as namespace_operations
from tests.churn.operations import sources as source_operations
from tests.churn.operations import syncs as sync_operations
from tests.churn.oracle import Deviation, judge
from tests.churn.slots import NAMESPACES, SOURCES, WIDE_SOURCE, slots
from tests.churn.trouble import Trouble, wait_until_ready
from tests.churn.world import REPOSITORY, World

_MEMORY = 300
_WATCHES = 60
_TEN_MINUTES = 600.0
_REFUSED = 400
_KNOCKS = 4
_AT_WORK = 5.0
_BUSY = 180.0
"""How much longer an operator is waited for whose writes are still taken: on a busy machine each may take seconds."""
_LONGEST_OPERATION = 400.0
"""Longer than the patience of one with outages, several of which it may meet."""


@dataclass(frozen=True)
class Plan:
    """How long, how hard."""

    seconds: float
    seed: int
    operations: int | None = None
    """After how many operations users stop, if not before."""
    width: int = 4
    replicas: int = 1
    phase: float = 45.0
    """About how long users work before each check."""
    limit: float = 60.0
    """After how many quiet seconds everything must be right; while the operator still gets on, longer (`_BUSY`)."""
    late: float = 30.0
    """How much longer it is watched what becomes of a deviation."""
    rest: float = 20.0
    """For how many seconds nothing may be written once everything is right."""
    trouble: bool = True
    far: bool = False
    """Whether there is a second cluster."""
    pace: float = 8.0
    """About how many seconds lie between two faults of a kind: of the operator, of the control plane, on the way."""
    think: float = 0.12
    """About how many seconds a user waits between two operations."""


@dataclass
class Verdict:
    """What came of a churn."""

    seed: int
    operations: int = 0
    checks: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    settled: list[float] = field(default_factory=list)
    deviations: list[tuple[int, Deviation, str]] = field(default_factory=list)
    """With the number of the check, and what became of it."""
    memory: list[int] = field(default_factory=list)
    watches: list[int] = field(default_factory=list)
    seconds: float = 0.0

    def text(self) -> str:
        """Tell it all."""
        lines = [
            f"seed {self.seed}: {self.operations} operations in {self.seconds:.0f} s, {self.checks} checks",
            f"  {len(self.deviations)} deviations",
            "  " + ", ".join(f"{count} {what}" for what, count in sorted(self.counts.items())),
            f"  right after {[round(seconds, 1) for seconds in self.settled]} s",
            f"  MiB {self.memory}, watches {self.watches}",
        ]
        told: dict[tuple[object, ...], list[str]] = {}
        for at, deviation, fate in self.deviations:
            told.setdefault((at, deviation.what, deviation.ref, fate), []).append(str(deviation))
        for (at, _, _, fate), texts in told.items():
            lines.append(f"  check {at}: {texts[0]} [{fate}]" + (f" x{len(texts)}" if len(texts) > 1 else ""))
        return "\n".join(lines)


def grouped(deviations: list[Deviation]) -> list[list[Deviation]]:
    """Put together what is alike: one cause mostly has many effects."""
    groups: dict[tuple[str, str], list[Deviation]] = {}
    for deviation in deviations:
        groups.setdefault((deviation.what, deviation.ref), []).append(deviation)
    return list(groups.values())


class Churn:
    """One run, on processes of its own."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self._folder = folder
        self._rng = Random(plan.seed)
        self._verdict = Verdict(plan.seed)
        self._known: set[tuple[object, ...]] = set()
        self._failed: list[str] = []
        self._checked_logs = 0

    def run(self) -> Verdict:
        """Play to the end."""
        self._folder.mkdir(parents=True, exist_ok=True)
        begun = time.monotonic()
        with (
            closing(History(self._folder / "history.jsonl")) as self._history,
            World(self._folder, replicas=self.plan.replicas, far=self.plan.far) as self._world,
        ):
            self._admin = self._world.admin
            self._evidence = Evidence(self._world, self._admin, self._folder)
            self._prepare()
            self._prepared = self._history.operations
            playing = time.monotonic()
            while time.monotonic() - playing < self.plan.seconds and not self._is_enough():
                left = self.plan.seconds - (time.monotonic() - playing)
                self._work(min(self._rng.uniform(0.5, 1.5) * self.plan.phase, max(left, 5.0)))
                self._check()
        self._verdict.operations = self._history.operations
        self._verdict.counts = Counter(self._history.counts)
        self._verdict.seconds = time.monotonic() - begun
        return self._verdict

    def _prepare(self) -> None:
        repository = self._world.git.repository(REPOSITORY)
        world = self._world
        self._stage = Stage(
            self._admin,
            self._history,
            slots(world.git.url(REPOSITORY), far=self.plan.far),
            repository,
            far=world.far_admin,
            credential=world.far.kubeconfig.read_text(encoding="utf-8") if world.far is not None else "",
        )
        actor = Actor(self._stage, self._rng)
        for name in NAMESPACES:
            actor.create("Namespace", "", namespace_operations.first_body(name, self._rng.choice(GROUPS)))
        kind_operations.make(actor)
        for place in (*SOURCES, WIDE_SOURCE):
            source_operations.make(actor, place)
        actor.create(
            "Secret", HOME, {"metadata": {"name": "git-ca"}, "stringData": {"ca.crt": self._world.git.ca.decode()}}
        )
        if self.plan.far:
            for name in FAR_SPACES:
                body = namespace_operations.first_body(name, self._rng.choice(GROUPS))
                actor.create(f"{FAR}/Namespace", "", body)
            fleet_operations.mend(actor)
        for branch in ("main", "next"):
            files = {
                f"apps/{app}/{number}.json": git_operations.manifest(actor, app, number)
                for app in range(3)
                for number in range(4)
            }
            repository.commit(files, ref=f"refs/heads/{branch}")
            self._history.git.branches[branch] = dict(files)
        for number in range(self.plan.replicas):
            self._world.start_operator(number)
        for slot in self._stage.slots:
            if slot.lasting or actor.chance(0.8):
                sync_operations.make(actor, slot)
        wait_until_ready(self._world)
        self._say(f"seed {self.plan.seed}: {len(self._stage.slots)} slots, {SRC} and {GIT[0]}.. are there")

    def _work(self, seconds: float) -> None:
        """Let users work, and trouble happen."""
        self._stage.quiet.clear()
        users = [
            threading.Thread(target=self._use, args=(Random(self._rng.random()),), daemon=True)
            for _ in range(self.plan.width)
        ]
        before = self._history.operations
        trouble = Trouble(self._world, self._history, Random(self._rng.random()), self.plan.pace)
        if self.plan.trouble:
            trouble.start()
        for user in users:
            user.start()
        begun = time.monotonic()
        while time.monotonic() - begun < seconds and not self._is_enough():
            time.sleep(0.1)
        seconds = time.monotonic() - begun
        self._stage.quiet.set()
        if self.plan.trouble:
            trouble.end()
        deadline = time.monotonic() + _LONGEST_OPERATION
        for user in users:
            user.join(max(deadline - time.monotonic(), 0.0))
            if user.is_alive():
                raise TimeoutError("an operation does not end; the last lines of the history tell which were begun")
        self._world.mend()
        fleet_operations.mend(Actor(self._stage, self._rng))
        self._say(f"{self._history.operations - before} operations in {seconds:.0f} s")

    def _is_enough(self) -> bool:
        return self.plan.operations is not None and self._history.operations - self._prepared >= self.plan.operations

    def _use(self, rng: Random) -> None:
        actor = Actor(self._stage, rng)
        while not self._stage.quiet.is_set():
            operation = choose(rng)
            try:
                operation(actor)
            except Exception as error:  # noqa: BLE001 - told as a deviation
                self._history.tell("mistake", operation.__name__, repr(error))
                self._failed.append(traceback.format_exc())
            self._stage.quiet.wait(rng.expovariate(1 / self.plan.think))

    def _check(self) -> None:
        """Wait until everything is right, without a nudge, and stays so without a write."""
        self._verdict.checks += 1
        begun = time.monotonic()
        found = self._judge_until(self.plan.limit)
        waited = time.monotonic() - begun
        self._report_processes()
        if found:
            self._report(found)
        else:
            self._verdict.settled.append(waited)
            self._report_rest()
        self._verdict.memory.append(max(self._world.memory(), default=0))
        self._verdict.watches.append(self._world.watches())
        self._world.proxy.requests.clear()
        self._world.proxy.abandoned.clear()
        words = "right" if not found else f"{len(found)} DEVIATIONS"
        self._say(
            f"check {self._verdict.checks}: {words} after {waited:.1f} s; {self._verdict.memory[-1]} MiB, "
            f"{self._verdict.watches[-1]} watches"
        )

    def _judge(self) -> list[Deviation]:
        found = judge(snapshot.take(self._admin, self._world.far_admin), self._history, self._removed_lately)
        return [deviation for deviation in found if deviation.key not in self._known]

    def _judge_until(self, seconds: float) -> list[Deviation]:
        deadline = time.monotonic() + seconds
        while found := self._judge():
            late = time.monotonic() - deadline
            if late > (_BUSY if self._gets_on() else 0.0):
                return found
            time.sleep(1.0)
        return []

    def _gets_on(self) -> bool:
        """Whether the operator has just written something: it has not overlooked what it has not come to yet."""
        return any(write.code < _REFUSED for write in self._world.audit.since(time.time() - _AT_WORK))

    def _report(self, found: list[Deviation]) -> None:
        kept = [(group, self._evidence.keep(group[0], self._verdict.checks)) for group in grouped(found)]
        for group, folder in kept:
            more = f" (and {len(group) - 1} more of it)" if len(group) > 1 else ""
            self._say(f"DEVIATION {group[0]}{more}\n    evidence: {folder}")
        later = {deviation.key for deviation in self._judge_until(self.plan.late)}
        refs = {deviation.ref for deviation in found if deviation.key in later and deviation.ref}
        for ref in refs:
            kind, namespace, name = ref.split("/")[:3]
            Actor(self._stage, self._rng).patch(
                (kind, namespace, name), {"metadata": {"annotations": {REQUESTED: f"nudge-{time.time()}"}}}
            )
        left = {deviation.key for deviation in (self._judge_until(20.0) if later else [])}
        for group, folder in kept:
            keys = {deviation.key for deviation in group}
            fate = "stays" if keys & left else "healed by a nudge" if keys & later else "late"
            self._evidence.heal(folder, fate)
            for deviation in group:
                self._add(deviation, f"{fate}; {folder}")

    def _add(self, deviation: Deviation, fate: str) -> None:
        if deviation.key in self._known:
            return
        if fate.startswith("stays"):
            self._known.add(deviation.key)
        self._verdict.deviations.append((self._verdict.checks, deviation, fate))

    def _report_rest(self) -> None:
        """Nothing may be written once everything is right."""
        deadline = time.monotonic() + self.plan.limit
        while self._world.audit.since(time.time() - 3.0):
            if time.monotonic() > deadline:
                break
            time.sleep(0.5)
        begun = time.time()
        time.sleep(self.plan.rest)
        # Reviews of its own rights store nothing.
        writes = [one for one in self._world.audit.since(begun) if not str(one).startswith("create selfsubject")]
        refused = [write for write in writes if write.code >= _REFUSED]
        # What waits for something, such as a namespace, may knock now and then.
        knocks = max(Counter(map(str, refused)).values(), default=0)
        if knocks > _KNOCKS or len(refused) < len(writes):
            counted = Counter(map(str, writes))
            message = f"{len(writes)} in {self.plan.rest:.0f} s: {dict(counted.most_common(8))}"
            self._keep("writes at rest", message)
        for deviation in self._judge():
            folder = self._evidence.keep(deviation, self._verdict.checks)
            self._add(deviation, f"turned wrong at rest; {folder}")

    def _report_processes(self) -> None:
        for words in self._world.ended:
            self._keep("operator ended", words)
        self._world.ended.clear()
        for words in self._failed:
            self._keep("the churn itself failed", words)
        self._failed.clear()
        errors = {
            line[:600]
            for _, text in self._world.logs()
            for line in text.splitlines()
            if "Traceback" in line or '"level": "error"' in line or '"level":"error"' in line
        }
        for line in sorted(errors):
            if ("error", line[:200]) not in self._known:
                self._known.add(("error", line[:200]))
                self._keep("operator error", line)
        if (most := max(self._world.memory(), default=0)) > _MEMORY:
            self._keep("memory", f"{most} MiB")
        if (watches := self._world.watches()) > _WATCHES:
            self._keep("watches", f"{watches} are open")
        confirmed = self._history.confirmed[WIDE_REF]
        for deviation in overruns(tuple(self._world.audit.writes), self._world.starts, confirmed):
            if deviation.key not in self._known:
                self._known.add(deviation.key)
                self._verdict.deviations.append((self._verdict.checks, deviation, ""))
                self._say(f"DEVIATION {deviation}")

    def _keep(self, what: str, message: str) -> None:
        deviation = Deviation(what, "", None, message)
        self._verdict.deviations.append((self._verdict.checks, deviation, ""))
        self._say(f"DEVIATION {deviation}")

    def _removed_lately(self, names: set[str]) -> int:
        return sum(
            write.verb == "delete" and write.name in names
            for write in self._world.audit.since(time.time() - _TEN_MINUTES)
        )

    def _say(self, words: str) -> None:
        print(f"[{self._history.elapsed():7.1f}] {words}", flush=True)
