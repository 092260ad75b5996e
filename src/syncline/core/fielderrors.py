"""Errors in single fields of a manifest, in words for its author.

A message names the field, the cause and the remedy. It contains names and parts of the schema, never a value of the
manifest, because it may be secret.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from msgspec import Struct

from syncline.core.conditions import shorten
from syncline.core.schemas import PATTERN

NAME_LIMIT = 100
PATH_LIMIT = 300
_NAMED = 10
_COMPARED = 500
_CALLED = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a map",
    "array": "a list",
    "null": "nothing",
}
_LIMITS = {
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "exclusiveMinimum": "must be more than {}",
    "exclusiveMaximum": "must be less than {}",
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "minItems": "must have at least {} items",
    "maxItems": "must have at most {} items",
    "minProperties": "must have at least {} fields",
    "maxProperties": "must have at most {} fields",
}


class FieldError(Struct, frozen=True, order=True):
    """One field, and its error."""

    path: str
    cause: str

    def __str__(self) -> str:
        return f"{self.path}: {self.cause}" if self.path else self.cause


def field_path(steps: Iterable[str | int]) -> str:
    """Return the readable path of a field, such as `spec.ports[0].name`."""
    path = ""
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        elif step.replace("-", "").replace("_", "").isalnum():
            path += f".{_name(step)}" if path else _name(step)
        else:
            path += f"[{_name(step)}]"
    return shorten(path, PATH_LIMIT)


def describe(
    keyword: str, detail: Mapping[str, Any], steps: Sequence[str | int], value: Any, schema: Mapping[str, Any]
) -> Iterator[FieldError]:
    """Yield the errors of a value by a keyword of a schema. `detail` is the finding of the validator."""
    path = field_path(steps)
    match keyword:
        case "additionalProperties":
            known = [*(schema.get("properties") or {})]
            for name in detail.get("unexpected") or ():
                yield FieldError(field_path([*steps, str(name)]), unknown_field(str(name), known))
        case "required":
            yield FieldError(field_path([*steps, str(detail.get("property"))]), "is required: add it")
        case "type":
            yield FieldError(path, _wrong_type(detail.get("types") or (), value))
        case "enum":
            yield FieldError(path, f"must be one of {_choice(detail.get('options') or ())}")
        case word if word == PATTERN:
            yield FieldError(path, f"must match {shorten(str(schema.get(PATTERN)), NAME_LIMIT)}")
        case "multipleOf":
            yield FieldError(path, f"must be a multiple of {detail.get('multiple_of')}")
        case word if word in _LIMITS:
            yield FieldError(path, _LIMITS[word].format(detail.get("limit")))
        case _:
            yield FieldError(path, f"does not have a form that its schema allows ({shorten(keyword, NAME_LIMIT)})")


def unknown_field(name: str, known: Sequence[str]) -> str:
    """Return the error of an unknown field, with the most similar known field."""
    lower = {one.lower(): one for one in reversed(known[:_COMPARED])}
    close = get_close_matches(name.lower()[:NAME_LIMIT], lower, n=1, cutoff=0.7)
    if close:
        return f"unknown field: did you mean {_name(lower[close[0]])}?"
    return "unknown field: correct its name or its indentation, or remove it"


def _wrong_type(types: Sequence[str], value: Any) -> str:
    wanted = " or ".join(_CALLED.get(one, one) for one in types if one != "null")
    found = _CALLED[_type_of(value)]
    quote = ": put it in quotes" if "string" in types and isinstance(value, bool | int | float) else ""
    plain = (
        ": write it without quotes" if isinstance(value, str) and {"integer", "number", "boolean"} & {*types} else ""
    )
    return f"must be {wanted}, but is {found}{quote or plain}"


def _type_of(value: Any) -> str:
    # In Python a bool is an int, so it is first.
    types = ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (dict, "object"), (list, "array"))
    return next((name for kind, name in types if isinstance(value, kind)), "null")


def _choice(options: Sequence[Any]) -> str:
    named = [_name(str(one)) for one in options if one not in ("", None)]
    rest = len(named) - _NAMED
    return ", ".join(named[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _name(text: str) -> str:
    """Return an untrusted name in one line, with a limited length."""
    return shorten("".join(char if char.isprintable() else "?" for char in text), NAME_LIMIT)
