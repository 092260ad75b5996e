"""Which pushes a sync need not be woken for: those that change nothing that it was built from.

What a turn does follows from the sync, the objects that it names, the clusters, the clock, and its repository. All but
the last wake the sync by themselves when they change. So when only the repository has, a sync whose last turn left
nothing to do has nothing to do now either, as long as all that went into its build is the same at the new commit. That
is looked up in the tree, for all syncs of a repository in one go: no turn, no render, no request.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping

import structlog
from msgspec import Struct

from syncline.api.configsync import ConfigSyncSpec
from syncline.api.source import GitSource
from syncline.controllers.building import Made, is_same
from syncline.controllers.configsynckind import GitReport
from syncline.controllers.forest import Forest
from syncline.controllers.laps import Lapped
from syncline.controllers.reporting import Report
from syncline.git import GitError, Mirrors, Remote, Tree
from syncline.kube.cache import Key

log = structlog.get_logger(__name__)

_SETTLED = frozenset({"Synced", "Skipped"})
# So long the loop may be kept from other work.
_STRETCH = 0.02


class Rest(Struct, frozen=True):
    """What a sync came to rest with: its repository, and by track what was built from which revisions of it."""

    remote: Remote
    tracks: tuple[tuple[Mapping[str, GitSource], Made], ...]
    """The sources by their folders, and what was made of them."""


def rest_of(spec: ConfigSyncSpec, report: Report, remotes: Mapping[GitSource, Remote]) -> Rest | None:
    """Return what a sync is at rest with after a turn; None where something is left to do, or may be at any commit."""
    if not isinstance(report, GitReport) or report.problem is not None or report.retry or report.waits:
        return None
    # Under the policy Rollback a commit means more than its files.
    if not report.done or spec.failure_policy == "Rollback":
        return None
    if any(outcome.state not in _SETTLED for outcome in report.outcomes or ()):
        return None
    tracks = tuple(track for one in report.laps if (track := _track(spec, one)) is not None)
    sources = {git for git_by_folder, _ in tracks for git in git_by_folder.values()}
    found = {remote.key: remote for git in sources if (remote := remotes.get(git)) is not None}
    if len(tracks) < len(report.laps) or len(found) != 1 or not sources <= remotes.keys():
        return None
    return Rest(next(iter(found.values())), tracks)


def _track(spec: ConfigSyncSpec, one: Lapped) -> tuple[Mapping[str, GitSource], Made] | None:
    lap = one.lap
    follows = lap.decision is None or lap.decision.reason == "Head"
    if lap.made is None or not lap.certain or not follows or lap.course.rollback is not None:
        return None
    if spec.wait and one.health != "Healthy":
        return None
    sources = {strand.folder: strand.git for strand in lap.track.strands if strand.git is not None}
    # Who signed it matters of every commit, whatever is in it.
    if len(sources) < len(lap.track.strands) or any(git.verify is not None for git in sources.values()):
        return None
    return sources, lap.made


class Rests:
    """The syncs that are at rest. `wake` is called for those that a push concerns, or may concern."""

    def __init__(self, mirrors: Mirrors, wake: Callable[[Key], None]) -> None:
        self._mirrors = mirrors
        self._wake = wake
        self._at_rest: dict[Key, Rest] = {}
        self._news: dict[str, dict[Key, None]] = {}
        self._looking: dict[str, asyncio.Task[None]] = {}

    def settle(self, key: Key, rest: Rest | None) -> None:
        """Note what a turn has ended with."""
        if rest is not None:
            self._at_rest[key] = rest

    def disturb(self, key: Key) -> None:
        """Note that a turn begins, or that there is no such sync any more."""
        self._at_rest.pop(key, None)

    def told(self, key: Key, remote: str) -> None:
        """Take the news that a remote (by its key) which a sync follows has changed, failed or answers again."""
        if key not in self._at_rest:
            self._wake(key)
            return
        self._news.setdefault(remote, {})[key] = None
        if remote not in self._looking:
            self._looking[remote] = asyncio.get_running_loop().create_task(self._look(remote))

    async def looked(self) -> None:
        """Wait until all news that came so far were looked at."""
        await asyncio.gather(*self._looking.values())

    async def _look(self, remote: str) -> None:
        try:
            while news := self._news.pop(remote, None):
                await self._sort(news)
        finally:
            del self._looking[remote]

    async def _sort(self, news: Iterable[Key]) -> None:
        clock = asyncio.get_running_loop().time
        trees: dict[tuple[str, bool], Tree] = {}
        since = clock()
        for key in news:
            rest = self._at_rest.get(key)
            # Who is in the middle of a turn, or had one meanwhile, may have seen either commit.
            if rest is None or not await self._is_same(rest, trees) or self._at_rest.get(key) is not rest:
                self._wake(key)
            if clock() - since > _STRETCH:
                await asyncio.sleep(0)
                since = clock()

    async def _is_same(self, rest: Rest, trees: dict[tuple[str, bool], Tree]) -> bool:
        """Whether a turn would find what the last one found; where that cannot be told, it is for the turn to say."""
        try:
            for sources, made in rest.tracks:
                for git in sources.values():
                    if (git.revision, git.submodules) not in trees:
                        commit = await self._mirrors.resolve(rest.remote, git.revision)
                        tree = await self._mirrors.tree(rest.remote, commit, submodules=git.submodules)
                        trees[git.revision, git.submodules] = tree
                forest = Forest({folder: trees[git.revision, git.submodules] for folder, git in sources.items()})
                if not is_same(made, forest):
                    return False
        except GitError:
            return False
        except Exception:
            log.exception("a push could not be looked at; its syncs take their turns")
            return False
        return True
