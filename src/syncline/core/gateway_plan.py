"""The protocol between the depot and agents: the plan of a gateway, and the report of its agent.

| Request | Body | Answer |
|---|---|---|
| `GET /v1/plan?have=ID&wait=SECONDS` | | 200 with a `GatewayPlan`; 304 while that plan is the newest |
| `POST /v1/blobs` | `BlobRequest` | 200 with a stream of blobs: for each a line `ID SIZE` and the bytes of the file |
| `POST /v1/report` | `GatewayReport` | 204 |
| `POST /v1/changes` | a line with a `ChangeRequest`, then the bytes of its files in order | 200 with a `ChangeAnswer` |

Every request carries the token of a pod. Plans and reports belong to that pod.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

PLAN_PATH = "/v1/plan"
BLOBS_PATH = "/v1/blobs"
REPORT_PATH = "/v1/report"
CHANGES_PATH = "/v1/changes"
AUDIENCE = "syncline"
"""The audience of the tokens that the depot accepts."""

METADATA_PREFIX = "ignition-sync-metadata-"
"""The prefix of the name of the metadata ConfigMap of a sync, for people and for agents with a kubeconfig."""
METADATA_DEPOT_URL = "depotURL"
METADATA_DEPOT_CA = "depotCA"
"""Its keys for the address of the depot, and for the CA certificates of the depot (PEM)."""

MAX_PLAN_FILES = 50_000
MAX_BLOBS = 500
"""The maximum number of blobs in one request."""
MAX_BLOB_BYTES = 64 * 1024 * 1024
"""The maximum size of a file of a gateway."""
MAX_WAIT = 60
"""The maximum wait of one request for a plan, in seconds."""
MAX_REPORT_BYTES = 64 * 1024
MAX_HISTORY = 10
MAX_REPORTED_EDITS = 10

Count = Annotated[int, Meta(ge=0, le=1_000_000)]
"""A number of files in a report: no number that a pod makes up breaks what is counted with it."""
PlanAction = Literal["Publish", "Hold", "Pause"]
"""Publish: make the folder equal to the files. Hold, Pause: change nothing, and report it."""
GatewayState = Literal["Pending", "Syncing", "Synced", "Error"]
SessionPolicy = Literal["wait", "proceed", "fail"]
DriftAction = Literal["Correct", "Report"]


class PlannedFile(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A file that a gateway gets."""

    path: str
    """Its path in the data folder."""
    blob: str
    """The id of the Git blob: the hash of its content before templates and patches."""
    size: int
    mapping: int
    """The index of its mapping in the plan."""
    executable: bool = False


