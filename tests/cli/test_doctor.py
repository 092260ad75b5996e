"""`syncline doctor`: what is missing in a cluster, with what to do about it."""

from collections.abc import Iterator

import pytest
from tests.cli.conftest import Command
from tests.configmapsync.world import Thing, until

from syncline import deploy
from syncline.sandbox import Options, Sandbox
from syncline.testing.operator import install

POLICY = "configsyncs-authors.syncline.dev"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
ROLES = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture
def clinic(arena: Sandbox) -> Iterator[Sandbox]:
    """A cluster where Syncline is installed; it is put right afterwards."""
    install(arena)
    yield arena
    install(arena)


def rows(text: str) -> dict[str, tuple[str, str]]:
    """Read the table: check to answer and what was found."""
    lines = [line.split(None, 2) for line in text.splitlines()[1:]]
    return {check: (ok, found) for check, ok, found in lines}


def test_a_cluster_with_all_that_is_needed_is_well(clinic: Sandbox, syncline: Command) -> None:
    until(lambda: _may_read_policies(clinic), bool)
    found = rows(syncline("doctor", kubeconfig=clinic.kubeconfig))
    assert list(found) == ["namespace", "crds", "policies", "rights", "deployment", "confinement"]
    assert [ok for ok, _ in found.values()] == ["yes", "yes", "yes", "yes", "-", "yes"]


def test_each_thing_that_is_missing_is_told_with_what_to_do(clinic: Sandbox, syncline: Command) -> None:
    Thing(clinic, f"{ADMISSION}/validatingadmissionpolicybindings", POLICY).delete()
    Thing(clinic, f"{ROLES}/clusterroles", "syncline-core").delete()
    until(lambda: _may_read_policies(clinic), lambda allowed: not allowed)
    found = rows(syncline("doctor", kubeconfig=clinic.kubeconfig, code=1))
    assert found["policies"] == (
        "NO",
        f"run `syncline install` of this version: the ValidatingAdmissionPolicyBinding {POLICY} does not exist",
    )
    ok, rights = found["rights"]
    assert ok == "NO"
    assert rights.startswith("run `syncline install` of this version: the operator may not ")
    assert ", impersonate serviceaccounts, " in rights
    assert "get/list/watch validatingadmissionpolicies.admissionregistration.k8s.io" in rights
    assert found["crds"][0] == found["namespace"][0] == "yes"


def test_a_cluster_without_syncline_lacks_everything(syncline: Command) -> None:
    with Sandbox.create(Options()) as empty:
        found = rows(syncline("doctor", kubeconfig=empty.kubeconfig, code=1))
    assert [ok for ok, _ in found.values()][:4] == ["NO"] * 4
    assert found["namespace"][1].startswith("the namespace syncline-system does not exist: run `syncline install`")


def test_whoever_may_not_look_is_told_so_and_nothing_else(clinic: Sandbox, syncline: Command) -> None:
    text = syncline("doctor", kubeconfig=clinic.kubeconfig_for_certificate("somebody"), code=1)
    found = rows(text)
    assert [ok for ok, _ in found.values()][:5] == ["?"] * 5
    assert len(text.splitlines()) == 1 + len(found) == 7


def _may_read_policies(sandbox: Sandbox) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{deploy.NAMESPACE}:{deploy.SERVICE_ACCOUNT}",
            "resourceAttributes": {
                "group": "admissionregistration.k8s.io",
                "resource": "validatingadmissionpolicies",
                "verb": "watch",
            },
        },
    }
    answer = sandbox.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])
