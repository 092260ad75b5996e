"""Keeps the live values of ignored fields in a server-side apply.

A server-side apply removes a field that it sent before and no longer sends. So ignored fields are sent with their live
values: they do not change, and they are not removed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from syncline.core.ignored_fields import ANY, Path

Json = dict[str, Any]


def keep_live_fields(sent: Mapping[str, Any], live: Mapping[str, Any], paths: Sequence[Path]) -> Json:
    """Return the fields to send, with the live values at the paths; a path that the live object lacks is left out.

    Items of lists belong together by their `name`, or else by their place, where both lists are equally long.
    """
    result: Any = sent
    for path in paths:
        result = _with_live(result, live, path)
    return dict(result)


def _with_live(sent: Any, live: Any, path: Path) -> Any:
    step, rest = path[0], path[1:]
    if isinstance(sent, list):
        return _items_with_live(sent, live, step, rest)
    if not isinstance(sent, Mapping):
        return sent
    there = live if isinstance(live, Mapping) else {}
    if step == ANY:
        found: Json = {}
        for name, inside in sent.items():
            found |= _with_live({name: inside}, there, (name, *rest))
        return found
    if not rest:
        others = {key: value for key, value in sent.items() if key != step}
        return {**others, step: there[step]} if step in there else others
    if step not in sent:
        return sent
    return {**sent, step: _with_live(sent[step], there.get(step), rest)}


def _items_with_live(sent: Sequence[Any], live: Any, step: str, rest: Path) -> list[Any]:
    items: Sequence[Any] = live if isinstance(live, list) else ()
    named: dict[Any, Any] = {}
    for one in items:
        if isinstance(one, Mapping):
            named.setdefault(_name(one), one)
    result = list(sent)
    for index, item in enumerate(sent):
        if step not in (ANY, str(index)):
            continue
        if isinstance(item, Mapping) and "name" in item:
            match = named.get(_name(item))
        else:
            match = items[index] if len(items) == len(sent) else None
        result[index] = _with_live(item, match, rest) if rest else item if match is None else match
    return result


def _name(item: Mapping[str, Any]) -> Any:
    name = item.get("name")
    return msgspec.json.encode(name, order="sorted") if isinstance(name, dict | list) else name
