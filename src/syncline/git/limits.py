"""How much a repository may take."""

from msgspec import Struct

_MIB = 1024 * 1024


class Limits(Struct, frozen=True):
    """How much one repository, and all mirrors together, may take."""

    repository_bytes: int = 1024 * _MIB
    """What one fetch may write."""
    cache_bytes: int = 8 * 1024 * _MIB
    """What all mirrors together may take; those that nobody follows go first."""
    files: int = 100_000
    """How many files and folders a commit may have."""
    path_bytes: int = 1024
    """How long the path of a file may be."""
    refs: int = 200_000
    """How many branches and tags a repository may have."""
    read_bytes: int = 64 * _MIB
    """What may be read of a commit at once."""
    memory_bytes: int = 1024 * _MIB
    """What each process of git may allocate."""
    check_seconds: float = 30.0
    fetch_seconds: float = 300.0
    depth: int = 5_000
    """How far back a commit is looked for, where the server does not give it by its id."""
    trees: int = 300_000
    """How many files of all commits together are kept in memory."""
    commits: int = 20
    """How many commits a mirror keeps when it is packed anew."""
    packs: int = 30
    """After how many fetches a mirror is packed anew."""
    talks: int = 24
    """How many processes of git may talk to servers at the same time."""
    talks_per_host: int = 6
    """How many of them may talk to the same one, so that a slow server does not hold up others."""
    submodules: int = 50
    """How many submodules a commit may have."""
