"""Repositories that a gateway must not get as they are: too large, too many files, and names that lead elsewhere."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ignitionsync.agents import ClusterAgent
from tests.ignitionsync.world import PROJECT, IgnitionSync, PlantWorld, Pod

from syncline.core.gateway_plan import MAX_BLOB_BYTES, MAX_PLAN_FILES
from syncline.testing.operator import OperatorProcess

GIGABYTE = 1024**3
MEMORY = 300 * 1024**2
"""By how many bytes the operator may grow."""


class Served:
    """A gateway that has the first commit, and its sync."""

    def __init__(self, world: PlantWorld, folder: Path) -> None:
        self.world = world
        self.first = world.push(PROJECT)
        self.sync: IgnitionSync = world.isync(apply={"type": "None"}, gateway={})
        self.pod: Pod = world.pod()
        self.agent = ClusterAgent(folder / "gateway", self.pod)

    def until_refused(self, commit: str, reason: str) -> str:
        """Wait until the commit is refused, and the gateway keeps what it has; return what the status says."""
        self.sync.now()
        self.sync.at(commit)
        told = self.sync.gateway_at("gw-0", "Error", reason=reason)
        assert self.agent.files() == PROJECT
        self.sync.condition("Ready", status="False", reason="SyncFailed")
        return str(told["message"])

    def commit(self, tree: str) -> str:
        """Have `main` be a commit with a tree."""
        git = self.world.repository.git
        who = {"user.name": "Author", "user.email": "author@example.com"}
        commit = git("commit-tree", tree, "-p", self.first, "-m", "bad", settings=who)
        git("update-ref", "refs/heads/main", commit)
        return commit

    def until_mended(self) -> None:
        """Wait until the next commit, without what was refused, reaches the gateway."""
        self.world.repository.git("update-ref", "refs/heads/main", self.first)
        commit = self.world.push({"projects/Plant/views/main.json": '{"a": "mended"}'})
        self.sync.now()
        self.sync.gateway_at("gw-0", "Synced", syncedCommit=commit)
        assert self.agent.files()["projects/Plant/views/main.json"] == '{"a": "mended"}'


@pytest.fixture
def served(world: PlantWorld, tmp_path: Path) -> Iterator[Served]:
    """A gateway in sync, with a running agent."""
    served = Served(world, tmp_path)
    served.agent.start()
    served.sync.gateway_at("gw-0", "Synced", syncedCommit=served.first)
    yield served
    served.agent.kill()


def resident(operator: OperatorProcess) -> int:
    """Return the memory of the operator, in bytes."""
    lines = Path(f"/proc/{operator.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024


def folder(world: PlantWorld, *entries: str, name: str = "projects") -> str:
    """Write a tree with one folder that has these entries; return its id."""
    git = world.repository.git
    inner = git("mktree", given="".join(f"{entry}\n" for entry in entries).encode())
    return git("mktree", given=f"040000 tree {inner}\t{name}\n".encode())


def test_a_file_of_a_gigabyte_is_refused_and_the_operator_stays_small(
    served: Served, operator: OperatorProcess, tmp_path: Path
) -> None:
    before = resident(operator)
    with (tmp_path / "video.bin").open("wb") as sparse:
        sparse.truncate(GIGABYTE)
    cheap = {"core.compression": "1", "core.bigFileThreshold": "1m"}
    blob = served.world.repository.git("hash-object", "-w", str(tmp_path / "video.bin"), settings=cheap)
    told = served.until_refused(served.commit(folder(served.world, f"100644 blob {blob}\tvideo.bin")), "FileTooLarge")
    assert "video.bin" in told
    assert str(MAX_BLOB_BYTES) in told
    assert resident(operator) - before < MEMORY
    served.until_mended()


def test_a_hundred_thousand_files_are_refused_and_the_operator_stays_small(
    served: Served, operator: OperatorProcess
) -> None:
    before = resident(operator)
    blob = served.world.repository.git("hash-object", "-w", "--stdin", given=b"{}")
    many = [f"100644 blob {blob}\t{number:06}.json" for number in range(2 * MAX_PLAN_FILES)]
    served.commit(folder(served.world, *many))
    served.sync.now()
    served.sync.condition("RefResolved", status="False", reason="TooLarge")
    assert served.agent.files() == PROJECT
    served.sync.condition("AllGatewaysSynced", status="True")
    # Without the last file, the commit with its folder is within the limits of Git, and not within those of a gateway.
    told = served.until_refused(served.commit(folder(served.world, *many[:-1])), "TooManyFiles")
    assert str(MAX_PLAN_FILES) in told
    assert resident(operator) - before < MEMORY
    served.until_mended()


def test_a_name_that_leads_elsewhere_is_refused_and_named(served: Served) -> None:
    blob = served.world.repository.git("hash-object", "-w", "--stdin", given=b"/etc/passwd")
    for name, reason in (("back\\slash", "InvalidFileName"), ("bell\x07", "InvalidFileName"), ("link", "Symlink")):
        mode = "120000" if name == "link" else "100644"
        told = served.until_refused(served.commit(folder(served.world, f"{mode} blob {blob}\t{name}")), reason)
        assert repr(name)[1:-1] in told
    clash = [f"100644 blob {blob}\t{name}" for name in ("Main.json", "main.json")]
    served.until_refused(served.commit(folder(served.world, *clash)), "CaseClash")
    served.until_mended()
