"""Decides when a watch is checked that is open and brings nothing, and whether watches deliver.

No news is usual: the API server sends a bookmark only if the version of the kind has moved on, and for a kind at rest
it may move on every ten minutes. A proxy that holds all events back looks the same. So a watch that brought nothing
is followed by a probe: a short watch from a version that is so old that nearly every server has something to say, and
else one that begins with all objects. If there are no objects, a server may be silent in both, and no answer proves
nothing.

Pure: the clock is an argument.
"""


class WatchTrust:
    """Whether the watches of one kind deliver. The time between two probes doubles while they are answered."""

    def __init__(self, quiet: float, longest: float) -> None:
        """`quiet` is the time without a line before the first probe, `longest` the maximum time between two."""
        self.delivers = True
        """False from the first probe that proves the contrary to the next line of any watch."""
        self.is_clear = True
        """False from the first probe without an answer, whatever it proves, to the next line of any watch."""
        self._quiet = quiet
        self._longest = longest
        self._pause = quiet
        self._current_at: float | None = None

    def listed(self, now: float) -> None:
        """Note a complete list: nothing is missing for now. It does not tell whether watches deliver."""
        self._current_at = now

    def heard(self, now: float) -> None:
        """Note a line of the watch."""
        self._current_at, self._pause, self.delivers, self.is_clear = now, self._quiet, True, True

    def needs_probe(self, now: float) -> bool:
        """Whether nothing has come for so long that the server should be probed."""
        return self._current_at is not None and now - self._current_at >= self._pause

    def probed(self, now: float, *, answered: bool) -> None:
        """Note the result of a probe."""
        self._current_at, self.delivers, self.is_clear = now, answered, answered
        self._pause = min(2 * self._pause, self._longest) if answered else self._quiet

    def probed_in_vain(self, now: float) -> None:
        """Note a probe without an answer, of a server that may have nothing to say."""
        self._current_at, self._pause, self.is_clear = now, self._quiet, False

    def put_off(self, now: float) -> None:
        """Note that the server refused a probe, which tells nothing."""
        self._current_at, self._pause = now, min(2 * self._pause, self._longest)
