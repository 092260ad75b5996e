"""Structural OpenAPI v3 schemas for CRDs, generated from typed specs.

A type without a structural schema, a field without a description, and a string or list without a limit are errors here.
The generation of the CRDs finds them, not a user.
"""

from inspect import cleandoc
from typing import Any

import msgspec.inspect as mi
from msgspec import NODEFAULT

from syncline.api.rules import PATTERN_MESSAGE, ValidationRule

Schema = dict[str, Any]

VALIDATIONS = "x-kubernetes-validations"


class SchemaError(TypeError):
    """A type is not allowed in a CRD."""


def structural(type_: type, *, authored: bool) -> Schema:
    """Return the schema of a struct, with no references and no nulls.

    If people write the struct (`authored`), the API server sets the defaults of scalar fields and checks the rules.
    This is right for a spec. It is wrong for a status: a default would report a state that nobody observed, and the
    rules would use a part of the CRD's cost limit for an object that only the operator writes.
    """
    return _schema(mi.type_info(type_), type_.__name__, authored=authored)


def _schema(info: mi.Type, where: str, *, authored: bool) -> Schema:
    match info:
        case mi.Metadata():
            return _annotated(info, where, authored=authored)
        case mi.UnionType():
            return _optional(info, where, authored=authored)
        case mi.StructType():
            return _object(info, where, authored=authored)
        case mi.ListType():
            items = _schema(info.item_type, f"{where}[]", authored=authored)
            return {"type": "array", **_limits(info, where, "Items"), "items": items}
        case mi.DictType():
            return _map(info, where, authored=authored)
        case _:
            return _scalar(info, where)


def _scalar(info: mi.Type, where: str) -> Schema:
    match info:
        case mi.StrType():
            pattern = {"pattern": info.pattern} if info.pattern else {}
            return {"type": "string", **_limits(info, where, "Length"), **pattern}
        case mi.LiteralType():
            if not all(isinstance(value, str) for value in info.values):
                raise SchemaError(f"{where}: write the values of a Literal as strings")
            return {"type": "string", "enum": list(info.values)}
        case mi.IntType():
            return {"type": "integer", "format": "int64", **_bounds(info)}
        case mi.BoolType():
            return {"type": "boolean"}
        case mi.AnyType():
            return {"x-kubernetes-preserve-unknown-fields": True}
        case _:
            raise SchemaError(f"{where}: {type(info).__name__} is not allowed in a structural schema")


def _annotated(info: mi.Metadata, where: str, *, authored: bool) -> Schema:
    extra = dict(info.extra_json_schema or {})
    message = extra.pop(PATTERN_MESSAGE, None)
    timestamp = extra.get("format") == "date-time"
    schema: Schema = {"type": "string"} if timestamp else _schema(info.type, where, authored=authored)
    if message is not None:
        pattern = schema.pop("pattern")
        schema.update(_validations(ValidationRule(f"self.matches(r'{pattern}')", message), authored=authored))
    description = {"description": extra.pop("description")} if "description" in extra else {}
    return {**description, **schema, **extra}


def _optional(info: mi.UnionType, where: str, *, authored: bool) -> Schema:
    present = [option for option in info.types if not isinstance(option, mi.NoneType)]
    if len(present) != 1:
        raise SchemaError(
            f"{where}: a union other than `... | None` is not structural; use one field for each alternative"
        )
    return _schema(present[0], where, authored=authored)


def _object(info: mi.StructType, where: str, *, authored: bool) -> Schema:
    properties: Schema = {}
    for field in info.fields:
        path = f"{where}.{field.encode_name}"
        schema = _schema(field.type, path, authored=authored)
        if not schema.get("description"):
            raise SchemaError(f"{path}: has no description; write Annotated[..., Meta(description=...)]")
        if authored and field.default is not NODEFAULT and field.default is not None:
            schema["default"] = field.default
        properties[field.encode_name] = schema
    required = [field.encode_name for field in info.fields if field.required]
    rules: tuple[ValidationRule, ...] = getattr(info.cls, "RULES", ())
    return {
        "type": "object",
        **({"required": required} if required else {}),
        "properties": properties,
        **_validations(*rules, authored=authored),
    }


def _map(info: mi.DictType, where: str, *, authored: bool) -> Schema:
    """Return the schema of a map of strings, or of an object with any fields.

    OpenAPI has no limits for keys. The cost limit of CEL allows only a check of their size. CEL cannot read an object
    with any fields.
    """
    if isinstance(info.value_type, mi.AnyType):
        return {"type": "object", **_limits(info, where, "Properties"), "x-kubernetes-preserve-unknown-fields": True}
    if (
        not isinstance(info.key_type, mi.StrType)
        or info.key_type.max_length is None
        or info.key_type.pattern is not None
    ):
        raise SchemaError(f"{where}: keys of a map need a max_length and cannot have a pattern")
    size = info.key_type.max_length
    rule = ValidationRule(f"self.all(key, size(key) <= {size})", f"keys have at most {size} characters")
    return {
        "type": "object",
        **_limits(info, where, "Properties"),
        "additionalProperties": _schema(info.value_type, f"{where}.*", authored=authored),
        **_validations(rule, authored=authored),
    }


def _validations(*rules: ValidationRule, authored: bool) -> Schema:
    return {VALIDATIONS: [_validation(rule) for rule in rules]} if rules and authored else {}


def _validation(rule: ValidationRule) -> Schema:
    field_path = {"fieldPath": rule.field_path} if rule.field_path else {}
    return {"rule": cleandoc(rule.rule), "message": rule.message, **field_path}


def _limits(info: mi.StrType | mi.ListType | mi.DictType, where: str, unit: str) -> Schema:
    if info.max_length is None:
        raise SchemaError(f"{where}: has no limit; write Annotated[..., Meta(max_length=...)]")
    low = {f"min{unit}": info.min_length} if info.min_length else {}
    return {**low, f"max{unit}": info.max_length}


def _bounds(info: mi.IntType) -> Schema:
    low = {"minimum": info.ge} if info.ge is not None else {}
    high = {"maximum": info.le} if info.le is not None else {}
    return {**low, **high}
