"""Strict JSON schemas (draft 2020-12), from the OpenAPI v3 of an API server and from CustomResourceDefinitions.

The schemas of Kubernetes describe known fields; an API server also refuses or drops unknown ones. So here an object
with `properties` allows no others, unless it has `x-kubernetes-preserve-unknown-fields`. In doubt the schema allows a
value: nothing may be refused that the API server would accept, because one refusal blocks a whole revision. The API
server refuses the rest.

Only known keywords are copied, each with a check of its type, because any user who pushes a CRD or runs a cluster can
write a schema. References outside of the document are not followed. `PATTERN` is a keyword of ours: the caller matches
it in linear time.
"""

from collections.abc import Callable, Mapping
from typing import Any

Json = dict[str, Any]
Lookup = Callable[[str], Any]
"""Returns a definition of an OpenAPI document by its name, or None."""

PATTERN = "x-pattern"
NODE_LIMIT = 60_000
"""Schemas within schemas: the largest kind of Kubernetes has about 3,000, large CRDs have 20,000."""
DEPTH_LIMIT = 100
PATTERN_LIMIT = 4096

_REFERENCE = "#/components/schemas/"
_ROOT = "d0"
_NATIVE = "io.k8s."
_TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean"})
_ANY: Json = {}
_INT_OR_STRING: Json = {"type": ["integer", "string"]}
_STRING: Json = {"type": "string"}
_OBJECT: Json = {"type": "object"}
# Types with their own JSON encoding. Their published schemas differ between versions.
_SPECIAL: Mapping[str, Json] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {
        "type": ["string", "number"],
        PATTERN: r"^\s*[-+]?[0-9.]+[eEinumkKMGTP]*[-+]?[0-9]*\s*$",
    },
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _INT_OR_STRING,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _ANY,
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": _OBJECT,
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": _STRING,
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": _STRING,
    "io.k8s.apimachinery.pkg.apis.meta.v1.Duration": _STRING,
    **{
        f"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.{name}": _ANY
        for name in ("JSON", "JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray")
    },
}
# Required fields of kinds of Kubernetes for which some version of the server accepts an absent value as an empty one.
_NOT_ASKED_FOR = frozenset(
    {
        "apiVersion",
        "clientConfig",
        "gid",
        "groupPriorityMinimum",
        "kind",
        "lun",
        "metadata",
        "podSelector",
        "preference",
        "priority",
        "seconds",
        "serviceName",
        "uid",
        "value",
        "versionPriority",
    }
)
_NEVER_EMPTY = frozenset({"containers", "versions"})
# The fields of every object, even if its definition lacks them. Metadata is checked elsewhere.
_EVERY_OBJECT: Mapping[str, Json] = {"apiVersion": _STRING, "kind": _STRING, "metadata": _OBJECT}
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_BOUNDS = (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))


class SchemaTooLarge(Exception):  # noqa: N818 - it says what is wrong
    """The schema is too large."""


def published_schema(name: str, lookup: Lookup) -> Json:
    """Return the published schema of a kind, with all definitions that it refers to."""
    conversion = _Conversion(lookup, native=name.startswith(_NATIVE))
    reference = conversion.reference(name, strict=True)
    conversion.finish()
    _ask_for_no_metadata(conversion.definitions.get(_ROOT, {}))
    return {**reference, "$defs": conversion.definitions}


def defined_schema(schema: Any) -> Json:
    """Return the schema of a kind from the `openAPIV3Schema` of its CustomResourceDefinition."""
    root = _Conversion(None, native=False).convert(schema)
    properties = root.get("properties")
    if properties is not None:
        root["properties"] = {**properties, **_EVERY_OBJECT}
    _ask_for_no_metadata(root)
    return root


def _ask_for_no_metadata(root: Json) -> None:
    if "required" in root:
        root["required"] = [name for name in root["required"] if name not in _EVERY_OBJECT]


