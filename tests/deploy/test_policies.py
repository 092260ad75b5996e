"""The author policies themselves."""

from collections.abc import Callable

import pytest
from tests.deploy.authors import Eventually

from syncline import deploy
from syncline.api.common import API_VERSION
from syncline.api.kinds import ALL_KINDS, KINDS
from syncline.api.status import SyncStatus
from syncline.core.known_kinds import CLUSTER_WIDE, NAMESPACED
from syncline.sandbox import RequestError, Sandbox
from syncline.testing.fixtures import SandboxFactory

POLICIES = [manifest for manifest in deploy.policy() if manifest["kind"] == "ValidatingAdmissionPolicy"]


def test_every_kind_has_a_policy_that_refuses_where_it_cannot_decide_and_one_that_leaves_it_to_the_reconcile() -> None:
    named = {policy["metadata"]["name"]: policy["spec"]["failurePolicy"] for policy in POLICIES}
    syncs = [kind.plural for kind in KINDS if issubclass(kind.status, SyncStatus)]
    authors = [f"{kind.plural}-authors.syncline.dev" for kind in KINDS]
    removers = [f"{plural}-removers.syncline.dev" for plural in syncs]
    tenants = {f"{plural}-tenants.syncline.dev": "Ignore" for plural in syncs}
    assert named == dict.fromkeys((*authors, *removers), "Fail") | tenants


def test_no_expression_checks_more_rights_than_it_can_pay_for() -> None:
    for policy in POLICIES:
        for validation in policy["spec"]["validations"]:
            assert validation["expression"].count(".check(") <= 2


@pytest.mark.parametrize(("kinds", "namespaced"), [(NAMESPACED, True), (CLUSTER_WIDE, False)])
def test_the_kinds_that_are_checked_one_by_one_are_those_of_the_api_server(
    sandbox: Sandbox, kinds: dict[str, str], namespaced: bool
) -> None:
    for key, plural in kinds.items():
        group, _, kind = key.rpartition("/")
        groups = sandbox.request("GET", "/apis")["groups"]
        version = next((each["preferredVersion"]["groupVersion"] for each in groups if each["name"] == group), "")
        served = sandbox.request("GET", f"/apis/{version}" if group else "/api/v1")["resources"]
        found = next(each for each in served if each["name"] == plural)
        assert (found["kind"], found["namespaced"]) == (kind, namespaced)


def test_the_policies_fit_the_types_that_they_judge(sandbox_factory: SandboxFactory, eventually: Eventually) -> None:
    checking = sandbox_factory(controller_manager_args=["--controllers=validatingadmissionpolicy-status-controller"])
    send(checking, deploy.crds())
    eventually(served(checking))
    send(checking, POLICIES)
    for policy in POLICIES:
        address = deploy.resource(policy).path(None, policy["metadata"]["name"])
        eventually(lambda: "typeChecking" in checking.request("GET", address).get("status", {}))  # noqa: B023
        assert checking.request("GET", address)["status"]["typeChecking"] == {}


def send(sandbox: Sandbox, manifests: list[deploy.Manifest]) -> None:
    for manifest in manifests:
        path = deploy.resource(manifest).path(None, manifest["metadata"]["name"])
        sandbox.request("PATCH", f"{path}?fieldManager=tests", manifest)


def served(sandbox: Sandbox) -> Callable[[], bool]:
    def ask() -> bool:
        try:
            return all(sandbox.request("GET", f"/apis/{API_VERSION}/{kind.plural}") for kind in ALL_KINDS)
        except RequestError:
            return False

    return ask
