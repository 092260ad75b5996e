"""What servers may send without end, or pack small and mean large: it is cut off before it is held.

The attacks run in a process of their own, whose memory is limited to what the shipped pod leaves to the operator.
"""

import asyncio
import gc
import itertools
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.git.test_watch import A, B, Host

from syncline.deploy.workload import OPERATOR_MEMORY
from syncline.git import CacheFailure, Limits, Mirrors, Remote, TooLarge
from syncline.git.budget import MemoryBudget
from syncline.git.errors import NeedsMore
from syncline.git.kept_refs import KeptRefs
from syncline.git.refs import Refs, RefsReader
from syncline.git.watch import RemoteWatch
from syncline.testing.gitserver import GitServer, Repository

MIB = 1024 * 1024
FOLDERS = "/".join(letter * 200 for letter in "abcd")
PATIENT = Limits(check_seconds=300)


@asynccontextmanager
async def never_ending(protocol: int) -> AsyncIterator[tuple[str, Callable[[], int]]]:
    """Serve a list of refs that never ends; tell the URL, and how many bytes were taken."""
    taken = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal taken
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                is_list = head.startswith(b"POST") or protocol == 0
                kind = b"result" if head.startswith(b"POST") else b"advertisement"
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n")
                writer.write(b"Content-Type: application/x-git-upload-pack-%b\r\n\r\n" % kind)
                if not head.startswith(b"POST"):
                    writer.write(chunk(packet(b"# service=git-upload-pack\n") + b"0000"))
                if not is_list:
                    told = b"".join(map(packet, [b"version 2\n", b"agent=git/2\n", b"ls-refs\n", b"fetch=shallow\n"]))
                    writer.write(chunk(told + b"0000") + b"0\r\n\r\n")
                numbers = itertools.count() if is_list else iter(())
                for number in numbers:
                    end = b"\0multi_ack\n" if number == 0 and protocol == 0 else b"\n"
                    writer.write(chunk(b"".join(ref(each, end) for each in range(number * 500, number * 500 + 500))))
                    taken += 500 * len(ref(0, b"\n"))
                    await writer.drain()
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/endless.git", lambda: taken


def packet(line: bytes) -> bytes:
    return b"%04x" % (len(line) + 4) + line


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(content), content)


def ref(number: int, end: bytes) -> bytes:
    return packet(b"%040x refs/heads/%0200d" % (number + 1, number) + end)


@pytest.mark.parametrize("protocol", [0, 2])
async def test_a_server_that_never_stops_sending_refs_is_cut_off(tmp_path: Path, protocol: int) -> None:
    async with (
        never_ending(protocol) as (url, taken),
        Mirrors(tmp_path / "cache", limits=PATIENT, allow_loopback=True, allow_insecure=True) as mirrors,
    ):
        with pytest.raises(TooLarge):
            await mirrors.resolve(Remote(url), "main")
        # Before, 5.6 GiB were held after half a minute, and nothing was in the way of more.
        assert taken() < 2 * (PATIENT.memory_bytes + PATIENT.large_memory_bytes)


def test_refs_are_the_same_however_they_come_and_no_more_are_held_than_allowed() -> None:
    lines = [f"{number:040x}\trefs/heads/branch-{number}\n" for number in range(1, 200)]
    listing = "".join(["ref: refs/heads/branch-1\tHEAD\n", *lines]).encode()
    whole = Refs.parse(listing, limit=1000)
    for size in (1, 7, 100, 5000):
        reader = RefsReader(refs=1000, size=MIB)
        for start in range(0, len(listing), size):
            reader.feed(listing[start : start + size])
        assert reader.finish().digest == whole.digest
    with pytest.raises(TooLarge, match="more than 100"):
        RefsReader(refs=100, size=MIB).feed(listing)
    with pytest.raises(NeedsMore, match="delete branches and tags") as more:
        RefsReader(refs=1000, size=10_000).feed(listing)
    assert more.value.reason == "TooLarge"
    with pytest.raises(NeedsMore):
        RefsReader(refs=1000, size=10_000).feed(b"x" * 10_001)


def test_the_longest_lists_of_refs_are_let_go_of_first() -> None:
    short, long = Refs({"refs/heads/a": A}), Refs({f"refs/heads/{number}": A for number in range(100)})
    kept = KeptRefs(long.size)
    kept.put("long", long)
    kept.put("short", short)
    assert kept.get("long") is None
    assert kept.get("short") is short
    kept.put("long", long)
    assert kept.get("short") is short


