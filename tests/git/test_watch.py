"""One remote, followed for everybody."""

import asyncio
from collections.abc import AsyncIterator, Hashable

import pytest
from tests.git.test_mirrors import until

from syncline.git import AuthenticationFailed, RepositoryUnreachable, RevisionNotFound
from syncline.git.refs import Refs
from syncline.git.watch import RemoteWatch

A, B = "a" * 40, "b" * 40


class Host:
    """What a server has, or why it does not say so."""

    def __init__(self) -> None:
        self.refs = {"refs/heads/main": A}
        self.failure: Exception | None = None
        self.asked: list[bool] = []
        self.told: list[Hashable] = []
        self.answers = asyncio.Event()
        self.answers.set()
        self.watch = RemoteWatch(self.look, self.told.append)

    async def look(self, everything: bool) -> Refs:
        self.asked.append(everything)
        await self.answers.wait()
        if self.failure is not None:
            raise self.failure
        return Refs(dict(self.refs))

    async def refresh(self) -> None:
        await self.watch.check(asyncio.get_running_loop().time())


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    host = Host()
    yield host
    await host.watch.close()


async def test_while_a_check_is_under_way_the_last_one_is_good_enough(host: Host) -> None:
    host.watch.follow("sync", 3600, ["main"])
    assert (await host.watch.resolve("main")).sha == A
    host.answers.clear()
    waiting = asyncio.create_task(host.refresh())
    await until(lambda: len(host.asked) == 2)
    assert (await host.watch.resolve("main")).sha == A
    host.refs["refs/heads/main"] = B
    host.answers.set()
    await waiting
    assert (await host.watch.resolve("main")).sha == B


async def test_another_failure_is_told_and_the_same_one_is_not(host: Host) -> None:
    host.watch.follow("sync", 3600, ["main"])
    await host.watch.resolve("main")
    for failure, told in (
        (RepositoryUnreachable("x"), 1),
        (RepositoryUnreachable("y"), 1),
        (AuthenticationFailed("z"), 2),
        (None, 3),
    ):
        host.failure = failure
        await host.refresh()
        assert len(host.told) == told


async def test_a_mistake_of_ours_is_a_failure_that_passes_and_never_an_empty_repository(host: Host) -> None:
    host.failure = ZeroDivisionError("secret")
    with pytest.raises(RepositoryUnreachable, match="ZeroDivisionError") as failed:
        await host.watch.resolve("main")
    assert "secret" not in str(failed.value)
    host.failure = None
    await host.refresh()
    assert (await host.watch.resolve("main")).sha == A


async def test_all_refs_are_asked_for_once_somebody_needs_them(host: Host) -> None:
    await host.watch.resolve("main")
    for _ in range(3):
        with pytest.raises(RevisionNotFound):
            await host.watch.resolve("HEAD")
    await host.watch.resolve("main")
    assert host.asked == [False, True]


async def test_a_follower_is_told_when_its_branch_comes_and_goes(host: Host) -> None:
    host.watch.follow("main", 3600, ["main"])
    host.watch.follow("later", 3600, ["later"])
    host.watch.follow("newest", 3600, [">=1"])
    await host.watch.resolve("main")
    for refs, told in (
        ({"refs/heads/main": A, "refs/heads/later": A}, ["later"]),
        ({"refs/heads/main": A}, ["later"]),
        ({"refs/heads/main": A, "refs/tags/v1.0.0": A}, ["newest"]),
        ({"refs/heads/main": B, "refs/tags/v1.0.0": A, "refs/tags/v1.1.0": A}, ["main", "newest"]),
        ({}, ["main", "newest"]),
    ):
        host.refs = refs
        host.told.clear()
        await host.refresh()
        assert host.told == told


async def test_a_shorter_interval_counts_at_once_and_a_longer_one_when_it_is_the_shortest(host: Host) -> None:
    host.watch.follow("slow", 3600, ["main"])
    await until(lambda: len(host.asked) == 1)
    host.watch.follow("fast", 0.01, ["main"])
    await until(lambda: len(host.asked) > 3)
    host.watch.unfollow("fast")
    await host.refresh()
    asked = len(host.asked)
    assert (await host.watch.resolve("main")).sha == A
    assert len(host.asked) == asked
    host.watch.unfollow("slow")
    assert host.watch.is_idle


async def test_who_gives_up_waiting_does_not_end_the_check_of_others(host: Host) -> None:
    host.answers.clear()
    first, second = (asyncio.create_task(host.watch.resolve("main")) for _ in range(2))
    await until(lambda: len(host.asked) == 1)
    first.cancel()
    host.answers.set()
    assert (await second).sha == A
    assert host.asked == [False]


async def test_a_range_in_a_long_list_of_versions_lets_all_others_go_on(host: Host) -> None:
    host.refs = {f"refs/tags/v1.{number}.0": A for number in range(20_000)}
    wanted = " || ".join(f"2.{number}.x" for number in range(20))
    await host.refresh()
    others = 0
    search = asyncio.create_task(host.watch.resolve(wanted))
    while not search.done():
        others += 1
        await asyncio.sleep(0)
    with pytest.raises(RevisionNotFound):
        await search
    assert others > 10
    host.watch.follow("a range", 3600, [wanted])
    host.watch.follow("a version", 3600, ["^1"])
    await host.watch.resolve("^1")
    host.refs["refs/tags/v1.20000.0"] = B
    await host.refresh()
    assert host.told == ["a version"]
