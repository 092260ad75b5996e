"""The content of a plan's files, as it is sent to an agent: small files together, large files through the disk.

The memory is limited, for all agents together and for each namespace, even if they read slowly.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterable, Iterator, Mapping

from syncline.controllers.gateways.repositories import GatewayRepositories
from syncline.depot.plans import Blob
from syncline.fairness import FairSemaphore
from syncline.git import Commit, CommitTree, Mode, Remote, TreeEntry
from syncline.programs import in_thread

SMALL = 1024 * 1024
"""The largest file, in bytes, that is held in memory."""
BATCH = 2 * 1024 * 1024
"""The number of bytes that are read at once for one agent."""
BATCHES = 16
"""The maximum number of batches in memory; half of them for one namespace."""


class ServedFiles:
    """Reads files for all agents."""

    def __init__(self, repositories: GatewayRepositories) -> None:
        self._repositories = repositories
        self._batches = FairSemaphore(BATCHES, share=BATCHES // 2)

    async def read(
        self, remote: Remote, commit: Commit, tree: CommitTree, wanted: Collection[str], tenant: str
    ) -> AsyncGenerator[Blob, None]:
        """Yield files by their ids. Read the content of a file before you take the next file. Raises `GitError`."""
        entries = await in_thread(_entries, tree, frozenset(wanted))
        for batch in _batches(one for one in entries.values() if one.size <= SMALL):
            async with self._batches.slot(tenant):
                contents = await tree.read(entry.path for entry in batch)
                for entry in batch:
                    yield Blob(entry.id, entry.size, _once(contents.pop(entry.path)))
        for entry in entries.values():
            if entry.size > SMALL:
                yield Blob(entry.id, entry.size, self._repositories.large_blob(remote, commit, entry))


def _entries(tree: CommitTree, wanted: frozenset[str]) -> Mapping[str, TreeEntry]:
    """Return one file of the tree for each id."""
    return {one.id: one for one in tree.entries if one.id in wanted and one.mode in (Mode.REGULAR, Mode.EXECUTABLE)}


def _batches(entries: Iterable[TreeEntry]) -> Iterator[list[TreeEntry]]:
    batch: list[TreeEntry] = []
    size = 0
    for entry in entries:
        if batch and size + entry.size > BATCH:
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += entry.size
    if batch:
        yield batch


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content
