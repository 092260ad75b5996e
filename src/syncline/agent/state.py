"""The state of an agent that survives a restart, in addition to the manifest: pending steps, and the history."""

import hashlib
from datetime import UTC, datetime
from typing import TypeVar

import msgspec
from msgspec import Struct, field

from syncline.core.gateway_plan import MAX_HISTORY, ReportedDiff, ReportedSync
from syncline.core.protected_paths import STATE_FOLDER
from syncline.files.errors import FilesError
from syncline.files.folder import Folder

STATE_FILE = f"{STATE_FOLDER}/state.json"
EDITS_FILE = f"{STATE_FOLDER}/edits.json"
CA_FILE = f"{STATE_FOLDER}/depot-ca.json"
_MAX_BYTES = 2 * 1024 * 1024
T = TypeVar("T")


class AgentState(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The state after the last sync."""

    pending: tuple[str, ...] = ()
    """The steps of the adapter that are still to be done."""
    synced_plan: str = ""
    """The id of the last plan that was carried out completely."""
    synced_at: str = ""
    seconds: float = 0.0
    changed: ReportedDiff = ReportedDiff()
    scan: str = ""
    snapshot: str = ""
    snapshot_bytes: int = 0
    snapshot_at: str = ""
    history: tuple[ReportedSync, ...] = ()

    def with_result(self, entry: ReportedSync) -> "AgentState":
        """Add the result of a sync. The same result of the same commit is not repeated."""
        last = self.history[-1] if self.history else None
        if last is not None and (last.commit, last.result) == (entry.commit, entry.result):
            return self
        return msgspec.structs.replace(self, history=(*self.history, entry)[-MAX_HISTORY:])


class SentEdits(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The local edits that were committed, and that the published commit does not have yet."""

    branch: str = ""
    commit: str = ""
    pull_request: str = ""
    files: dict[str, str] = field(default_factory=dict)
    """The hashes of sent edits, by path."""
    unopened: bool = False
    """Whether the branch still lacks its pull request."""


class _LearnedCa(Struct):
    given: str
    """The hash of the certificates of the settings."""
    ca: str


def load_state(folder: Folder) -> AgentState:
    """Read the state; an empty one if it cannot be read."""
    return _read(folder, STATE_FILE, AgentState) or AgentState()


def store_state(folder: Folder, state: AgentState) -> None:
    """Store the state. Raises `FilesError`."""
    folder.replace(STATE_FILE, msgspec.json.encode(state))


def load_edits(folder: Folder) -> SentEdits:
    """Read the sent edits; none if they cannot be read. Then edits are sent again, and change nothing."""
    return _read(folder, EDITS_FILE, SentEdits) or SentEdits()


def store_edits(folder: Folder, edits: SentEdits) -> None:
    """Store the sent edits. Raises `FilesError`."""
    folder.replace(EDITS_FILE, msgspec.json.encode(edits))


def load_ca(folder: Folder, given: str) -> str:
    """Return the stored certificates, if those of the settings are still the same; else none."""
    learned = _read(folder, CA_FILE, _LearnedCa)
    return learned.ca if learned is not None and learned.given == _digest(given) else ""


def store_ca(folder: Folder, given: str, ca: str) -> None:
    """Store certificates that came over a trusted connection. Raises `FilesError`."""
    folder.replace(CA_FILE, msgspec.json.encode(_LearnedCa(_digest(given), ca)))


def timestamp() -> str:
    """Return the current time, for people. No decision depends on it: the clock may be wrong."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _read(folder: Folder, path: str, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(folder.read(path, _MAX_BYTES), type=kind)
    except (FileNotFoundError, FilesError, ValueError, RecursionError):
        return None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
