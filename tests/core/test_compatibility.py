"""Which resources a cluster takes: what outcomes say of a kind, summed up without a word on who asked."""

import json
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import thorough

from syncline.api.common import TargetState
from syncline.core.compatibility import (
    ACCEPTED,
    MAX_INCOMPATIBLE,
    MAX_RESOURCES,
    NOT_SERVED,
    Verdict,
    no_right,
    synced_resources,
    verdict_of,
    verdicts,
)
from syncline.core.objects import Target
from syncline.core.outcome import Outcome

RBAC = (
    "cannot {verb} secrets in namespace 'blue-vault': 403 Forbidden: secrets is forbidden: User "
    '"system:serviceaccount:blue:writer" cannot {verb} resource "secrets" in API group "" in the namespace "blue-vault"'
)
QUOTA = "cannot create secrets in namespace 'blue-vault': 403 Forbidden: exceeded quota: blue"


def at(state: TargetState, reason: str, message: str = "", kind: str = "Secret") -> Outcome:
    return Outcome(
        target=Target("blue-vault", "key", kind, "edge"), state=state, reason=reason, message=message or "why"
    )


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        (at("Synced", "Synced"), ACCEPTED),
        (at("Conflict", "NotOurs"), ACCEPTED),
        (at("Failed", "Invalid"), ACCEPTED),
        # What a quota or a webhook refuses is no lack of rights.
        (at("Failed", "Forbidden", QUOTA), ACCEPTED),
        (at("Failed", "Forbidden", RBAC.format(verb="create")), no_right("create")),
        (at("Unknown", "KindNotWatched", RBAC.format(verb="list")), no_right("list")),
        (at("Failed", "KindNotServed"), NOT_SERVED),
        # A list that has not come yet, a cluster that is away, a credential that cannot be read say nothing of a kind.
        (at("Unknown", "KindNotWatched", "the first list has not come yet"), None),
        (at("Unknown", "Unreachable"), None),
        (at("Failed", "CredentialUnreadable", RBAC.format(verb="get")), None),
        (at("Pending", "NamespaceNotFound"), None),
        (at("Skipped", "NamespaceIgnored"), None),
    ],
)
def test_what_an_outcome_says_of_its_kind(outcome: Outcome, verdict: Verdict | None) -> None:
    assert verdict_of(outcome) == verdict


def test_what_was_known_stays_while_the_cluster_is_away_and_goes_with_the_kind() -> None:
    away = [at("Unknown", "Unreachable")]
    assert verdicts(away, {"Secret": no_right("create"), "ConfigMap": ACCEPTED}) == {"Secret": no_right("create")}
    assert verdicts(away, {}) == {"Secret": None}
    assert verdicts([at("Pending", "NamespaceNotFound")], {}) == {}
    assert synced_resources([{"Secret": None}], {}) == []
    gone = msgspec.structs.replace(at("Synced", "Pruned"), gone=True)
    assert verdicts([gone], {"Secret": ACCEPTED}) == {}


def test_one_refusal_outweighs_all_that_is_taken() -> None:
    outcomes = [at("Synced", "Synced"), at("Failed", "Forbidden", RBAC.format(verb="patch")), at("Synced", "Synced")]
    assert verdicts(outcomes, {}) == {"Secret": no_right("patch")}
    (entry,) = synced_resources([{"Secret": ACCEPTED}, {"Secret": NOT_SERVED}], {"Secret": "secrets"})
    assert (entry.name, entry.state) == ("secrets", "Incompatible")


def test_inventions_do_not_crowd_out_what_is_written() -> None:
    made_up = {f"Made{number}.example.com": NOT_SERVED for number in range(500)}
    entries = synced_resources([made_up, {"Secret": ACCEPTED}], {"Secret": "secrets"})
    assert len(entries) == MAX_INCOMPATIBLE + 1
    assert entries[-1].name == "secrets"


def test_nothing_is_said_of_who_writes_where() -> None:
    outcomes = [at("Failed", "Forbidden", RBAC.format(verb=verb)) for verb in ("create", "patch")]
    said = json.dumps(msgspec.to_builtins(synced_resources([verdicts(outcomes, {})], {})))
    assert not [word for word in ("blue", "vault", "key", "edge") if word in said]


kinds = st.sampled_from(["Secret", "ConfigMap", "Widget.example.com", "Deployment.apps"])
found = st.lists(
    st.dictionaries(kinds, st.sampled_from([ACCEPTED, NOT_SERVED, no_right("create"), no_right("list")])), max_size=6
)


@thorough
@given(found, st.randoms(use_true_random=False))
def test_it_is_the_same_whoever_is_heard_first(found: list[dict[str, Verdict]], random: Random) -> None:
    shuffled = random.sample(found, len(found))
    entries = synced_resources(found, {})
    assert entries == synced_resources(shuffled, {})
    assert len(entries) <= MAX_RESOURCES
    order = [(entry.state == "Accepted", entry.name) for entry in entries]
    assert order == sorted(order)
