"""Git sources: the repositories of ConfigSyncs, their commits, and the objects that serve as files."""

import asyncio
from collections.abc import Mapping

from syncline.api.configsync import SourceRevision
from syncline.api.source import GitSource
from syncline.controllers.errors import QuotaError, SourceError
from syncline.controllers.quotas import Quotas
from syncline.controllers.sources.references import ReferencedData, ReferenceReader, Requester
from syncline.controllers.sources.tree import DataTree, SourceTree
from syncline.controllers.tenancy import refuse
from syncline.core.environments import EnvironmentSpec, SourceSpec
from syncline.core.objects import Target
from syncline.git import Commit, CommitTree, CredentialError, GitError, Mirrors, Remote, pinned, remote_from
from syncline.git import errors as git_errors
from syncline.kube.cache import Key

# The interval of retries while a repository has a temporary failure. Most syncs are enqueued sooner.
LOOK_AGAIN = 60.0


class GitSources:
    """The sources of all ConfigSyncs."""

    def __init__(self, references: ReferenceReader, mirrors: Mirrors, quotas: Quotas) -> None:
        self._quotas = quotas
        self._references = references
        self._mirrors = mirrors
        self._remotes: dict[Key, dict[str, Remote]] = {}
        self._checked: dict[Key, tuple[Remote, ...]] = {}
        self._opened: dict[Key, dict[GitSource, Remote]] = {}

    async def follow(self, requester: Requester, environments: tuple[EnvironmentSpec, ...]) -> None:
        """Follow the present repositories of a sync, and no others. Raises `SyncError`.

        Their credentials are read here, and are used until the next call.
        """
        self._opened.pop(requester.key, None)
        wanted: dict[str, tuple[Remote, set[str]]] = {}
        opened: dict[GitSource, Remote] = {}
        for environment in environments:
            for source in environment.sources:
                if source.git is not None:
                    remote = opened[source.git] = await self.remote(requester, source.git)
                    wanted.setdefault(remote.key, (remote, set()))[1].add(source.git.revision)
        before = self._remotes.get(requester.key, {})
        for name in before.keys() - wanted.keys():
            self._mirrors.unfollow((requester.key, name))
        for name, (remote, revisions) in wanted.items():
            tenant = requester.key.namespace
            self._mirrors.follow((requester.key, name), remote, requester.interval, revisions, tenant=tenant)
        self._remotes[requester.key] = {name: remote for name, (remote, _) in wanted.items()}
        # A commit does not change, so an outage of the server does not matter.
        self._checked[requester.key] = tuple(
            remote for remote, revisions in wanted.values() if not all(map(pinned, revisions))
        )
        self._opened[requester.key] = opened

    def open_remotes(self, key: Key) -> Mapping[GitSource, Remote]:
        """Return the repositories that a sync follows; empty if one of them cannot be followed."""
        return self._opened.get(key, {})

    def forget(self, key: Key) -> None:
        """Stop following the repositories of a sync."""
        self._opened.pop(key, None)
        self._checked.pop(key, None)
        for name in self._remotes.pop(key, {}):
            self._mirrors.unfollow((key, name))

    def followers(self) -> tuple[Key, ...]:
        """Return the syncs that follow repositories."""
        return tuple(self._remotes)

    async def refresh(self, key: Key, since: float) -> None:
        """Check the repositories of a sync, unless a check that began at this time or later has ended."""
        await asyncio.gather(*(self._mirrors.refresh(remote, since) for remote in self._checked.get(key, ())))

    async def remote(self, requester: Requester, git: GitSource) -> Remote:
        """Return a repository with its credentials. Raises `SyncError`."""

        async def secret(name: str | None, what: str) -> Mapping[str, bytes] | None:
            if name is None:
                return None
            return (await self._references.get(requester, _secret(requester, name), what)).data

        auth = await secret(git.auth.secret_ref.name if git.auth else None, "source.git.auth.secretRef")
        if git.auth is not None and git.auth.type == "GitHubApp" and "baseURL" in (auth or {}):
            refuse(requester.limits.detour(f"baseURL in Secret {git.auth.secret_ref.name}"))
        try:
            return remote_from(
                git.repo,
                git.auth.type if git.auth is not None else None,
                auth,
                await secret(git.ca_secret_ref.name if git.ca_secret_ref else None, "source.git.caSecretRef"),
                await secret(git.proxy_secret_ref.name if git.proxy_secret_ref else None, "source.git.proxySecretRef"),
            )
        except CredentialError as error:
            raise SourceError("CredentialError", str(error), stalled=True) from error

    async def _remote(self, requester: Requester, git: GitSource) -> Remote:
        return self.open_remotes(requester.key).get(git) or await self.remote(requester, git)

    async def head(self, requester: Requester, git: GitSource) -> Commit:
        """Return the present commit of the revision in the spec. Raises `SyncError`."""
        try:
            return await self._mirrors.resolve(await self._remote(requester, git), git.revision)
        except GitError as error:
            raise source_error(error) from error

    async def source_tree(
        self, requester: Requester, environment: EnvironmentSpec, commits: Mapping[str, Commit]
    ) -> SourceTree:
        """Return the files of an environment at these commits (by folder). Raises `SyncError`."""
        trees: dict[str, CommitTree | DataTree] = {}
        for source in environment.sources:
            if source.git is not None:
                trees[source.folder] = await self._tree(requester, source.git, commits[source.folder])
            else:
                trees[source.folder] = DataTree((await self.object_data(requester, source)).data)
        return SourceTree(trees)

    async def object_data(self, requester: Requester, source: SourceSpec) -> ReferencedData:
        """Return the object that serves as a source. Raises `SyncError`."""
        assert source.object is not None  # noqa: S101 - the caller looked
        ref = "configMapRef" if source.object.kind == "ConfigMap" else "secretRef"
        return await self._references.get(requester, source.object, f"source.{ref}")

    async def revision(self, requester: Requester, source: SourceSpec, commit: Commit | None) -> SourceRevision:
        """Return the revision of a source."""
        revision = commit.sha if commit is not None else (await self.object_data(requester, source)).version
        return SourceRevision(name=source.folder, revision=revision)

    async def _tree(self, requester: Requester, git: GitSource, commit: Commit) -> CommitTree:
        try:
            remote = await self._remote(requester, git)
            if git.verify is not None:
                what = "source.git.verify.secretRef"
                keys = await self._references.get(requester, _secret(requester, git.verify.secret_ref.name), what)
                await self._mirrors.verify(remote, commit, keys.data)
            return await self._mirrors.tree(remote, commit, submodules=git.submodules)
        except git_errors.MirrorOverQuota as error:
            raise over_quota(self._quotas, requester.key.namespace) or source_error(error) from None
        except GitError as error:
            raise source_error(error) from error


def over_quota(quotas: Quotas, namespace: str) -> QuotaError | None:
    """Return the quota error for the repositories of a namespace; None if they fit the quota."""
    quota = quotas.mirror_quota(namespace)
    if quota is None:
        return None
    what = f"to keep more than {quota.limit} bytes of repositories for namespace {namespace}"
    return QuotaError(quota.exceeded(what, "use repositories that are smaller, or fewer"), again=LOOK_AGAIN)


def source_error(error: GitError) -> SourceError:
    """Return the error of a sync for a failure of its repository."""
    return SourceError(
        error.reason if error.reason != "Unreachable" else "GitUnreachable",
        str(error),
        status="Unknown" if error.transient else "False",
        again=LOOK_AGAIN if error.transient else None,
    )


def _secret(requester: Requester, name: str) -> Target:
    return Target(requester.key.namespace, name, "Secret")
