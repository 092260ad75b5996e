"""Reads YAML or JSON of a user as JSON. It refuses YAML that expands without limit, or that JSON cannot represent.

YAML is read as in Kubernetes: a date and a time of day are text. No message quotes the text, because it may be secret.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec
import yaml

SIZE_LIMIT = 1024 * 1024
DEPTH_LIMIT = 200

_STRING = "tag:yaml.org,2002:str"
_NUMBERS = (
    ("tag:yaml.org,2002:int", re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|[1-9][0-9_]*|0)\Z")),
    ("tag:yaml.org,2002:float", re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")),
)
_TAGS_OF_NUMBERS = frozenset(tag for tag, _ in _NUMBERS)


class DocumentError(Exception):
    """The text is not valid. The message has the line and the remedy."""


def read_document(text: str) -> Any:
    """Read one document: a map, a list or a single value."""
    if len(text) > SIZE_LIMIT:
        raise DocumentError("it is larger than 1 MiB")
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        value = _read_yaml(text)
    if is_deep(value):
        raise DocumentError(f"it is nested more than {DEPTH_LIMIT} deep")
    _check(value)
    return value


def has_many_values(value: Any, limit: int) -> bool:
    """Whether a value holds more values than the limit, at any depth. It looks at hardly more than these."""
    left = [value]
    for _ in range(limit):
        if not left:
            return False
        left.extend(islice(_values(left.pop()), limit))
    return bool(left)


def is_deep(value: Any) -> bool:
    """Whether a value is nested too deeply to be processed."""
    level = [value]
    for _ in range(DEPTH_LIMIT):
        level = [inside for one in level for inside in _values(one)]
        if not level:
            return False
    return True


def _read_yaml(text: str) -> Any:
    try:
        _check_events(yaml.parse(text, Loader=_DocumentLoader))
        return yaml.load(text, Loader=_DocumentLoader)  # noqa: S506  # a SafeLoader underneath
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        raise DocumentError(f"{_line(mark)}neither YAML nor JSON") from None


class _DocumentLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # libyaml where it is built in
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag != _STRING:
                raise DocumentError(f"{_line(key.start_mark)}a key must be text: put it in quotes")
            if key.value in seen:
                raise DocumentError(f"{_line(key.start_mark)}the same key for the second time")
            seen.add(key.value)
        result: dict[Any, Any] = super().construct_mapping(node, deep)
        return result


def _resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """Return the non-text meanings of plain scalars, by their first character: true and false, null, numbers."""
    kept = {
        first: [pair for pair in pairs if pair[0].endswith((":bool", ":null"))]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    for first in "-+.0123456789":
        kept.setdefault(first, []).extend(_NUMBERS)
    return kept


_DocumentLoader.yaml_implicit_resolvers = _resolvers()


def _check_events(events: Iterator[yaml.Event]) -> None:
    """Refuse YAML that expands when composed: aliases and deep nesting. The events are flat, so this is cheap."""
    depth = documents = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            # Not quoted: a password that begins with an asterisk reads as an alias.
            raise DocumentError(f"{_line(event.start_mark)}aliases are not read; write it out, or put it in quotes")
        if getattr(event, "tag", None) in _TAGS_OF_NUMBERS and ":" in getattr(event, "value", ""):
            # The digits of YAML's numbers to the base of 60 can take minutes.
            raise DocumentError(
                f"{_line(event.start_mark)}this is no number: remove its tag (!!...), or put it in quotes"
            )
        documents += isinstance(event, yaml.DocumentStartEvent)
        if documents > 1:
            raise DocumentError(f"{_line(event.start_mark)}a second document begins; write one")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEPTH_LIMIT:
            raise DocumentError(f"{_line(event.start_mark)}nested more than {DEPTH_LIMIT} deep")


def _check(value: Any) -> None:
    """Refuse values that only YAML has: tags, and infinite numbers."""
    for inside in _values(value):
        _check(inside)
    if isinstance(value, float) and not abs(value) < float("inf"):
        raise DocumentError("it holds a number that is infinite, or none")
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise DocumentError("it holds a number of more than 64 bits; put it in quotes")
    if value is not None and not isinstance(value, str | int | float | dict | list):
        raise DocumentError("it has a value that JSON cannot represent; remove its tag (!!...)")


def _values(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _line(mark: Any) -> str:
    return f"line {mark.line + 1}: " if mark is not None else ""
