"""Examples, played in a cluster where the operator runs."""

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from tests.examples.scene import Check, Scene

from syncline.sandbox import RequestError, Sandbox
from syncline.testing.operator import OperatorProcess


@pytest.fixture
def play(
    sandbox: Sandbox, operator: OperatorProcess, eventually: Callable[[Check], None]
) -> Iterator[Callable[..., Scene]]:
    """Apply an example, and remove it at the end of the test."""
    scenes = []

    def start(name: str, make: Callable[[Sandbox, Callable[[Check], None], str], Scene] = Scene) -> Scene:
        scenes.append(make(sandbox, eventually, name))
        return scenes[-1]

    yield start
    for scene in scenes:
        with suppress(RequestError):
            scene.delete_sync()
        for manifest in scene.manifests:
            if manifest["kind"] == "Namespace":
                sandbox.request("DELETE", f"/api/v1/namespaces/{manifest['metadata']['name']}")
    assert operator.returncode is None, operator.log()[-2000:]
