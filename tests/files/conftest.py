"""A folder for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.files.scene import Gateway


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path / "data")
    yield gateway
    gateway.sync.close()
