"""Properties of fields that are not in their types: rules that the API server checks, and roles in a status.

Rules over several fields are in the `RULES` of their struct. The pattern of a string is in its type. Each kind that
uses the type also has the rule.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from msgspec import Meta, Struct

PATTERN_MESSAGE = "x-syncline-pattern-message"
REASON = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
"""The format of the reason of a condition in Kubernetes: one word."""
_ROLE = "role"


class Role(Enum):
    """The purpose of a field of a status. It decides whether the field is shortened in a status that is too large."""

    REPORT = "Report"
    """A text or a list for people. It is shortened first."""
    MEMORY = "Memory"
    """A list that later reconciles read. It is shortened last, and is part of the essential status."""
    INVENTORY = "Inventory"
    """A record of written objects. The operator records it before the write, and never shortens it."""

    @property
    def mark(self) -> dict[str, Any]:
        """The role as the `extra` of a field's `Meta`."""
        return {_ROLE: self}


def role_of(extra: Mapping[str, Any] | None) -> Role | None:
    """Return the role in the `extra` of a `Meta`."""
    role = (extra or {}).get(_ROLE)
    return role if isinstance(role, Role) else None


class Importance(Struct, frozen=True):
    """The order in which items of a shortened list are kept: by the value of one field, in the order of `words`."""

    field: str
    words: tuple[str, ...]


class ValidationRule(Struct, frozen=True):
    """A CEL expression over `self` that must be true, and a message with the remedy."""

    rule: str
    message: str
    field_path: str = ""


def selects_some(name: str, message: str) -> ValidationRule:
    """Return the rule that the selector in a field is not empty."""
    return ValidationRule(
        f"""
        !has(self.{name})
        || self.{name}.?matchLabels.orValue({{}}).size() > 0
        || self.{name}.?matchExpressions.orValue([]).size() > 0
        """,
        message,
        f".{name}",
    )


def text(pattern: str, message: str, *, max_length: int, min_length: int = 1) -> Meta:
    """Limit a string. If the pattern does not match, the API server answers with `message`, not with the pattern."""
    return Meta(
        min_length=min_length,
        max_length=max_length,
        pattern=pattern,
        extra_json_schema={PATTERN_MESSAGE: message},
    )
