"""JSON schemas of the values of the chart."""

from typing import Any

ValueSchema = dict[str, Any]

TEXT: ValueSchema = {"type": "string"}
SWITCH: ValueSchema = {"type": "boolean"}
NAME: ValueSchema = {"type": "string", "maxLength": 253, "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"}
NO_NAME: ValueSchema = {"type": "string", "maxLength": 253, "pattern": "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$"}
"""A name, or an empty string."""
SOME_TEXT: ValueSchema = {"type": "string", "minLength": 1}
DURATION: ValueSchema = {"type": "string", "pattern": "^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$"}
QUANTITY: ValueSchema = {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?$"}
RESOURCE: ValueSchema = {"type": "string", "pattern": "^[a-z0-9-]+(\\.[a-z0-9.-]+)?$"}
"""A resource as `kubectl api-resources` names it, such as `deployments.apps`."""
ANY_OBJECT: ValueSchema = {"type": "object"}
"""An object whose fields the API server checks."""
STRINGS: ValueSchema = {"type": "object", "additionalProperties": {"type": "string"}}


def integer(least: int, most: int | None = None) -> ValueSchema:
    """Return the schema of a number in a range."""
    return {"type": "integer", "minimum": least} | ({} if most is None else {"maximum": most})


def choice(*values: str) -> ValueSchema:
    """Return the schema of one of these values."""
    return {"type": "string", "enum": list(values)}


def many(item: ValueSchema) -> ValueSchema:
    """Return the schema of a list."""
    return {"type": "array", "items": item}


def distinct(item: ValueSchema) -> ValueSchema:
    """Return the schema of a list without repeated items."""
    return {**many(item), "uniqueItems": True}


def record(**fields: ValueSchema) -> ValueSchema:
    """Return the schema of an object with these fields, and no others."""
    return {"type": "object", "properties": fields, "additionalProperties": False}


PORT = integer(1, 65535)
ISSUER = {**record(name=NAME, kind=TEXT, group=TEXT), "anyOf": [{"maxProperties": 0}, {"required": ["name"]}]}
ACCOUNT = {**record(namespace=NAME, name=NAME), "required": ["namespace", "name"]}
