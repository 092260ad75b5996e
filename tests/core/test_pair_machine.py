"""Pairs over generated histories: whatever people did on the two sides, and wherever a pass died.

The numbers are those of the eleven properties that two-way synchronisation owes its users. The sixth is a matter of
reading: `test_twoway_machine.py` has it.
"""

import random
from contextlib import suppress
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from msgspec import Struct
from tests.core.pair_world import KIND, NOW, READER, PairRefusedError, PairServer, PairState, forget_base
from tests.sampling import EXPLORE

from syncline.core.last_write import WriteTime
from syncline.core.ownership import BASE, MARKER, RESOLVE
from syncline.core.pair_rules import PairRules
from syncline.core.twoway import Side

Json = dict[str, Any]

HOUR = 3600.0
STRATEGIES = ("UpstreamWins", "DownstreamWins", "LastWriteWins", "MergeChanges", "Skip")
# What the downstream server makes of an object by itself.
MADE = ("spec/grade", "spec/options/injected", "spec/image")


class PairEdit(Struct, frozen=True):
    """Somebody changes one thing, or removes it."""

    side: Side
    what: str
    name: str
    value: str | None
    skew: float = 0.0

    def apply(self, live: Json) -> None:
        spec = live.setdefault("spec", {})
        match self.what:
            case "option":
                _set(spec.setdefault("options", {}), self.name, self.value)
            case "label":
                _set(live["metadata"].setdefault("labels", {}), self.name, self.value)
            case "image":
                _set(spec, "image", self.value)
            case "part":
                others = [part for part in spec.get("parts", ()) if part["name"] != self.name]
                if self.value is None:
                    spec["parts"] = others
                else:
                    mine = next((part for part in spec.get("parts", ()) if part["name"] == self.name), None)
                    spec["parts"] = [*others, {**(mine or {"name": self.name}), "weight": len(self.value)}]
            case _:
                spec["plain"] = [{"name": self.value}] if self.value is not None else []


def _set(fields: Json, name: str, value: str | None) -> None:
    if value is None:
        fields.pop(name, None)
    else:
        fields[name] = value


sides: st.SearchStrategy[Side] = st.sampled_from(("Upstream", "Downstream"))
values = st.sampled_from(("value-1", "value-22", "value-333"))
edit = st.builds(
    PairEdit,
    sides,
    st.sampled_from(("option", "option", "label", "image", "part", "part", "plain")),
    st.sampled_from(("a", "b")),
    values | values | st.none(),
    st.sampled_from((0.0, 0.0, HOUR, -HOUR)),
)
edits = st.lists(edit, max_size=4)
rules = st.builds(
    PairRules,
    strategy=st.sampled_from(STRATEGIES),
    two_way=st.booleans(),
    on_conflict=st.sampled_from(("UpstreamWins", "DownstreamWins", "Report")),
    one_way=st.sampled_from(((), (), ("/spec/options/b",))),
)


