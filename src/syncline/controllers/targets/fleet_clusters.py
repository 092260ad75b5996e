"""Remote clusters: connected by a Secret of the sync, or by a SyncTarget that admits it."""

import asyncio
import itertools
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import reduce
from operator import or_

from msgspec import Struct, structs

from syncline.api.common import ABANDON, TargetState
from syncline.api.connection import ClusterConnection, NameRef, WrittenCluster
from syncline.api.status import RemoteSyncStatus, SyncStatus
from syncline.api.synctarget import SyncTarget
from syncline.controllers.lowered import AnySync, Destination, LoweredSpec, connection_id
from syncline.controllers.requeue import NO_REQUEUE, Requeue
from syncline.controllers.targets.clusters import (
    NO_NAMESPACES,
    ConnectedClusters,
    LocalClusters,
    TargetCluster,
)
from syncline.controllers.targets.open_kind import RELIST_PATIENCE, open_kind, reopen_kind
from syncline.controllers.targets.synced_resources import SyncedResourceTracker
from syncline.controllers.targets.synctargets import SyncTargetInformer, secret_reader
from syncline.controllers.tenancy import Policies, check_cluster
from syncline.controllers.triggers import Triggers
from syncline.core.inventory import FULL, read_written, room_for, with_clusters
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.core.remedies import grant_credential, with_cause
from syncline.core.scope import Scope
from syncline.core.spec_scope import ClusterSelector
from syncline.engine.cluster import Cluster, NotWatchedError, kind_name
from syncline.fleet import (
    Credentials,
    Fleet,
    MemberKey,
    NotResolved,
    RemoteCluster,
    Resolved,
    no_target,
    resolve,
    resolve_target,
    targets_of,
)
from syncline.kube.cache import Key
from syncline.kube.errors import KindNotServed, KubeError
from syncline.kube.resources import SECRETS

# Credentials that end are looked at this often, since their end comes without a word.
EXPIRY_CHECK = 3600.0
# While a cluster is being reached for the first time, its syncs look again this often.
CONNECTING = 1.0
# A cluster that has just failed to answer is asked whether it is still there: this long its syncs wait for that.
VERIFY_PATIENCE = 0.5


class _Connection(Struct, frozen=True, kw_only=True):
    """What came of reaching one place."""

    site: TargetCluster | None = None
    key: MemberKey | None = None
    cluster: str = ""
    target: tuple[str, Key] | None = None
    """The SyncTarget, where it is one, and what the sync calls it."""
    outcomes: tuple[Outcome, ...] = ()
    requeue: Requeue = NO_REQUEUE
    warning: str | None = None
    unmatched: str = ""
    """Why the place means no cluster at all."""


