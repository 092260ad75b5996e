"""How much a tenant may keep on disk, and that it is nobody else's trouble."""

import asyncio
from pathlib import Path

import pytest
from tests.git.test_cache import SIZE, noise, only_mirror
from tests.git.test_mirrors import read

from syncline.fairness import on_behalf_of
from syncline.git import MirrorOverQuota, Mirrors, Remote
from syncline.git.mirror_store import size
from syncline.testing.gitserver import GitServer, Repository

ROOM = 50_000


async def read_for(tenant: str, mirrors: Mirrors, remote: Remote) -> dict[str, bytes]:
    on_behalf_of.set(tenant)
    return await read(mirrors, remote)


async def test_what_a_tenant_may_not_keep_is_not_kept(tmp_path: Path, remote: Remote, repository: Repository) -> None:
    repository.commit({"noise": noise(1)})
    async with Mirrors(tmp_path / "cache", allow_loopback=True) as mirrors:
        mirrors.limit(lambda _: SIZE // 2)
        mirrors.follow("sync", remote, 3600, tenant="a")
        with pytest.raises(MirrorOverQuota):
            await read_for("a", mirrors, remote)
        assert size(only_mirror(tmp_path)) < SIZE // 2
        mirrors.limit(lambda _: SIZE + ROOM)
        assert (await read_for("a", mirrors, remote))["noise"] == noise(1)


async def test_a_tenant_that_is_over_its_quota_holds_up_nobody_who_wants_the_same(
    tmp_path: Path, remote: Remote, repository: Repository
) -> None:
    repository.commit({"noise": noise(1)})
    async with Mirrors(tmp_path / "cache", allow_loopback=True) as mirrors:
        mirrors.limit(lambda tenant: SIZE // 2 if tenant == "poor" else None)
        for tenant in ("poor", "rich"):
            mirrors.follow(tenant, remote, 3600, tenant=tenant)
        await mirrors.resolve(remote, "main")
        poor, rich = await asyncio.gather(
            *(asyncio.create_task(read_for(tenant, mirrors, remote)) for tenant in ("poor", "rich")),
            return_exceptions=True,
        )
        assert isinstance(poor, MirrorOverQuota)
        assert isinstance(rich, dict)
        assert rich["noise"] == noise(1)
        # Now it is there, and costs the other nothing.
        assert (await read_for("poor", mirrors, remote))["noise"] == noise(1)


async def test_nobody_pays_for_what_came_for_others(
    tmp_path: Path, remote: Remote, repository: Repository, server: GitServer, name: str
) -> None:
    repository.commit({"noise": noise(1)})
    server.repository(f"{name}-own").commit({"noise": noise(2)})
    own = Remote(server.url(f"{name}-own"), ca=server.ca)
    async with Mirrors(tmp_path / "cache", allow_loopback=True) as mirrors:
        mirrors.limit(lambda _: SIZE + ROOM)
        for tenant in ("attacker", "victim"):
            mirrors.follow(tenant, remote, 3600, tenant=tenant)
        await asyncio.create_task(read_for("attacker", mirrors, remote))
        await asyncio.create_task(read_for("victim", mirrors, remote))
        mirrors.follow("victim-too", own, 3600, tenant="victim")
        assert (await read_for("victim", mirrors, own))["noise"] == noise(2)


async def test_old_commits_make_room_for_the_new_one(tmp_path: Path, remote: Remote, repository: Repository) -> None:
    async with Mirrors(tmp_path / "cache", allow_loopback=True) as mirrors:
        mirrors.limit(lambda _: SIZE + ROOM)
        mirrors.follow("sync", remote, 3600, tenant="a")
        for number in (1, 2):
            repository.commit({"noise": noise(number)})
            await mirrors.refresh(remote)
            assert (await read_for("a", mirrors, remote))["noise"] == noise(number)
        assert size(only_mirror(tmp_path)) < SIZE + ROOM


async def test_what_a_tenant_no_longer_follows_counts_no_more(
    tmp_path: Path, remote: Remote, repository: Repository, server: GitServer, name: str
) -> None:
    repository.commit({"noise": noise(1)})
    server.repository(f"{name}-next").commit({"noise": noise(2)})
    following = Remote(server.url(f"{name}-next"), ca=server.ca)
    async with Mirrors(tmp_path / "cache", allow_loopback=True) as mirrors:
        mirrors.limit(lambda _: SIZE + ROOM)
        mirrors.follow("sync", remote, 3600, tenant="a")
        await read_for("a", mirrors, remote)
        mirrors.follow("second", following, 3600, tenant="a")
        with pytest.raises(MirrorOverQuota):
            await read_for("a", mirrors, following)
        mirrors.unfollow("sync")
        assert (await read_for("a", mirrors, following))["noise"] == noise(2)
