"""Two servers and a sync between them, in memory: passes can be stopped before every write, and gone on with later.

Writes carry the version that was read, deletes the UID, as the real ones do. What is recorded are digests.
"""

import copy
import itertools
from collections.abc import Iterator
from hashlib import blake2b

from msgspec import Struct

from syncline.core.last_write import WriteTime, later_side
from syncline.core.twoway import Agreement, Base, Flow, Side, Strategy, agree

Values = dict[str, str]
Digests = dict[str, str]

HOUR = 3600.0
NOW = 1_000_000.0


class RefusedError(Exception):
    """The server says no; nothing was changed."""


def digests(values: Values) -> Digests:
    return {path: blake2b(value.encode(), digest_size=12, key=b"a key").hexdigest() for path, value in values.items()}


class Server:
    """One object of one API server."""

    def __init__(self, name: Side) -> None:
        self.name = name
        self.values: Values | None = None
        self.uid = ""
        self.version = 0
        self.written: WriteTime | None = None
        self.reachable = True
        self._numbers = itertools.count(1)

    def digests(self) -> Digests:
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
        keys = [path.partition("/")[2] for path in values]
        assert len(keys) == len(set(keys)), f"a key in data and in binaryData: {sorted(values)}"
        self.values, self.version = dict(values), self.version + 1


class Record(Struct, frozen=True):
    """What is kept between passes."""

    base: Base
    uid: str
    """The downstream object that the base is about."""


class Rules(Struct, frozen=True, kw_only=True):
    """What the user of the sync has asked for."""

    strategy: Strategy
    oneway: frozenset[str] = frozenset()

    @property
    def names_a_winner(self) -> bool:
        return self.strategy not in ("Merge", "Skip")


class World:
    """A pair of objects and the sync that keeps them in agreement."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.up = Server("Upstream")
        self.down = Server("Downstream")
        self.record: Record | None = None
        self.seen: list[Side] = []

    def copy(self) -> "World":
        return copy.deepcopy(self)

    def state(self) -> tuple[Values | None, Values | None, Base | None]:
        """Return all that a pass leaves behind, but for UIDs and versions."""
        return self.up.values, self.down.values, None if self.record is None else self.record.base

    def base(self) -> Base | None:
        """Return the base, which is about this downstream object and no other."""
        known = self.record is not None and self.record.uid == self.down.uid
        return self.record.base if self.record is not None and known else None

    def agreement(self, later: Side | None = None) -> Agreement:
        return agree(
            self.base(),
            self.up.digests() if self.up.reachable else None,
            self.down.digests() if self.down.reachable else None,
            self.rules.strategy,
            later or later_side(self.up.written, self.down.written, now=NOW, seen_order=self.seen),
            oneway=self.rules.oneway,
        )

    def full_pass(self) -> int:
        """Make a pass to its end and return the number of writes."""
        return sum(1 for _ in self.writes())

    def writes(self, *, up_first: bool = True) -> Iterator[str]:
        """Decide, then stop before every write with its name; going on executes it.

        A downstream object that is gone is created again; without the upstream one, or unseen, nothing is done.
        """
        if self.up.values is None or not (self.up.reachable and self.down.reachable):
            return
        if self.down.values is None:
            values, digests_up = dict(self.up.values), self.up.digests()
            yield "create Downstream"
            self.down.create(values)
            yield from self._keep(Record(Base(digests_up, self.down.digests()), self.down.uid))
        else:
            yield from self._agree(up_first=up_first)

    def _agree(self, *, up_first: bool) -> Iterator[str]:
        agreement, uid = self.agreement(), self.down.uid
        up_values, down_values = dict(self.up.values or {}), dict(self.down.values or {})
        jobs = [
            (self.up, agreement.up, up_values, down_values, self.up.version),
            (self.down, agreement.down, down_values, up_values, self.down.version),
        ]
        for server, flow, values, others, version in jobs if up_first else reversed(jobs):
            if flow:
                yield f"write {server.name}"
                server.write(changed(values, flow, others), version)
        base = agreement.base
        yield from self._keep(None if base is None else Record(base, uid))

    def _keep(self, record: Record | None) -> Iterator[str]:
        if record != self.record:
            yield "record"
            self.record = record


def changed(values: Values, flow: Flow, others: Values) -> Values:
    kept = {path: value for path, value in values.items() if path not in flow.unset}
    return kept | {path: others[path] for path in flow.set}


def stop_before(writes: Iterator[str], number: int) -> None:
    """Carry out so many writes and stop before the next, if there is one."""
    for _ in range(number + 1):
        next(writes, None)
