"""ConfigSync: what Git says, in this cluster or in others."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field

from syncline.api.build import Build, Decryption, Template, Tree
from syncline.api.common import API_VERSION, HistoryEntry, ObjectMeta, Timestamp
from syncline.api.connection import AUTHORITIES, OWN_NAMES, NamedCluster
from syncline.api.content import DataKey
from syncline.api.duration import Duration
from syncline.api.names import NAMESPACE, AnyName, NamespaceName, NamespacePattern, ObjectName
from syncline.api.policies import SyncSpec
from syncline.api.rules import Role, Rule, text
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
        "write a group, such as apps; leave it out for any",
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


class Target(Struct, frozen=True, kw_only=True, rename="camel"):
    """One object that may be written."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.key) || self.type.lowerAscii() in ['configmap', 'secret']",
            "key is for a ConfigMap or Secret that takes a file: leave it out, or write type: ConfigMap or Secret",
            ".key",
        ),
    )

    type: Annotated[
        TargetKind,
        Meta(description="The kind, such as `ConfigMap` or `Deployment.apps`; capitals do not matter."),
    ]
    name: Annotated[AnyName, Meta(description="The name.")]
    namespace: Annotated[
        NamespaceName | None,
        Meta(description="The namespace; default: the one that the manifest names, else the sync's."),
    ] = None
    key: Annotated[
        DataKey | None,
        Meta(
            description="For a ConfigMap or Secret that takes a file that is no manifest: the key; default: the file's"
            " name."
        ),
    ] = None
    overrides: Annotated[Tree, Meta(description="A JSON merge patch over the manifest.")] = field(default_factory=dict)
    values: Annotated[
        Tree, Meta(description="Values of templates for this target; they win over those of the environment.")
    ] = field(default_factory=dict)


class Rollback(Struct, frozen=True, kw_only=True, rename="camel"):
    """A commit to stay at."""

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
            description="`Previous`: the commit before the one that is applied now, found once and kept in status; or a"
            " commit. It stays until this is removed."
        ),
    ]


class Environment(Struct, frozen=True, kw_only=True, rename="camel"):
    """The same sync once more: elsewhere, or at another revision. What it leaves out is as in the rest of the spec."""

    name: Annotated[EnvironmentName, Meta(description="What it is called.")]
    namespace: Annotated[
        NamespaceName | None, Meta(description="All its objects that are in a namespace are in this one.")
    ] = None
    path: Annotated[RepositoryPath | None, Meta(description="In place of `source.git.path`.")] = None
    revision: Annotated[
        Revision | None, Meta(description="In place of `source.git.revision`; to promote is to change it.")
    ] = None
    values: Annotated[
        Tree, Meta(description="Values of templates and charts; they win over those of the whole sync.")
    ] = field(default_factory=dict)
    rollback: Annotated[Rollback | None, Meta(description="A commit that this environment stays at.")] = None


class Dependency(Struct, frozen=True, kw_only=True, rename="camel"):
    """Another ConfigSync."""

    name: Annotated[ObjectName, Meta(description="Its name.")]
    namespace: Annotated[NamespaceName | None, Meta(description="Its namespace; default: the sync's.")] = None


class Ignored(Struct, frozen=True, kw_only=True, rename="camel"):
    """Fields that are left to others."""

    group: Annotated[ApiGroup, Meta(description="Of objects of this group; default: of any.")] = ""
    kind: Annotated[KindPattern | None, Meta(description="Of objects of this kind, or glob; default: of any.")] = None
    name: Annotated[NamePattern | None, Meta(description="Of objects of this name, or glob; default: of any.")] = None
    paths: Annotated[
        list[Pointer],
        Meta(
            min_length=1,
            max_length=50,
            description="JSON pointers, such as `/spec/replicas`; `*` stands for any item of a list. What they point at"
            " is neither written nor compared.",
        ),
    ]


class WebhookSecretRef(Struct, frozen=True, kw_only=True, rename="camel"):
    """A key of a Secret of the sync's namespace."""

    name: Annotated[ObjectName, Meta(description="The name of the Secret.")]
    key: Annotated[DataKey, Meta(description="The key.")] = "token"


class Webhook(Struct, frozen=True, kw_only=True, rename="camel"):
    """Who may say that there is something new."""

    secret_ref: Annotated[
        WebhookSecretRef, Meta(description="What the Git host signs its messages with, or sends as a token.")
    ]


