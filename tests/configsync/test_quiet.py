"""Whatever is written, by a create or by an apply, is written once: then nothing is, pass after pass."""

from collections.abc import Iterator

import pytest
import yaml
from tests.configmapsync.world import Thing, until
from tests.configsync.world import GitWorld
from tests.core.samples import RBAC, SAMPLES, WIDGET_CRD
from tests.manifestsync.conftest import grant

from syncline.sandbox import Sandbox

# Roles and bindings are written only as an account that has their rights.
WRITTEN = [sample for sample in SAMPLES if sample.resource.group != RBAC]


@pytest.fixture
def every_kind(sandbox: Sandbox, more_rights: None) -> Iterator[None]:  # noqa: ARG001 - the operator is there
    """The operator may write all kinds that there are samples of, until the world of the test is gone."""
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{WIDGET_CRD['metadata']['name']}"
    sandbox.request("PATCH", f"{path}?fieldManager=tests&force=true", WIDGET_CRD)
    rules = [
        {"apiGroups": [sample.resource.group], "resources": [sample.resource.plural], "verbs": ["*"]}
        for sample in WRITTEN
    ]
    grant(sandbox, rules, "tests-every-kind")
    yield
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    Thing(sandbox, roles, "tests-every-kind").delete()
    until(Thing(sandbox, roles, "syncline").read, lambda role: rules[0] not in role.get("rules", []))


def files(team: str) -> dict[str, str]:
    """A file for each kind; all of them change with the team."""
    return {
        f"{sample.resource.plural}.yaml": yaml.safe_dump(sample.object(labels={"team": team})) for sample in WRITTEN
    }


@pytest.mark.usefixtures("every_kind")
@pytest.mark.parametrize("policy", ["Sync", "Overwrite"])
def test_every_kind_comes_to_rest(world: GitWorld, policy: str) -> None:
    world.push(files("red"))
    sync = world.csync(resourceManagementPolicy=policy)
    sync.becomes("Synced", synced=len(WRITTEN))
    world.stays_quiet(sync)
    world.push(files("blue"))
    sync.now()
    sync.becomes("Synced", synced=len(WRITTEN))
    world.stays_quiet(sync)
    repaired = [event["note"] for event in sync.events() if event["reason"] == "DriftRepaired"]
    assert repaired == []
    assert sync.status["history"][0]["changes"] == f"{len(WRITTEN)} updated"