class FleetClusters(LocalClusters):
    """For syncs that write to this cluster and to others."""

    def __init__(
        self,
        hub: Cluster,
        fleet: Fleet,
        targets: SyncTargetInformer,
        resources: SyncedResourceTracker | None = None,
        policies: Policies | None = None,
    ) -> None:
        super().__init__(hub)
        self._policies = policies
        self._resources = resources
        self._named: dict[Key, dict[str, Key]] = {}
        """The SyncTargets of each sync, by its name for the cluster."""
        self._fleet = fleet
        self._targets = targets
        self._clusters: dict[RemoteCluster, Cluster] = {}
        self._numbers = itertools.count(1)
        self._ending: set[asyncio.Task[None]] = set()
        self._triggers: set[Triggers] = set()
        fleet.listen(self._member_changed)

    async def connect(self, lowered: LoweredSpec, triggers: Triggers, *, former: bool = True) -> ConnectedClusters:
        """Return the clusters of a sync, all reached at once; those out of reach hold up nobody."""
        self._triggers.add(triggers)
        if any(not destination.local for destination in lowered.destinations):
            await self._hub.open_kind("", SECRETS.kind)  # a credential that changes enqueues its syncs
        local = await super().connect(lowered, triggers, former=former)
        destinations = [destination for destination in lowered.destinations if destination.connection is not None]
        old = self._former(lowered, destinations) if former else []
        if lowered.sync.deleting and lowered.sync.status.observed_generation and not _is_abandoned(lowered):
            # What was written to is on record: nothing else needs to be reached to release it.
            destinations, old = self._former(lowered, []), []
        if not destinations and not old:
            self._fleet.retain(_sync_user(lowered), ())
            self._named.pop(_sync_user(lowered), None)
            return local
        connections, visits = await asyncio.gather(
            self._connect_all(lowered, triggers, destinations), self._connect_all(lowered, triggers, old)
        )
        self._fleet.retain(_sync_user(lowered), {one.key for one in (*connections, *visits) if one.key is not None})
        connections = _with_room(lowered, connections)
        self._named[_sync_user(lowered)] = dict(one.target for one in connections if one.target is not None)
        connected = [one.site for one in connections if one.site is not None]
        known = {site.cluster.uid for site in (*local.sites, *connected)}
        outcomes = tuple(outcome for one in (*connections, *visits) for outcome in one.outcomes)
        return ConnectedClusters(
            sites=(*local.sites, *connected),
            former=(
                *local.former,
                *(one.site for one in visits if one.site is not None and one.site.cluster.uid not in known),
            ),
            renamed=tuple(one.site for one in visits if one.site is not None and one.site.cluster.uid in known),
            outcomes=outcomes,
            incomplete=local.incomplete or bool(outcomes),
            requeue=reduce(or_, (one.requeue for one in (*connections, *visits)), local.requeue),
            warnings=tuple(dict.fromkeys(one.warning for one in (*connections, *visits) if one.warning)),
            clusters=frozenset(one.cluster for one in (*connections, *visits) if one.cluster),
            unmatched=tuple(dict.fromkeys(one.unmatched for one in connections if one.unmatched)),
            unseen_kinds=local.unseen_kinds,
        )

    def record(self, lowered: LoweredSpec, connected: ConnectedClusters, status: SyncStatus) -> SyncStatus:
        """Note kinds and clusters; a cluster that the spec no longer names goes once nothing is left there."""
        assert isinstance(status, RemoteSyncStatus)  # noqa: S101 - only these name other clusters
        left = [site for site in connected.former if _is_empty(site, lowered)]
        done = [
            _inventory_entry(site.destination) for site in (*connected.renamed, *left) if not site.destination.local
        ]
        here = any(destination.local for destination in lowered.destinations)
        return with_clusters(
            status,
            [_inventory_entry(site.destination) for site in connected.sites if site.destination.cluster],
            lowered.kinds_written,
            done=status.clusters if _is_abandoned(lowered) else done,
            here=here,
            left=not here and any(site.destination.local for site in left) and not connected.unseen_kinds,
        )

    def selected(self, selector: ClusterSelector, namespace: str) -> frozenset[str]:
        """Return the connections that a selector of SyncTargets means now."""
        connection = ClusterConnection(
            type="SyncTarget", selector=selector.labels, sync_target_namespace=selector.namespace or None
        )
        found = targets_of(connection, namespace, self._targets.all())
        return frozenset(connection_id(_single(connection, target.metadata.name)) for target in found)

    async def observe(self, sync: AnySync, outcomes: Sequence[Outcome] | None) -> None:
        """Note which kinds a sync writes to the clusters of SyncTargets, and whether they take them."""
        if self._resources is None:
            return
        user = user_key(sync.kind, Key(sync.metadata.namespace, sync.metadata.name))
        if outcomes is not None:
            targets = self._named.get(user, {})
            kinds = {outcome.target.kind for outcome in outcomes if outcome.target.cluster in targets}
            self._resources.observe(user, targets, outcomes, self._resource_names(kinds))
        elif not self._resources.knows(user):  # a sync that is suspended has what its status says
            written = _written_kinds(sync)
            self._resources.restore(user, written, await self._ask_names(frozenset().union(*written.values())))

    def forget(self, kind: str, key: Key) -> None:
        """Release the clusters of a sync that is gone."""
        user = user_key(kind, key)
        self._fleet.retain(user, ())
        self._named.pop(user, None)
        if self._resources is not None:
            self._resources.forget(user)

    async def _ask_names(self, kinds: Iterable[str]) -> dict[str, str]:
        """Return how kinds are called in addresses that nobody may have opened."""
        found: dict[str, str] = {}
        for kind in kinds:
            name, _, group = kind.partition(".")
            with suppress(KubeError):
                resource = await self._hub.discovery.find(group, name)
                found[kind] = kind_name(resource.group, resource.plural)
        return found

    def _resource_names(self, kinds: Iterable[str]) -> dict[str, str]:
        """Return how kinds are called in addresses, as any cluster has it where they were opened."""
        clusters = (self._hub, *self._clusters.values())
        found = {kind: (cluster.resource_name(kind) for cluster in clusters) for kind in kinds}
        return {kind: name for kind, names in found.items() if (name := next(filter(None, names), None))}

    async def stop(self) -> None:
        """End all watches of other clusters."""
        await asyncio.gather(*(cluster.stop() for cluster in self._clusters.values()), *self._ending)

    def _former(self, lowered: LoweredSpec, destinations: Sequence[Destination]) -> list[Destination]:
        """Return the clusters that were written to and that the spec no longer names, as places for no copies."""
        if _is_abandoned(lowered):
            return []
        named = [(_cluster_name(destination), destination.connection) for destination in destinations]
        selected = [
            destination.connection
            for destination in destinations
            if destination.connection and destination.connection.selector is not None
        ]
        return [
            Destination(cluster=entry.name, connection=entry.connection, scope=NO_NAMESPACES)
            for entry in _written(lowered.sync.status)
            if (entry.name, entry.connection) not in named
            and not (selected and entry.connection.type == "SyncTarget" and self._is_selected(entry, selected, lowered))
        ]

    def _is_selected(
        self, entry: WrittenCluster, selected: Iterable[ClusterConnection | None], lowered: LoweredSpec
    ) -> bool:
        namespace = lowered.sync.metadata.namespace
        names = {
            target.metadata.name
            for connection in selected
            if connection is not None
            for target in targets_of(connection, namespace, self._targets.all())
        }
        return entry.name in names

    async def _connect_all(
        self, lowered: LoweredSpec, triggers: Triggers, destinations: Sequence[Destination]
    ) -> list[_Connection]:
        found = await asyncio.gather(
            *(self._connect_destination(lowered, triggers, destination) for destination in destinations)
        )
        return [one for connections in found for one in connections]

    async def _connect_destination(
        self, lowered: LoweredSpec, triggers: Triggers, destination: Destination
    ) -> list[_Connection]:
        """Reach one place, which may mean several clusters."""
        connection = destination.connection
        assert connection is not None  # noqa: S101 - the caller looked
        namespace = lowered.sync.metadata.namespace
        try:
            if connection.selector is None:
                one = await self._connect_cluster(
                    lowered, triggers, destination, await self._resolve(lowered, connection, lowered.sync.owner.sync)
                )
                return [structs.replace(one, target=_target(destination, namespace))]
            connections = []
            for target in targets_of(connection, namespace, await self._known(lowered, connection)):
                name = target.metadata.name
                named = structs.replace(destination, cluster=name, connection=_single(connection, name))
                try:
                    resolved = await resolve_target(
                        target,
                        namespace,
                        read_secret=secret_reader(self._hub, self._hub.client, lowered.sync.owner.sync),
                        allow_loopback=self._fleet.allow_loopback,
                    )
                    check_cluster(self._policies, resolved, namespace)
                except KubeError as error:
                    connections.append(_unresolvable(lowered, named, error))
                else:
                    one = await self._connect_cluster(lowered, triggers, named, resolved)
                    connections.append(structs.replace(one, target=_target(named, namespace)))
            return connections or [_Connection(unmatched=no_target(connection, namespace))]
        except KubeError as error:
            return [_unresolvable(lowered, destination, error)]

    async def _resolve(self, lowered: LoweredSpec, connection: ClusterConnection, by: str) -> Resolved:
        client = self._hub.acting_as(lowered.user)
        resolved = await resolve(
            connection,
            lowered.sync.metadata.namespace,
            read_secret=secret_reader(self._hub, client, by),
            targets=await self._known(lowered, connection),
            readable=lowered.user is not None,
            read_target_secret=secret_reader(self._hub, self._hub.client, by),
            allow_loopback=self._fleet.allow_loopback,
        )
        check_cluster(self._policies, resolved, lowered.sync.metadata.namespace)
        return resolved

    async def _known(self, lowered: LoweredSpec, connection: ClusterConnection) -> Iterable[SyncTarget]:
        """Return the SyncTargets that the sync may see: an account may use only what it can read."""
        if connection.type != "SyncTarget":
            return ()
        namespace = lowered.sync.metadata.namespace
        if lowered.user is None:
            found = tuple(self._targets.all())
        else:
            found = await self._targets.readable_by(self._hub.acting_as(lowered.user), connection, namespace)
        home, ref = connection.sync_target_namespace or namespace, connection.sync_target_ref
        there = (target for target in found if target.metadata.namespace == home)
        await self._targets.confirm(target for target in there if ref is None or target.metadata.name == ref.name)
        return found

    async def _connect_cluster(
        self, lowered: LoweredSpec, triggers: Triggers, destination: Destination, resolved: Resolved
    ) -> _Connection:
        named = structs.replace(destination, cluster=destination.cluster or resolved.name)
        known = named.cluster in {entry.name for entry in _written(lowered.sync.status)}
        if resolved.unschedulable and not known:
            message = (
                f"SyncTarget {resolved.name} takes no new syncs: name another one, or set its unschedulable to false"
            )
            return _Connection(outcomes=_outcomes(lowered, named, ("Pending", "Unschedulable", message)))

        connection = named.connection
        assert connection is not None  # noqa: S101 - the caller looked

        async def reread() -> Credentials:
            return (await self._resolve(lowered, connection, by="")).credentials

        member = self._fleet.get_or_create(resolved.key, resolved.credentials, user=_sync_user(lowered), reread=reread)
        cluster = self._cluster(member, triggers)
        if not await _is_usable(member):
            health = member.health
            seen = f"last seen {member.last_seen:%Y-%m-%dT%H:%M:%SZ}" if member.last_seen else "never seen"
            why = "it does not answer at the moment" if member.up else health.message
            message = f"cluster {named.cluster} cannot be reached ({seen}): {why}"
            reason = "Unreachable" if member.up else health.reason
            lost = _outcomes(lowered, named, ("Unknown", reason or "Unreachable", message), cluster)
            requeue = Requeue(after=CONNECTING) if member.up else NO_REQUEUE
            return _Connection(key=resolved.key, cluster=cluster.name, outcomes=lost, requeue=requeue)
        owner = structs.replace(lowered.sync.owner, hub_uid=self._hub.uid, keys=self._hub.marks.keys)
        site = TargetCluster(destination=named, cluster=cluster, client=member.client, owner=owner)
        one = await self._open_kinds(lowered, site)
        warning = resolved.credentials.warning(datetime.now(UTC))
        expires = resolved.credentials.validity is not None
        requeue = Requeue(after=EXPIRY_CHECK) if expires and one.requeue == NO_REQUEUE else one.requeue
        return structs.replace(one, key=resolved.key, cluster=cluster.name, warning=warning, requeue=requeue)

    async def _open_kinds(self, lowered: LoweredSpec, site: TargetCluster) -> _Connection:
        """See to it that the kinds are watched there."""
        name = site.destination.cluster
        recorded = sorted(read_written(lowered.sync.status.written).get(name, ()))
        at_once = site.destination.scope is not NO_NAMESPACES and not lowered.staged
        try:
            for ref in lowered.writes if at_once else ():
                await open_kind(site.cluster, ref.group, ref.kind, ref.version, patience=RELIST_PATIENCE)
            for kind in recorded:
                await reopen_kind(site.cluster, kind)
            await site.cluster.wait_namespaces(RELIST_PATIENCE)
        except KindNotServed as error:
            lost = _outcomes(lowered, site.destination, ("Failed", "KindNotServed", f"cluster {name}: {error}"))
            return _Connection(outcomes=lost)
        except NotWatchedError as error:
            remedy = grant_credential(error.resource, name) if error.forbidden else f"cluster {name}"
            message = with_cause(remedy, error)
            lost = _outcomes(lowered, site.destination, ("Unknown", "KindNotWatched", message), site.cluster)
            return _Connection(outcomes=lost, requeue=Requeue(after=CONNECTING))
        except KubeError as error:
            lost = _outcomes(
                lowered, site.destination, ("Unknown", "Unreachable", f"cluster {name}: {error}"), site.cluster
            )
            return _Connection(outcomes=lost, requeue=Requeue(after=CONNECTING))
        return _Connection(site=site)

    def _cluster(self, member: RemoteCluster, triggers: Triggers) -> Cluster:
        if member not in self._clusters:
            name = f"{member.namespace}/{member.name}#{next(self._numbers)}"  # never that of an earlier one
            cluster = Cluster(
                member.client,
                name=name,
                key=self._hub.key,
                marks=self._hub.marks,
                run_watch=member.run_watch,
                uid=lambda: member.uid,
                grace=self._hub.grace,
            )
            cluster.start()
            self._clusters[member] = cluster
        triggers.attach(self._clusters[member])
        return self._clusters[member]

    def _member_changed(self, member: RemoteCluster) -> None:
        cluster = self._clusters.get(member)
        if cluster is None:
            return
        for triggers in self._triggers:
            triggers.cluster_changed(cluster.name)
        if member.closed:
            for triggers in self._triggers:
                triggers.detach(cluster)
            del self._clusters[member]
            task = asyncio.get_running_loop().create_task(cluster.stop())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)


