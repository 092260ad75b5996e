"""What becomes of the keys and values of ConfigMaps and Secrets on the way; shared by the kinds that copy them."""

from typing import Annotated, ClassVar

from msgspec import Meta, Struct, field

from syncline.api.rules import Rule, text

DataKey = Annotated[
    str,
    text(
        r"^[-._a-zA-Z0-9]+$",
        'write a key of a ConfigMap: letters, digits, "-", "_" and ".", such as app.yaml',
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
    """Which keys of `data` and `binaryData` are copied, and under which names."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            """
            !has(self.rename)
            || self.rename.all(one, self.rename.exists_one(other, self.rename[one] == self.rename[other]))
            """,
            "two keys are renamed to the same name: give each a name of its own",
            ".rename",
        ),
    )

    include: Annotated[
        list[KeyPattern], Meta(max_length=100, description="Only keys that match one of these globs; empty: all.")
    ] = field(default_factory=list)
    exclude: Annotated[list[KeyPattern], Meta(max_length=100, description="Not keys that match one of these.")] = field(
        default_factory=list
    )
    rename: Annotated[
        dict[Annotated[str, Meta(max_length=253)], DataKey],
        Meta(max_length=100, description="Key in the source: key in the copy."),
    ] = field(default_factory=dict)


class Replace(Struct, frozen=True, kw_only=True, rename={"with_": "with"}):
    """A regular expression replacement."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            # Evaluating the pattern is the check: the server's answer to a broken one names its mistake.
            "''.matches(self.pattern) ? true : true",
            "write a regular expression in RE2 syntax (no look-around, no backreferences)",
            ".pattern",
        ),
    )

    pattern: Annotated[str, Meta(min_length=1, max_length=1024, description="RE2 syntax.")]
    with_: Annotated[str, Meta(max_length=4096, description=r"The replacement; \1 is the first group.")] = ""


class Transform(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Changes the values of some keys; exactly one of set, replace and template."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "[has(self.set), has(self.replace), has(self.template)].exists_one(given, given)",
            "write exactly one of set, replace and template; use one transform for each",
        ),
    )

    key: Annotated[KeyPattern, Meta(description="Glob over the keys, after renaming.")]
    set: Annotated[
        Annotated[str, Meta(max_length=65536)] | None,
        Meta(description="The value. Added where `key` is no glob and the key is absent."),
    ] = None
    replace: Annotated[Replace | None, Meta(description="Replace what matches in the value.")] = None
    template: Annotated[
        Annotated[str, Meta(max_length=65536)] | None,
        Meta(
            description="Jinja; sees `value`, `key`, `source.namespace`, `source.name`,"
            " `target.namespace`, `target.name`."
        ),
    ] = None
