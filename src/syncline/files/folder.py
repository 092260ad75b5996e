"""One folder, and everything below it without following a symbolic link.

Each part of a path is opened relative to its parent folder (`openat`). A symbolic link in a path is therefore an error,
and never leads out of the folder.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from syncline.core.publish_plan import FileStamp, LiveFile, ManagedFile
from syncline.files.errors import FilesError, explained

FOLDER_MODE = 0o755
PRIVATE_MODE = 0o700
FILE_MODE = 0o644
EXECUTABLE_MODE = 0o755
CHUNK = 256 * 1024

_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_OPEN = 128
_SHA1_LENGTH = 40
# File systems without links, and files of other users.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV, errno.ENOSYS)


class Folder:
    """An open folder. Its methods take paths relative to it, and raise `FilesError`."""

    def __init__(self, path: str | Path) -> None:
        try:
            # The folder itself is the user's choice, and may be a link.
            self._root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise FilesError("FolderMissing", f"{path} cannot be opened: {error.strerror}") from None
        self.path = Path(path)
        self._open: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the folder and all folders below it."""
        self.forget()
        os.close(self._root)

    def forget(self) -> None:
        """Close the folders below, so that the next call looks them up again."""
        for folder in self._open.values():
            os.close(folder)
        self._open.clear()

    def stat(self, path: str) -> os.stat_result | None:
        """Return the stat of a path, without following a link; None if the path does not exist. Raises `FilesError`."""
        self._trim()
        folder, name = self._parent(path)
        if folder is None:
            return None
        with explained(path), suppress(FileNotFoundError):
            return os.stat(name, dir_fd=folder, follow_symlinks=False)
        return None

    def observe(self, path: str, entry: ManagedFile | None = None) -> LiveFile | None:
        """Return the state of a path. A file with the stamp of its manifest entry is not read again."""
        try:
            found = self.stat(path)
        except _ObstructedError as obstructed:
            return LiveFile("obstructed", obstacle=obstructed.path)
        if found is None:
            return None
        if stat.S_ISLNK(found.st_mode):
            return LiveFile("link")
        if not stat.S_ISREG(found.st_mode):
            return LiveFile("folder" if stat.S_ISDIR(found.st_mode) else "other")
        stamp = stamp_of(found)
        digest = entry.hash if entry is not None and entry.stamp == stamp else self._hash(path, hashlib.sha256())
        return LiveFile("file", digest, bool(found.st_mode & stat.S_IXUSR), stamp) if digest else None

    def is_file(self, path: str) -> bool:
        """Whether an ordinary file is at a path."""
        try:
            found = self.stat(path)
        except FilesError:
            return False
        return found is not None and stat.S_ISREG(found.st_mode)

    def blob_id(self, path: str, like: str) -> str:
        """Return the id of a file as a Git blob, by the hash function of another id; empty if it is not a file."""
        found = self.stat(path)
        if found is None or not stat.S_ISREG(found.st_mode):
            return ""
        return self._hash(path, blob_digest(found.st_size, like))

    def _hash(self, path: str, digest: "hashlib._Hash") -> str:
        """Return the hash of a file; empty if it has vanished."""
        try:
            for chunk in self.chunks(path):
                digest.update(chunk)
        except FileNotFoundError:
            return ""
        return digest.hexdigest()

    def chunks(self, path: str, size: int = CHUNK) -> Iterator[bytes]:
        """Yield the content of a file. Raises `FileNotFoundError`, and `FilesError` if it is not an ordinary file."""
        with self.opened(path) as file:
            while chunk := os.read(file, size):
                yield chunk

    def read(self, path: str, limit: int) -> bytes:
        """Return the content of a file, up to a maximum size. Raises as `chunks` does."""
        content = bytearray()
        for chunk in self.chunks(path):
            content += chunk
            if len(content) > limit:
                raise FilesError("FolderError", f"{path} is larger than {limit} bytes")
        return bytes(content)

    @contextmanager
    def opened(self, path: str) -> Iterator[int]:
        """Open a file to read it."""
        self._trim()
        folder, name = self._parent(path)
        if folder is None:
            raise FileNotFoundError(errno.ENOENT, "no such folder", path)
        try:
            file = os.open(name, _OPEN_FILE, dir_fd=folder)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise FilesError("FolderError", f"{path} cannot be read: {error.strerror}") from None
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise FilesError("UnsafePath", f"{path} is not an ordinary file")
            yield file
        finally:
            os.close(file)

    def open_for_lock(self, path: str) -> int:
        """Open a file to lock it; create it if it is missing. The caller closes it."""
        self._trim()
        folder, name = self._parent(path, create=True)
        with explained(path):
            return os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)

    def names(self, path: str) -> list[str]:
        """Return the names in a folder, sorted; none if there is no such folder."""
        self._trim()
        folder = self._directory(path)
        if folder is None:
            return []
        with explained(path):
            return sorted(os.listdir(folder))  # noqa: PTH208 - a path could lead elsewhere

    def entries(self, path: str) -> list[tuple[str, os.stat_result]]:
        """Return the names in a folder with their types; names that vanish meanwhile are left out."""
        found = ((name, self.stat(f"{path}/{name}" if path else name)) for name in self.names(path))
        return [(name, each) for name, each in found if each is not None]

    def create(self, path: str) -> int:
        """Open a new file to write it. The caller closes it. Raises `FilesError` if the path exists."""
        self._trim()
        folder, name = self._parent(path, create=True)
        with explained(path):
            return os.open(name, _CREATE_FILE, 0o600, dir_fd=folder)

    def write(self, path: str, content: Iterator[bytes], *, executable: bool = False, durable: bool = True) -> None:
        """Write a new file. Raises `FilesError` if the path exists."""
        file = self.create(path)
        with explained(path):
            try:
                for chunk in content:
                    write_all(file, chunk)
                os.fchmod(file, EXECUTABLE_MODE if executable else FILE_MODE)
                if durable:
                    os.fsync(file)
            finally:
                os.close(file)

    def replace(self, path: str, content: bytes, *, mode: int = 0o600) -> None:
        """Write a file of the state folder atomically, also if the machine stops."""
        self._trim()
        folder, name = self._parent(path, create=True)
        temporary = f"{name}.new"
        with explained(path):
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
            file = os.open(temporary, _CREATE_FILE, mode, dir_fd=folder)
            try:
                write_all(file, content)
                os.fsync(file)
            finally:
                os.close(file)
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            if folder is not None:
                os.fsync(folder)

    def move(self, path: str, to: str) -> None:
        """Rename a file over another. Missing parent folders are created."""
        folder, name, target, target_name = self._parents(path, to)
        with explained(to):
            os.rename(name, target_name, src_dir_fd=folder, dst_dir_fd=target)

    def link(self, path: str, to: str) -> bool:
        """Add a hard link to a file, or copy it. Return False if the name is taken."""
        folder, name, target, target_name = self._parents(path, to)
        try:
            os.link(name, target_name, src_dir_fd=folder, dst_dir_fd=target, follow_symlinks=False)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                with explained(to):
                    raise
            self.write(to, self.chunks(path))
        return True

    def set_executable(self, path: str, *, executable: bool, durable: bool = False) -> None:
        """Set the mode of a file, and make its content durable if requested."""
        with explained(path), self.opened(path) as file:
            os.fchmod(file, EXECUTABLE_MODE if executable else FILE_MODE)
            if durable:
                os.fsync(file)

    def make(self, path: str, mode: int = FOLDER_MODE) -> None:
        """Create a folder and its parents, if they are missing."""
        self._trim()
        self._directory(path, create=True, mode=mode)

    def remove(self, path: str) -> bool:
        """Delete one file or link; return whether it was there."""
        self._trim()
        folder, name = self._parent(path)
        if folder is None:
            return False
        with explained(path), suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
            return True
        return False

    def remove_folder(self, path: str) -> bool:
        """Delete a folder if it is empty; return whether it is gone."""
        self._trim()
        folder, name = self._parent(path)
        if folder is None:
            return True
        self._close_below(path)
        try:
            os.rmdir(name, dir_fd=folder)
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EBUSY):
                return False
            with explained(path):
                raise
        return True

    def remove_tree(self, path: str) -> None:
        """Delete a folder of the state folder with its content. Links are deleted, not followed."""
        try:
            found = self.stat(path)
        except _ObstructedError:
            return
        if found is None:
            return
        if not stat.S_ISDIR(found.st_mode):
            self.remove(path)
            return
        for name in self.names(path):
            self.remove_tree(f"{path}/{name}")
        self.remove_folder(path)

    def flush(self, path: str) -> None:
        """Make the names in a folder durable."""
        self._trim()
        folder = self._directory(path)
        if folder is not None:
            with explained(path or "."):
                os.fsync(folder)

    def _directory(self, path: str, *, create: bool = False, mode: int = FOLDER_MODE) -> int | None:
        """Return an open folder; None if it is missing and `create` is false."""
        if not path:
            return self._root
        if (known := self._open.get(path)) is not None:
            return known
        above, _, name = path.rpartition("/")
        parent = self._directory(above, create=create, mode=mode)
        if parent is None:
            return None
        folder = _open_folder(parent, path, name, create=create, mode=mode)
        if folder is not None:
            self._open[path] = folder
        return folder

    def _close_below(self, path: str) -> None:
        for known in [known for known in self._open if known == path or known.startswith(f"{path}/")]:
            os.close(self._open.pop(known))

    def _parent(self, path: str, *, create: bool = False) -> tuple[int | None, str]:
        above, _, name = path.rpartition("/")
        return self._directory(above, create=create), name

    def _parents(self, path: str, to: str) -> tuple[int | None, str, int | None, str]:
        self._trim()
        return *self._parent(path), *self._parent(to, create=True)

    def _trim(self) -> None:
        """Close all folders if many are open. Only for the start of a method, which needs its own folders open."""
        if len(self._open) >= _MOST_OPEN:
            self.forget()


