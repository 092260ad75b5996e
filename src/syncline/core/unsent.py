"""The fields that a server-side apply removes: fields of ours that it does not send."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

Json = dict[str, Any]


def drop_unsent(live: Json, ours: Mapping[str, Any], sent: Mapping[str, Any]) -> bool:
    """Drop from an object the fields that are ours and are not sent; return whether there were any.

    `ours` is what `fields.owned_fields` returned: null stands for another manager's field, which stays. The values that
    the server fills in for a removed field are not known here.
    """
    dropped = False
    for element, below in ours.items():
        name = element[2:]
        if element[:2] != "f:" or below is None or name not in live:
            continue
        there, kept = live[name], sent.get(name)
        if isinstance(there, dict) and below and (isinstance(kept, dict) or _is_shared(below)):
            dropped |= drop_unsent(there, below, kept if isinstance(kept, dict) else {})
        elif isinstance(there, list) and below and (isinstance(kept, list) or _is_shared(below)):
            dropped |= _drop_items(there, below, kept if isinstance(kept, list) else [])
        elif name not in sent:
            del live[name]
            dropped = True
    return dropped


def _drop_items(live: list[Any], ours: Mapping[str, Any], sent: Sequence[Any]) -> bool:
    dropped = False
    for element, below in ours.items():
        if below is None:
            continue
        if element[:2] == "v:":
            value = msgspec.json.decode(element[2:])
            if value in live and value not in sent:
                live.remove(value)
                dropped = True
        elif element[:2] == "k:" and below:
            keys = msgspec.json.decode(element[2:])
            item, kept = _item(live, keys), _item(sent, keys)
            if item is None:
                continue
            if kept is not None:
                dropped |= drop_unsent(item, below, kept)
            elif _is_shared(below):
                dropped |= drop_unsent(item, below, keys)
            else:
                live.remove(item)
                dropped = True
    return dropped


def _item(items: Sequence[Any], keys: Mapping[str, Any]) -> Json | None:
    """Return the item of a list with these keys; those that the server fills in may be absent."""
    fitting = (one for one in items if isinstance(one, dict) and not keys.keys().isdisjoint(one))
    return next((one for one in fitting if all(one.get(key, value) == value for key, value in keys.items())), None)


def _is_shared(tree: Mapping[str, Any]) -> bool:
    """Whether somebody else has a part in it."""
    return any(below is None or _is_shared(below) for below in tree.values())
