r"""Sets one value of a JSON text in place: all characters outside the value stay as they are.

A path is dotted: `items.0.name`. A leading `$.` and brackets are read too: `$.items[0]["name"]`. A dot that is part of
a name is written `\.`.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

BOM = "\ufeff"
_LONGEST_PATH = 512
_LONGEST_SHOWN = 80

_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_SCALAR = re.compile(r"[^\s,\]}]+")
_SPACE = re.compile(r"[ \t\r\n]*")
_NESTING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]', re.DOTALL)
_PART = re.compile(r"""((?:[^.\[\]\\]|\\.)+)|\[(\d+)\]|\["([^"]+)"\]|\['([^']+)'\]""", re.DOTALL)


class JsonEditError(Exception):
    """A text is not JSON, or a path does not fit it. The message is for people, and quotes no value."""


class _Member(NamedTuple):
    """The position of a member of an object or list in the text."""

    name: str
    start: int
    """Where its name begins, or its value if it has none."""
    name_end: int
    value_start: int
    value_end: int


def parse_path(path: str) -> tuple[str, ...]:
    """Return the parts of a path. Raises `JsonEditError`."""
    text = path.removeprefix("$").removeprefix(".")
    parts: list[str] = []
    position = 0
    while text and len(text) <= _LONGEST_PATH:
        found = _PART.match(text, position)
        if found is None:
            break
        plain, *bracketed = found.groups()
        parts.append(
            re.sub(r"\\(.)", r"\1", plain, flags=re.DOTALL) if plain else next(part for part in bracketed if part)
        )
        position = found.end()
        if position == len(text):
            return tuple(parts)
        position += text[position] == "."
    raise JsonEditError(f"{_shown(path)} is not a path: write the names of fields with dots between them")


def check_json(text: str) -> Any:
    """Return the value of a JSON text, which may start with a byte order mark. Raises `JsonEditError`."""
    try:
        return msgspec.json.decode(text.removeprefix(BOM))
    except RecursionError:
        raise JsonEditError("the JSON is nested too deeply") from None
    except ValueError as error:  # msgspec names the position, and no value
        raise JsonEditError(f"this is not JSON: {error}") from None


def has_value(text: str, path: Sequence[str]) -> bool:
    """Whether a JSON text has a value at a path. Raises `JsonEditError` if it is not JSON."""
    value = check_json(text)
    for part in path:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isascii() and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return False
    return True


def value_at(text: str, path: Sequence[str]) -> Any:
    """Return the value at a path. Raises `JsonEditError` if there is none."""
    value = check_json(text)
    for done, part in enumerate(path):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list):
            value = value[_index(part, len(value), path[:done])]
        else:
            raise JsonEditError(f"there is no {_dotted(path[: done + 1])}")
    return value


def set_value(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text with a value at a path. Raises `JsonEditError`.

    Objects that are missing on the way are added; lists are not. If the value is there already, the text is returned
    as it is.
    """
    check_json(text)
    if not path:
        raise JsonEditError("the path is empty: name a field")
    position = _skip_space(text, len(BOM) if text.startswith(BOM) else 0)
    for done, part in enumerate(path):
        members = list(_members(text, position, path[:done]))
        if text[position] == "[":
            member = members[_index(part, len(members), path[:done])]
        else:
            # Of several members with one name, parsers take the last.
            named = [member for member in members if member.name == part]
            if not named:
                return _insert(text, position, members, path[done:], value)
            member = named[-1]
        position, end = member.value_start, member.value_end
    if _same(msgspec.json.decode(text[position:end]), value):
        return text
    return text[:position] + _encoded(value) + text[end:]


def _insert(text: str, position: int, members: Sequence[_Member], path: Sequence[str], value: Any) -> str:
    """Add a member at the end of an object, written as its last member is."""
    for part in reversed(path[1:]):
        value = {part: value}
    if members:
        last = members[-1]
        start = members[-2].value_end if len(members) > 1 else position
        before = text[start + 1 : last.start] if len(members) == 1 else text[text.index(",", start) + 1 : last.start]
        colon = text[last.name_end : last.value_start]
        return f"{text[: last.value_end]},{before}{_encoded(path[0])}{colon}{_encoded(value)}{text[last.value_end :]}"
    return f"{text[: position + 1]}{_encoded(path[0])}: {_encoded(value)}{text[position + 1 :]}"


def _members(text: str, position: int, path: Sequence[str]) -> Iterator[_Member]:
    """Yield the members of the object or list that begins at a position of a valid text."""
    opening = text[position]
    if opening not in "{[":
        raise JsonEditError(f"{_dotted(path) or 'the whole text'} is neither an object nor a list")
    position = _skip_space(text, position + 1)
    number = 0
    while text[position] not in "}]":
        start = name_end = position
        name = str(number)
        if opening == "{":
            name_end = _value_end(text, position)
            name = msgspec.json.decode(text[start:name_end])
            position = _skip_space(text, _skip_space(text, name_end) + 1)
        end = _value_end(text, position)
        yield _Member(name, start, name_end, position, end)
        position = _skip_space(text, end)
        if text[position] == ",":
            position = _skip_space(text, position + 1)
        number += 1


def _value_end(text: str, position: int) -> int:
    if text[position] == '"':
        return _end_of(_STRING, text, position)
    if text[position] not in "{[":
        return _end_of(_SCALAR, text, position)
    depth = 0
    for found in _NESTING.finditer(text, position):
        bracket = found[0]
        depth += (bracket in "{[") - (bracket in "}]")
        if depth == 0:
            return found.end()
    raise JsonEditError("the JSON ends too early")


def _end_of(pattern: "re.Pattern[str]", text: str, position: int) -> int:
    found = pattern.match(text, position)
    if found is None:
        raise JsonEditError("the JSON ends too early")
    return found.end()


def _skip_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def _index(part: str, length: int, path: Sequence[str]) -> int:
    if not (part.isascii() and part.isdecimal()) or int(part) >= length:
        where = _dotted(path) or "the whole text"
        raise JsonEditError(f"{where} is a list of {length}, which has no item {_shown(part)} (the first is 0)")
    return int(part)


def _same(one: Any, other: Any) -> bool:
    """Whether two values are written the same; in Python true is 1, in JSON it is not."""
    return type(one) is type(other) and msgspec.json.encode(one, order="sorted") == msgspec.json.encode(
        other, order="sorted"
    )


def _encoded(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _dotted(path: Sequence[str]) -> str:
    return _shown(".".join(path))


def _shown(path: str) -> str:
    return path if len(path) <= _LONGEST_SHOWN else path[:_LONGEST_SHOWN] + "..."
