"""Commits that are pushed to a branch, over real servers: on top of what is there, never by force, nothing else."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs
from tests.git.test_mirrors import read

from syncline.git import (
    AuthenticationFailed,
    Commit,
    FileChange,
    Limits,
    Mirrors,
    PushedCommit,
    PushRejected,
    PushWanted,
    Refused,
    Remote,
    RepositoryNotFound,
    RepositoryUnreachable,
    process,
    remote_from,
)
from syncline.git.process import ProcessLimits
from syncline.git.remotes import Proxy
from syncline.testing.gitserver import GitServer, Repository
from syncline.testing.gitssh import SshServer

BRANCH = "gateway-changes/gw-0"


class Pusher:
    """Pushes the edits of a gateway."""

    def __init__(self, mirrors: Mirrors, remote: Remote, folder: Path) -> None:
        self.mirrors = mirrors
        self.remote = remote
        self.folder = folder
        self.number = 0

    async def push(
        self,
        files: dict[str, str | bytes | None],
        *,
        branch: str = BRANCH,
        revision: str = "main",
        author: str = "gw-0",
    ) -> PushedCommit:
        base = await self.mirrors.resolve(self.remote, revision)
        return await self.push_on(base, files, branch=branch, author=author)

    async def push_on(
        self, base: Commit, files: dict[str, str | bytes | None], *, branch: str = BRANCH, author: str = "gw-0"
    ) -> PushedCommit:
        changes = [FileChange(path, self._content(content)) for path, content in files.items()]
        wanted = PushWanted(
            base=base,
            branch=branch,
            changes=changes,
            author=(author, "gateway@site.invalid"),
            message="Edits\n\nmore\n",
        )
        return await self.mirrors.pushes.push(self.remote, wanted)

    def _content(self, content: str | bytes | None) -> Path | None:
        if content is None:
            return None
        self.number += 1
        place = self.folder / str(self.number)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        return place


@pytest.fixture
def pusher(mirrors: Mirrors, remote: Remote, server: GitServer, name: str, tmp_path: Path) -> Pusher:
    server.pushable.add(name)
    (tmp_path / "contents").mkdir()
    return Pusher(mirrors, remote, tmp_path / "contents")


def files(repository: Repository, ref: str) -> list[str]:
    return repository.git("ls-tree", "-r", "--name-only", ref).split("\n")


async def test_a_new_branch_begins_at_the_synced_commit(
    pusher: Pusher, repository: Repository, left_behind: Callable[[], list[str]]
) -> None:
    before = repository.git("rev-parse", "main")
    pushed = await pusher.push({"apps/a.yaml": "a: 2\n", "apps/new.yaml": "n: 1\n", "apps/b.yaml": None})
    assert pushed.is_new
    assert repository.git("rev-parse", BRANCH) == pushed.commit
    assert repository.git("rev-parse", f"{BRANCH}^") == before == repository.git("rev-parse", "main")
    assert files(repository, BRANCH) == ["apps/a.yaml", "apps/new.yaml", "docs/readme.md"]
    assert repository.git("show", f"{BRANCH}:apps/a.yaml") == "a: 2"
    assert repository.git("log", "-1", "--format=%an <%ae> %cn <%ce> %s", BRANCH) == (
        "gw-0 <gateway@site.invalid> Syncline <syncline@syncline.invalid> Edits"
    )
    repository.git("fsck", "--strict")
    assert left_behind() == []


async def test_the_next_commit_goes_on_top_of_the_branch(pusher: Pusher, repository: Repository) -> None:
    first = await pusher.push({"apps/a.yaml": "a: 2\n"})
    repository.commit({"apps/b.yaml": "b: of a person\n"}, ref=f"refs/heads/{BRANCH}")
    repository.commit({"docs/readme.md": "main goes on\n"})
    second = await pusher.push({"apps/new.yaml": "n: 1\n"})
    assert repository.git("rev-parse", f"{BRANCH}~2") == first.commit
    assert repository.git("rev-parse", BRANCH) == second.commit
    assert repository.git("show", f"{BRANCH}:apps/b.yaml") == "b: of a person"
    assert repository.git("show", f"{BRANCH}:docs/readme.md") == "hello"


async def test_a_cache_that_belongs_to_another_user_is_used(
    pusher: Pusher, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An emptyDir belongs to root. This is git's own switch to take every folder for a folder of somebody else.
    monkeypatch.setitem(process.BASE, "GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    pushed = await pusher.push({"apps/a.yaml": "a: 2\n"})
    assert repository.git("rev-parse", BRANCH) == pushed.commit
    assert len(await read(pusher.mirrors, pusher.remote)) == 3
    repository.commit({"apps/c.yaml": "c: 1\n"})
    await pusher.mirrors.refresh(pusher.remote)
    assert len(await read(pusher.mirrors, pusher.remote)) == 4
    mirror = next(path.parent for path in (tmp_path / "cache").rglob("HEAD"))
    refused = await process.run(["git", "-C", mirror, "log"], ProcessLimits(60, read=(mirror,)))
    assert "dubious ownership" in refused.error, "the switch has no effect, so this test shows nothing"


async def test_what_the_branch_has_already_makes_no_commit(pusher: Pusher, repository: Repository) -> None:
    first = await pusher.push({"apps/a.yaml": "a: 2\n", "apps/gone.yaml": None})
    again = await pusher.push({"apps/a.yaml": "a: 2\n", "apps/gone.yaml": None})
    assert (again.commit, again.is_new) == (first.commit, False)
    assert repository.git("rev-list", "--count", BRANCH) == "2"


async def test_somebody_who_pushes_at_the_same_time_loses_nothing(
    pusher: Pusher, repository: Repository, server: GitServer, name: str
) -> None:
    await pusher.push({"apps/a.yaml": "a: 2\n"})
    server.before_push[name] = lambda: repository.commit({"apps/b.yaml": "b: 9\n"}, ref=f"refs/heads/{BRANCH}") and None
    pushed = await pusher.push({"apps/new.yaml": "n: 1\n"})
    assert repository.git("rev-parse", BRANCH) == pushed.commit
    assert repository.git("show", f"{BRANCH}:apps/b.yaml") == "b: 9"
    assert repository.git("rev-list", "--count", BRANCH) == "4"


async def test_two_gateways_race_for_one_branch_and_both_edits_are_there(
    pusher: Pusher, repository: Repository, tmp_path: Path
) -> None:
    async with Mirrors(tmp_path / "other", allow_loopback=True) as other:
        (tmp_path / "others").mkdir()
        rival = Pusher(other, pusher.remote, tmp_path / "others")
        await asyncio.gather(
            *(pusher.push({f"apps/mine-{number}.yaml": "1\n"}, author="gw-0") for number in range(3)),
            *(rival.push({f"apps/theirs-{number}.yaml": "1\n"}, author="gw-1") for number in range(3)),
        )
    assert repository.git("rev-list", "--count", BRANCH) == "7"
    assert len(files(repository, BRANCH)) == 9


async def test_a_proxy_that_never_answers_does_not_hold_up_the_commits_of_others_to_the_same_url(
    pusher: Pusher, repository: Repository, tmp_path: Path
) -> None:
    base = await pusher.mirrors.resolve(pusher.remote, "main")
    connected, end = asyncio.Event(), asyncio.Event()

    async def say_nothing(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        await end.wait()
        writer.close()

    (tmp_path / "hers").mkdir()
    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as proxy:
        through = Proxy("127.0.0.1", proxy.sockets[0].getsockname()[1])
        mallory = Pusher(pusher.mirrors, structs.replace(pusher.remote, proxy=through), tmp_path / "hers")
        hers = asyncio.create_task(mallory.push_on(base, {"apps/hers.yaml": "1\n"}, author="gw-1"))
        await connected.wait()
        pushed = await pusher.push_on(base, {"apps/a.yaml": "a: 2\n"})
        assert not hers.done()
        assert repository.git("rev-parse", BRANCH) == pushed.commit
        hers.cancel()
        await asyncio.wait([hers])
        end.set()


async def test_the_default_branch_is_never_written(pusher: Pusher, repository: Repository) -> None:
    before = repository.git("rev-parse", "main")
    with pytest.raises(Refused, match="default branch"):
        await pusher.push({"apps/a.yaml": "a: 2\n"}, branch="main")
    assert repository.git("rev-parse", "main") == before


async def test_a_branch_inside_another_is_told(pusher: Pusher, repository: Repository) -> None:
    repository.git("branch", "gateway-changes", "main")
    with pytest.raises(Refused, match="has the branch gateway-changes"):
        await pusher.push({"apps/a.yaml": "a: 2\n"})
    repository.git("branch", "edits/gw-0/old", "main")
    with pytest.raises(Refused, match="has the branch edits/gw-0/old"):
        await pusher.push({"apps/a.yaml": "a: 2\n"}, branch="edits/gw-0")


async def test_a_file_in_the_place_of_a_folder_is_refused(pusher: Pusher) -> None:
    with pytest.raises(Refused, match="folder"):
        await pusher.push({"apps": "a file\n"})
    with pytest.raises(Refused, match="folder"):
        await pusher.push({"docs/readme.md/inside": "x\n"})


async def test_a_server_that_refuses_a_commit_is_quoted(pusher: Pusher, repository: Repository) -> None:
    hook = repository.path / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'this branch is protected' >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(PushRejected, match="protected"):
        await pusher.push({"apps/a.yaml": "a: 2\n"})


async def test_a_server_that_takes_no_push_is_told(pusher: Pusher, server: GitServer, name: str) -> None:
    server.pushable.discard(name)
    with pytest.raises(AuthenticationFailed):
        await pusher.push({"apps/a.yaml": "a: 2\n"})
    server.statuses[name] = 503
    with pytest.raises(RepositoryUnreachable):
        await pusher.push_on(Commit("0" * 40), {"apps/a.yaml": "a: 2\n"})


async def test_a_token_pushes_and_is_nowhere_to_be_seen(
    mirrors: Mirrors, server: GitServer, repository: Repository, name: str, tmp_path: Path
) -> None:
    server.pushable.add(name)
    server.require_basic(name, "x-access-token", "canary-0a1b2c3d4e5f")
    remote = remote_from(server.url(name), "Token", {"token": b"canary-0a1b2c3d4e5f"}, {"ca.crt": server.ca})
    pushed = await Pusher(mirrors, remote, tmp_path).push({"apps/a.yaml": "a: 2\n"})
    assert repository.git("rev-parse", BRANCH) == pushed.commit
    wrong = remote_from(server.url(name), "Token", {"token": b"canary-wrong-1234"}, {"ca.crt": server.ca})
    with pytest.raises(AuthenticationFailed) as failed:
        await Pusher(mirrors, wrong, tmp_path / "cache").push_on(Commit(pushed.commit), {"apps/a.yaml": None})
    assert "canary" not in str(failed.value)


async def test_a_key_pushes_over_ssh(
    mirrors: Mirrors, repository: Repository, ssh: SshServer, name: str, tmp_path: Path
) -> None:
    secret = {"identity": ssh.identity, "known_hosts": ssh.known_hosts}
    remote = remote_from(ssh.url(name), "SSH", secret)
    with pytest.raises(RepositoryNotFound):
        await Pusher(mirrors, remote, tmp_path).push({"apps/a.yaml": "a: 1\n", "apps/x": "1\n"})
    ssh.pushable = True
    try:
        (tmp_path / "more").mkdir()
        pushed = await Pusher(mirrors, remote, tmp_path / "more").push({"apps/a.yaml": "a: 2\n"})
    finally:
        ssh.pushable = False
    assert repository.git("rev-parse", BRANCH) == pushed.commit


async def test_a_file_larger_than_the_small_limits_is_pushed_with_the_large_ones(
    remote: Remote, server: GitServer, repository: Repository, name: str, tmp_path: Path
) -> None:
    server.pushable.add(name)
    limits = Limits(small_fetch_bytes=1024 * 1024)
    content = bytes(range(256)) * 40_000
    async with Mirrors(tmp_path / "cache", allow_loopback=True, limits=limits) as mirrors:
        (tmp_path / "contents").mkdir()
        pushed = await Pusher(mirrors, remote, tmp_path / "contents").push({"apps/large.bin": content})
    assert repository.git("cat-file", "-s", f"{pushed.commit}:apps/large.bin") == str(len(content))


async def test_an_older_commit_than_the_branch_has_sends_little(
    pusher: Pusher, repository: Repository, server: GitServer, name: str
) -> None:
    """The server has the base commit, but no ref points to it."""
    old = repository.git("rev-parse", "main")
    repository.commit({"docs/big.bin": bytes(range(256)) * 4000})
    base = Commit(old)
    pushed = await pusher.push_on(base, {"apps/a.yaml": "a: 2\n"})
    assert repository.git("rev-parse", f"{pushed.commit}^") == old
    assert any(request.is_push for request in server.requests if request.repository == name)
