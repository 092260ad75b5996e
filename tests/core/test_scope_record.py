"""What is recorded of a scope, and that the guard counts all that no edit has removed, and nothing else."""

import random
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.sampling import quick, thorough

from syncline.api.common import LabelSelector, LabelSelectorRequirement
from syncline.core.deletion_guard import GUARD_COUNT, GUARD_SHARE
from syncline.core.objects import Target
from syncline.core.plan import Action, Verb
from syncline.core.prune_plan import deletion_guard
from syncline.core.scope import Namespace, Scope, scope_of
from syncline.core.scope_record import (
    LIMIT,
    MAX_REMOVALS,
    Judgement,
    ScopeRecord,
    Unseen,
    decode_record,
    encode_record,
    is_judged,
    judge,
    record_of,
    short_object_id,
    without_removals,
)
from syncline.core.spec_scope import (
    ClusterScope,
    EnvironmentScope,
    ManagedObject,
    NamespaceScope,
    SourceScope,
    SpecScope,
    Today,
)

SOURCE = SourceScope(kind="ConfigMap", namespace="home", name="app")
HERE, AWAY = "", "away"
HIDDEN = Unseen(kinds=frozenset({"ConfigMap"}))


def spec_scope(scope: Scope) -> SpecScope:
    clusters = (ClusterScope(namespaces=NamespaceScope.of(scope)),)
    return SpecScope(clusters=clusters, sources=(SOURCE,))


def copy(namespace: Namespace, **changed: Any) -> ManagedObject:
    name = namespace.name
    return ManagedObject(
        **{
            "id": short_object_id("cluster", "ConfigMap", name, "app", f"uid-{name}"),
            "kind": "ConfigMap",
            "namespace": namespace,
            "name": "app",
            "source": "ConfigMap/home/app",
            **changed,
        }
    )


def scope(*patterns: str, team: str | None = None) -> Scope:
    selector = LabelSelector(match_labels={"team": team}) if team else None
    return scope_of((), patterns, selector, frozenset())


def again(record: ScopeRecord) -> ScopeRecord:
    """Return the record as it is after a restart."""
    found = decode_record(encode_record(record))
    assert found == record
    return found


TEAMS = ("blue", "red", None)
NAMES = tuple(f"n{number:02}" for number in range(32))
SCOPES = [
    scope("*"),
    scope(team="blue"),
    scope(team="red"),
    scope("n0*", team="blue"),
    scope("n1?", "n2?"),
    scope(*NAMES[:9]),
    scope("n31", team="blue"),
    scope("nowhere"),
]


