"""The shapes of objects: lists with keys, sets, quantities, and maps that are one value as a whole.

`shape_of_kind` knows the kinds of Kubernetes. `shape_from_schema` reads the schema of any other kind. Without either,
maps are compared field by field, and each list is one value.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Literal

from syncline.core.fields import BUILT_IN_GROUPS, WHOLE_MAPS
from syncline.core.group_kind import GroupKind

Json = Mapping[str, Any]
Lookup = Callable[[str], Any]
"""Returns a definition of an OpenAPI document by its name; None where there is none."""
Form = Literal["Granular", "Atomic", "Set", "Quantity"]

NODE_LIMIT = 60_000
DEPTH_LIMIT = 100
KEY_LIMIT = 8

ANY_ITEM = "*"
_REFERENCE = "#/components/schemas/"
_QUANTITY_NAME = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_QUANTITY_PATTERN = "[KMGTPE]i"
SAYS_NOTHING = frozenset(
    {
        "affinity",
        "annotations",
        "binaryData",
        "capacity",
        "data",
        "hard",
        "labels",
        "limits",
        "matchLabels",
        "metadata",
        "nodeSelector",
        "overhead",
        "requests",
        "resources",
        "securityContext",
        "strategy",
        "stringData",
        "updateStrategy",
    }
)
"""Maps of built-in kinds for which empty means absent. Others, such as emptyDir, have a meaning."""


class Shape:
    """The shape of a value: a map, a list, or a single value."""

    __slots__ = ("built_in", "defaults", "fields", "form", "items", "keys", "others")

    def __init__(self, form: Form = "Granular", *, built_in: bool = False) -> None:
        self.form: Form = form
        self.fields: dict[str, Shape] = {}
        self.others: Shape | None = None
        """The shape of the fields of a map that have no shape of their own."""
        self.items: Shape | None = None
        self.keys: tuple[str, ...] = ()
        """The fields that identify the items of a list."""
        self.defaults: dict[str, Any] = {}
        """The values of keys that an item can leave out."""
        self.built_in = built_in
        """Whether it belongs to a built-in kind, whose field names have known meanings."""

    def field(self, name: str) -> "Shape":
        """Return the shape of a field of a map."""
        found = self.fields.get(name) or self.others
        if found is not None:
            return found
        if not self.built_in:
            return ANY
        return ATOMIC if name in WHOLE_MAPS else BUILT_IN

    def item(self) -> "Shape":
        """Return the shape of the items of a list."""
        return self.items or (BUILT_IN if self.built_in else ANY)

    def empty_is_absent(self, name: str) -> bool:
        """Whether an empty map in a field means the same as none."""
        return self.built_in and name in SAYS_NOTHING


ANY = Shape()
ATOMIC = Shape("Atomic")
QUANTITY = Shape("Quantity")
BUILT_IN = Shape(built_in=True)

_CONTAINER = {
    "env": "name",
    "ports": "containerPort,protocol",
    "volumeMounts": "mountPath",
    "volumeMounts/*/bindMountOptions": "Set",
    "volumeDevices": "devicePath",
    "resources/claims": "name",
    "resources/limits/*": "Quantity",
    "resources/requests/*": "Quantity",
}
_POD_SPEC = {
    **{
        f"{kind}{rest}": rule
        for kind in ("containers", "initContainers", "ephemeralContainers")
        for rest, rule in (("", "name"), *((f"/*/{path}", rule) for path, rule in _CONTAINER.items()))
    },
    "evictionResponders": "name",
    "evictionResponders/*": "Atomic",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "imagePullSecrets/*": "Atomic",
    "overhead/*": "Quantity",
    "resourceClaims": "name",
    "resources/claims": "name",
    "resources/limits/*": "Quantity",
    "resources/requests/*": "Quantity",
    "schedulingGates": "name",
    "topologySpreadConstraints": "topologyKey,whenUnsatisfiable",
    "volumes": "name",
    "volumes/*/emptyDir/sizeLimit": "Quantity",
    "volumes/*/ephemeral/volumeClaimTemplate/spec/resources/limits/*": "Quantity",
    "volumes/*/ephemeral/volumeClaimTemplate/spec/resources/requests/*": "Quantity",
}
_POD_PLACES = {
    "Pod": "spec",
    "PodTemplate": "template/spec",
    "ReplicationController": "spec/template/spec",
    "DaemonSet.apps": "spec/template/spec",
    "Deployment.apps": "spec/template/spec",
    "ReplicaSet.apps": "spec/template/spec",
    "StatefulSet.apps": "spec/template/spec",
    "Job.batch": "spec/template/spec",
    "CronJob.batch": "spec/jobTemplate/spec/template/spec",
}
_CLAIM = {"spec/resources/requests/*": "Quantity", "spec/resources/limits/*": "Quantity"}
_OF_KIND: Mapping[str, Mapping[str, str]] = {
    "CronJob.batch": {"spec/jobTemplate/spec/scheduling/resourceClaims": "name"},
    "HorizontalPodAutoscaler.autoscaling": {
        f"spec/behavior/{way}/tolerance": "Quantity" for way in ("scaleDown", "scaleUp")
    },
    "Job.batch": {"spec/scheduling/resourceClaims": "name"},
    "LimitRange": {
        f"spec/limits/*/{part}/*": "Quantity"
        for part in ("default", "defaultRequest", "max", "maxLimitRequestRatio", "min")
    },
    "PersistentVolume": {"spec/capacity/*": "Quantity"},
    "PersistentVolumeClaim": _CLAIM,
    "ResourceQuota": {"spec/hard/*": "Quantity"},
    "Service": {"spec/ports": "port,protocol"},
    "ServiceAccount": {"secrets": "name", "secrets/*": "Atomic"},
    "StatefulSet.apps": {f"spec/volumeClaimTemplates/*/{path}": rule for path, rule in _CLAIM.items()},
    "MutatingWebhookConfiguration.admissionregistration.k8s.io": {"webhooks": "name"},
    "ValidatingWebhookConfiguration.admissionregistration.k8s.io": {"webhooks": "name"},
}
_OF_ALL = {
    "metadata/annotations/*": "Granular",
    "metadata/finalizers": "Set",
    "metadata/labels/*": "Granular",
    "metadata/ownerReferences": "uid",
    "status/conditions": "type",
}
_OF_MAPS = {"data/*": "Granular", "binaryData/*": "Granular", "stringData/*": "Granular"}
_DEFAULT_KEYS = {"protocol": "TCP"}
_FORMS: Mapping[str, Form] = {"Granular": "Granular", "Atomic": "Atomic", "Set": "Set", "Quantity": "Quantity"}


def shape_of_kind(kind: str) -> Shape:
    """Return the shape of a built-in kind (`Service`, `Deployment.apps`); of other kinds, a shape without details."""
    if kind in _KNOWN_KINDS:
        return _built_in(kind)
    return _BUILT_IN_KIND if GroupKind.parse(kind).group in BUILT_IN_GROUPS else _OTHER_KIND


def shape_from_schema(schema: Any, lookup: Lookup | None = None, *, built_in: bool = False) -> Shape:
    """Return the shape that a schema gives: OpenAPI v3, of an API server or of a CustomResourceDefinition.

    Total: a part that cannot be read, or is too large, has a shape without details.
    """
    shape = _SchemaReading(lookup, built_in=built_in).read(schema, 0)
    merged = Shape(shape.form, built_in=built_in)
    merged.fields = {**shape.fields, "metadata": _BUILT_IN_KIND.fields["metadata"]}
    merged.others = shape.others
    return merged


@cache
def _built_in(kind: str) -> Shape:
    rules = {**_OF_ALL, **_OF_KIND.get(kind, {})}
    if kind in ("ConfigMap", "Secret"):
        rules |= _OF_MAPS
    if place := _POD_PLACES.get(kind):
        rules |= {f"{place}/{path}": rule for path, rule in _POD_SPEC.items()}
    return _from_rules(rules)


def _from_rules(rules: Mapping[str, str]) -> Shape:
    root = Shape(built_in=True)
    for path, rule in sorted(rules.items()):
        shape = root
        for part in path.split("/"):
            shape = _inside(shape, part)
        if rule in _FORMS:
            shape.form = _FORMS[rule]
        else:
            shape.keys = tuple(rule.split(","))
            shape.defaults = {name: value for name, value in _DEFAULT_KEYS.items() if name in shape.keys}
    return root


def _inside(shape: Shape, part: str) -> Shape:
    """Return the shape of a part, made if it is absent; `*` is the items of a list and all fields of a map."""
    if part != ANY_ITEM:
        return shape.fields.setdefault(part, Shape(built_in=True))
    if shape.items is None:
        # The keys of such a map are anybody's, so that their names mean nothing.
        shape.items = shape.others = Shape(built_in=bool(shape.keys))
    return shape.items


class _SchemaReading:
    """The reading of one schema."""

    def __init__(self, lookup: Lookup | None, *, built_in: bool) -> None:
        self._lookup = lookup
        self._built_in = built_in
        self._named: dict[str, Shape] = {}
        self._nodes = 0

    def read(self, schema: Any, depth: int) -> Shape:
        """Return the shape of a schema."""
        self._nodes += 1
        if not isinstance(schema, Mapping) or depth > DEPTH_LIMIT or self._nodes > NODE_LIMIT:
            return self._unknown()
        shape = Shape(built_in=self._built_in)
        return self._fill(shape, schema, depth)

    def _unknown(self) -> Shape:
        return BUILT_IN if self._built_in else ANY

    def _fill(self, shape: Shape, schema: Json, depth: int) -> Shape:
        if (target := _reference(schema)) is not None:
            return self._referred(target, depth)
        if _is_quantity(schema):
            return QUANTITY
        if schema.get("x-kubernetes-map-type") == "atomic":
            shape.form = "Atomic"
        properties = schema.get("properties")
        if isinstance(properties, Mapping):
            shape.fields = {str(name): self.read(inside, depth + 1) for name, inside in properties.items()}
        if isinstance(others := schema.get("additionalProperties"), Mapping):
            shape.others = self.read(others, depth + 1)
        if isinstance(items := schema.get("items"), Mapping):
            shape.items = self.read(items, depth + 1)
            self._list(shape, schema, items)
        return shape

    def _referred(self, name: str, depth: int) -> Shape:
        if name == _QUANTITY_NAME:
            return QUANTITY
        if name not in self._named:
            definition = self._lookup(name) if self._lookup is not None else None
            if not isinstance(definition, Mapping) or depth > DEPTH_LIMIT or self._nodes > NODE_LIMIT:
                return self._unknown()
            self._nodes += 1
            # A definition can refer to itself, so its shape is known before it is filled.
            shape = self._named[name] = Shape(built_in=self._built_in)
            self._named[name] = self._fill(shape, definition, depth + 1)
        return self._named[name]

    def _list(self, shape: Shape, schema: Json, items: Json) -> None:
        kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys")
        if kind == "set":
            shape.form = "Set"
        elif kind == "map" and isinstance(keys, list) and 0 < len(keys) <= KEY_LIMIT:
            shape.keys = tuple(map(str, keys))
            shape.defaults = dict(self._key_defaults(items, shape.keys))

    def _key_defaults(self, items: Json, keys: Iterable[str]) -> Iterable[tuple[str, Any]]:
        target = _reference(items)
        definition = self._lookup(target) if target is not None and self._lookup is not None else items
        properties = definition.get("properties") if isinstance(definition, Mapping) else None
        for key in keys:
            found = properties.get(key) if isinstance(properties, Mapping) else None
            default = found.get("default") if isinstance(found, Mapping) else None
            # Kubernetes publishes "" and 0 for keys that its kinds cannot leave out.
            if isinstance(default, str | int) and (default or not self._built_in):
                yield key, default
            elif self._built_in and key in _DEFAULT_KEYS:
                yield key, _DEFAULT_KEYS[key]


def _reference(schema: Json) -> str | None:
    """Return the definition that a schema refers to, also where the reference has a default or a description."""
    target = schema.get("$ref")
    every = schema.get("allOf")
    if target is None and isinstance(every, list) and len(every) == 1 and isinstance(every[0], Mapping):
        target = every[0].get("$ref")
    is_inside = isinstance(target, str) and target.startswith(_REFERENCE)
    return target.removeprefix(_REFERENCE) if isinstance(target, str) and is_inside else None


def _is_quantity(schema: Json) -> bool:
    pattern = schema.get("pattern")
    return (
        schema.get("x-kubernetes-int-or-string") is True and isinstance(pattern, str) and _QUANTITY_PATTERN in pattern
    )


_KNOWN_KINDS = frozenset({*_POD_PLACES, *_OF_KIND, "ConfigMap", "Secret"})
_BUILT_IN_KIND = _from_rules(_OF_ALL)
_OTHER_KIND = Shape()
_OTHER_KIND.fields = _BUILT_IN_KIND.fields
