"""What servers, repositories and names may try, and what comes of it."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.git.test_mirrors import read

from syncline.git import (
    AuthenticationFailed,
    Limits,
    Mirrors,
    Refused,
    Remote,
    RepositoryNotFound,
    RepositoryUnreachable,
    RevisionNotFound,
    TooLarge,
    remote_from,
)
from syncline.git.remotes import Basic
from syncline.testing.gitserver import GitServer, Repository
from syncline.testing.gitssh import SshServer

CANARY = "canary-e5d4c3b2a1"


async def test_a_redirect_within_the_same_server_is_followed(
    mirrors: Mirrors, remote: Remote, repository: Repository, server: GitServer, name: str
) -> None:
    moved = Remote(server.url(f"old-{name}"), ca=server.ca)
    server.redirects[f"/old-{name}.git"] = f"/{name}.git"
    assert await read(mirrors, moved) == await read(mirrors, remote)
    new = repository.commit({"more": "x"})
    await mirrors.refresh(moved)
    assert (await mirrors.resolve(moved, "main")).sha == new


async def test_a_redirect_that_no_longer_holds_is_forgotten(
    mirrors: Mirrors, repository: Repository, server: GitServer, name: str
) -> None:
    moved = Remote(server.url(f"old-{name}"), ca=server.ca)
    server.redirects[f"/old-{name}.git"] = f"/{name}.git"
    assert await read(mirrors, moved)
    del server.redirects[f"/old-{name}.git"]
    repository.path.rename(repository.path.with_name(f"old-{name}.git"))
    await mirrors.refresh(moved)
    assert mirrors.status(moved).failure is None


async def test_a_redirect_to_another_server_is_refused_and_tells_it_nothing(
    mirrors: Mirrors, server: GitServer, name: str
) -> None:
    server.require_basic(name, "somebody", CANARY)
    with GitServer() as other:
        other.repository(name).commit({"a": "x"})
        server.redirects[f"/{name}.git"] = other.url(name)
        remote = Remote(server.url(name), Basic("somebody", CANARY), ca=server.ca)
        with pytest.raises(Refused, match=r"redirects to .* write it as the repository's URL") as refused:
            await read(mirrors, remote)
        assert other.requests == []
    assert CANARY not in str(refused.value)


@pytest.mark.parametrize(
    "target", ["http://169.254.169.254/", "file:///etc/passwd", "https://user:pass@example.com/a.git", "ext::sh"]
)
async def test_a_redirect_to_anything_else_is_refused(
    mirrors: Mirrors, server: GitServer, name: str, target: str
) -> None:
    server.redirects[f"/{name}.git"] = target
    with pytest.raises(Refused, match="redirects to") as refused:
        await read(mirrors, Remote(server.url(name), ca=server.ca))
    assert "user:pass" not in str(refused.value)


async def test_a_redirect_in_a_circle_ends(mirrors: Mirrors, server: GitServer, name: str) -> None:
    server.redirects[f"/{name}.git"] = f"/{name}.git"
    with pytest.raises(Refused):
        await read(mirrors, Remote(server.url(name), ca=server.ca))


def name_is(monkeypatch: pytest.MonkeyPatch, name: str, address: str) -> None:
    """Let the resolver know a name."""
    genuine = socket.getaddrinfo

    def look_up(host: Any, *arguments: Any, **options: Any) -> Any:
        return genuine(address if host == name else host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "169.254.10.10"])
async def test_a_name_of_a_refused_address_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ssh: SshServer, address: str
) -> None:
    name_is(monkeypatch, "git.example.com", address)
    secret = {"identity": ssh.identity, "known_hosts": b"x"}
    async with Mirrors(tmp_path / "cache") as mirrors:
        for remote in (
            Remote("https://git.example.com/a"),
            remote_from("git@git.example.com:a", "SSH", secret),
            remote_from("https://192.0.2.1/a", proxy_secret={"address": b"http://git.example.com:3128"}),
        ):
            with pytest.raises(Refused, match=address):
                await mirrors.resolve(remote, "main")


async def test_git_and_ssh_connect_to_the_address_that_was_checked_whatever_the_name_is_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ssh: SshServer
) -> None:
    name_is(monkeypatch, "git.example.com", "127.0.0.1")
    with GitServer(tls=False) as plain:
        plain.repository("one").commit({"a": "x"})
        async with Mirrors(tmp_path / "cache", allow_loopback=True, allow_insecure=True) as mirrors:
            # Only our resolver knows the name: that git and ssh get there proves that they did not look it up.
            assert await read(mirrors, Remote(plain.url("one", host="git.example.com")))
            secret = {
                "identity": ssh.identity,
                "known_hosts": ssh.known_hosts.replace(b"[127.0.0.1]", b"[git.example.com]"),
            }
            remote = remote_from(ssh.url("no-such", host="git.example.com"), "SSH", secret)
            with pytest.raises(RepositoryNotFound):
                await mirrors.resolve(remote, "main")


async def test_this_machine_and_plain_http_are_refused_unless_allowed(tmp_path: Path, server: GitServer) -> None:
    async with Mirrors(tmp_path / "cache") as mirrors:
        for url in (server.url("a"), "http://example.com/a", "file:///etc", "ext::sh -c x"):
            with pytest.raises(Refused):
                await mirrors.resolve(Remote(url.replace(" ", "%20")), "main")


async def test_hooks_never_run(mirrors: Mirrors, remote: Remote, repository: Repository, tmp_path: Path) -> None:
    await read(mirrors, remote)
    mirror = next((tmp_path / "cache" / "mirrors").iterdir())
    (mirror / "hooks").mkdir()
    for hook in ("reference-transaction", "post-checkout", "post-merge", "pre-auto-gc", "post-rewrite"):
        script = mirror / "hooks" / hook
        script.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        script.chmod(0o755)
    repository.commit({"hooks/post-checkout": "#!/bin/sh\n"})
    await mirrors.refresh(remote)
    assert "hooks/post-checkout" in await read(mirrors, remote)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("entry", [".git", "..", ".GIT", "git~1"])
async def test_a_repository_with_names_that_git_forbids_is_refused(
    mirrors: Mirrors, server: GitServer, name: str, entry: str
) -> None:
    repository = server.repository(name)
    blob = repository.git("hash-object", "-w", "--stdin", given=b"x")
    raw = f"100644 {entry}\0".encode() + bytes.fromhex(blob)
    evil = repository.git("hash-object", "-t", "tree", "-w", "--stdin", "--literally", given=raw)
    commit = repository.git("commit-tree", "-m", "evil", evil)
    repository.git("update-ref", "refs/heads/main", commit)
    with pytest.raises(Refused, match="break Git's rules"):
        await read(mirrors, Remote(server.url(name), ca=server.ca))


async def test_an_answer_that_breaks_off_is_tried_again_later(
    mirrors: Mirrors, remote: Remote, server: GitServer, name: str
) -> None:
    commit = await mirrors.resolve(remote, "main")
    server.cuts[name] = 150
    with pytest.raises(RepositoryUnreachable):
        await mirrors.tree(remote, commit)
    del server.cuts[name]
    assert (await mirrors.tree(remote, commit)).find("apps")


async def test_what_is_no_repository_says_so(mirrors: Mirrors, server: GitServer, name: str) -> None:
    (server.folder / f"{name}.git").mkdir()
    with pytest.raises(RepositoryNotFound):
        await read(mirrors, Remote(server.url(name), ca=server.ca))


async def test_a_revision_that_is_no_commit_is_not_found(
    mirrors: Mirrors, remote: Remote, repository: Repository
) -> None:
    with pytest.raises((RevisionNotFound, Refused)):
        await mirrors.tree(remote, repository.git("rev-parse", "main:apps"))


async def test_a_repository_with_too_many_files_or_too_long_paths_is_refused(
    tmp_path: Path, remote: Remote, repository: Repository
) -> None:
    repository.commit({f"{number}": "x" for number in range(20)})
    async with Mirrors(tmp_path / "a", allow_loopback=True, limits=Limits(files=20)) as mirrors:
        with pytest.raises(TooLarge, match="more than 20 files"):
            await read(mirrors, remote)
    async with Mirrors(tmp_path / "b", allow_loopback=True, limits=Limits(path_bytes=5)) as mirrors:
        with pytest.raises(TooLarge, match="path of"):
            await read(mirrors, remote)


async def test_a_repository_with_too_many_refs_is_refused(
    tmp_path: Path, remote: Remote, repository: Repository
) -> None:
    for number in range(5):
        repository.git("branch", f"b{number}", "main")
    async with Mirrors(tmp_path / "a", allow_loopback=True, limits=Limits(refs=4)) as mirrors:
        with pytest.raises(TooLarge):
            await read(mirrors, remote)


async def test_a_small_pack_of_a_huge_file_is_not_read(tmp_path: Path, server: GitServer, name: str) -> None:
    server.repository(name).commit({"bomb": b"\0" * (20 * 1024 * 1024), "small": "x"})
    remote = Remote(server.url(name), ca=server.ca)
    limits = Limits(read_bytes=1024 * 1024, repository_bytes=1024 * 1024)
    async with Mirrors(tmp_path / "cache", allow_loopback=True, limits=limits) as mirrors:
        tree = await mirrors.tree(remote, await mirrors.resolve(remote, "main"))
        with pytest.raises(TooLarge, match="'bomb' with 20971520"):
            await tree.read(["bomb", "small"])
        assert await tree.read(["small"]) == {"small": b"x"}


async def test_a_slow_server_does_not_hold_up_another(
    tmp_path: Path, remote: Remote, server: GitServer, name: str
) -> None:
    with GitServer() as slow:
        slow.repository("one").commit({"a": "x"})
        slow.hold("one")
        async with Mirrors(
            tmp_path / "cache", allow_loopback=True, limits=Limits(talks=3, talks_per_host=2)
        ) as mirrors:
            stuck = [Remote(slow.url("one"), Basic("user", str(number)), ca=slow.ca) for number in range(6)]
            waiting = [asyncio.create_task(mirrors.resolve(each, "main")) for each in stuck]
            assert len(await read(mirrors, remote)) == 3
            assert not any(task.done() for task in waiting)
            slow.release("one")
            await asyncio.gather(*waiting)
    assert server.checks(name) == 1


async def test_a_server_that_asks_for_a_password_gets_none(
    mirrors: Mirrors, remote: Remote, server: GitServer, name: str, left_behind: Callable[[], list[str]]
) -> None:
    server.require_basic(name, "a", "b")
    with pytest.raises(AuthenticationFailed):
        await read(mirrors, remote)
    assert {asked.authorization for asked in server.requests if asked.repository == name} == {""}
    assert left_behind() == []


async def test_dripping_servers_of_one_tenant_do_not_hold_up_another(
    tmp_path: Path, remote: Remote, server: GitServer, name: str
) -> None:
    with ExitStack() as stack:
        silent = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(16)]
        async with Mirrors(tmp_path / "cache", allow_loopback=True, limits=Limits(check_seconds=600)) as mirrors:
            waiting = []
            for each in silent:
                hostile = Remote(f"https://127.0.0.1:{each.getsockname()[1]}/a.git")
                mirrors.follow(("mallory", hostile.key), hostile, 3600, ["main"], tenant="mallory")
                waiting.append(asyncio.create_task(mirrors.resolve(hostile, "main")))
            mirrors.follow(("alice", remote.key), remote, 3600, ["main"], tenant="alice")
            assert len(await read(mirrors, remote)) == 3
            # Whoever follows the same as others does not put it behind what only they wait for.
            mirrors.follow(("mallory", remote.key), remote, 3600, ["main"], tenant="mallory")
            await mirrors.refresh(remote)
            assert mirrors.status(remote).failure is None
            assert not any(task.done() for task in waiting)
    await asyncio.gather(*waiting, return_exceptions=True)
    assert server.checks(name) >= 1