class Guarded(RuleBasedStateMachine):
    """A sync whose scope is edited, whose namespaces change their labels, and whose deletes are refused at times."""

    @initialize(first=st.sampled_from(SCOPES), labelled=st.lists(st.sampled_from(TEAMS), min_size=32, max_size=32))
    def begin(self, first: Scope, labelled: list[str | None]) -> None:
        self.labels = dict(zip(NAMES, labelled, strict=True))
        self.scope = first
        self.record: ScopeRecord | None = None
        self.managed: set[str] = set()
        self.refused: set[str] = set()
        self.hidden = False
        self.judged = first
        """The scope of the last pass that could see the copies."""
        self.asked: set[str] = set()
        self.wanted_since_edit: set[str] = set()
        """Copies that the scope, as it is now, has wanted: what became of them later is nobody's edit."""
        self.reconcile(restart=False)

    @rule(to=st.sampled_from(SCOPES))
    def edit(self, to: Scope) -> None:
        if to != self.scope:
            self.wanted_since_edit = set()
        self.scope = to

    @rule(first=st.integers(0, 31), number=st.integers(1, 32), team=st.sampled_from(TEAMS))
    def label(self, first: int, number: int, team: str | None) -> None:
        self.labels.update(dict.fromkeys(NAMES[first : first + number], team))

    @rule(first=st.integers(0, 31), number=st.integers(0, 32))
    def refuse(self, first: int, number: int) -> None:
        self.refused = set(NAMES[first : first + number])

    @rule(hidden=st.booleans())
    def hide(self, hidden: bool) -> None:
        self.hidden = hidden

    @rule(restart=st.booleans())
    def reconcile(self, restart: bool) -> None:
        wanted = {name for name in NAMES if self.scope.matches(self.namespace(name))}
        unwanted = [] if self.hidden else sorted(self.managed - wanted)
        found = [copy(self.namespace(name)) for name in unwanted]
        unseen = HIDDEN if self.hidden else Unseen()
        judged = judge(self.record, spec_scope(self.scope), found, Today(), unseen)
        self.record = again(judged.record)
        if self.hidden:
            return
        self.expect(set(unwanted), judged)
        requested = {one.namespace.name for one in found if one.id in judged.requested and one.namespace is not None}
        derived = set(unwanted) - requested
        owned = len(self.managed)
        held = deletion_guard(actions(derived), owned - len(requested), confirmed="").held
        assert held is (len(derived) > max(GUARD_COUNT, GUARD_SHARE * (owned - len(requested))))
        if restart:  # after the record was written, before anything was removed
            return
        going = (requested | (set() if held else derived)) - self.refused
        by_label = going & self.wanted_since_edit
        assert len(by_label) <= max(GUARD_COUNT, GUARD_SHARE * (owned - len(requested)))
        self.managed = (self.managed - going) | wanted
        self.wanted_since_edit |= wanted
        done = frozenset(one.id for one in found if one.namespace is not None and one.namespace.name in going)
        self.record = again(without_removals(judged.record, done))

    def expect(self, unwanted: set[str], judged: Judgement) -> None:
        """Compare with a plain telling of the rule: what the former scope still matches was removed by the edit."""
        self.asked &= unwanted
        if self.judged != self.scope:
            self.asked |= {name for name in unwanted if self.judged.matches(self.namespace(name))}
        self.judged = self.scope
        assert {copy(self.namespace(name)).id for name in self.asked} == judged.requested

    @invariant()
    def record_is_short(self) -> None:
        assert self.record is None or len(encode_record(self.record)) < 2048

    def namespace(self, name: str) -> Namespace:
        team = self.labels[name]
        return Namespace(name, f"uid-of-{name}", {"team": team} if team else {})


def actions(names: set[str]) -> list[Action]:
    return [
        Action(verb=Verb.DELETE, target=Target(name, "app"), reason="Pruned", message="", uid=name) for name in names
    ]


TestGuarded = Guarded.TestCase
TestGuarded.settings = thorough


