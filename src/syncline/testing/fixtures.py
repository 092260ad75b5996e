"""Pytest fixtures with a real control plane. pytest loads them if Syncline is installed.

Imports nothing heavy: a run that asks for no sandbox should not pay for one.
"""

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from syncline.sandbox import Sandbox
    from syncline.testing.gateway import GatewayDouble
    from syncline.testing.kcp import KcpExport, KcpWorkspace


class SandboxFactory(Protocol):
    """Starts a further sandbox, to be stopped at the end of the test."""

    def __call__(
        self,
        *,
        kcp: bool = False,
        audit_log: bool = False,
        port: int = 0,
        etcd_args: Sequence[str] = (),
        apiserver_args: Sequence[str] = (),
        controller_manager_args: Sequence[str] = (),
    ) -> "Sandbox":
        """Start it with these options; returns once it is ready."""


class WorkspaceFactory(Protocol):
    """Makes a further workspace, to be deleted at the end of the test."""

    def __call__(
        self, name: str | None = None, *, parent: "KcpWorkspace | None" = None, workloads: bool = False
    ) -> "KcpWorkspace":
        """Make it below the parent, or below root, and serve Deployments and Services in it if so asked."""


class GatewayFactory(Protocol):
    """Starts an Ignition gateway for tests, to be stopped at the end of the test."""

    def __call__(
        self, data: "Path | None" = None, *, api_key: str = "agent:very-secret-key", tls: bool = False
    ) -> "GatewayDouble":
        """Start it over a data folder; returns once it answers."""


@pytest.fixture(scope="session")
def sandbox() -> Iterator["Sandbox"]:
    """One control plane for all tests of this process, with an audit log; use a namespace of your own in it."""
    from syncline.sandbox import Options, Sandbox  # noqa: PLC0415 - see the module's docstring

    with Sandbox.create(Options(audit_log=True)) as running:
        yield running


@pytest.fixture
def sandbox_factory() -> Iterator[SandboxFactory]:
    """Further control planes: remotes of a hub, or ones that a test breaks."""
    from syncline.sandbox import Options, Sandbox  # noqa: PLC0415 - see the module's docstring

    with ExitStack() as running:

        def start(
            *,
            kcp: bool = False,
            audit_log: bool = False,
            port: int = 0,
            etcd_args: Sequence[str] = (),
            apiserver_args: Sequence[str] = (),
            controller_manager_args: Sequence[str] = (),
        ) -> Sandbox:
            options = Options(
                kcp=kcp,
                audit_log=audit_log,
                port=port,
                etcd_args=tuple(etcd_args),
                apiserver_args=tuple(apiserver_args),
                controller_manager_args=tuple(controller_manager_args),
            )
            return running.enter_context(Sandbox.create(options))

        yield start


@pytest.fixture(scope="session")
def kcp() -> Iterator["Sandbox"]:
    """One kcp for all tests of a run, with an audit log, also where they run in several processes."""
    from syncline.sandbox import Options, Sandbox  # noqa: PLC0415 - see the module's docstring

    # Its start costs half a minute of CPU, and it holds half a gigabyte: one for each worker would be too much.
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or uuid.uuid4().hex
    with Sandbox.share(f"kcp-{run[:32]}", Options(kcp=True, audit_log=True)) as running:
        yield running


@pytest.fixture
def workspace_factory(kcp: "Sandbox") -> Iterator[WorkspaceFactory]:
    """Workspaces of the test's own: several, or one below another."""
    from syncline.testing.kcp import KcpWorkspace  # noqa: PLC0415 - see the module's docstring

    with ExitStack() as made:

        def make(
            name: str | None = None, *, parent: "KcpWorkspace | None" = None, workloads: bool = False
        ) -> KcpWorkspace:
            workspace = KcpWorkspace.create(kcp, name, parent.path if parent else "root")
            made.callback(workspace.delete)
            if workloads:
                workspace.serve_workloads()
            return workspace

        yield make


@pytest.fixture
def workspace(workspace_factory: WorkspaceFactory) -> "KcpWorkspace":
    """Make a workspace below root, for this test alone."""
    return workspace_factory()


@pytest.fixture
def api_export(workspace_factory: WorkspaceFactory) -> "KcpExport":
    """Make an APIExport of Deployments and Services, in a workspace of its own, for other workspaces to bind to."""
    from syncline.testing.kcp import KcpExport  # noqa: PLC0415 - see the module's docstring

    return KcpExport(workspace_factory())


@pytest.fixture
def gateway_factory() -> Iterator[GatewayFactory]:
    """Ignition gateways for tests, over real HTTP."""
    from syncline.testing.gateway import GatewayDouble  # noqa: PLC0415 - see the module's docstring

    with ExitStack() as running:

        def start(
            data: "Path | None" = None, *, api_key: str = "agent:very-secret-key", tls: bool = False
        ) -> GatewayDouble:
            return running.enter_context(GatewayDouble(data, api_key=api_key, tls=tls))

        yield start
