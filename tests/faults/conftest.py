"""A cluster that only these tests use: they run operators of their own, and put faults in between."""

from collections.abc import Iterator

import pytest
from tests.faults.scene import Scene

from syncline.sandbox import Options, Sandbox
from syncline.testing.proxy import FaultProxy


@pytest.fixture(scope="session")
def arena() -> Iterator[Sandbox]:
    """One control plane for those tests that leave it whole."""
    with Sandbox.create(Options(audit_log=True)) as running:
        yield running


@pytest.fixture
def scene(arena: Sandbox) -> Iterator[Scene]:
    """A part of the arena for one test."""
    scene = Scene(arena)
    yield scene
    scene.end()


@pytest.fixture
def proxy(scene: Scene) -> Iterator[FaultProxy]:
    """A proxy before the arena's API server."""
    with FaultProxy(scene.sandbox) as running:
        yield running
