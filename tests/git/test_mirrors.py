"""Repositories as they are followed, fetched and read."""

import asyncio
from collections.abc import Callable, Hashable
from pathlib import Path

import pytest
from msgspec.structs import replace

from syncline.git import Commit, Mirrors, PathNotFound, Remote, RepositoryUnreachable, RevisionNotFound
from syncline.git.remotes import Basic
from syncline.testing.gitserver import GitServer, Repository


async def until(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(180):
        while not check():  # noqa: ASYNC110 - what is waited for happens elsewhere
            await asyncio.sleep(0.01)


async def read(mirrors: Mirrors, remote: Remote, revision: str = "main") -> dict[str, bytes]:
    tree = await mirrors.tree(remote, await mirrors.resolve(remote, revision))
    return await tree.read(entry.path for entry in tree.entries)


async def test_a_branch_is_resolved_fetched_and_read(
    mirrors: Mirrors, remote: Remote, repository: Repository, server: GitServer, name: str
) -> None:
    commit = await mirrors.resolve(remote, "main")
    assert commit == Commit(repository.git("rev-parse", "main"), "refs/heads/main")
    tree = await mirrors.tree(remote, commit)
    assert [entry.path for entry in tree.find("apps")] == ["apps/a.yaml", "apps/b.yaml"]
    assert await tree.read(["apps/a.yaml", "docs/readme.md"]) == {
        "apps/a.yaml": b"a: 1\n",
        "docs/readme.md": b"hello\n",
    }
    assert tree.digest("apps") == repository.git("rev-parse", "main:apps")
    assert (server.checks(name), server.fetches(name)) == (1, 1)


async def test_what_calls_of_git_need_on_disk_is_gone_after_them(
    mirrors: Mirrors, remote: Remote, left_behind: Callable[[], list[str]]
) -> None:
    await read(mirrors, remote)
    assert left_behind() == []


async def test_a_push_costs_one_check_and_one_fetch_of_what_is_new(
    mirrors: Mirrors, remote: Remote, repository: Repository, server: GitServer, name: str
) -> None:
    before = await mirrors.tree(remote, await mirrors.resolve(remote, "main"))
    repository.commit({"apps/a.yaml": "a: 2\n"})
    await mirrors.refresh(remote)
    after = await mirrors.tree(remote, await mirrors.resolve(remote, "main"))
    assert (await after.read(["apps/a.yaml"]))["apps/a.yaml"] == b"a: 2\n"
    assert before.digest("apps") != after.digest("apps")
    assert before.digest("docs") == after.digest("docs")
    assert before.digest("apps/b.yaml") == after.digest("apps/b.yaml") != ""
    assert (server.checks(name), server.fetches(name)) == (2, 2)
    # What was read before can still be.
    assert (await before.read(["apps/a.yaml"]))["apps/a.yaml"] == b"a: 1\n"


async def test_many_who_want_a_commit_at_once_cost_one_check_one_fetch_and_one_tree(
    mirrors: Mirrors, remote: Remote, server: GitServer, name: str
) -> None:
    async def sync() -> object:
        return await mirrors.tree(remote, await mirrors.resolve(remote, "main"))

    trees = await asyncio.gather(*(sync() for _ in range(100)))
    assert len(set(map(id, trees))) == 1
    assert (server.checks(name), server.fetches(name)) == (1, 1)


async def test_who_gives_up_waiting_does_not_end_the_fetch_of_others(
    mirrors: Mirrors, remote: Remote, server: GitServer, name: str
) -> None:
    commit = await mirrors.resolve(remote, "main")
    server.hold(name)
    first, second = (asyncio.create_task(mirrors.tree(remote, commit)) for _ in range(2))
    await until(lambda: server.waiting(name) == 1)
    first.cancel()
    await asyncio.wait([first])
    server.release(name)
    assert (await second).commit == commit
    assert server.fetches(name) == 1


async def test_fifty_followers_cost_one_check_an_interval_and_hear_of_what_concerns_them(
    tmp_path: Path, remote: Remote, repository: Repository, server: GitServer, name: str
) -> None:
    told: list[Hashable] = []
    async with Mirrors(tmp_path / "cache", allow_loopback=True, on_change=told.append) as mirrors:
        for number in range(50):
            mirrors.follow(number, remote, 0.2 if number == 0 else 3600, ["main"] if number % 2 else ["other"])
        mirrors.follow("any", remote, 3600)
        await mirrors.resolve(remote, "main")
        assert server.checks(name) == 1
        repository.commit({"new": "x"}, ref="refs/heads/elsewhere")
        await until(lambda: told == ["any"])
        repository.commit({"apps/a.yaml": "a: 3\n"})
        await until(lambda: len(told) == 27)
        assert set(told[1:]) == {"any", *range(1, 50, 2)}
        checks = server.checks(name)
        await until(lambda: server.checks(name) >= checks + 3)
        assert len(told) == 27
        for number in range(50):
            mirrors.unfollow(number)
        mirrors.follow("any", remote, 3600)
        checks = server.checks(name)
        assert (await mirrors.resolve(remote, "main")).sha == repository.git("rev-parse", "main")
        assert server.checks(name) == checks


async def test_followers_hear_when_a_remote_fails_and_when_it_answers_again(
    tmp_path: Path, remote: Remote, server: GitServer, name: str
) -> None:
    told: list[Hashable] = []
    async with Mirrors(tmp_path / "cache", allow_loopback=True, on_change=told.append) as mirrors:
        mirrors.follow("sync", remote, 0.1)
        tree = await mirrors.tree(remote, await mirrors.resolve(remote, "main"))
        assert mirrors.status(remote).failure is None
        server.statuses[name] = 503
        await until(lambda: told == ["sync"])
        with pytest.raises(RepositoryUnreachable, match="cannot answer now"):
            await mirrors.resolve(remote, "main")
        status = mirrors.status(remote)
        assert isinstance(status.failure, RepositoryUnreachable)
        assert status.failure.transient
        assert status.checked is not None
        # The last good state is still there, and a commit that is named needs no server.
        assert await mirrors.tree(remote, await mirrors.resolve(remote, tree.commit.sha)) is tree
        assert (await tree.read(["apps/a.yaml"])) == {"apps/a.yaml": b"a: 1\n"}
        del server.statuses[name]
        await until(lambda: told == ["sync", "sync"])
        assert (await mirrors.resolve(remote, "main")) == tree.commit


async def test_a_dead_remote_is_not_asked_by_each_who_wants_it(
    mirrors: Mirrors, remote: Remote, server: GitServer, name: str
) -> None:
    server.statuses[name] = 500
    for _ in range(20):
        with pytest.raises(RepositoryUnreachable):
            await mirrors.resolve(remote, "main")
    assert sum(asked.repository == name for asked in server.requests) == 1
    del server.statuses[name]


async def test_a_push_during_a_check_is_seen_by_the_next(
    mirrors: Mirrors, remote: Remote, repository: Repository, server: GitServer, name: str
) -> None:
    server.hold(name)
    early = asyncio.create_task(mirrors.resolve(remote, "main"))
    await until(lambda: server.waiting(name) == 1)
    late = [asyncio.create_task(mirrors.refresh(remote)) for _ in range(5)]
    await asyncio.sleep(0)
    new = repository.commit({"apps/a.yaml": "a: 4\n"})
    server.release(name)
    await asyncio.gather(early, *late)
    assert (await mirrors.resolve(remote, "main")).sha == new
    assert server.checks(name) == 2


async def test_a_forced_push_is_followed(mirrors: Mirrors, remote: Remote, repository: Repository) -> None:
    assert len(await read(mirrors, remote)) == 3
    repository.commit({"other": "x"}, anew=True)
    await mirrors.refresh(remote)
    assert await read(mirrors, remote) == {"other": b"x"}


async def test_a_deleted_branch_is_named_and_what_was_there_stays(
    mirrors: Mirrors, remote: Remote, repository: Repository
) -> None:
    old = await mirrors.tree(remote, await mirrors.resolve(remote, "main"))
    repository.git("branch", "trunk", "main")
    repository.git("symbolic-ref", "HEAD", "refs/heads/trunk")
    repository.delete("refs/heads/main")
    await mirrors.refresh(remote)
    with pytest.raises(RevisionNotFound, match="no branch or tag 'main'; its branches are trunk"):
        await mirrors.resolve(remote, "main")
    assert (await mirrors.resolve(remote, "HEAD")).ref == "refs/heads/trunk"
    assert await mirrors.tree(remote, old.commit) is old


async def test_tags_move_and_go(mirrors: Mirrors, remote: Remote, repository: Repository) -> None:
    first = repository.git("rev-parse", "main")
    repository.tag("v1.0.0", first)
    assert (await mirrors.resolve(remote, "^1")).sha == first
    second = repository.commit({"apps/a.yaml": "a: 5\n"})
    annotation = repository.tag("v1.0.0", second, annotated=True)
    repository.tag("v1.1.0-rc.1", second)
    await mirrors.refresh(remote)
    commit = await mirrors.resolve(remote, "^1")
    assert commit == Commit(second, "refs/tags/v1.0.0", annotation)
    assert (await mirrors.tree(remote, commit)).commit.sha == second
    repository.git("tag", "-d", "v1.0.0")
    await mirrors.refresh(remote)
    with pytest.raises(RevisionNotFound, match="no tag has a version"):
        await mirrors.resolve(remote, "^1")


async def test_any_ref_can_be_followed(mirrors: Mirrors, remote: Remote, repository: Repository) -> None:
    assert (await mirrors.resolve(remote, "main")).sha
    pull = repository.commit({"pull": "1"}, ref="refs/pull/1/head")
    assert (await mirrors.resolve(remote, "refs/pull/1/head")) == Commit(pull, "refs/pull/1/head")
    assert await read(mirrors, remote, "refs/pull/1/head") == {"pull": b"1"}


async def test_a_commit_that_no_ref_points_to_is_fetched_by_its_id(
    mirrors: Mirrors, remote: Remote, repository: Repository, server: GitServer, name: str
) -> None:
    old = repository.git("rev-parse", "main")
    repository.commit({"apps/a.yaml": "a: 6\n"})
    assert (await read(mirrors, remote, old))["apps/a.yaml"] == b"a: 1\n"
    assert server.checks(name) == 0


async def test_an_old_server_gives_what_its_tags_point_to(
    mirrors: Mirrors, remote: Remote, repository: Repository, server: GitServer, name: str
) -> None:
    server.old_protocol.add(name)
    repository.tag("v1", repository.commit({"tagged": "x"}, ref="refs/heads/gone"), annotated=True)
    repository.delete("refs/heads/gone")
    assert await read(mirrors, remote, "v1") == {"tagged": b"x"}


async def test_where_a_server_gives_no_commit_by_its_id_the_history_is_searched(
    mirrors: Mirrors, remote: Remote, repository: Repository, server: GitServer, name: str
) -> None:
    server.old_protocol.add(name)
    assert len(await read(mirrors, remote)) == 3
    old = repository.git("rev-parse", "main")
    for number in range(3):
        repository.commit({"apps/a.yaml": f"a: {number}\n"})
    assert (await read(mirrors, remote, old))["apps/a.yaml"] == b"a: 1\n"
    with pytest.raises(RevisionNotFound, match="not among the last"):
        await mirrors.tree(remote, "0123456789" * 4)


async def test_a_commit_that_does_not_exist_is_not_found(mirrors: Mirrors, remote: Remote) -> None:
    with pytest.raises(RevisionNotFound):
        await mirrors.tree(remote, "0123456789" * 4)


async def test_an_empty_repository_says_so_until_something_is_pushed(
    mirrors: Mirrors, server: GitServer, name: str
) -> None:
    repository = server.repository(name)
    remote = Remote(server.url(name), ca=server.ca)
    with pytest.raises(RevisionNotFound, match="empty"):
        await mirrors.resolve(remote, "main")
    repository.commit({"first": "x"})
    await mirrors.refresh(remote)
    assert await read(mirrors, remote) == {"first": b"x"}


async def test_repositories_with_longer_ids_are_read(mirrors: Mirrors, server: GitServer, name: str) -> None:
    repository = server.repository(name, object_format="sha256")
    repository.commit({"a": "x"})
    assert await read(mirrors, Remote(server.url(name), ca=server.ca)) == {"a": b"x"}


async def test_a_tree_is_read_again_after_a_restart_without_a_fetch(
    tmp_path: Path, remote: Remote, server: GitServer, name: str
) -> None:
    async with Mirrors(tmp_path / "cache", allow_loopback=True) as mirrors:
        commit = await mirrors.resolve(remote, "main")
        await mirrors.tree(remote, commit)
    async with Mirrors(tmp_path / "cache", allow_loopback=True) as mirrors:
        tree = await mirrors.tree(remote, commit)
        assert await tree.read(["apps/b.yaml"]) == {"apps/b.yaml": b"b: 1\n"}
    assert server.fetches(name) == 1
    with pytest.raises(PathNotFound):
        tree.find("nothing")


async def test_another_credential_has_a_mirror_of_its_own(mirrors: Mirrors, remote: Remote, tmp_path: Path) -> None:
    other = replace(remote, credential=Basic("somebody", "else"))
    await asyncio.gather(read(mirrors, remote), read(mirrors, other))
    assert len(list((tmp_path / "cache" / "mirrors").iterdir())) == 2
