"""Git repositories: their URLs, credentials, revisions, and the files of a commit.

    remotes, url            a URL and its credential, from Secrets, validated
    transport               safe calls of the `git` and `ssh` programs; it uses process, tool_errors, githubapp
    refs, versions          the commit of a revision
    watch                   one check in each interval for all users of a remote
    mirror, mirror_store    one repository on disk; all repositories
    tree                    the files of one commit, read without a checkout
    signatures, submodules  signatures of commits; URLs of submodules
    push, pull_requests     commits for a branch, and pull requests for it
    mirrors                 the public interface of the package

This package knows nothing about syncs, the meaning of files, or clusters. It writes to a Git server only by `push` and
`pull_requests`, never checks out files, and does not follow links.
"""

from syncline.git.errors import (
    AuthenticationFailed,
    CacheFailure,
    CertificateUntrusted,
    CredentialError,
    GitError,
    HostKeyUnknown,
    InvalidSource,
    MirrorOverQuota,
    PathNotFound,
    PullRequestFailed,
    PushRejected,
    Refused,
    RepositoryNotFound,
    RepositoryUnreachable,
    RevisionNotFound,
    TooLarge,
    Unverified,
)
from syncline.git.limits import Limits
from syncline.git.mirror_store import default_folder
from syncline.git.mirrors import Mirrors
from syncline.git.pull_requests import PullRequest, PullRequestWanted
from syncline.git.push import FileChange, PushedCommit, PushWanted
from syncline.git.refs import Commit, pinned
from syncline.git.remotes import AuthType, Remote, remote_from
from syncline.git.tree import CommitTree, Mode, TreeEntry
from syncline.git.watch import RemoteStatus

__all__ = [
    "AuthType",
    "AuthenticationFailed",
    "CacheFailure",
    "CertificateUntrusted",
    "Commit",
    "CommitTree",
    "CredentialError",
    "FileChange",
    "GitError",
    "HostKeyUnknown",
    "InvalidSource",
    "Limits",
    "MirrorOverQuota",
    "Mirrors",
    "Mode",
    "PathNotFound",
    "PullRequest",
    "PullRequestFailed",
    "PullRequestWanted",
    "PushRejected",
    "PushWanted",
    "PushedCommit",
    "Refused",
    "Remote",
    "RemoteStatus",
    "RepositoryNotFound",
    "RepositoryUnreachable",
    "RevisionNotFound",
    "TooLarge",
    "TreeEntry",
    "Unverified",
    "default_folder",
    "pinned",
    "remote_from",
]
