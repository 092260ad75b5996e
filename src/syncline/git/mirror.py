"""One repository on disk: fetched with a depth, read without a checkout, and replaced when it is damaged.

Several processes can share the folder. A process that fetches holds a lock. A process that misses objects fetches them.
"""

import asyncio
import contextlib
import hashlib
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol, TypeVar

from syncline.confinement.programs import Unconfined
from syncline.fairness import FairSemaphore, on_behalf_of
from syncline.git.budget import Ticket
from syncline.git.errors import (
    CacheFailure,
    GitError,
    NeedsMore,
    Refused,
    RepositoryUnreachable,
    RevisionNotFound,
    TooLarge,
)
from syncline.git.limits import Limits
from syncline.git.locks import open_lock
from syncline.git.mirror_store import size as size_on_disk
from syncline.git.process import ProcessLimits, ProcessResult, Sink, run
from syncline.git.refs import HEADS, TAGS, Commit
from syncline.git.remotes import Remote
from syncline.git.tool_errors import Damaged, NotOffered
from syncline.git.transport import GitTransport
from syncline.git.tree import Listing, ListingReader, TreeEntry

T = TypeVar("T")

_KEPT = "refs/syncline"
_SEARCHED = "refs/search"
_FIRST_DEPTH = 50
_DEEPER = 10
_LOCAL_SECONDS = 60.0
_PRIVATE = 0o700
_LOCK_PAUSE = 0.05
_LISTING_BYTES = 256 * 1024 * 1024  # read as a stream, and not stored
_OVERHEAD = 256
_SMALL = 256 * 1024
_SETTINGS = tuple(
    part
    for setting in (
        *("core.hooksPath=/dev/null", "gc.auto=0", "safe.directory=*", "core.bigFileThreshold=16m"),
        *("core.deltaBaseCacheLimit=16m", "pack.threads=1", "pack.windowMemory=16m", "pack.deltaCacheSize=8m"),
    )
    for part in ("-c", setting)
)
_SHA1_DIGITS = 40
_WRITING = frozenset({"init", "update-ref", "repack", "prune"})


class ReserveDisk(Protocol):
    """Reserves disk space for this number of bytes, or for the bytes that are left."""

    def __call__(self, wanted: int, *, passing: bool = False) -> AbstractAsyncContextManager[int]:
        """Reserve it during a block. Raises `CacheFailure`, and `MirrorOverQuota` if the tenant's quota is used up.

        `passing`: it is released at the end, so it counts for no quota.
        """


ReserveMemory = Callable[[int], Awaitable[Ticket]]
"""Reserves memory for this number of bytes."""


