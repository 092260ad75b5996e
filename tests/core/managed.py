"""Entries of managedFields, as an API server writes them down."""

from typing import Any

import msgspec


class Fields(msgspec.Struct, rename={"fields": "fieldsV1"}):
    manager: str = ""
    operation: str = ""
    time: str = ""
    subresource: str = ""
    fields: msgspec.Raw = msgspec.Raw(b"")


def entries(live: dict[str, Any]) -> list[Fields]:
    return msgspec.convert(
        [
            {**entry, "fieldsV1": msgspec.Raw(msgspec.json.encode(entry["fieldsV1"]))}
            for entry in live["metadata"]["managedFields"]
        ],
        list[Fields],
    )


def entry(manager: str, fields: Any, operation: str = "Update", time: str = "1", subresource: str = "") -> Fields:
    return Fields(manager, operation, time, subresource, msgspec.Raw(msgspec.json.encode(fields)))
