"""ConfigSync: the manifests of a Git repository, applied to this cluster or to other clusters."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field

from syncline.api.build import Build, Decryption, Template, Tree
from syncline.api.common import API_VERSION, HistoryEntry, ObjectMeta, Timestamp
from syncline.api.connection import AUTHORITIES, OWN_NAMES, NamedCluster
from syncline.api.content import DataKey
from syncline.api.duration import Duration
from syncline.api.names import NAMESPACE, AnyName, NamespaceName, NamespacePattern, ObjectName
from syncline.api.policies import SyncSpec
from syncline.api.rules import Role, ValidationRule, text
from syncline.api.source import NamedSource, RepositoryPath, Revision, Source
from syncline.api.status import RemoteSyncStatus

KIND = "ConfigSync"
PLURAL = "configsyncs"

PREVIOUS = "Previous"

FailurePolicy = Literal["Hold", "Rollback"]
DriftPolicy = Literal["Correct", "Report"]
ValidationMode = Literal["Schema", "DryRun", "None"]

EnvironmentName = Annotated[
    str,
    text(
        NAMESPACE,
        'write the name of an environment: lowercase letters, digits and "-", such as prod',
        max_length=63,
    ),
]
TargetKind = Annotated[
    str,
    text(
        r"^[a-zA-Z][a-zA-Z0-9]*(\.[a-z0-9][-a-z0-9.]*[a-z0-9])?$",
        "write a kind, such as ConfigMap, or a kind and its group, such as Deployment.apps",
        max_length=317,
    ),
]
KindPattern = Annotated[
    str,
    text(
        r"^[a-zA-Z0-9*?]+$",
        'write a kind or a glob of kinds: letters, digits, "*" and "?", such as Deployment',
        max_length=63,
    ),
]
NamePattern = Annotated[
    str,
    text(
        r"^[-._:@a-zA-Z0-9*?]+$",
        'write a name or a glob of names: letters, digits, "-", "_", ".", ":", "@", "*" and "?", such as web-*',
        max_length=253,
    ),
]
ApiGroup = Annotated[
    str,
    text(
        r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$",
        "write an API group, such as apps, or remove group for all groups",
        min_length=0,
        max_length=253,
    ),
]
Pointer = Annotated[
    str,
    text(
        r"^(/[^/]+)+$",
        'write a JSON pointer, such as /spec/replicas; "*" stands for any item of a list',
        max_length=512,
    ),
]
Commit = Annotated[str, Meta(max_length=256)]
Digest = Annotated[str, Meta(max_length=128)]


class ConfigSyncTarget(Struct, frozen=True, kw_only=True, rename="camel"):
    """One object that the sync can write."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "!has(self.key) || self.type.lowerAscii() in ['configmap', 'secret']",
            "key needs type: ConfigMap or Secret: write one of them, or remove key",
            ".key",
        ),
    )

    type: Annotated[
        TargetKind,
        Meta(description="The kind of the object, such as `ConfigMap` or `Deployment.apps`. Case is ignored."),
    ]
    name: Annotated[AnyName, Meta(description="The name of the object.")]
    namespace: Annotated[
        NamespaceName | None,
        Meta(
            description="The namespace of the object. Default: the namespace in the manifest, else the namespace of"
            " the sync."
        ),
    ] = None
    key: Annotated[
        DataKey | None,
        Meta(
            description="The key for a file that is not a manifest, in a ConfigMap or Secret. Default: the name of the"
            " file."
        ),
    ] = None
    overrides: Annotated[Tree, Meta(description="A JSON merge patch for the manifest.")] = field(default_factory=dict)
    values: Annotated[
        Tree, Meta(description="Values for the templates of this target. They override the values of the environment.")
    ] = field(default_factory=dict)


class Rollback(Struct, frozen=True, kw_only=True, rename="camel"):
    """A commit that the sync stays at."""

    to: Annotated[
        Annotated[
            str,
            text(
                rf"^({PREVIOUS}|[0-9a-f]{{7,64}})$",
                "write Previous, or a commit in 7 to 64 hexadecimal digits, as in status.history",
                max_length=64,
            ),
        ],
        Meta(
            description="`Previous`, or a commit. `Previous` is the commit that was applied before the current commit."
            " The operator resolves it once and records it in the status. The sync stays at the commit until this"
            " field is removed."
        ),
    ]


