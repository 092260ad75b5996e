"""The build of a ConfigSync: files are decrypted, rendered as templates, and built into manifests."""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct, field

from syncline.api.connection import NameRef
from syncline.api.content import DataKey
from syncline.api.names import NamespaceName, ObjectName
from syncline.api.rules import ValidationRule, text
from syncline.api.source import RepositoryPath

BuildType = Literal["Auto", "Plain", "Kustomize", "Helm", "Jsonnet"]

Tree = Annotated[dict[str, Any], Meta(max_length=1000)]
"""An object of any shape, such as the values of a chart."""

ReleaseName = Annotated[
    str,
    text(
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        'write the name of a release: lowercase letters, digits and "-", such as web',
        max_length=53,
    ),
]


class ValuesRef(Struct, frozen=True, kw_only=True, rename="camel"):
    """Values in a ConfigMap or Secret in the namespace of the sync."""

    kind: Annotated[
        Literal["ConfigMap", "Secret"], Meta(description="The kind of the object that contains the values.")
    ] = "ConfigMap"
    name: Annotated[ObjectName, Meta(description="The name of the object.")]
    key: Annotated[DataKey, Meta(description="The key that contains the values, as YAML or JSON.")] = "values.yaml"
    optional: Annotated[
        bool, Meta(description="If true, a missing object or key is ignored. Else the sync waits for it.")
    ] = False


_VALUES_FROM = Meta(
    max_length=20,
    description="More values, from ConfigMaps and Secrets in the namespace of the sync. Later entries override"
    " earlier entries, and `values` overrides all entries.",
)


class Helm(Struct, frozen=True, kw_only=True, rename="camel"):
    """The options for a Helm chart."""

    release_name: Annotated[
        ReleaseName | None, Meta(description="The name of the release. Default: the name of the sync.")
    ] = None
    namespace: Annotated[
        NamespaceName | None,
        Meta(
            description="The namespace of the release, also for objects without a namespace. Default: the namespace of"
            " the environment, else of the sync."
        ),
    ] = None
    values: Annotated[Tree, Meta(description="Values that override the values of the chart.")] = field(
        default_factory=dict
    )
    values_from: Annotated[list[ValuesRef], _VALUES_FROM] = field(default_factory=list)
    include_crds: Annotated[bool, Meta(description="Apply the manifests in the `crds` folder of the chart too.")] = (
        field(default=True, name="includeCRDs")
    )


class Jsonnet(Struct, frozen=True, kw_only=True, rename="camel"):
    """The options for jsonnet."""

    entry: Annotated[RepositoryPath, Meta(description="The file to evaluate, relative to `path`.")] = "main.jsonnet"
    tlas: Annotated[Tree, Meta(description="Top-level arguments. Each value has its JSON type.")] = field(
        default_factory=dict
    )
    ext_vars: Annotated[
        Tree, Meta(description="The external variables for `std.extVar`. Each value has its JSON type.")
    ] = field(default_factory=dict)
    library_paths: Annotated[
        list[RepositoryPath],
        Meta(max_length=20, description="Folders with libraries for imports, relative to the root of the source."),
    ] = field(default_factory=list)


class Build(Struct, frozen=True, kw_only=True, rename="camel"):
    """The tool that builds manifests from the files."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "!has(self.helm) || self.type in ['Auto', 'Helm']",
            "helm needs type: Helm or Auto: write one of them, or remove helm",
            ".helm",
        ),
        ValidationRule(
            "!has(self.jsonnet) || self.type in ['Auto', 'Jsonnet']",
            "jsonnet needs type: Jsonnet or Auto: write one of them, or remove jsonnet",
            ".jsonnet",
        ),
        ValidationRule(
            "!has(self.helm) || !has(self.jsonnet)",
            "a build has exactly one type: remove helm or jsonnet",
        ),
    )

    type: Annotated[
        BuildType,
        Meta(
            description="The tool. Auto: Kustomize if the folder has a kustomization file, Helm if it has a"
            " `Chart.yaml`, Jsonnet if it has the jsonnet entry file, else Plain."
        ),
    ] = "Auto"
    helm: Annotated[Helm | None, Meta(description="The options for type Helm.")] = None
    jsonnet: Annotated[Jsonnet | None, Meta(description="The options for type Jsonnet.")] = None


class Template(Struct, frozen=True, kw_only=True, rename="camel"):
    """Jinja templates. The operator renders the text of files before the build. A name without a value is an error."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "self.enabled || !has(self.values) && self.?valuesFrom.orValue([]).size() == 0",
            "values and valuesFrom are not used without enabled: true: write enabled: true, or remove them",
            ".enabled",
        ),
    )

    enabled: Annotated[
        bool, Meta(description="If true, files are templates, except encrypted files and files in charts.")
    ] = False
    values: Annotated[Tree, Meta(description="The values for the templates.")] = field(default_factory=dict)
    values_from: Annotated[list[ValuesRef], _VALUES_FROM] = field(default_factory=list)


class Decryption(Struct, frozen=True, kw_only=True, rename="camel"):
    """The decryption of files."""

    provider: Annotated[Literal["SOPS"], Meta(description="The tool that encrypted the files.")] = "SOPS"
    secret_ref: Annotated[
        NameRef,
        Meta(
            description="The Secret with the keys, in the namespace of the sync: age keys in `*.agekey`, PGP keys in"
            " `*.asc`, credentials of a key service in the key with its name."
        ),
    ]
