"""Commits for a branch of a repository: made without a checkout, pushed, and never by force.

A commit is made in a repository of its own, which borrows the objects of the mirror: the mirror is not changed. It goes
on top of the branch if the server has the branch, else on top of the given commit. If somebody else has pushed
meanwhile, it is made anew. One commit at a time is made for a repository.
"""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from weakref import WeakValueDictionary

from msgspec import Struct

from syncline.confinement.programs import Unconfined
from syncline.core.publish_plan import ancestors
from syncline.fairness import FairSemaphore, on_behalf_of
from syncline.git.errors import (
    CacheFailure,
    GitError,
    NeedsMore,
    PushRejected,
    Refused,
    RepositoryUnreachable,
    TooLarge,
)
from syncline.git.limits import Limits
from syncline.git.mirror import Mirror, no_room
from syncline.git.process import ProcessLimits, ProcessResult, run
from syncline.git.refs import HEADS, Commit
from syncline.git.remotes import Remote
from syncline.git.tool_errors import Damaged, NotOffered, PushOutdated
from syncline.git.transport import GitTransport

ATTEMPTS = 5
"""The maximum number of attempts if somebody else pushes at the same time."""
COMMITTER = "Syncline", "syncline@syncline.invalid"
_SHA1_DIGITS = 40
_TIP = "refs/syncline/tip"
_BASE = "refs/syncline/base"
_LOCAL_SECONDS = 60.0
_OUTPUT = 1024 * 1024
_PRIVATE = 0o700
_SETTINGS = tuple(
    part
    for setting in (
        *("core.hooksPath=/dev/null", "gc.auto=0", "safe.directory=*", "core.bigFileThreshold=4m"),
        *("core.deltaBaseCacheLimit=16m", "commit.gpgSign=false", "core.autocrlf=false", "core.protectNTFS=true"),
        "core.protectHFS=true",
    )
    for part in ("-c", setting)
)


class FileChange(Struct, frozen=True):
    """A file of a commit."""

    path: str
    content: Path | None
    """A file with the content; None: the path is deleted."""
    executable: bool = False


class PushWanted(Struct, frozen=True, kw_only=True):
    """The changes of a commit, and its branch."""

    base: Commit
    """The first commit of a new branch."""
    branch: str
    """The name of the branch, without `refs/heads/`."""
    changes: Sequence[FileChange]
    author: tuple[str, str]
    """The name and the address of the author."""
    message: str


class PushedCommit(Struct, frozen=True):
    """The state of the branch on the server."""

    commit: str
    is_new: bool
    """False if the branch already had all changes."""


Room = Callable[[Mirror, int], AbstractAsyncContextManager[int]]
"""Reserves disk space for a time."""


