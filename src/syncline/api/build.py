"""How the files of a ConfigSync become manifests: decrypted, templated, built."""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct, field

from syncline.api.connection import NameRef
from syncline.api.content import DataKey
from syncline.api.names import NamespaceName, ObjectName
from syncline.api.rules import Rule, text
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
    """Values in a ConfigMap or Secret of the sync's namespace."""

    kind: Annotated[Literal["ConfigMap", "Secret"], Meta(description="What holds the values.")] = "ConfigMap"
    name: Annotated[ObjectName, Meta(description="Its name.")]
    key: Annotated[DataKey, Meta(description="The key with the values, as YAML or JSON.")] = "values.yaml"
    optional: Annotated[bool, Meta(description="Go on without it where it is absent; else the sync waits for it.")] = (
        False
    )


_VALUES_FROM = Meta(
    max_length=20,
    description="More values, from ConfigMaps and Secrets of the sync's namespace; later ones win, `values` wins over"
    " all.",
)


class Helm(Struct, frozen=True, kw_only=True, rename="camel"):
    """How a chart of the repository is rendered."""

    release_name: Annotated[ReleaseName | None, Meta(description="The release; default: the sync's name.")] = None
    namespace: Annotated[
        NamespaceName | None,
        Meta(
            description="What the chart is told its namespace is; default: the environment's, else the sync's. Objects"
            " that name no namespace go there."
        ),
    ] = None
    values: Annotated[Tree, Meta(description="Values over those of the chart.")] = field(default_factory=dict)
    values_from: Annotated[list[ValuesRef], _VALUES_FROM] = field(default_factory=list)
    include_crds: Annotated[bool, Meta(description="Apply what is in the chart's `crds` folder too.")] = field(
        default=True, name="includeCRDs"
    )


class Jsonnet(Struct, frozen=True, kw_only=True, rename="camel"):
    """How jsonnet is evaluated."""

    entry: Annotated[RepositoryPath, Meta(description="The file to evaluate, relative to `path`.")] = "main.jsonnet"
    tlas: Annotated[
        Tree, Meta(description="Top-level arguments; strings are strings, all else is what it is in JSON.")
    ] = field(default_factory=dict)
    ext_vars: Annotated[Tree, Meta(description="What `std.extVar` answers; values as in `tlas`.")] = field(
        default_factory=dict
    )
    library_paths: Annotated[
        list[RepositoryPath],
        Meta(max_length=20, description="Folders, from the root of the source, that imports are looked for in."),
    ] = field(default_factory=list)


class Build(Struct, frozen=True, kw_only=True, rename="camel"):
    """What makes manifests of the files."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.helm) || self.type in ['Auto', 'Helm']",
            "helm is for charts: write type: Helm or Auto, or leave helm out",
            ".helm",
        ),
        Rule(
            "!has(self.jsonnet) || self.type in ['Auto', 'Jsonnet']",
            "jsonnet is for jsonnet files: write type: Jsonnet or Auto, or leave jsonnet out",
            ".jsonnet",
        ),
        Rule(
            "!has(self.helm) || !has(self.jsonnet)",
            "one build is of one kind: write helm or jsonnet, not both",
        ),
    )

    type: Annotated[
        BuildType,
        Meta(
            description="Auto: Kustomize where the folder has a kustomization file, Helm where it has a `Chart.yaml`,"
            " Jsonnet where it has the jsonnet entry, else Plain."
        ),
    ] = "Auto"
    helm: Annotated[Helm | None, Meta(description="For charts.")] = None
    jsonnet: Annotated[Jsonnet | None, Meta(description="For jsonnet.")] = None


class Template(Struct, frozen=True, kw_only=True, rename="camel"):
    """Jinja over the text of files, before it is read; strict: a name that has no value is an error."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.enabled || !has(self.values) && self.?valuesFrom.orValue([]).size() == 0",
            "the values would not be used: write enabled: true, or leave them out",
            ".enabled",
        ),
    )

    enabled: Annotated[
        bool, Meta(description="Whether files are templates. Encrypted files and the inside of charts never are.")
    ] = False
    values: Annotated[Tree, Meta(description="What templates can name.")] = field(default_factory=dict)
    values_from: Annotated[list[ValuesRef], _VALUES_FROM] = field(default_factory=list)


class Decryption(Struct, frozen=True, kw_only=True, rename="camel"):
    """How encrypted files are read."""

    provider: Annotated[Literal["SOPS"], Meta(description="What they were encrypted with.")] = "SOPS"
    secret_ref: Annotated[
        NameRef,
        Meta(
            description="A Secret of the sync's namespace with the keys: age keys under `*.agekey`, PGP keys under"
            " `*.asc`, credentials of a key service under its name."
        ),
    ]
