"""A world for each test, and an account in it that has no rights yet."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Command, syncline
from tests.configmapsync.world import until
from tests.configsync.conftest import allow, git_server
from tests.deploy.test_install import may
from tests.manifestsync.conftest import grant, rights, world
from tests.manifestsync.world import Manifests
from tests.tenancy.accounts import Account
from tests.tenancy.canaries import Canaries
from tests.tenancy.policies import Govern, governing

from syncline.sandbox import Sandbox
from syncline.testing.operator import chosen_profile

__all__ = ["git_server", "rights", "syncline", "world"]

TESTS_ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/tests-copied-kinds"


@pytest.fixture(scope="session")
def more_rights(sandbox: Sandbox, rights: None) -> None:  # noqa: ARG001 - these are added to those
    """The operator may apply what only Git brings along."""
    allow(sandbox)


@pytest.fixture
def account(world: Manifests) -> Iterator[Account]:
    """An account of the namespace that the syncs are in."""
    account = Account(world)
    yield account
    account.end()


@pytest.fixture(scope="session")
def quiet(arena: Sandbox, arena_kubeconfig: Path, canaries: Canaries) -> Iterator[Path]:
    """The operator's kubeconfig for the arena, where it may copy more kinds, and no value of a Secret is ever told."""
    grant(arena)
    yield arena_kubeconfig
    canaries.search_cluster(arena)


@pytest.fixture
def alone(arena: Sandbox, quiet: Path) -> Iterator[Manifests]:  # noqa: ARG001 - it installs
    """Namespaces of this test's own, in a cluster where no operator runs but the one that the test starts."""
    world = Manifests(arena)
    yield world
    world.end_alone()


@pytest.fixture(scope="module")
def installed_with_none(arena: Sandbox, quiet: Path, syncline: Command) -> Iterator[Sandbox]:  # noqa: ARG001
    """A cluster where the operator was installed with the profile `none`, and no rights were added."""
    arena.request("DELETE", TESTS_ROLE)
    told = syncline("install", "--without-deployment", "--rights", "none", kubeconfig=arena.kubeconfig)
    assert told.splitlines()[-1] == "to run the operator with these rights: syncline run --as-installed"
    for group, plural in (("", "secrets"), ("apps", "deployments")):
        until(lambda: may(arena, "create", group, plural), lambda allowed: not allowed)  # noqa: B023
    yield arena
    profile = chosen_profile()
    syncline("install", "--without-deployment", "--rights", profile, kubeconfig=arena.kubeconfig)
    until(lambda: may(arena, "create", "", "secrets"), lambda allowed: allowed == (profile != "none"))
    grant(arena)


@pytest.fixture
def govern(world: Manifests) -> Iterator[Govern]:
    """Write policies over the namespace of the syncs, for the time of the test."""
    yield from governing(world)
