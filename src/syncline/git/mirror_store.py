"""The folder with the mirrors: their names, their sizes, and the time of their last use.

salt        part of the names of mirrors, so that a name reveals nothing about the credential
mirrors/    one bare repository for each remote
locks/      one file for each mirror: locked during a fetch; its age is the time since the last use of the mirror
run/        one private folder for each process, with the files for its calls of git
"""

import atexit
import contextlib
import os
import secrets
import shutil
import tempfile
import time
from hashlib import blake2b
from pathlib import Path

from msgspec import Struct

from syncline.git.errors import CacheFailure
from syncline.git.locks import open_lock
from syncline.git.remotes import Remote

_SALT_BYTES = 32
_PRIVATE = 0o700


class MirrorUse(Struct, frozen=True):
    """A mirror on disk."""

    name: str
    size: int
    used: float
    """When it was last used, as seconds since the epoch."""


class MirrorStore:
    """A folder of the operator. Several processes of the operator can use it at the same time."""

    def __init__(self, root: Path) -> None:
        self._stack = contextlib.ExitStack()
        try:
            root.mkdir(_PRIVATE, parents=True, exist_ok=True)
            for name in ("mirrors", "locks", "run"):
                (root / name).mkdir(_PRIVATE, exist_ok=True)
            self._root = root
            self.run = root / "run" / secrets.token_hex(8)
            """The private folder of this process, until `close`."""
            # One process at a time: a new folder without a lock must not look abandoned.
            with open_lock(root / "start") as starting:
                starting.take()
                self._salt = _salt(root / "salt")
                _tidy(root / "run")
                self.run.mkdir(_PRIVATE)
                self._stack.enter_context(open_lock(self.run / "lock")).try_take()
        except OSError as error:
            raise CacheFailure(f"the folder for mirrors {root} cannot be used: {error.strerror}") from None

    def close(self) -> None:
        """Remove the private folder of this process. The mirrors stay."""
        self._stack.close()
        shutil.rmtree(self.run, ignore_errors=True)

    def name(self, remote: Remote, tenant: str = "") -> str:
        """Return the name of a remote's mirror, for all or for one tenant: the same in all processes."""
        shared = remote.digest(self._salt)
        return blake2b(f"{shared}/{tenant}".encode(), digest_size=len(shared) // 2).hexdigest() if tenant else shared

    def mirror(self, name: str) -> Path:
        """Return the place of a mirror."""
        return self._root / "mirrors" / f"{name}.git"

    def lock(self, name: str) -> Path:
        """Return the lock file for changes of the mirror."""
        return self._root / "locks" / name

    def touch(self, name: str) -> None:
        """Note that a mirror is used now."""
        with contextlib.suppress(OSError):
            self.lock(name).touch(0o600)

    def mirrors_by_use(self) -> list[MirrorUse]:
        """Return all mirrors, the least recently used first."""
        found: list[MirrorUse] = []
        with contextlib.suppress(FileNotFoundError):
            for path in (self._root / "mirrors").iterdir():
                lock = self.lock(path.stem)
                used = lock.stat().st_mtime if lock.exists() else 0.0
                found.append(MirrorUse(path.stem, size(path), used))
        return sorted(found, key=lambda use: use.used)

    def remove(self, name: str) -> bool:
        """Remove a mirror from the disk, unless a fetch is in progress."""
        with open_lock(self.lock(name)) as lock:
            if not lock.try_take():
                return False
            # The lock file stays: another process may wait for the lock.
            for suffix in (".git", ".new", ".old"):
                shutil.rmtree(self.mirror(name).with_suffix(suffix), ignore_errors=True)
        return True


def age(use: MirrorUse) -> float:
    """Return the seconds since the last use of a mirror."""
    return time.time() - use.used


def _salt(path: Path) -> bytes:
    """Read the salt. The first process creates it atomically."""
    with contextlib.suppress(FileNotFoundError):
        if len(salt := path.read_bytes()) == _SALT_BYTES:
            return salt
    fresh = path.with_name("salt.new")
    fresh.touch(0o600)
    fresh.write_bytes(secrets.token_bytes(_SALT_BYTES))
    fresh.rename(path)
    return path.read_bytes()


def _tidy(run: Path) -> None:
    """Remove the private folders of dead processes: they may hold credentials."""
    for left in run.iterdir():
        with contextlib.suppress(CacheFailure), open_lock(left / "lock") as lock:
            if lock.try_take():
                shutil.rmtree(left, ignore_errors=True)


def size(path: Path) -> int:
    """Return the size of the files of a folder, in bytes."""
    total = 0
    for folder, _, files in os.walk(path):
        for file in files:
            with contextlib.suppress(OSError):
                total += (Path(folder) / file).lstat().st_size
    return total


def default_folder() -> Path:
    """Return a folder for mirrors: in the user's cache, or a temporary one if the user has no cache."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "syncline" / "git"
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    except (OSError, RuntimeError):
        pass
    made = tempfile.mkdtemp(prefix="syncline-git-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)
