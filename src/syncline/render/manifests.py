"""Parses YAML and JSON with several documents like Kubernetes, with the line of each document.

`on`, `yes` and `y` are true; `0755` and `0o755` are octal; dates and times of day are text; `1e3` is the integer 1000;
a number, `true` or a date as a key is text; anchors, aliases and merge keys work. It is stricter than Kubernetes: a
duplicate key, a merge key after a key that it contains too, and a number of more than 64 bits are refused, because
parsers disagree about them. Aliases of aliases and deep nesting are refused before they need much memory. No message
quotes the text, because it may be secret.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import yaml

from syncline.core.fielderrors import field_path

DEPTH_LIMIT = 200
ALIAS_LIMIT = 4 * 1024 * 1024
"""The maximum expansion of all aliases of a document: the characters, and 16 for each value."""

_VALUE_WEIGHT = 16
_TAG = "tag:yaml.org,2002:"
_MERGE = "<<"
_LARGEST_INTEGER = 2**64
_SMALLEST_INTEGER = -(2**63)
_EXACT_INTEGERS = 2.0**63

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
_ENDLESS = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z")
_INTEGER = re.compile(r"([-+]?)(?:0[bB]([01]+)|0[xX]([0-9a-fA-F]+)|0[oO]?([0-7]+)|([1-9][0-9]*|0))\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
# The keys of an item in a path of the API server.
_ITEM_KEYS = re.compile(r"\[([^\]=,]{1,100}=[^\]=,]{0,300}(?:,[^\]=,]{1,100}=[^\]=,]{0,300})*)\]")
_NUMBER_BEGINS = frozenset("-+.0123456789")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml where it is built in


class ManifestError(Exception):
    """A text that cannot be parsed: the line and the cause."""

    def __init__(self, line: int, cause: str) -> None:
        super().__init__(f"line {line}: {cause}")
        self.line = line
        self.cause = cause


class Read(NamedTuple):
    """One document and its first line."""

    value: Any
    line: int


def read_documents(text: str) -> Iterator[Read]:
    """Parse the documents of a text, in order, without empty ones. Raises ManifestError."""
    text = text.removeprefix("\ufeff")
    if text.lstrip()[:1] in {"{", "["} and (documents := _read_json(text)) is not None:
        return iter(documents)
    return _read_yaml(text)


def field_lines(text: str, fields: Sequence[tuple[int, str]]) -> list[int]:
    """Return the line of each field, from the first line of its document and its path.

    A missing field has the line of its parent. 0: the line is not known.
    """
    composer = _Composer(positions=True)
    lines = [0] * len(fields)
    try:
        for read in composer.documents(yaml.parse(text.removeprefix("\ufeff"), Loader=_LOADER)):
            for index, (line, path) in enumerate(fields):
                if line == read.line:
                    lines[index] = composer.line_of(read.value, path)
    except (yaml.YAMLError, ManifestError, ValueError, RecursionError):
        pass  # a template, perhaps
    return lines


def _read_json(text: str) -> list[Read] | None:
    """Parse JSON documents, in order; None if the text is not JSON, and may be YAML."""
    documents: list[Read] = []
    at = line = 0
    try:
        while at < len(text):
            begin = at + len(text[at:]) - len(text[at:].lstrip()) if text[at].isspace() else at
            if begin >= len(text):
                break
            line += text.count("\n", at, begin)
            value, at = _JSON.raw_decode(text, begin)
            documents.append(Read(value, line + 1))
            line += text.count("\n", begin, at)
    except (ValueError, RecursionError):
        # The YAML parser finds it again, with its line.
        return None
    if any(_is_deep(document.value) for document in documents):
        return None
    return documents


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEPTH_LIMIT):
        level = [
            inside
            for one in level
            if isinstance(one, dict | list)
            for inside in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError
    return result


def _json_integer(text: str) -> int:
    value = int(text) if len(text) <= 20 else _LARGEST_INTEGER  # noqa: PLR2004 - the digits of 2**64
    if not _SMALLEST_INTEGER <= value < _LARGEST_INTEGER:
        raise ValueError
    return value


def _refuse_constant(_: str) -> Any:
    raise ValueError


def whole(value: float) -> int | float:
    """Return a whole number as an integer: Kubernetes writes 1000 for 1e3 or 1000.0."""
    return value if isinstance(value, int) or not value.is_integer() or abs(value) >= _EXACT_INTEGERS else int(value)


_JSON = json.JSONDecoder(
    object_pairs_hook=_pairs,
    parse_int=_json_integer,
    parse_float=lambda text: _finite(text, 0),
    parse_constant=_refuse_constant,
)


def _finite(text: str, line: int) -> int | float:
    value = float(text)
    if abs(value) == float("inf"):
        raise ManifestError(line, "a number too large to be one; put it in quotes")
    return whole(value)


def _read_yaml(text: str) -> Iterator[Read]:
    try:
        yield from _Composer().documents(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ManifestError(mark.line + 1 if mark else 1, _problem(error)) from None
    except yaml.reader.ReaderError as error:
        raise ManifestError(text.count("\n", 0, error.position) + 1, "a character that YAML does not allow") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ManifestError(1, "neither YAML nor JSON") from None


# The parser's messages, without the names of anchors and tags that it may quote.
_PROBLEMS = (
    (
        "cannot start any token",
        "a character that is not allowed here; use spaces for indentation, and quotes around @ and `",
    ),
    ("found character '\\t'", "a tab as indentation; write spaces"),
    ("mapping values are not allowed", "a second colon in one value; put the value in quotes"),
    ("could not find expected ':'", "a key without a colon"),
    ("did not find expected key", "neither the next key nor the end of a map; check the indentation"),
    ("did not find expected '-' indicator", "neither the next item nor the end of a list; check the indentation"),
    ("unexpected end of stream", "a quote that is not closed"),
    ("undefined tag handle", "a tag that is not declared; put the value in quotes"),
    ("incompatible YAML document", "an unsupported version of YAML; remove %YAML"),
    ("control characters are not allowed", "a control character"),
)


def _problem(error: yaml.MarkedYAMLError) -> str:
    problem = f"{error.context or ''} {error.problem or ''}"
    return next((ours for theirs, ours in _PROBLEMS if theirs in problem), "it is not YAML")


class _Node(NamedTuple):
    value: Any
    weight: int


class _Open:
    """A map or list that is being read."""

    def __init__(self, value: Any, anchor: str | None, line: int) -> None:
        self.value = value
        self.anchor = anchor
        self.line = line
        self.weight = _VALUE_WEIGHT
        self.key: str | None = None
        self.is_merge = False
        self.own: set[str] = set()


class _Composer:
    """Builds values from the events of a parser. Events are flat, so there is no recursion."""

    def __init__(self, *, positions: bool = False) -> None:
        self._stack: list[_Open] = []
        self._positions: dict[int, dict[str | int, int]] | None = {} if positions else None
        """The lines of keys and items, by the identity of their map or list."""
        self._anchors: dict[str, _Node | None] = {}
        self._expanded = 0
        self._root: Any = None
        self._line = 0

    def documents(self, events: Iterator[yaml.Event]) -> Iterator[Read]:
        for event in events:
            kind = type(event)
            if kind is yaml.ScalarEvent:
                self._scalar(event)
            elif kind is yaml.MappingStartEvent:
                self._open({}, event)
            elif kind is yaml.SequenceStartEvent:
                self._open([], event)
            elif kind in {yaml.MappingEndEvent, yaml.SequenceEndEvent}:
                self._close()
            elif kind is yaml.AliasEvent:
                self._alias(event)
            elif kind is yaml.DocumentStartEvent:
                self._anchors.clear()
                self._expanded = 0
                self._root = None
                self._line = 0
                if self._positions:
                    self._positions.clear()
            elif kind is yaml.DocumentEndEvent and self._root is not None:
                yield Read(self._root, self._line)

    def line_of(self, document: Any, path: str) -> int:
        """Return the line of a field of the last document, or of its parent; 0 if there is none."""
        found, value, steps = 0, document, list[str | int]()
        while isinstance(value, dict | list):
            known = (self._positions or {}).get(id(value), {})
            if isinstance(value, list):
                path = _with_index(path, field_path(steps), value)
            step = next((one for one in known if _leads_to(field_path([*steps, one]), path)), None)
            if step is None:
                break
            found = known[step]
            steps.append(step)
            value = value[step]  # type: ignore[index]
        return found

    def _open(self, value: Any, event: Any) -> None:
        line = event.start_mark.line + 1
        if len(self._stack) >= DEPTH_LIMIT:
            raise ManifestError(line, f"nested more than {DEPTH_LIMIT} deep")
        self._begin(line)
        if self._awaits_key():
            raise ManifestError(line, "a map or list as a key; write text")
        if event.anchor:
            self._anchors[event.anchor] = None
        self._stack.append(_Open(value, event.anchor, line))
        if self._positions is not None:
            self._positions[id(value)] = {}

    def _close(self) -> None:
        done = self._stack.pop()
        self._add(_Node(done.value, done.weight), done.anchor, done.line)

    def _alias(self, event: Any) -> None:
        line = event.start_mark.line + 1
        self._begin(line)
        node = self._anchors.get(event.anchor)
        if node is None:
            raise ManifestError(line, "an alias without its anchor; where * begins a value, put it in quotes")
        self._expanded += node.weight
        if self._expanded > ALIAS_LIMIT:
            raise ManifestError(line, "aliases that expand to too many values; use fewer aliases")
        self._add(node, None, line)

    def _scalar(self, event: Any) -> None:
        line = event.start_mark.line + 1
        self._begin(line)
        text = event.value
        plain = event.tag is None and event.implicit[0]
        if plain and text == _MERGE and self._awaits_key():
            self._stack[-1].key = _MERGE
            self._stack[-1].is_merge = True
            return
        value = _plain(text, line) if plain else _tagged(event.tag, text, line) if event.tag else text
        self._add(_Node(value, _VALUE_WEIGHT + len(text)), event.anchor, line)

    def _begin(self, line: int) -> None:
        if not self._line:
            self._line = line

    def _awaits_key(self) -> bool:
        return bool(self._stack) and type(self._stack[-1].value) is dict and self._stack[-1].key is None

    def _add(self, node: _Node, anchor: str | None, line: int) -> None:
        if anchor:
            self._anchors[anchor] = node
        if not self._stack:
            self._root = node.value
            return
        parent = self._stack[-1]
        parent.weight += node.weight
        if type(parent.value) is list:
            self._note(parent.value, len(parent.value), line)
            parent.value.append(node.value)
        elif parent.key is None:
            key = _key(node.value, line)
            if key in parent.own:
                raise ManifestError(line, "the same key for the second time")
            parent.own.add(key)
            parent.key = key
            self._note(parent.value, key, line)
        else:
            if parent.is_merge:
                _merge(parent, node.value, line)
            else:
                parent.value[parent.key] = node.value
            parent.key = None
            parent.is_merge = False

    def _note(self, container: Any, step: str | int, line: int) -> None:
        if self._positions is not None:
            self._positions[id(container)][step] = line


def _with_index(path: str, parent: str, items: list[Any]) -> str:
    """Return a path with the index of an item of this list that it names by keys, such as `[name=web,port=80]`."""
    named = _ITEM_KEYS.match(path, len(parent)) if path.startswith(parent) else None
    if named is None:
        return path
    keys = dict(pair.split("=", 1) for pair in named[1].split(","))
    for index, item in enumerate(items):
        if isinstance(item, dict) and all(str(item.get(key)) == value for key, value in keys.items()):
            return f"{parent}[{index}]{path[named.end() :]}"
    return path


def _leads_to(path: str, field: str) -> bool:
    return field == path or field.startswith((f"{path}.", f"{path}["))


def _merge(parent: _Open, value: Any, line: int) -> None:
    """Add the keys of other maps. Later keys of the map itself win, and earlier maps of a list win."""
    for other in value if isinstance(value, list) else [value]:
        if not isinstance(other, dict):
            raise ManifestError(line, "<< takes a map or a list of maps")
        if not parent.own.isdisjoint(other):
            raise ManifestError(line, "<< brings a key that the map has above it; write << first")
        for key, inside in other.items():
            parent.value.setdefault(key, inside)


def _key(value: Any, line: int) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case _:
            raise ManifestError(line, "a key that is empty, a map or a list; write text")


def _plain(text: str, line: int) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_BEGINS:
        return text
    digits = text.replace("_", "") if text[0] != "." else text
    if found := _INTEGER.match(digits):
        return _integer(found, line)
    if _FLOAT.match(digits):
        if digits.lstrip("-+").isdigit() and len(digits) > 19:  # noqa: PLR2004 - the digits of 2**63
            raise ManifestError(line, "a number of more than 64 bits; put it in quotes")
        return _finite(digits, line)
    if _ENDLESS.match(text):
        raise ManifestError(line, "a number that is infinite or NaN; put it in quotes")
    return text


def _integer(found: re.Match[str], line: int) -> int:
    sign, binary, hexadecimal, octal, decimal = found.groups()
    bases = ((binary, 2), (hexadecimal, 16), (octal, 8), (decimal, 10))
    digits, base = next((part, base) for part, base in bases if part)
    value = _LARGEST_INTEGER if len(digits) > 64 else int(digits, base)  # noqa: PLR2004 - binary digits of 64 bits
    value = -value if sign == "-" else value
    if not _SMALLEST_INTEGER <= value < _LARGEST_INTEGER:
        raise ManifestError(line, "a number of more than 64 bits; put it in quotes")
    return value


def _tagged(tag: str, text: str, line: int) -> Any:
    name = tag.removeprefix(_TAG)
    if name == "binary":
        try:
            return base64.b64decode("".join(text.split()), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise ManifestError(line, "!!binary with content that is not base64 of text") from None
    wanted = _TYPES.get(name)
    if wanted is None:
        return text
    value = _plain(text, line)
    if not wanted(value):
        raise ManifestError(line, f"!!{name} before a value that is none")
    return value


_TYPES: dict[str, Callable[[Any], bool]] = {
    "int": lambda value: type(value) is int,
    "float": lambda value: type(value) in {int, float},
    "bool": lambda value: type(value) is bool,
    "null": lambda value: value is None,
}
