"""Two-way synchronisation over generated histories: whatever happened on the two sides, and wherever a pass died.

The numbers are those of the eleven properties that two-way synchronisation owes its users. The fourth, that the order
of events does not matter, is in `test_twoway.py`.
"""

from contextlib import suppress

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from msgspec import Struct
from tests.core.strategies import rarely
from tests.core.twoway_world import HOUR, NOW, RefusedError, Rules, Server, Values, World, digests, stop_before
from tests.sampling import EXPLORE

from syncline.core.last_write import WriteTime
from syncline.core.pairs import Step
from syncline.core.twoway import Side

KEYS = ("a", "b", "default")
STRATEGIES = ("UpstreamWins", "DownstreamWins", "LastWriteWins", "Merge", "Skip")


@st.composite
def contents(draw: st.DrawFn) -> Values:
    """Values under a few keys; a key is in one of the two maps at most, as the API server demands."""
    chosen = draw(st.lists(st.sampled_from(KEYS), unique=True))
    return {f"{draw(parts)}/{key}": draw(values) for key in chosen}


parts = st.sampled_from(("data", "data", "binaryData"))
values = st.sampled_from(("value-1", "value-2", "value-3", "value-4"))
paths = st.builds("{}/{}".format, parts, st.sampled_from(KEYS))
sides: st.SearchStrategy[Side] = st.sampled_from(("Upstream", "Downstream"))
skews = st.sampled_from((0.0, 0.0, HOUR, -HOUR))
rules = st.builds(
    Rules,
    strategy=st.sampled_from(STRATEGIES),
    propagate=st.sampled_from(("Down", "Both", "None")),
    on_conflict=st.sampled_from(("Report", "Report", "UpstreamWins", "DownstreamWins", "LastWriteWins")),
    exact=st.booleans(),
    oneway=st.sampled_from((frozenset(), frozenset(), frozenset({"data/b"}))),
    own_spelling=st.booleans(),
)


class Edit(Struct, frozen=True):
    """Somebody sets a value, or removes a key; by a clock that may be wrong."""

    side: Side
    path: str
    value: str | None
    skew: float


edits = st.lists(st.builds(Edit, sides, paths, values | values | st.none(), skews), max_size=4)


