"""Changes of objects on their way to other clusters, by JSON pointers."""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct, field

from syncline.api.common import LabelSelector
from syncline.api.names import ResourceName
from syncline.api.rules import ValidationRule, selects_some, text

POINTER = r"^(/([^/~]|~[01])*)+$"
PROTECTED = (
    "a transform cannot change apiVersion, kind, status, syncline.dev/ labels and annotations, and metadata other than"
    " labels and annotations: remove this path"
)
NEED_VALUE = ("add", "replace", "test")
"""The operations that need a value. The API server removes null, so null is no value."""

JsonPointer = Annotated[
    str,
    text(
        POINTER,
        "write a JSON pointer, such as /spec/template/spec/nodeSelector; in a key, write ~1 for / and ~0 for ~",
        max_length=512,
    ),
]


def changeable(path: str) -> str:
    """Return the CEL expression that a transform can change the path in the given variable."""
    # Regular expressions would exceed the cost limit of the CRD.
    return f"""
    !['/apiVersion', '/kind', '/metadata', '/status'].exists(one, {path} == one || {path}.startsWith(one + '/'))
    || ['/metadata/labels', '/metadata/annotations'].exists(one, {path} == one
    || {path}.startsWith(one + '/') && !{path}.startsWith(one + '/syncline.dev~1'))
    """


class PatchOperation(Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"from_": "from"}):
    """One operation of a JSON patch."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "(self.op in ['move', 'copy']) == has(self.from)",
            "move and copy need from, and the other operations take no from: write from, or remove it",
            ".from",
        ),
        ValidationRule(f"self.op == 'test' || ({changeable('self.path')})", PROTECTED, ".path"),
        ValidationRule(
            f"self.op != 'move' || !has(self.from) || ({changeable('self.from')})",
            f"{PROTECTED}, or write op: copy",
            ".from",
        ),
    )

    op: Annotated[
        Literal["add", "remove", "replace", "move", "copy", "test"],
        Meta(description="The operation. If a test fails, the object is not written, and the sync reports it."),
    ]
    path: Annotated[JsonPointer, Meta(description="The path to change. Missing parents are created.")]
    from_: Annotated[JsonPointer | None, Meta(description="For move and copy: the path of the value.")] = None
    value: Annotated[
        Any,
        Meta(
            description="For add, replace and test: the value, of any type. Strings can use `{{ target.* }}`,"
            " `{{ workspace.* }}` and `{{ namespace }}`."
        ),
    ] = None


class ObjectTransform(Struct, frozen=True, kw_only=True, rename="camel"):
    """Changes of the copies of one resource, in the order remove, set, patch."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "self.?remove.orValue([]).size() > 0 || has(self.set) || self.?patch.orValue([]).size() > 0",
            "a transform needs at least one of remove, set and patch: write one of them",
        ),
        ValidationRule(
            f"!has(self.remove) || self.remove.all(path, {changeable('path')})",
            PROTECTED,
            ".remove",
        ),
        selects_some(
            "targets",
            "an empty selector selects every SyncTarget: write the labels of some SyncTargets, or remove targets",
        ),
    )

    resource: Annotated[
        ResourceName, Meta(description="The resource to change, such as `configmaps` or `deployments.apps`.")
    ]
    remove: Annotated[
        list[JsonPointer], Meta(max_length=30, description="JSON pointers of values to remove. They can be absent.")
    ] = field(default_factory=list)
    set: Annotated[
        Annotated[dict[str, Any], Meta(min_length=1, max_length=50)] | None,
        Meta(
            description="JSON pointers and their new values, of any type. Missing parents are created. Strings can use"
            " `{{ target.* }}`, `{{ workspace.* }}` and `{{ namespace }}`."
        ),
    ] = None
    patch: Annotated[list[PatchOperation], Meta(max_length=30, description="A JSON patch.")] = field(
        default_factory=list
    )
    targets: Annotated[
        LabelSelector | None,
        Meta(description="Selects the SyncTargets whose copies are changed, by their labels. Default: all."),
    ] = None
