"""Two servers and a sync between them, in memory: passes can be stopped before every write, and gone on with later.

A server may store something else than it is sent, and may add a value of its own. Writes carry the version that was
read, deletes the UID, as the real ones do. What is recorded are digests.
"""

import copy
import itertools
from collections.abc import Callable, Iterator
from hashlib import blake2b

from msgspec import Struct

from syncline.core.last_write import WriteTime, later_side
from syncline.core.pairs import GONE, Decision, DeletePropagation, Pair, Sighting, Step, deletion
from syncline.core.twoway import Agreement, Base, Flow, OnConflict, Side, Strategy, agree

Values = dict[str, str]
Leaves = dict[str, str]

HOUR = 3600.0
NOW = 1_000_000.0


class RefusedError(Exception):
    """The server says no; nothing was changed."""


def as_sent(values: Values) -> Values:
    return values


def shouting(values: Values) -> Values:
    """Store in its own spelling, as a schema with pruning and defaults does."""
    return {path: value.replace("value-2", "VALUE-2") for path, value in values.items()}


def defaulting(values: Values) -> Values:
    """Store in its own spelling, and add a value that nobody sent."""
    stored = {path: value.replace("value-3", "VALUE-3") for path, value in values.items()}
    if "binaryData/default" not in stored:
        stored.setdefault("data/default", "value-1")
    return stored


def digests(values: Values) -> Leaves:
    return {path: blake2b(value.encode(), digest_size=12, key=b"a key").hexdigest() for path, value in values.items()}


class Server:
    """One object of one API server."""

    def __init__(self, name: Side, store: Callable[[Values], Values] = as_sent) -> None:
        self.name = name
        self.store = store
        self.values: Values | None = None
        self.uid = ""
        self.version = 0
        self.stamp: WriteTime | None = None
        self.reachable = True
        self._numbers = itertools.count(1)

    def leaves(self) -> Leaves:
        assert self.values is not None
        return digests(self.values)

    def create(self, values: Values) -> None:
        if self.values is not None:
            raise RefusedError("AlreadyExists")
        self.uid = f"{self.name}-{next(self._numbers)}"
        self._put(values)

    def write(self, values: Values, version: int) -> None:
        if self.values is None:
            raise RefusedError("NotFound")
        if self.version != version:
            raise RefusedError("Conflict")
        self._put(values)

    def delete(self, uid: str) -> None:
        if self.values is None or self.uid != uid:
            raise RefusedError("Conflict")
        self.values, self.uid = None, ""

    def set(self, path: str, value: str | None) -> None:
        """Edit as a person does; a key that is set in one map leaves the other."""
        if self.values is not None:
            key = path.partition("/")[2]
            others = {there: old for there, old in self.values.items() if there.partition("/")[2] != key}
            self._put(others if value is None else others | {path: value})

    def _put(self, values: Values) -> None:
        stored = self.store(dict(values))
        keys = [path.partition("/")[2] for path in stored]
        assert len(keys) == len(set(keys)), f"a key in data and in binaryData: {sorted(stored)}"
        self.values, self.version = stored, self.version + 1


class Record(Struct, frozen=True):
    """What is kept between passes."""

    base: Base
    pair: Pair


class Rules(Struct, frozen=True, kw_only=True):
    """What the user of the sync has asked for, and what the servers are like."""

    strategy: Strategy
    propagate: DeletePropagation = "Down"
    on_conflict: OnConflict = "Report"
    exact: bool = False
    oneway: frozenset[str] = frozenset()
    own_spelling: bool = False

    @property
    def names_a_winner(self) -> bool:
        return self.strategy not in ("Merge", "Skip") or (self.strategy == "Merge" and self.on_conflict != "Report")

    @property
    def asks_the_clock(self) -> bool:
        return "LastWriteWins" in (self.strategy, self.on_conflict)


