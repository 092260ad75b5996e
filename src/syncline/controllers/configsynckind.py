"""ConfigSync: how its spec is lowered, and what only it reports. The story itself is in `configsync`."""

from collections.abc import Iterable

from msgspec import Struct

from syncline.api import configsync as api
from syncline.api.common import GROUP, REQUESTED_AT, VERSION
from syncline.api.configsync import ConfigSyncSpec, ConfigSyncStatus
from syncline.api.status import SyncStatus
from syncline.controllers.laps import Lapped
from syncline.controllers.outlook import finish
from syncline.controllers.reporting import AnySync, Problem, Report
from syncline.controllers.tenancy import Tenancy
from syncline.controllers.tracks import built_from, former_parts, references, tracks_of
from syncline.controllers.work import Place, SourceRef, Work, cluster_scope
from syncline.core.conditions import shorten
from syncline.core.objects import Desired
from syncline.core.plan import Policy
from syncline.core.spec_scope import ListedTarget, SpecScope
from syncline.engine.interests import Interest
from syncline.engine.record import SyncWire, read_sync
from syncline.kube.resources import Resource

RESOURCE = Resource(GROUP, VERSION, api.PLURAL, api.KIND)


class GitReport(Report, frozen=True, kw_only=True):
    """What came of one turn, track by track."""

    laps: tuple[Lapped, ...] = ()
    former: tuple[str, ...] = ()
    """Parts that left the spec and still have something."""
    plan: tuple[str, ...] | None = None
    """What would be done; None where it was done."""
    done: bool = False
    """Whether everything was looked at, and nothing is left to be removed."""


class ConfigSyncKind(Struct, frozen=True):
    """The kind, as the operator's flags have it."""

    tenancy: Tenancy
    name: str = api.KIND
    resource: Resource = RESOURCE

    def read(self, wire: SyncWire) -> AnySync:
        """Decode a sync."""
        return read_sync(api.KIND, ConfigSyncSpec, ConfigSyncStatus, wire)

    def finish(self, report: Report, status: SyncStatus, now: str) -> SyncStatus:
        """Note revisions, histories and what only this kind reports."""
        assert isinstance(status, ConfigSyncStatus)  # noqa: S101 - it was read as one
        if not isinstance(report, GitReport):
            return finish(report, status, now)
        return finish(report, status, now, laps=report.laps, former=report.former, plan=report.plan)

    def check_identity(self, sync: AnySync, spec: ConfigSyncSpec) -> None:
        """Raise `Problem` where objects of the cluster would decide what is written with the operator's own rights.

        Their author's rights were checked when the sync was written, those of whoever edits such an object never are.
        """
        namespace = sync.metadata.namespace
        if self.tenancy.user(namespace, spec.service_account_name) is not None:
            return
        for one in built_from(spec, namespace):
            message = (
                f"set serviceAccountName: whoever may edit the {one.kind} {one.namespace}/{one.name} decides what is "
                "written, and without an account that would be with the operator's rights"
            )
            raise Problem("AccountRequired", message, stalled=True)

    def lower(self, sync: AnySync, desired: Iterable[Desired] = ()) -> Work:
        """Lower a spec, with what its sources come to; raises `Problem` for one that cannot be carried out."""
        spec = spec_of(sync)
        status = sync.status
        assert isinstance(status, ConfigSyncStatus)  # noqa: S101 - it was read as one
        tracks = tracks_of(spec, sync.metadata.namespace)
        refs = {one.target: _ref(one) for one in desired}
        conflict = "SourceWins" if spec.drift_policy == "Correct" else "Report"
        policy = Policy(management=spec.resource_management_policy, conflict=conflict)
        places = tuple(
            Place(cluster=remote.cluster_name or "", connection=remote.connection, policy=policy)
            for remote in spec.remote_clusters
        )
        places = places or (Place(policy=policy),)
        return Work(
            sync=sync,
            sources=tuple(refs.values()),
            places=places,
            guarded=self.tenancy.guarded,
            user=self.tenancy.user(sync.metadata.namespace, spec.service_account_name),
            prune=spec.prune,
            suspended=spec.suspend,
            deletion_policy=spec.deletion_policy,
            scope=SpecScope(
                clusters=tuple(map(cluster_scope, places)),
                environments=tuple(track.scope() for track in tracks),
                targets=tuple(_listed(one) for one in spec.targets),
            ),
            parts=tuple(sorted({*(track.name for track in tracks), *former_parts(spec, status)})),
            staged=True,
            unwanted="no longer in the source",
            shrinkage="the source no longer has them",
        )


def spec_of(sync: AnySync) -> ConfigSyncSpec:
    """Return the spec; raises `Problem` where it could not be read."""
    if sync.spec is None:
        raise Problem("InvalidSpec", sync.error, stalled=True)
    assert isinstance(sync.spec, ConfigSyncSpec)  # noqa: S101 - it was read as one
    return sync.spec


def basic_interest(sync: AnySync, spec: ConfigSyncSpec) -> Interest:
    """Return what should wake a sync, before anything was read."""
    return Interest(
        objects=frozenset(references(spec, sync.metadata.namespace)),
        targets=any(remote.connection.type == "SyncTarget" for remote in spec.remote_clusters),
    )


def is_requested(sync: AnySync) -> bool:
    """Whether a person asked for a sync that no turn has answered yet."""
    asked = sync.metadata.annotations.get(REQUESTED_AT)
    return asked is not None and shorten(asked, 256) != sync.status.last_handled_request


def _listed(target: api.Target) -> ListedTarget:
    return ListedTarget(kind=target.type, name=target.name, namespace=target.namespace or "")


def _ref(desired: Desired) -> SourceRef:
    target = desired.target
    kind, _, group = target.kind.partition(".")
    version = desired.body.api_version.rpartition("/")[2] if desired.body is not None else "v1"
    return SourceRef(group=group, version=version, kind=kind, namespace=target.namespace, name=target.name)
