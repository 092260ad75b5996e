"""The files of an IgnitionSync: which part of the repository goes to which folder of a gateway, and what is changed."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field

from syncline.api.rules import ValidationRule

MappingType = Literal["dir", "file"]
DesignerSessionPolicy = Literal["wait", "proceed", "fail"]

DEFAULT_PROFILE = "default"
DEFAULT_EXCLUDES = ("**/.git/", "**/.gitkeep", "**/.resources/**")
MAX_PROFILES = 20
MAX_MAPPINGS = 50
MAX_EXCLUDES = 50

MappedPath = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=512,
        # No absolute path. CEL in lists of lists exceeds the cost limit; the operator refuses "..".
        pattern=r"^[^/\x00-\x1f][^\x00-\x1f]*$",
    ),
]
"""A path, or a template of one, below the root of the repository or below the data folder."""
ExcludePattern = Annotated[str, Meta(min_length=1, max_length=256)]
VariableValue = Annotated[str, Meta(max_length=1024)]
Variables = Annotated[
    dict[Annotated[str, Meta(max_length=63)], VariableValue],
    Meta(max_length=50, description="Variables for templates: `{{ vars.KEY }}`, or `{{.Vars.KEY}}`."),
]

_EXCLUDES = Meta(
    max_length=MAX_EXCLUDES,
    description="Globs of files that are left out, in addition to those of `spec.excludePatterns`. Paths are relative"
    " to the data folder.",
)
_DRY_RUN = "If true, agents publish nothing, and report what would change."
_PAUSED = "If true, gateways of this profile keep their files."
_SYNC_PERIOD = "Accepted from earlier configurations. Agents learn of a change at once, and need no period. In seconds."

VARIABLE_NAMES = ValidationRule(
    "!has(self.vars) || self.vars.all(key, key.matches('^[a-zA-Z_][a-zA-Z0-9_]*$'))",
    "a name of a variable has letters, digits and _ only, because {{.Vars.KEY}} cannot name others: write site_name"
    " instead of site-name",
    ".vars",
)
"""For each struct with `vars`."""


class FilePatch(Struct, frozen=True, kw_only=True, rename="camel"):
    """Values that are set in JSON files."""

    file: Annotated[
        str,
        Meta(
            max_length=256,
            description="A glob of files below the destination of the mapping. Default: the mapped file.",
        ),
    ] = ""
    set: Annotated[
        dict[Annotated[str, Meta(max_length=256)], VariableValue],
        Meta(
            min_length=1,
            max_length=50,
            description="The values, by dotted paths such as `systemName` or `settings.port`. A value is rendered as a"
            " template. It is then read as JSON, such as `true` or `8043`; anything else is a text.",
        ),
    ]


class SyncMapping(Struct, frozen=True, kw_only=True, rename="camel"):
    """A file or folder of the repository, and its place in the data folder."""

    source: Annotated[
        MappedPath,
        Meta(
            description="The file or folder, relative to the root of the repository. It can be a template, such as"
            " `gateways/{{ gateway.name }}/config`."
        ),
    ]
    destination: Annotated[
        MappedPath,
        Meta(
            description="The place below the data folder. `.` is the data folder itself. A file goes into the"
            " destination under its own name if the destination ends with `/`. It can be a template."
        ),
    ]
    type: Annotated[
        MappingType | None,
        Meta(description="Whether the source must be a folder or a file. Default: either."),
    ] = None
    required: Annotated[
        bool,
        Meta(
            description="If true, nothing is published without the source. Else a missing source is reported, and the"
            " files that this mapping wrote before stay."
        ),
    ] = False
    template: Annotated[
        bool,
        Meta(description="If true, the contents of the files are templates. A file with a NUL byte is refused."),
    ] = False
    patches: Annotated[
        list[FilePatch],
        Meta(max_length=20, description="Changes of JSON files. The other bytes of a file stay as they are."),
    ] = field(default_factory=list)


class SyncDefaults(Struct, frozen=True, kw_only=True, rename="camel"):
    """The settings of all profiles."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (VARIABLE_NAMES,)

    exclude_patterns: Annotated[list[ExcludePattern], _EXCLUDES] = field(default_factory=list)
    vars: Variables = field(default_factory=dict)
    sync_period: Annotated[
        Annotated[int, Meta(ge=5, le=3600)] | None,
        Meta(description=_SYNC_PERIOD),
    ] = None
    designer_session_policy: Annotated[
        DesignerSessionPolicy | None,
        Meta(description="The policy for open designer sessions. Default: `ignition.designerSessionPolicy`."),
    ] = None
    dry_run: Annotated[bool, Meta(description=_DRY_RUN)] = False
    paused: Annotated[bool, Meta(description=_PAUSED)] = False


