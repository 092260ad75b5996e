"""Whether a policy is in force, and what follows for a sync that acts with the operator's own rights."""

import copy
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from syncline import deploy
from syncline.core.author_policies import AUTHOR_UNCHECKED, Live, effective, find_problem, is_about_authors, judge

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


@pytest.mark.parametrize(
    ("observed", "reason", "remembered", "in_force", "predates", "verdict"),
    [
        (7, "Synced", None, True, False, "Checked"),
        (7, "Synced", None, False, False, "PolicyMissing"),
        (7, "PolicyMissing", None, True, False, "Checked"),
        (7, "PolicyMissing", (7, True), True, True, "Checked"),
        (0, "", None, True, False, "Confirm"),
        (6, "Synced", (6, True), True, True, "Confirm"),
        (0, "", None, True, True, "AuthorUnchecked"),
        (6, "Synced", None, True, True, "AuthorUnchecked"),
        (6, "Synced", None, True, False, "Confirm"),
        (0, "", None, False, False, "AuthorUnchecked"),
        (6, "Synced", (6, True), False, False, "AuthorUnchecked"),
        (7, AUTHOR_UNCHECKED, None, True, False, "AuthorUnchecked"),
        (6, AUTHOR_UNCHECKED, (6, False), True, True, "Confirm"),
        # What this process has found itself counts more than a status that somebody may have written.
        (7, "Synced", (7, False), True, False, "AuthorUnchecked"),
    ],
)
def test_a_spec_counts_as_checked_only_if_a_policy_was_in_force_when_it_came(  # noqa: PLR0917 - a table
    observed: int, reason: str, remembered: tuple[int, bool] | None, in_force: bool, predates: bool, verdict: str
) -> None:
    found = judge(
        generation=7,
        observed=observed,
        reason=reason,
        remembered=remembered,
        in_force=in_force,
        predates=predates,
    )
    assert found == verdict


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


def test_nothing_is_carried_out_while_no_policy_is_in_force() -> None:
    for observed, reason, remembered, predates in itertools.product(
        (0, 6, 7), ("", "Synced", AUTHOR_UNCHECKED), (None, (6, True), (7, True), (7, False)), (False, True)
    ):
        found = judge(
            generation=7, observed=observed, reason=reason, remembered=remembered, in_force=False, predates=predates
        )
        assert found in ("PolicyMissing", "AuthorUnchecked")
