"""Tenants who follow the same repository: none makes the others wait, or takes their room on the disk."""

import asyncio
from pathlib import Path

import pytest
from tests.git.test_mirrors import until

from syncline.fairness import on_behalf_of
from syncline.git import Commit, Mirrors, Remote, RevisionNotFound
from syncline.testing.gitserver import GitServer, Repository

NOWHERE = "f" * 40


def of(tenant: str, mirrors: Mirrors, remote: Remote, commit: Commit | str) -> "asyncio.Task[str]":
    """Have the files of a commit, on behalf of a tenant; the task returns the tenant."""

    async def ask() -> str:
        on_behalf_of.set(tenant)
        await mirrors.tree(remote, commit)
        return tenant

    return asyncio.create_task(ask())


def packs_of(folder: Path) -> list[set[str]]:
    """Return the packs of each mirror."""
    return [{pack.name for pack in mirror.rglob("*.pack")} for mirror in folder.rglob("mirrors/*.git")]


async def test_a_commit_that_somebody_makes_up_holds_up_nobody_who_follows_the_same_repository(
    mirrors: Mirrors, remote: Remote, server: GitServer, name: str
) -> None:
    commit = await mirrors.resolve(remote, "main")
    server.hold(name)
    mallory = of("mallory", mirrors, remote, NOWHERE)
    await until(lambda: server.waiting(name) == 1)
    victim = of("victim", mirrors, remote, commit)
    await until(lambda: server.waiting(name) == 2)
    server.release(name)
    assert await victim == "victim"
    with pytest.raises(RevisionNotFound):
        await mallory


async def test_what_is_found_on_the_way_to_a_commit_that_is_made_up_is_not_kept_for_others(
    mirrors: Mirrors, remote: Remote, tmp_path: Path
) -> None:
    await of("victim", mirrors, remote, await mirrors.resolve(remote, "main"))
    (shared,) = packs_of(tmp_path)
    with pytest.raises(RevisionNotFound):
        await of("mallory", mirrors, remote, NOWHERE)
    assert shared in packs_of(tmp_path)


async def test_a_commit_that_is_there_for_all_is_not_fetched_again_for_who_names_it_by_its_id(
    mirrors: Mirrors, remote: Remote, server: GitServer, name: str
) -> None:
    commit = await mirrors.resolve(remote, "main")
    await of("victim", mirrors, remote, commit)
    await of("mallory", mirrors, remote, commit.sha)
    assert server.fetches(name) == 1


async def test_many_branches_of_one_tenant_are_fetched_in_turns_with_those_of_others(
    mirrors: Mirrors, remote: Remote, repository: Repository, server: GitServer, name: str
) -> None:
    for number in range(6):
        repository.commit({f"{number}.yaml": f"a: {number}\n"}, ref=f"refs/heads/branch-{number}")
    commits = [await mirrors.resolve(remote, f"branch-{number}") for number in range(6)]
    wanted = await mirrors.resolve(remote, "main")
    server.hold(name)
    order: list[str] = []
    tasks = [of("mallory", mirrors, remote, commit) for commit in commits]
    await until(lambda: server.waiting(name) == 1)
    tasks.append(of("victim", mirrors, remote, wanted))
    for task in tasks:
        task.add_done_callback(lambda done: order.append(done.result()))
    (mirror,) = mirrors._mirrors.values()
    await until(lambda: {"mallory", "victim"} <= mirror._turn._waiting.keys())
    server.release(name)
    await asyncio.gather(*tasks)
    assert order.index("victim") <= 3
