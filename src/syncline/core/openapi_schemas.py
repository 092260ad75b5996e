"""OpenAPI schemas: the schemas of one API version, by kind, from the components of an OpenAPI v3 document. Pure.

A document comes from a cluster and is untrusted: an invalid one has no kinds, and each schema is decoded on demand.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct


class _GroupVersionKind(Struct):
    group: str = ""
    version: str = ""
    kind: str = ""


class _KindMark(Struct, rename={"kinds": "x-kubernetes-group-version-kind"}):
    kinds: list[_GroupVersionKind] = []


class _KindMarks(Struct):
    schemas: dict[str, _KindMark] = {}


class _RawSchemas(Struct):
    schemas: dict[str, msgspec.Raw] = {}


class OpenApiSchemas:
    """The schemas of one API version."""

    def __init__(self, components: bytes) -> None:
        self._schemas: Mapping[str, msgspec.Raw] = {}
        self._names: dict[tuple[str, str], str] = {}
        try:
            marked = msgspec.json.decode(components, type=_KindMarks).schemas
            self._schemas = msgspec.json.decode(components, type=_RawSchemas).schemas
        except (ValueError, RecursionError):
            return
        for name, mark in marked.items():
            for one in mark.kinds:
                self._names.setdefault((f"{one.group}/{one.version}".lstrip("/"), one.kind), name)

    def name_of(self, api_version: str, kind: str) -> str | None:
        """Return the name of the definition of a kind, or None."""
        return self._names.get((api_version, kind))

    def definition(self, name: str) -> Any:
        """Return a definition by its name; None if there is none, or if it is not valid."""
        raw = self._schemas.get(name)
        try:
            return msgspec.json.decode(raw) if raw is not None else None
        except (ValueError, RecursionError):
            return None