class TwoSides(RuleBasedStateMachine):
    @initialize(rules=rules, up=contents(), down=st.none() | contents(), synced=st.integers(0, 3))
    def begin(self, rules: Rules, up: Values, down: Values | None, synced: int) -> None:
        self.world = World(rules)
        self.clock = NOW - 2 * HOUR
        self.fresh: dict[tuple[Side, str], str] = {}
        self.world.up.create(up)
        if down is not None:
            self.world.down.create(down)
        if synced:
            self.check_pass()

    @rule(edits=edits)
    def people_edit(self, edits: list[Edit]) -> None:
        for edit in edits:
            server = self.server(edit.side)
            server.set(edit.path, edit.value)
            self.stamp(edit.side, edit.skew)
            self.forget(edit.side, key(edit.path))
            if server.values is not None and edit.value is not None:
                self.fresh[edit.side, edit.path] = server.values[edit.path]
        self.forget_what_is_agreed()

    @rule(edits=edits)
    def a_pass(self, edits: list[Edit]) -> None:
        self.people_edit(edits)
        self.check_pass()

    @rule(side=sides, content=st.none() | contents())
    def somebody_makes_an_object_anew(self, side: Side, content: Values | None) -> None:
        """Make the same object again, or another."""
        server = self.server(side)
        made = server.values if content is None else content
        self.remove(server)
        server.create(made or {})
        self.stamp(side)

    @precondition(lambda self: self.both_there())
    @rule(side=sides, edits=edits)
    def an_object_goes(self, side: Side, edits: list[Edit]) -> None:
        self.remove(self.server(side))
        self.people_edit(edits)
        self.check_pass()

    @precondition(lambda self: self.world.record is not None)
    @rule(edits=edits)
    def the_base_is_lost(self, edits: list[Edit]) -> None:
        self.people_edit(edits)
        self.world.record = None
        self.check_pass()

    @rule(side=sides)
    def a_pass_that_cannot_see_one_side(self, side: Side) -> None:
        """6: nothing is decided; so nothing is deleted, written or recorded."""
        before = self.world.state()
        self.server(side).reachable = False
        assert self.world.decide().step is Step.WAIT
        assert self.world.full_pass() == 0
        if self.both_there():
            unseen = self.world.agreement()
            assert (bool(unseen.up), bool(unseen.down), unseen.conflicts) == (False, False, ())
            assert unseen.base == self.world.base()
        self.server(side).reachable = True
        assert self.world.state() == before

    @rule(edits=edits, lost=rarely, number=st.integers(0, 3), up_first=st.booleans(), interim=st.booleans())
    def a_crash_and_a_pass(self, edits: list[Edit], lost: bool, number: int, up_first: bool, interim: bool) -> None:
        """5: killed before any write, the next pass ends where an undisturbed one would have ended."""
        self.people_edit(edits)
        self.world.unsure = True
        if lost:
            self.world.record = None
        undisturbed = self.world.copy()
        undisturbed.full_pass()
        self.run_until(number, up_first=up_first, interim=interim)
        self.check_pass()
        assert self.world.state() == undisturbed.state()

    @rule(edits=edits, number=st.integers(0, 3), up_first=st.booleans(), interim=st.booleans())
    def a_crash(self, edits: list[Edit], number: int, up_first: bool, interim: bool) -> None:
        self.people_edit(edits)
        self.run_until(number, up_first=up_first, interim=interim)

    @rule(before=edits, number=st.integers(0, 3), during=edits)
    def edits_during_a_pass(self, before: list[Edit], number: int, during: list[Edit]) -> None:
        self.people_edit(before)
        writes = self.world.writes(interim=True)
        stop_before(writes, number)
        self.forget_what_is_agreed()
        self.people_edit(during)
        with suppress(RefusedError):
            list(writes)
        self.forget_what_is_agreed()
        self.check_pass()

    @rule(gone=st.none() | sides, number=st.integers(0, 3), side=sides, content=st.none() | contents())
    def an_object_made_anew_during_a_pass(
        self, gone: Side | None, number: int, side: Side, content: Values | None
    ) -> None:
        """9: what was made anew stays, also where a pass had decided to delete what was there before."""
        if gone is not None:
            self.remove(self.server(gone))
        writes = self.world.writes()
        stop_before(writes, number)
        self.forget_what_is_agreed()
        self.somebody_makes_an_object_anew(side, content)
        uid = self.server(side).uid
        with suppress(RefusedError):
            list(writes)
        self.forget_what_is_agreed()
        assert self.server(side).uid == uid
        self.check_pass()

    def run_until(self, number: int, *, up_first: bool, interim: bool) -> None:
        """Make a pass that dies before a write, if it comes so far."""
        stop_before(self.world.writes(up_first=up_first, interim=interim), number)
        self.forget_what_is_agreed()

    def remove(self, server: Server) -> None:
        if server.values is not None:
            server.delete(server.uid)
        self.forget(server.name, *KEYS)

    def server(self, side: Side) -> Server:
        return self.world.up if side == "Upstream" else self.world.down

    def stamp(self, side: Side, skew: float = 0.0) -> None:
        self.clock += 3
        self.server(side).stamp = WriteTime(self.clock + skew)
        self.world.seen.append(side)

    def forget(self, side: Side, *names: str) -> None:
        gone = [edit for edit in self.fresh if edit[0] == side and key(edit[1]) in names]
        for edit in gone:
            del self.fresh[edit]

    def forget_what_is_agreed(self) -> None:
        """Forget the edits that changed nothing, or that a pass has recorded."""
        base = self.world.base()
        for side, path in list(self.fresh) if base is not None else []:
            was = base.up if side == "Upstream" else base.down
            if was.get(path) == digests({path: self.fresh[side, path]})[path]:
                del self.fresh[side, path]

    def both_there(self) -> bool:
        return self.world.up.values is not None and self.world.down.values is not None

    def check_pass(self) -> None:
        before = self.world.copy()
        self.world.full_pass()
        self.check_quiet()
        self.check_deletions(before)
        self.check_records()
        self.check_fresh_edits()
        if before.decide().step is Step.AGREE:
            self.check_clock(before)
            self.check_oneway(before)
            self.check_without_base(before)
            self.check_equal(before)
            self.check_merge(before)

    def check_quiet(self) -> None:
        """1 and 10: a second pass writes nothing, whatever the servers make of what they are sent."""
        assert list(self.world.writes()) == []

    def check_deletions(self, before: World) -> None:
        """7 and 9: only the recorded object goes, and only as it was recorded; without a record none."""
        for old, new in ((before.up, self.world.up), (before.down, self.world.down)):
            if old.values is not None and new.values is None:
                record = before.record
                assert record is not None
                assert before.rules.propagate == "Both" or (old is before.down and before.rules.propagate == "Down")
                uid, base = (
                    (record.pair.up, record.base.up) if old is before.up else (record.pair.down, record.base.down)
                )
                assert (old.uid, old.leaves()) == (uid, base)

    def check_records(self) -> None:
        """11: no value is in what is recorded, nor in what is decided."""
        assert b"value-" not in msgspec.json.encode(self.world.record).lower()
        if self.both_there():
            assert b"value-" not in msgspec.json.encode(self.world.agreement()).lower()

    def check_fresh_edits(self) -> None:
        """3: a merge overwrites nothing that a person has changed since the last pass, wherever that one died."""
        rules = self.world.rules
        for (side, path), value in self.fresh.items():
            content = self.server(side).values
            if content is not None and not (rules.names_a_winner or shielded(rules, path)):
                assert content.get(path) == value
        self.fresh.clear()

    def check_clock(self, before: World) -> None:
        """8: an hour of skew changes nothing but LastWriteWins."""
        if not before.rules.asks_the_clock:
            assert before.agreement("Upstream") == before.agreement("Downstream")

    def check_oneway(self, before: World) -> None:
        """Keep downstream edits of a one-way path downstream."""
        if before.rules.oneway:
            assert at(self.world.up, "b") == at(before.up, "b")
            assert (
                not at(before.up, "b")
                or at(self.world.down, "b") == at(self.world.up, "b")
                or before.rules.own_spelling
            )

    def check_without_base(self, before: World) -> None:
        """7: without a base no key goes, and nothing is overwritten but by a strategy that names a winner."""
        if before.base() is not None:
            return
        for old, new in ((before.up, self.world.up), (before.down, self.world.down)):
            for name in KEYS:
                assert not at(old, name) or at(new, name)
                free = before.rules.names_a_winner or shielded(before.rules, f"data/{name}")
                assert free or not at(old, name) or at(new, name) == at(old, name)

    def check_equal(self, before: World) -> None:
        """2: after one pass all is equal but what is reported, and that is as it was."""
        if before.rules.own_spelling:
            return
        agreement, up, down = before.agreement(), self.world.up, self.world.down
        reported = {key(path) for path in (*agreement.conflicts, *agreement.deferred, *agreement.local_only)}
        assert {name for name in KEYS if at(up, name) != at(down, name)} == reported
        for name in reported:
            assert at(up, name) == at(before.up, name)
            assert at(down, name) == at(before.down, name)
        base = self.world.base()
        assert base is not None
        assert base.up == base.down

    def check_merge(self, before: World) -> None:
        """3: under Merge, what was changed on one side only is on both sides now."""
        base = before.base()
        if before.rules.strategy != "Merge" or before.rules.own_spelling or base is None:
            return
        for name in KEYS:
            was = {path: digest for path, digest in base.up.items() if key(path) == name}
            up, down = at(before.up, name), at(before.down, name)
            if (up == was) != (down == was) and not shielded(before.rules, f"data/{name}"):
                assert at(self.world.up, name) == at(self.world.down, name) == (down if up == was else up)


def key(path: str) -> str:
    return path.partition("/")[2]


def shielded(rules: Rules, path: str) -> bool:
    return key(path) in {key(oneway) for oneway in rules.oneway}


def at(server: Server, name: str) -> Values:
    return {path: digest for path, digest in server.leaves().items() if key(path) == name}


TestTwoSides = TwoSides.TestCase
TestTwoSides.settings = settings(max_examples=1000 if EXPLORE else 60, stateful_step_count=20)
