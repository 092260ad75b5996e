"""The JSON patch (RFC 6902) from one object to another: `diff_patch`. Pure.

Lists of different lengths are replaced whole. The request tests the version of the object, so indexes are safe.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from syncline.core.request_bodies import escape

Json = dict[str, Any]


def diff_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Json]:
    """Return the operations, in an order in which they can be applied; none where the two are equal."""
    return list(_of_maps(before, after, ""))


def _of_maps(before: Mapping[str, Any], after: Mapping[str, Any], path: str) -> Iterator[Json]:
    for name in before:
        if name not in after:
            yield {"op": "remove", "path": f"{path}/{escape(name)}"}
    for name, value in after.items():
        place = f"{path}/{escape(name)}"
        if name in before:
            yield from _of_values(before[name], value, place)
        else:
            yield {"op": "add", "path": place, "value": value}


def _of_values(before: Any, after: Any, path: str) -> Iterator[Json]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        yield from _of_maps(before, after, path)
    elif _are_lists(before, after) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _of_values(old, new, f"{path}/{index}")
    elif type(before) is not type(after) or before != after:
        yield {"op": "replace", "path": path, "value": after}


def _are_lists(one: Any, other: Any) -> bool:
    return all(isinstance(value, Sequence) and not isinstance(value, str) for value in (one, other))
