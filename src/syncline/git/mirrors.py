"""All remotes of all syncs: followed, resolved, fetched and read, each once for everybody."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import msgspec

from syncline.git.errors import CacheFailure, GitError, Refused, TooLarge
from syncline.git.folder import Folder, age, size
from syncline.git.limits import Limits
from syncline.git.metrics import FETCH_SECONDS, FETCHES
from syncline.git.mirror import Mirror, no_room
from syncline.git.refs import Commit, Refs, check_revision, pinned
from syncline.git.remotes import Remote
from syncline.git.signatures import signer
from syncline.git.submodules import absolute, remote_of, urls
from syncline.git.transport import Transport
from syncline.git.tree import Entry, Tree
from syncline.git.watch import Status, Watch

T = TypeVar("T")

_UNFOLLOWED = 100
_VERIFIED = 10_000
_RECENT = 600.0
_FORGOTTEN = 24 * 3600.0
_MEASURED = 60.0
_DEEPEST = 4
_SPARE = 10


def _nobody(_: Hashable) -> None:
    """Tell nobody."""


class Mirrors:
    """Mirrors of repositories in a folder, which several processes may share.

    Checks, fetches and trees are shared by all who ask for the same, and who stops waiting stops nothing for others.
    """

    def __init__(
        self,
        folder: Path,
        *,
        limits: Limits | None = None,
        allow_insecure: bool = False,
        allow_loopback: bool = False,
        on_change: Callable[[Hashable], None] = _nobody,
    ) -> None:
        self._limits = limits or Limits()
        self._on_change = on_change
        self._folder = Folder(folder)
        self._transport = Transport(
            self._folder.run, self._limits, allow_insecure=allow_insecure, allow_loopback=allow_loopback
        )
        self._watches: OrderedDict[str, Watch] = OrderedDict()
        self._mirrors: dict[str, Mirror] = {}
        self._followed: dict[Hashable, str] = {}
        self._trees: OrderedDict[Hashable, Tree] = OrderedDict()
        self._verified: dict[Hashable, str] = {}
        self._shared: dict[Hashable, asyncio.Task[Any]] = {}
        self._sizes: dict[str, int] = {}
        self._measured = float("-inf")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def follow(self, who: Hashable, remote: Remote, interval: float, revisions: Collection[str] = ()) -> None:
        """Check a remote every so many seconds, at least, and tell `on_change` who is concerned.

        Told are those for whom a revision means something else than before, or, where they name none, of every change;
        and all when the remote fails, and when it answers again. Whoever followed another remote no longer does.
        """
        if self._followed.get(who, remote.key) != remote.key:
            self.unfollow(who)
        self._followed[who] = remote.key
        self._watch(remote).follow(who, interval, revisions)

    def unfollow(self, who: Hashable) -> None:
        """Stop following."""
        key = self._followed.pop(who, None)
        if key is not None and (watch := self._watches.get(key)):
            watch.unfollow(who)

    def status(self, remote: Remote) -> Status:
        """Return how the last check of a remote went; nothing is known of one that was never asked for."""
        watch = self._watches.get(remote.key)
        return watch.status if watch else Status()

    async def resolve(self, remote: Remote, revision: str) -> Commit:
        """Return the commit that a revision means now.

        By the last check if it is no older than the interval, else by a new one. Raises the failure of that check, or
        `RevisionNotFound`. A full commit id needs no check, so it is good in an outage.
        """
        self._transport.locate(remote.url)
        check_revision(revision)
        return pinned(revision) or await self._watch(remote).resolve(revision)

    async def refresh(self, remote: Remote, since: float | None = None) -> None:
        """Have a check of a remote that began now, or at this time of the loop's clock or later.

        Somebody says that it may have changed; `status` tells how it went.
        """
        await self._watch(remote).check(asyncio.get_running_loop().time() if since is None else since)

    async def tree(self, remote: Remote, commit: Commit | str, *, submodules: bool = False) -> Tree:
        """Return the files of a commit, fetching it if it is not here yet.

        What is here needs no server. The files of submodules are among those of the tree if they are asked for.
        """
        return await self._tree(remote, Commit(commit) if isinstance(commit, str) else commit, _DEEPEST * submodules)

    async def verify(self, remote: Remote, commit: Commit, keys: Mapping[str, bytes]) -> str:
        """Return who signed a commit, or the tag that led to it; raise `Unverified` if none of these keys did."""
        key = (remote.key, commit, blake2b(msgspec.msgpack.encode(sorted(keys.items()))).hexdigest())
        if key not in self._verified:
            who = await self._share(("verify", *key), lambda: self._verify(remote, commit, keys))
            while len(self._verified) >= _VERIFIED:
                self._verified.pop(next(iter(self._verified)))
            self._verified[key] = who
        return self._verified[key]

    async def close(self) -> None:
        """Stop everything; fetches under way are ended. Mirrors stay on disk."""
        tasks = list(self._shared.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await asyncio.gather(*(watch.close() for watch in self._watches.values()))
        await asyncio.gather(*(mirror.close() for mirror in self._mirrors.values()))
        self._transport.close()
        await asyncio.to_thread(self._folder.close)

    def _watch(self, remote: Remote) -> Watch:
        watch = self._watches.get(remote.key)
        if watch is None:

            async def look(everything: bool) -> Refs:
                return await self._transport.refs(remote, everything=everything)

            watch = self._watches[remote.key] = Watch(look, self._on_change)
            idle = [key for key, each in self._watches.items() if each.is_idle and each is not watch]
            for key in idle[: max(0, len(idle) - _UNFOLLOWED)]:
                del self._watches[key]
        self._watches.move_to_end(remote.key)
        return watch

    def _mirror(self, remote: Remote) -> Mirror:
        name = self._folder.name(remote)
        self._folder.touch(name)
        if name not in self._mirrors:
            path, lock = self._folder.mirror(name), self._folder.lock(name)
            self._mirrors[name] = Mirror(path, lock, remote, self._transport, self._limits)
        return self._mirrors[name]

    async def _tree(self, remote: Remote, commit: Commit, levels: int) -> Tree:
        key = (remote.key, commit.sha, levels)
        if tree := self._trees.get(key):
            self._trees.move_to_end(key)
            return tree
        return await self._share(key, lambda: self._load(remote, commit, levels))

    async def _load(self, remote: Remote, commit: Commit, levels: int) -> Tree:
        mirror = await self._fetched(remote, commit)
        listing = await mirror.listing(commit, self._room)

        async def blobs(entries: Sequence[Entry]) -> Mapping[str, bytes]:
            fetched = await self._fetched(remote, commit)
            return await fetched.blobs(commit, entries, self._room)

        tree = Tree(commit, listing, blobs, self._limits)
        if levels and tree.submodules:
            tree = Tree(commit, listing, blobs, self._limits, await self._mounts(mirror, tree, levels))
        self._remember((remote.key, commit.sha, levels), tree)
        return tree

    async def _mounts(self, mirror: Mirror, tree: Tree, levels: int) -> dict[str, Tree]:
        """Return the trees of a tree's submodules, by where they are."""
        if len(tree.submodules) > self._limits.submodules:
            raise TooLarge(f"the commit has more than {self._limits.submodules} submodules")
        said = tree.entry(".gitmodules")
        places = urls(await mirror.settings(said.id)) if said else {}
        mounts: dict[str, Tree] = {}
        at = self._transport.locate(mirror.remote.url)
        for entry in tree.submodules:
            if entry.path not in places:
                raise Refused(f"the submodule {entry.path!r} has no URL in .gitmodules")
            url = absolute(mirror.remote.url, places[entry.path])
            remote = remote_of(mirror.remote, at, url, self._transport.locate(url))
            mounts[entry.path] = await self._tree(remote, Commit(entry.id), levels - 1)
        return mounts

    async def _fetched(self, remote: Remote, commit: Commit) -> Mirror:
        """Return the mirror, with the commit in it."""
        mirror = self._mirror(remote)
        if not mirror.has(commit):
            await self._share(("fetch", remote.key, commit), lambda: self._fetch(mirror, commit))
        return mirror

    async def _fetch(self, mirror: Mirror, commit: Commit) -> None:
        keep = {tree.commit.sha for tree in self._trees.values()}
        while True:
            try:
                with FETCH_SECONDS.time():
                    await mirror.fetch(commit, self._room, keep=keep)
            except CacheFailure as error:
                FETCHES.labels(error.reason).inc()
                if not await self._evict(1):
                    raise
            except GitError as error:
                FETCHES.labels(error.reason).inc()
                raise
            else:
                FETCHES.labels("ok").inc()
                name = self._folder.name(mirror.remote)
                self._sizes[name] = await asyncio.to_thread(size, mirror.path)
                return

    async def _verify(self, remote: Remote, commit: Commit, keys: Mapping[str, bytes]) -> str:
        mirror = await self._fetched(remote, commit)
        raw = await mirror.objects(commit, [each for each in (commit.sha, commit.tag) if each], self._room)
        return await signer(commit, raw[commit.sha], raw.get(commit.tag, b""), keys, self._folder.run)

    async def _room(self) -> int:
        """Return how many bytes a fetch may write; make room first where there is little."""
        cache = self._limits.cache_bytes
        wanted = min(self._limits.repository_bytes, cache // _SPARE)
        free = cache - await self._used()
        if free < wanted:
            free = cache - await self._used(anew=True)
        if free < wanted:
            free += await self._evict(wanted - free)
        if free <= 0:
            raise no_room(self._limits)
        return min(self._limits.repository_bytes, free)

    async def _used(self, *, anew: bool = False) -> int:
        """Return how many bytes all mirrors take; those of other processes as they were a moment ago."""
        now = asyncio.get_running_loop().time()
        if anew or now - self._measured > _MEASURED:
            self._measured = now
            await self._evict(0)
            self._sizes = {use.name: use.size for use in await asyncio.to_thread(self._folder.uses)}
        return sum(self._sizes.values())

    async def _evict(self, wanted: int) -> int:
        """Remove mirrors that nobody follows until there is so much more room; return how much it is.

        Those that were not used for very long go in any case.
        """
        followed = {self._folder.name(mirror.remote) for mirror in self._mirrors.values() if self._is_used(mirror)}
        freed = 0
        for use in await asyncio.to_thread(self._folder.uses):
            # What another process made may be followed there.
            least = 0.0 if use.name in self._mirrors else _RECENT
            if use.name in followed or age(use) < (least if freed < wanted else _FORGOTTEN):
                continue
            if await asyncio.to_thread(self._folder.remove, use.name):
                freed += use.size
                self._sizes.pop(use.name, None)
        return freed

    def _is_used(self, mirror: Mirror) -> bool:
        key = mirror.remote.key
        watch = self._watches.get(key)
        return bool(watch and watch.is_followed) or any(
            isinstance(each, tuple) and key in each for each in self._shared
        )

    def _remember(self, key: Hashable, tree: Tree) -> None:
        self._trees[key] = tree
        size = sum(len(each.entries) for each in self._trees.values())
        while size > self._limits.trees and len(self._trees) > 1:
            _, old = self._trees.popitem(last=False)
            size -= len(old.entries)

    async def _share(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> T:
        """Do something once for all who want it now; it goes on when those who wait give up."""
        task = self._shared.get(key)
        if task is None:
            task = self._shared[key] = asyncio.ensure_future(work())
            task.add_done_callback(lambda done: self._settle(key, done))
        await asyncio.wait([task])
        return cast("T", task.result())

    def _settle(self, key: Hashable, done: "asyncio.Future[Any]") -> None:
        self._shared.pop(key, None)
        if not done.cancelled():
            done.exception()  # nobody may be left to hear of it