class TestJudging:
    def test_nothing_is_known_of_a_sync_without_a_record(self) -> None:
        judged = judge(None, spec_scope(scope("b")), [copy(Namespace("a", "1"))], Today(), Unseen())
        assert judged == Judgement(record_of(spec_scope(scope("b"))))

    @pytest.mark.parametrize("text", [None, "", "0123456789abcdef", "1234567890123456", "z:", "z:AAAA", "{", "[]"])
    def test_a_record_that_cannot_be_read_asks_for_nothing(self, text: str | None) -> None:
        assert decode_record(text) is None

    def test_a_refused_removal_stays_asked_for_and_nothing_else_with_it(self) -> None:
        refused, later = Namespace("extra", "1"), Namespace("a", "2")
        old, new = spec_scope(scope("*")), spec_scope(scope(team="blue"))
        first = judge(record_of(old), new, [copy(refused)], Today(), Unseen())
        assert first.requested == {copy(refused).id}
        # The glob that was there before the edit matches it too, but the edit did not remove it.
        second = judge(again(first.record), new, [copy(refused), copy(later)], Today(), Unseen())
        assert second.requested == {copy(refused).id}

    def test_a_removal_is_asked_for_until_the_copy_is_wanted_again(self) -> None:
        gone = copy(Namespace("a", "1"))
        old, new = spec_scope(scope("a", "b")), spec_scope(scope("b"))
        first = judge(record_of(old), new, [gone], Today(), Unseen())
        wanted = judge(first.record, new, [], Today(), Unseen())
        assert is_judged(wanted.record, new)
        assert judge(wanted.record, new, [gone], Today(), Unseen()).requested == frozenset()

    def test_a_copy_made_anew_at_the_same_place_was_never_asked_for(self) -> None:
        first = judge(
            record_of(spec_scope(scope("a"))), spec_scope(scope("b")), [copy(Namespace("a", "1"))], Today(), Unseen()
        )
        anew = copy(Namespace("a", "1"), id=short_object_id("cluster", "ConfigMap", "a", "app", "another"))
        assert judge(first.record, spec_scope(scope("b")), [anew], Today(), Unseen()).requested == frozenset()

    def test_where_nothing_can_be_seen_the_edit_is_judged_later_and_only_there(self) -> None:
        old, new = spec_scope(scope("*")), spec_scope(scope(team="blue"))
        unseen = Unseen(kinds=frozenset({"Secret"}))
        first = again(judge(record_of(old), new, [], Today(), unseen).record)
        lost = copy(Namespace("a", "1"))  # it had the label when the edit was judged
        assert judge(first, new, [lost], Today(), unseen).requested == frozenset()
        secret = copy(Namespace("a", "1"), kind="Secret")
        seen = judge(first, new, [lost, secret], Today(), Unseen())
        assert seen.requested == {secret.id}
        assert seen.record.earlier == ()

    def test_a_cluster_that_is_away_is_judged_by_the_scope_last_carried_out_there(self) -> None:
        both = ClusterScope(name=AWAY, connection="c", namespaces=NamespaceScope.of(scope("a", "b", "c")))
        first = SpecScope(clusters=(both,), sources=(SOURCE,))

        def narrowed(*names: str) -> SpecScope:
            cluster = ClusterScope(name=AWAY, connection="c", namespaces=NamespaceScope.of(scope(*names)))
            return SpecScope(clusters=(cluster,), sources=(SOURCE,))

        away = Unseen(clusters=frozenset({AWAY}))
        record = record_of(first)
        for names in (("a", "b"), ("b", "c"), ("b",)):
            record = again(judge(record, narrowed(*names), [], Today(), away).record)
        there = {
            name: copy(Namespace(name, "1"), cluster=AWAY, connections=frozenset({"c"}), id=name.encode() * 4)
            for name in ("a", "c", "z")
        }
        back = judge(record, narrowed("b"), list(there.values()), Today(), Unseen())
        assert back.requested == {there["a"].id, there["c"].id}

    def test_what_a_cluster_that_is_away_had_to_lose_is_still_asked_for_when_it_is_back(self) -> None:
        old = SpecScope(
            clusters=(ClusterScope(name=AWAY, connection="c", namespaces=NamespaceScope.of(scope("a"))),),
            sources=(SOURCE,),
        )
        new = SpecScope(sources=(SOURCE,))
        lost = copy(Namespace("a", "1"), cluster=AWAY, connections=frozenset({"c"}))
        first = judge(record_of(old), new, [lost], Today(), Unseen())
        away = judge(again(first.record), new, [], Today(), Unseen(clusters=frozenset({AWAY})))
        assert judge(again(away.record), new, [lost], Today(), Unseen()).requested == {lost.id}

    def test_an_environment_that_cannot_be_built_is_judged_once_it_can(self) -> None:
        def built(path: str) -> SpecScope:
            environments = (EnvironmentScope(name="dev", origin=path), EnvironmentScope(name="live", origin=path))
            return SpecScope(clusters=(ClusterScope(),), environments=environments)

        def made(name: str, environment: str) -> ManagedObject:
            return copy(Namespace("a", "1"), source="", name=name, environment=environment, id=name.encode())

        unbuilt = Unseen(environments=frozenset({"live"}))
        first = judge(record_of(built("old")), built("new"), [made("dev1", "dev")], Today(), unbuilt)
        assert first.requested == {b"dev1"}
        # A commit that comes later is nobody's edit, but for the environment that could not be built until now.
        found = [made("dev2", "dev"), made("liv1", "live")]
        second = judge(again(first.record), built("new"), found, Today(), Unseen())
        assert second.requested == {b"liv1"}
        third = judge(again(second.record), built("new"), [made("liv2", "live")], Today(), Unseen())
        assert third.requested == frozenset()

    def test_of_more_removals_than_a_record_holds_the_rest_is_derived_later(self) -> None:
        names = [f"n{number}" for number in range(MAX_REMOVALS + 5)]
        found = [copy(Namespace(name, "1")) for name in names]
        judged = judge(record_of(spec_scope(scope("*"))), spec_scope(scope("b")), found, Today(), Unseen())
        assert len(judged.requested) == len({one.id for one in found})
        assert len(judged.record.requested()) <= MAX_REMOVALS
        assert len(encode_record(judged.record)) <= LIMIT


