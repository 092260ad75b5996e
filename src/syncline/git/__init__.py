"""Git repositories: where they are, what opens them, what they point to, and the files of a commit.

    remotes, location       a URL and its credential, read from Secrets and checked
    transport               the `git` and `ssh` programs, called safely; below it command, diagnosis, githubapp
    refs, versions          which commit a revision means
    watch                   one check an interval for all who follow a remote
    mirror, folder          one repository on disk; all of them
    tree                    the files of one commit, read without a checkout
    signatures, submodules  who signed; where the rest is
    mirrors                 all of it together: the way in

What it is not: it knows nothing of syncs, of what files mean, or of clusters. It never writes to a repository's server,
never checks files out, and follows no links.
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
    "GitError",
    "HostKeyUnknown",
    "InvalidSource",
    "Limits",
    "MirrorOverQuota",
    "Mirrors",
    "Mode",
    "PathNotFound",
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