class BranchPushes:
    """Makes commits for all repositories."""

    def __init__(
        self,
        transport: GitTransport,
        limits: Limits,
        folder: Path,
        fetched: Callable[[Remote, Commit], Awaitable[Mirror]],
        room: Room,
    ) -> None:
        """Make commits below `folder`, a private one. `fetched` returns the mirror with a commit in it."""
        self._transport = transport
        self._limits = limits
        self._folder = folder
        self._fetched = fetched
        self._room = room
        self._turns: WeakValueDictionary[str, FairSemaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def spool(self, remote: Remote, base: Commit, size: int) -> AsyncIterator[Path]:
        """Return a private folder for changes of this size, during a block. Raises `GitError`."""
        mirror = await self._fetched(remote, base)
        async with self._room(mirror, size) as allowed, self._private() as folder:
            if allowed < size:
                raise no_room(self._limits)
            yield folder

    @asynccontextmanager
    async def _private(self) -> AsyncIterator[Path]:
        try:
            self._folder.mkdir(_PRIVATE, parents=True, exist_ok=True)
            folder = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=self._folder, prefix="changes-"))
        except OSError as error:
            raise CacheFailure(f"the folder for mirrors cannot be written: {error.strerror}") from None
        try:
            yield folder
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def push(self, remote: Remote, wanted: PushWanted) -> PushedCommit:
        """Commit changes to a branch, and push it. Raises `GitError`."""
        # By the whole remote: another proxy or authority at the same URL may be somebody who never answers.
        turn = self._turns.get(remote.key)
        if turn is None:
            turn = self._turns[remote.key] = FairSemaphore(1)
        async with turn.slot(on_behalf_of.get()):
            try:
                return await self._push(remote, wanted, self._limits.small_fetch_bytes, large=False)
            except (NeedsMore, TooLarge):
                async with self._transport.large(remote):
                    return await self._push(remote, wanted, self._limits.repository_bytes, large=True)
            except Damaged as damaged:
                raise RepositoryUnreachable(str(damaged)) from None

    async def _push(self, remote: Remote, wanted: PushWanted, most: int, *, large: bool) -> PushedCommit:
        mirror = await self._fetched(remote, wanted.base)
        own = sum(one.content.stat().st_size for one in wanted.changes if one.content is not None)
        async with self._room(mirror, most + 2 * own) as allowed, self._private() as folder:
            work = _Repository(folder / "work.git", mirror, self._transport, self._limits, allowed)
            await work.create(wanted.base)
            ids = await work.store([one.content for one in wanted.changes if one.content is not None])
            for _ in range(ATTEMPTS):
                try:
                    return await self._attempt(remote, wanted, work, ids, large=large)
                except (PushOutdated, NotOffered):
                    continue
            raise PushRejected(f"others change the branch {wanted.branch} all the time; the operator retries later")

    async def _attempt(
        self, remote: Remote, wanted: PushWanted, work: "_Repository", ids: Mapping[Path, str], *, large: bool
    ) -> PushedCommit:
        ref = HEADS + wanted.branch
        refs = await self._transport.refs(remote, everything=True)
        if refs.head == ref:
            raise Refused(f"{wanted.branch} is the default branch of the repository, which is never written")
        _check_folders(wanted.branch, refs.ids)
        tip = refs.ids.get(ref, "")
        if tip and tip != wanted.base.sha:
            await self._transport.fetch(
                *(remote, work.path, [f"+{tip}:{_TIP}"]),
                depth=1,
                file_size=work.allowed,
                large=large,
                borrowed=(work.mirror.path,),
            )
        parent = tip or wanted.base.sha
        tree = await work.tree(parent, wanted.changes, ids)
        if tree == await work.tree_of(parent):
            return PushedCommit(parent, is_new=False)
        commit = await work.commit(tree, parent, wanted)
        await self._transport.push(remote, work.path, commit, ref, large=large, borrowed=(work.mirror.path,))
        return PushedCommit(commit, is_new=True)


def _check_folders(branch: str, refs: Mapping[str, str]) -> None:
    """Refuse a branch whose name is a folder of another branch, or the reverse: Git cannot have both."""
    names = branch.split("/")
    above = next((HEADS + "/".join(names[:end]) for end in range(1, len(names)) if _has(names[:end], refs)), None)
    if above is None:
        above = next((ref for ref in refs if ref.startswith(f"{HEADS}{branch}/")), None)
    if above is not None:
        raise Refused(f"the repository has the branch {above.removeprefix(HEADS)}, so that {branch} is not possible")


def _has(names: Sequence[str], refs: Mapping[str, str]) -> bool:
    return HEADS + "/".join(names) in refs


