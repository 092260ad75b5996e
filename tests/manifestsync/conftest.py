"""A world for each test, the operator that acts in it, and the rights that an admin has added for the kinds used."""

from collections.abc import Iterator, Sequence

import pytest
from tests.configmapsync.world import Thing, until
from tests.manifestsync.world import Manifests

from syncline import deploy
from syncline.sandbox import Sandbox
from syncline.testing.operator import OperatorProcess, chosen_profile

_READ = ["get", "list", "watch"]
_ALL = [*_READ, "create", "patch", "update", "delete"]
GRANTED = [
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": _ALL},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": _ALL},
    {"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": _ALL},
    {"apiGroups": [""], "resources": ["services", "serviceaccounts", "persistentvolumeclaims"], "verbs": _ALL},
    {"apiGroups": ["example.com"], "resources": ["*"], "verbs": _ALL},
    # Written only as an account that has the right itself.
    {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": _READ},
]


def grant(sandbox: Sandbox, rules: Sequence[dict[str, list[str]]] = GRANTED, name: str = "tests-copied-kinds") -> None:
    """Add kinds to what the operator may copy, as a cluster admin does, and wait until that holds."""
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    if chosen_profile() == "none":
        rules = [{**rule, "verbs": _READ} for rule in rules]
    body = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {deploy.names.AGGREGATE_LABEL: "true"}},
        "rules": rules,
    }
    sandbox.request("PATCH", f"{roles}/{name}?fieldManager=tests&force=true", body)
    until(Thing(sandbox, roles, "syncline").read, lambda role: rules[0] in role.get("rules", []))


@pytest.fixture(scope="session")
def rights(sandbox: Sandbox, operator: OperatorProcess) -> None:  # noqa: ARG001 - it installs the role that grows
    """The operator may copy the kinds that these tests use."""
    grant(sandbox)


@pytest.fixture
def world(sandbox: Sandbox, operator: OperatorProcess, rights: None) -> Iterator[Manifests]:  # noqa: ARG001
    """Namespaces of this test's own, in a cluster where the operator runs."""
    world = Manifests(sandbox)
    yield world
    world.end()
    assert operator.returncode is None, operator.log()[-2000:]
