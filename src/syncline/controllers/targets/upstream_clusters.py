"""Upstream clusters: the clusters and workspaces that syncs read from, each reached with a credential of the sync."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from msgspec import Struct

from syncline.api.connection import ClusterConnection
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import LoweredSpec, key_of
from syncline.controllers.targets.member_clusters import (
    CONNECTING,
    MemberClusters,
    is_requested,
    is_usable,
    sync_user,
)
from syncline.controllers.targets.synctargets import SyncTargetInformer, secret_reader
from syncline.controllers.tenancy import Policies, check_cluster, lists_server
from syncline.controllers.triggers import Triggers
from syncline.core.api_exports import ExportEndpoint
from syncline.engine.cluster import Cluster
from syncline.fleet import (
    Credentials,
    Fleet,
    IdentityProbe,
    MemberKey,
    NotResolved,
    RemoteCluster,
    Resolved,
    at_endpoint,
    in_workspace,
    resolve,
)
from syncline.kube.cache import Key
from syncline.kube.errors import KubeError
from syncline.kube.resources import SECRETS

UPSTREAM_UNREACHABLE = "UpstreamUnreachable"


class UpstreamAddress(Struct, frozen=True):
    """An address that the credential of an upstream is for."""

    connection: ClusterConnection
    locate: Callable[[Resolved], Resolved]
    """Makes the credential of the address from the credential of the upstream. Raises `NotResolved`."""
    workspace: str = ""
    """The name in messages."""
    probe: IdentityProbe | None = None


class UpstreamClusters:
    """The upstreams of syncs that read from other clusters."""

    def __init__(
        self,
        hub: Cluster,
        fleet: Fleet,
        targets: SyncTargetInformer,
        members: MemberClusters,
        policies: Policies | None = None,
    ) -> None:
        self.members = members
        self._hub = hub
        self._fleet = fleet
        self._targets = targets
        self._policies = policies
        self._upstreams: dict[Key, frozenset[MemberKey]] = {}
        """The upstreams of each sync that reads from other clusters."""

    async def connect(
        self, lowered: LoweredSpec, triggers: Triggers, connection: ClusterConnection, workspace: str
    ) -> tuple[Cluster, RemoteCluster]:
        """Return the cluster or workspace that a sync reads from. Raises `SyncError` while it cannot be reached.

        The credential is read with the rights of the sync, also if it is the credential of a SyncTarget.
        """
        found = await self.resolve_upstream(lowered, triggers, connection)
        one = UpstreamAddress(connection, partial(self.in_workspace, lowered, workspace), workspace)
        member = self.open_upstream(lowered, found, one)
        self.keep_upstreams(lowered, (one.locate(found).key,))
        cluster = self.members.open(member, triggers)
        triggers.watch_cluster(key_of(lowered.sync), cluster.name)
        await self.reach_upstream(lowered, member, workspace)
        return cluster, member

    async def resolve_upstream(
        self, lowered: LoweredSpec, triggers: Triggers, connection: ClusterConnection
    ) -> Resolved:
        """Return the credential of an upstream. Raises `SyncError`."""
        self.members.add(triggers)
        await self._hub.open_kind(SECRETS.group_kind)  # a credential that changes enqueues its syncs
        with self._as_upstream(lowered):
            return await self._resolve_upstream(lowered, connection)

    def open_upstream(self, lowered: LoweredSpec, found: Resolved, one: UpstreamAddress) -> RemoteCluster:
        """Return the remote cluster at the address of a credential. Raises `SyncError`."""

        async def reread() -> Credentials:
            return one.locate(await self._resolve_upstream(lowered, one.connection)).credentials

        with self._as_upstream(lowered):
            moved = one.locate(found)
            return self._fleet.get_or_create(
                moved.key, moved.credentials, user=sync_user(lowered), reread=reread, probe=one.probe
            )

    async def reach_upstream(self, lowered: LoweredSpec, member: RemoteCluster, workspace: str) -> None:
        """Raise `SyncError` while an upstream cannot be reached."""
        if not await is_usable(member):
            if is_requested(lowered.sync):
                member.probe_now()  # the sync is enqueued when it answers
            raise _unreachable_upstream(member, workspace)

    def keep_upstreams(self, lowered: LoweredSpec, keys: Iterable[MemberKey]) -> None:
        """Set the upstreams that a sync reads from."""
        self._upstreams[sync_user(lowered)] = frozenset(keys)

    def kept(self, user: Key) -> frozenset[MemberKey]:
        """Return the upstreams that a sync reads from."""
        return self._upstreams.get(user, frozenset())

    def forget(self, user: Key) -> None:
        """Forget the upstreams of a deleted sync."""
        self._upstreams.pop(user, None)

    def at_endpoint(self, lowered: LoweredSpec, endpoint: ExportEndpoint, cluster: str, found: Resolved) -> Resolved:
        """Return the credential for a logical cluster at an address that the upstream has reported.

        The address is checked like any other server. Raises `NotResolved`.
        """
        namespace, loopback = lowered.sync.metadata.namespace, self._fleet.allow_loopback

        def allow_host(one: Resolved) -> bool:
            return lists_server(self._policies, one, namespace)

        moved = at_endpoint(
            found, endpoint.url, allow_loopback=loopback, allow_host=allow_host, is_other=endpoint.is_other
        )
        check_cluster(self._policies, moved, namespace)
        return at_endpoint(moved, endpoint.server(cluster), allow_loopback=loopback, allow_host=allow_host)

    def in_workspace(self, lowered: LoweredSpec, workspace: str, found: Resolved) -> Resolved:
        """Return the credential for a workspace. Raises `NotResolved`."""
        if not workspace:
            return found
        moved = in_workspace(found, workspace, allow_loopback=self._fleet.allow_loopback)
        check_cluster(self._policies, moved, lowered.sync.metadata.namespace)
        return moved

    async def _resolve_upstream(self, lowered: LoweredSpec, connection: ClusterConnection) -> Resolved:
        reader = secret_reader(self._hub, self._hub.acting_as(lowered.user), lowered.sync.owner.sync)
        found = await resolve(
            connection,
            lowered.sync.metadata.namespace,
            read_secret=reader,
            targets=await self._targets.visible_to(lowered.user, connection, lowered.sync.metadata.namespace),
            readable=lowered.user is not None,
            read_target_secret=reader,
            allow_loopback=self._fleet.allow_loopback,
        )
        check_cluster(self._policies, found, lowered.sync.metadata.namespace)
        return found

    @contextmanager
    def _as_upstream(self, lowered: LoweredSpec) -> Iterator[None]:
        """Return the error of an upstream whose credential cannot be used."""
        try:
            yield
        except KubeError as error:
            self._upstreams.pop(sync_user(lowered), None)
            reason = error.reason if isinstance(error, NotResolved) else "CredentialUnreadable"
            raise SyncError(reason, f"the upstream: {error}", retry=True) from error


def _unreachable_upstream(member: RemoteCluster, workspace: str) -> SyncError:
    """Return the error of an upstream that cannot be read. The copies stay as they are."""
    seen = f"last seen {member.last_seen:%Y-%m-%dT%H:%M:%SZ}" if member.last_seen else "never seen"
    why = "it does not answer at the moment" if member.up else member.health.message
    what = f"workspace {workspace}" if workspace else "upstream"
    message = f"the {what} cannot be reached ({seen}), and nothing is removed meanwhile: {why}"
    again = CONNECTING if member.up else None
    return SyncError(UPSTREAM_UNREACHABLE, message, status="Unknown", again=again)