async def _is_usable(member: RemoteCluster) -> bool:
    """Whether a cluster can be used. One that is in doubt is not waited for: the others of the sync would wait too."""
    try:
        async with asyncio.timeout(VERIFY_PATIENCE if member.up else None):
            return await member.wait_probed()
    except TimeoutError:
        return False


def _single(connection: ClusterConnection, name: str) -> ClusterConnection:
    """Return the connection to one of the SyncTargets that a selector means."""
    return ClusterConnection(
        type="SyncTarget",
        sync_target_ref=NameRef(name=name),
        sync_target_namespace=connection.sync_target_namespace,
    )


def _with_room(lowered: LoweredSpec, connections: Sequence[_Connection]) -> list[_Connection]:
    """Say of the clusters that the inventory has no room for why they are not written to; the known ones go first."""
    status = lowered.sync.status
    known = _written(status)
    connected = [(one, _inventory_entry(one.site.destination)) for one in connections if one.site is not None]
    if (
        lowered.sync.deleting
        or not isinstance(status, RemoteSyncStatus)
        or all(entry in known for _, entry in connected)
    ):
        return list(connections)
    connected.sort(key=lambda pair: pair[1] not in known)
    room = room_for(status, [entry for _, entry in connected], lowered.kinds_written)
    full = {id(one) for one, _ in connected[room:]}
    return [_without_room(lowered, one) if id(one) in full else one for one in connections]