class Mirror:
    """The fetched objects of one remote."""

    def __init__(
        self, path: Path, lock: Path, remote: Remote, transport: GitTransport, limits: Limits, *, tenant: str = ""
    ) -> None:
        self.path = path
        self.remote = remote
        self.tenant = tenant
        """The tenant of the mirror; empty: all followers of the remote."""
        self._lock = lock
        self._transport = transport
        self._limits = limits
        self._turn = FairSemaphore(1)
        self._generation = 0
        self._is_large = False
        self._reads: dict[str, _Read] = {}
        self._reading: asyncio.Task[None] | None = None

    async def fetch(self, commit: Commit, room: ReserveDisk, *, keep: Collection[str] = ()) -> None:
        """Fetch a commit and its tag, if they are not on disk; the commits in `keep` must stay."""
        if self.has(commit):
            return
        async with self._turn.slot(on_behalf_of.get()), self._locked():
            if self.has(commit):
                return
            try:
                await self._fetch(self.path, commit, room)
            except Damaged:
                await self._rebuild(commit, room)
            # The requested commit is here, even if the removal of old commits fails.
            with contextlib.suppress(GitError):
                await self._pack({commit.sha, commit.tag, *keep}, room)

    async def listing(self, commit: Commit, room: ReserveDisk, hold: ReserveMemory) -> tuple[Listing, str]:
        """Return the files of a fetched commit, and the tenant that its memory counts for."""
        return await self._repairing(lambda: self._list(commit, hold), commit, room)

    async def blobs(self, commit: Commit, entries: Sequence[TreeEntry], room: ReserveDisk) -> Mapping[str, bytes]:
        """Return the content of entries of a commit, by their ids."""
        return await self._repairing(lambda: self._read({entry.id: entry.size for entry in entries}), commit, room)

    async def copy_blob(self, commit: Commit, entry: TreeEntry, descriptor: int, room: ReserveDisk) -> None:
        """Write the content of an entry of a commit to an empty file, piece by piece."""
        await self._repairing(lambda: self._copy(entry, descriptor), commit, room)

    async def objects(self, commit: Commit, ids: Sequence[str], room: ReserveDisk) -> Mapping[str, bytes]:
        """Return commits and tags as they are stored."""
        return await self._repairing(lambda: self._read(dict.fromkeys(ids, _SMALL)), commit, room)

    async def settings(self, blob: str) -> dict[str, str]:
        """Read a blob in the format of git's configuration, such as `.gitmodules`."""
        finished = await self._git("config", "-z", "--list", f"--blob={blob}")
        if finished.code:
            return {}
        pairs = (line.partition("\n") for line in finished.out.decode(errors="replace").split("\0") if line)
        return {name: value for name, _, value in pairs}

    async def close(self) -> None:
        """Cancel all reads."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])

    def has(self, commit: Commit) -> bool:
        """Whether a commit and its tag are on disk."""
        return all((self.path / _KEPT / each).is_file() for each in (commit.sha, commit.tag) if each)

    async def _fetch(self, path: Path, commit: Commit, room: ReserveDisk) -> None:
        if not self._is_large:
            try:
                small = min(self._limits.small_fetch_bytes, self._limits.repository_bytes)
                await self._fetch_within(path, commit, small, room)
            except TooLarge:
                self._is_large = True
            else:
                return
        async with self._transport.large(self.remote):
            await self._fetch_within(path, commit, self._limits.repository_bytes, room)
        # Later fetches transfer only new objects.
        self._is_large = False

    async def _fetch_within(self, path: Path, commit: Commit, most: int, room: ReserveDisk) -> None:
        # The process that fetched before may have been killed.
        await asyncio.to_thread(_tidy, path)
        await self._init(path, commit)
        async with room(most) as allowed:
            try:
                await self._transfer(path, commit, allowed)
            except GitError as error:
                overflowed = _overflowed(path, allowed)
                await asyncio.to_thread(_tidy, path)
                if overflowed and allowed < most:
                    raise no_room(self._limits) from None
                if overflowed:
                    raise TooLarge(f"the repository is larger than the {allowed} bytes that are allowed") from None
                raise error from None

    async def _transfer(self, path: Path, commit: Commit, allowed: int) -> None:
        # An annotated tag includes its commit; old servers serve the commit only through the tag.
        named = commit.tag or commit.sha
        try:
            await self._get(path, [f"+{named}:{_KEPT}/{named}"], 1, allowed)
        except NotOffered as refused:
            await self._search(path, commit, allowed, refused)
            return
        if commit.tag and not await self._keep(path, commit.sha):
            raise Damaged(f"the tag {commit.tag} came without its commit")

    async def _get(self, path: Path, refspecs: Sequence[str], depth: int, allowed: int) -> None:
        await self._transport.fetch(self.remote, path, refspecs, depth=depth, file_size=allowed, large=self._is_large)

    async def _search(self, path: Path, commit: Commit, allowed: int, refused: NotOffered) -> None:
        """Search a commit in the history of branches and tags, deeper with each attempt."""
        refspecs = [f"+{HEADS}*:{_SEARCHED}/heads/*", f"+{TAGS}*:{_SEARCHED}/tags/*"]
        depth = min(_FIRST_DEPTH, self._limits.depth)
        try:
            while True:
                await self._get(path, refspecs, depth, allowed)
                if all([await self._keep(path, each) for each in (commit.sha, commit.tag) if each]):
                    return
                if depth >= self._limits.depth or not (path / "shallow").exists():
                    break
                depth = min(depth * _DEEPER, self._limits.depth)
        except NotOffered:
            pass
        finally:
            shutil.rmtree(path / _SEARCHED, ignore_errors=True)
        raise RevisionNotFound(
            f"{refused}: {commit.sha} is not among the last {self._limits.depth} commits of any branch or tag, "
            "or the branch was rewritten; check the revision"
        )

    async def _keep(self, path: Path, identity: str) -> bool:
        finished = await self._git("update-ref", f"{_KEPT}/{identity}", identity, path=path)
        return finished.code == 0

    async def _init(self, path: Path, commit: Commit) -> None:
        if (path / "HEAD").exists():
            return
        await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
        await asyncio.to_thread(path.mkdir, _PRIVATE)
        kind = "sha1" if len(commit.sha) == _SHA1_DIGITS else "sha256"
        finished = await self._git(
            *("init", "--quiet", "--bare", "--template=", "--initial-branch=none", f"--object-format={kind}"), path=path
        )
        if finished.code:
            raise CacheFailure(f"no mirror can be made in the folder for mirrors: {finished.error.strip()[:200]}")

    async def _rebuild(self, commit: Commit, room: ReserveDisk) -> None:
        """Fetch into a new folder that then replaces the old one. The old one stays if the fetch fails."""
        fresh = self.path.with_suffix(".new")
        old = self.path.with_suffix(".old")
        for each in (fresh, old):
            await asyncio.to_thread(shutil.rmtree, each, ignore_errors=True)
        try:
            await self._fetch(fresh, commit, room)
        except Damaged as damaged:
            raise RepositoryUnreachable(str(damaged)) from None
        finally:
            if not (fresh / _KEPT / commit.sha).exists():
                await asyncio.to_thread(shutil.rmtree, fresh, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            self.path.rename(old)
        fresh.rename(self.path)
        self._generation += 1
        await asyncio.to_thread(shutil.rmtree, old, ignore_errors=True)

    async def _repairing(self, work: Callable[[], Awaitable[T]], commit: Commit, room: ReserveDisk) -> T:
        """Do some work. If the mirror is damaged, replace it and repeat the work."""
        generation = self._generation
        try:
            return await work()
        except Damaged:
            async with self._turn.slot(on_behalf_of.get()), self._locked():
                if generation == self._generation:
                    await self._rebuild(commit, room)
                elif not self.has(commit):
                    await self._fetch(self.path, commit, room)
        try:
            return await work()
        except Damaged as damaged:
            raise CacheFailure(f"the mirror is damaged again right after it was fetched: {damaged}") from None

    async def _list(self, commit: Commit, hold: ReserveMemory) -> tuple[Listing, str]:
        raw = (await self._read({commit.sha: _SMALL}))[commit.sha]
        if not raw.startswith(b"tree "):
            raise RevisionNotFound(f"{commit.sha} is not a commit; check the revision")
        root = raw[len(b"tree ") :].split(b"\n", 1)[0].decode()
        try:
            return await self._listed(root, self._limits.small_listing_bytes, hold)
        except NeedsMore:
            # Held until the tree counts as used: this limits the number of concurrent reads.
            async with self._transport.large(self.remote):
                return await self._listed(root, self._limits.listing_bytes, hold)

    async def _listed(self, root: str, most: int, hold: ReserveMemory) -> tuple[Listing, str]:
        reader = ListingReader(root, self._limits, most)

        async def take(chunk: bytes) -> None:
            await asyncio.to_thread(reader.feed, chunk)

        finished = await self._git(
            *("ls-tree", "-r", "-t", "-l", "-z", "--full-tree", root), output=_LISTING_BYTES, sink=take
        )
        if finished.flooded:
            raise TooLarge(f"the commit has more than {self._limits.files} files and folders")
        if finished.code and "memory" in finished.error:
            raise TooLarge("make folders smaller: to list the commit's files takes more memory than allowed")
        if finished.code:
            raise Damaged(finished.error.strip()[:200])
        listing = await asyncio.to_thread(reader.finish)
        ticket = await hold(listing.cost)
        ticket.tie(listing)
        return listing, ticket.tenant

    async def _read(self, sizes: Mapping[str, int]) -> dict[str, bytes]:
        """Read objects. Requests that arrive while one `git` process reads are for the next process."""
        for identity, size in sizes.items():
            if identity not in self._reads:
                self._reads[identity] = _Read(size, asyncio.get_running_loop().create_future())
        wanted = {identity: self._reads[identity].content for identity in sizes}
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read_all())
        await asyncio.wait(wanted.values())
        return {identity: content.result() for identity, content in wanted.items()}

    async def _read_all(self) -> None:
        try:
            while self._reads:
                batch: dict[str, _Read] = {}
                size = 0
                for identity, read in list(self._reads.items()):
                    if batch and size + read.size > self._limits.read_bytes:
                        break
                    batch[identity] = self._reads.pop(identity)
                    size += read.size + _OVERHEAD
                try:
                    contents = await self._cat(list(batch), size)
                    for identity, read in batch.items():
                        _set_result(read, contents.get(identity, Damaged(f"the object {identity} is not there")))
                except GitError as error:
                    _fail(batch.values(), error)
                finally:
                    _fail(batch.values(), CacheFailure("the mirrors were closed"))
        finally:
            _fail(self._reads.values(), CacheFailure("the mirrors were closed"))
            self._reads.clear()

    async def _cat(self, ids: Sequence[str], size: int) -> dict[str, bytes | Damaged]:
        given = "".join(f"{identity}\n" for identity in ids).encode()
        finished = await self._git("cat-file", "--batch", given=given, output=size)
        if finished.flooded:
            raise TooLarge("a commit or tag is larger than allowed")
        return await asyncio.to_thread(_contents, finished.out)

    async def _copy(self, entry: TreeEntry, descriptor: int) -> None:
        name = "sha1" if len(entry.id) == _SHA1_DIGITS else "sha256"
        digest = hashlib.new(name, b"blob %d\0" % entry.size, usedforsecurity=False)

        def write(chunk: bytes) -> None:
            digest.update(chunk)
            while chunk:
                chunk = chunk[os.write(descriptor, chunk) :]

        async def take(chunk: bytes) -> None:
            await asyncio.to_thread(write, chunk)

        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        await self._git("cat-file", "blob", entry.id, output=entry.size, sink=take)
        if digest.hexdigest() != entry.id:
            raise Damaged(f"the object {entry.id} is broken, or not there")

    async def _pack(self, keep: set[str], room: ReserveDisk) -> None:
        """Remove old commits after many fetches."""
        if len(list((self.path / "objects" / "pack").glob("*.pack"))) <= self._limits.packs:
            return
        refs = sorted((self.path / _KEPT).iterdir(), key=lambda ref: ref.stat().st_mtime, reverse=True)
        for ref in refs[self._limits.commits :]:
            if ref.name not in keep:
                ref.unlink()
        # During a repack, the objects exist twice.
        wanted = await asyncio.to_thread(size_on_disk, self.path)
        async with room(wanted, passing=True) as allowed:
            await self._git("repack", "-a", "-d", "-q", seconds=self._limits.fetch_seconds, file_size=allowed)
            await self._git("prune", "--expire=now", seconds=self._limits.fetch_seconds)

    async def _git(
        self,
        *arguments: str,
        path: Path | None = None,
        given: bytes | None = None,
        output: int = _SMALL,
        seconds: float = _LOCAL_SECONDS,
        file_size: int = _SMALL,
        sink: Sink | None = None,
    ) -> ProcessResult:
        at = path or self.path
        caps = ProcessLimits(
            seconds,
            output=output,
            file_size=file_size,
            memory=self._limits.local_memory_bytes,
            write=(at,) if arguments[0] in _WRITING else (),
            read=(at,),
            unconfined=self._transport.unconfined,
        )
        try:
            async with self._transport.read(self.remote):
                return await run(["git", *_SETTINGS, f"--git-dir={at}", *arguments], caps, given=given, sink=sink)
        except Unconfined as refused:
            raise Refused(str(refused)) from None
        except TimeoutError:
            raise CacheFailure(f"git {arguments[0]} took longer than {seconds:g} s; is the disk slow?") from None
        except OSError as error:
            raise CacheFailure(f"git cannot be started: {error.strerror}") from None

    @contextlib.asynccontextmanager
    async def _locked(self) -> AsyncIterator[None]:
        with open_lock(self._lock) as lock:
            try:
                async with asyncio.timeout(self._limits.fetch_seconds):
                    while not lock.try_take():  # noqa: ASYNC110 - it is another process that lets go
                        await asyncio.sleep(_LOCK_PAUSE)
            except TimeoutError:
                raise CacheFailure("another process holds the mirror for too long") from None
            try:
                yield
            except OSError as error:
                raise CacheFailure(f"the folder for mirrors cannot be written: {error.strerror}") from None


class _Read:
    """An object that a caller waits for."""

    def __init__(self, size: int, content: asyncio.Future[bytes]) -> None:
        self.size = size
        self.content = content
        # The callers may have stopped waiting when it fails.
        content.add_done_callback(lambda done: done.cancelled() or done.exception())


def _set_result(read: _Read, content: bytes | Damaged) -> None:
    if read.content.done():
        return
    if isinstance(content, Damaged):
        read.content.set_exception(content)
    else:
        read.content.set_result(content)


def _fail(reads: Collection[_Read], error: GitError) -> None:
    for read in reads:
        if not read.content.done():
            read.content.set_exception(error)


def _contents(output: bytes) -> dict[str, bytes | Damaged]:
    """Parse the output of `git cat-file --batch`, and verify each object by its id."""
    contents: dict[str, bytes | Damaged] = {}
    position = 0
    while (end := output.find(b"\n", position)) >= 0:
        words = output[position:end].split(b" ")
        identity = words[0].decode()
        position = end + 1
        if len(words) != 3 or not words[2].isdigit():  # noqa: PLR2004 - id, type, size
            contents[identity] = Damaged(f"the object {identity} is not there")
            continue
        content = output[position : position + int(words[2])]
        position += int(words[2]) + 1
        name = "sha1" if len(identity) == _SHA1_DIGITS else "sha256"
        digest = hashlib.new(name, b"%b %b\0" % (words[1], words[2]), usedforsecurity=False)
        digest.update(content)
        contents[identity] = content if digest.hexdigest() == identity else Damaged(f"the object {identity} is broken")
    return contents


def no_room(limits: Limits) -> CacheFailure:
    """Return the message for a full folder of mirrors."""
    return CacheFailure(
        f"the mirrors of all repositories that are followed take more than {limits.cache_bytes} bytes; allow them more"
    )


def _overflowed(path: Path, allowed: int) -> bool:
    """Whether a fetch was stopped because it wrote too much; git itself reports only an early end."""
    return any(left.stat().st_size >= allowed for left in path.glob("objects/pack/tmp_*"))


def _tidy(path: Path) -> None:
    """Remove the files of a stopped fetch."""
    for left in (*path.glob("objects/pack/tmp_*"), *path.glob("*.lock"), *path.glob("refs/**/*.lock")):
        left.unlink(missing_ok=True)
