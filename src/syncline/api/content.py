"""Selection and change of keys and values of ConfigMaps and Secrets. The kinds that copy them share it."""

from typing import Annotated, ClassVar

from msgspec import Meta, Struct, field

from syncline.api.rules import ValidationRule, text

DataKey = Annotated[
    str,
    text(
        r"^[-._a-zA-Z0-9]+$",
        'write a key of a ConfigMap or Secret: letters, digits, "-", "_" and ".", such as app.yaml',
        max_length=253,
    ),
]
KeyPattern = Annotated[
    str,
    text(
        r"^[-._a-zA-Z0-9*?]+$",
        'write keys or globs of keys: letters, digits, "-", "_", ".", "*" and "?", such as *.yaml',
        max_length=253,
    ),
]


class Keys(Struct, frozen=True, kw_only=True, rename="camel"):
    """Selects and renames the keys of `data` and `binaryData` that are copied."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            """
            !has(self.rename)
            || self.rename.all(one, self.rename.exists_one(other, self.rename[one] == self.rename[other]))
            """,
            "two keys are renamed to the same name: write a different name for each",
            ".rename",
        ),
    )

    include: Annotated[
        list[KeyPattern], Meta(max_length=100, description="Globs of keys that are copied. Empty: all keys.")
    ] = field(default_factory=list)
    exclude: Annotated[list[KeyPattern], Meta(max_length=100, description="Globs of keys that are not copied.")] = (
        field(default_factory=list)
    )
    rename: Annotated[
        dict[Annotated[str, Meta(max_length=253)], DataKey],
        Meta(max_length=100, description="New names of keys: the key in the source, and the key in the copy."),
    ] = field(default_factory=dict)


class Replace(Struct, frozen=True, kw_only=True, rename={"with_": "with"}):
    """A regular expression replacement."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            # The evaluation of the pattern is the check: for an invalid pattern, the answer of the API server names the
            # mistake.
            "''.matches(self.pattern) ? true : true",
            "write a regular expression in RE2 syntax (no look-around, no backreferences)",
            ".pattern",
        ),
    )

    pattern: Annotated[str, Meta(min_length=1, max_length=1024, description="The regular expression, in RE2 syntax.")]
    with_: Annotated[str, Meta(max_length=4096, description=r"The replacement; \1 is the first group.")] = ""


class Transform(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Changes the values of some keys, by exactly one of set, replace and template."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "[has(self.set), has(self.replace), has(self.template)].exists_one(given, given)",
            "a transform needs exactly one of set, replace and template: write several transforms for several changes",
        ),
    )

    key: Annotated[KeyPattern, Meta(description="A glob of keys, after renaming.")]
    set: Annotated[
        Annotated[str, Meta(max_length=65536)] | None,
        Meta(description="The new value. If `key` is not a glob, a missing key is added."),
    ] = None
    replace: Annotated[Replace | None, Meta(description="A regular expression and its replacement.")] = None
    template: Annotated[
        Annotated[str, Meta(max_length=65536)] | None,
        Meta(
            description="A Jinja template of the new value. It can use `value`, `key`, `source.namespace`,"
            " `source.name`, `target.namespace` and `target.name`."
        ),
    ] = None
