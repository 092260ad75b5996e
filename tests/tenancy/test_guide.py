"""The guide "Set up a tenant in ten minutes", played as it stands by an administrator and a member of the tenant."""

import asyncio
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.commands import run_command
from tests.configmapsync.world import Thing, until
from tests.configsync.conftest import allow
from tests.configsync.world import ConfigSync, GitWorld, config_map

from syncline import deploy
from syncline.api.common import API_VERSION, GROUP, VERSION
from syncline.api.tenantpolicy import PLURAL
from syncline.kube.client import Client, PatchKind
from syncline.kube.config import load_kubeconfig
from syncline.kube.errors import Forbidden
from syncline.kube.resources import NAMESPACES, Resource
from syncline.sandbox import Sandbox
from syncline.testing.gitserver import GitServer
from syncline.testing.operator import OperatorProcess

GUIDE = Path(__file__).parents[2] / "docs" / "tenants.md"
HEREDOC = re.compile(r"^kubectl apply -f - <<EOF\n(.*?)^EOF$", re.MULTILINE | re.DOTALL)
SYNCS = Resource(GROUP, VERSION, "configsyncs", "ConfigSync")
POLICIES = Resource(GROUP, VERSION, PLURAL, "TenantPolicy", namespaced=False)
OWN = {"ConfigSync": SYNCS, "TenantPolicy": POLICIES}


@pytest.fixture
def world(
    sandbox: Sandbox,
    operator: OperatorProcess,  # noqa: ARG001 - it runs
    rights: None,  # noqa: ARG001 - these are added to those
    git_server: GitServer,
) -> Iterator[GitWorld]:
    allow(sandbox)
    world = GitWorld(sandbox, git_server)
    yield world
    world.end()


class Tenant:
    """The guide for a tenant of this test's own name, with repositories that are really there."""

    def __init__(self, world: GitWorld) -> None:
        self.name = f"{world.name}-team"
        self._world = world
        folder = world.url.rpartition("/")[0]
        text = GUIDE.read_text(encoding="utf-8").replace("https://git.example.com/team-a/config", world.url)
        text = text.replace("https://git.example.com/team-a/**", f"{folder}/{world.name}*").replace("team-a", self.name)
        self.steps = [list(yaml.safe_load_all(step)) for step in HEREDOC.findall(text)]
        self.member = world.sandbox.kubeconfig_for_certificate(f"{world.name}-anna", [self.name])

    def as_admin(self, manifests: list[dict[str, Any]]) -> None:
        for manifest in manifests:
            resource = OWN.get(manifest["kind"]) or deploy.resource(manifest)
            path = resource.path(manifest["metadata"].get("namespace"), manifest["metadata"]["name"])
            self._world.sandbox.request("PATCH", f"{path}?fieldManager=kubectl&force=true", manifest)

    def as_member(self, manifest: dict[str, Any], resource: Resource = SYNCS) -> None:
        """Apply something as a member of the tenant; raises what the API server answers."""

        async def apply() -> None:
            async with Client(load_kubeconfig(self.member)) as client:
                meta = manifest["metadata"]
                await client.patch(resource, meta["name"], meta.get("namespace"), manifest, PatchKind.APPLY)

        asyncio.run(apply())

    def settle(self, manifest: dict[str, Any]) -> None:
        """Apply something as a member, once the API server knows of the rights that were given a moment ago."""

        def applied() -> bool:
            try:
                self.as_member(manifest)
            except Forbidden:
                return False
            return True

        until(applied, bool)

    def syncline(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_command([*arguments, "--kubeconfig", self.member])

    def end(self) -> None:
        Thing(self._world.sandbox, f"/apis/{API_VERSION}/{PLURAL}", self.name).delete()


@pytest.fixture
def tenant(world: GitWorld) -> Iterator[Tenant]:
    tenant = Tenant(world)
    yield tenant
    tenant.end()


def variant(sync: dict[str, Any], name: str, **git: Any) -> dict[str, Any]:
    """Return the sync of the guide under another name, with another source."""
    source = {"git": {**sync["spec"]["source"]["git"], **git}}
    return {**sync, "metadata": {**sync["metadata"], "name": name}, "spec": {**sync["spec"], "source": source}}


def test_a_tenant_is_set_up_in_ten_minutes_and_reaches_nothing_else(world: GitWorld, tenant: Tenant) -> None:
    rights, policy, (sync,) = tenant.steps
    tenant.as_admin(rights)
    tenant.as_admin(policy)
    world.secret("git-ca", namespace=tenant.name, **{"ca.crt": world.server.ca.decode()})

    shown = until(lambda: tenant.syncline("get", "tenantpolicy", tenant.name), lambda result: result.returncode == 0)
    told = {line.split(":")[0].strip(): line.partition(":")[2].strip() for line in shown.stdout.splitlines()}
    assert told["Service account"] == "required; default deployer"
    assert told["Other clusters"] == "none"
    assert told["In each namespace"] == (
        "at most 20 syncs, 500 targets, 600 seconds of builds in an hour, 1000000000 bytes of repositories"
    )
    assert told["Destinations"] == "{namespace}"
    assert told["Kinds"] == "ConfigMap, Secret, Service, *.apps, *.networking.k8s.io"

    world.push({"settings.yaml": config_map("settings", colour="red")})
    trusted = variant(sync, "config", caSecretRef={"name": "git-ca"})
    tenant.settle(trusted)
    world.config_map(tenant.name, "settings").becomes(colour="red")

    elsewhere = world.url.replace(world.name, "others")
    tenant.as_member(variant(trusted, "stranger", repo=elsewhere))
    stranger = ConfigSync(world.sandbox, tenant.name, "stranger")
    ready = stranger.becomes("NotAllowed")
    assert ready["message"] == (
        f"repository {elsewhere} is not allowed by TenantPolicy {tenant.name} (spec.repositories): name a repository"
        " that is, and write its URL plainly, or ask its administrator"
    )
    world.push({"settings.yaml": config_map("settings", "default", colour="red")})
    config = ConfigSync(world.sandbox, tenant.name, "config")
    config.now()
    config.becomes("NotAllowed")
    assert world.config_map("default", "settings").look() is None
    for one in (stranger, config):
        one.delete()
        one.gone()


def test_a_member_of_a_tenant_can_neither_leave_a_policy_nor_read_those_of_others(tenant: Tenant) -> None:
    rights, policy, (sync,) = tenant.steps
    tenant.as_admin(rights)
    tenant.as_admin(policy)
    until(lambda: tenant.syncline("get", "tp", tenant.name), lambda result: result.returncode == 0)
    suspended = {**sync, "spec": {**sync["spec"], "suspend": True}}
    tenant.settle(suspended)
    listed = tenant.syncline("get", "tenantpolicy")
    assert listed.returncode != 0
    assert "name one (syncline get tenantpolicy NAME)" in listed.stderr
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": tenant.name, "labels": {"tenant": "none"}}}
    with pytest.raises(Forbidden):
        tenant.as_member(home, NAMESPACES)
    with pytest.raises(Forbidden):
        tenant.as_member({**policy[0], "metadata": {"name": f"{tenant.name}-own"}}, POLICIES)
    with pytest.raises(Forbidden):
        tenant.as_member(policy[0], POLICIES)
    other = {**sync, "spec": {**sync["spec"], "serviceAccountName": "default"}}
    with pytest.raises(Forbidden, match="default"):
        tenant.as_member(other)
