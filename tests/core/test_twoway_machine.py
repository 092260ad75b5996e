"""Two-way synchronisation over generated histories: whatever happened on the two sides, and wherever a pass died.

The numbers are those of the eleven properties that two-way synchronisation owes its users. The fourth, that the order
of events does not matter, is in `test_twoway.py`.
"""

from contextlib import suppress

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.core.twoway_world import HOUR, NOW, RefusedError, Rules, Server, Values, World, digests, stop_before

from syncline.core.pairs import Step
from syncline.core.stamps import Stamp
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


class TwoSides(RuleBasedStateMachine):
    @initialize(rules=rules, up=st.none() | contents(), down=st.none() | contents(), synced=st.booleans())
    def begin(self, rules: Rules, up: Values | None, down: Values | None, synced: bool) -> None:
        self.world = World(rules)
        self.clock = NOW - 2 * HOUR
        self.fresh: dict[tuple[Side, str], str] = {}
        for server, content in ((self.world.up, up), (self.world.down, down)):
            if content is not None:
                server.create(content)
        if synced:
            self.check_pass()

    @rule(side=sides, path=paths, value=values, skew=skews)
    def somebody_sets_a_value(self, side: Side, path: str, value: str, skew: float) -> None:
        server = self.server(side)
        server.set(path, value)
        self.stamp(side, skew)
        self.forget(side, key(path))
        if server.values is not None:
            self.fresh[side, path] = server.values[path]

    @rule(side=sides, path=paths)
    def somebody_removes_a_key(self, side: Side, path: str) -> None:
        self.server(side).set(path, None)
        self.stamp(side)
        self.forget(side, key(path))

    @rule(side=sides)
    def somebody_deletes_an_object(self, side: Side) -> None:
        server = self.server(side)
        if server.values is not None:
            server.delete(server.uid)
        self.forget(side, *KEYS)

    @rule(side=sides, content=contents())
    def somebody_makes_an_object_anew(self, side: Side, content: Values) -> None:
        self.somebody_deletes_an_object(side)
        self.server(side).create(content)
        self.stamp(side)

    @rule(side=sides)
    def somebody_makes_the_same_object_anew(self, side: Side) -> None:
        content = self.server(side).values
        if content is not None:
            self.somebody_makes_an_object_anew(side, content)

    @precondition(lambda self: self.world.record is not None)
    @rule()
    def the_base_is_lost(self) -> None:
        self.world.record = None

    @rule()
    def a_pass(self) -> None:
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

    @rule(number=st.integers(0, 4), up_first=st.booleans(), interim=st.booleans())
    def a_crash_and_a_pass(self, number: int, up_first: bool, interim: bool) -> None:
        """5: killed before any write, the next pass ends where an undisturbed one would have ended."""
        undisturbed = self.world.copy()
        undisturbed.full_pass()
        if stop_before(self.world.writes(up_first=up_first, interim=interim), number):
            self.check_pass()
        assert self.world.state() == undisturbed.state()
        self.check_quiet()

    @rule(number=st.integers(0, 4), up_first=st.booleans(), interim=st.booleans())
    def a_crash(self, number: int, up_first: bool, interim: bool) -> None:
        stop_before(self.world.writes(up_first=up_first, interim=interim), number)

    @rule(number=st.integers(0, 3), side=sides, path=paths, value=values)
    def an_edit_during_a_pass(self, number: int, side: Side, path: str, value: str) -> None:
        writes = self.world.writes(interim=True)
        stop_before(writes, number)
        self.somebody_sets_a_value(side, path, value, 0.0)
        with suppress(RefusedError):
            list(writes)
        self.check_pass()

    @rule(number=st.integers(0, 3), side=sides, content=contents())
    def an_object_made_anew_during_a_pass(self, number: int, side: Side, content: Values) -> None:
        """9: what was made anew stays, also where a pass had decided to delete what was there before."""
        writes = self.world.writes()
        stop_before(writes, number)
        self.somebody_makes_an_object_anew(side, content)
        uid = self.server(side).uid
        with suppress(RefusedError):
            list(writes)
        assert self.server(side).uid == uid
        self.check_pass()

    def server(self, side: Side) -> Server:
        return self.world.up if side == "Upstream" else self.world.down

    def stamp(self, side: Side, skew: float = 0.0) -> None:
        self.clock += 3
        self.server(side).stamp = Stamp(self.clock + skew)
        self.world.seen.append(side)

    def forget(self, side: Side, *names: str) -> None:
        self.fresh = {
            edit: value
            for edit, value in self.fresh.items()
            if (edit[0], key(edit[1])) not in {(side, name) for name in names}
        }

    def both_there(self) -> bool:
        return self.world.up.values is not None and self.world.down.values is not None

    def check_pass(self) -> None:
        before = self.world.copy()
        self.world.full_pass()
        self.check_quiet()
        self.check_deletions(before)
        self.check_records()
        self.check_fresh_edits(before)
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

    def check_fresh_edits(self, before: World) -> None:
        """3: a merge overwrites nothing that a person has changed since the last pass, wherever that one died."""
        rules, base = before.rules, before.base()
        for (side, path), value in self.fresh.items():
            content = self.server(side).values
            was = None if base is None else (base.up if side == "Upstream" else base.down).get(path)
            changed = digests({path: value})[path] != was
            if changed and content is not None and not (rules.names_a_winner or shielded(rules, path)):
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
        reported = {key(path) for path in (*agreement.conflicts, *agreement.held, *agreement.local)}
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
TestTwoSides.settings = settings(max_examples=300, stateful_step_count=20, deadline=None)
