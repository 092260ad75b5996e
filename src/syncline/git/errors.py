"""The errors of Git repositories.

    GitError
    |-- InvalidSource           a URL, revision or pattern is not valid
    |-- CredentialError         a Secret lacks a key, or has an invalid value
    |-- Refused                 not allowed for any user: scheme, address, redirect, submodules, broken objects
    |-- AuthenticationFailed    the server does not accept the credential
    |-- CertificateUntrusted    the server's certificate is not trusted
    |-- HostKeyUnknown          the ssh server's key is not in known_hosts
    |-- RepositoryNotFound      no such repository, or none for this credential
    |-- RevisionNotFound        the repository has no such branch, tag, version or commit
    |-- PathNotFound            the commit has no such file or folder
    |-- TooLarge                more bytes, files or refs than the limits allow
    |   `-- NeedsMore           the same, until the attempt with the larger limits
    |-- MirrorOverQuota         more bytes than the tenant may keep on disk
    |-- Unverified              the commit has no signature of a known key
    |-- PushRejected            the server does not take a commit
    |-- PullRequestFailed       the server does not open a pull request
    |-- RepositoryUnreachable   no usable response; the operator retries
    `-- CacheFailure            the folder for mirrors is full or not writable

`reason` is a word for conditions. `transient`: a retry can help. `str()` is a message for people. No error
contains a credential.
"""

# ruff: noqa: N818  # the names are the reasons of conditions

from typing import ClassVar


class GitError(Exception):
    """The base class of all errors of this package."""

    transient: ClassVar[bool] = False

    @property
    def reason(self) -> str:
        """A word for the `reason` of a condition."""
        return type(self).__name__


class InvalidSource(GitError):
    """A field of the sync is not valid. The message names the remedy."""


class CredentialError(GitError):
    """A Secret lacks a key or has an invalid value. The message names the key, never its value."""


class Refused(GitError):
    """The request is unsafe and is refused for every user."""


class AuthenticationFailed(GitError):
    """The server does not accept the credential, or needs one."""


class CertificateUntrusted(GitError):
    """The server's certificate is of another authority, of another name, or too old."""


class HostKeyUnknown(GitError):
    """The ssh server's key is not among those of `known_hosts`."""


class RepositoryNotFound(GitError):
    """The server has no such repository, or does not show it to this credential."""


class RevisionNotFound(GitError):
    """The repository has no such branch, tag, version or commit."""


class PathNotFound(GitError):
    """The commit has no such file or folder."""


class TooLarge(GitError):
    """The repository, or the part that is read, exceeds the limits."""


class NeedsMore(TooLarge):
    """The repository exceeds the normal limits. Raised only until the retry with the larger limits."""

    @property
    def reason(self) -> str:
        """The same failure as `TooLarge`."""
        return TooLarge.__name__


class MirrorOverQuota(GitError):
    """The disk quota of one tenant is exhausted. Other tenants are not affected."""

    def __init__(self, tenant: str) -> None:
        super().__init__(f"the quota of {tenant} for repositories on disk is exhausted")
        self.tenant = tenant

    @property
    def reason(self) -> str:
        """The reason of an exceeded quota."""
        return "NotAllowed"


class Unverified(GitError):
    """The commit is not signed by a key that the sync trusts."""


class PushRejected(GitError):
    """The server does not take a commit: the branch is protected, a hook refuses it, or the branch moves too fast."""


class PullRequestFailed(GitError):
    """The server does not open a pull request, or its answer cannot be read."""


class RepositoryUnreachable(GitError):
    """No usable response from the server. The last known state stays valid."""

    transient = True

    @property
    def reason(self) -> str:
        """The same word as for an API server that gives no answer."""
        return "Unreachable"


class CacheFailure(GitError):
    """The folder for mirrors is full, broken or not writable."""

    transient = True
