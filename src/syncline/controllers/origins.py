"""Where the files of a track come from: repositories and their commits, or objects of the sync's namespace."""

import asyncio
from collections.abc import Mapping

from syncline.api.configsync import SourceRevision
from syncline.api.source import GitSource
from syncline.controllers.forest import Forest, ObjectTree
from syncline.controllers.quotas import Quotas
from syncline.controllers.references import Asking, Held, References
from syncline.controllers.reporting import OverQuota, Problem
from syncline.controllers.tenancy import refuse
from syncline.controllers.tracks import Strand, Track
from syncline.core.objects import Target
from syncline.git import Commit, CredentialError, GitError, Mirrors, Remote, Tree, pinned, remote_from
from syncline.git import errors as git_errors
from syncline.kube.cache import Key

# While a repository fails for a reason that may pass, its syncs look again so often; most are told sooner.
LOOK_AGAIN = 60.0


class SourceProblem(Problem):
    """What is wrong with a source, or with what it holds."""


class Origins:
    """The sources of all ConfigSyncs."""

    def __init__(self, references: References, mirrors: Mirrors, quotas: Quotas) -> None:
        self._quotas = quotas
        self._references = references
        self._mirrors = mirrors
        self._remotes: dict[Key, dict[str, Remote]] = {}
        self._checked: dict[Key, tuple[Remote, ...]] = {}
        self._opened: dict[Key, dict[GitSource, Remote]] = {}

    async def remotes(self, asking: Asking, tracks: tuple[Track, ...]) -> None:
        """Follow the repositories of a sync, from now on these and no others. Raises `Problem`.

        What opens them is read here, and counts until it is read again.
        """
        self._opened.pop(asking.key, None)
        wanted: dict[str, tuple[Remote, set[str]]] = {}
        opened: dict[GitSource, Remote] = {}
        for track in tracks:
            for strand in track.strands:
                if strand.git is not None:
                    remote = opened[strand.git] = await self.remote(asking, strand.git)
                    wanted.setdefault(remote.key, (remote, set()))[1].add(strand.git.revision)
        before = self._remotes.get(asking.key, {})
        for name in before.keys() - wanted.keys():
            self._mirrors.unfollow((asking.key, name))
        for name, (remote, revisions) in wanted.items():
            tenant = asking.key.namespace
            self._mirrors.follow((asking.key, name), remote, asking.interval, revisions, tenant=tenant)
        self._remotes[asking.key] = {name: remote for name, (remote, _) in wanted.items()}
        # A commit is what it is, whatever the server says: an outage is not waited for.
        self._checked[asking.key] = tuple(
            remote for remote, revisions in wanted.values() if not all(map(pinned, revisions))
        )
        self._opened[asking.key] = opened

    def opened(self, key: Key) -> Mapping[GitSource, Remote]:
        """Return the repositories of a sync as they were last followed; none where one of them could not be."""
        return self._opened.get(key, {})

    def forget(self, key: Key) -> None:
        """Follow nothing for a sync any more."""
        self._opened.pop(key, None)
        self._checked.pop(key, None)
        for name in self._remotes.pop(key, {}):
            self._mirrors.unfollow((key, name))

    def followers(self) -> tuple[Key, ...]:
        """Return the syncs that follow repositories."""
        return tuple(self._remotes)

    async def refresh(self, key: Key, since: float) -> None:
        """Have the repositories of a sync checked, unless a check that began at this time or later has ended."""
        await asyncio.gather(*(self._mirrors.refresh(remote, since) for remote in self._checked.get(key, ())))

    async def remote(self, asking: Asking, git: GitSource) -> Remote:
        """Return a repository with what opens it. Raises `Problem`."""

        async def secret(name: str | None, what: str) -> Mapping[str, bytes] | None:
            if name is None:
                return None
            return (await self._references.read(asking, _secret(asking, name), what)).data

        auth = await secret(git.auth.secret_ref.name if git.auth else None, "source.git.auth.secretRef")
        if git.auth is not None and git.auth.type == "GitHubApp" and "baseURL" in (auth or {}):
            refuse(asking.limits.detour(f"baseURL in Secret {git.auth.secret_ref.name}"))
        try:
            return remote_from(
                git.repo,
                git.auth.type if git.auth is not None else None,
                auth,
                await secret(git.ca_secret_ref.name if git.ca_secret_ref else None, "source.git.caSecretRef"),
                await secret(git.proxy_secret_ref.name if git.proxy_secret_ref else None, "source.git.proxySecretRef"),
            )
        except CredentialError as error:
            raise SourceProblem("CredentialError", str(error), stalled=True) from error

    async def _remote(self, asking: Asking, git: GitSource) -> Remote:
        return self.opened(asking.key).get(git) or await self.remote(asking, git)

    async def head(self, asking: Asking, git: GitSource) -> Commit:
        """Return the commit that the spec's revision means now. Raises `Problem`."""
        try:
            return await self._mirrors.resolve(await self._remote(asking, git), git.revision)
        except GitError as error:
            raise source_problem(error) from error

    async def forest(self, asking: Asking, track: Track, commits: Mapping[str, Commit]) -> Forest:
        """Return the files of a track at these commits (by folder). Raises `Problem`."""
        trees: dict[str, Tree | ObjectTree] = {}
        for strand in track.strands:
            if strand.git is not None:
                trees[strand.folder] = await self._tree(asking, strand.git, commits[strand.folder])
            else:
                trees[strand.folder] = ObjectTree((await self.held(asking, strand)).data)
        return Forest(trees)

    async def held(self, asking: Asking, strand: Strand) -> Held:
        """Return the object that is a source. Raises `Problem`."""
        assert strand.object is not None  # noqa: S101 - the caller looked
        ref = "configMapRef" if strand.object.kind == "ConfigMap" else "secretRef"
        return await self._references.read(asking, strand.object, f"source.{ref}")

    async def revision(self, asking: Asking, strand: Strand, commit: Commit | None) -> SourceRevision:
        """Say what a source is at."""
        revision = commit.sha if commit is not None else (await self.held(asking, strand)).version
        return SourceRevision(name=strand.folder, revision=revision)

    async def _tree(self, asking: Asking, git: GitSource, commit: Commit) -> Tree:
        try:
            remote = await self._remote(asking, git)
            if git.verify is not None:
                what = "source.git.verify.secretRef"
                keys = await self._references.read(asking, _secret(asking, git.verify.secret_ref.name), what)
                await self._mirrors.verify(remote, commit, keys.data)
            return await self._mirrors.tree(remote, commit, submodules=git.submodules)
        except git_errors.OverQuota as error:
            raise self._over_quota(asking.key.namespace) or source_problem(error) from None
        except GitError as error:
            raise source_problem(error) from error

    def _over_quota(self, namespace: str) -> OverQuota | None:
        quota = self._quotas.mirror_quota(namespace)
        if quota is None:  # not any more
            return None
        what = f"to keep more than {quota.limit} bytes of repositories for namespace {namespace}"
        return OverQuota(quota.exceeded(what, "use repositories that are smaller, or fewer"), again=LOOK_AGAIN)


def source_problem(error: GitError) -> SourceProblem:
    """Say of a sync what went wrong between us and its repository."""
    return SourceProblem(
        error.reason if error.reason != "Unreachable" else "GitUnreachable",
        str(error),
        status="Unknown" if error.transient else "False",
        again=LOOK_AGAIN if error.transient else None,
    )


def _secret(asking: Asking, name: str) -> Target:
    return Target(asking.key.namespace, name, "Secret")
