"""What HOUSE asks of the source as a whole: one class for one name, and functions that fit on a screen."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import syncline

ROOT = Path(syncline.__file__).parent
LONGEST_FUNCTION = 60
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@cache
def definitions() -> tuple[tuple[Path, Definition], ...]:
    return tuple(_definitions())


def _definitions() -> Iterator[tuple[Path, Definition]]:
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, Definition):
                yield path.relative_to(ROOT), node


def classes() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path, node in definitions():
        if isinstance(node, ast.ClassDef):
            found[node.name].append(str(path))
    return found


def test_a_class_name_means_one_class() -> None:
    assert {name: places for name, places in classes().items() if len(places) > 1} == {}


def test_no_class_of_the_controllers_shares_its_name() -> None:
    shared = {name: places for name, places in classes().items() if len(places) > 1}
    assert [name for name, places in shared.items() if any(place.startswith("controllers/") for place in places)] == []


def test_functions_are_shorter_than_sixty_lines() -> None:
    long = [
        f"{path}: {node.name}"
        for path, node in definitions()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno + 1 >= LONGEST_FUNCTION
    ]
    assert long == []