class ConfigSyncSpec(SyncSpec, frozen=True, kw_only=True, rename="camel"):
    """What should be where."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.source) != (self.?sources.orValue([]).size() > 0)",
            "write exactly one of source (one) and sources (several, each in a folder of its name)",
        ),
        Rule(
            """
            !has(self.sources)
            || self.sources.all(one, self.sources.exists_one(other, other.name == one.name))
            """,
            "two sources have the same name: give each a name of its own",
            ".sources",
        ),
        Rule(
            """
            !has(self.environments)
            || self.environments.all(one, self.environments.exists_one(other, other.name == one.name))
            """,
            "two environments have the same name: give each a name of its own",
            ".environments",
        ),
        Rule(
            """
            has(self.source) && has(self.source.git)
            || !has(self.environments)
            || self.environments.all(one, !has(one.path) && !has(one.revision) && !has(one.rollback))
            """,
            "path, revision and rollback of an environment are of source.git: write that, or leave them out",
            ".environments",
        ),
        Rule(
            "!has(self.rollback) || self.?environments.orValue([]).size() == 0",
            "each environment has a rollback of its own: write environments[].rollback",
            ".rollback",
        ),
        Rule(
            "!has(self.rollback) || has(self.source) && has(self.source.git)",
            "a rollback is to a commit of source.git: of several sources, write the revision of each;"
            " else leave rollback out",
            ".rollback",
        ),
        Rule(
            "self.failurePolicy != 'Rollback' || self.wait",
            "failurePolicy: Rollback goes by the health of what was applied: write wait: true",
            ".failurePolicy",
        ),
        Rule(
            "self.failurePolicy != 'Rollback' || has(self.source) && has(self.source.git)",
            "failurePolicy: Rollback goes back to a commit of source.git: write that, or failurePolicy: Hold",
            ".failurePolicy",
        ),
        Rule(
            """
            duration(self.refreshInterval) > duration('0s')
            && duration(self.refreshInterval) <= duration('24h')
            """,
            "write a refreshInterval of at most 24h, such as 10m; suspend: true stops the sync",
            ".refreshInterval",
        ),
        Rule(
            "duration(self.timeout) >= duration('1s') && duration(self.timeout) <= duration('24h')",
            "write a timeout from 1s to 24h, such as 5m",
            ".timeout",
        ),
        OWN_NAMES,
        AUTHORITIES,
    )

    source: Annotated[Source | None, Meta(description="Where the files come from.")] = None
    sources: Annotated[
        list[NamedSource],
        Meta(max_length=10, description="Several sources, each in a folder of its name; `build` sees all of them."),
    ] = field(default_factory=list)
    build: Annotated[Build, Meta(description="What makes manifests of the files.")] = field(default_factory=Build)
    template: Annotated[Template, Meta(description="Whether files are templates; default: no.")] = field(
        default_factory=Template
    )
    decryption: Annotated[
        Decryption | None, Meta(description="How encrypted files are read; without it they are an error.")
    ] = None
    targets: Annotated[
        list[Target],
        Meta(
            max_length=100,
            description="Absent: the manifests go where they say. Present: only what is listed here is written; a"
            " manifest that matches is placed and overridden, others are reported. A file that is no manifest becomes"
            " data of a ConfigMap or Secret listed here.",
        ),
    ] = field(default_factory=list)
    environments: Annotated[
        list[Environment],
        Meta(
            max_length=20,
            description="The same sync for several environments, each with its own revision, history and rollback.",
        ),
    ] = field(default_factory=list)
    remote_clusters: Annotated[
        list[NamedCluster],
        Meta(max_length=50, description="Write to these clusters, and not to this one; at most 50 entries."),
    ] = field(default_factory=list)
    refresh_interval: Annotated[
        Duration, Meta(description="How often a repository is asked for news: once for all syncs that name it.")
    ] = "10m"
    wait: Annotated[bool, Meta(description="Ready waits until what was applied is healthy.")] = False
    timeout: Annotated[Duration, Meta(description="How long what was applied may take to become healthy.")] = "5m"
    depends_on: Annotated[
        list[Dependency],
        Meta(
            max_length=20,
            description="Other ConfigSyncs that must be ready before a new revision is applied; those of other"
            " namespaces must list this one in `dependentNamespaces`.",
        ),
    ] = field(default_factory=list)
    dependent_namespaces: Annotated[
        list[NamespacePattern],
        Meta(
            max_length=100,
            description="Namespaces whose ConfigSyncs may name this one in `dependsOn`, and so learn whether it is"
            " ready: names, or globs with `*` and `?`; default: only its own.",
        ),
    ] = field(default_factory=list)
    rollback: Annotated[Rollback | None, Meta(description="A commit to stay at, whatever Git says.")] = None
    failure_policy: Annotated[
        FailurePolicy,
        Meta(
            description="What becomes of a revision that is not healthy within `timeout`: Hold leaves it and reports,"
            " Rollback goes back to the last healthy one until there is a newer."
        ),
    ] = "Hold"
    ignore_differences: Annotated[
        list[Ignored], Meta(max_length=50, description="Fields that are left to others, such as an autoscaler.")
    ] = field(default_factory=list)
    drift_policy: Annotated[
        DriftPolicy, Meta(description="What becomes of an object that somebody changed: Correct or Report.")
    ] = "Correct"
    validation: Annotated[
        ValidationMode,
        Meta(
            description="How a revision is checked as a whole before its first write. Schema: each object against the"
            " OpenAPI schemas of its cluster. DryRun: the API server is asked in a dry run about each object that is"
            " new or changed. None: what can be applied is applied."
        ),
    ] = "Schema"
    dry_run: Annotated[bool, Meta(description="Write nothing: what would be written is in `status.plan`.")] = False
    webhook: Annotated[
        Webhook | None, Meta(description="Push webhooks to `/webhook/{namespace}/{name}` with a secret of this sync.")
    ] = None


class HeldRollback(Struct, frozen=True, kw_only=True, rename="camel"):
    """A rollback that is in force."""

    to: Annotated[Commit, Meta(description="The commit.")]
    requested: Annotated[str, Meta(max_length=64, description="What the spec asked for when the commit was found.")]
    since: Annotated[Timestamp, Meta(description="Since when.")]


class SourceRevision(Struct, frozen=True, kw_only=True, rename="camel"):
    """What one of several sources is at."""

    name: Annotated[str, Meta(max_length=63, description="The name of the source.")]
    revision: Annotated[Commit, Meta(description="The commit, or the resourceVersion of the object.")]


_KEPT = Role.INVENTORY.mark
_REVISION = Meta(description="The commit (of an object: the resourceVersion) that was applied.", extra=_KEPT)
_REVISIONS = Meta(max_length=10, description="Of several sources: what each is at.", extra=_KEPT)
_INPUTS = Meta(
    description="Digest of all that was built from; while it is the same, nothing is built or compared.", extra=_KEPT
)
_ROLLBACK = Meta(description="The rollback that is in force.", extra=_KEPT)
_HEALTHY = Meta(description="The last commit that became healthy.", extra=_KEPT)


class Track(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How one environment goes its way. A sync without environments has these fields in its status itself."""

    name: Annotated[str, Meta(max_length=63, description="The name of the environment.")]
    ready: Annotated[
        Literal["True", "False", "Unknown"], Meta(description="Whether it agrees with the source, as in Ready.")
    ] = "Unknown"
    message: Annotated[
        str, Meta(max_length=1024, description="Why, for a person, and what to do.", extra=Role.REPORT.mark)
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
    """What is so, as of `observedGeneration`."""

    last_synced_time: Annotated[Timestamp | None, Meta(description="When something was last written.")] = None
    applied_targets: Annotated[int, Meta(ge=0, description="Objects that agree with the source.")] = 0
    source_revision: Annotated[Commit | None, _REVISION] = None
    revisions: Annotated[list[SourceRevision], _REVISIONS] = field(default_factory=list)
    inputs: Annotated[Digest | None, _INPUTS] = None
    rollback: Annotated[HeldRollback | None, _ROLLBACK] = None
    last_healthy_revision: Annotated[Commit | None, _HEALTHY] = None
    environments: Annotated[
        list[Track],
        Meta(
            max_length=40,
            description="The environments of the spec, and those that left it while something of them is still there.",
            extra=_KEPT,
        ),
    ] = field(default_factory=list)
    plan: Annotated[
        list[Annotated[str, Meta(max_length=600)]],
        Meta(
            max_length=101,
            description="Under `dryRun`: what would be done, such as `create ConfigMap team-a/web`; at most 100 lines,"
            " and one that counts the rest.",
            extra=Role.REPORT.mark,
        ),
    ] = field(default_factory=list)


class ConfigSync(Struct, kw_only=True, rename="camel"):
    """Keeps clusters in agreement with what a Git repository says."""

    metadata: ObjectMeta
    spec: ConfigSyncSpec
    status: ConfigSyncStatus = field(default_factory=ConfigSyncStatus)
    api_version: str = API_VERSION
    kind: str = KIND