class _Conversion:
    """The conversion of the schema of one kind."""

    def __init__(self, lookup: Lookup | None, *, native: bool) -> None:
        self.definitions: dict[str, Json] = {}
        self._lookup = lookup
        self._native = native
        self._keys: dict[tuple[str, bool], str] = {}
        self._waiting: list[tuple[str, bool]] = []
        self._nodes = 0

    def reference(self, name: str, *, strict: bool) -> Json:
        """Refer to a definition, which is converted once, later."""
        if name in _SPECIAL:
            return dict(_SPECIAL[name])
        key = self._keys.get((name, strict))
        if key is None:
            key = self._keys[name, strict] = f"d{len(self._keys)}"
            self._waiting.append((name, strict))
        return {"$ref": f"#/$defs/{key}"}

    def finish(self) -> None:
        """Convert all definitions that are referred to, directly or indirectly."""
        while self._waiting:
            name, strict = self._waiting.pop()
            found = self._lookup(name) if self._lookup is not None else None
            self.definitions[self._keys[name, strict]] = self.convert(found, strict=strict)

    def convert(self, schema: Any, *, strict: bool = True, depth: int = 0) -> Json:
        """Convert one schema. `strict`: its objects allow only the fields that it names."""
        self._nodes += 1
        if self._nodes > NODE_LIMIT:
            raise SchemaTooLarge
        if not isinstance(schema, dict) or depth > DEPTH_LIMIT:
            return {}
        target = schema.get("$ref")
        if target is not None:
            # A definition cannot refer to anything.
            inside = self._lookup is not None and isinstance(target, str) and target.startswith(_REFERENCE)
            return self.reference(target.removeprefix(_REFERENCE), strict=strict) if inside else {}
        result: Json = {}
        self._type(schema, result)
        self._limits(schema, result)
        self._object(schema, result, strict=strict, depth=depth)
        if isinstance(items := schema.get("items"), dict):
            result["items"] = self.convert(items, strict=strict, depth=depth + 1)
        self._junctors(schema, result, strict=strict, depth=depth)
        return result

    def _type(self, schema: Json, result: Json) -> None:
        kind = schema.get("type")
        # In a list of a kind of Kubernetes, null is an empty item; elsewhere it is dropped before.
        nullable = self._native or schema.get("nullable") is True
        if _is_int_or_string(schema):
            result["type"] = ["integer", "string", *(["null"] if nullable else [])]
        elif isinstance(kind, str) and kind in _TYPES:
            result["type"] = [kind, "null"] if nullable else kind
        choices = schema.get("enum")
        if isinstance(choices, list) and choices:
            # In its own kinds, the server treats an empty text like an absent one.
            result["enum"] = [*choices, *([None] if nullable else []), *([""] if self._native else [])]

    def _limits(self, schema: Json, result: Json) -> None:
        for word in _COUNTS:
            if _is_count(schema.get(word)):
                result[word] = schema[word]
        for word, exclusive in _BOUNDS:
            if _is_number(schema.get(word)):
                result[exclusive if schema.get(exclusive) is True else word] = schema[word]
            elif _is_number(schema.get(exclusive)):
                result[exclusive] = schema[exclusive]
        if self._native and schema.get("type") == "integer" and schema.get("format") == "int32":
            result.setdefault("minimum", -(2**31))
            result.setdefault("maximum", 2**31 - 1)
        factor: Any = schema.get("multipleOf")
        if _is_number(factor) and factor > 0:
            result["multipleOf"] = factor
        pattern = schema.get("pattern")
        if isinstance(pattern, str) and len(pattern) <= PATTERN_LIMIT:
            result[PATTERN] = pattern

    def _object(self, schema: Json, result: Json, *, strict: bool, depth: int) -> None:
        properties = schema.get("properties")
        known: Json = {}
        if isinstance(properties, dict):
            known = {
                name: self.convert(inside, strict=strict, depth=depth + 1)
                for name, inside in properties.items()
                if isinstance(name, str)
            }
        if schema.get("x-kubernetes-embedded-resource") is True:
            known = {**known, **_EVERY_OBJECT}
        if known:
            result["properties"] = known
        others = schema.get("additionalProperties")
        if isinstance(others, dict):
            result["additionalProperties"] = self.convert(others, strict=strict, depth=depth + 1)
        elif strict and known and not _is_open(schema):
            result["additionalProperties"] = False
        if required := self._required(schema, properties if isinstance(properties, dict) else {}):
            result["required"] = required

    def _required(self, schema: Json, properties: Json) -> list[str]:
        named = schema.get("required")
        names = [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
        if self._native:
            return [name for name in names if name not in _NOT_ASKED_FOR and not _may_be_empty(name, properties)]
        # Defaults are set before the validation, and null counts as a value if it is allowed.
        return [name for name in names if not _has_default(properties.get(name))]

    def _junctors(self, schema: Json, result: Json, *, strict: bool, depth: int) -> None:
        """Copy allOf, anyOf, oneOf and not: they restrict known fields, and add none."""
        every = schema.get("allOf")
        if isinstance(every, list) and len(every) == 1 and "properties" not in result and _refers(every[0]):
            # The form of a reference with a default or a description.
            result |= self.convert(every[0], strict=strict, depth=depth + 1)
            every = None
        if isinstance(every, list) and every:
            result["allOf"] = [self.convert(one, strict=False, depth=depth + 1) for one in every]
        typed = _is_int_or_string(schema)
        for word in ("anyOf", "oneOf"):
            some = schema.get(word)
            if isinstance(some, list) and some and not (typed and all(map(_is_type_alone, some))):
                result[word] = [self.convert(one, strict=False, depth=depth + 1) for one in some]
        if isinstance(schema.get("not"), dict):
            result["not"] = self.convert(schema["not"], strict=False, depth=depth + 1)


def _is_int_or_string(schema: Json) -> bool:
    return schema.get("x-kubernetes-int-or-string") is True or schema.get("format") == "int-or-string"


def _is_open(schema: Json) -> bool:
    """Whether an object may have fields that its schema does not name."""
    if schema.get("additionalProperties") is True or schema.get("x-kubernetes-preserve-unknown-fields") is True:
        return True
    every = schema.get("allOf")
    # Some extension API servers write inheritance so.
    return isinstance(every, list) and any(map(_refers, every))


def _is_type_alone(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.keys() == {"type"}


def _refers(schema: Any) -> bool:
    return isinstance(schema, dict) and isinstance(schema.get("$ref"), str)


def _may_be_empty(name: str, properties: Json) -> bool:
    schema = properties.get(name)
    kind = schema.get("type") if isinstance(schema, dict) else None
    return kind == "boolean" or (kind == "array" and name not in _NEVER_EMPTY)


def _has_default(schema: Any) -> bool:
    return isinstance(schema, dict) and ("default" in schema or schema.get("nullable") is True)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**63
