"""Fixtures that tests of several packages share."""

import gc
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import (
    forks,
    sampling,  # noqa: F401 - which examples are taken is said before any is
)
from tests.tenancy.canaries import Canaries

from syncline import deploy
from syncline.api.common import API_VERSION
from syncline.api.kinds import ALL_KINDS
from syncline.sandbox import Access, Options, RequestError, Sandbox
from syncline.testing.operator import OperatorProcess, chosen_profile, execute, install

Check = Callable[[], bool]
Eventually = Callable[[Check], None]
Apply = Callable[[Iterable[deploy.Manifest]], None]

# The tests that work with Secrets.
SECRETIVE = ("configsync", "manifestsync", "fleet", "tenancy", "cli", "workspacesync")
CANARIES = pytest.StashKey[Canaries]()

# Hundreds of operators are started; what depends on how one is started names `execute`.
OperatorProcess.launch = staticmethod(forks.launch)


# One core for each process of a control plane: there are more of them than cores. CONTRIBUTING has the measurements.
os.environ.setdefault("GOMAXPROCS", "1")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without garbage collections, and leave the tests out of those that follow: they stay until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def folder_of(path: Path) -> str:
    """Return the folder of `tests` that a test is in."""
    return path.relative_to(Path(__file__).parent).parts[0]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that need an operator with rights where it has none."""
    if chosen_profile() == "none":
        left_out = [item for item in items if item.get_closest_marker("own_rights") is not None]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session")
def eventually() -> Eventually:
    """Wait until a check holds; fail when it does not within 180 seconds."""

    def wait(check: Check) -> None:
        deadline, pause = time.monotonic() + 180, 0.03
        while not check():
            assert time.monotonic() < deadline, "not within 180 s"
            time.sleep(pause)
            pause = min(0.3, pause * 1.4)

    return wait


@pytest.fixture(scope="session")
def canaries() -> Iterator[Canaries]:
    """Values of Secrets that must be nowhere but in Secrets; each test and the end of the run search for them."""
    canaries = Canaries()
    begin, stop, kill = OperatorProcess.__init__, OperatorProcess.stop, OperatorProcess.kill

    def started(operator: OperatorProcess, *arguments: Any, **options: Any) -> None:
        begin(operator, *arguments, **options)
        canaries.follow(operator)

    def stopped(operator: OperatorProcess, seconds: float = 30.0) -> int:
        canaries.search_operator(operator)
        code = stop(operator, seconds)
        canaries.leave(operator)
        return code

    def killed(operator: OperatorProcess) -> None:
        canaries.search_operator(operator)
        kill(operator)
        canaries.search_logs()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OperatorProcess, "__init__", started)
        patch.setattr(OperatorProcess, "stop", stopped)
        patch.setattr(OperatorProcess, "kill", killed)
        yield canaries
    canaries.end()


@pytest.fixture(autouse=True)
def planting(request: pytest.FixtureRequest) -> Iterator[None]:
    """Plant a canary in each Secret that these tests write, and fail the test after which a value is found."""
    if folder_of(request.path) not in SECRETIVE:
        yield
        return
    canaries: Canaries = request.getfixturevalue("canaries")
    canaries.begin(request.node.nodeid)
    request.node.stash[CANARIES] = canaries
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Access, "request", canaries.planted(Access.request))
        yield
    canaries.search_logs()
    canaries.raise_for_leaks()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Search what the syncs of a test say while they are there: their end removes it."""
    yield
    if (canaries := item.stash.get(CANARIES, None)) is not None:
        canaries.search_test()
        canaries.raise_for_leaks()


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
            for kind in ALL_KINDS:
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
def far() -> Iterator[Sandbox]:
    """A second control plane, beside the one that `sandbox` gives."""
    with Sandbox.create(Options()) as running:
        yield running


@pytest.fixture(scope="session")
def arena() -> Iterator[Sandbox]:
    """A control plane where no operator runs but those that a test starts; leave it whole, and without syncs."""
    with Sandbox.create(Options(audit_log=True)) as running:
        yield running


@pytest.fixture
def mended(arena: Sandbox) -> Iterator[None]:
    """Have the arena whole again after the test, however it ended."""
    yield
    for component in ("etcd", "kube-apiserver", "kube-controller-manager"):
        if component not in arena.pids:
            arena.start(component)
        arena.resume(component)


@pytest.fixture(scope="session")
def arena_kubeconfig(arena: Sandbox) -> Path:
    """Syncline installed in the arena; the kubeconfig of the operator's own ServiceAccount."""
    return install(arena)


@pytest.fixture(scope="session")
def operator(sandbox: Sandbox, installed: Path, canaries: Canaries) -> Iterator[OperatorProcess]:
    """One operator for all tests of this process; it acts on every namespace of the sandbox."""
    flags = ("--allow-loopback", "--webhook-bind", "127.0.0.1:0", "--depot-bind", "127.0.0.1:0")
    with OperatorProcess(installed, *flags, launch=execute) as running:
        yield running
        canaries.search_cluster(sandbox)
