"""Who has a target, who waits for it, and that whoever waits is told of all that may free it."""

from collections.abc import Iterator

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from msgspec import structs
from tests.sampling import thorough

from syncline.api.common import LabelSelector
from syncline.core.objects import Target
from syncline.core.scope import Namespace, Scope, scope_of
from syncline.engine.claims import MOST_REVIEWED, Claim, ClaimedTarget, Claims, reviewed
from syncline.kube.client import Client
from syncline.kube.config import Connection

NAME = ("", "ConfigMap", "shared")
SOURCE = Target("home", "app")
OLD, NEW = "ConfigMapSync/home/old", "ManifestSync/home/new"
HERE = Namespace("here", "1", {"team": "a"})
THERE = Namespace("there", "2")
SPOT = Target("here", "shared")


def claim(ref: str, *patterns: str, team: str | None = None, created: str = "", name: str = "shared") -> Claim:
    selector = LabelSelector(match_labels={"team": team}) if team else None
    scope = scope_of((), patterns, selector, frozenset())
    return Claim(ref=ref, created=created, targets=(ClaimedTarget(("", "ConfigMap", name), scope, SOURCE),))


class Board:
    """Claims, and who was told of what."""

    def __init__(self) -> None:
        client = Client(Connection(name="nowhere", server="https://127.0.0.1:1"))
        self.claims = Claims(client, {})
        self.told: list[str] = []
        self.claims.listen(self.told.append)

    def lose(self, ref: str, namespace: Namespace = HERE) -> str:
        """Have a sync look for a target, as a writer does."""
        target = Target(namespace.name, "shared")
        older = self.oldest(ref, namespace)
        if older:
            self.claims.wait(ref, "", target, older)
        return older

    def oldest(self, ref: str, namespace: Namespace) -> str:
        """Name the oldest sync that claims the target of another one, or nothing."""
        return next(
            (claim.ref for claim in self.claims.older_claimants(ref, "", Target(namespace.name, "shared"), namespace)),
            "",
        )


@pytest.fixture
def board() -> Iterator[Board]:
    board = Board()
    board.claims.put(claim(OLD, "here", created="1"))
    board.claims.put(claim(NEW, "here", created="2"))
    assert board.lose(NEW) == OLD
    yield board
    for ref in (OLD, NEW):
        board.claims.drop(ref)
    assert is_empty(board.claims)


def is_empty(claims: Claims) -> bool:
    waiters = claims.waiters
    indexes = (waiters._by_target, waiters._by_winner, waiters._by_namespace)
    kept = (claims._claims, claims._by_name, claims._extended, waiters._waits, waiters._rounds)
    return not any(kept) and not any(index._counts for index in indexes)


def test_whoever_waits_is_told_when_the_claim_ends(board: Board) -> None:
    board.claims.drop(OLD)
    assert board.told == [NEW]
    assert not board.lose(NEW)


def test_whoever_waits_is_told_when_the_claim_changes_and_not_when_it_is_put_again(board: Board) -> None:
    board.claims.put(claim(OLD, "here", created="1"))
    assert board.told == []
    board.claims.put(claim(OLD, "there", created="1"))
    assert board.told == [NEW]


def test_whoever_waits_for_a_sync_that_claims_nothing_any_more_is_told_when_it_goes(board: Board) -> None:
    board.claims.drop(OLD)  # it is suspended, and keeps what it has written
    board.claims.wait(NEW, "", SPOT, f"{OLD}/environment")
    board.told.clear()
    board.claims.drop(OLD)
    assert board.told == [NEW]


def test_an_edit_gives_away_no_target_before_the_sources_were_read(board: Board) -> None:
    board.claims.put(claim(OLD, "here", created="1", name="from-a-template"))
    board.told.clear()
    board.claims.extend(Claim(ref=OLD, created="1", targets=()))
    board.claims.wait(NEW, "", SPOT._replace(name="from-a-template"), OLD)
    board.claims.put(claim(OLD, "here", created="1", name="from-a-template"))
    assert board.told == []


def test_an_edit_whose_pass_fails_claims_what_the_spec_says(board: Board) -> None:
    board.claims.extend(claim(OLD, "here", created="1", name="other"))
    assert board.lose(NEW) == OLD
    board.claims.replace_extended(claim(OLD, "here", created="1", name="other"))
    assert board.lose(NEW) == ""
    board.told.clear()
    board.claims.replace_extended(claim(OLD, "here", created="1"))  # it is extended no more: a pass has told more
    assert board.told == []


def test_who_waits_is_found_by_target_and_by_namespace(board: Board) -> None:
    waiters = board.claims.waiters
    assert waiters.for_target(("", SPOT)) == (NEW,)
    assert waiters.for_target(("", SPOT._replace(name="other"))) == ()
    assert waiters.for_target(("elsewhere", SPOT)) == ()
    assert waiters.in_namespace("", "here") == (NEW,)
    assert waiters.in_namespace("", "there") == ()


