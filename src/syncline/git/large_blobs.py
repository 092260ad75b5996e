"""The content of large blobs in temporary files: readers take as long as they like, and hold neither memory nor git.

Readers that want the same blob at the same time share one file. The files are removed with their last reader.
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

from syncline.fairness import FairSemaphore
from syncline.git.errors import CacheFailure

FILES = 4
"""The most files at the same time; half of them for one tenant."""
CHUNK = 256 * 1024

Copy = Callable[[int], Awaitable[None]]
"""Writes the content of a blob to a file descriptor."""


class _BlobFile:
    """One blob on disk. It has its slot until it is closed."""

    def __init__(self, copy: Copy, folder: Path, slot: AbstractAsyncContextManager[None]) -> None:
        self.readers = 0
        self.descriptor = -1
        self._copy = copy
        self._folder = folder
        self._stack = AsyncExitStack()
        self.filled = asyncio.create_task(self._fill(slot))
        self.filled.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _fill(self, slot: AbstractAsyncContextManager[None]) -> None:
        await self._stack.enter_async_context(slot)
        try:
            self.descriptor = await asyncio.to_thread(_new_file, self._folder)
        except OSError as error:
            raise CacheFailure(f"the folder for mirrors cannot be written: {error.strerror}") from None
        await self._copy(self.descriptor)

    async def close(self) -> None:
        self.filled.cancel()
        await asyncio.wait([self.filled])
        if self.descriptor >= 0:
            os.close(self.descriptor)
        await self._stack.aclose()


class LargeBlobs:
    """The files of all large blobs that are read at this moment."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._slots = FairSemaphore(FILES, share=FILES // 2)
        self._files: dict[Hashable, _BlobFile] = {}

    async def read(self, key: Hashable, size: int, copy: Copy, tenant: str) -> AsyncGenerator[bytes, None]:
        """Yield the content of a blob in pieces. `copy` fetches it, unless another reader has done so."""
        file = self._files.get(key)
        if file is None:
            file = self._files[key] = _BlobFile(copy, self._folder, self._slots.slot(tenant))
        file.readers += 1
        try:
            await asyncio.wait([file.filled])
            file.filled.result()
            position = 0
            while position < size:
                chunk = await asyncio.to_thread(os.pread, file.descriptor, CHUNK, position)
                if not chunk:
                    raise CacheFailure("the temporary file of a blob is shorter than the blob")
                position += len(chunk)
                yield chunk
        finally:
            file.readers -= 1
            if not file.readers:
                if self._files.get(key) is file:
                    del self._files[key]
                await file.close()


def _new_file(folder: Path) -> int:
    """Create a file without a name: it is gone once it is closed, whatever happens."""
    descriptor, path = tempfile.mkstemp(dir=folder, prefix="blob-")
    Path(path).unlink()
    return descriptor