class _ObstructedError(FilesError):
    """A parent of a path is not a folder."""

    def __init__(self, path: str) -> None:
        super().__init__("UnsafePath", f"{path} is not a folder: remove it")
        self.path = path


def _open_folder(parent: int, path: str, name: str, *, create: bool, mode: int) -> int | None:
    for last in (False, True):
        try:
            return os.open(name, _OPEN_FOLDER, dir_fd=parent)
        except FileNotFoundError:
            if not create or last:
                return None
            with explained(path), suppress(FileExistsError):
                os.mkdir(name, mode, dir_fd=parent)
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP):
                raise _ObstructedError(path) from None
            with explained(path):
                raise
    return None


def write_all(file: int, content: bytes) -> None:
    """Write all bytes to an open file."""
    view = memoryview(content)
    while view:
        view = view[os.write(file, view) :]


def stamp_of(found: os.stat_result) -> FileStamp:
    """Return the stamp that shows whether a file was changed since."""
    return FileStamp(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def blob_digest(size: int, like: str) -> "hashlib._Hash":
    """Start the id of a Git blob, by the hash function of another id."""
    new: Callable[..., hashlib._Hash] = hashlib.sha1 if len(like) == _SHA1_LENGTH else hashlib.sha256
    digest = new(usedforsecurity=False)
    digest.update(b"blob %d\0" % size)
    return digest
