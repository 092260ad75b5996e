"""The source as a whole: unique class names, short functions, and first lines that name the subject of a module."""

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


def test_functions_are_shorter_than_sixty_lines() -> None:
    long = [
        f"{path}: {node.name}"
        for path, node in definitions()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno + 1 >= LONGEST_FUNCTION
    ]
    assert long == []


def test_the_first_line_of_a_module_names_its_subject() -> None:
    questions = ("what", "which", "whose", "who", "whether", "where", "how", "when")
    lines = {
        path: (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "") for path in ROOT.rglob("*.py")
    }
    wrong = [
        str(path.relative_to(ROOT))
        for path, text in lines.items()
        if not text or text.split(maxsplit=1)[0].lower() in questions
    ]
    assert wrong == []