async def test_a_list_of_refs_that_is_not_kept_is_asked_for_again_and_changes_are_told() -> None:
    host = Host()
    host.watch = watch = RemoteWatch(host.look, host.told.append, KeptRefs(0))
    watch.follow("sync", 3600, ["main"])
    assert (await watch.resolve("main")).sha == A
    asked = len(host.asked)
    assert (await watch.resolve("main")).sha == A
    assert len(host.asked) == asked + 1
    await host.refresh()
    assert host.told == []
    host.refs["refs/heads/main"] = B
    await host.refresh()
    assert host.told == ["sync"]
    assert (await watch.resolve("main")).sha == B
    await watch.close()


class Thing:
    """What takes memory."""


async def test_a_tenant_has_half_of_the_memory_for_lists_and_gets_back_what_is_no_longer_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: list[tuple[str, Thing]] = []

    def let_go(tenant: str | None) -> bool:
        found = next((each for each in kept if tenant in (None, each[0])), None)
        if found is not None:
            kept.remove(found)
        return found is not None

    budget = MemoryBudget(100, let_go)
    in_use, unused = Thing(), Thing()
    (await budget.take(40, ["mallory"])).tie(in_use)
    (await budget.take(10, ["mallory"])).tie(unused)
    kept.append(("mallory", unused))
    del unused
    # What several want is counted to who has least, so that nobody waits behind somebody else's share.
    (await budget.take(30, ["mallory", "alice"])).release()
    (await budget.take(10, ["mallory"])).tie(last := Thing())
    assert kept == []
    monkeypatch.setattr("syncline.git.budget.PATIENCE", 0.05)
    with pytest.raises(CacheFailure, match="tried again"):
        await budget.take(1, ["mallory"])
    (await budget.take(50, ["alice"])).release()
    del in_use, last
    gc.collect()
    (await budget.take(50, ["mallory"])).release()


def wide(repository: Repository, folders: int, files: int) -> None:
    """Commit so many times so many files with paths of 850 bytes; there is but one of each tree."""
    blob = repository.git("hash-object", "-w", "--stdin", given=b"x")
    lines = "".join(f"100644 blob {blob}\t{number:022}\n" for number in range(files))
    tree = repository.git("mktree", given=lines.encode())
    lines = "".join(f"040000 tree {tree}\t{number:022}\n" for number in range(folders))
    tree = repository.git("mktree", given=lines.encode())
    for name in reversed(FOLDERS.split("/")):
        tree = repository.git("mktree", given=f"040000 tree {tree}\t{name}\n".encode())
    repository.git("update-ref", "refs/heads/main", repository.git("commit-tree", "-m", "wide", tree))


@pytest.mark.parametrize(("folders", "outcome"), [(313, "TooLarge"), (120, "ok")])
def test_eight_small_repositories_of_huge_trees_fit_into_the_memory_of_the_pod(
    tmp_path: Path, server: GitServer, name: str, folders: int, outcome: str
) -> None:
    first = server.repository(name)
    wide(first, folders, 313)
    for number in range(8):
        shutil.copytree(first.path, first.path.with_name(f"{name}-{number}.git"))
    urls = [server.url(f"{name}-{number}") for number in range(8)]
    (tmp_path / "ca.crt").write_bytes(server.ca)
    done = subprocess.run(
        [sys.executable, "-c", EIGHT, str(tmp_path), str(OPERATOR_MEMORY), *urls],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["outcomes"] == [outcome] * 8
    assert told["peak"] < OPERATOR_MEMORY


EIGHT = """
import asyncio, json, resource, sys
from pathlib import Path
from syncline.git import GitError, Mirrors, Remote

folder, memory, urls = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))

async def look(mirrors, number, url):
    remote = Remote(url, ca=(folder / "ca.crt").read_bytes())
    mirrors.follow(number, remote, 3600, ["main"], tenant=f"tenant-{number}")
    try:
        tree = await mirrors.tree(remote, await mirrors.resolve(remote, "main"))
        assert len(tree.entries) == 120 * 313
    except GitError as error:
        return error.reason
    return "ok"

async def main():
    async with Mirrors(folder / "cache", allow_loopback=True) as mirrors:
        return await asyncio.gather(*(look(mirrors, *each) for each in enumerate(urls)))

outcomes = asyncio.run(main())
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(json.dumps({"outcomes": outcomes, "peak": int(status["VmHWM"].split()[0]) * 1024}))
"""
