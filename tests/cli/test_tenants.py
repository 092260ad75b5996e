"""A tenant plans and diffs with the rights of a tenant: the built-in role `edit` in one namespace, and nothing else."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command
from tests.configmapsync.world import Thing, until
from tests.configsync.conftest import git_server
from tests.manifestsync.world import Manifests
from tests.tenancy.accounts import ALL, Account, is_allowed

from syncline.api.common import API_VERSION
from syncline.testing.gitserver import GitServer

__all__ = ["git_server"]

RBAC = "/apis/rbac.authorization.k8s.io/v1"


class Tenant:
    """A person with `edit` in the namespace of a world."""

    def __init__(self, world: Manifests, syncline: Command) -> None:
        self.user = f"{world.name}-mallory"
        self.kubeconfig = world.sandbox.kubeconfig_for_certificate(self.user)
        self._namespace = world.home
        self._syncline = syncline
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": self.user}
        Thing(world.sandbox, f"{RBAC}/namespaces/{world.home}/rolebindings", "mallory").create(
            {"metadata": {"name": "mallory"}, "roleRef": role, "subjects": [subject]}
        )
        until(lambda: is_allowed(world.sandbox, self.user, world.home, "configmapsyncs", "create"), bool)

    def runs(self, command: str, kind: str, code: int = 0, name: str = "sync", **spec: Any) -> str:
        """Run plan or diff on a sync at home."""
        meta = {"name": name, "namespace": self._namespace}
        sync = {"apiVersion": API_VERSION, "kind": kind, "metadata": meta, "spec": spec}
        arguments = (command, "-f", "-", "--allow-loopback")
        return self._syncline(*arguments, stdin=json.dumps(sync), code=code, kubeconfig=self.kubeconfig)

    def diffs(self, kind: str, name: str, code: int) -> str:
        """Run diff on a sync that exists."""
        return self._syncline("diff", kind, name, "-n", self._namespace, code=code, kubeconfig=self.kubeconfig)


def rows(told: str) -> dict[str, list[str]]:
    """Return the rows of the plan of a ConfigMapSync, by the target."""
    lines = told.splitlines()
    assert lines[1].split() == ["ACTION", "TARGET", "THEN", "WHY"]
    return {line.split()[1]: line.split(maxsplit=3) for line in lines[2:] if len(line.split()) > 3}


@pytest.fixture
def tenant(world: Manifests, syncline: Command) -> Tenant:
    return Tenant(world, syncline)


@pytest.fixture
def robot(world: Manifests) -> Iterator[Account]:
    """An account that may copy ConfigMaps at home."""
    account = Account(world)
    account.may(world.home, "configmaps", *ALL)
    yield account
    account.end()


def test_a_tenant_plans_a_sync_in_their_own_namespace(world: Manifests, tenant: Tenant) -> None:
    world.source()
    spec = {"sourceNamespace": world.home, "configMapName": "app", "destinationNamespace": world.home}
    told = tenant.runs("plan", "ConfigMapSync", **spec, destinationName="copy")
    assert rows(told)[f"{world.home}/copy"][0] == "create"
    notes = [line for line in told.splitlines() if line.startswith("note: ")]
    assert notes[0].startswith("note: the rights of system:serviceaccount:syncline-system:syncline were not checked")
    assert f"note: you may not list ConfigMap outside of namespace {world.home}" in told
    assert "note: you may not list the syncs of other namespaces" in told
    assert notes[-1] == ("note: TenantPolicies were not checked: you may not list them")
    assert "their existence was not checked" not in told


def test_what_is_synced_already_is_known_and_what_was_edited_is_shown(
    world: Manifests, tenant: Tenant, robot: Account
) -> None:
    world.source()
    spec = {"sourceNamespace": world.home, "configMapName": "app", "destinationNamespace": world.home}
    spec |= {"destinationName": "copy", "serviceAccountName": robot.name}
    sync = world.sync(**spec)
    sync.becomes("Synced", synced=1)
    assert rows(tenant.runs("plan", "ConfigMapSync", **spec))[f"{world.home}/copy"][::2] == ["leave", "Synced"]
    tenant.diffs("cms", "sync", 0)
    shown = tenant.runs("diff", "ConfigMapSync", code=1, **{**spec, "destinationName": "other"})
    assert f"# create {world.home}/other" in shown
    assert f"# delete {world.home}/copy" in shown


def test_a_target_in_a_namespace_that_the_tenant_may_not_read_is_planned_as_the_account(
    world: Manifests, tenant: Tenant, robot: Account
) -> None:
    world.source()
    open_, closed = world.namespaces("open", "closed")
    robot.may(open_, "configmaps", *ALL)
    spec = {"sourceNamespace": world.home, "configMapName": "app", "destinationNamespaces": [open_, closed]}
    told = tenant.runs("plan", "ConfigMapSync", code=1, **spec, serviceAccountName=robot.name)
    assert rows(told)[f"{open_}/app"][0] == "create"
    command = f"run `syncline grant configmaps --to {world.home}/{robot.name} -n {closed}`"
    assert rows(told)[f"{closed}/app"][-1].startswith(command)
    unread = f"note: you may not read these namespaces, so their existence was not checked: {closed}, {open_}"
    assert unread in told


def test_an_object_that_a_sync_elsewhere_has_written_is_a_conflict_though_that_sync_is_not_visible(
    world: Manifests, tenant: Tenant, robot: Account
) -> None:
    world.source()
    platform = Manifests(world.sandbox)
    platform.source("shared")
    platform.sync(configMapName="shared", destinationNamespace=world.home).becomes("Synced", synced=1)
    spec = {"sourceNamespace": world.home, "configMapName": "app", "destinationNamespace": world.home}
    told = tenant.runs("plan", "ConfigMapSync", 1, **spec, destinationName="shared", serviceAccountName=robot.name)
    assert rows(told)[f"{world.home}/shared"][::2] == ["leave", "Conflict"]
    platform.end()


@pytest.mark.parametrize("command", ["plan", "diff"])
@pytest.mark.parametrize(
    "where", [{"destinationNamespaces": ["team-*"]}, {"destinationNamespaceSelector": {"matchLabels": {"a": "b"}}}]
)
def test_a_selection_that_needs_the_namespaces_is_refused_with_what_is_missing(
    world: Manifests, tenant: Tenant, robot: Account, command: str, where: dict[str, Any]
) -> None:
    world.source()
    spec = {"sourceNamespace": world.home, "configMapName": "app", "serviceAccountName": robot.name}
    told = tenant.runs(command, "ConfigMapSync", code=2, **spec, **where)
    assert told.splitlines()[-1].startswith(
        f"syncline: ConfigMapSync {world.home}/sync: you may not list and watch namespaces, so the namespaces of a "
        "glob or a selector are not known"
    )
    assert "Traceback" not in told


def test_a_tenant_plans_what_git_says(world: Manifests, tenant: Tenant, robot: Account, git_server: GitServer) -> None:
    repository = git_server.repository(world.name)
    world.secret("git-ca", **{"ca.crt": git_server.ca.decode()})
    robot.may(world.home, "secrets", "get")
    text = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}, "data": {"a": "1"}})
    repository.commit({"web.yaml": text})
    git = {"repo": git_server.url(world.name), "caSecretRef": {"name": "git-ca"}}
    told = tenant.runs("plan", "ConfigSync", source={"git": git}, serviceAccountName=robot.name)
    assert told.splitlines()[2].split()[:4] == ["create", "-", "ConfigMap", f"{world.home}/web"]


def test_syncs_of_two_namespaces_are_planned_one_namespace_at_a_time(
    world: Manifests, tenant: Tenant, syncline: Command, tmp_path: Path
) -> None:
    spec = {"sourceNamespace": world.home, "configMapName": "app", "destinationNamespace": world.home}
    both = [
        {"apiVersion": API_VERSION, "kind": "ConfigMapSync", "metadata": {"name": "a", "namespace": one}, "spec": spec}
        for one in (world.home, world.namespace("b"))
    ]
    file = tmp_path / "both.yaml"
    file.write_text("\n---\n".join(map(json.dumps, both)))
    told = syncline("plan", "-f", file, code=2, kubeconfig=tenant.kubeconfig)
    assert "plan the syncs of one namespace at a time" in told
