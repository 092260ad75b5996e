"""The folder with the mirrors: damaged, full, shared, outgrown."""

import asyncio
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.git.test_mirrors import read

from syncline.git import CacheFailure, Limits, Mirrors, Remote, RepositoryUnreachable, TooLarge
from syncline.testing.gitserver import GitServer, Repository

SIZE = 200_000


def noise(seed: int, size: int = SIZE) -> bytes:
    return random.Random(seed).randbytes(size)


def only_mirror(tmp_path: Path) -> Path:
    return next(path for path in (tmp_path / "cache" / "mirrors").iterdir() if path.suffix == ".git")


def truncate_pack(mirror: Path) -> None:
    for pack in mirror.glob("objects/pack/*.pack"):
        pack.chmod(0o600)
        os.truncate(pack, pack.stat().st_size // 2)


def delete_packs(mirror: Path) -> None:
    for file in mirror.glob("objects/pack/*"):
        file.unlink()


def delete_index(mirror: Path) -> None:
    for file in mirror.glob("objects/pack/*.idx"):
        file.unlink()


def garble_head(mirror: Path) -> None:
    (mirror / "HEAD").write_text("garbage")


def garble_settings(mirror: Path) -> None:
    (mirror / "config").write_text("[core\n\tgarbage")


def garble_refs(mirror: Path) -> None:
    for ref in mirror.glob("refs/syncline/*"):
        ref.write_text("0123456789" * 4 + "\n")


def overwrite_pack(mirror: Path) -> None:
    for pack in mirror.glob("objects/pack/*.pack"):
        pack.chmod(0o600)
        content = pack.read_bytes()
        pack.write_bytes(content[:12] + bytes(255 - byte for byte in content[12:]))


def remove_objects(mirror: Path) -> None:
    shutil.rmtree(mirror / "objects")


def remove_all(mirror: Path) -> None:
    shutil.rmtree(mirror)


DAMAGES = [
    *(truncate_pack, delete_packs, delete_index, garble_head, garble_settings, garble_refs, overwrite_pack),
    *(remove_objects, remove_all),
]


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_mirror_is_built_anew(
    tmp_path: Path, remote: Remote, repository: Repository, damage: Callable[[Path], None]
) -> None:
    async with Mirrors(tmp_path / "cache", allow_loopback=True) as mirrors:
        commit = await mirrors.resolve(remote, "main")
        tree = await mirrors.tree(remote, commit)
        damage(only_mirror(tmp_path))
        # What a tree has in memory stands; what it has not comes back.
        assert await tree.read(["apps/a.yaml"]) == {"apps/a.yaml": b"a: 1\n"}
        damage(only_mirror(tmp_path))
        new = repository.commit({"apps/a.yaml": "a: 2\n"})
        await mirrors.refresh(remote)
        assert (await read(mirrors, remote))["apps/a.yaml"] == b"a: 2\n"
        damage(only_mirror(tmp_path))
    async with Mirrors(tmp_path / "cache", allow_loopback=True) as mirrors:
        assert (await read(mirrors, remote, new))["apps/a.yaml"] == b"a: 2\n"


async def test_what_is_left_of_a_damaged_mirror_is_served_while_the_server_is_away(
    tmp_path: Path, remote: Remote, server: GitServer, name: str
) -> None:
    async with Mirrors(tmp_path / "cache", allow_loopback=True) as mirrors:
        tree = await mirrors.tree(remote, await mirrors.resolve(remote, "main"))
        digest = tree.digest("apps")
        delete_packs(only_mirror(tmp_path))
        server.statuses[name] = 503
        with pytest.raises(RepositoryUnreachable):
            await tree.read(["apps/a.yaml"])
        assert (await mirrors.tree(remote, tree.commit)).digest("apps") == digest
        del server.statuses[name]
        assert await tree.read(["apps/a.yaml"]) == {"apps/a.yaml": b"a: 1\n"}


async def test_a_repository_that_is_too_large_is_refused_and_leaves_nothing(
    tmp_path: Path, remote: Remote, repository: Repository
) -> None:
    small = repository.git("rev-parse", "main")
    repository.commit({"noise": noise(1)})
    limits = Limits(repository_bytes=SIZE // 2)
    async with Mirrors(tmp_path / "cache", allow_loopback=True, limits=limits) as mirrors:
        with pytest.raises(TooLarge, match="larger than the 100000 bytes"):
            await read(mirrors, remote)
        assert await read(mirrors, remote, small)
        assert not list(only_mirror(tmp_path).glob("objects/pack/tmp_*"))


async def test_when_the_cache_is_full_what_is_there_is_served_and_the_failure_says_what_to_do(
    tmp_path: Path, remote: Remote, repository: Repository
) -> None:
    repository.commit({"noise": noise(1)})
    limits = Limits(cache_bytes=int(SIZE * 1.5))
    async with Mirrors(tmp_path / "cache", allow_loopback=True, limits=limits) as mirrors:
        mirrors.follow("sync", remote, 3600)
        old = await mirrors.tree(remote, await mirrors.resolve(remote, "main"))
        repository.commit({"noise": noise(2)})
        await mirrors.refresh(remote)
        with pytest.raises(CacheFailure, match="allow them more") as full:
            await read(mirrors, remote)
        assert full.value.transient
        assert (await old.read(["noise"]))["noise"] == noise(1)


async def test_mirrors_that_nobody_follows_make_room_the_oldest_first(
    tmp_path: Path, server: GitServer, name: str
) -> None:
    remotes = []
    for number in range(3):
        server.repository(f"{name}-{number}").commit({"noise": noise(number)})
        remotes.append(Remote(server.url(f"{name}-{number}"), ca=server.ca))
    limits = Limits(cache_bytes=int(SIZE * 2.5))
    async with Mirrors(tmp_path / "cache", allow_loopback=True, limits=limits) as mirrors:
        mirrors.follow("sync", remotes[0], 3600)
        for remote in remotes:
            assert await read(mirrors, remote)
        fetched = [server.fetches(f"{name}-{number}") for number in range(3)]
        assert len(list((tmp_path / "cache" / "mirrors").iterdir())) == 2
        # The first is followed, so the second had to go; it comes back when it is wanted.
        tree = await mirrors.tree(remotes[1], await mirrors.resolve(remotes[1], "main"))
        assert await tree.read(["noise"]) == {"noise": noise(1)}
        again = [server.fetches(f"{name}-{number}") for number in range(3)]
        assert again[1] > fetched[1]
        assert (again[0], again[2]) == (fetched[0], fetched[2])


async def test_a_mirror_that_nobody_has_used_for_a_day_goes(
    tmp_path: Path, remote: Remote, repository: Repository, server: GitServer, name: str
) -> None:
    server.repository(f"{name}-old").commit({"a": "x"})
    async with Mirrors(tmp_path / "cache", allow_loopback=True) as mirrors:
        await read(mirrors, Remote(server.url(f"{name}-old"), ca=server.ca))
    for lock in (tmp_path / "cache" / "locks").iterdir():
        os.utime(lock, (0, 0))
    async with Mirrors(tmp_path / "cache", allow_loopback=True) as mirrors:
        assert repository.path.exists()
        await read(mirrors, remote)
    assert len(list((tmp_path / "cache" / "mirrors").iterdir())) == 1


async def test_what_a_killed_fetch_has_left_is_no_hindrance(
    tmp_path: Path, remote: Remote, repository: Repository
) -> None:
    async with Mirrors(tmp_path / "cache", allow_loopback=True) as mirrors:
        await read(mirrors, remote)
        mirror = only_mirror(tmp_path)
        (mirror / "shallow.lock").touch()
        (mirror / "objects" / "pack" / "tmp_pack_x").write_bytes(b"x")
        repository.commit({"more": "x"})
        await mirrors.refresh(remote)
        assert "more" in await read(mirrors, remote)
        assert not list(mirror.glob("objects/pack/tmp_*"))


async def test_two_commits_of_a_damaged_mirror_are_both_read_again(
    tmp_path: Path, remote: Remote, repository: Repository
) -> None:
    async with Mirrors(tmp_path / "cache", allow_loopback=True) as mirrors:
        old = await mirrors.tree(remote, await mirrors.resolve(remote, "main"))
        repository.commit({"apps/a.yaml": "a: 2\n"})
        await mirrors.refresh(remote)
        new = await mirrors.tree(remote, await mirrors.resolve(remote, "main"))
        delete_packs(only_mirror(tmp_path))
        contents = await asyncio.gather(old.read(["apps/a.yaml"]), new.read(["apps/a.yaml"]))
        assert [content["apps/a.yaml"] for content in contents] == [b"a: 1\n", b"a: 2\n"]


async def test_two_processes_on_one_folder_fetch_once_and_read_both(
    tmp_path: Path, remote: Remote, server: GitServer, name: str
) -> None:
    async with (
        Mirrors(tmp_path / "cache", allow_loopback=True) as one,
        Mirrors(tmp_path / "cache", allow_loopback=True) as two,
    ):
        assert await asyncio.gather(read(one, remote), read(two, remote)) == [await read(one, remote)] * 2
        assert server.fetches(name) == 1
        assert len(list((tmp_path / "cache" / "run").iterdir())) == 2


async def test_what_a_process_that_died_has_left_is_removed_and_of_a_living_one_nothing(tmp_path: Path) -> None:
    dead = tmp_path / "cache" / "run" / "dead" / "call"
    dead.mkdir(parents=True)
    (dead / "identity").write_text("a key")
    async with Mirrors(tmp_path / "cache") as first:
        async with Mirrors(tmp_path / "cache"):
            assert not dead.exists()
            assert len(list((tmp_path / "cache" / "run").iterdir())) == 2
        assert first


async def test_many_fetches_are_packed_and_old_commits_let_go(
    tmp_path: Path, remote: Remote, repository: Repository
) -> None:
    limits = Limits(packs=3, commits=2)
    async with Mirrors(tmp_path / "cache", allow_loopback=True, limits=limits) as mirrors:
        for number in range(6):
            repository.commit({"apps/a.yaml": f"a: {number}\n"})
            await mirrors.refresh(remote)
            assert (await read(mirrors, remote))["apps/a.yaml"] == f"a: {number}\n".encode()
        packs = list(only_mirror(tmp_path).glob("objects/pack/*.pack"))
        assert len(packs) <= 4


async def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CacheFailure, match="cannot be used"):
        Mirrors(tmp_path / "file" / "cache")
