"""Servers that all tests of this package share, and mirrors of their own for each test."""

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from syncline.git import Mirrors, Remote
from syncline.testing.gitserver import GitServer, Repository
from syncline.testing.gitssh import SshServer

FILES = {"apps/a.yaml": "a: 1\n", "apps/b.yaml": "b: 1\n", "docs/readme.md": "hello\n"}


@pytest.fixture(scope="session")
def server() -> Iterator[GitServer]:
    with GitServer() as running:
        yield running


@pytest.fixture(scope="session")
def ssh(server: GitServer) -> Iterator[SshServer]:
    with SshServer(server.folder) as running:
        yield running


_numbers = itertools.count(1)


@pytest.fixture
def name() -> str:
    """The name of a repository that no other test uses."""
    return f"repository-{next(_numbers)}"


@pytest.fixture
def repository(server: GitServer, name: str) -> Repository:
    repository = server.repository(name)
    repository.commit(FILES)
    return repository


@pytest.fixture
def remote(server: GitServer, repository: Repository, name: str) -> Remote:
    assert repository.path.exists()
    return Remote(server.url(name), ca=server.ca)


@pytest.fixture
async def mirrors(tmp_path: Path) -> AsyncIterator[Mirrors]:
    async with Mirrors(tmp_path / "cache", allow_loopback=True) as opened:
        yield opened


@pytest.fixture
def left_behind(tmp_path: Path) -> Callable[[], list[str]]:
    """What calls of git have left in their private folders."""

    def look() -> list[str]:
        return [str(path) for path in (tmp_path / "cache" / "run").glob("*/*") if path.name != "lock"]

    return look
