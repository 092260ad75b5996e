"""Many paths as one tree, so that each part of an object is looked up once, however many paths there are."""

from collections.abc import Iterable, Sequence


class PathNode:
    """A place in a tree of paths: the places below it, and whether a path ends here."""

    def __init__(self) -> None:
        self.below: dict[str, PathNode] = {}
        self.is_end = False


def path_tree(paths: Iterable[Sequence[str]]) -> PathNode:
    """Return the place at which all of these paths begin."""
    root = PathNode()
    for path in paths:
        node = root
        for part in path:
            node = node.below.setdefault(part, PathNode())
        node.is_end = True
    return root
