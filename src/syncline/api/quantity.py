"""Quantities in the format of Kubernetes."""

from typing import Annotated

from syncline.api.rules import text

Quantity = Annotated[
    str,
    text(
        r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$",
        "write a quantity, such as 10Mi, 500m or 1",
        max_length=32,
    ),
]
