"""Pytest fixtures with a real control plane. pytest loads them if Syncline is installed.

Imports nothing heavy: a run that asks for no sandbox should not pay for one.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from syncline.sandbox import Sandbox


class SandboxFactory(Protocol):
    """Starts a further sandbox, to be stopped at the end of the test."""

    def __call__(
        self,
        *,
        audit_log: bool = False,
        port: int = 0,
        etcd_args: Sequence[str] = (),
        apiserver_args: Sequence[str] = (),
        controller_manager_args: Sequence[str] = (),
    ) -> "Sandbox":
        """Start it with these options; returns once it is ready."""


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
            audit_log: bool = False,
            port: int = 0,
            etcd_args: Sequence[str] = (),
            apiserver_args: Sequence[str] = (),
            controller_manager_args: Sequence[str] = (),
        ) -> Sandbox:
            options = Options(
                audit_log=audit_log,
                port=port,
                etcd_args=tuple(etcd_args),
                apiserver_args=tuple(apiserver_args),
                controller_manager_args=tuple(controller_manager_args),
            )
            return running.enter_context(Sandbox.create(options))

        yield start