class JsonPatch(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Values that are set in JSON files."""

    set: dict[str, str]
    """By dotted path. A value is rendered, and then parsed as JSON; if that fails, it is a text."""
    file: str = ""
    """A glob of paths below the destination of the mapping; empty for the mapped file."""


class PlannedMapping(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A mapping after its paths were rendered."""

    source: str
    destination: str
    template: bool = False
    """Whether the contents of its files are templates."""
    patches: tuple[JsonPatch, ...] = ()
    missing: bool = False
    """Whether the commit lacks the source. Then no file of the mapping is deleted."""


class FieldValue(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A value that is set in all JSON files that have the path."""

    json_path: str
    value: str


class FileRules(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The changes to files before they are published, and the files that are left alone."""

    system_name: str | None = None
    """The value of `systemName` in each `ignition/system-properties/config.json`; None leaves it."""
    fields: tuple[FieldValue, ...] = ()
    values: dict[str, str] = field(default_factory=dict)
    """The values of templates, by their full names: `gateway.name`, `vars.site`, `labels.app`, ..."""
    exclude: tuple[str, ...] = ()
    unprotected: tuple[str, ...] = ()
    """Paths of the protected set that the spec allows to write."""
    watched: tuple[str, ...] = ()
    """Paths whose local edits are sent to the depot, and not repaired."""


class IgnitionApply(Struct, frozen=True, rename="camel", omit_defaults=True):
    """How an Ignition gateway reloads its files: by scans."""

    port: int = 8043
    tls: bool = True
    designer_sessions: SessionPolicy = "wait"


class HttpApply(Struct, frozen=True, rename="camel", omit_defaults=True):
    """How any other application reloads its files: by one request to this pod."""

    port: int
    path: str = "/"
    method: str = "POST"
    tls: bool = False
    headers: dict[str, str] = field(default_factory=dict)
    """The headers, each with the file of its value in the Secrets folder of the agent."""
    expected: tuple[int, ...] = (200, 201, 202, 204)
    timeout_seconds: int = 10


class SignalApply(Struct, frozen=True, rename="camel", omit_defaults=True):
    """How any other application reloads its files: by a signal to its process in this pod."""

    process: str
    signal: Literal["SIGHUP", "SIGUSR1", "SIGUSR2", "SIGTERM"] = "SIGHUP"


class PlannedApply(Struct, frozen=True, rename="camel", omit_defaults=True):
    """How the application reloads its files: one of these, or none."""

    ignition: IgnitionApply | None = None
    http: HttpApply | None = None
    signal: SignalApply | None = None


class PlannedCheck(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The checks before the files are published."""

    dry_run: bool = False
    """Publish nothing; report what would change."""
    webhook_url: str = ""
    webhook_timeout_seconds: int = 10


class PlannedSnapshots(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The number of snapshots that are kept in the data folder; 0 for none."""

    keep: int = 0


class PlannedReturn(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Which local edits are sent to the depot, and when."""

    debounce_seconds: float = 5.0
    max_file_bytes: int = 10 * 1024 * 1024
    max_files: int = 100
    exclude: tuple[str, ...] = ()
    conflict: Literal["gitWins", "gatewayWins", "manual"] = "gitWins"
    branch: str = ""
    """The branch for edits. If it is empty, there is no valid branch for this gateway, and no edits are sent."""


class GatewayPlan(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The plan for the agent of one gateway. Its id changes if and only if the rest changes."""

    id: str
    sync: str
    """The name of the sync, which is in the namespace of the pod."""
    gateway: str
    action: PlanAction
    message: str = ""
    """Why the action is not Publish."""
    ref: str = ""
    commit: str = ""
    files: tuple[PlannedFile, ...] = ()
    mappings: tuple[PlannedMapping, ...] = ()
    rules: FileRules = FileRules()
    apply: PlannedApply = PlannedApply()
    check: PlannedCheck = PlannedCheck()
    drift: DriftAction = "Correct"
    snapshots: PlannedSnapshots = PlannedSnapshots()
    send_back: PlannedReturn | None = None
    ca: str = ""
    """The CA certificates of the depot from now on, as PEM."""
    confirmed_deletion: str = ""
    """The digest of a deletion plan that a person has confirmed; see `GatewayReport.deletion`."""


class BlobRequest(Struct, frozen=True):
    """The blobs of its own plan that an agent requests."""

    plan: str
    ids: Annotated[tuple[str, ...], Meta(max_length=MAX_BLOBS)]


class ReportedSync(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One entry of the history of an agent."""

    time: str
    commit: str
    result: GatewayState
    seconds: float = 0.0


class ReportedDiff(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The number of files that a publish has changed, or would change."""

    added: Count = 0
    modified: Count = 0
    deleted: Count = 0


class HeldDeletion(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A deletion that the deletion guard holds until a person confirms its digest."""

    digest: Annotated[str, Meta(max_length=128)]
    files: Count
    of: Count


Text = Annotated[str, Meta(max_length=1024)]
Name = Annotated[str, Meta(max_length=253)]
ShortText = Annotated[str, Meta(max_length=300)]


class ReportedRefusal(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A local edit that is not sent."""

    path: ShortText
    why: ShortText


class ReportedEdits(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The state of the local edits of a gateway."""

    branch: ShortText = ""
    commit: Annotated[str, Meta(max_length=64)] = ""
    """The last commit with edits of this gateway."""
    pull_request: ShortText = ""
    sent: Count = 0
    """The number of edits that the branch has, but not the commit of the gateway."""
    files: Annotated[tuple[ShortText, ...], Meta(max_length=MAX_REPORTED_EDITS)] = ()
    """Some of them, by path."""
    waiting: Count = 0
    """The number of edits that are not sent yet."""
    refused: Annotated[tuple[ReportedRefusal, ...], Meta(max_length=MAX_REPORTED_EDITS)] = ()
    """Some of the edits that are never sent."""
    conflicts: Annotated[tuple[ShortText, ...], Meta(max_length=MAX_REPORTED_EDITS)] = ()
    """Some of the files that Git has changed too, and that wait for a person."""
    problem: ShortText = ""
    """The cause of the last failure to send edits."""


class GatewayReport(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The report of an agent about its gateway."""

    state: GatewayState
    reason: Annotated[str, Meta(max_length=64)]
    plan: Annotated[str, Meta(max_length=128)] = ""
    commit: Annotated[str, Meta(max_length=64)] = ""
    """The commit of the folder, not the desired commit."""
    ref: Text = ""
    message: Text = ""
    files: Count = 0
    """The number of managed files."""
    changed: ReportedDiff = ReportedDiff()
    projects: Annotated[tuple[Name, ...], Meta(max_length=100)] = ()
    scan: Annotated[str, Meta(max_length=256)] = ""
    seconds: float = 0.0
    synced_at: Annotated[str, Meta(max_length=32)] = ""
    agent_version: Annotated[str, Meta(max_length=64)] = ""
    drifted: Annotated[tuple[Text, ...], Meta(max_length=20)] = ()
    """Some of the managed files that somebody changed, by path."""
    deletion: HeldDeletion | None = None
    snapshot: Annotated[str, Meta(max_length=128)] = ""
    """The name of the last snapshot."""
    snapshot_bytes: Annotated[int, Meta(ge=0, le=1 << 50)] = 0
    snapshot_at: Annotated[str, Meta(max_length=32)] = ""
    history: Annotated[tuple[ReportedSync, ...], Meta(max_length=MAX_HISTORY)] = ()
    """The oldest first."""
    edits: ReportedEdits | None = None
    """None if the plan sends no edits back."""


class ChangedFile(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A local edit: a file that was written, or one that was deleted."""

    path: str
    size: int = 0
    deleted: bool = False
    base: str = ""
    """The id of the blob that the edit started from; empty for a new file."""


class ChangeRequest(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Local edits of one gateway, all at one time."""

    plan: str
    commit: str
    files: tuple[ChangedFile, ...]


class ChangeAnswer(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The result of a commit of edits."""

    branch: str
    commit: str
    pull_request: str = ""
    problem: str = ""
    """Why there is no pull request, although the plan has one; the same edits can be sent again to retry."""