class _Repository:
    """The repository that a commit is made in. It borrows the objects of a mirror."""

    def __init__(self, path: Path, mirror: Mirror, transport: GitTransport, limits: Limits, allowed: int) -> None:
        self.path = path
        self.mirror = mirror
        self.allowed = allowed
        self._transport = transport
        self._limits = limits

    async def create(self, base: Commit) -> None:
        """Create the repository, with a commit of the mirror."""
        kind = "sha1" if len(base.sha) == _SHA1_DIGITS else "sha256"
        self.path.mkdir(_PRIVATE)
        await self._git(
            *("init", "--quiet", "--bare", "--template=", "--initial-branch=none", f"--object-format={kind}")
        )
        try:
            await asyncio.to_thread(self._borrow)
        except OSError as error:
            raise CacheFailure(f"the mirror cannot be used: {error.strerror}") from None
        await self._git("update-ref", _BASE, base.sha)

    def _borrow(self) -> None:
        information = self.path / "objects" / "info"
        information.mkdir(_PRIVATE, parents=True, exist_ok=True)
        (information / "alternates").write_text(f"{self.mirror.path / 'objects'}\n")
        shallow = self.mirror.path / "shallow"
        if shallow.exists():
            shutil.copyfile(shallow, self.path / "shallow")

    async def store(self, contents: Sequence[Path]) -> dict[Path, str]:
        """Store contents as blobs; return their ids."""
        if not contents:
            return {}
        given = "".join(f"{one}\n" for one in contents).encode()
        done = await self._git("hash-object", "-w", "--no-filters", "--stdin-paths", given=given, read=contents)
        ids = done.out.decode().split()
        if len(ids) != len(contents):
            raise CacheFailure("git has not stored all files")
        return dict(zip(contents, ids, strict=True))

    async def tree_of(self, commit: str) -> str:
        """Return the id of the tree of a commit."""
        return (await self._git("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}")).out.decode().strip()

    async def tree(self, parent: str, changes: Sequence[FileChange], ids: Mapping[Path, str]) -> str:
        """Return the id of the tree of a commit, with changes."""
        await self._check_places(parent, changes)
        index = {"GIT_INDEX_FILE": str(self.path / "index.new")}
        await self._git("read-tree", "--empty", environment=index)
        await self._git("read-tree", parent, environment=index)
        lines = [f"0 {'0' * len(parent)}\t{one.path}\0" for one in changes if one.content is None]
        lines += [
            f"{'100755' if one.executable else '100644'} {ids[one.content]}\t{one.path}\0"
            for one in changes
            if one.content is not None
        ]
        await self._git("update-index", "-z", "--index-info", given="".join(lines).encode(), environment=index)
        return (await self._git("write-tree", "--missing-ok", environment=index)).out.decode().strip()

    async def _check_places(self, parent: str, changes: Sequence[FileChange]) -> None:
        """Refuse a file in place of a folder, and the reverse: git would remove the existing content."""
        removed = {one.path for one in changes if one.content is None}
        written = {one.path for one in changes if one.content is not None}
        folders = {folder for path in written for folder in ancestors(path)} - removed
        places = sorted(written | folders)
        given = "".join(f"{parent}:{path}\n" for path in places).encode()
        done = await self._git("cat-file", "--batch-check=%(objecttype)", given=given, output=_OUTPUT + 2 * len(given))
        for path, kind in zip(places, done.out.decode(errors="replace").split("\n"), strict=False):
            if kind in ("blob", "tree", "commit") and (kind != "blob" if path in written else kind != "tree"):
                raise Refused(f"{path[:120]!r} is a file on one side and a folder on the other; see the branch")

    async def commit(self, tree: str, parent: str, wanted: PushWanted) -> str:
        """Make a commit, and return its id."""
        people = {
            "GIT_AUTHOR_NAME": wanted.author[0],
            "GIT_AUTHOR_EMAIL": wanted.author[1],
            "GIT_COMMITTER_NAME": COMMITTER[0],
            "GIT_COMMITTER_EMAIL": COMMITTER[1],
        }
        done = await self._git("commit-tree", tree, "-p", parent, given=wanted.message.encode(), environment=people)
        return done.out.decode().strip()

    async def _git(
        self,
        *arguments: str,
        given: bytes | None = None,
        environment: Mapping[str, str] | None = None,
        read: Sequence[Path] = (),
        output: int = _OUTPUT,
    ) -> ProcessResult:
        caps = ProcessLimits(
            _LOCAL_SECONDS,
            output=output,
            file_size=self.allowed,
            memory=self._limits.local_memory_bytes,
            write=(self.path,),
            read=(self.mirror.path, *sorted({one.parent for one in read})),
            unconfined=self._transport.unconfined,
        )
        command = ["git", *_SETTINGS, f"--git-dir={self.path}", *arguments]
        try:
            async with self._transport.read(self.mirror.remote):
                done = await run(command, caps, given=given, environment=environment)
        except Unconfined as refused:
            raise Refused(str(refused)) from None
        except TimeoutError:
            raise CacheFailure(f"git {arguments[0]} took longer than {_LOCAL_SECONDS:g} s; is the disk slow?") from None
        except OSError as error:
            raise CacheFailure(f"git cannot be started: {error.strerror}") from None
        if done.code:
            raise _failure(arguments[0], done)
        return done


def _failure(command: str, done: ProcessResult) -> GitError:
    if "memory" in done.error:
        return NeedsMore("the commit takes more memory than allowed")
    if "File too large" in done.error or "signal 25" in done.error:
        return TooLarge("the commit is larger than allowed")
    return CacheFailure(f"git {command} failed: {done.error.strip()[:200]}")
