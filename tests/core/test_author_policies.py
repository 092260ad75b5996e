"""Whether a policy is in force, and what follows for a sync that acts with the operator's own rights."""

import copy
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from syncline import deploy
from syncline.core.author_policies import (
    AUTHOR_UNCHECKED,
    POLICY_UNKNOWN,
    Enforcement,
    JudgedSpec,
    Live,
    effective,
    find_problem,
    is_about_authors,
    is_replaced_unseen,
    judge,
)

POLICY, BINDING = deploy.policy()[:2]
OURS = "0.1.0"
Spec = dict[str, Any]


def live(shipped: Spec, version: str = OURS, change: Callable[[Spec], object] = lambda _: None) -> Live:
    spec = copy.deepcopy(shipped["spec"])
    change(spec)
    return Live(shipped["metadata"]["name"], "uid", 1, "2026-01-01T00:00:00Z", version, spec)


def as_served(spec: Spec) -> None:
    """Add what the API server fills in."""
    if "matchConstraints" in spec:
        spec["matchConstraints"] |= {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
        for rule in spec["matchConstraints"]["resourceRules"]:
            rule["scope"] = "*"


@pytest.mark.parametrize("shipped", deploy.policy(), ids=lambda one: f"{one['kind']} {one['metadata']['name']}")
def test_what_is_shipped_is_in_force_also_as_the_api_server_completes_it(shipped: Spec) -> None:
    assert not find_problem(shipped, live(shipped), OURS)
    assert not find_problem(shipped, live(shipped, change=as_served), OURS)


def test_what_is_not_there_is_to_be_installed() -> None:
    assert find_problem(BINDING, None, OURS) == (
        "run `syncline install` of this version: the ValidatingAdmissionPolicyBinding"
        f" {BINDING['metadata']['name']} does not exist"
    )


WEAKER_POLICIES: dict[str, Callable[[Spec], object]] = {
    "errors pass": lambda spec: spec.update(failurePolicy="Ignore"),
    "no validations": lambda spec: spec.update(validations=[]),
    "one validation less": lambda spec: spec["validations"].pop(),
    "a validation that always holds": lambda spec: spec["validations"][0].update(expression="true"),
    "a variable that lies": lambda spec: spec["variables"][0].update(expression="'somebody'"),
    "some namespaces only": lambda spec: spec["matchConstraints"].update(
        namespaceSelector={"matchLabels": {"checked": "true"}}
    ),
    "some objects only": lambda spec: spec["matchConstraints"].update(objectSelector={"matchLabels": {"a": "b"}}),
    "an exception": lambda spec: spec["matchConstraints"].update(
        excludeResourceRules=[{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]
    ),
    "exact versions only": lambda spec: spec["matchConstraints"].update(matchPolicy="Exact"),
    "creation only": lambda spec: spec["matchConstraints"]["resourceRules"][0].update(operations=["CREATE"]),
    "other kinds": lambda spec: spec["matchConstraints"]["resourceRules"][0].update(resources=["pods"]),
    "one more condition": lambda spec: spec["matchConditions"].append({"name": "never", "expression": "false"}),
    "parameters": lambda spec: spec.update(paramKind={"apiVersion": "v1", "kind": "ConfigMap"}),
}
WEAKER_BINDINGS: dict[str, Callable[[Spec], object]] = {
    "it warns": lambda spec: spec.update(validationActions=["Warn"]),
    "it is silent": lambda spec: spec.update(validationActions=["Audit"]),
    "another policy": lambda spec: spec.update(policyName="other"),
    "some namespaces only": lambda spec: spec.update(
        matchResources={"namespaceSelector": {"matchLabels": {"checked": "true"}}}
    ),
    "parameters": lambda spec: spec.update(paramRef={"name": "x", "parameterNotFoundAction": "Allow"}),
}
WEAKER = [
    pytest.param(shipped, change, id=f"{shipped['kind']}: {name}")
    for shipped, changes in ((POLICY, WEAKER_POLICIES), (BINDING, WEAKER_BINDINGS))
    for name, change in changes.items()
]


@pytest.mark.parametrize(("shipped", "change"), WEAKER)
@pytest.mark.parametrize("version", ["", OURS, "0.0.9", "mine"])
def test_what_was_weakened_is_not_in_force(shipped: Spec, change: Callable[[Spec], object], version: str) -> None:
    problem = find_problem(shipped, live(shipped, version, change), OURS)
    assert problem.startswith(f"delete the {shipped['kind']} {shipped['metadata']['name']} and run `syncline install`")


NEWER_IS_FINE = {"one validation less", "a validation that always holds", "a variable that lies", "one more condition"}


@pytest.mark.parametrize(("shipped", "change"), WEAKER)
def test_a_newer_policy_may_check_in_other_ways_but_must_see_and_deny_as_much(
    shipped: Spec, change: Callable[[Spec], object], request: pytest.FixtureRequest
) -> None:
    assert request.node.callspec.id
    name = request.node.callspec.id.partition(": ")[2]
    problem = find_problem(shipped, live(shipped, "0.2.0", change), OURS)
    assert (not problem) is (shipped is POLICY and name in NEWER_IS_FINE)


def test_an_older_operator_takes_the_policies_of_a_newer_version() -> None:
    def grow(spec: Spec) -> None:
        spec["validations"].append({"expression": "true"})
        spec["matchConstraints"]["resourceRules"][0]["operations"].append("DELETE")

    assert not find_problem(POLICY, live(POLICY, "0.10.0", grow), OURS)


def test_effective_is_idempotent_and_keeps_what_matters() -> None:
    spec = live(POLICY, change=as_served).spec
    assert effective(effective(spec)) == effective(spec) == effective(POLICY["spec"])


FORCE: Enforcement = "InForce"
GONE: Enforcement = "Missing"
BLIND: Enforcement = "Unknown"


def found(generation: int, *, checked: bool = True, epoch: int = 3) -> JudgedSpec:
    """What an earlier pass has found; of the epoch of today, if nothing else is said."""
    return JudgedSpec(generation, checked, epoch)


@pytest.mark.parametrize(
    ("observed", "reason", "remembered", "enforcement", "predates", "verdict"),
    [
        (7, "Synced", None, FORCE, False, "Checked"),
        (7, "Synced", None, GONE, False, "PolicyMissing"),
        (7, "PolicyMissing", None, FORCE, False, "Checked"),
        (7, "PolicyMissing", found(7), FORCE, True, "Checked"),
        (0, "", None, FORCE, False, "Confirm"),
        (6, "Synced", found(6), FORCE, True, "Confirm"),
        (0, "", None, FORCE, True, "AuthorUnchecked"),
        (6, "Synced", None, FORCE, True, "AuthorUnchecked"),
        (6, "Synced", None, FORCE, False, "Confirm"),
        (0, "", None, GONE, False, "AuthorUnchecked"),
        (6, "Synced", found(6), GONE, False, "AuthorUnchecked"),
        (7, AUTHOR_UNCHECKED, None, FORCE, False, "AuthorUnchecked"),
        (6, AUTHOR_UNCHECKED, found(6, checked=False), FORCE, True, "Confirm"),
        # What this process has found itself counts more than a status that somebody may have written.
        (7, "Synced", found(7, checked=False), FORCE, False, "AuthorUnchecked"),
        # What cannot be known now is not judged, and what was judged stays.
        (0, "", None, BLIND, False, "PolicyUnknown"),
        (6, "Synced", found(6), BLIND, False, "PolicyUnknown"),
        (7, POLICY_UNKNOWN, None, BLIND, False, "PolicyUnknown"),
        (7, POLICY_UNKNOWN, None, FORCE, False, "Confirm"),
        (7, POLICY_UNKNOWN, found(6), FORCE, True, "Confirm"),
        (7, POLICY_UNKNOWN, None, FORCE, True, "AuthorUnchecked"),
        (7, POLICY_UNKNOWN, None, GONE, False, "AuthorUnchecked"),
        (7, "Synced", None, BLIND, False, "PolicyMissing"),
        (7, AUTHOR_UNCHECKED, None, BLIND, False, "AuthorUnchecked"),
        # Policies that were replaced unseen: only the creation times say what was written under them.
        (6, "Synced", found(6, epoch=2), FORCE, True, "AuthorUnchecked"),
        (6, "Synced", found(6, epoch=2), FORCE, False, "Confirm"),
        (7, "Synced", found(7, epoch=2), FORCE, True, "Checked"),
    ],
)
def test_a_spec_counts_as_checked_only_if_a_policy_was_in_force_when_it_came(  # noqa: PLR0917 - a table
    observed: int, reason: str, remembered: JudgedSpec | None, enforcement: Enforcement, predates: bool, verdict: str
) -> None:
    judged = judge(
        generation=7,
        observed=observed,
        reason=reason,
        remembered=remembered,
        enforcement=enforcement,
        epoch=3,
        predates=predates,
    )
    assert judged == verdict


@pytest.mark.parametrize(
    ("old", "new", "unseen"),
    [
        (None, ("a", 1), False),
        (("a", 1), None, False),
        (("a", 1), ("a", 1), False),
        (("a", 1), ("a", 2), False),
        (("a", 1), ("a", 3), True),
        (("a", 1), ("b", 1), True),
    ],
)
def test_a_policy_is_replaced_unseen_if_a_state_between_was_not_told(
    old: tuple[str, int] | None, new: tuple[str, int] | None, unseen: bool
) -> None:
    def state(one: tuple[str, int] | None) -> Live | None:
        return None if one is None else Live("policy", one[0], one[1], "2026-01-01T00:00:00Z", OURS, {})

    assert is_replaced_unseen(state(old), state(new)) is unseen


def test_what_tenants_may_do_is_no_question_of_authors() -> None:
    names = {manifest["metadata"]["name"].partition(".")[0] for manifest in deploy.policy()}
    assert {name.rpartition("-")[2] for name in names if is_about_authors(f"{name}.syncline.dev")} == {
        "authors",
        "removers",
    }
    assert {name.rpartition("-")[2] for name in names} == {"authors", "removers", "tenants"}


@pytest.mark.parametrize("shipped", deploy.policy(), ids=lambda one: f"{one['kind']}:{one['metadata']['name']}")
def test_each_policy_of_a_newer_version_is_taken_for_good_while_it_sees_and_denies_as_much(shipped: Spec) -> None:
    def change(spec: Spec) -> None:
        if "validations" in spec:
            spec["validations"].append({"expression": "true"})

    assert not find_problem(shipped, live(shipped, "0.10.0", change), OURS)


def test_nothing_is_carried_out_unless_a_policy_is_known_to_be_in_force() -> None:
    remembered = (None, found(6), found(7), found(7, checked=False), found(6, epoch=2))
    for enforcement, observed, reason, before, predates in itertools.product(
        (GONE, BLIND), (0, 6, 7), ("", "Synced", POLICY_UNKNOWN, AUTHOR_UNCHECKED), remembered, (False, True)
    ):
        judged = judge(
            generation=7,
            observed=observed,
            reason=reason,
            remembered=before,
            enforcement=enforcement,
            epoch=3,
            predates=predates,
        )
        assert judged in ("PolicyMissing", "PolicyUnknown", "AuthorUnchecked")
