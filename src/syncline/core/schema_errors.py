"""Refusals of an apply because of the schema, which API servers send as errors of their own (500).

`is_schema_error` distinguishes them from failures of the server. `undeclared_fields` names fields that the kind does
not have, `wrong_field` the first field with any error.
"""

import re

_WORDS = ("field not declared in schema", "failed to create typed patch object", "failed to convert")
_UNDECLARED = re.compile(r"(?:^|: )\s*\.([^\n]{1,300}?): field not declared in schema", re.MULTILINE)
# Of an item of a list, the path has the keys: `.spec.containers[name="app"].image`.
_FIELD = re.compile(r"(?:^|: )\s*\.([^\n]{1,300}?): (?:field not declared|expected|duplicate)", re.MULTILINE)
_NAMED = 3


def is_schema_error(message: str) -> bool:
    """Whether the message of a server error says that the manifest is wrong."""
    return any(words in message for words in _WORDS)


def undeclared_fields(message: str) -> tuple[str, ...]:
    """Return the fields that the message says the kind does not have, such as `spec.containers[name=app].imagee`."""
    return tuple(path.replace('"', "") for path in _UNDECLARED.findall(message))


def wrong_field(message: str) -> str:
    """Return the first field that the message names; empty where it names none."""
    found = _FIELD.search(message)
    return found[1].replace('"', "") if found is not None else ""


def explain_schema_error(message: str) -> str:
    """Return the fields and the remedy for a person; empty where the message names no field that the kind lacks."""
    fields = undeclared_fields(message)
    if not fields:
        return ""
    rest = f" and {len(fields) - _NAMED} more" if len(fields) > _NAMED else ""
    named = f"{', '.join(fields[:_NAMED])}{rest}"
    noun = "unknown field" if len(fields) == 1 else "unknown fields"
    return f"{named}: {noun}: correct the name or the indentation, or remove it"
