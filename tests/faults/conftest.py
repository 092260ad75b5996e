"""Tests that run operators of their own, and put faults between them and the arena."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults.scene import Scene

from syncline.sandbox import Sandbox
from syncline.testing.proxy import FaultProxy


@pytest.fixture
def scene(arena: Sandbox, arena_kubeconfig: Path) -> Iterator[Scene]:
    """A part of the arena for one test."""
    scene = Scene(arena, arena_kubeconfig)
    yield scene
    scene.end()


@pytest.fixture
def proxy(scene: Scene) -> Iterator[FaultProxy]:
    """A proxy before the arena's API server."""
    with FaultProxy(scene.sandbox) as running:
        yield running
