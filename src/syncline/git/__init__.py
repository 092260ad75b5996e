"""Git repositories: their URLs, credentials, revisions, and the files of a commit.

    remotes, location       a URL and its credential, from Secrets, validated transport               safe calls of the
    `git` and `ssh` programs; it uses command, diagnosis, githubapp refs, versions          the commit of a revision
    watch                   one check in each interval for all users of a remote mirror, folder          one repository
    on disk; all repositories tree                    the files of one commit, read without a checkout signatures,
    submodules  signatures of commits; URLs of submodules mirrors                 the public interface of the package

This package knows nothing about syncs, the meaning of files, or clusters. It never writes to a Git server, never checks
out files, and does not follow links.
"""

from syncline.git.errors import (
    AuthenticationFailed,
    CacheFailure,
    CertificateUntrusted,
    CredentialError,
    GitError,
    HostKeyUnknown,
    InvalidSource,
    OverQuota,
    PathNotFound,
    Refused,
    RepositoryNotFound,
    RevisionNotFound,
    TooLarge,
    Unreachable,
    Unverified,
)
from syncline.git.folder import default_folder
from syncline.git.limits import Limits
from syncline.git.mirrors import Mirrors
from syncline.git.refs import Commit, pinned
from syncline.git.remotes import AuthType, Remote, remote_from
from syncline.git.tree import Entry, Mode, Tree
from syncline.git.watch import Status

__all__ = [
    "AuthType",
    "AuthenticationFailed",
    "CacheFailure",
    "CertificateUntrusted",
    "Commit",
    "CredentialError",
    "Entry",
    "GitError",
    "HostKeyUnknown",
    "InvalidSource",
    "Limits",
    "Mirrors",
    "Mode",
    "OverQuota",
    "PathNotFound",
    "Refused",
    "Remote",
    "RepositoryNotFound",
    "RevisionNotFound",
    "Status",
    "TooLarge",
    "Tree",
    "Unreachable",
    "Unverified",
    "default_folder",
    "pinned",
    "remote_from",
]
