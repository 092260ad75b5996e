"""How the demo speaks: two voices, what was done and what came of it, with times. Colours only where they are seen."""

import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TextIO

WIDTH = 100
INDENT = " " * 4
VOICE = 10
TIME = 9

_RESET = "\x1b[0m"
_STYLES = {"bold": "\x1b[1m", "dim": "\x1b[2m", "you": "\x1b[36m", "syncline": "\x1b[32m", "bad": "\x1b[31m"}


class Chapter(NamedTuple):
    """One line of the summary."""

    number: int
    title: str
    outcome: str
    seconds: float


class Teller:
    """Writes the story to a stream as it happens, and keeps the chapters for the summary."""

    def __init__(self, stream: TextIO = sys.stdout) -> None:
        self._stream = stream
        self._colours = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._chapters: list[Chapter] = []
        self._title = ""
        self._speaker = ""

    def headline(self, text: str) -> None:
        """Open the story."""
        self._write(self._paint("bold", text))

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Tell of a preparation while it goes on, and how long it took."""
        started = time.monotonic()
        self._stream.write(INDENT + text.ljust(WIDTH - len(INDENT) - TIME))
        self._stream.flush()
        try:
            yield
        except BaseException:
            self._write()
            raise
        self._write(_duration(time.monotonic() - started).rjust(TIME))

    def chapter(self, title: str) -> None:
        """Begin a chapter."""
        self._title = title
        self._speaker = ""
        self._write()
        self._write(self._paint("bold", f"{len(self._chapters) + 1:>2}  {title}"))

    def you(self, text: str) -> None:
        """Tell what was done to the cluster."""
        self._say("you", text)

    def syncline(self, text: str, seconds: float | None = None) -> None:
        """Tell what the operator made of it, and how long after."""
        self._say("syncline", text, seconds)

    def done(self, outcome: str, seconds: float) -> None:
        """End a chapter."""
        self._chapters.append(Chapter(len(self._chapters) + 1, self._title, outcome, seconds))

    def summary(self) -> None:
        """Show all chapters at once."""
        rows = [(f"{one.number:>2}", one.title, one.outcome, _duration(one.seconds)) for one in self._chapters]
        header = (" #", "You", "Syncline", "after")
        widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
        self._write()
        self._write(self._paint("bold", _row(header, widths)))
        self._write(self._paint("dim", _row(["-" * width for width in widths], widths)))
        for row in rows:
            self._write(_row(row, widths))
        self._write(self._paint("dim", "    Each time runs from sending the change to seeing its result on a watch."))

    def note(self, text: str = "") -> None:
        """Say something outside of the story."""
        self._write(text)

    def failure(self, text: str) -> None:
        """Say why the story ends early."""
        self._write()
        self._write(self._paint("bad", text))

    def _say(self, voice: str, text: str, seconds: float | None = None) -> None:
        name = "" if voice == self._speaker else {"you": "you", "syncline": "Syncline"}[voice]
        self._speaker = voice
        room = WIDTH - len(INDENT) - VOICE - TIME
        lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)
        if seconds is not None:
            lines[-1] = lines[-1].ljust(room) + self._paint("bold", _duration(seconds).rjust(TIME))
        for line in lines:
            self._write(f"{INDENT}{self._paint(voice, name.ljust(VOICE))}{line}")
            name = ""

    def _paint(self, style: str, text: str) -> str:
        return f"{_STYLES[style]}{text}{_RESET}" if self._colours and text.strip() else text

    def _write(self, text: str = "") -> None:
        self._stream.write(text.rstrip() + "\n")
        self._stream.flush()


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    align: list[Callable[[str, int], str]] = [str.rjust, str.ljust, str.ljust, str.rjust]
    return "  ".join(place(cell, width) for place, cell, width in zip(align, cells, widths, strict=True))
