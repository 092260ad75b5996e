"""Change filter: finds the pushes that need no reconcile, because they change no input of a sync.

A reconcile depends on the sync, the objects that it names, the clusters, the clock, and its repository. All but the
repository enqueue the sync when they change. So if only the repository has changed, and the last reconcile left nothing
to do, the sync has nothing to do if all inputs of its build are the same at the new commit. The inputs are compared in
the tree, for all syncs of a repository together: without reconciles, rendering or requests.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

import structlog
from msgspec import Struct

from syncline.api.configsync import ConfigSyncSpec
from syncline.api.source import GitSource
from syncline.controllers.sources.build import inputs_unchanged
from syncline.controllers.sources.desired import UnitResult
from syncline.controllers.sources.tree import SourceTree
from syncline.core.desired import BuildArtifact
from syncline.git import CommitTree, GitError, Mirrors, Remote
from syncline.kube.cache import Key

log = structlog.get_logger(__name__)

_APPLIED = frozenset({"Synced", "Skipped"})
# The longest time that the event loop is blocked.
_MAX_BLOCKING = 0.02


class BuiltFrom(Struct, frozen=True):
    """The inputs of the last reconcile of a settled sync: its repository, and its builds by environment."""

    remote: Remote
    environments: tuple[tuple[Mapping[str, GitSource], BuildArtifact], ...]
    """The sources by their folders, and the artifact that was built from them."""


def built_from(
    spec: ConfigSyncSpec, units: Sequence[UnitResult], remotes: Mapping[GitSource, Remote]
) -> BuiltFrom | None:
    """Return the inputs of a settled sync, or None if any other commit may matter."""
    # With the policy Rollback, a commit matters even without changed files.
    if spec.failure_policy == "Rollback":
        return None
    environments = tuple(environment for one in units if (environment := _environment(spec, one)) is not None)
    sources = {git for git_by_folder, _ in environments for git in git_by_folder.values()}
    found = {remote.key: remote for git in sources if (remote := remotes.get(git)) is not None}
    if len(environments) < len(units) or len(found) != 1 or not sources <= remotes.keys():
        return None
    return BuiltFrom(next(iter(found.values())), environments)


def _environment(spec: ConfigSyncSpec, one: UnitResult) -> tuple[Mapping[str, GitSource], BuildArtifact] | None:
    prepared = one.desired.prepared
    if prepared is None:
        return None
    follows = prepared.decision is None or prepared.decision.reason == "Head"
    if prepared.artifact is None or not prepared.certain or not follows or prepared.recorded.rollback is not None:
        return None
    if spec.wait and one.health != "Healthy":
        return None
    sources = {source.folder: source.git for source in prepared.environment.sources if source.git is not None}
    # The signature of every commit matters, even without changed files.
    if len(sources) < len(prepared.environment.sources) or any(git.verify is not None for git in sources.values()):
        return None
    return sources, prepared.artifact


class ChangeFilter:
    """The settled syncs. `enqueue` is called for those that a push affects, or may affect."""

    def __init__(self, mirrors: Mirrors, enqueue: Callable[[Key], None]) -> None:
        self._mirrors = mirrors
        self._enqueue = enqueue
        self._built_from: dict[Key, BuiltFrom] = {}
        self._news: dict[str, dict[Key, None]] = {}
        self._looking: dict[str, asyncio.Task[None]] = {}

    def remember(self, key: Key, rest: BuiltFrom | None) -> None:
        """Record the inputs of a reconcile that has ended."""
        if rest is not None:
            self._built_from[key] = rest

    def forget(self, key: Key) -> None:
        """Forget a sync, because a reconcile begins or the sync was deleted."""
        self._built_from.pop(key, None)

    def on_push(self, key: Key, remote: str) -> None:
        """Handle that a remote of a sync, by its key, has changed, has failed, or answers again."""
        if key not in self._built_from:
            self._enqueue(key)
            return
        self._news.setdefault(remote, {})[key] = None
        if remote not in self._looking:
            self._looking[remote] = asyncio.get_running_loop().create_task(self._look(remote))

    async def drained(self) -> None:
        """Wait until all changes so far are handled."""
        await asyncio.gather(*self._looking.values())

    async def _look(self, remote: str) -> None:
        try:
            while news := self._news.pop(remote, None):
                await self._sort(news)
        finally:
            del self._looking[remote]

    async def _sort(self, news: Iterable[Key]) -> None:
        clock = asyncio.get_running_loop().time
        trees: dict[tuple[str, bool], CommitTree] = {}
        since = clock()
        for key in news:
            rest = self._built_from.get(key)
            # A sync with a reconcile in progress or since then may have read either commit.
            if rest is None or not await self._is_same(rest, trees) or self._built_from.get(key) is not rest:
                self._enqueue(key)
            if clock() - since > _MAX_BLOCKING:
                await asyncio.sleep(0)
                since = clock()

    async def _is_same(self, rest: BuiltFrom, trees: dict[tuple[str, bool], CommitTree]) -> bool:
        """Whether a reconcile would have the same inputs as the last one; False if that cannot be known."""
        try:
            for sources, artifact in rest.environments:
                for git in sources.values():
                    if (git.revision, git.submodules) not in trees:
                        commit = await self._mirrors.resolve(rest.remote, git.revision)
                        tree = await self._mirrors.tree(rest.remote, commit, submodules=git.submodules)
                        trees[git.revision, git.submodules] = tree
                source_tree = SourceTree(
                    {folder: trees[git.revision, git.submodules] for folder, git in sources.items()}
                )
                if not inputs_unchanged(artifact, source_tree):
                    return False
        except GitError:
            return False
        except Exception:
            log.exception("a push could not be compared; its syncs are reconciled")
            return False
        return True
