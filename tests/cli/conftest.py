"""The command as a user types it, in a cluster where the operator runs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest
from tests.commands import run_command
from tests.manifestsync.conftest import rights, world
from tests.manifestsync.world import Manifests
from tests.tenancy.accounts import Account

from syncline.sandbox import Sandbox

__all__ = ["rights", "world"]


class Command(Protocol):
    """Runs `syncline`, and returns what it prints."""

    def __call__(self, *arguments: str | Path, stdin: str = "", code: int = 0, kubeconfig: Path | None = None) -> str:
        """Expect this exit code; unless all goes well, what stderr says is returned too."""


@pytest.fixture(scope="session")
def syncline(sandbox: Sandbox) -> Command:
    """Run the command against the sandbox, as an admin."""

    def run(*arguments: str | Path, stdin: str = "", code: int = 0, kubeconfig: Path | None = None) -> str:
        result = run_command([*arguments, "--kubeconfig", kubeconfig or sandbox.kubeconfig], stdin=stdin)
        assert result.returncode == code, (result.stdout, result.stderr)
        if code == 0:
            assert result.stderr == ""
        return result.stdout + result.stderr

    return run


@pytest.fixture
def account(world: Manifests) -> Iterator[Account]:
    """A service account without rights."""
    made = Account(world)
    yield made
    made.end()
