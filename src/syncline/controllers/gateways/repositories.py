"""The repositories of IgnitionSyncs: opened with the credential of each sync, followed, resolved and read.

All kinds share one check of a remote, and one fetch of a commit (`syncline.git.Mirrors`).
"""

from collections.abc import AsyncGenerator, Mapping

from syncline.api.ignition_git import IgnitionGit, SecretKeySelector
from syncline.api.ignitionsync import KIND
from syncline.controllers.errors import SourceError
from syncline.controllers.quotas import Quotas
from syncline.controllers.sources.git import over_quota, source_error
from syncline.controllers.sources.references import ReferenceReader, Requester
from syncline.controllers.tenancy import refuse
from syncline.core.objects import Target
from syncline.git import (
    AuthType,
    Commit,
    CommitTree,
    CredentialError,
    GitError,
    MirrorOverQuota,
    Mirrors,
    Remote,
    TreeEntry,
    pinned,
    remote_from,
)
from syncline.kube.cache import Key

UNPOLLED = 24 * 3600.0
"""The interval of a sync without polling: webhooks and requests of people trigger checks."""
_KNOWN_HOSTS = "known_hosts"


class GatewayRepositories:
    """The repositories of all IgnitionSyncs."""

    def __init__(self, references: ReferenceReader, mirrors: Mirrors, quotas: Quotas) -> None:
        self._references = references
        self._mirrors = mirrors
        self._quotas = quotas
        self._followed: dict[Key, tuple[Remote, str]] = {}

    def followers(self) -> tuple[Key, ...]:
        """Return the syncs that follow repositories."""
        return tuple(self._followed)

    def follow(self, requester: Requester, remote: Remote, revision: str) -> None:
        """Follow a revision of a repository for a sync, in place of any other."""
        key = requester.key
        self._followed[key] = remote, revision
        self._mirrors.follow((KIND, key), remote, requester.interval, {revision}, tenant=key.namespace)

    def forget(self, key: Key) -> None:
        """Stop following the repository of a sync."""
        if self._followed.pop(key, None) is not None:
            self._mirrors.unfollow((KIND, key))

    async def refresh(self, key: Key, since: float) -> None:
        """Have the repository of a sync checked, unless a check that began at this time or later has ended."""
        remote, revision = self._followed.get(key, (None, ""))
        # A commit id never changes its meaning, so it needs no answer of the server.
        if remote is not None and pinned(revision) is None:
            await self._mirrors.refresh(remote, since)

    async def remote(self, requester: Requester, git: IgnitionGit) -> Remote:
        """Return a repository with its credential. Raises `SyncError`."""
        auth_type, auth = await self._credential(requester, git)
        ca = None
        if git.ca_secret_ref is not None:
            ca = await self._secret(requester, git.ca_secret_ref.name, "git.caSecretRef")
        try:
            return remote_from(git.repo, auth_type, auth, ca)
        except CredentialError as error:
            raise SourceError("CredentialError", f"git.auth: {error}", stalled=True) from error

    async def resolve(self, remote: Remote, revision: str) -> Commit:
        """Return the commit that a revision means now. Raises `SyncError`."""
        try:
            return await self._mirrors.resolve(remote, revision)
        except GitError as error:
            raise source_error(error) from error

    async def tree(self, requester: Requester, remote: Remote, commit: Commit) -> CommitTree:
        """Return the files of a commit; it is fetched if it is not on disk. Raises `SyncError`."""
        try:
            return await self._mirrors.tree(remote, commit)
        except MirrorOverQuota as error:
            raise over_quota(self._quotas, requester.key.namespace) or source_error(error) from None
        except GitError as error:
            raise source_error(error) from error

    def large_blob(self, remote: Remote, commit: Commit, entry: TreeEntry) -> AsyncGenerator[bytes, None]:
        """Yield the content of a large file in pieces."""
        return self._mirrors.large_blob(remote, commit, entry)

    async def _credential(
        self, requester: Requester, git: IgnitionGit
    ) -> tuple[AuthType | None, Mapping[str, bytes] | None]:
        auth = git.auth
        if auth is None:
            return None, None
        if auth.token is not None:
            return "Token", {"token": await self._value(requester, auth.token.secret_ref, "git.auth.token")}
        if auth.ssh_key is not None:
            key = auth.ssh_key
            hosts = SecretKeySelector(name=key.secret_ref.name, key=_KNOWN_HOSTS)
            if key.known_hosts is not None:
                hosts = key.known_hosts.secret_ref
            return "SSH", {
                "identity": await self._value(requester, key.secret_ref, "git.auth.sshKey"),
                "known_hosts": await self._value(requester, hosts, "git.auth.sshKey.knownHosts"),
            }
        if auth.github_app is None:
            return None, None
        app = auth.github_app
        values = {
            "appID": str(app.app_id).encode(),
            "installationID": str(app.installation_id).encode(),
            "privateKey": await self._value(requester, app.private_key_secret_ref, "git.auth.githubApp"),
        }
        if app.api_base_url is not None:
            refuse(requester.limits.detour("git.auth.githubApp.apiBaseURL"))
            values["baseURL"] = app.api_base_url.encode()
        return "GitHubApp", values

    async def _value(self, requester: Requester, ref: SecretKeySelector, what: str) -> bytes:
        data = await self._secret(requester, ref.name, what)
        if not data.get(ref.key):
            message = f"Secret {ref.name}, which {what} names, has no key {ref.key!r}: write it"
            raise SourceError("CredentialError", message)
        return data[ref.key]

    async def _secret(self, requester: Requester, name: str, what: str) -> Mapping[str, bytes]:
        target = Target(requester.key.namespace, name, "Secret")
        return (await self._references.get(requester, target, what)).data