def random_text(seed: random.Random, length: int, alphabet: str) -> str:
    """Return a name that the API server takes: the first and the last character are letters."""
    return f"a{''.join(seed.choice(alphabet) for _ in range(length - 2))}z"


class TestRecord:
    def test_the_largest_destinations_of_a_cluster_fit_whatever_their_characters(self) -> None:
        seed = random.Random(1)
        dns, label = string.ascii_lowercase + string.digits + "-", string.ascii_letters + string.digits + "-_."
        names = [random_text(seed, 63, dns) for _ in range(1001)]
        selector = LabelSelector(
            match_labels={random_text(seed, 316, label): random_text(seed, 63, label) for _ in range(50)},
            match_expressions=[
                LabelSelectorRequirement(
                    key=random_text(seed, 316, label),
                    operator="NotIn",
                    values=[random_text(seed, 63, label) for _ in range(30)],
                )
                for _ in range(20)
            ],
        )
        record = record_of(spec_scope(scope_of((), tuple(names), selector, frozenset())))
        assert len(encode_record(record)) <= LIMIT
        assert again(record) == record

    def test_a_scope_that_is_too_long_is_not_recorded_and_asks_for_nothing(self) -> None:
        seed = random.Random(2)
        names = tuple(random_text(seed, 63, string.ascii_lowercase) for _ in range(5000))
        removals = judge(
            record_of(spec_scope(scope("*"))),
            spec_scope(scope(*names)),
            [copy(Namespace("a", "1"))],
            Today(),
            Unseen(),
        )
        text = encode_record(removals.record)
        found = decode_record(text)
        assert found is not None
        assert len(text) <= LIMIT
        assert found.scope is None
        # What an edit had asked for by then still is.
        later = judge(
            found, spec_scope(scope("b")), [copy(Namespace(name, "1")) for name in ("a", "c")], Today(), Unseen()
        )
        assert later.requested == {copy(Namespace("a", "1")).id}

    def test_a_record_that_unpacks_to_too_much_is_none(self) -> None:
        bomb = record_of(spec_scope(scope("a" * 3_000_000)))
        assert len(encode_record(bomb)) < LIMIT
        assert decode_record(encode_record(bomb)) is None

    @quick
    @given(st.sampled_from(SCOPES), st.booleans())
    def test_the_same_scope_is_recorded_in_the_same_words(self, one: Scope, backwards: bool) -> None:
        turned = scope_of(
            (), tuple(sorted((*one.names, *one.globs), reverse=backwards)), one.selector, frozenset({"protected"})
        )
        assert encode_record(record_of(spec_scope(turned))) == encode_record(record_of(spec_scope(one)))
