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
    """The maximum of bytes that one fetch writes."""
    small_fetch_bytes: int = 32 * _MIB
    """The bytes that it writes before it counts as large."""
    cache_bytes: int = 4 * 1024 * _MIB
    """The maximum of bytes for all mirrors, and half of it for one tenant. Mirrors without followers go first."""
    files: int = 100_000
    """The maximum number of files and folders in a commit."""
    path_bytes: int = 1024
    """The maximum length of the path of a file."""
    listing_bytes: int = 48 * _MIB
    """The maximum of memory for the list of a commit's files."""
    small_listing_bytes: int = 4 * _MIB
    """The memory for a list of files or refs before it counts as large."""
    listings_bytes: int = 128 * _MIB
    """The maximum of memory for the lists of files of all commits, and half of it for one tenant."""
    refs: int = 150_000
    """The maximum number of branches and tags in a repository."""
    refs_bytes: int = 48 * _MIB
    """The maximum of memory for the list of them."""
    all_refs_bytes: int = 32 * _MIB
    """The maximum of memory for the lists of all repositories. The largest are dropped first, and requested again."""
    read_bytes: int = 24 * _MIB
    """The maximum of bytes that are read from a commit at once."""
    memory_bytes: int = 16 * _MIB
    """The memory for each git process that connects to a server; 20,000 files or refs take 10 MiB."""
    large_memory_bytes: int = 128 * _MIB
    """The memory for its second attempt, if the first was not enough."""
    local_memory_bytes: int = 64 * _MIB
    """The memory for each git process that reads a mirror."""
    check_seconds: float = 30.0
    fetch_seconds: float = 300.0
    depth: int = 5_000
    """The depth of the search for a commit, if the server does not serve commits by id."""
    commits: int = 20
    """The number of commits that a mirror keeps when it is repacked."""
    packs: int = 30
    """The number of fetches after which a mirror is repacked."""
    talks: int = 12
    """The maximum number of concurrent git calls to servers, half of them for one tenant."""
    talks_per_host: int = 6
    """The same for one server, so that a slow server delays nobody else."""
    large: int = 2
    """The maximum number of concurrent large calls, one of them for one tenant."""
    reads: int = 4
    """The maximum number of git processes that read mirrors, half of them for one tenant."""
    submodules: int = 50
    """The maximum number of submodules in a commit."""

    @property
    def process_memory_at_most(self) -> int:
        """The memory of all git processes together, in bytes."""
        talks = self.talks * _PROCESSES * self.memory_bytes
        return talks + self.large * _PROCESSES * self.large_memory_bytes + self.reads * self.local_memory_bytes

    @property
    def held_at_most(self) -> int:
        """The memory of the operator for the responses of servers, cached and in use, in bytes."""
        kept = self.listings_bytes + self.all_refs_bytes
        in_hand = self.talks * self.small_listing_bytes + self.large * max(self.listing_bytes, self.refs_bytes)
        # The content is in memory twice for a moment: as output of git, and by file.
        return kept + in_hand + 2 * self.reads * self.read_bytes

    @property
    def disk_at_most(self) -> int:
        """The size of the folder with the mirrors, with indexes and temporary files, in bytes."""
        return self.cache_bytes + self.cache_bytes // 4
