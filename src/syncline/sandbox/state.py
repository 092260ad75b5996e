"""The state of sandboxes, from their folders.

A supervisor holds the lock of its folder until it ends. An unlocked folder is therefore a leftover, and is removed,
unless it has a failure that its user should see first.
"""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from syncline.sandbox import locks
from syncline.sandbox.errors import SandboxError
from syncline.sandbox.kubeconfig import write_private

_PREFIX = "syncline-sandbox-"
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


class Options(msgspec.Struct, frozen=True):
    """The options of a sandbox. Extra arguments are the last ones, so that they override others."""

    kcp: bool = False
    """kcp instead of a cluster: etcd and kcp are its components."""
    audit_log: bool = False
    port: int = 0
    etcd_args: tuple[str, ...] = ()
    apiserver_args: tuple[str, ...] = ()
    controller_manager_args: tuple[str, ...] = ()
    kcp_args: tuple[str, ...] = ()


class State(msgspec.Struct, frozen=True):
    """The last recorded state of a sandbox."""

    phase: Literal["starting", "ready", "failed"]
    supervisor: int
    options: Options
    server: str = ""
    pids: dict[str, int] = {}
    failure: str = ""

    def save(self, folder: Path) -> None:
        """Write the state to its folder."""
        write_private(folder / "sandbox.json", msgspec.json.encode(self))


def load(folder: Path) -> State | None:
    """Read the state of a folder; None if there is none yet."""
    try:
        return msgspec.json.decode((folder / "sandbox.json").read_bytes(), type=State)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None


def named_root() -> Path:
    """Return the folder of named sandboxes."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "syncline" / "sandbox"


def named_folder(name: str) -> Path:
    """Return the folder of a named sandbox. Raises SandboxError for an invalid name."""
    if not _NAME.fullmatch(name):
        raise SandboxError(
            f"{name!r} is not a valid name of a sandbox: use up to 40 of a-z, 0-9 and '-', with a letter or digit at"
            " both ends"
        )
    return named_root() / name


def named_folders() -> list[Path]:
    """List the folders of all named sandboxes, by name."""
    try:
        return sorted(path for path in named_root().iterdir() if _NAME.fullmatch(path.name))
    except FileNotFoundError:
        return []


def shared_folder(name: str) -> Path:
    """Give the folder of a sandbox that several processes share; it is none of the named ones."""
    return named_root().with_name("shared") / named_folder(name).name


def users_folder(folder: Path) -> Path:
    """Give the folder whose lock the users of a shared sandbox hold together, and nobody once it is no longer used."""
    return folder / "users"


def new_ephemeral() -> tuple[Path, int]:
    """Create a folder for a sandbox without a name; return the folder and its lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = locks.wait_lock(folder)  # None if another process removed it before the lock
        if lock is not None:
            return folder, lock


def sweep() -> None:
    """Remove the folders of killed supervisors."""
    for folder in (*_ephemeral_folders(), *named_root().with_name("shared").glob("*")):
        _remove_unlocked(folder)
    for folder in named_folders():
        state = load(folder)
        if state is None or state.phase != "failed":
            _remove_unlocked(folder)


def clear(folder: Path) -> None:
    """Empty a folder that this process has locked."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def remove(folder: Path) -> None:
    """Remove a folder that this process has locked."""
    shutil.rmtree(folder, ignore_errors=True)


def _remove_unlocked(folder: Path) -> None:
    lock = locks.try_lock(folder)
    if lock is not None:
        remove(folder)
        os.close(lock)


def _ephemeral_folders() -> Iterator[Path]:
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if path.lstat().st_uid == os.getuid():
                yield path
