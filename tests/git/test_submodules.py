"""Repositories within repositories."""

from pathlib import Path

import pytest

from syncline.git import AuthenticationFailed, InvalidSource, Limits, Mirrors, Refused, Remote, TooLarge
from syncline.git.remotes import Basic
from syncline.git.submodules import absolute, urls
from syncline.testing.gitserver import GitServer, Repository, submodule


def modules(**places: str) -> str:
    return "".join(f'[submodule "{name}"]\n\tpath = lib/{name}\n\turl = {url}\n' for name, url in places.items())


async def test_submodules_are_refused_unless_asked_for_and_then_their_files_are_there(
    mirrors: Mirrors, remote: Remote, repository: Repository, server: GitServer, name: str
) -> None:
    deepest = server.repository(f"{name}-deepest").commit({"c": "deepest"})
    inner = server.repository(f"{name}-inner").commit(
        {"b": "inner", "lib/deep": submodule(deepest), ".gitmodules": modules(deep=f"./../{name}-deepest.git")}
    )
    repository.commit({"lib/one": submodule(inner), ".gitmodules": modules(one=f"../{name}-inner.git")})
    commit = await mirrors.resolve(remote, "main")
    without = await mirrors.tree(remote, commit)
    assert without.find("apps")
    with pytest.raises(Refused, match="submodule"):
        without.find("lib")
    tree = await mirrors.tree(remote, commit, submodules=True)
    assert await tree.read(["apps/a.yaml", "lib/one/b", "lib/one/lib/deep/c"]) == {
        "apps/a.yaml": b"a: 1\n",
        "lib/one/b": b"inner",
        "lib/one/lib/deep/c": b"deepest",
    }
    assert [entry.path for entry in tree.find("lib/**/c")] == ["lib/one/lib/deep/c"]
    before = tree.digest("lib")
    assert tree.digest("apps") != before
    assert tree.is_folder("lib/one")


async def test_a_submodule_on_another_server_gets_no_credential(tmp_path: Path) -> None:
    with GitServer(tls=False) as one, GitServer(tls=False) as two:
        inner = two.repository("inner").commit({"b": "x"})
        one.repository("outer").commit({"lib/one": submodule(inner), ".gitmodules": modules(one=two.url("inner"))})
        one.require_basic("outer", "somebody", "canary")
        remote = Remote(one.url("outer"), Basic("somebody", "canary"))
        async with Mirrors(tmp_path / "cache", allow_loopback=True, allow_insecure=True) as mirrors:
            commit = await mirrors.resolve(remote, "main")
            assert (await mirrors.tree(remote, commit, submodules=True)).find("lib/one/b")
            assert {asked.authorization for asked in two.requests} == {""}
            two.require_basic("inner", "somebody", "canary")
        async with Mirrors(tmp_path / "new", allow_loopback=True, allow_insecure=True) as mirrors:
            with pytest.raises(AuthenticationFailed):
                await mirrors.tree(remote, commit, submodules=True)


@pytest.mark.parametrize("url", ["ext::sh", "file:///etc", "--upload-pack=x", "http://169.254.169.254/a", "/etc/x"])
async def test_a_submodule_of_an_unsafe_url_is_refused(
    mirrors: Mirrors, remote: Remote, repository: Repository, url: str
) -> None:
    repository.commit({"lib/one": submodule("1" * 40), ".gitmodules": modules(one=url)})
    with pytest.raises((Refused, InvalidSource)):
        await mirrors.tree(remote, await mirrors.resolve(remote, "main"), submodules=True)


async def test_a_submodule_without_a_url_or_too_many_of_them_are_refused(
    tmp_path: Path, remote: Remote, repository: Repository
) -> None:
    repository.commit({"lib/one": submodule("1" * 40), "lib/two": submodule("2" * 40)})
    async with Mirrors(tmp_path / "a", allow_loopback=True) as mirrors:
        commit = await mirrors.resolve(remote, "main")
        with pytest.raises(Refused, match="has no URL"):
            await mirrors.tree(remote, commit, submodules=True)
    async with Mirrors(tmp_path / "b", allow_loopback=True, limits=Limits(submodules=1)) as mirrors:
        with pytest.raises(TooLarge, match="more than 1 submodules"):
            await mirrors.tree(remote, commit, submodules=True)


@pytest.mark.parametrize(
    ("base", "url", "result"),
    [
        ("https://example.com/org/a.git", "../b.git", "https://example.com/org/b.git"),
        ("https://example.com/org/a.git", "./b.git", "https://example.com/org/a.git/b.git"),
        ("https://example.com/org/a.git/", "../../x/b", "https://example.com/x/b"),
        ("git@example.com:org/a.git", "../b.git", "git@example.com:org/b.git"),
        ("https://example.com/org/a", "https://example.org/c", "https://example.org/c"),
    ],
)
def test_relative_urls_are_relative_to_the_parent(base: str, url: str, result: str) -> None:
    assert absolute(base, url) == result


def test_a_relative_url_stays_on_its_server() -> None:
    with pytest.raises(InvalidSource):
        absolute("https://example.com/org/a", "../../../../x")


def test_places_of_submodules_are_read_from_settings() -> None:
    settings = {"submodule.a.b.path": "x/", "submodule.a.b.url": "u", "submodule.c.path": "y", "core.url": "z"}
    assert urls(settings) == {"x": "u"}
