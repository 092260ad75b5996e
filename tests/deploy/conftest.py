"""The operator's manifests, installed in the sandbox."""

from collections.abc import Callable, Iterable

import pytest

from syncline import deploy


@pytest.fixture(scope="session")
def installed(apply: Callable[[Iterable[deploy.Manifest]], None], crds: None) -> None:  # noqa: ARG001 - our kinds first
    """Have all that we ship in the sandbox."""
    apply(deploy.everything())
