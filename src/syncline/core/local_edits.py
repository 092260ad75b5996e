"""Decides about local edits: which stay in the folder, which are sent, and when. Pure.

| The file changed | gitWins | gatewayWins | manual |
|---|---|---|---|
| only on the gateway | stays, is sent | stays, is sent | stays, is sent |
| on both sides | is sent; then Git's is written | stays until Git has the same | stays, is sent, is reported |

An edit that may not be sent stays too, while Git has not changed the file. If Git has, `gitWins` writes Git's file, and
keeps a copy of the edit in the folder of the agent.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct

from syncline.core.publish_plan import LiveFile, ManagedFile, WantedFile

Strategy = Literal["gitWins", "gatewayWins", "manual"]
DELETED = "deleted"
"""The hash of a file that was deleted."""
PATIENCE = 10
"""The maximum wait of an edit while others keep changing, as a multiple of the debounce."""


class LocalEdit(Struct, frozen=True):
    """A file that somebody wrote or deleted."""

    path: str
    hash: str
    """SHA-256 of the content, or `DELETED`."""
    size: int = 0
    base: str = ""
    """The id of the blob that it was before; empty for a new file."""

    @property
    def deleted(self) -> bool:
        """Whether the file was deleted."""
        return self.hash == DELETED


class HeldEdits(Struct, frozen=True):
    """The edits that a publish leaves in the folder."""

    left: frozenset[str] = frozenset()
    conflicts: tuple[str, ...] = ()
    """Files that changed on both sides, and wait for a person."""
    waiting: tuple[str, ...] = ()
    """Files that changed on both sides, and are replaced as soon as the edit is sent."""


def edit_hash(live: LiveFile | None) -> str | None:
    """Return the hash of an edit; None if the path is not an ordinary file, which is no edit."""
    if live is None:
        return DELETED
    return live.hash if live.kind == "file" else None


def hold_edits(
    watched: Iterable[str],
    wanted: Mapping[str, WantedFile],
    managed: Mapping[str, ManagedFile],
    live: Mapping[str, LiveFile],
    *,
    settled: Mapping[str, str],
    strategy: Strategy,
) -> HeldEdits:
    """Decide which edits stay. `settled` has the hashes of edits that were sent, or are never sent."""
    left: set[str] = set()
    conflicts, waiting = [], []
    for path in watched:
        entry, target = managed.get(path), wanted.get(path)
        found = edit_hash(live.get(path))
        is_edit = found != entry.hash if entry is not None else found != DELETED
        if found is None or not is_edit or (target is not None and target.hash == found):
            continue
        if entry is None and target is None:
            continue  # a new file, which no publish touches
        if entry is not None and target is not None and target.blob == entry.blob and target.recipe == entry.recipe:
            left.add(path)
        elif target is None and found == DELETED:
            continue  # deleted on both sides
        elif strategy == "gatewayWins":
            left.add(path)
        elif strategy == "manual":
            left.add(path)
            conflicts.append(path)
        elif settled.get(path) != found:
            left.add(path)
            waiting.append(path)
    return HeldEdits(frozenset(left), tuple(sorted(conflicts)), tuple(sorted(waiting)))


class Debounce:
    """Debounces edits. Times are seconds of a monotonic clock."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._seen: dict[str, tuple[str, float]] = {}
        self._since: float | None = None

    def due(self, edits: Mapping[str, str], now: float) -> frozenset[str]:
        """Take the hashes of all unsent edits; return the edits to send now.

        All are sent together when none has changed for the time. If some never rest, the others do not wait for them
        without end.
        """
        self._seen = {path: self._seen.get(path, ("", now)) for path in edits}
        for path, found in edits.items():
            if self._seen[path][0] != found:
                self._seen[path] = found, now
        if not edits:
            self._since = None
            return frozenset()
        if self._since is None:
            self._since = now
        rested = frozenset(path for path, (_, since) in self._seen.items() if now - since >= self.seconds)
        if len(rested) == len(edits) or now - self._since >= PATIENCE * self.seconds:
            return rested
        return frozenset()

    def wait(self, now: float) -> float | None:
        """Return the seconds until the next check; None if there is no edit."""
        if not self._seen:
            return None
        return max((since + self.seconds - now for _, since in self._seen.values()), default=0.0)

    def sent(self, paths: Iterable[str]) -> None:
        """Forget edits that were sent."""
        for path in paths:
            self._seen.pop(path, None)
        self._since = None
