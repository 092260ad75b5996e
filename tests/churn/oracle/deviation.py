"""What the oracle finds wrong."""

from dataclasses import dataclass

from tests.churn.api import Place


@dataclass(frozen=True)
class Deviation:
    """One thing that is not as it must be."""

    what: str
    """The kind of deviation, in a word or two."""
    ref: str
    """The sync that it is about, or nothing."""
    place: Place | None
    message: str = ""

    @property
    def key(self) -> tuple[str, str, Place | None]:
        """By this, two checks find the same."""
        return self.what, self.ref, self.place

    def __str__(self) -> str:
        where = f" at {'/'.join(self.place)}" if self.place else ""
        return f"{self.what}: {self.ref or '-'}{where}: {self.message}"
