"""One webhook for the tests of a module, and a tenant for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.admission.scene import Tenant, Webhooks, put_back
from tests.configmapsync.world import until

from syncline.sandbox import Sandbox


@pytest.fixture(scope="module")
def webhook(sandbox: Sandbox, installed: Path) -> Iterator[Webhooks]:
    """One replica that the API server calls by its address, with the rights of the operator."""
    with Webhooks(installed) as running:
        probe = Tenant(sandbox)
        probe.sync()
        until(probe.is_injected, bool)
        yield running
    put_back(sandbox)


@pytest.fixture
def tenant(sandbox: Sandbox, webhook: Webhooks) -> Tenant:  # noqa: ARG001 - it is called for the pods of the tenant
    return Tenant(sandbox)
