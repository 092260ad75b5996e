"""The reasons that the source gives for what it does, collected from its syntax."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("core", "engine", "controllers", "fleet", "agent", "files")
STATES = frozenset({"Synced", "Pending", "Failed", "Conflict", "Skipped", "Unknown"})

# Calls that take a reason by position: its index.
_POSITIONS = {"SyncError": 0, "_leave": 1, "warn": 1, "Finding": 2, "pass_over": 2, "emit": 2}
_POSITIONS |= {"NotResolved": 0, "_open_circuit": 0, "_change": 1, "_end": 1, "SourceError": 0, "_refused": 1}
_WORD = re.compile(r"[A-Z][a-z]+(?:[A-Z][a-z]+)*")
_TWO_WORDS = re.compile(r"(?:[A-Z][a-z]+){2,}")


def given(root: Path) -> set[str]:
    """Return every reason that stands where a reason is expected."""
    return {reason for node in _nodes(root) for reason in _given_by(node)}


def words(root: Path) -> set[str]:
    """Return every text of several CamelCase words: a reason, or one of few other names."""
    return {
        node.value
        for node in _nodes(root)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _TWO_WORDS.fullmatch(node.value)
    }


def constants(root: Path) -> set[str]:
    """Return every word that has a name in capitals: some are reasons."""
    named = (node for node in _nodes(root) if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name))
    return {reason for node in named if node.targets[0].id.isupper() for reason in _texts(node.value)}


def _nodes(root: Path) -> Iterator[ast.AST]:
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            yield from ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def _given_by(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args):
            if name in _POSITIONS and len(args) > _POSITIONS[name]:
                yield from _texts(args[_POSITIONS[name]])
        case ast.keyword(arg="reason", value=value):
            yield from _texts(value)
        case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
            yield from _assigned(target, value)
        case ast.Tuple(elts=[ast.Constant(value=state), second, _]) if state in STATES:
            # The state of a target, its reason and its message.
            yield from _texts(second)
        case ast.Tuple(elts=[ast.Constant() as first, second]) if not list(_texts(second)):
            # A reason and its message.
            yield from _texts(first)


def _assigned(target: ast.expr, value: ast.expr) -> Iterator[str]:
    match target, value:
        case ast.Name(id="reason"), _:
            yield from _texts(value)
        case ast.Tuple(elts=names), ast.Tuple(elts=values):
            for name, part in zip(names, values, strict=True):
                yield from _assigned(name, part)
        case _:
            return


def _texts(node: ast.expr) -> Iterator[str]:
    """Yield the words that an expression may stand for."""
    match node:
        case ast.Constant(value=str() as text) if _WORD.fullmatch(text):
            yield text
        case ast.IfExp(body=body, orelse=orelse):
            yield from _texts(body)
            yield from _texts(orelse)
        case _:
            return
