"""IgnitionSync: files of a Git repository in the data folders of running gateways."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field

from syncline.api.common import API_VERSION, ObjectMeta
from syncline.api.configsync import DriftPolicy, Rollback
from syncline.api.ignition_agent import AgentOptions, SharedVolume
from syncline.api.ignition_apply import Apply, FileValidation, GatewayConnection, IgnitionOptions
from syncline.api.ignition_files import (
    DEFAULT_EXCLUDES,
    MAX_EXCLUDES,
    AdditionalFile,
    ExcludePattern,
    Normalize,
    SharedFiles,
    SyncFiles,
)
from syncline.api.ignition_git import IgnitionGit, RefPolling, RefWebhook
from syncline.api.ignition_rollout import Bidirectional, Deployment, Snapshots
from syncline.api.ignition_status import IgnitionSyncStatus
from syncline.api.names import ObjectName
from syncline.api.rules import ValidationRule

KIND = "IgnitionSync"
PLURAL = "ignitionsyncs"

ProtectedPath = Literal[
    ".uuid",
    ".ignition-seed-complete",
    "commissioning.json",
    "config/ignition/keys",
    "config/local",
    "config/resources/local",
    "db",
    "jar-cache",
    "metricsdb",
    "valueStore.idb",
    "var",
]
"""Files and folders that belong to a gateway: at these paths, `.uuid` and `valueStore.idb` in any folder."""


class IgnitionSyncSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """The repository, the files of each gateway, and how gateways take them up."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            """
            has(self.apply) && self.apply.type != 'Ignition'
            || has(self.gateway) && has(self.gateway.apiKeySecretRef)
            """,
            "Ignition gateways need an API key: write gateway.apiKeySecretRef; for other applications, write"
            " apply.type: None, HTTP or Signal",
            ".gateway",
        ),
        ValidationRule(
            """
            !has(self.sync) || self.sync.?profiles.orValue({}).size() == 0
            || !has(self.shared) && self.?additionalFiles.orValue([]).size() == 0
            """,
            "sync.profiles has the files of all gateways: move shared and additionalFiles to mappings of a profile",
            ".sync.profiles",
        ),
        ValidationRule(
            """
            !has(self.bidirectional) || !self.bidirectional.enabled || !self.bidirectional.createPR
            || has(self.git.auth) && (has(self.git.auth.token) || has(self.git.auth.githubApp))
            """,
            "a pull request needs git.auth.token or git.auth.githubApp: write one of them, or createPR: false",
            ".bidirectional.createPR",
        ),
        ValidationRule(
            """
            !has(self.bidirectional) || !has(self.bidirectional.targetBranch)
            || self.bidirectional.targetBranch != self.git.ref
            && 'refs/heads/' + self.bidirectional.targetBranch != self.git.ref
            """,
            "edits of gateways never go to the ref that gateways follow: write another targetBranch",
            ".bidirectional.targetBranch",
        ),
    )

    git: Annotated[IgnitionGit, Meta(description="The repository, and the ref that gateways follow.")]
    polling: Annotated[RefPolling, Meta(description="The regular check of the repository.")] = field(
        default_factory=RefPolling
    )
    webhook: Annotated[RefWebhook, Meta(description="Webhooks of Git hosts and delivery tools.")] = field(
        default_factory=RefWebhook
    )
    gateway: Annotated[GatewayConnection, Meta(description="The API of the gateway.")] = field(
        default_factory=GatewayConnection
    )
    sync: Annotated[SyncFiles, Meta(description="The files of each role of gateways.")] = field(
        default_factory=SyncFiles
    )
    site_number: Annotated[
        str, Meta(max_length=63, description="The variable `vars.siteNumber`, or `{{.SiteNumber}}`.")
    ] = ""
    shared: Annotated[
        SharedFiles | None,
        Meta(
            description="Without `sync.profiles`: folders that all gateways receive, in addition to the folder of the"
            " pod's annotation `service-path`."
        ),
    ] = None
    additional_files: Annotated[
        list[AdditionalFile],
        Meta(max_length=50, description="Without `sync.profiles`: more files and folders for all gateways."),
    ] = field(default_factory=list)
    exclude_patterns: Annotated[
        list[ExcludePattern],
        Meta(
            max_length=MAX_EXCLUDES,
            description="Globs of files that are left out, relative to the data folder. A glob without a slash matches"
            " in any folder. `.resources` is always left out. Default: `**/.git/`, `**/.gitkeep` and"
            " `**/.resources/**`.",
            extra_json_schema={"default": list(DEFAULT_EXCLUDES)},
        ),
    ] = field(default_factory=lambda: list(DEFAULT_EXCLUDES))
    unprotected: Annotated[
        list[ProtectedPath],
        Meta(
            max_length=20,
            description="Files of the gateway that the repository can replace. Without this list, they are never"
            " written, deleted or sent to Git.",
            extra_json_schema={"x-kubernetes-list-type": "set"},
        ),
    ] = field(default_factory=list)
    normalize: Annotated[Normalize, Meta(description="Values that differ between gateways.")] = field(
        default_factory=Normalize
    )
    validation: Annotated[FileValidation, Meta(description="Checks before files are published.")] = field(
        default_factory=FileValidation
    )
    apply: Annotated[Apply, Meta(description="How the application takes up files.")] = field(default_factory=Apply)
    ignition: Annotated[IgnitionOptions, Meta(description="The behaviour towards Ignition gateways.")] = field(
        default_factory=IgnitionOptions
    )
    drift_policy: Annotated[
        DriftPolicy,
        Meta(
            description="Decides what happens with files that somebody changed on a gateway. Correct restores them."
            " Report keeps them and reports them."
        ),
    ] = "Correct"
    deployment: Annotated[
        Deployment | None, Meta(description="The order in which gateways receive a commit. Default: all at once.")
    ] = None
    rollback: Annotated[
        Rollback | None, Meta(description="The commit that all gateways stay at, regardless of new commits.")
    ] = None
    snapshots: Annotated[Snapshots | None, Meta(description="Copies of the files that a publish replaces.")] = None
    bidirectional: Annotated[
        Bidirectional | None, Meta(description="Edits on gateways, sent to a branch of the repository.")
    ] = None
    storage: Annotated[
        SharedVolume | None,
        Meta(
            description="A volume with the files. Reported as unsupported if set: agents get files from the operator."
        ),
    ] = None
    agent: Annotated[AgentOptions, Meta(description="The container of the agent in new pods.")] = field(
        default_factory=AgentOptions
    )
    paused: Annotated[bool, Meta(description="The same as `suspend`.")] = False
    suspend: Annotated[
        bool, Meta(description="If true, gateways keep their files, and the operator does not check the repository.")
    ] = False
    service_account_name: Annotated[
        ObjectName | None,
        Meta(
            description="The service account, in the namespace of the sync, that the operator reads Secrets as. Absent:"
            " the operator uses its own rights, and the author of the sync must be allowed to get the Secrets."
        ),
    ] = None


def is_paused(spec: IgnitionSyncSpec) -> bool:
    """Whether gateways keep their files. Pure."""
    return spec.paused or spec.suspend


class IgnitionSync(Struct, kw_only=True, rename="camel"):
    """Brings files of a Git repository into the data folders of running gateways."""

    metadata: ObjectMeta
    spec: IgnitionSyncSpec
    status: IgnitionSyncStatus = field(default_factory=IgnitionSyncStatus)
    api_version: str = API_VERSION
    kind: str = KIND
