"""Fixtures that tests of several packages share."""

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from syncline import deploy
from syncline.api.common import API_VERSION
from syncline.api.kinds import KINDS
from syncline.sandbox import RequestError, Sandbox
from syncline.testing.operator import OperatorProcess, install

Check = Callable[[], bool]
Eventually = Callable[[Check], None]
Apply = Callable[[Iterable[deploy.Manifest]], None]


@pytest.fixture(scope="session")
def eventually() -> Eventually:
    """Wait until a check holds; fail when it does not within 30 seconds."""

    def wait(check: Check) -> None:
        deadline = time.monotonic() + 30
        while not check():
            assert time.monotonic() < deadline, "not within 30 s"
            time.sleep(0.02)

    return wait


@pytest.fixture(scope="session")
def apply(sandbox: Sandbox) -> Apply:
    """Apply manifests to the sandbox, as often as one likes."""

    def send(manifests: Iterable[deploy.Manifest]) -> None:
        for manifest in manifests:
            metadata = manifest["metadata"]
            path = deploy.resource(manifest).path(metadata.get("namespace"), metadata["name"])
            sandbox.request("PATCH", f"{path}?fieldManager=tests&force=true", manifest)

    return send


@pytest.fixture(scope="session")
def crds(sandbox: Sandbox, apply: Apply, eventually: Eventually) -> None:
    """Have the sandbox serve our kinds."""
    apply(deploy.crds())

    def served() -> bool:
        try:
            for kind in KINDS:
                sandbox.request("GET", f"/apis/{API_VERSION}/{kind.plural}")
        except RequestError:
            return False
        return True

    eventually(served)


@pytest.fixture(scope="session")
def installed(sandbox: Sandbox) -> Path:
    """Syncline installed in the sandbox; the kubeconfig of the operator's own ServiceAccount."""
    return install(sandbox)


@pytest.fixture(scope="session")
def operator(installed: Path) -> Iterator[OperatorProcess]:
    """One operator for all tests of this process; it acts on every namespace of the sandbox."""
    with OperatorProcess(installed, "--allow-loopback") as running:
        yield running