class Environment(Struct, frozen=True, kw_only=True, rename="camel"):
    """A variant of the sync, in another namespace or at another revision. Absent fields have the values of the spec."""

    name: Annotated[EnvironmentName, Meta(description="The name of the environment.")]
    namespace: Annotated[
        NamespaceName | None, Meta(description="The namespace of all namespaced objects of this environment.")
    ] = None
    path: Annotated[
        RepositoryPath | None, Meta(description="The path in the repository, instead of `source.git.path`.")
    ] = None
    revision: Annotated[
        Revision | None,
        Meta(description="The revision, instead of `source.git.revision`. `syncline promote` changes it."),
    ] = None
    values: Annotated[
        Tree, Meta(description="Values for templates and charts. They override the values of the sync.")
    ] = field(default_factory=dict)
    rollback: Annotated[Rollback | None, Meta(description="The commit that this environment stays at.")] = None


class Dependency(Struct, frozen=True, kw_only=True, rename="camel"):
    """A reference to another ConfigSync."""

    name: Annotated[ObjectName, Meta(description="The name of the ConfigSync.")]
    namespace: Annotated[
        NamespaceName | None, Meta(description="The namespace of the ConfigSync. Default: the namespace of this sync.")
    ] = None


class Ignored(Struct, frozen=True, kw_only=True, rename="camel"):
    """Fields that the sync neither writes nor compares."""

    group: Annotated[ApiGroup, Meta(description="The API group of the objects. Default: all groups.")] = ""
    kind: Annotated[KindPattern | None, Meta(description="The kind of the objects, or a glob. Default: all kinds.")] = (
        None
    )
    name: Annotated[NamePattern | None, Meta(description="The name of the objects, or a glob. Default: all names.")] = (
        None
    )
    paths: Annotated[
        list[Pointer],
        Meta(
            min_length=1,
            max_length=50,
            description="JSON pointers to fields that the sync neither writes nor compares, such as `/spec/replicas`."
            " `*` matches every item of a list.",
        ),
    ]


class WebhookSecretRef(Struct, frozen=True, kw_only=True, rename="camel"):
    """A key of a Secret in the namespace of the sync."""

    name: Annotated[ObjectName, Meta(description="The name of the Secret.")]
    key: Annotated[DataKey, Meta(description="The key in the Secret.")] = "token"


class Webhook(Struct, frozen=True, kw_only=True, rename="camel"):
    """The authentication of push webhooks."""

    secret_ref: Annotated[
        WebhookSecretRef, Meta(description="The secret that the Git host signs its webhooks with, or sends as a token.")
    ]


