"""Statuses as nobody should make them, and what a structural schema has against a value."""

import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Any

import msgspec.inspect as mi
from hypothesis import strategies as st
from msgspec import Struct

from syncline.api.schema import Schema

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)

_characters = st.characters(codec=None)  # half surrogates, controls and what JSON escapes are among them
words = st.sampled_from(["", "Ready", "Failed", "a sentence, and not a word", "123", "Ready\n", "<&>", "\u2028", "é"])
texts = words | st.builds(
    lambda text, times: text * times, st.text(_characters, max_size=4), st.sampled_from([1, 7, 100, 12_000])
)
times = st.sampled_from(["2026-01-02T03:04:05Z", "", "yesterday", "2026-13-02T03:04:05Z", "2026-01-02T03:04:05+01:00"])
numbers = st.sampled_from([0, 1, -1, 2**63, -(2**70)])
anything = st.none() | st.booleans() | numbers | texts | st.just([]) | st.just({}) | st.just([{"name": 1}])


@cache
def hostile(type_: type[Struct]) -> st.SearchStrategy[Struct]:
    """Statuses of the right shape with values that are not."""
    return _values(mi.type_info(type_))


def raw(info: mi.Type) -> st.SearchStrategy[Any]:
    """What may be stored where a status should be: of any shape."""
    match info:
        case mi.StructType():
            fields = {field.encode_name: raw(field.type) for field in info.fields}
            return st.fixed_dictionaries({}, optional=fields) | anything
        case mi.Metadata():
            return raw(info.type)
        case mi.UnionType():
            return raw(info.types[0])
        case mi.ListType():
            return st.lists(raw(info.item_type), max_size=2) | anything
        case _:
            return anything


def _values(info: mi.Type) -> st.SearchStrategy[Any]:
    match info:
        case mi.Metadata():
            is_time = (info.extra_json_schema or {}).get("format") == "date-time"
            found = times if is_time else _values(info.type)
        case mi.UnionType():
            found = st.none() | _values(info.types[0])
        case mi.StructType():
            fields = {field.name: _values(field.type) for field in info.fields}
            found = st.fixed_dictionaries({}, optional=fields).flatmap(lambda given: _made(info, fields, given))
        case mi.ListType():
            found = _lists(info)
        case mi.DictType():
            found = st.dictionaries(_values(info.key_type), _values(info.value_type), max_size=3)
        case mi.IntType():
            found = numbers
        case mi.BoolType():
            found = st.booleans()
        case _:
            found = texts
    return found


def _lists(info: mi.ListType) -> st.SearchStrategy[Any]:
    """Lists of few items, and of more than may be: then of the same ones again and again."""
    few = st.lists(_values(info.item_type), max_size=2)
    more = (info.max_length or 0) + 1
    items = words if isinstance(info.item_type, mi.StrType) else _values(info.item_type)
    return few | st.builds(lambda item: [item] * more, items)


def _made(
    info: mi.StructType, fields: dict[str, st.SearchStrategy[Any]], given: dict[str, Any]
) -> st.SearchStrategy[Any]:
    required = (field.name for field in info.fields if field.required)
    missing = {name: fields[name] for name in required if name not in given}
    return st.fixed_dictionaries(missing).map(lambda rest: info.cls(**given, **rest))


def violations(schema: Schema, value: Any, where: str = "status") -> Iterator[str]:
    """Say what an API server would have against a value; the part of OpenAPI that our schemas use."""
    match schema["type"]:
        case "object" if isinstance(value, dict):
            yield from _wrong_object(schema, value, where)
        case "array" if isinstance(value, list):
            yield from _wrong_list(schema, value, where)
        case "string" if isinstance(value, str):
            yield from (f"{where}: {wrong}" for wrong in _wrong_text(schema, value))
        case "integer" if isinstance(value, int) and not isinstance(value, bool):
            if not schema.get("minimum", -(2**63)) <= value <= schema.get("maximum", 2**63 - 1):
                yield f"{where}: {value}"
        case "boolean" if isinstance(value, bool):
            return
        case expected:
            yield f"{where}: not {expected}"


def _wrong_object(schema: Schema, value: dict[str, Any], where: str) -> Iterator[str]:
    yield from (f"{where}.{name}: required" for name in schema.get("required", ()) if name not in value)
    if len(value) > schema.get("maxProperties", len(value)):
        yield f"{where}: too many properties"
    for name, given in value.items():
        known = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
        yield from violations(known, given, f"{where}.{name}") if known else [f"{where}.{name}: unknown"]


def _wrong_list(schema: Schema, value: list[Any], where: str) -> Iterator[str]:
    if not schema.get("minItems", 0) <= len(value) <= schema["maxItems"]:
        yield f"{where}: {len(value)} items"
    keys = schema.get("x-kubernetes-list-map-keys", ())
    if keys and len({tuple(item[key] for key in keys) for item in value}) < len(value):
        yield f"{where}: duplicates"
    for item in value:
        yield from violations(schema["items"], item, f"{where}[]")


def _wrong_text(schema: Schema, value: str) -> Iterator[str]:
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        yield f"{len(value)} characters"
    if "enum" in schema and value not in schema["enum"]:
        yield "not in enum"
    if "pattern" in schema and not re.search(schema["pattern"].removesuffix("$") + r"\Z", value):
        yield "breaks the pattern"
    if schema.get("format") == "date-time":
        try:
            datetime.fromisoformat(value)
        except ValueError:
            yield "not a time"
        if not _RFC3339.fullmatch(value):
            yield "not a time"
