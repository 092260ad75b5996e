"""All remotes of all syncs: followed, resolved, fetched and read. Each is shared by all its users."""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Hashable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import msgspec

from syncline.core.quotas import charged
from syncline.fairness import on_behalf_of
from syncline.git.budget import MemoryBudget, Ticket
from syncline.git.errors import CacheFailure, GitError, MirrorOverQuota, Refused, TooLarge
from syncline.git.kept_refs import KeptRefs
from syncline.git.large_blobs import LargeBlobs
from syncline.git.limits import Limits
from syncline.git.metrics import FETCH_SECONDS, FETCHES
from syncline.git.mirror import Mirror, no_room
from syncline.git.mirror_store import MirrorStore, age, size
from syncline.git.process import ProcessLimits
from syncline.git.pull_requests import PullRequests
from syncline.git.push import BranchPushes
from syncline.git.refs import Commit, Refs, check_revision, pinned
from syncline.git.remotes import Remote
from syncline.git.signatures import signer
from syncline.git.submodules import absolute, remote_of, urls
from syncline.git.transport import GitTransport
from syncline.git.tree import CommitTree, TreeEntry
from syncline.git.watch import RemoteStatus, RemoteWatch

T = TypeVar("T")

_UNFOLLOWED = 100
_VERIFIED = 10_000
_RECENT = 600.0
_FORGOTTEN = 24 * 3600.0
_MEASURED = 60.0
_DEEPEST = 4
_SPARE = 10
_CHECK_SECONDS = 20.0
_CHECK_BYTES = 4 * 1024 * 1024
_MOST_PARENTS = 10_000


def _nobody(_: Hashable) -> None:
    """Ignore a change."""


def _unlimited(_: str) -> int | None:
    """Set no quota."""
    return None


