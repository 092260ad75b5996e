"""Conflict policies by key: the keys under one policy behave as an object of their own under that policy alone."""

from collections.abc import Mapping
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.core.server import ApiServer
from tests.core.strategies import Edit, Story, desireds, happen, key_policies, managements, play, stories
from tests.core.world import HOME, Sync, want
from tests.sampling import quick, thorough

from syncline.core.keypolicies import MOST_COMPARISONS, KeyPolicies, KeyPolicy, agree_by_key, merge_by_key
from syncline.core.objects import Desired
from syncline.core.plan import Policy, Verb
from syncline.core.twoway import Base, Side, Strategy, agree

Leaves = Mapping[str, str]

RULES = (
    KeyPolicy(("*.conf", "exact"), "Merge"),
    KeyPolicy(("secret.conf", "note-?"), "Skip"),
)
STRATEGIES: tuple[Strategy, ...] = ("UpstreamWins", "DownstreamWins", "LastWriteWins", "Merge", "Skip")
PATHS = ("data/a", "data/b", "binaryData/c", "data/app.yaml")

leaves = st.dictionaries(st.sampled_from(PATHS), st.sampled_from("123"))
bases = st.one_of(st.none(), st.builds(Base.same, leaves))
sides: st.SearchStrategy[Side] = st.sampled_from(("Upstream", "Downstream"))
strategies: st.SearchStrategy[Strategy] = st.sampled_from(STRATEGIES)
one_way = st.sampled_from(("SourceWins", "Skip", "Merge"))
one_way_policies = st.builds(KeyPolicies, one_way, key_policies)
two_way_policies = st.builds(
    KeyPolicies,
    strategies,
    st.lists(
        st.builds(KeyPolicy, st.sampled_from((("a",), ("a", "c"), ("*.yaml",), ("?",), ("*",))), strategies), max_size=3
    ).map(tuple),
)


@pytest.mark.parametrize(
    ("path", "policy"),
    [
        ("data/app.conf", "Merge"),
        ("binaryData/app.conf", "Merge"),
        ("data/exact", "Merge"),
        ("data/secret.conf", "Merge"),  # the first rule wins
        ("data/note-1", "Skip"),
        ("data/note-10", "SourceWins"),
        ("data/Exact", "SourceWins"),
        ("data/else", "SourceWins"),
    ],
)
def test_the_first_rule_that_matches_a_key_applies(path: str, policy: str) -> None:
    assert KeyPolicies("SourceWins", RULES).of(path) == policy


def test_without_a_match_the_policy_of_the_sync_applies() -> None:
    assert KeyPolicies("Skip", RULES).divide(["data/a", "data/x.conf"]) == {
        "Merge": frozenset({"data/x.conf"}),
        "Skip": frozenset({"data/a"}),
    }


# What one key has in the base, the source and the destination; under each policy, what the destination has then, and
# whether the key is reported.
CELLS = {
    "nothing changed": (("1", "1", "1"), {"SourceWins": "1", "Skip": "1", "Merge": "1"}),
    "the source changed": (("1", "2", "1"), {"SourceWins": "2", "Skip": "2", "Merge": "2"}),
    "the source deleted": (("1", "", "1"), {"SourceWins": "", "Skip": "", "Merge": ""}),
    "the source added": (("", "1", ""), {"SourceWins": "1", "Skip": "1", "Merge": "1"}),
    "the destination changed": (("1", "1", "2"), {"SourceWins": "1", "Skip": "2!", "Merge": "2"}),
    "the destination deleted": (("1", "1", ""), {"SourceWins": "1", "Skip": "!", "Merge": ""}),
    "the destination added": (("", "", "1"), {"SourceWins": "", "Skip": "1!", "Merge": "1"}),
    "both changed alike": (("1", "2", "2"), {"SourceWins": "2", "Skip": "2", "Merge": "2"}),
    "both changed differently": (("1", "2", "3"), {"SourceWins": "2", "Skip": "3!", "Merge": "3!"}),
}


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("policy", ["SourceWins", "Skip", "Merge"])
def test_one_key_one_way(name: str, policy: str) -> None:
    values, expected = CELLS[name]
    base, source, there = ({"data/k": value} if value else {} for value in values)
    merged = merge_by_key(base, source, there, KeyPolicies("SourceWins", (KeyPolicy(("k",), policy),)), adopting=False)
    value = expected[policy].rstrip("!")
    assert merged.result == ({"data/k": value} if value else {})
    assert bool(merged.conflicts or merged.edited) == expected[policy].endswith("!")


