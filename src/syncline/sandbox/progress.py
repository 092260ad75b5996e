"""Progress of long work: a counter on a terminal, else a line from time to time."""

import sys
import time
from types import TracebackType
from typing import Self

HEARTBEAT_SECONDS = 15.0
_REDRAW_SECONDS = 0.5


class Progress:
    """One piece of long work on stderr: `with Progress("building etcd", expected="1 min") as p: p.now("package x")`."""

    def __init__(self, what: str, *, expected: str) -> None:
        self._what = what
        self._expected = expected
        self._live = sys.stderr.isatty()
        self._started = time.monotonic()
        self._shown = self._started

    def __enter__(self) -> Self:
        self._write(f"{self._what} (expected: {self._expected}) ...", final=not self._live)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._write(f"{self._what}: done after {self._elapsed()} s", final=True)
        elif self._live:
            self._write(f"{self._what}: stopped after {self._elapsed()} s", final=True)

    def now(self, doing: str) -> None:
        """Show the current step. It is cheap, so call it at every step."""
        moment = time.monotonic()
        if moment - self._shown >= (_REDRAW_SECONDS if self._live else HEARTBEAT_SECONDS):
            self._shown = moment
            detail = f": {doing}" if doing else ""
            self._write(f"{self._what}, {self._elapsed()} s{detail}", final=not self._live)

    def _elapsed(self) -> int:
        return round(time.monotonic() - self._started)

    def _write(self, text: str, *, final: bool) -> None:
        if self._live:
            text = f"\r\x1b[K{text[:110]}"
        sys.stderr.write(text + ("\n" if final else ""))
        sys.stderr.flush()


def note(text: str) -> None:
    """Print one line to stderr."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