def _without_room(lowered: LoweredSpec, one: _Connection) -> _Connection:
    assert one.site is not None  # noqa: S101 - the caller looked
    destination = one.site.destination
    message = (
        f"split the sync: its status has no room for cluster {destination.cluster}, and nothing is written that is not"
        " recorded there first"
    )
    return structs.replace(one, site=None, outcomes=_outcomes(lowered, destination, ("Failed", FULL, message)))


def _cluster_name(destination: Destination) -> str:
    """Return what a place is called: a SyncTarget has a name already."""
    ref = destination.connection.sync_target_ref if destination.connection is not None else None
    return destination.cluster or (ref.name if ref is not None else "")


def _target(destination: Destination, namespace: str) -> tuple[str, Key] | None:
    """Return what a sync of this namespace calls a SyncTarget, and which it is; None for a place that is none."""
    connection = destination.connection
    if connection is None or connection.sync_target_ref is None:
        return None
    return _cluster_name(destination), Key(
        connection.sync_target_namespace or namespace, connection.sync_target_ref.name
    )


def _written_kinds(sync: AnySync) -> dict[Key, frozenset[str]]:
    """Return the kinds that a sync has written to SyncTargets, as its status has them."""
    found: dict[Key, frozenset[str]] = {}
    written = read_written(sync.status.written)
    for entry in _written(sync.status):
        named = _target(Destination(cluster=entry.name, connection=entry.connection), sync.metadata.namespace)
        if named is not None:
            found[named[1]] = written.get(entry.name, frozenset())
    return found