class Mirrors:
    """Mirrors of repositories in a folder, which several processes may share.

    Concurrent callers share checks, fetches and trees. A caller that is cancelled does not cancel them for the others.
    """

    def __init__(
        self,
        folder: Path,
        *,
        limits: Limits | None = None,
        allow_insecure: bool = False,
        allow_loopback: bool = False,
        unconfined: bool = False,
    ) -> None:
        self._limits = limits or Limits()
        self._on_change: Callable[[Hashable], None] = _nobody
        self._folder = MirrorStore(folder)
        self._transport = GitTransport(
            self._folder.run,
            self._limits,
            allow_insecure=allow_insecure,
            allow_loopback=allow_loopback,
            unconfined=unconfined,
            tenants=lambda remote: self._tenants_of(remote.key),
        )
        self._large_blobs = LargeBlobs(self._folder.run)
        self.pushes = BranchPushes(
            self._transport, self._limits, self._folder.run, self._fetched, partial(self._room, passing=True)
        )
        self.pull_requests = PullRequests(self._transport)
        self._kept = KeptRefs(self._limits.all_refs_bytes)
        self._budget = MemoryBudget(self._limits.listings_bytes, self._forget_tree)
        self._watches: OrderedDict[str, RemoteWatch] = OrderedDict()
        self._mirrors: dict[str, Mirror] = {}
        self._followed: dict[Hashable, str] = {}
        self._tenants: dict[str, dict[Hashable, str]] = {}
        self._parents: OrderedDict[str, set[str]] = OrderedDict()
        self._trees: OrderedDict[Hashable, tuple[CommitTree, str]] = OrderedDict()
        self._verified: dict[Hashable, str] = {}
        self._shared: dict[Hashable, asyncio.Task[Any]] = {}
        self._sizes: dict[str, int] = {}
        self._measured = float("-inf")
        self._reserved: Counter[str] = Counter()
        self._quota: Callable[[str], int | None] = _unlimited
        self._asked: dict[str, Counter[str]] = {}
        """The bytes of each mirror that were fetched for a tenant."""
        self._promised: Counter[str] = Counter()
        self._renewed: dict[str, float] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def listen(self, on_change: Callable[[Hashable], None]) -> None:
        """Call `on_change` with each follower whose revision now resolves to another commit."""
        self._on_change = on_change

    def _notify(self, who: Hashable) -> None:
        self._on_change(who)

    def limit(self, quota: Callable[[str], int | None]) -> None:
        """Limit the bytes on disk that are fetched for each tenant."""
        self._quota = quota

    def follow(
        self, who: Hashable, remote: Remote, interval: float, revisions: Collection[str] = (), *, tenant: str = ""
    ) -> None:
        """Check a remote at least once in each interval, and call the listener for the affected followers.

        The slots, memory and disk of the remote count for the tenants that follow it: each has a share. A follower is
        affected if one of its revisions resolves to another commit, or by every change if it names no revision. All
        followers are affected when the remote fails, and when it answers again. A follower follows one remote.
        """
        if self._followed.get(who, remote.key) != remote.key:
            self.unfollow(who)
        self._followed[who] = remote.key
        self._tenants.setdefault(remote.key, {})[who] = tenant
        self._watch(remote).follow(who, interval, revisions)

    def unfollow(self, who: Hashable) -> None:
        """Stop following."""
        key = self._followed.pop(who, None)
        if key is None:
            return
        if tenants := self._tenants.get(key):
            tenants.pop(who, None)
            if not tenants:
                del self._tenants[key]
        if watch := self._watches.get(key):
            watch.unfollow(who)

    def status(self, remote: Remote) -> RemoteStatus:
        """Return the result of the last check of a remote; empty for a remote without a check."""
        watch = self._watches.get(remote.key)
        return watch.status if watch else RemoteStatus()

    async def resolve(self, remote: Remote, revision: str) -> Commit:
        """Return the commit of a revision now.

        It uses the last check if that is not older than the interval, else a new one. Raises the failure of the check,
        or `RevisionNotFound`. A full commit id needs no check, so it works in an outage.
        """
        self._transport.parse_url(remote.url)
        check_revision(revision)
        return pinned(revision) or await self._watch(remote).resolve(revision)

    async def refresh(self, remote: Remote, since: float | None = None) -> None:
        """Wait for a check of a remote that started at this time of the loop's clock, or later; default: now.

        It is for hints that the remote has changed. `status` returns the result.
        """
        await self._watch(remote).check(asyncio.get_running_loop().time() if since is None else since)

    async def tree(self, remote: Remote, commit: Commit | str, *, submodules: bool = False) -> CommitTree:
        """Return the files of a commit, and fetch the commit if it is not on disk.

        A commit on disk needs no server. The files of submodules are part of the tree if they are requested.
        """
        return await self._tree(remote, Commit(commit) if isinstance(commit, str) else commit, _DEEPEST * submodules)

    async def large_blob(self, remote: Remote, commit: Commit, entry: TreeEntry) -> AsyncGenerator[bytes, None]:
        """Yield the content of a file in pieces, through a file on disk: a slow reader holds no memory and no process.

        For files that are too large for `CommitTree.read`, or that many read at the same time.
        """

        async def copy(descriptor: int) -> None:
            mirror = await self._fetched(remote, commit)
            await mirror.copy_blob(commit, entry, descriptor, partial(self._room, mirror))

        chunks = self._large_blobs.read((remote.key, entry.id), entry.size, copy, on_behalf_of.get())
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    async def verify(self, remote: Remote, commit: Commit, keys: Mapping[str, bytes]) -> str:
        """Return the signer of a commit, or of its tag. Raises `Unverified` if none of these keys signed."""
        key = (remote.key, commit, blake2b(msgspec.msgpack.encode(sorted(keys.items()))).hexdigest())
        if key not in self._verified:
            who = await self._share(("verify", *key), lambda: self._verify(remote, commit, keys))
            while len(self._verified) >= _VERIFIED:
                self._verified.pop(next(iter(self._verified)))
            self._verified[key] = who
        return self._verified[key]

    async def close(self) -> None:
        """Stop all work, including fetches in progress. Mirrors stay on disk."""
        tasks = list(self._shared.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await asyncio.gather(*(watch.close() for watch in self._watches.values()))
        await asyncio.gather(*(mirror.close() for mirror in self._mirrors.values()))
        self._transport.close()
        await asyncio.to_thread(self._folder.close)

    def _watch(self, remote: Remote) -> RemoteWatch:
        watch = self._watches.get(remote.key)
        if watch is None:

            async def look(everything: bool) -> Refs:
                return await self._transport.refs(remote, everything=everything)

            watch = self._watches[remote.key] = RemoteWatch(look, self._notify, self._kept)
            idle = [key for key, each in self._watches.items() if each.is_idle and each is not watch]
            for key in idle[: max(0, len(idle) - _UNFOLLOWED)]:
                self._kept.drop(self._watches.pop(key))
        self._watches.move_to_end(remote.key)
        return watch

    def _mirror(self, remote: Remote, tenant: str = "") -> Mirror:
        name = self._folder.name(remote, tenant)
        self._folder.touch(name)
        if name not in self._mirrors:
            path, lock = self._folder.mirror(name), self._folder.lock(name)
            self._mirrors[name] = Mirror(path, lock, remote, self._transport, self._limits, tenant=tenant)
        return self._mirrors[name]

    def _mirror_with(self, remote: Remote, commit: Commit) -> Mirror:
        """Return the mirror that has a commit, or is to have it.

        A commit that somebody names by its id need not exist, and to look for it may take minutes and much disk. So it
        is fetched into a mirror of the tenant that asks for it: nobody else waits for that, or runs out of room by it.
        """
        mirror, tenant = self._mirror(remote), on_behalf_of.get()
        return mirror if commit.ref or not tenant or mirror.has(commit) else self._mirror(remote, tenant)

    async def _tree(self, remote: Remote, commit: Commit, levels: int) -> CommitTree:
        key = (remote.key, commit.sha, levels)
        if kept := self._trees.get(key):
            self._trees.move_to_end(key)
            return kept[0]
        return await self._share(key, lambda: self._load(remote, commit, levels))

    async def _load(self, remote: Remote, commit: Commit, levels: int) -> CommitTree:
        mirror = await self._fetched(remote, commit)

        async def hold(size: int) -> Ticket:
            return await self._budget.take(size, self._tenants_of(remote.key))

        listing, tenant = await mirror.listing(commit, partial(self._room, mirror), hold)

        async def blobs(entries: Sequence[TreeEntry]) -> Mapping[str, bytes]:
            fetched = await self._fetched(remote, commit)
            return await fetched.blobs(commit, entries, partial(self._room, fetched))

        tree = CommitTree(commit, listing, blobs, self._limits)
        if levels and tree.submodules:
            mounts = await self._mounts(mirror, tree, levels)
            cost = tree.cost + sum(mount.cost for mount in mounts.values())
            # Each level of submodules adds one list of the files below it.
            if cost > (most := self._limits.listing_bytes // _DEEPEST):
                raise TooLarge(
                    "make paths shorter or files fewer: the list of the commit's files, with those of its submodules, "
                    f"takes more than {most} bytes"
                )
            ticket = await hold(cost)
            tree = CommitTree(commit, listing, blobs, self._limits, mounts)
            ticket.tie(tree)
        self._trees[remote.key, commit.sha, levels] = tree, tenant
        return tree

    async def _mounts(self, mirror: Mirror, tree: CommitTree, levels: int) -> dict[str, CommitTree]:
        """Return the trees of a tree's submodules, by path."""
        if len(tree.submodules) > self._limits.submodules:
            raise TooLarge(f"the commit has more than {self._limits.submodules} submodules")
        said = tree.entry(".gitmodules")
        places = urls(await mirror.settings(said.id)) if said else {}
        mounts: dict[str, CommitTree] = {}
        at = self._transport.parse_url(mirror.remote.url)
        for entry in tree.submodules:
            if entry.path not in places:
                raise Refused(f"the submodule {entry.path!r} has no URL in .gitmodules")
            url = absolute(mirror.remote.url, places[entry.path])
            remote = remote_of(mirror.remote, at, url, self._transport.parse_url(url))
            self._parents.setdefault(remote.key, set()).add(mirror.remote.key)
            self._parents.move_to_end(remote.key)
            while len(self._parents) > _MOST_PARENTS:
                self._parents.popitem(last=False)
            mounts[entry.path] = await self._tree(remote, Commit(entry.id), levels - 1)
        return mounts

    async def _fetched(self, remote: Remote, commit: Commit) -> Mirror:
        """Return the mirror, with the commit in it."""
        mirror = self._mirror_with(remote, commit)
        if not mirror.has(commit):
            await self._share(("fetch", remote.key, mirror.tenant, commit), lambda: self._fetch(mirror, commit))
        return mirror

    async def _fetch(self, mirror: Mirror, commit: Commit) -> None:
        keep = {tree.commit.sha for tree, _ in self._trees.values()}
        name = mirror.path.stem
        before = await asyncio.to_thread(size, mirror.path)
        while True:
            try:
                with FETCH_SECONDS.time():
                    await mirror.fetch(commit, partial(self._room, mirror), keep=keep)
            except MirrorOverQuota as error:
                FETCHES.labels(error.reason).inc()
                if not await self._renew(mirror, error.tenant):
                    raise
                before = 0
            except CacheFailure as error:
                FETCHES.labels(error.reason).inc()
                if not await self._evict(1):
                    raise
            except GitError as error:
                FETCHES.labels(error.reason).inc()
                raise
            else:
                FETCHES.labels("ok").inc()
                self._sizes[name] = await asyncio.to_thread(size, mirror.path)
                self._asked.setdefault(name, Counter())[on_behalf_of.get()] += max(0, self._sizes[name] - before)
                return

    async def _renew(self, mirror: Mirror, tenant: str) -> bool:
        """Remove a mirror that only one tenant follows, from time to time, to drop its old commits."""
        name, now = mirror.path.stem, asyncio.get_running_loop().time()
        recently = now - self._renewed.get(name, float("-inf")) < _RECENT
        if recently or not self._sizes.get(name) or set(self._payers(mirror)) != {tenant}:
            return False
        self._renewed[name] = now
        return await self._remove(name)

    async def _remove(self, name: str) -> bool:
        removed = await asyncio.to_thread(self._folder.remove, name)
        if removed:
            self._sizes.pop(name, None)
            self._asked.pop(name, None)
        return removed

    async def _verify(self, remote: Remote, commit: Commit, keys: Mapping[str, bytes]) -> str:
        mirror = await self._fetched(remote, commit)
        ids = [each for each in (commit.sha, commit.tag) if each]
        raw = await mirror.objects(commit, ids, partial(self._room, mirror))
        caps = ProcessLimits(
            _CHECK_SECONDS,
            output=_CHECK_BYTES,
            file_size=_CHECK_BYTES,
            memory=self._limits.local_memory_bytes,
            unconfined=self._transport.unconfined,
        )
        async with self._transport.read(remote):
            return await signer(commit, raw[commit.sha], raw.get(commit.tag, b""), keys, self._folder.run, caps=caps)

    @asynccontextmanager
    async def _room(self, mirror: Mirror, wanted: int, *, passing: bool = False) -> AsyncIterator[int]:
        """Reserve disk space for this number of bytes, or for the bytes that are left; free some first if necessary."""
        if passing:
            async with self._free_room(mirror, wanted) as allowed:
                yield allowed
            return
        async with self._promise(wanted) as promised, self._free_room(mirror, promised) as allowed:
            try:
                yield allowed
            except CacheFailure:
                if promised < wanted and allowed == promised:
                    raise MirrorOverQuota(on_behalf_of.get()) from None
                raise

    @asynccontextmanager
    async def _promise(self, wanted: int) -> AsyncIterator[int]:
        """Count bytes for the quota of the tenant, up to the rest of the quota."""
        tenant = on_behalf_of.get()
        quota = self._quota(tenant)
        if quota is None:
            yield wanted
            return
        promised = min(wanted, quota - self._charged(tenant) - self._promised[tenant])
        if promised <= 0:
            raise MirrorOverQuota(tenant)
        self._promised[tenant] += promised
        try:
            yield promised
        finally:
            self._promised -= Counter({tenant: promised})

    def _charged(self, tenant: str) -> int:
        """Return the bytes of the followed mirrors that were fetched for a tenant."""
        return sum(
            charged(self._sizes.get(name, 0), self._asked.get(name, {}), tenant)
            for name, mirror in self._mirrors.items()
            if tenant in self._payers(mirror)
        )

    @asynccontextmanager
    async def _free_room(self, mirror: Mirror, wanted: int) -> AsyncIterator[int]:
        """Reserve a part of the space of all mirrors."""
        cache = self._limits.cache_bytes
        enough = min(wanted, cache // _SPARE)
        free = cache - await self._used()
        if free < enough:
            free = cache - await self._used(anew=True)
        if free < enough:
            free += await self._evict(enough - free)
        tenant = min(self._payers(mirror), key=self._used_by, default="")
        if tenant:
            # A caller without a tenant can take all; each tenant leaves half to the others.
            free = min(free, cache // 2 - self._used_by(tenant))
        if free <= 0:
            raise no_room(self._limits)
        allowed = min(wanted, free)
        self._reserved[tenant] += allowed
        try:
            yield allowed
        finally:
            self._reserved[tenant] -= allowed
            if not self._reserved[tenant]:
                del self._reserved[tenant]

    def _used_by(self, tenant: str) -> int:
        """Return the bytes on disk that count for a tenant: mirrors that nobody else follows."""
        names = (name for name, mirror in self._mirrors.items() if set(self._payers(mirror)) == {tenant})
        return sum(self._sizes.get(name, 0) for name in names) + self._reserved[tenant]

    def _payers(self, mirror: Mirror) -> Collection[str]:
        """Return the tenants that a mirror counts for: all followers of its remote, or the one tenant of the mirror."""
        tenants = self._tenants_of(mirror.remote.key)
        return [tenant for tenant in tenants if tenant == mirror.tenant] if mirror.tenant else tenants

    def _tenants_of(self, key: str) -> Collection[str]:
        """Return the followers of a remote, or of its parent if it is a submodule."""
        keys = {key}
        for _ in range(_DEEPEST + 1):
            if found := {tenant for each in keys for tenant in self._tenants.get(each, {}).values()}:
                return sorted(found)
            keys = {parent for each in keys for parent in self._parents.get(each, ())}
        return ()

    async def _used(self, *, anew: bool = False) -> int:
        """Return the bytes of all mirrors; for those of other processes, the size of a moment ago."""
        now = asyncio.get_running_loop().time()
        if anew or now - self._measured > _MEASURED:
            self._measured = now
            await self._evict(0)
            self._sizes = {use.name: use.size for use in await asyncio.to_thread(self._folder.mirrors_by_use)}
        return sum(self._sizes.values()) + self._reserved.total()

    async def _evict(self, wanted: int) -> int:
        """Remove mirrors without followers until this much space is free; return the freed space.

        Mirrors without use for a very long time are removed in any case.
        """
        followed = {name for name, mirror in self._mirrors.items() if self._is_used(mirror)}
        freed = 0
        for use in await asyncio.to_thread(self._folder.mirrors_by_use):
            # Another process may follow a mirror that it created.
            least = 0.0 if use.name in self._mirrors else _RECENT
            if use.name in followed or age(use) < (least if freed < wanted else _FORGOTTEN):
                continue
            if await self._remove(use.name):
                freed += use.size
                self._renewed.pop(use.name, None)
        return freed

    def _is_used(self, mirror: Mirror) -> bool:
        key = mirror.remote.key
        watch = self._watches.get(key)
        return bool(watch and watch.is_followed and (not mirror.tenant or self._payers(mirror))) or any(
            isinstance(each, tuple) and key in each for each in self._shared
        )

    def _forget_tree(self, tenant: str | None) -> bool:
        """Drop the least recently used tree, of a tenant or of all."""
        for key, (_, whose) in self._trees.items():
            if tenant in (None, whose):
                del self._trees[key]
                return True
        return False

    async def _share(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> T:
        """Do some work once for all concurrent callers. It continues if the callers are cancelled."""
        while True:
            task = self._shared.get(key)
            if task is None:
                task = self._shared[key] = asyncio.ensure_future(work())
                task.add_done_callback(lambda done: self._forget_shared(key, done))
            await asyncio.wait([task])
            try:
                return cast("T", task.result())
            except MirrorOverQuota as error:
                if error.tenant == on_behalf_of.get():
                    raise
                # It was started for a tenant without quota: start it again for this one.
            finally:
                del task  # a reference cycle of an error would keep its frames in memory

    def _forget_shared(self, key: Hashable, done: "asyncio.Future[Any]") -> None:
        self._shared.pop(key, None)
        if not done.cancelled():
            done.exception()  # there may be no caller left