class ConfigSyncSpec(SyncSpec, frozen=True, kw_only=True, rename="camel"):
    """The source, the build, the targets and the policies of a ConfigSync."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "has(self.source) != (self.?sources.orValue([]).size() > 0)",
            "write exactly one of source (one source) and sources (several, each in a folder with its name)",
        ),
        ValidationRule(
            """
            !has(self.sources)
            || self.sources.all(one, self.sources.exists_one(other, other.name == one.name))
            """,
            "two sources have the same name: write a different name for each",
            ".sources",
        ),
        ValidationRule(
            """
            !has(self.environments)
            || self.environments.all(one, self.environments.exists_one(other, other.name == one.name))
            """,
            "two environments have the same name: write a different name for each",
            ".environments",
        ),
        ValidationRule(
            """
            has(self.source) && has(self.source.git)
            || !has(self.environments)
            || self.environments.all(one, !has(one.path) && !has(one.revision) && !has(one.rollback))
            """,
            "path, revision and rollback of an environment need source.git: write source.git, or remove them",
            ".environments",
        ),
        ValidationRule(
            "!has(self.rollback) || self.?environments.orValue([]).size() == 0",
            "each environment has its own rollback: write environments[].rollback, and remove rollback",
            ".rollback",
        ),
        ValidationRule(
            "!has(self.rollback) || has(self.source) && has(self.source.git)",
            "rollback needs source.git: remove rollback; with several sources, write the revision of each source"
            " instead",
            ".rollback",
        ),
        ValidationRule(
            "self.failurePolicy != 'Rollback' || self.wait",
            "failurePolicy: Rollback needs the health of the applied objects: write wait: true",
            ".failurePolicy",
        ),
        ValidationRule(
            "self.failurePolicy != 'Rollback' || has(self.source) && has(self.source.git)",
            "failurePolicy: Rollback needs source.git: write source.git, or failurePolicy: Hold",
            ".failurePolicy",
        ),
        ValidationRule(
            """
            duration(self.refreshInterval) > duration('0s')
            && duration(self.refreshInterval) <= duration('24h')
            """,
            "write a refreshInterval of at most 24h, such as 10m; suspend: true stops the sync",
            ".refreshInterval",
        ),
        ValidationRule(
            "duration(self.timeout) >= duration('1s') && duration(self.timeout) <= duration('24h')",
            "write a timeout from 1s to 24h, such as 5m",
            ".timeout",
        ),
        OWN_NAMES,
        AUTHORITIES,
    )

    source: Annotated[Source | None, Meta(description="The source of the files.")] = None
    sources: Annotated[
        list[NamedSource],
        Meta(
            max_length=10,
            description="Several sources. The files of each source are in a folder with its name, and the build can"
            " read all folders.",
        ),
    ] = field(default_factory=list)
    build: Annotated[
        Build, Meta(description="The tool that builds manifests from the files. Default: chosen by the files.")
    ] = field(default_factory=Build)
    template: Annotated[Template, Meta(description="Jinja templates in the files. Default: off.")] = field(
        default_factory=Template
    )
    decryption: Annotated[
        Decryption | None, Meta(description="The decryption of files. Without it, an encrypted file is an error.")
    ] = None
    targets: Annotated[
        list[ConfigSyncTarget],
        Meta(
            max_length=100,
            description="The objects that the sync can write. Absent: all objects in the manifests. Present: only"
            " these objects. The namespace and the overrides of a target are applied to its manifest, and manifests"
            " without a target are reported. The operator writes a file that is not a manifest into a ConfigMap or"
            " Secret of this list.",
        ),
    ] = field(default_factory=list)
    environments: Annotated[
        list[Environment],
        Meta(
            max_length=20,
            description="Variants of this sync, each with its own namespace, revision, history and rollback.",
        ),
    ] = field(default_factory=list)
    remote_clusters: Annotated[
        list[NamedCluster],
        Meta(max_length=50, description="The clusters to write to, instead of this cluster. At most 50 entries."),
    ] = field(default_factory=list)
    refresh_interval: Annotated[
        Duration,
        Meta(description="The time between two checks of the repository. All syncs of the repository share one check."),
    ] = "10m"
    wait: Annotated[bool, Meta(description="If true, Ready waits until all applied objects are healthy.")] = False
    timeout: Annotated[Duration, Meta(description="The time in which all applied objects must become healthy.")] = "5m"
    depends_on: Annotated[
        list[Dependency],
        Meta(
            max_length=20,
            description="Other ConfigSyncs that must be Ready before the operator applies a new revision. A"
            " ConfigSync in another namespace must list the namespace of this sync in `dependentNamespaces`.",
        ),
    ] = field(default_factory=list)
    dependent_namespaces: Annotated[
        list[NamespacePattern],
        Meta(
            max_length=100,
            description="The namespaces whose ConfigSyncs can name this sync in `dependsOn`, and can therefore see"
            " whether it is Ready: names, or globs with `*` and `?`. Default: only the namespace of this sync.",
        ),
    ] = field(default_factory=list)
    rollback: Annotated[
        Rollback | None, Meta(description="The commit that this sync stays at, regardless of new commits.")
    ] = None
    failure_policy: Annotated[
        FailurePolicy,
        Meta(
            description="Decides what happens with a revision that is not healthy within `timeout`. Hold keeps the"
            " revision and reports it. Rollback applies the last healthy revision until a newer revision exists."
        ),
    ] = "Hold"
    ignore_differences: Annotated[
        list[Ignored],
        Meta(
            max_length=50,
            description="Fields that the sync neither writes nor compares, because another controller owns them, such"
            " as an autoscaler.",
        ),
    ] = field(default_factory=list)
    drift_policy: Annotated[
        DriftPolicy,
        Meta(description="Decides what happens with drift. Correct reverts it. Report keeps it and reports it."),
    ] = "Correct"
    validation: Annotated[
        ValidationMode,
        Meta(
            description="The validation of a whole revision before its first write. Schema: the operator validates"
            " each object with the OpenAPI schemas of its cluster. DryRun: the API server validates each new or"
            " changed object with a dry run. None: the operator applies every object that the API server accepts."
        ),
    ] = "Schema"
    dry_run: Annotated[
        bool, Meta(description="If true, the operator writes no objects. `status.plan` lists the planned changes.")
    ] = False
    webhook: Annotated[
        Webhook | None,
        Meta(description="The authentication of push webhooks to `/webhook/{namespace}/{name}` for this sync."),
    ] = None


class HeldRollback(Struct, frozen=True, kw_only=True, rename="camel"):
    """An active rollback."""

    to: Annotated[Commit, Meta(description="The commit that the sync stays at.")]
    requested: Annotated[
        str, Meta(max_length=64, description="The value in the spec when the operator resolved the commit.")
    ]
    since: Annotated[Timestamp, Meta(description="The time when the rollback started.")]


class SourceRevision(Struct, frozen=True, kw_only=True, rename="camel"):
    """The revision of one of several sources."""

    name: Annotated[str, Meta(max_length=63, description="The name of the source.")]
    revision: Annotated[Commit, Meta(description="The commit of a repository, or the resourceVersion of an object.")]


_KEPT = Role.INVENTORY.mark
_REVISION = Meta(
    description="The applied revision: the commit of a repository, or the resourceVersion of an object.", extra=_KEPT
)
_REVISIONS = Meta(
    max_length=10, description="The applied revision of each source, if there are several sources.", extra=_KEPT
)
_INPUTS = Meta(
    description="A digest of all inputs of the last build. If it does not change, the operator does not build again.",
    extra=_KEPT,
)
_ROLLBACK = Meta(description="The active rollback.", extra=_KEPT)
_HEALTHY = Meta(description="The last commit whose objects became healthy.", extra=_KEPT)


class EnvironmentStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The status of one environment. A sync without environments has these fields in its own status."""

    name: Annotated[str, Meta(max_length=63, description="The name of the environment.")]
    ready: Annotated[
        Literal["True", "False", "Unknown"],
        Meta(description="Whether the environment is Ready, with the same meaning as the condition."),
    ] = "Unknown"
    message: Annotated[
        str, Meta(max_length=1024, description="The cause and the remedy, for people.", extra=Role.REPORT.mark)
    ] = ""
    source_revision: Annotated[Commit | None, _REVISION] = None
    revisions: Annotated[list[SourceRevision], _REVISIONS] = field(default_factory=list)
    inputs: Annotated[Digest | None, _INPUTS] = None
    rollback: Annotated[HeldRollback | None, _ROLLBACK] = None
    last_healthy_revision: Annotated[Commit | None, _HEALTHY] = None
    history: Annotated[
        list[HistoryEntry],
        Meta(
            max_length=10,
            description="The last changes and failures, newest first, at most 10.",
            extra=Role.MEMORY.mark,
        ),
    ] = field(default_factory=list)


