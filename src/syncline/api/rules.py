"""Rules that the API server checks beside the schema, each with the words a person gets who breaks it.

A rule stands with what it is about: rules over several fields in the `RULES` of their struct, the pattern of one string
in its type. Wherever the type is used, in any kind, the rule goes along.
"""

from msgspec import Meta, Struct

PATTERN_MESSAGE = "x-syncline-pattern-message"


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
