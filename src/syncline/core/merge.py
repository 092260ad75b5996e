"""Three-way merge, per value, on digests alone: nobody's values are stored or compared.

A change is a difference from the recorded base, never a timestamp. A value changed on one side only flows or stays;
changed on both sides to the same value is no conflict; changed on both sides to different values stays as it is at the
destination, is reported, and its base is not advanced, so that it stays reported until the two agree.
"""

from collections.abc import Mapping

from msgspec import Struct

Leaves = Mapping[str, str]


class Merge(Struct, frozen=True):
    """What to do at the destination, and what holds afterwards."""

    take: tuple[str, ...]
    """Paths whose value is to become the source's."""
    drop: tuple[str, ...]
    """Paths to remove."""
    conflicts: tuple[str, ...]
    """Paths changed on both sides."""
    base: dict[str, str]
    """The base to record with the result."""
    result: dict[str, str]
    """Digests of the destination afterwards."""


def merge_one_way(base: Leaves, source: Leaves, destination: Leaves) -> Merge:
    """Bring the source's changes to the destination and keep the edits made there."""
    take, drop, conflicts = [], [], []
    new_base: dict[str, str] = {}
    result = dict(destination)
    for path in sorted(base.keys() | source.keys() | destination.keys()):
        was, wanted, there = base.get(path), source.get(path), destination.get(path)
        agreed = wanted
        if wanted == there:
            pass
        elif there == was:
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