class SyncProfile(Struct, frozen=True, kw_only=True, rename="camel"):
    """The files of gateways of one role. Absent settings have the values of `sync.defaults`."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (VARIABLE_NAMES,)

    mappings: Annotated[
        list[SyncMapping],
        Meta(
            min_length=1,
            max_length=MAX_MAPPINGS,
            description="The files and folders, in order. A later mapping replaces files of an earlier mapping.",
        ),
    ]
    exclude_patterns: Annotated[list[ExcludePattern], _EXCLUDES] = field(default_factory=list)
    vars: Variables = field(default_factory=dict)
    sync_period: Annotated[
        Annotated[int, Meta(ge=5, le=3600)] | None,
        Meta(description=_SYNC_PERIOD),
    ] = None
    designer_session_policy: Annotated[
        DesignerSessionPolicy | None, Meta(description="The policy for open designer sessions.")
    ] = None
    dry_run: Annotated[bool | None, Meta(description=_DRY_RUN)] = None
    paused: Annotated[bool | None, Meta(description=_PAUSED)] = None


class SyncFiles(Struct, frozen=True, kw_only=True, rename="camel"):
    """The files of each role of gateways."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "!has(self.profiles) || self.profiles.all(name, name.matches('^[a-z0-9]+(-+[a-z0-9]+)*$'))",
            'write the names of profiles in lowercase letters, digits and "-", such as site',
            ".profiles",
        ),
    )

    defaults: Annotated[SyncDefaults, Meta(description="The settings of all profiles.")] = field(
        default_factory=SyncDefaults
    )
    profiles: Annotated[
        dict[Annotated[str, Meta(max_length=63)], SyncProfile],
        Meta(
            max_length=MAX_PROFILES,
            description="The profiles, by name. The annotation `ignition-sync.io/profile` of a pod selects its profile."
            " Without the annotation, the profile is `default`.",
        ),
    ] = field(default_factory=dict)


class ExternalResources(Struct, frozen=True, kw_only=True, rename="camel"):
    """Resources of `config/resources/external`."""

    enabled: Annotated[bool, Meta(description="If true, all gateways receive these files.")] = False
    source: Annotated[MappedPath | None, Meta(description="The folder in the repository.")] = None
    create_fallback: Annotated[
        bool,
        Meta(
            description="If true, a missing folder is reported as unsupported: the operator does not create"
            " `config-mode.json`."
        ),
    ] = False


class SharedScripts(Struct, frozen=True, kw_only=True, rename="camel"):
    """Scripts that are added to the project of each gateway."""

    enabled: Annotated[bool, Meta(description="If true, all gateways receive these files.")] = False
    source: Annotated[MappedPath | None, Meta(description="The folder in the repository.")] = None
    dest_path: Annotated[
        MappedPath | None,
        Meta(
            description="The folder within the project, such as `ignition/script-python/exchange`. The project has the"
            " last name of the pod's annotation `service-path`."
        ),
    ] = None


class SharedUDTs(Struct, frozen=True, kw_only=True, rename="camel"):
    """Definitions of tag types."""

    enabled: Annotated[bool, Meta(description="If true, all gateways receive these files.")] = False
    source: Annotated[
        MappedPath | None,
        Meta(
            description="The folder in the repository. It goes to `ignition/tag-type-definition/PROVIDER`, where the"
            " pod's annotation `tag-provider` is the provider."
        ),
    ] = None


def _needs_source(*names: str) -> tuple[ValidationRule, ...]:
    return tuple(
        ValidationRule(
            f"!has(self.{name}) || !self.{name}.enabled || has(self.{name}.source)",
            f"{name} with enabled: true needs a folder: write source, or enabled: false",
            f".{name}",
        )
        for name in names
    )


class SharedFiles(Struct, frozen=True, kw_only=True, rename="camel"):
    """Folders of the repository that all gateways receive."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        *_needs_source("externalResources", "scripts", "udts"),
        ValidationRule(
            "!has(self.scripts) || !self.scripts.enabled || has(self.scripts.destPath)",
            "scripts with enabled: true need a folder within the project: write destPath, such as"
            " ignition/script-python/shared",
            ".scripts",
        ),
    )

    external_resources: Annotated[
        ExternalResources | None, Meta(description="Resources of `config/resources/external`.")
    ] = None
    scripts: Annotated[SharedScripts | None, Meta(description="Scripts for the project of each gateway.")] = None
    udts: Annotated[SharedUDTs | None, Meta(description="Definitions of tag types.")] = None


class AdditionalFile(Struct, frozen=True, kw_only=True, rename="camel"):
    """One more file or folder that all gateways receive."""

    source: Annotated[
        MappedPath,
        Meta(description="The file or folder, relative to the root of the repository. It can be a template."),
    ]
    dest: Annotated[MappedPath, Meta(description="The place below the data folder. It can be a template.")]
    type: Annotated[MappingType, Meta(description="Whether the source is a file or a folder.")] = "file"


class FieldReplacement(Struct, frozen=True, kw_only=True, rename="camel"):
    """A value that is set in all JSON files that have the path."""

    json_path: Annotated[
        str, Meta(min_length=1, max_length=256, description="The path of the value, such as `.settings.name`.")
    ]
    value_template: Annotated[str, Meta(max_length=1024, description="The value, as a template.")]


class Normalize(Struct, frozen=True, kw_only=True, rename="camel"):
    """Values that differ between gateways. The other bytes of a file stay as they are."""

    system_name: Annotated[
        bool,
        Meta(
            description="If true, `systemName` is set to the name of the gateway, or to the pod's annotation"
            " `system-name` or `system-name-template`."
        ),
    ] = False
    fields: Annotated[
        list[FieldReplacement], Meta(max_length=20, description="More values, in all JSON files that have the path.")
    ] = field(default_factory=list)
