"""Quantities of Kubernetes, such as `500m` and `1Gi`, as exact numbers."""

import re
from fractions import Fraction
from typing import Any

_QUANTITY = re.compile(r"([-+]?)([0-9]*)(?:\.([0-9]*))?([eE][-+]?[0-9]{1,2}|[KMGTPE]i|[numkMGTPE])?").fullmatch
_LONGEST = 64
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def parse_quantity(value: Any) -> Fraction | None:
    """Return the number that a quantity means; None for what is no quantity."""
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value)
    text = str(value) if isinstance(value, float) else value
    if not isinstance(text, str) or len(text) > _LONGEST:
        return None
    found = _QUANTITY(text.strip())
    if found is None:
        return None
    sign, whole, part, suffix = (group or "" for group in found.groups())
    if not (whole or part):
        return None
    number = Fraction(int(f"{whole}{part}"), 10 ** len(part)) * (-1 if sign == "-" else 1)
    if suffix in _BINARY:
        return number * (1 << _BINARY[suffix])
    power = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
    return number * Fraction(10) ** power
