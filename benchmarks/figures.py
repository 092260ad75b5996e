"""What a benchmark brings home, and the table that shows it."""

from collections.abc import Iterable, Sequence
from statistics import median

from msgspec import Struct

QUIETEST = 3
_HEAD = ("", "measured", "goal", "")


class Figure(Struct, frozen=True, kw_only=True):
    """One line of the table. `value` is what the goal is about."""

    name: str
    text: str
    value: float
    unit: str
    goal: float | None = None

    @property
    def met(self) -> bool | None:
        return None if self.goal is None else self.value <= self.goal


class Results(Struct, frozen=True, kw_only=True):
    """All figures of one benchmark."""

    title: str
    figures: Sequence[Figure]


class Sample(Struct, frozen=True):
    """What one round took, and which share of the machine other processes took meanwhile."""

    value: float
    others: float


def ratio(name: str, ours: Sequence[Sample], theirs: Sequence[Sample], unit: str, goal: float | None = None) -> Figure:
    """Compare the rounds of both sides in which the machine was least disturbed."""
    mine, other = _quietest(ours), _quietest(theirs)
    ours_typical, theirs_typical = (median(sample.value for sample in side) for side in (mine, other))
    disturbance = max(sample.others for sample in (*mine, *other))
    value = ours_typical / theirs_typical
    text = (
        f"{value:.2f} x  ({ours_typical:.2f} {unit} to {theirs_typical:.2f} {unit};"
        f" other processes took up to {disturbance:.0%} of the machine)"
    )
    return Figure(name=name, text=text, value=value, unit="x", goal=goal)


def _quietest(samples: Sequence[Sample]) -> list[Sample]:
    return sorted(samples, key=lambda sample: sample.others)[:QUIETEST]


def percentile(values: Iterable[float], share: float) -> float:
    """Return the value that this share of all does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def table(results: Sequence[Results]) -> str:
    """Set the figures for reading."""
    rows = [_row(figure) for result in results for figure in result.figures]
    widths = [max(len(row[column]) for row in [_HEAD, *rows]) for column in range(len(_HEAD))]
    lines = []
    for result in results:
        lines += ["", result.title, _line(_HEAD, widths)]
        lines += [_line(_row(figure), widths) for figure in result.figures]
    return "\n".join(lines)


def markdown(results: Sequence[Results]) -> str:
    """Set the figures for docs/performance.md."""
    lines = []
    for result in results:
        lines += ["", f"## {result.title}", "", "| | measured | goal |", "|---|---|---|"]
        lines += [
            f"| {name} | {text} | {f'{goal} {verdict}'.strip()} |"
            for name, text, goal, verdict in map(_row, result.figures)
        ]
    return "\n".join(lines)


def _row(figure: Figure) -> tuple[str, str, str, str]:
    goal = "" if figure.goal is None else f"<= {figure.goal:g} {figure.unit}".rstrip()
    verdict = {None: "", True: "met", False: "MISSED"}[figure.met]
    return figure.name, figure.text, goal, verdict


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  " + "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
