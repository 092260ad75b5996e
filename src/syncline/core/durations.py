"""Durations as Go and Kubernetes write them."""

import re

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """Read a duration such as 90s or 1h30m; raises `ValueError` with what to write instead."""
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration; write e.g. 30s, 10m or 1h30m")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
