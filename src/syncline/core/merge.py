"""Three-way merge, per value, on digests alone: nobody's values are stored or compared.

A change is a difference from the recorded base, never a timestamp. A value changed on one side only flows or stays;
changed on both sides to the same value is no conflict; changed on both sides to different values stays as it is at
the destination, is reported, and its base is not advanced: it stays reported until the two agree.
"""

from collections.abc import Mapping

from msgspec import Struct

ValueDigests = Mapping[str, str]

_TWINS = {"data": "binaryData", "binaryData": "data"}


class Merge(Struct, frozen=True):
    """The changes at the destination, and the result."""

    set: tuple[str, ...]
    """Paths that get the value of the source."""
    unset: tuple[str, ...]
    """Paths to remove."""
    conflicts: tuple[str, ...]
    """Paths changed on both sides."""
    base: dict[str, str]
    """The base to record with the result."""
    result: dict[str, str]
    """Digests of the destination afterwards."""


def merge_one_way(base: ValueDigests, source: ValueDigests, destination: ValueDigests) -> Merge:
    """Apply the changes of the source to the destination, and keep the edits there."""
    take, drop, conflicts = [], [], []
    new_base: dict[str, str] = {}
    result = dict(destination)
    for path in sorted(base.keys() | source.keys() | destination.keys()):
        was, wanted, there = base.get(path), source.get(path), destination.get(path)
        agreed = wanted
        if wanted == there:
            pass
        elif there == was and not (wanted is not None and _held(_twin(path), base, destination)):
            if wanted is None:
                drop.append(path)
                del result[path]
            else:
                take.append(path)
                result[path] = wanted
        elif wanted == was:
            pass
        else:
            conflicts.append(path)
            agreed = was
        if agreed is not None:
            new_base[path] = agreed
    return Merge(tuple(take), tuple(drop), tuple(conflicts), new_base, result)


def _twin(path: str) -> str:
    """Return the path of the same key in the other map (`data`, `binaryData`)."""
    part, _, name = path.partition("/")
    return f"{_TWINS.get(part, '')}/{name}"


def _held(path: str, base: ValueDigests, destination: ValueDigests) -> bool:
    """Whether an edit at the destination keeps a value here that the source does not have."""
    return path in destination and destination[path] != base.get(path)
