"""What can go wrong between us and a Git repository.

    GitError
    |-- InvalidSource            a URL, revision or pattern that cannot be right
    |-- CredentialError          a Secret that lacks what is needed, or holds what cannot be used
    |-- Refused                  what is not done for anybody: scheme, address, redirect, submodules, broken objects
    |-- AuthenticationFailed     the server does not take the credential
    |-- CertificateUntrusted     the server's certificate is not to be trusted
    |-- HostKeyUnknown           the ssh server's key is not in known_hosts
    |-- RepositoryNotFound       no such repository, or none for this credential
    |-- RevisionNotFound         the repository has no such branch, tag, version or commit
    |-- PathNotFound             the commit has no such file or folder
    |-- TooLarge                 more bytes, files or refs than the limits allow
    |-- OverQuota                more bytes than the tenant may keep on disk
    |-- Unverified               the commit has no signature of a known key
    |-- Unreachable              no usable answer; tried again soon
    `-- CacheFailure             the folder for mirrors is full or cannot be written

`reason` is a word for conditions, `transient` says whether waiting may help. `str()` of each is a sentence for a
person. None of them carries a credential.
"""

# ruff: noqa: N818  # states have the names that conditions give them

from typing import ClassVar


class GitError(Exception):
    """Anything that this package raises for reasons outside of the program."""

    transient: ClassVar[bool] = False

    @property
    def reason(self) -> str:
        """A word for the `reason` of a condition."""
        return type(self).__name__


class InvalidSource(GitError):
    """What the sync asks for cannot be right; the message says what to write instead."""


class CredentialError(GitError):
    """A Secret lacks a key or holds what cannot be used; the message names the key, never its value."""


class Refused(GitError):
    """The request would be unsafe, whoever asks."""


class AuthenticationFailed(GitError):
    """The server does not take the credential, or wants one."""


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
    """The repository, or what is read of it, is more than the limits allow."""


class NeedsMore(TooLarge):
    """It takes more than what is ordinary has; raised only until it was tried with what the large may have."""

    @property
    def reason(self) -> str:
        """The same as of what is too large for good."""
        return TooLarge.__name__


class MirrorOverQuota(GitError):
    """What one tenant may keep on disk is used up; it says nothing about others who want the same."""

    def __init__(self, tenant: str) -> None:
        super().__init__(f"{tenant} may keep no more repositories on disk")
        self.tenant = tenant

    @property
    def reason(self) -> str:
        """The reason of what somebody is not allowed."""
        return "NotAllowed"


class Unverified(GitError):
    """The commit is not signed by a key that the sync trusts."""


class RepositoryUnreachable(GitError):
    """The server gives no usable answer; earlier reads still hold."""

    transient = True

    @property
    def reason(self) -> str:
        """The same word as for an API server that gives no answer."""
        return "Unreachable"


class CacheFailure(GitError):
    """The folder for mirrors is full, broken or not writable."""

    transient = True