def test_an_edit_under_skip_holds_the_other_keys_under_skip_and_no_others() -> None:
    base = {"data/a": "1", "data/b": "1", "data/c": "1", "data/d": "1"}
    source = dict.fromkeys(base, "2")
    there = base | {"data/a": "mine"}
    rules = (KeyPolicy(("a", "b"), "Skip"), KeyPolicy(("c",), "Merge"))
    merged = merge_by_key(base, source, there, KeyPolicies("SourceWins", rules), adopting=False)
    assert merged.result == {"data/a": "mine", "data/b": "1", "data/c": "2", "data/d": "2"}
    assert merged.edited == ("data/a",)
    assert merged.base == {"data/a": "1", "data/b": "1", "data/c": "2", "data/d": "2"}


class TestOneWay:
    POLICY = Policy(key_policies=(KeyPolicy(("theirs*",), "Merge"), KeyPolicy(("note",), "Skip")))

    def copied(self, **content: str) -> Sync:
        sync = Sync(ApiServer(), self.POLICY)
        sync.reconcile(want(content))
        return sync

    def data(self, sync: Sync) -> dict[str, str]:
        return sync.server.objects[HOME].get("data", {})

    def test_each_key_is_treated_by_its_own_policy(self) -> None:
        sync = self.copied(ours="1", theirs="1", note="1")
        for key in ("ours", "theirs", "note"):
            happen(sync.server, HOME, Edit("set data", key, "mine"))
        action = sync.reconcile(want({"ours": "1", "theirs": "1", "note": "2"}))
        assert self.data(sync) == {"ours": "1", "theirs": "mine", "note": "mine"}
        assert (action.state, action.reason, action.conflicts) == ("Conflict", "Edited", ("data/note",))
        assert action.drift

    def test_a_repair_names_the_keys_and_who_changed_them(self) -> None:
        sync = self.copied(ours="1", theirs="1")
        for key in ("ours", "theirs"):
            happen(sync.server, HOME, Edit("set data", key, "mine"))
        sync.server.objects[HOME]["metadata"]["managedFields"] = [{"manager": "kubectl-edit"}]
        action = sync.reconcile(want({"ours": "1", "theirs": "1"}))
        assert (action.reason, action.message, action.drift) == ("DriftRepaired", "ours changed by kubectl-edit", True)

    def test_an_edit_that_stays_is_no_drift_when_the_source_changes(self) -> None:
        sync = self.copied(ours="1", theirs="1")
        happen(sync.server, HOME, Edit("set data", "theirs", "mine"))
        action = sync.reconcile(want({"ours": "2", "theirs": "1"}))
        assert (action.reason, action.drift) == ("SourceChanged", False)
        assert self.data(sync) == {"ours": "2", "theirs": "mine"}

    def test_the_report_ends_when_the_key_equals_the_source_again(self) -> None:
        sync = self.copied(note="1")
        happen(sync.server, HOME, Edit("set data", "note", "mine"))
        assert sync.reconcile(want({"note": "1"})).reason == "Edited"
        happen(sync.server, HOME, Edit("set data", "note", "1"))
        assert sync.reconcile(want({"note": "1"})).state == "Synced"
        assert sync.reconcile(want({"note": "2"})).state == "Synced"
        assert self.data(sync) == {"note": "2"}

    def test_an_adopted_object_gets_the_source_but_for_keys_that_are_merged(self) -> None:
        server = ApiServer()
        content = {"ours": "theirs", "theirs": "theirs", "theirs-too": "1", "note": "theirs", "extra": "1"}
        server.create({"metadata": {"namespace": HOME.namespace, "name": HOME.name}, "data": content})
        sync = Sync(server, self.POLICY).under(management="Adopt")
        action = sync.reconcile(want({"ours": "1", "theirs": "1", "note": "1"}))
        assert (action.verb, action.conflicts) == (Verb.ADOPT, ("data/theirs",))
        assert self.data(sync) == {"ours": "1", "theirs": "theirs", "theirs-too": "1", "note": "1"}

    def test_keys_that_others_add_are_not_compared_with_many_globs(self) -> None:
        """Anybody who can edit the copy can add 90,000 keys to it."""
        rules = (KeyPolicy(tuple(f"*{number}*x" for number in range(50)), "Skip"),) * 50
        sync = structs.replace(self.copied(ours="1"), policy=Policy(key_policies=rules))
        sync.server.objects[HOME]["data"] = {f"k{number}": "" for number in range(MOST_COMPARISONS // 2500 + 1)}
        before = self.data(sync)
        action = sync.reconcile(want({"ours": "1"}))
        assert (action.verb, action.state, action.reason) == (Verb.LEAVE, "Failed", "InvalidContent")
        assert "which has 201, or write fewer globs than 2500" in action.message
        assert self.data(sync) == before

    def test_a_lost_record_is_told_as_that(self) -> None:
        sync = self.copied(ours="1", note="1")
        happen(sync.server, HOME, Edit("set data", "note", "mine"))
        keyed = want({"ours": "2", "note": "2"})
        action, _ = sync.plan(
            Desired(**{name: getattr(keyed, name) for name in keyed.__struct_fields__} | {"key": "k"})
        )
        assert (action.reason, action.conflicts) == ("RecordLost", ("data/note",))


@thorough
@given(stories, managements, one_way, desireds())
def test_one_policy_for_every_key_is_the_policy_of_the_sync(
    story: Story, management: str, conflict: str, desired: Desired
) -> None:
    whole = Sync(play(story), Policy(management=management, conflict=conflict))
    rules = (KeyPolicy(("*",), conflict),)
    by_key = Sync(play(story), Policy(management=management, conflict=conflict, key_policies=rules))
    known = whole.server.see(HOME)
    ours = known is not None and known.marker is not None
    if conflict == "Skip" and ours and known.base is not None:
        return  # a record of single keys tells more than one digest does
    actions = [sync.reconcile(desired) for sync in (whole, by_key)]
    contents = [sync.server.see(HOME, body=True).content for sync in (whole, by_key)]
    # An edit under Skip also holds back that the whole becomes immutable; that is no key.
    assert contents[0].value_digests() == contents[1].value_digests()
    assert actions[0].state == actions[1].state


@quick
@given(leaves, leaves, leaves, one_way_policies, st.booleans())
def test_each_policy_decides_its_own_keys_and_no_others(
    base: Leaves, source: Leaves, there: Leaves, policies: KeyPolicies, adopting: bool
) -> None:
    merged = merge_by_key(base, source, there, policies, adopting=adopting)
    for policy, paths in policies.divide({*base, *source, *there}).items():
        mine = [{path: value for path, value in side.items() if path in paths} for side in (base, source, there)]
        alone = merge_by_key(*mine, KeyPolicies(policy), adopting=adopting)
        assert {path: value for path, value in merged.result.items() if path in paths} == alone.result
        assert {path: value for path, value in merged.base.items() if path in paths} == alone.base
        for part in ("set", "unset", "conflicts", "edited", "repaired"):
            assert tuple(path for path in getattr(merged, part) if path in paths) == getattr(alone, part)


@quick
@given(leaves, leaves, leaves, one_way_policies)
def test_a_second_merge_changes_nothing_and_reports_the_same(
    base: Leaves, source: Leaves, there: Leaves, policies: KeyPolicies
) -> None:
    first = merge_by_key(base, source, there, policies, adopting=False)
    second = merge_by_key(first.base, source, first.result, policies, adopting=False)
    assert (second.set, second.unset, second.repaired) == ((), (), ())
    assert (second.result, second.base) == (first.result, first.base)
    assert (second.conflicts, second.edited) == (first.conflicts, first.edited)


class TestBothWays:
    BASE: ClassVar = {"data/a": "1", "data/b": "1", "data/c": "1"}

    def test_each_key_flows_by_its_own_policy(self) -> None:
        up = self.BASE | {"data/a": "up", "data/b": "up", "data/c": "up"}
        down = self.BASE | {"data/a": "down", "data/b": "down", "data/c": "down"}
        rules = (KeyPolicy(("a",), "UpstreamWins"), KeyPolicy(("b",), "DownstreamWins"))
        agreement = agree_by_key(Base.same(self.BASE), up, down, KeyPolicies("Merge", rules))
        assert agreement.downstream == {"data/a": "up", "data/b": "down", "data/c": "down"}
        assert agreement.upstream == {"data/a": "up", "data/b": "down", "data/c": "up"}
        assert agreement.conflicts == ("data/c",)

    def test_the_later_side_wins_the_keys_under_last_write_wins_and_no_others(self) -> None:
        up = self.BASE | {"data/a": "up", "data/c": "up"}
        down = self.BASE | {"data/b": "down", "data/c": "down"}
        rules = (KeyPolicy(("a", "b"), "LastWriteWins"),)
        agreement = agree_by_key(Base.same(self.BASE), up, down, KeyPolicies("UpstreamWins", rules), "Downstream")
        assert agreement.downstream == {"data/a": "1", "data/b": "down", "data/c": "up"}
        assert agreement.upstream == {"data/a": "1", "data/b": "down", "data/c": "up"}

    def test_a_skipped_edit_holds_only_the_keys_under_skip(self) -> None:
        up = self.BASE | {"data/b": "up", "data/c": "up"}
        down = self.BASE | {"data/a": "down"}
        agreement = agree_by_key(Base.same(self.BASE), up, down, KeyPolicies("Merge", (KeyPolicy(("a", "b"), "Skip"),)))
        assert (agreement.conflicts, agreement.deferred) == (("data/a",), ("data/b",))
        assert agreement.downstream == {"data/a": "down", "data/b": "1", "data/c": "up"}

    @thorough
    @given(bases, leaves, leaves, strategies, sides)
    def test_one_policy_for_every_key_is_the_policy_of_the_sync(
        self, base: Base | None, up: Leaves, down: Leaves, strategy: Strategy, later: Side
    ) -> None:
        by_key = agree_by_key(base, up, down, KeyPolicies("Merge", (KeyPolicy(("*",), strategy),)), later)
        assert by_key == agree(base, up, down, strategy, later)

    @thorough
    @given(bases, leaves, leaves, two_way_policies, sides)
    def test_a_second_pass_changes_nothing_and_reports_the_same(
        self, base: Base | None, up: Leaves, down: Leaves, policies: KeyPolicies, later: Side
    ) -> None:
        first = agree_by_key(base, up, down, policies, later)
        assert first.upstream is not None
        assert first.downstream is not None
        second = agree_by_key(first.base, first.upstream, first.downstream, policies, later)
        assert not second.up
        assert not second.down
        assert (second.base, second.conflicts, second.deferred) == (first.base, first.conflicts, first.deferred)

    @quick
    @given(bases, leaves, leaves, two_way_policies, sides)
    def test_each_policy_decides_its_own_keys_and_no_others(
        self, base: Base | None, up: Leaves, down: Leaves, policies: KeyPolicies, later: Side
    ) -> None:
        whole = agree_by_key(base, up, down, policies, later)
        was = base.up if base is not None else {}
        for strategy, paths in policies.divide({*was, *up, *down}).items():
            mine = [{path: value for path, value in side.items() if path in paths} for side in (was, up, down)]
            alone = agree(Base.same(mine[0]) if base else None, mine[1], mine[2], strategy, later)  # type: ignore[arg-type]
            for result, expected in ((whole.upstream, alone.upstream), (whole.downstream, alone.downstream)):
                assert {path: value for path, value in (result or {}).items() if path in paths} == expected
            assert tuple(path for path in whole.conflicts if path in paths) == alone.conflicts
