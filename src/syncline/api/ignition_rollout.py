"""Rollouts to gateways: snapshots before a publish, the order of gateways, and edits that go back to Git."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field

from syncline.api.common import LabelValue
from syncline.api.duration import Duration
from syncline.api.ignition_apply import WebAddress
from syncline.api.ignition_files import ExcludePattern
from syncline.api.ignition_git import SecretKeySelector
from syncline.api.names import NAMESPACE
from syncline.api.quantity import Quantity
from syncline.api.rules import ValidationRule, text

ConflictChoice = Literal["gitWins", "gatewayWins", "manual"]
RollbackTrigger = Literal["scanFailure", "verifyFailure", "timeout"]
DeploymentStrategy = Literal["all-at-once", "canary"]


class SnapshotBucket(Struct, frozen=True, kw_only=True, rename="camel"):
    """A bucket for snapshots."""

    bucket: Annotated[str, Meta(max_length=63, description="The name of the bucket.")] = ""
    key_prefix: Annotated[str, Meta(max_length=512, description="The beginning of the keys.")] = ""
    endpoint: Annotated[WebAddress | None, Meta(description="The address of the service. Default: that of AWS.")] = None
    region: Annotated[str, Meta(max_length=63, description="The region of the bucket.")] = ""
    access_key_secret_ref: Annotated[
        SecretKeySelector | None, Meta(description="The key of the Secret with the access key.")
    ] = None
    secret_key_secret_ref: Annotated[
        SecretKeySelector | None, Meta(description="The key of the Secret with the secret key.")
    ] = None


class SnapshotStorage(Struct, frozen=True, kw_only=True, rename="camel"):
    """The place of snapshots."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "self.type != 's3' || self.?s3.?bucket.orValue('') != ''",
            "type: s3 needs a bucket: write s3.bucket",
            ".s3",
        ),
    )

    type: Annotated[
        Literal["pvc", "s3", "gcs"],
        Meta(
            description="pvc: a folder of the data volume of the gateway. s3 and gcs are reported as unsupported, and"
            " the snapshots are kept as for pvc."
        ),
    ] = "pvc"
    s3: Annotated[SnapshotBucket | None, Meta(description="For s3: the bucket.")] = None


class Snapshots(Struct, frozen=True, kw_only=True, rename="camel"):
    """Copies of the files that a publish replaces."""

    enabled: Annotated[bool, Meta(description="If true, agents keep snapshots.")] = False
    retention_count: Annotated[int, Meta(ge=1, le=100, description="The number of snapshots that are kept.")] = 5
    storage: Annotated[SnapshotStorage, Meta(description="The place of the snapshots.")] = field(
        default_factory=SnapshotStorage
    )


class DeploymentStage(Struct, frozen=True, kw_only=True, rename="camel"):
    """Gateways that receive a commit together."""

    name: Annotated[
        Annotated[
            str,
            text(NAMESPACE, 'write the name of a stage: lowercase letters, digits and "-"', max_length=63),
        ],
        Meta(description="The name of the stage."),
    ]
    gateway_selector: Annotated[
        dict[Annotated[str, Meta(max_length=316)], LabelValue],
        Meta(
            max_length=20,
            description="The labels of the pods of this stage. Empty: all gateways that no earlier stage has.",
        ),
    ] = field(default_factory=dict)


class AutoRollback(Struct, frozen=True, kw_only=True, rename="camel"):
    """The return to the last commit that was healthy on all gateways."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "duration(self.timeout) >= duration('10s') && duration(self.timeout) <= duration('24h')",
            "write a timeout from 10s to 24h, such as 10m",
            ".timeout",
        ),
    )

    enabled: Annotated[bool, Meta(description="If true, a trigger rolls all gateways back.")] = False
    triggers: Annotated[
        list[RollbackTrigger],
        Meta(
            max_length=3,
            description="scanFailure: a gateway refuses the files, or its scan fails. verifyFailure: a project is"
            " missing after the scan. timeout: a gateway is not synced within `timeout`. Default: scanFailure.",
            extra_json_schema={"x-kubernetes-list-type": "set"},
        ),
    ] = field(default_factory=list)
    timeout: Annotated[Duration, Meta(description="The time in which a stage must be synced.")] = "10m"


class Deployment(Struct, frozen=True, kw_only=True, rename="camel"):
    """The order in which gateways receive a new commit."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "(self.strategy == 'canary') == (self.?stages.orValue([]).size() > 0)",
            "stages belong to strategy: canary: write both, or neither",
            ".stages",
        ),
        ValidationRule(
            "self.strategy == 'all-at-once' || self.?syncOrder.orValue([]).size() == 0",
            "stages have the order of a canary: write either stages or syncOrder",
            ".syncOrder",
        ),
        ValidationRule(
            "!has(self.stages) || self.stages.all(one, self.stages.exists_one(other, other.name == one.name))",
            "two stages have the same name: write a different name for each",
            ".stages",
        ),
    )

    strategy: Annotated[
        DeploymentStrategy,
        Meta(
            description="all-at-once: all gateways, or one after another by `syncOrder`. canary: stage by stage; a"
            " stage begins when all gateways of the stage before are synced."
        ),
    ] = "all-at-once"
    stages: Annotated[
        list[DeploymentStage],
        Meta(max_length=20, description="For canary: the stages, in order. Gateways that no stage has come last."),
    ] = field(default_factory=list)
    sync_order: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=253)]],
        Meta(
            max_length=100,
            description="The names of gateways that receive a commit one after another, before all others.",
            extra_json_schema={"x-kubernetes-list-type": "set"},
        ),
    ] = field(default_factory=list)
    auto_rollback: Annotated[AutoRollback, Meta(description="The return to the last healthy commit.")] = field(
        default_factory=AutoRollback
    )


