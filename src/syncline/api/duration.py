"""Durations in the format of Go."""

from typing import Annotated

from syncline.api.rules import text

Duration = Annotated[
    str,
    text(
        r"^([0-9]{1,6}(\.[0-9]{1,3})?(h|m|s|ms))+$",
        "write a duration: numbers with h, m, s or ms, such as 30s, 10m or 1h30m",
        max_length=32,
    ),
]
