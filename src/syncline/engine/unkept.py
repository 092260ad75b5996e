"""Values that API servers do not store: remembered, so that the record of a write is right from the first one.

It only affects the number of writes: the answer to each write shows the kept values, and a wrong record is written
again.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from syncline.core.fields import BUILT_IN_GROUPS, CUSTOM_RECORD, recordable_fields

MAX_KINDS = 256
MAX_FIELDS = 1024
CREATE = "create"
APPLY = "apply"


class RequestKind(NamedTuple):
    """The form of the write: a create and an apply do not keep the same values."""

    cluster: str
    api_version: str
    kind: str
    operation: str

    @property
    def always(self) -> frozenset[str]:
        """The values that the record always has."""
        group = self.api_version.rpartition("/")[0]
        return frozenset() if group in BUILT_IN_GROUPS else frozenset({CUSTOM_RECORD})


class UnkeptFields:
    """The fields of each kind, as `fields.unkept` names them. Can be lost."""

    def __init__(self) -> None:
        self._fields: dict[RequestKind, set[str]] = {}

    def expected(self, way: RequestKind, sent: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the values of an object that the server is expected not to keep."""
        known = self._fields.get(way)
        return tuple(sorted(way.always | (known & recordable_fields(sent) if known else frozenset())))

    def learn(self, way: RequestKind, unkept: tuple[str, ...]) -> None:
        """Record the values that the server has not kept. If there is no room, the oldest kind is dropped."""
        known = self._fields.setdefault(way, set())
        known.update(unkept[: MAX_FIELDS - len(known)])
        if len(self._fields) > MAX_KINDS:
            del self._fields[next(iter(self._fields))]
