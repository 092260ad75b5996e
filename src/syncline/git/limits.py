"""The limits of repositories: network, disk and memory.

Every byte of a server is counted before it is stored. Normal work runs with high concurrency and small limits. Large
work is repeated with larger limits and low concurrency. The maximum of all work together is therefore known, and the
shipped pod has the memory for it (`deploy/workload.py`).
"""

from msgspec import Struct

_KIB = 1024
_MIB = 1024 * _KIB

_PROCESSES = 2
"""The maximum number of large processes in one call of git: git, and its child for transport or index."""


class Limits(Struct, frozen=True):
    """The limits of one repository, and of all repositories together."""

    repository_bytes: int = 1024 * _MIB
    """What one fetch may write."""
    small_fetch_bytes: int = 32 * _MIB
    """What it may write before it counts as large."""
    cache_bytes: int = 4 * 1024 * _MIB
    """What all mirrors together may take, and half of it those of one tenant; those that nobody follows go first."""
    files: int = 100_000
    """How many files and folders a commit may have."""
    path_bytes: int = 1024
    """How long the path of a file may be."""
    listing_bytes: int = 48 * _MIB
    """What the list of a commit's files may take of memory."""
    small_listing_bytes: int = 4 * _MIB
    """What a list, of files or refs, may take of memory before it counts as large."""
    listings_bytes: int = 128 * _MIB
    """What the lists of files of all commits may take of memory, and half of it those of one tenant."""
    refs: int = 150_000
    """How many branches and tags a repository may have."""
    refs_bytes: int = 48 * _MIB
    """What the list of them may take of memory."""
    all_refs_bytes: int = 32 * _MIB
    """What the lists of all repositories may take of memory; the largest go first, and are asked for again."""
    read_bytes: int = 24 * _MIB
    """What may be read of a commit at once."""
    memory_bytes: int = 16 * _MIB
    """What each process of git that talks to a server may allocate; 20,000 files or refs take 10 MiB."""
    large_memory_bytes: int = 128 * _MIB
    """What it may allocate when that was not enough."""
    local_memory_bytes: int = 64 * _MIB
    """What each process of git that reads a mirror may allocate."""
    check_seconds: float = 30.0
    fetch_seconds: float = 300.0
    depth: int = 5_000
    """How far back a commit is looked for, where the server does not give it by its id."""
    commits: int = 20
    """How many commits a mirror keeps when it is packed anew."""
    packs: int = 30
    """After how many fetches a mirror is packed anew."""
    talks: int = 12
    """How many calls of git may talk to servers at the same time, half of them for one tenant."""
    talks_per_host: int = 6
    """How many of them may talk to the same one, half of them for one tenant, so that a slow server holds up nobody."""
    large: int = 2
    """How many may be large at the same time, one of them for one tenant."""
    reads: int = 4
    """How many processes of git may read mirrors at the same time, half of them for one tenant."""
    submodules: int = 50
    """How many submodules a commit may have."""

    @property
    def process_memory_at_most(self) -> int:
        """Bytes that all processes of git together may take of memory."""
        talks = self.talks * _PROCESSES * self.memory_bytes
        return talks + self.large * _PROCESSES * self.large_memory_bytes + self.reads * self.local_memory_bytes

    @property
    def held_at_most(self) -> int:
        """Bytes that the operator itself may hold of what servers sent, kept and in hand."""
        kept = self.listings_bytes + self.all_refs_bytes
        in_hand = self.talks * self.small_listing_bytes + self.large * max(self.listing_bytes, self.refs_bytes)
        # What is read is there twice for a moment: as git printed it, and by its files.
        return kept + in_hand + 2 * self.reads * self.read_bytes

    @property
    def disk_at_most(self) -> int:
        """Bytes that the folder with the mirrors may take, with indexes and what calls leave there for the moment."""
        return self.cache_bytes + self.cache_bytes // 4