class World:
    """A pair of objects and the sync that keeps them in agreement."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.up = Server("Upstream", shouting if rules.own_spelling else as_sent)
        self.down = Server("Downstream", defaulting if rules.own_spelling else as_sent)
        self.record: Record | None = None
        self.seen: list[Side] = []
        self.unsure = True
        """Whether the last pass did not come to its end: then a dry run tells what it has done already."""

    def copy(self) -> "World":
        return copy.deepcopy(self)

    def state(self) -> tuple[Values | None, Values | None, Base | None]:
        """Return all that a pass leaves behind, but for UIDs and versions."""
        return self.up.values, self.down.values, None if self.record is None else self.record.base

    def base(self) -> Base | None:
        """Return the base, which is about this downstream object and no other."""
        known = self.record is not None and self.record.pair.down == self.down.uid
        return self.record.base if self.record is not None and known else None

    def decide(self) -> Decision:
        record = self.record
        return deletion(
            self._sight(self.up, record and record.base.up),
            self._sight(self.down, record and record.base.down),
            record and record.pair,
            self.rules.propagate,
        )

    def agreement(self, later: Side | None = None) -> Agreement:
        return agree(
            self.base(),
            self.up.leaves() if self.up.reachable else None,
            self.down.leaves() if self.down.reachable else None,
            self.rules.strategy,
            later or later_side(self.up.stamp, self.down.stamp, now=NOW, seen_order=self.seen),
            oneway=self.rules.oneway,
            alike=self._alike() if self.unsure or self.base() is None else frozenset(),
            exact=self.rules.exact,
            on_conflict=self.rules.on_conflict,
        )

    def full_pass(self) -> int:
        """Make a pass to its end and return the number of writes."""
        return sum(1 for _ in self.writes())

    def writes(self, *, up_first: bool = True, interim: bool = False) -> Iterator[str]:
        """Decide, then stop before every write with its name; going on carries it out."""
        decision = self.decide()
        match decision.step:
            case Step.WAIT:
                return
            case Step.AGREE:
                yield from self._agree(up_first=up_first, interim=interim)
            case Step.CREATE_DOWN | Step.CREATE_UP:
                made, other = (self.down, self.up) if decision.step is Step.CREATE_DOWN else (self.up, self.down)
                values = other.values or {}
                pair, leaves = Pair(self.up.uid, self.down.uid), digests(values)
                yield f"create {made.name}"
                made.create(values)
                if made is self.down:
                    yield from self._keep(Record(Base(leaves, made.leaves()), Pair(pair.up, made.uid)))
                else:
                    yield from self._keep(Record(Base(made.leaves(), leaves), Pair(made.uid, pair.down)))
            case Step.DELETE_DOWN | Step.DELETE_UP:
                goner = self.down if decision.step is Step.DELETE_DOWN else self.up
                yield f"delete {goner.name}"
                goner.delete(decision.uid)
                yield from self._keep(None)
            case Step.FORGET:
                yield from self._keep(None)
        self.unsure = False

    def _agree(self, *, up_first: bool, interim: bool) -> Iterator[str]:
        agreement, pair = self.agreement(), Pair(self.up.uid, self.down.uid)
        self.unsure = True
        up_values, down_values = dict(self.up.values or {}), dict(self.down.values or {})
        jobs = [
            (self.up, agreement.up, up_values, down_values, self.up.version),
            (self.down, agreement.down, down_values, up_values, self.down.version),
        ]
        due = [job for job in (jobs if up_first else reversed(jobs)) if job[1]]
        returned: dict[str, Leaves] = {}
        for number, (server, flow, values, others, version) in enumerate(due):
            yield f"write {server.name}"
            server.write(changed(values, flow, others), version)
            returned[server.name] = server.leaves()
            if interim and number == 0 and len(due) > 1:
                half = agreement.interim(server.name, returned[server.name])
                yield from self._keep(None if half is None else Record(half, pair))
        base = agreement.final_base(up=returned.get("Upstream"), down=returned.get("Downstream"))
        yield from self._keep(None if base is None else Record(base, pair))

    def _keep(self, record: Record | None) -> Iterator[str]:
        if record != self.record:
            yield "record"
            self.record = record

    def _sight(self, server: Server, base: object) -> Sighting | None:
        if not server.reachable:
            return None
        return GONE if server.values is None else Sighting(server.uid, changed=server.leaves() != base)

    def _alike(self) -> set[str]:
        """Ask each server, in a dry run, what it would make of the other side."""
        up, down = self.up, self.down
        below = digests(down.store(dict(up.values or {})))
        above = digests(up.store(dict(down.values or {})))
        return {path for path, digest in below.items() if down.leaves().get(path) == digest} | {
            path for path, digest in above.items() if up.leaves().get(path) == digest
        }


def changed(values: Values, flow: Flow, others: Values) -> Values:
    kept = {path: value for path, value in values.items() if path not in flow.unset}
    return kept | {path: others[path] for path in flow.set}


def stop_before(writes: Iterator[str], number: int) -> None:
    """Carry out so many writes and stop before the next, if there is one."""
    for _ in range(number + 1):
        next(writes, None)
