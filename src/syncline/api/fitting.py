"""A status that the API server accepts: each text, list and number is within the limits of its type.

This module reads the same types as the schema, so that each limit is defined once. The roles of the fields (`rules`)
decide which fields can be shortened: reports can, the inventory cannot.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import chain, repeat
from typing import Any, TypeVar

import msgspec
import msgspec.inspect as mi
from msgspec import Struct, structs

from syncline.api.rules import REASON, Importance, Role, role_of

S = TypeVar("S", bound=Struct)
Json = Any

# etcd accepts requests of at most 1.5 MiB by default. The spec and the metadata of the object need a part of it.
STATUS_BYTES = 1088 * 1024
INVENTORY_BYTES = 992 * 1024
"""The part that the inventory can use. The reports are shortened for it."""

# The part of its limit that each report gets, until the whole status is small enough.
_SHARES = (1.0, 0.5, 0.25, 0.1, 0.05, 0.01, 0.0)
_SHORTEST = 64
_EPOCH = "1970-01-01T00:00:00Z"
_INT64 = 2**63 - 1
_UNKNOWN = "Unknown"
_DROPPED = object()
_NOTHING: Mapping[str, Any] = {}

_is_reason = re.compile(REASON).fullmatch
_is_time = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII).fullmatch
_parts = re.compile(r"[A-Za-z0-9]+").findall


def fit(status: S, limit: int = STATUS_BYTES, *, stored: S | None = None) -> S:
    """Return the status without values that the API server would refuse: they are shortened or repaired. Pure.

    Values of the `stored` status are accepted as they are. Reports are shortened until the whole status has at most
    `limit` bytes. The most important items of each list stay.
    The inventory is not shortened. An entry that violates the schema is dropped, and `overfull` reports it in advance.
    """
    known = msgspec.to_builtins(stored) if stored is not None else None
    return repair(type(status), msgspec.to_builtins(status), limit, known=known)


def repair(type_: type[S], value: Json, limit: int = STATUS_BYTES, *, known: Mapping[str, Json] | None = None) -> S:
    """Return the valid part of a status: values that violate their type are shortened or dropped, all others stay.

    `known` is a valid status: what the two have in common is not looked at.
    """
    fitted: Json = {}
    for share in _SHARES:
        same = known if known is not None and share == 1.0 else {}
        fitted = _struct(_info(type_), value, share, exact=False, known=same)
        if fitted is _DROPPED:
            return type_()
        if stored_size(fitted) <= limit:
            break
    return msgspec.convert(fitted, type_)


def overfull(status: Struct) -> str:
    """Return the name of an inventory field that cannot be stored unchanged, or an empty string."""
    info, value = _info(type(status)), msgspec.to_builtins(status)
    wanted = _essence(info, value, Role.INVENTORY)
    stored = _essence(info, _struct(info, value, 1.0, exact=False), Role.INVENTORY)
    for name, entries in wanted.items():
        if stored.get(name) != entries:
            return str(name)
    sizes = {name: stored_size(entries) for name, entries in wanted.items()}
    return str(max(wanted, key=lambda name: sizes[name])) if sum(sizes.values()) > INVENTORY_BYTES else ""


def essential(status: S, **fields: Any) -> S:
    """Return a status with only the inventory and the memory of this status, and the given fields."""
    kept = _essence(_info(type(status)), msgspec.to_builtins(fit(status)), Role.INVENTORY, Role.MEMORY)
    return structs.replace(msgspec.convert(kept, type(status)), **fields)


def shorten(text: str, limit: int) -> str:
    """Shorten a text in the middle, because messages begin with their object and end with the remedy."""
    if len(text) <= limit:
        return text
    tail = (limit - 1) // 2
    return f"{text[: limit - 1 - tail]}…{text[len(text) - tail :]}"


def as_reason(text: str, limit: int = 64) -> str:
    """Return a text as one CamelCase word, the format of a reason. A text that is one word is returned unchanged."""
    if len(text) <= limit and _is_reason(text):
        return text
    word = ""
    for part in _parts(text):
        longer = (word + part[0].upper() + part[1:]).lstrip("0123456789")
        if len(longer) > limit:
            return word or longer[:limit]
        word = longer
    return word or _UNKNOWN


def stored_size(value: Json) -> int:
    """Return the maximum size of a value in bytes as JSON of the API server, which escapes additional characters."""
    encoded = msgspec.json.encode(value)
    escaped = sum(encoded.count(mark) for mark in (b"<", b">", b"&"))
    return len(encoded) + 5 * escaped + 3 * (encoded.count(b"\xe2\x80\xa8") + encoded.count(b"\xe2\x80\xa9"))


@lru_cache
def _info(type_: type[Struct]) -> mi.StructType:
    info = mi.type_info(type_)
    assert isinstance(info, mi.StructType)  # noqa: S101 - the caller has a struct
    return info


def _unwrap(info: mi.Type) -> tuple[mi.Type, Role | None, Mapping[str, Any]]:
    """Return a type without its annotations and None, its role, and the other properties of its schema."""
    role: Role | None = None
    schema: dict[str, Any] = {}
    while True:
        match info:
            case mi.Metadata():
                role = role or role_of(info.extra)
                schema |= info.extra_json_schema or {}
                info = info.type
            case mi.UnionType():
                info = next(option for option in info.types if not isinstance(option, mi.NoneType))
            case _:
                return info, role, schema


def _value(info: mi.Type, value: Json, share: float, *, exact: bool, known: Json = None) -> Json:
    """Fit one value. An `exact` value is part of the inventory: a shortened text would name another object.

    `known`: a valid list of the same type, or None.
    """
    inner, role, schema = _unwrap(info)
    is_report = role in (Role.REPORT, Role.MEMORY)
    exact = (exact or role is Role.INVENTORY) and not is_report
    own = share if is_report else 1.0
    match inner:
        case mi.StructType():
            return _struct(inner, value, share, exact=exact)
        case mi.ListType():
            items = _items(inner, value, share, exact=exact, known=known)
            return _cut_list(inner, items, own, schema.get("x-kubernetes-list-map-keys", ()))
        case mi.DictType():
            return _map(inner, value, exact=exact)
        case mi.StrType() if schema.get("format") == "date-time":
            return value if _is_moment(value) else _DROPPED
        case mi.StrType():
            return _text(inner, value, own, exact=exact)
        case _:
            return _scalar(inner, value)


def _struct(
    info: mi.StructType, value: Json, share: float, *, exact: bool, known: Mapping[str, Json] = _NOTHING
) -> Json:
    if not isinstance(value, Mapping):
        return _DROPPED
    value = _with_told_reason(value)
    fitted: dict[str, Json] = {}
    for field in info.fields:
        given = value.get(field.encode_name)
        same = known.get(field.encode_name)
        if given is None:
            kept = _DROPPED
        elif given == same:
            kept = given
        else:
            kept = _value(field.type, given, share, exact=exact, known=same)
        if kept is _DROPPED and field.required:
            kept = _stand_in(field.type)
            if kept is _DROPPED:
                return _DROPPED
        if kept is not _DROPPED:
            fitted[field.encode_name] = kept
    return fitted


def _stand_in(info: mi.Type) -> Json:
    """Return a value for a required field, if a placeholder is possible: times and reasons can be unknown."""
    inner, _, schema = _unwrap(info)
    if schema.get("format") == "date-time":
        return _EPOCH
    return _UNKNOWN if isinstance(inner, mi.StrType) and inner.pattern == REASON else _DROPPED


def _with_told_reason(value: Mapping[str, Json]) -> Mapping[str, Json]:
    """Move a reason that is a sentence into the message."""
    reason, message = value.get("reason"), value.get("message", "")
    if not isinstance(reason, str) or not isinstance(message, str) or not reason or _is_reason(reason):
        return value
    return value if reason in message else {**value, "message": f"{reason}: {message}" if message else reason}


def _items(info: mi.ListType, value: Json, share: float, *, exact: bool, known: Json) -> list[Json]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return []
    same = known if isinstance(known, list) else ()
    fitted = (
        item if item == before else _value(info.item_type, item, share, exact=exact)
        for item, before in zip(value, chain(same, repeat(_DROPPED)), strict=False)
    )
    return [item for item in fitted if item is not _DROPPED]


def _cut_list(info: mi.ListType, items: list[Json], share: float, keys: Sequence[str]) -> Json:
    if keys:
        items = list({tuple(item.get(key) for key in keys): item for item in reversed(items)}.values())[::-1]
    limit = max(1, int((info.max_length or len(items)) * share))
    if len(items) > limit:
        item_type = _unwrap(info.item_type)[0]
        importance = getattr(item_type.cls, "IMPORTANCE", None) if isinstance(item_type, mi.StructType) else None
        items = _most_important(items, limit, importance)
    return _DROPPED if len(items) < (info.min_length or 0) else items


def _most_important(items: list[Json], limit: int, importance: Importance | None) -> list[Json]:
    """Return the given number of items in their order: the most important items, else the first items."""
    if importance is None:
        return items[:limit]
    rank = {word: place for place, word in enumerate(importance.words)}
    order = sorted(range(len(items)), key=lambda at: rank.get(items[at].get(importance.field), len(rank)))
    return [items[at] for at in sorted(order[:limit])]


def _map(info: mi.DictType, value: Json, *, exact: bool) -> Json:
    if not isinstance(value, Mapping):
        return _DROPPED
    fitted: dict[str, Json] = {}
    for key, given in value.items():
        name = _value(info.key_type, key, 1.0, exact=True)
        kept = _value(info.value_type, given, 1.0, exact=exact)
        if name is not _DROPPED and kept is not _DROPPED:
            fitted[name] = kept
    return dict(list(fitted.items())[: info.max_length])


def _text(info: mi.StrType, value: Json, share: float, *, exact: bool) -> Json:
    if not isinstance(value, str):
        return _DROPPED
    text = value if value.isascii() else value.encode(errors="replace").decode()
    limit = info.max_length if info.max_length is not None else len(text)
    if info.pattern == REASON:
        return as_reason(text, limit) if text else _DROPPED
    if exact and len(text) > limit:
        return _DROPPED
    text = shorten(text, min(limit, max(_SHORTEST, int(limit * share))))
    is_wrong = len(text) < (info.min_length or 0) or (info.pattern and not re.fullmatch(info.pattern, text))
    return _DROPPED if is_wrong else text


def _scalar(info: mi.Type, value: Json) -> Json:
    match info:
        case mi.LiteralType():
            if value in info.values:
                return value
            return _UNKNOWN if _UNKNOWN in info.values else _DROPPED
        case mi.IntType() if isinstance(value, int) and not isinstance(value, bool):
            low = info.ge if info.ge is not None else -_INT64
            return max(low, min(value, info.le if info.le is not None else _INT64))
        case mi.BoolType() if isinstance(value, bool):
            return value
        case _:
            return _DROPPED


def _is_moment(value: Json) -> bool:
    if not isinstance(value, str) or not _is_time(value):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _essence(info: mi.StructType, value: Json, *roles: Role) -> dict[str, Json]:
    """Return the fields with these roles, and the required fields."""
    found: dict[str, Json] = {}
    for field in info.fields:
        inner, role, _ = _unwrap(field.type)
        if field.encode_name not in value or (role not in roles and not field.required):
            continue
        given = value[field.encode_name]
        item = _unwrap(inner.item_type)[0] if isinstance(inner, mi.ListType) else None
        if isinstance(item, mi.StructType) and any(_unwrap(one.type)[1] in roles for one in item.fields):
            given = [_essence(item, one, *roles) for one in given]
        found[field.encode_name] = given
    return found
