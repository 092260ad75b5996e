"""Sends back what is there: fields that are left to others keep the values that they have.

A server-side apply that no longer sends a field which it once sent removes it. So the fields that a sync leaves to
others are sent with their live values: nothing changes, and nothing is lost.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from syncline.core.ignored_fields import ANY, Path

Json = dict[str, Any]


def keep_live_fields(sent: Mapping[str, Any], live: Mapping[str, Any], paths: Sequence[Path]) -> Json:
    """Return what to send: at the paths, what the live object has there, and nothing where it has nothing.

    Items of lists belong together by their `name`, or else by their place, where both lists are equally long.
    """
    result: Any = sent
    for path in paths:
        result = _with_live(result, live, path)
    return dict(result)


def _with_live(sent: Any, live: Any, path: Path) -> Any:
    step, rest = path[0], path[1:]
    if isinstance(sent, list):
        return [
            _item_with_live(item, index, sent, live, rest) if step in (ANY, str(index)) else item
            for index, item in enumerate(sent)
        ]
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


def _item_with_live(item: Any, index: int, sent: Sequence[Any], live: Any, rest: Path) -> Any:
    match = _counterpart(item, index, sent, live)
    if rest:
        return _with_live(item, match, rest)
    return match if match is not None else item


def _counterpart(item: Any, index: int, sent: Sequence[Any], live: Any) -> Any:
    if not isinstance(live, list):
        return None
    if isinstance(item, Mapping) and "name" in item:
        return next((one for one in live if isinstance(one, Mapping) and one.get("name") == item["name"]), None)
    return live[index] if len(live) == len(sent) else None
