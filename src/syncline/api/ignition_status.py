"""The status of an IgnitionSync."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field

from syncline.api.common import Timestamp
from syncline.api.configsync import HeldRollback
from syncline.api.rules import REASON, Importance, Role
from syncline.api.status import SyncStatus

MAX_GATEWAYS = 500
MAX_FAILED_COMMITS = 10
MAX_SYNC_HISTORY = 10

GatewaySyncStatus = Literal["Pending", "Syncing", "Synced", "Error", "MissingSidecar"]
RefResolution = Literal["NotResolved", "Resolving", "Resolved", "Error"]
RepoClone = Literal["NotCloned", "Cloning", "Cloned", "Error"]

_COMMIT = Annotated[str, Meta(max_length=64)]
_RESULT = Literal["Pending", "Syncing", "Synced", "Error"]


class GatewaySnapshot(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The last snapshot of a gateway."""

    id: Annotated[str, Meta(max_length=128, description="The name of the snapshot.")]
    size: Annotated[str, Meta(max_length=32, description="The size of its files, in bytes.")] = ""
    timestamp: Annotated[Timestamp | None, Meta(description="The time of the snapshot.")] = None


class SyncHistoryEntry(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One sync of a gateway."""

    timestamp: Annotated[Timestamp, Meta(description="The time of the sync.")]
    commit: Annotated[str, Meta(max_length=64, description="The commit.")] = ""
    result: Annotated[_RESULT, Meta(description="The result of the sync.")]
    duration: Annotated[str, Meta(max_length=32, description="The duration of the sync, such as `2.5s`.")] = ""


class FileChanges(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Numbers of changed files."""

    added: Annotated[int, Meta(ge=0, description="The number of new files.")] = 0
    modified: Annotated[int, Meta(ge=0, description="The number of files with new content.")] = 0
    deleted: Annotated[int, Meta(ge=0, description="The number of deleted files.")] = 0


class HeldFileDeletion(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A deletion of many files that waits for a confirmation."""

    digest: Annotated[
        str,
        Meta(
            max_length=128,
            description="The digest of the deletion. The annotation `syncline.dev/confirm-deletion` with this value"
            " confirms it.",
        ),
    ]
    files: Annotated[int, Meta(ge=0, description="The number of files that would be deleted.")] = 0
    of: Annotated[int, Meta(ge=0, description="The number of files that the gateway has.")] = 0


class RefusedEdit(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An edit that is not sent to the repository."""

    path: Annotated[str, Meta(max_length=300, description="The file, relative to the data folder.")]
    why: Annotated[str, Meta(max_length=300, description="The cause.", extra=Role.REPORT.mark)] = ""


class GatewayEdits(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The edits on a gateway, as its agent reports them."""

    branch: Annotated[str, Meta(max_length=300, description="The branch that edits are pushed to.")] = ""
    commit: Annotated[str, Meta(max_length=64, description="The last commit with edits of the gateway.")] = ""
    pull_request: Annotated[str, Meta(max_length=300, description="The pull request of the branch.")] = ""
    sent: Annotated[
        int, Meta(ge=0, description="The number of edits in the branch that the synced commit does not have.")
    ] = 0
    files: Annotated[
        list[Annotated[str, Meta(max_length=300)]],
        Meta(max_length=10, description="Some of these files.", extra=Role.REPORT.mark),
    ] = field(default_factory=list)
    waiting: Annotated[int, Meta(ge=0, description="The number of edits that are not sent yet.")] = 0
    refused: Annotated[
        list[RefusedEdit],
        Meta(max_length=10, description="Edits that are never sent: some of them.", extra=Role.REPORT.mark),
    ] = field(default_factory=list)
    conflicts: Annotated[
        list[Annotated[str, Meta(max_length=300)]],
        Meta(
            max_length=10,
            description="With `conflictStrategy: manual`: files that Git has changed too. The gateway keeps its own.",
            extra=Role.REPORT.mark,
        ),
    ] = field(default_factory=list)
    problem: Annotated[
        str,
        Meta(max_length=300, description="Why edits could not be sent the last time.", extra=Role.REPORT.mark),
    ] = ""


class DiscoveredGateway(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A gateway, and what its agent reports."""

    IMPORTANCE: ClassVar[Importance] = Importance(
        "syncStatus", ("Error", "MissingSidecar", "Syncing", "Pending", "Synced")
    )

    name: Annotated[str, Meta(max_length=253, description="The name of the gateway.")]
    namespace: Annotated[str, Meta(max_length=63, description="The namespace of its pod.")] = ""
    pod_name: Annotated[str, Meta(max_length=253, description="The name of its pod.")]
    service_account_name: Annotated[str, Meta(max_length=253, description="The service account of its pod.")] = ""
    profile: Annotated[
        str, Meta(max_length=63, description="Its profile. Absent: the mappings of its annotations.")
    ] = ""
    service_path: Annotated[str, Meta(max_length=512, description="The annotation `service-path` of its pod.")] = ""
    sync_status: Annotated[
        GatewaySyncStatus,
        Meta(
            description="Pending: no report yet, or the gateway holds its files. Syncing: it receives files. Synced: it"
            " has the files of the commit. MissingSidecar: its pod has no agent."
        ),
    ]
    reason: Annotated[str, Meta(max_length=64, pattern=REASON, description="The cause, as one CamelCase word.")] = ""
    message: Annotated[
        str, Meta(max_length=1024, description="The cause and the remedy, for people.", extra=Role.REPORT.mark)
    ] = ""
    last_sync_time: Annotated[Timestamp | None, Meta(description="The time of the last sync.")] = None
    last_sync_duration: Annotated[
        str, Meta(max_length=32, description="The duration of the last sync, such as `2.5s`.")
    ] = ""
    synced_commit: Annotated[str, Meta(max_length=64, description="The commit of the files that it has.")] = ""
    synced_ref: Annotated[str, Meta(max_length=256, description="The ref of this commit.")] = ""
    agent_version: Annotated[str, Meta(max_length=64, description="The version of its agent.")] = ""
    last_scan_result: Annotated[str, Meta(max_length=256, description="The result of the last scan.")] = ""
    files: Annotated[int, Meta(ge=0, description="The number of files that Syncline manages on the gateway.")] = 0
    files_changed: Annotated[int, Meta(ge=0, description="The number of files that the last sync changed.")] = 0
    changes: Annotated[
        FileChanges | None, Meta(description="The changed files; with a dry run, the files that would change.")
    ] = None
    dry_run: Annotated[bool, Meta(description="Whether the gateway only reports what would change.")] = False
    projects_synced: Annotated[
        list[Annotated[str, Meta(max_length=253)]],
        Meta(max_length=100, description="The projects that the gateway has.", extra=Role.REPORT.mark),
    ] = field(default_factory=list)
    drifted: Annotated[
        list[Annotated[str, Meta(max_length=1024)]],
        Meta(
            max_length=20,
            description="Files that somebody changed on the gateway: some of them.",
            extra=Role.REPORT.mark,
        ),
    ] = field(default_factory=list)
    held_deletion: Annotated[
        HeldFileDeletion | None, Meta(description="A deletion of many files that waits for a confirmation.")
    ] = None
    edits: Annotated[
        GatewayEdits | None, Meta(description="The edits on the gateway; present only with `bidirectional`.")
    ] = None
    last_snapshot: Annotated[GatewaySnapshot | None, Meta(description="The last snapshot.")] = None
    sync_history: Annotated[
        list[SyncHistoryEntry],
        Meta(
            max_length=MAX_SYNC_HISTORY,
            description="The last syncs, newest first, at most 10.",
            extra=Role.REPORT.mark,
        ),
    ] = field(default_factory=list)


class RolloutGateway(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The commit that a gateway may have."""

    pod: Annotated[str, Meta(max_length=253, description="The name of its pod.")]
    commit: Annotated[str, Meta(max_length=64, description="The commit.")]


class RolloutStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The way of a commit to all gateways."""

    generation: Annotated[
        int,
        Meta(
            ge=0,
            description="The generation of the spec that gateways receive files by. While the spec has another one,"
            " gateways keep their files.",
        ),
    ] = 0
    commit: Annotated[str, Meta(max_length=64, description="The commit that is rolled out.")] = ""
    stage: Annotated[str, Meta(max_length=253, description="The stage or gateway that receives it now.")] = ""
    since: Annotated[Timestamp | None, Meta(description="The time when this stage began.")] = None
    healthy_commit: Annotated[
        str, Meta(max_length=64, description="The last commit that was healthy on all gateways.")
    ] = ""
    failed_commits: Annotated[
        list[_COMMIT],
        Meta(
            max_length=MAX_FAILED_COMMITS,
            description="Commits that failed, newest first, at most 10. They are not tried again until the ref moves.",
        ),
    ] = field(default_factory=list)
    gateways: Annotated[
        list[RolloutGateway],
        Meta(
            max_length=MAX_GATEWAYS,
            description="During a staged rollout: the gateways whose commit is not the last healthy one.",
        ),
    ] = field(default_factory=list)


class RequestedRef(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The ref that a webhook or a person has requested."""

    ref: Annotated[str, Meta(max_length=256, description="The ref.")]
    at: Annotated[str, Meta(max_length=64, description="The time of the request.")] = ""
    by: Annotated[str, Meta(max_length=253, description="The source of the request.")] = ""
    instead_of: Annotated[
        str,
        Meta(max_length=256, description="The value of `spec.git.ref` at that time. A change of it ends the request."),
    ] = ""


class IgnitionSyncStatus(SyncStatus, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The observed state of the sync. Its targets are gateways."""

    last_sync_time: Annotated[
        Timestamp | None, Meta(description="The time when the last gateway received the commit.")
    ] = None
    last_sync_ref: Annotated[
        str, Meta(max_length=256, description="The ref that gateways follow: the requested ref, else `spec.git.ref`.")
    ] = ""
    last_sync_commit: Annotated[str, Meta(max_length=64, description="The commit of this ref.")] = ""
    last_sync_commit_short: Annotated[str, Meta(max_length=12, description="The first 7 digits of the commit.")] = ""
    ref_resolution_status: Annotated[
        RefResolution | None, Meta(description="Whether the operator found the commit of the ref.")
    ] = None
    repo_clone_status: Annotated[
        RepoClone | None, Meta(description="The same in the words of earlier configurations.")
    ] = None
    profile_count: Annotated[int, Meta(ge=0, description="The number of profiles of the spec.")] = 0
    discovered_gateways: Annotated[
        list[DiscoveredGateway],
        Meta(
            max_length=MAX_GATEWAYS,
            description="The gateways, failures first, at most 500. `targets` counts all of them.",
            extra=Role.REPORT.mark,
        ),
    ] = field(default_factory=list)
    rollout: Annotated[
        RolloutStatus | None, Meta(description="The way of the commit to all gateways.", extra=Role.INVENTORY.mark)
    ] = None
    requested_ref: Annotated[
        RequestedRef | None,
        Meta(description="The requested ref, while it counts.", extra=Role.INVENTORY.mark),
    ] = None
    rollback: Annotated[
        HeldRollback | None, Meta(description="The commit of `spec.rollback`.", extra=Role.INVENTORY.mark)
    ] = None