class ConfigSyncStatus(RemoteSyncStatus, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The observed state of the sync."""

    last_synced_time: Annotated[Timestamp | None, Meta(description="The time of the last write.")] = None
    applied_targets: Annotated[int, Meta(ge=0, description="The number of objects that equal the source.")] = 0
    source_revision: Annotated[Commit | None, _REVISION] = None
    revisions: Annotated[list[SourceRevision], _REVISIONS] = field(default_factory=list)
    inputs: Annotated[Digest | None, _INPUTS] = None
    rollback: Annotated[HeldRollback | None, _ROLLBACK] = None
    last_healthy_revision: Annotated[Commit | None, _HEALTHY] = None
    environments: Annotated[
        list[EnvironmentStatus],
        Meta(
            max_length=40,
            description="The environments of the spec, and removed environments that still have objects.",
            extra=_KEPT,
        ),
    ] = field(default_factory=list)
    plan: Annotated[
        list[Annotated[str, Meta(max_length=600)]],
        Meta(
            max_length=101,
            description="The planned changes under `dryRun`, such as `create ConfigMap team-a/web`: at most 100"
            " lines, and one line with the number of all others.",
            extra=Role.REPORT.mark,
        ),
    ] = field(default_factory=list)


class ConfigSync(Struct, kw_only=True, rename="camel"):
    """Applies the manifests of a Git repository, and keeps the objects equal to them."""

    metadata: ObjectMeta
    spec: ConfigSyncSpec
    status: ConfigSyncStatus = field(default_factory=ConfigSyncStatus)
    api_version: str = API_VERSION
    kind: str = KIND