def _inventory_entry(destination: Destination) -> WrittenCluster:
    assert destination.connection is not None  # noqa: S101 - it is another cluster
    return WrittenCluster(name=destination.cluster, connection=destination.connection)


def _written(status: SyncStatus) -> list[WrittenCluster]:
    """Return the clusters that a sync has written to."""
    return status.clusters if isinstance(status, RemoteSyncStatus) else []


def _is_empty(site: TargetCluster, lowered: LoweredSpec) -> bool:
    """Whether nothing of the sync is left in a cluster, as far as its kinds are watched."""
    owners = (structs.replace(site.owner, environment=part) for part in lowered.owners)
    copies = (observed for owner in owners for observed in site.cluster.managed_by(owner.ref))
    return not any(observed.marker is not None and observed.marker.hub_uid == site.owner.hub_uid for observed in copies)


def _is_abandoned(lowered: LoweredSpec) -> bool:
    """Whether the user has given up what is left in clusters that the spec no longer names."""
    return lowered.sync.metadata.annotations.get(ABANDON) == "true"


def _unresolvable(lowered: LoweredSpec, destination: Destination, error: KubeError) -> _Connection:
    """Say of all targets of a place why it cannot be reached at all."""
    reason = error.reason if isinstance(error, NotResolved) else "CredentialUnreadable"
    named = structs.replace(destination, cluster=_cluster_name(destination))
    lost = _outcomes(lowered, named, ("Failed", reason, f"cluster {named.cluster}: {error}"))
    # What may not be used, or is not there, is not written to; other troubles pass.
    is_target = reason != "SyncTargetNotFound"
    return _Connection(outcomes=lost, target=_target(named, lowered.sync.metadata.namespace) if is_target else None)


def _outcomes(
    lowered: LoweredSpec, destination: Destination, why: tuple[TargetState, str, str], cluster: Cluster | None = None
) -> tuple[Outcome, ...]:
    """Say the same of all targets of a place, as far as they are known."""
    state, reason, message = why
    targets: list[Target] = []
    for ref in lowered.writes:
        scope = destination.scope if destination.scope is not None else Scope(names=frozenset({ref.namespace}))
        namespaces = set(scope.names)
        if cluster is not None:
            namespaces |= {one.name for one in cluster.namespaces.values() if scope.matches(one)}
        targets += [
            Target(namespace, ref.name, ref.kind_name, destination.cluster) for namespace in sorted(namespaces or {""})
        ]
    return tuple(
        Outcome(target=target, state=state, reason=reason, message=message, retry=state == "Failed")
        for target in targets
    )


def _sync_user(lowered: LoweredSpec) -> Key:
    return user_key(lowered.sync.kind, Key(lowered.sync.metadata.namespace, lowered.sync.metadata.name))


def user_key(kind: str, key: Key) -> Key:
    """Name a sync among those of all kinds."""
    return Key(key.namespace, f"{kind}/{key.name}")
