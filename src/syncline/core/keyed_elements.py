"""The elements of a list with keys in `managedFields`, found by the keys of an item and not one by one."""

from collections import deque
from collections.abc import Container, Iterable, Mapping
from typing import Any

_Names = tuple[str, ...]
_Values = tuple[Any, ...]

# All elements of a list have the same keys, unless its schema has changed or somebody made them up.
_MOST_FORMS = 8
_MOST_KEYS = 8
_PROTOCOL, _TCP = "protocol", "TCP"


class KeyedElements:
    """The elements of one list, with their keys. Elements of more than a few forms are left out."""

    def __init__(self, keyed: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        self._forms: dict[_Names, _Form] = {}
        for place, (element, keys) in enumerate(keyed):
            names = tuple(sorted(keys))
            if names not in self._forms and (len(self._forms) == _MOST_FORMS or len(names) > _MOST_KEYS):
                continue
            self._forms.setdefault(names, _Form(names)).add(place, element, keys)

    def fitting(self, item: Any) -> str:
        """Return the first element whose keys the item has; an empty text if there is none."""
        if not isinstance(item, dict):
            return ""
        found = [one for form in self._forms.values() if (one := form.fitting(item)) is not None]
        return min(found)[1] if found else ""

    def fitting_filled(self, item: Any, taken: Container[str]) -> str:
        """Return the first element that is not taken, and that the item fits once its missing keys are filled in.

        What is taken once must stay taken.
        """
        if not isinstance(item, dict):
            return ""
        found = [one for form in self._forms.values() if (one := form.fitting_filled(item, taken)) is not None]
        return min(found)[1] if found else ""


class _Form:
    """The elements with keys of these names, with their places in the list of elements."""

    def __init__(self, names: _Names) -> None:
        self._names = names
        self._elements: list[tuple[int, str, Mapping[str, Any]]] = []
        self._whole: dict[_Values, tuple[int, str]] = {}
        self._partly: dict[_Names, dict[_Values, deque[tuple[int, str]]]] = {}

    def add(self, place: int, element: str, keys: Mapping[str, Any]) -> None:
        values = _values(keys, self._names)
        if values is not None:
            self._elements.append((place, element, keys))
            self._whole.setdefault(values, (place, element))

    def fitting(self, item: Mapping[str, Any]) -> tuple[int, str] | None:
        if not all(name in item for name in self._names):
            return None
        values = _values(item, self._names)
        return None if values is None else self._whole.get(values)

    def fitting_filled(self, item: Mapping[str, Any], taken: Container[str]) -> tuple[int, str] | None:
        names = tuple(name for name in self._names if name in item)
        values = _values(item, names) if names else None
        if values is None:
            return None
        if names not in self._partly:
            self._partly[names] = self._by_values(names)
        fitting = self._partly[names].get(values, deque())
        while fitting and fitting[0][1] in taken:
            fitting.popleft()
        return fitting[0] if fitting else None

    def _by_values(self, names: _Names) -> dict[_Values, deque[tuple[int, str]]]:
        """Return the elements by some of their keys. A missing protocol is TCP, any other missing key fits."""
        found: dict[_Values, deque[tuple[int, str]]] = {}
        for place, element, keys in self._elements:
            if _PROTOCOL in names or keys.get(_PROTOCOL, _TCP) == _TCP:
                values = tuple(keys[name] for name in names)
                found.setdefault(values, deque()).append((place, element))
        return found


def _values(fields: Mapping[str, Any], names: _Names) -> _Values | None:
    """Return the values of keys; None if one is no single value."""
    values = tuple(fields[name] for name in names)
    return None if any(isinstance(value, dict | list) for value in values) else values
