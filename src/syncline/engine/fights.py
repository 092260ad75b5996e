"""Fights: somebody else undoes what we write, again and again.

Writing the same content to the same object many times in a short while is one, whoever started it and however it is
undone: an edit, a delete, a webhook that changes what we send. Then repairs are spaced out, and the other side is
named.
"""

import time

from msgspec import Struct

from syncline.core.objects import Target

TOLERATED = 5
WINDOW = 600.0
FIRST_PAUSE = 60.0


class _Rounds(Struct, gc=False):
    namespace_uid: str
    digest: str
    count: int
    last: float


class Fights:
    """How often each target was written with the same content. Can be lost: a fight shows itself again soon enough."""

    def __init__(self) -> None:
        self._rounds: dict[Target, _Rounds] = {}

    def wrote(self, target: Target, namespace_uid: str, digest: str) -> None:
        """Take note of a write; other content, or another namespace of the same name, is another matter."""
        now = time.monotonic()
        rounds = self._same(target, namespace_uid, digest)
        if rounds is None or now - rounds.last > WINDOW:
            self._rounds[target] = _Rounds(namespace_uid, digest, 1, now)
        else:
            rounds.count += 1
            rounds.last = now

    def rounds(self, target: Target, namespace_uid: str, digest: str) -> int:
        """Return how often this content was written lately, if the next write must wait; else 0."""
        rounds = self._same(target, namespace_uid, digest)
        if rounds is None or rounds.count < TOLERATED:
            return 0
        pause = min(WINDOW, FIRST_PAUSE * 2.0 ** (rounds.count - TOLERATED))
        return rounds.count if time.monotonic() - rounds.last < pause else 0

    def forget(self, target: Target) -> None:
        """Forget a target that we let go of ourselves."""
        self._rounds.pop(target, None)

    def _same(self, target: Target, namespace_uid: str, digest: str) -> _Rounds | None:
        rounds = self._rounds.get(target)
        same = rounds is not None and (rounds.namespace_uid, rounds.digest) == (namespace_uid, digest)
        return rounds if same else None