class Guardrails(Struct, frozen=True, kw_only=True, rename="camel"):
    """The limits of what is sent to the repository."""

    max_file_size: Annotated[Quantity, Meta(description="The largest file that is sent.")] = "10Mi"
    max_files_per_pr: Annotated[int, Meta(ge=1, le=1000, description="The most files of one pull request.")] = field(
        default=100, name="maxFilesPerPR"
    )
    exclude_patterns: Annotated[
        list[ExcludePattern],
        Meta(
            max_length=50,
            description="Globs of files that are never sent. Keys, the protected files of gateways and files that look"
            " like credentials are never sent in any case.",
        ),
    ] = field(default_factory=list)


class Bidirectional(Struct, frozen=True, kw_only=True, rename="camel"):
    """Edits on gateways, sent to a branch of the repository."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "!self.enabled || self.?watchPaths.orValue([]).size() > 0",
            "enabled: true needs the paths whose edits are sent: write watchPaths, such as projects/**",
            ".watchPaths",
        ),
        ValidationRule(
            "!self.enabled || has(self.targetBranch)",
            "enabled: true needs a branch for the edits: write targetBranch, such as"
            " gateway-changes/{{ gateway.name }}",
            ".targetBranch",
        ),
        ValidationRule(
            "duration(self.debounce) >= duration('1s') && duration(self.debounce) <= duration('1h')",
            "write a debounce from 1s to 1h, such as 30s",
            ".debounce",
        ),
    )

    enabled: Annotated[bool, Meta(description="If true, edits are sent to the repository.")] = False
    watch_paths: Annotated[
        list[ExcludePattern],
        Meta(
            max_length=50,
            description="Globs of files whose edits are sent, relative to the data folder. Edits there are not"
            " reverted before they are sent.",
        ),
    ] = field(default_factory=list)
    target_branch: Annotated[
        Annotated[
            str,
            text(
                r"^[^-/\s~^:?*\[\\\x00-\x1f\x7f][^~^:?*\[\\\x00-\x1f\x7f]*$",
                "write a branch, such as gateway-changes/{{ gateway.name }}",
                max_length=253,
            ),
        ]
        | None,
        Meta(
            description="The branch that edits are pushed to. It can be a template. It cannot be the ref that gateways"
            " follow, and it is never overwritten."
        ),
    ] = None
    debounce: Annotated[Duration, Meta(description="The time without a further edit, before edits are sent.")] = "30s"
    create_pr: Annotated[
        bool,
        Meta(
            description="If true, the operator opens a pull request for the branch. It needs a token or a GitHub App."
        ),
    ] = field(default=False, name="createPR")
    pr_labels: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=50)]],
        Meta(max_length=20, description="The labels of the pull request."),
    ] = field(default_factory=list)
    provider: Annotated[
        Literal["Auto", "GitHub", "Gitea"],
        Meta(description="The API for pull requests. Auto: GitHub for github.com and GitHub Apps, else Gitea."),
    ] = "Auto"
    conflict_strategy: Annotated[
        ConflictChoice,
        Meta(
            description="Decides what happens with a file that changed on the gateway and in Git. gitWins restores the"
            " file of Git, and keeps the edit in the branch. gatewayWins keeps the edit until the branch is merged."
            " manual keeps the edit, and reports it."
        ),
    ] = "gitWins"
    guardrails: Annotated[Guardrails, Meta(description="The limits of what is sent.")] = field(
        default_factory=Guardrails
    )
