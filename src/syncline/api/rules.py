"""What is said of fields beside their types: rules that the API server checks, and roles in a status.

A rule stands with what it is about: rules over several fields in the `RULES` of their struct, the pattern of one string
in its type. Wherever the type is used, in any kind, the rule goes along.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from msgspec import Meta, Struct

PATTERN_MESSAGE = "x-syncline-pattern-message"
REASON = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
"""What Kubernetes takes as the reason of a condition: one word."""
_ROLE = "role"


class Role(Enum):
    """What a field of a status is for, and so what becomes of it where not all can be stored."""

    REPORT = "Report"
    """A text or a list for people. It is cut where the status would be too large."""
    MEMORY = "Memory"
    """A list that later passes look back at. It is cut last, and kept where only the essential is stored."""
    INVENTORY = "Inventory"
    """What has been written where. It is recorded before the write, kept in any case, and never cut."""

    @property
    def mark(self) -> dict[str, Any]:
        """The role as the `extra` of a field's `Meta`."""
        return {_ROLE: self}


def role_of(extra: Mapping[str, Any] | None) -> Role | None:
    """Return the role that the `extra` of a `Meta` gives."""
    role = (extra or {}).get(_ROLE)
    return role if isinstance(role, Role) else None


class Importance(Struct, frozen=True):
    """Which items of a list stay where it is cut: by the words that one of their fields has, the first ones first."""

    field: str
    words: tuple[str, ...]


class Rule(Struct, frozen=True):
    """A CEL expression over `self` that must hold, and what to write instead where it does not."""

    rule: str
    message: str
    field_path: str = ""


def text(pattern: str, message: str, *, max_length: int, min_length: int = 1) -> Meta:
    """Limit a string; where the pattern does not match, the API server answers with `message`, not with a regex."""
    return Meta(
        min_length=min_length,
        max_length=max_length,
        pattern=pattern,
        extra_json_schema={PATTERN_MESSAGE: message},
    )
