"""A world for each test, and an account in it that has no rights yet."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.manifestsync.conftest import grant
from tests.manifestsync.world import Manifests
from tests.tenancy.accounts import Account
from tests.tenancy.canaries import Canaries

from syncline.sandbox import Sandbox
from syncline.testing.operator import OperatorProcess


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