class PairMachine(RuleBasedStateMachine):
    @initialize(rules=rules, first=edits)
    def begin(self, rules: PairRules, first: list[PairEdit]) -> None:
        self.state = PairState(rules)
        self.clock = NOW - 2 * HOUR
        self.bases: list[str] = []
        self.state.up.create(
            {
                "apiVersion": "samples.example.com/v1",
                "kind": "Widget",
                "metadata": {"name": "sample"},
                "spec": {"size": 1},
            }
        )
        for one in first:
            self.state.up.edit(one.apply)
        self.check_pass()

    def server(self, side: Side) -> PairServer:
        return self.state.up if side == "Upstream" else self.state.down

    def people_edit(self, edits: list[PairEdit]) -> None:
        for one in edits:
            self.server(one.side).edit(one.apply)
            self.clock += 3
            self.server(one.side).written = WriteTime(self.clock + one.skew)
            self.state.seen.append(one.side)

    @rule(edits=edits)
    def a_pass(self, edits: list[PairEdit]) -> None:
        self.people_edit(edits)
        self.check_pass()

    @rule(edits=edits, number=st.integers(0, 2))
    def a_crash_and_a_pass(self, edits: list[PairEdit], number: int) -> None:
        """5: killed before any write, the next pass ends where an undisturbed one would have ended."""
        self.people_edit(edits)
        undisturbed = self.state.copy()
        undisturbed.full_pass()
        writes = self.state.passing()
        for _ in range(number + 1):
            next(writes, None)
        self.check_pass()
        assert self.content() == self.content(undisturbed)

    @rule(before=edits, number=st.integers(0, 2), during=edits)
    def edits_during_a_pass(self, before: list[PairEdit], number: int, during: list[PairEdit]) -> None:
        self.people_edit(before)
        writes = self.state.passing()
        for _ in range(number + 1):
            next(writes, None)
        self.people_edit(during)
        with suppress(PairRefusedError):
            list(writes)
        self.check_pass()

    @rule(edits=edits)
    def the_base_is_lost(self, edits: list[PairEdit]) -> None:
        self.people_edit(edits)
        forget_base(self.state)
        self.check_pass()

    @rule(edits=edits, seed=st.integers(0, 5))
    def somebody_forges_the_base(self, edits: list[PairEdit], seed: int) -> None:
        """Whoever edits the record on the copy gains no more than whoever takes it off."""
        self.people_edit(edits)
        without = self.state.copy()
        forget_base(without)
        self.state.down.edit(lambda live: _forge(live, self.bases, random.Random(seed)))
        if self.state.down.live()["metadata"]["annotations"].get(BASE) in self.bases[-1:]:
            return
        without.full_pass()
        self.check_pass()
        assert self.content() == self.content(without)

    @precondition(lambda self: self.state.down.object is not None)
    @rule(edits=edits)
    def the_copy_is_deleted(self, edits: list[PairEdit]) -> None:
        self.state.down.delete()
        self.people_edit(edits)
        self.check_pass()

    @rule(edits=edits, copy_first=st.booleans())
    def the_upstream_is_made_anew(self, edits: list[PairEdit], copy_first: bool) -> None:
        """9: a pass deletes no object, whatever it replaces."""
        made = self.state.up.live()
        self.state.up.delete()
        if copy_first:
            self.state.full_pass()
        self.state.up.create({name: value for name, value in made.items() if name != "status"})
        self.people_edit(edits)
        self.check_pass()

    @rule(edits=edits, side=sides, on=sides)
    def a_person_settles(self, edits: list[PairEdit], side: Side, on: Side) -> None:
        self.people_edit(edits)
        self.server(on).edit(lambda live: live["metadata"].setdefault("annotations", {}).update({RESOLVE: side}))
        self.check_pass()
        if on == "Downstream":
            assert RESOLVE not in self.state.down.live()["metadata"]["annotations"]
            assert self.state.decide().agreement.conflicts == ()
        self.server(on).edit(lambda live: live["metadata"].get("annotations", {}).pop(RESOLVE, None))
        self.check_pass()

    def content(self, state: PairState | None = None) -> tuple[Json, Json]:
        state = state or self.state
        return state.values("Upstream"), state.values("Downstream")

    def check_pass(self) -> None:
        before = self.state.copy()
        there = before.down.object is not None
        plan = before.decide() if there else None
        base = before.base() if there else None
        self.state.full_pass()
        self.note_base()
        assert self.state.full_pass() == []  # 1 and 10: a second pass writes nothing
        self.check_records()
        if before.up.object is not None and not before.rules.two_way:
            assert self.state.up.object == before.up.object
        if plan is None:
            return
        for old, new in ((before.up, self.state.up), (before.down, self.state.down)):
            assert new.live()["metadata"]["uid"] == old.live()["metadata"]["uid"]
        self.check_agreed(plan.agreement)
        if base is None:
            self.check_without_base(before)
        if before.rules.strategy != "LastWriteWins":  # 8: no clock decides anything else
            assert before.decide("Upstream").agreement == before.decide("Downstream").agreement
        if before.rules.two_way and before.rules.one_way:
            assert self.state.values("Upstream").get("spec/options/b") == before.values("Upstream").get(
                "spec/options/b"
            )

    def check_agreed(self, agreement: Any) -> None:
        """2: what is not reported is equal on both sides, but for what the downstream server makes of it."""
        reported = {*agreement.conflicts, *agreement.deferred, *agreement.local_only, *agreement.kept}
        settled = bool(self.state.decide().resolution.side)
        up, down = self.content()
        for path in up.keys() | down.keys():
            made = path in MADE or path.endswith(("/weight", "]"))
            around = any(path.startswith(one) or one.startswith(path) for one in reported)
            if not (made or around or settled or agreement.previous_base is None):
                was = self.state.base()
                is_agreed_apart = was is not None and was.up.get(path) != was.down.get(path)
                assert up.get(path) == down.get(path) or is_agreed_apart, path

    def check_without_base(self, before: PairState) -> None:
        """7: without a base nothing is removed, and nothing is overwritten but by a strategy that names a winner."""
        rules = before.rules
        if any(RESOLVE in (one.live()["metadata"].get("annotations") or {}) for one in (before.up, before.down)):
            return
        for side in ("Upstream", "Downstream"):
            old, new = before.values(side), self.state.values(side)
            for path, value in old.items():
                if value == {}:  # beside values, an empty map says nothing
                    continue
                assert any(there.startswith(path.partition("/[")[0]) for there in new), path
                named = rules.strategy not in ("MergeChanges", "Skip") or path in rules.flowing_down([path])
                assert named or path in MADE or new.get(path) == value, path

    def check_records(self) -> None:
        """11: no value is in what is recorded."""
        annotations = self.state.down.live()["metadata"]["annotations"]
        assert "value-" not in annotations[BASE] + annotations[MARKER]
        assert b"value-" not in msgspec.json.encode(self.state.decide().agreement)

    def note_base(self) -> None:
        self.bases.append(self.state.down.live()["metadata"]["annotations"][BASE])


def _forge(live: Json, known: list[str], dice: random.Random) -> None:
    """Write another base: an earlier one, or a mixture of what was ever recorded."""
    annotations = live["metadata"].setdefault("annotations", {})
    records = [msgspec.json.decode(text, type=dict[str, str]) for text in known]
    digests = [digest for record in records for digest in record.values()]
    forged = dict(dice.choice(records))
    for path in list(forged):
        if dice.random() < 0.5:
            forged[path] = dice.choice(digests)
        elif dice.random() < 0.3:
            del forged[path]
    annotations[BASE] = msgspec.json.encode(forged, order="sorted").decode()


def test_the_kind_of_the_machine_has_lists_with_keys() -> None:
    assert KIND.startswith("Widget")
    assert READER.shape.field("spec").field("parts").keys == ("name", "kind")


TestPairMachine = PairMachine.TestCase
TestPairMachine.settings = settings(max_examples=600 if EXPLORE else 40, stateful_step_count=12)
