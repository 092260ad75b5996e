"""Each file of examples/ignitionsync is taken by the API server, and its gateways get the files that it says."""

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.examples.scene import EXAMPLES, load

from syncline.api.common import API_VERSION, ObjectMeta
from syncline.api.ignitionsync import IgnitionSync
from syncline.api.kinds import IGNITION_SYNC
from syncline.core.gateway_composition import compose_plan
from syncline.core.gateway_files import FileEntry, plan_files
from syncline.core.gateway_plan import GatewayPlan, HttpApply
from syncline.core.gateway_profiles import facts_of, resolve_profile
from syncline.deploy import Manifest
from syncline.sandbox import Sandbox

FOLDER = EXAMPLES / "ignitionsync"
FILES = sorted(FOLDER.glob("*.yaml"))
REPOSITORY = FOLDER / "repository"
COMMIT = "c0ffee"
COLLECTIONS = {
    IGNITION_SYNC.kind: f"/apis/{API_VERSION}/namespaces/default/{IGNITION_SYNC.plural}",
    "StatefulSet": "/apis/apps/v1/namespaces/default/statefulsets",
    "ServiceAccount": "/api/v1/namespaces/default/serviceaccounts",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
}
SITE = {
    "projects/site/com.inductiveautomation.perspective/views/overview/resource.json",
    "projects/site/com.inductiveautomation.perspective/views/overview/view.json",
    "projects/site/project.json",
}
OWN = {
    "config/resources/external/ignition/system-properties/config.json",
    "config/resources/external/ignition/system-properties/resource.json",
}


class Plant:
    """One example: its sync, and the gateways of its StatefulSets."""

    def __init__(self, path: Path) -> None:
        self.manifests = load(path)
        self.sync = next(
            msgspec.convert(one, IgnitionSync) for one in self.manifests if one["kind"] == IGNITION_SYNC.kind
        )
        self.plans = {
            one["metadata"]["name"]: self._plan(one) for one in self.manifests if one["kind"] == "StatefulSet"
        }

    def _plan(self, workload: Manifest) -> GatewayPlan:
        """Return the plan of the first pod."""
        template: dict[str, Any] = workload["spec"]["template"]["metadata"]
        own = {"name": f"{workload['metadata']['name']}-0", "namespace": workload["metadata"]["namespace"]}
        facts = facts_of(msgspec.convert({**template, **own}, ObjectMeta))
        assert facts.sync == self.sync.metadata.name
        profile, spec = resolve_profile(self.sync.spec, facts), self.sync.spec
        files = plan_files(profile, facts, spec.git.ref, COMMIT, repository())
        return compose_plan(spec, profile, facts, files, ref=spec.git.ref, commit=COMMIT)

    def paths(self, workload: str) -> set[str]:
        return {file.path for file in self.plans[workload].files}


def repository() -> list[FileEntry]:
    """Return the files of the example repository, as a commit lists them."""
    found = sorted(path for path in REPOSITORY.rglob("*") if path.is_file())
    entries = [(path.relative_to(REPOSITORY).as_posix(), path.read_bytes()) for path in found]
    listed = [FileEntry(path, hashlib.sha1(data).hexdigest(), len(data), "100644") for path, data in entries]
    return sorted(listed, key=lambda entry: entry.path)


def play(name: str) -> Plant:
    return Plant(EXAMPLES / name)


@pytest.mark.usefixtures("crds")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_example_is_taken_by_the_api_server(sandbox: Sandbox, path: Path) -> None:
    for manifest in load(path):
        if manifest["kind"] == "Namespace":
            continue
        body = {**manifest, "metadata": {**manifest["metadata"], "namespace": "default"}}
        taken = sandbox.request("POST", f"{COLLECTIONS[manifest['kind']]}?dryRun=All&fieldValidation=Strict", body)
        assert taken["metadata"]["name"] == manifest["metadata"]["name"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_gateway_of_an_example_gets_files(path: Path) -> None:
    plans = Plant(path).plans
    assert plans
    assert {name: (plan.action, plan.message) for name, plan in plans.items()} == dict.fromkeys(plans, ("Publish", ""))


def test_a_gateway_gets_the_projects_and_its_own_configuration() -> None:
    example = play("ignitionsync/01-projects.yaml")
    assert example.paths("blue") == SITE | OWN
    assert example.paths("red") == SITE
    assert example.plans["blue"].rules.system_name == "blue"


def test_gateways_of_different_roles_get_different_files() -> None:
    example = play("ignitionsync/02-profiles.yaml")
    assert example.paths("site") == SITE
    assert example.paths("area") == {"projects/area/project.json"}
    area = example.plans["area"]
    assert (area.mappings[0].template, area.rules.values["vars.area"]) == (True, "7")


def test_values_are_set_for_each_gateway() -> None:
    example = play("ignitionsync/03-patches.yaml")
    assert example.paths("blue") == OWN
    assert example.plans["blue"].mappings[0].patches[0].set == {
        "systemName": "{{ gateway.name }}-{{ gateway.ordinal }}"
    }


def test_annotations_map_files_without_profiles() -> None:
    example = play("ignitionsync/04-annotations.yaml")
    assert example.paths("site") == {
        "projects/site/project.json",
        "projects/site/ignition/script-python/exchange/code.py",
        "config/resources/core/config-mode.json",
        "config/resources/core/ignition/tag-type-definition/edge/udts.json",
        "config/resources/prd-cloud/config-mode.json",
        "config/resources/external/config-mode.json",
        "factory.json",
    }
    assert example.plans["site"].rules.system_name == "site1-site-0"


def test_the_label_of_a_pod_decides_its_stage() -> None:
    example = play("ignitionsync/05-canary.yaml")
    assert example.paths("first") == example.paths("second") == SITE
    deployment = example.sync.spec.deployment
    assert deployment is not None
    first, rest = (stage.gateway_selector for stage in deployment.stages)
    labels = {name: plan.rules.values.get("labels.canary") for name, plan in example.plans.items()}
    assert (first, rest, labels) == ({"canary": "yes"}, {}, {"first": "yes", "second": None})
    assert deployment.auto_rollback.enabled


def test_another_application_is_asked_to_reload() -> None:
    example = play("ignitionsync/06-another-application.yaml")
    assert example.paths("web") == {"conf.d/site.conf"}
    assert example.plans["web"].apply.http == HttpApply(
        port=9000, path="/reload", headers={"Authorization": "reload/header"}
    )


def test_a_private_repository_is_read_with_a_key_for_ssh() -> None:
    example = play("ignitionsync/07-private-repository.yaml")
    assert example.paths("site") == SITE
    assert example.plans["site"].ref == "refs/tags/2.0.0"
    auth = example.sync.spec.git.auth
    assert auth is not None
    assert auth.ssh_key is not None
    assert example.sync.spec.webhook.allowed_refs == ["refs/tags/2.*", "release/*"]


def test_the_account_of_an_example_may_get_the_secrets_of_its_sync() -> None:
    example = play("ignitionsync/08-as-a-service-account.yaml")
    assert example.paths("site") == SITE
    (role,) = (one for one in example.manifests if one["kind"] == "Role")
    spec = example.sync.spec
    assert spec.git.auth is not None
    assert spec.git.auth.token is not None
    assert spec.gateway.api_key_secret_ref is not None
    named = {spec.git.auth.token.secret_ref.name, spec.gateway.api_key_secret_ref.name}
    assert (spec.service_account_name, set(role["rules"][0]["resourceNames"])) == ("robot", named)
