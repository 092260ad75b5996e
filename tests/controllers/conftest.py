"""What the tests of this package share."""

from collections.abc import AsyncIterator

import pytest
from tests.conftest import Eventually
from tests.controllers.upward_world import BARES, GADGETS, GROUP, UpwardWorld, definition

from syncline.sandbox import RequestError, Sandbox


@pytest.fixture(scope="session")
def gadgets(sandbox: Sandbox, eventually: Eventually) -> None:
    """Have the sandbox serve the kinds of these tests."""
    for resource, status in ((GADGETS, True), (BARES, False)):
        manifest = definition(resource, status=status)
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{manifest['metadata']['name']}"
        sandbox.request("PATCH", f"{path}?fieldManager=tests&force=true", manifest)

    def served() -> bool:
        try:
            for resource in (GADGETS, BARES):
                sandbox.request("GET", f"/apis/{GROUP}/v1/{resource.plural}")
        except RequestError:
            return False
        return True

    eventually(served)


@pytest.fixture
async def world(sandbox: Sandbox, gadgets: None) -> AsyncIterator[UpwardWorld]:  # noqa: ARG001 - they are served
    """An upstream and two targets."""
    world = UpwardWorld(sandbox)
    async with world.stack:
        await world.start()
        await world.open()
        yield world