def test_a_sync_waits_for_what_its_last_pass_has_waited_for(board: Board) -> None:
    waiters = board.claims.waiters
    other = SPOT._replace(namespace="there")
    waiters.begin(NEW)
    board.claims.wait(NEW, "", other, OLD)
    assert waiters.for_target(("", SPOT)) == (NEW,), "until the pass is over, it may be so still"
    waiters.end(NEW)
    assert (waiters.for_target(("", SPOT)), waiters.for_target(("", other))) == ((), (NEW,))
    waiters.begin(NEW)
    waiters.end(NEW)
    assert len(waiters) == 0


def test_a_sync_that_is_gone_waits_for_nothing_also_when_a_late_write_of_it_is_refused(board: Board) -> None:
    board.claims.drop(NEW)
    board.claims.wait(NEW, "", SPOT, OLD)
    assert len(board.claims.waiters) == 0


def test_a_sync_that_only_says_what_it_would_write_keeps_nobody_waiting(board: Board) -> None:
    board.claims.put(structs.replace(claim(OLD, "here", created="1"), dry_run=True))
    assert not board.lose(NEW)


def of(namespace: str, *users: str | None, since: int = 0) -> list[Claim]:
    """Return claims of one namespace, as these users, each younger than the one before."""
    return [
        structs.replace(claim(f"ConfigMapSync/{namespace}/s{number:03}", created=f"{since + number:03}"), user=user)
        for number, user in enumerate(users)
    ]


def test_the_oldest_claim_of_an_identity_stands_for_all_of_it() -> None:
    claims = of("mallory", "nobody", "nobody", None, "nobody", None)
    assert reviewed(claims, "robot") == [claims[0], claims[2]]


def test_a_crowd_of_invented_accounts_costs_no_more_than_one() -> None:
    crowd = of("mallory", *(f"invented-{number}" for number in range(500)))
    others = of("team", "robot", since=500) + of("other", None, since=600) + of("home", "mine", since=700)
    asked = reviewed([*crowd, *others], "mine")
    assert asked == [crowd[0], *others]


def test_claims_of_many_namespaces_are_not_all_reviewed() -> None:
    crowd = [claim for number in range(40) for claim in of(f"mallory-{number:02}", f"nobody-{number}", since=number)]
    asked = reviewed([*crowd, *of("other", None, since=600), *of("home", "mine", since=700)], "mine")
    assert len(asked) == MOST_REVIEWED + 2, "the operator and one's own identity cost nothing"
    assert asked[:MOST_REVIEWED] == crowd[:MOST_REVIEWED]


REFS = [f"ConfigMapSync/home/s{number}" for number in range(4)]
SCOPES = [scope_of((), ("here",), None, frozenset()), scope_of((), ("*",), None, frozenset())]
SCOPES += [scope_of((), (), LabelSelector(match_labels={"team": "a"}), frozenset()), Scope()]


class Rivals(RuleBasedStateMachine):
    """Syncs of different age that want, give up and wait for two targets, whose namespaces change their labels."""

    @initialize()
    def begin(self) -> None:
        self.board = Board()
        self.namespaces = {"here": HERE, "there": THERE}
        self.waits: dict[tuple[str, str], str] = {}
        """Who waits for the target in a namespace, and the sync that it lost to."""

    @rule(ref=st.sampled_from(REFS), scope=st.sampled_from(SCOPES), edited=st.booleans())
    def want(self, ref: str, scope: Scope, edited: bool) -> None:
        made = Claim(ref=ref, created=ref, targets=(ClaimedTarget(NAME, scope, SOURCE),))
        (self.board.claims.extend if edited else self.board.claims.put)(made)
        self.check()

    @rule(ref=st.sampled_from(REFS))
    def give_up(self, ref: str) -> None:
        self.board.claims.drop(ref)
        self.waits = {(who, where): winner for (who, where), winner in self.waits.items() if who != ref}
        self.check()

    @rule(name=st.sampled_from(["here", "there"]), team=st.sampled_from(["a", "b"]))
    def label(self, name: str, team: str) -> None:
        before = self.namespaces[name]
        self.namespaces[name] = Namespace(name, before.uid, {"team": team})
        self.board.told += self.board.claims.waiters.in_namespace("", name)
        self.check()

    @rule(ref=st.sampled_from(REFS))
    def reconcile(self, ref: str) -> None:
        waiters = self.board.claims.waiters
        waiters.begin(ref)
        self.waits = {(who, where): winner for (who, where), winner in self.waits.items() if who != ref}
        for namespace in self.namespaces.values():
            if older := self.board.lose(ref, namespace):
                self.waits[ref, namespace.name] = older
        waiters.end(ref)
        assert len(waiters) == len(self.waits)

    def check(self) -> None:
        """Whoever would find another winner now, or none, must have been told."""
        for (ref, where), winner in list(self.waits.items()):
            now = self.board.oldest(ref, self.namespaces[where])
            # An older one that came in between changes nothing for who waits.
            if now != winner and not (now and now < winner):
                assert ref in self.board.told, f"{ref} still waits for {winner} in {where}"
        self.board.told.clear()
        for told in {ref for ref, _ in self.waits}:
            self.reconcile(told)

    def teardown(self) -> None:
        for ref in REFS:
            self.board.claims.drop(ref)
        assert is_empty(self.board.claims)


TestRivals = Rivals.TestCase
TestRivals.settings = thorough
