"""The state of sandboxes, from their folders.

A supervisor holds the lock of its folder for as long as it lives. An unlocked folder is therefore left over, and swept
away, unless it tells of a failure that its user should see first.
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
    """What a sandbox is started with; extra arguments come last, so that they win."""

    audit_log: bool = False
    port: int = 0
    etcd_args: tuple[str, ...] = ()
    apiserver_args: tuple[str, ...] = ()
    controller_manager_args: tuple[str, ...] = ()


class State(msgspec.Struct, frozen=True):
    """A sandbox as its supervisor last wrote it down."""

    phase: Literal["starting", "ready", "failed"]
    supervisor: int
    options: Options
    server: str = ""
    pids: dict[str, int] = {}
    failure: str = ""

    def save(self, folder: Path) -> None:
        """Write the state into its folder."""
        write_private(folder / "sandbox.json", msgspec.json.encode(self))


def load(folder: Path) -> State | None:
    """Read a folder's state; None when there is none (yet)."""
    try:
        return msgspec.json.decode((folder / "sandbox.json").read_bytes(), type=State)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None


def named_root() -> Path:
    """Where named sandboxes live."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "syncline" / "sandbox"


def named_folder(name: str) -> Path:
    """Give the folder of a named sandbox; refuses names that are not plain."""
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


def new_ephemeral() -> tuple[Path, int]:
    """Make a new folder for a sandbox without a name; the folder and its lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = locks.wait_lock(folder)  # None when a sweep was faster than we
        if lock is not None:
            return folder, lock


def sweep() -> None:
    """Remove what supervisors that were killed themselves have left."""
    for folder in _ephemeral_folders():
        _remove_unlocked(folder)
    for folder in named_folders():
        state = load(folder)
        if state is None or state.phase != "failed":
            _remove_unlocked(folder)


def clear(folder: Path) -> None:
    """Empty a folder whose lock is ours."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def remove(folder: Path) -> None:
    """Remove a folder whose lock is ours."""
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
