"""The operator's manifests, installed in the sandbox, and the image of this tree."""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from tests.configsync.conftest import git_server
from tests.deploy.image import build, oci

from syncline import deploy
from syncline.testing.operator import chosen_profile

__all__ = ["git_server"]
AS_CHOSEN = deploy.Choice(profile=chosen_profile())


@pytest.fixture(scope="session")
def installed(apply: Callable[[Iterable[deploy.Manifest]], None], crds: None) -> None:  # noqa: ARG001 - our kinds first
    """Have all that we ship in the sandbox."""
    apply(deploy.everything(choice=AS_CHOSEN))


@pytest.fixture(scope="session")
def archive() -> Path:
    """The image of this tree: as `make test` has built it, also when that was yesterday, or built now."""
    return build.image(of_today=False) / build.archive_name()


@pytest.fixture(scope="session")
def unpacked(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The root of that image, which is too large to be kept for later."""
    assert os.geteuid() == 0, "an image is unpacked and its root is mounted by root: run these tests as root"
    folder = tmp_path_factory.mktemp("image")
    oci.unpack(archive, folder)
    yield folder
    shutil.rmtree(folder)
