"""The folder with the mirrors: whose is which, how large it is, and what nobody has used for long.

salt        goes into the names of mirrors, so that they tell nothing of credentials
mirrors/    one bare repository a remote
locks/      one file a mirror: held by who fetches, and as old as the mirror's last use
run/        one folder a process, with what its calls of git need for the moment; private
"""

import atexit
import contextlib
import os
import secrets
import shutil
import tempfile
import time
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
    """A folder that is ours, and that other processes of ours may use at the same time."""

    def __init__(self, root: Path) -> None:
        self._stack = contextlib.ExitStack()
        try:
            root.mkdir(_PRIVATE, parents=True, exist_ok=True)
            for name in ("mirrors", "locks", "run"):
                (root / name).mkdir(_PRIVATE, exist_ok=True)
            self._root = root
            self.run = root / "run" / secrets.token_hex(8)
            """Where this process keeps what is private to it, until it closes the folder."""
            # One at a time: a folder that is not locked yet is not one that somebody has left.
            with open_lock(root / "start") as starting:
                starting.take()
                self._salt = _salt(root / "salt")
                _tidy(root / "run")
                self.run.mkdir(_PRIVATE)
                self._stack.enter_context(open_lock(self.run / "lock")).try_take()
        except OSError as error:
            raise CacheFailure(f"the folder for mirrors {root} cannot be used: {error.strerror}") from None

    def close(self) -> None:
        """Remove what is private to this process; the mirrors stay."""
        self._stack.close()
        shutil.rmtree(self.run, ignore_errors=True)

    def name(self, remote: Remote) -> str:
        """Return the name of a remote's mirror: the same in all processes that share the folder."""
        return remote.digest(self._salt)

    def mirror(self, name: str) -> Path:
        """Return the place of a mirror."""
        return self._root / "mirrors" / f"{name}.git"

    def lock(self, name: str) -> Path:
        """Return the file that who changes the mirror holds a lock on."""
        return self._root / "locks" / name

    def touch(self, name: str) -> None:
        """Note that a mirror is used now."""
        with contextlib.suppress(OSError):
            self.lock(name).touch(0o600)

    def mirrors_by_use(self) -> list[MirrorUse]:
        """Return all mirrors, the one that was not used for the longest time first."""
        found: list[MirrorUse] = []
        with contextlib.suppress(FileNotFoundError):
            for path in (self._root / "mirrors").iterdir():
                lock = self.lock(path.stem)
                used = lock.stat().st_mtime if lock.exists() else 0.0
                found.append(MirrorUse(path.stem, size(path), used))
        return sorted(found, key=lambda use: use.used)

    def remove(self, name: str) -> bool:
        """Remove a mirror from the disk, unless somebody fetches into it just now."""
        with open_lock(self.lock(name)) as lock:
            if not lock.try_take():
                return False
            # The lock's file stays: somebody else may be waiting at it.
            for suffix in (".git", ".new", ".old"):
                shutil.rmtree(self.mirror(name).with_suffix(suffix), ignore_errors=True)
        return True


def age(use: MirrorUse) -> float:
    """Return for how many seconds a mirror was not used."""
    return time.time() - use.used


def _salt(path: Path) -> bytes:
    """Read the salt; the first process makes it, whole or not at all."""
    with contextlib.suppress(FileNotFoundError):
        if len(salt := path.read_bytes()) == _SALT_BYTES:
            return salt
    fresh = path.with_name("salt.new")
    fresh.touch(0o600)
    fresh.write_bytes(secrets.token_bytes(_SALT_BYTES))
    fresh.rename(path)
    return path.read_bytes()


def _tidy(run: Path) -> None:
    """Remove what processes that died have left: it may hold credentials."""
    for left in run.iterdir():
        with contextlib.suppress(CacheFailure), open_lock(left / "lock") as lock:
            if lock.try_take():
                shutil.rmtree(left, ignore_errors=True)


def size(path: Path) -> int:
    """Return how many bytes the files of a folder have."""
    total = 0
    for folder, _, files in os.walk(path):
        for file in files:
            with contextlib.suppress(OSError):
                total += (Path(folder) / file).lstat().st_size
    return total


def default_folder() -> Path:
    """Return a folder for mirrors: in the user's cache, or, for a user who has none, one for the time being."""
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
