"""Remote clusters: connected by a Secret of the sync, or by a SyncTarget that admits it."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import reduce
from operator import or_

from msgspec import structs

from syncline.api.connection import ClusterConnection, NameRef, WrittenCluster
from syncline.api.synctarget import SyncTarget
from syncline.controllers.lowered import AnySync, Destination, LoweredSpec, connection_id
from syncline.controllers.requeue import NO_REQUEUE, Requeue
from syncline.controllers.targets.clusters import (
    NO_NAMESPACES,
    ConnectedClusters,
    LocalClusters,
    LostCluster,
    TargetCluster,
)
from syncline.controllers.targets.connections import (
    ClusterVisit,
    cluster_name,
    inventory_entry,
    is_abandoned_spec,
    is_empty,
    lost_cluster,
    place_outcomes,
    target_key,
    unresolvable,
    with_room,
    written_clusters,
    written_kinds,
)
from syncline.controllers.targets.member_clusters import (
    CONNECTING,
    MemberClusters,
    is_requested,
    is_usable,
    sync_user,
    user_key,
)
from syncline.controllers.targets.open_kind import RELIST_PATIENCE, open_kind, reopen_kind
from syncline.controllers.targets.synced_resources import SyncedResourceTracker
from syncline.controllers.targets.synctargets import SyncTargetInformer, TargetChanging, secret_reader
from syncline.controllers.targets.upstream_clusters import UpstreamClusters
from syncline.controllers.tenancy import Policies, check_cluster
from syncline.controllers.triggers import Triggers
from syncline.core.group_kind import GroupKind
from syncline.core.inventory import Remote, read_written, with_clusters
from syncline.core.outcome import Outcome
from syncline.core.remedies import grant_credential, with_cause
from syncline.core.spec_scope import ClusterSelector
from syncline.engine.cluster import Cluster, NotWatchedError
from syncline.fleet import (
    Credentials,
    Fleet,
    Resolved,
    no_target,
    resolve,
    resolve_target,
    targets_of,
)
from syncline.kube.cache import Key
from syncline.kube.errors import KindNotServed, KubeError
from syncline.kube.resources import SECRETS

# The interval of checks of credentials that expire, because no event reports their end.
EXPIRY_CHECK = 3600.0


class FleetClusters:
    """The clusters of syncs that write to this cluster and to others."""

    def __init__(
        self,
        hub: Cluster,
        fleet: Fleet,
        targets: SyncTargetInformer,
        resources: SyncedResourceTracker | None = None,
        policies: Policies | None = None,
    ) -> None:
        self._hub = hub
        self._local = LocalClusters(hub)
        self._policies = policies
        self._resources = resources
        self._named: dict[Key, dict[str, Key]] = {}
        """The SyncTargets of each sync, by its name for the cluster."""
        self._fleet = fleet
        self._targets = targets
        self._members = MemberClusters(hub, fleet)
        self.upstreams = UpstreamClusters(hub, fleet, targets, self._members, policies)

    async def connect(self, lowered: LoweredSpec, triggers: Triggers, *, former: bool = True) -> ConnectedClusters:
        """Connect all clusters of a sync concurrently. An unreachable cluster delays no other."""
        self._members.add(triggers)
        if any(not destination.local for destination in lowered.destinations):
            await self._hub.open_kind(SECRETS.group_kind)  # a credential that changes enqueues its syncs
        local = await self._local.connect(lowered, triggers, former=former)
        destinations = [destination for destination in lowered.destinations if destination.connection is not None]
        old = self._former(lowered, destinations) if former else []
        if lowered.sync.deleting and lowered.sync.status.observed_generation and not is_abandoned_spec(lowered):
            # The written clusters are recorded: only they must be reached for the removal.
            destinations, old = self._former(lowered, []), []
        kept = set(self.upstreams.kept(sync_user(lowered)))
        if not destinations and not old:
            self._fleet.retain(sync_user(lowered), kept)
            self._named.pop(sync_user(lowered), None)
            return local
        connections, visits = await asyncio.gather(
            self._connect_all(lowered, triggers, destinations), self._connect_all(lowered, triggers, old)
        )
        kept |= {one.key for one in (*connections, *visits) if one.key is not None}
        self._fleet.retain(sync_user(lowered), kept)
        connections = with_room(lowered, connections)
        self._named[sync_user(lowered)] = dict(one.target for one in connections if one.target is not None)
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
            lost=tuple(one.lost for one in connections if one.lost is not None),
        )

    def record(self, lowered: LoweredSpec, connected: ConnectedClusters, status: Remote) -> Remote:
        """Record kinds and clusters. A cluster that the spec no longer names is dropped when it has no objects left."""
        left = [site for site in connected.former if is_empty(site, lowered)]
        done = [inventory_entry(site.destination) for site in (*connected.renamed, *left) if not site.destination.local]
        here = any(destination.local for destination in lowered.destinations)
        return with_clusters(
            status,
            [inventory_entry(site.destination) for site in connected.sites if site.destination.cluster],
            lowered.kinds_written,
            done=status.clusters if is_abandoned_spec(lowered) else done,
            here=here,
            left=not here and any(site.destination.local for site in left) and not connected.unseen_kinds,
        )

    def selected(self, selector: ClusterSelector, namespace: str) -> frozenset[str]:
        """Return the connections to the SyncTargets that a selector matches now."""
        connection = ClusterConnection(
            type="SyncTarget", selector=selector.labels, sync_target_namespace=selector.namespace or None
        )
        found = targets_of(connection, namespace, self._targets.all())
        return frozenset(connection_id(_single(connection, target.metadata.name)) for target in found)

    async def observe(self, sync: AnySync, outcomes: Sequence[Outcome] | None, *, complete: bool) -> None:
        """Record which kinds a sync writes to the clusters of SyncTargets, and whether these accept them.

        `complete`: the reconcile has read everything, so the sync writes nothing else.
        """
        if self._resources is None:
            return
        user = user_key(sync.kind, Key(sync.metadata.namespace, sync.metadata.name))
        if outcomes is not None:
            targets = self._named.get(user, {})
            kinds = {outcome.target.kind for outcome in outcomes if outcome.target.cluster in targets}
            unseen = {} if complete else written_kinds(sync)
            self._resources.observe(user, targets, outcomes, self._members.resource_names(kinds), unseen)
        elif not self._resources.knows(user):  # the kinds of a suspended sync are those of its status
            written, will_look = written_kinds(sync), not getattr(sync.spec, "suspend", True)
            names = await self._ask_names(frozenset().union(*written.values()))
            self._resources.restore(user, written, names, will_look=will_look)

    async def verify(self, lowered: LoweredSpec, sites: Iterable[TargetCluster]) -> None:
        """Verify that the SyncTargets are as this reconcile has read them, before a namespace is placed there.

        This matters because a namespace stays where it was placed. Raises `TargetChanging` and `KubeError`.
        """
        named = self._named.get(sync_user(lowered), {})
        for site in sites:
            key = named.get(site.destination.cluster)
            target = await self._targets.read_live(key) if key is not None else None
            if key is not None and (
                target is None
                or (target.spec.unschedulable, target.metadata.labels) != (site.unschedulable, site.labels)
            ):
                raise TargetChanging(f"the SyncTarget {key.namespace}/{key.name} is being changed")

    def forget(self, kind: str, key: Key) -> None:
        """Release the clusters of a deleted sync."""
        user = user_key(kind, key)
        self._fleet.retain(user, ())
        self._named.pop(user, None)
        self.upstreams.forget(user)
        if self._resources is not None:
            self._resources.forget(user)

    async def _ask_names(self, kinds: Iterable[str]) -> dict[str, str]:
        """Return the resource names of kinds, also of kinds that no cluster has opened."""
        found: dict[str, str] = {}
        for kind in kinds:
            with suppress(KubeError):
                resource = await self._hub.discovery.find(*GroupKind.parse(kind))
                found[kind] = str(resource.group_resource)
        return found

    async def stop(self) -> None:
        """End all watches of other clusters."""
        await self._members.stop()

    def _former(self, lowered: LoweredSpec, destinations: Sequence[Destination]) -> list[Destination]:
        """Return the written clusters that the spec no longer names, as destinations without copies."""
        if is_abandoned_spec(lowered):
            return []
        named = [(cluster_name(destination), destination.connection) for destination in destinations]
        selected = [
            destination.connection
            for destination in destinations
            if destination.connection and destination.connection.selector is not None
        ]
        return [
            Destination(cluster=entry.name, connection=entry.connection, scope=NO_NAMESPACES)
            for entry in written_clusters(lowered.sync.status)
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
    ) -> list[ClusterVisit]:
        found = await asyncio.gather(
            *(self._connect_destination(lowered, triggers, destination) for destination in destinations)
        )
        return [one for connections in found for one in connections]

    async def _connect_destination(
        self, lowered: LoweredSpec, triggers: Triggers, destination: Destination
    ) -> list[ClusterVisit]:
        """Connect one destination, which may mean several clusters."""
        connection = destination.connection
        assert connection is not None  # noqa: S101 - the caller looked
        namespace = lowered.sync.metadata.namespace
        try:
            if connection.selector is None:
                one = await self._connect_cluster(
                    lowered, triggers, destination, await self._resolve(lowered, connection, lowered.sync.owner.sync)
                )
                return [structs.replace(one, target=target_key(destination, namespace))]
            connections = []
            known = await self._targets.visible_to(lowered.user, connection, namespace)
            for target in targets_of(connection, namespace, known):
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
                    connections.append(unresolvable(lowered, named, error, target))
                else:
                    one = await self._connect_cluster(lowered, triggers, named, resolved)
                    connections.append(structs.replace(one, target=target_key(named, namespace)))
            return connections or [ClusterVisit(unmatched=no_target(connection, namespace))]
        except KubeError as error:
            return [unresolvable(lowered, destination, error, self._find(target_key(destination, namespace)))]

    def _find(self, named: tuple[str, Key] | None) -> SyncTarget | None:
        """Return the SyncTarget of a place, if it is one."""
        if named is None:
            return None
        return next(
            (one for one in self._targets.all() if Key(one.metadata.namespace, one.metadata.name) == named[1]), None
        )

    async def _resolve(self, lowered: LoweredSpec, connection: ClusterConnection, by: str) -> Resolved:
        client = self._hub.acting_as(lowered.user)
        resolved = await resolve(
            connection,
            lowered.sync.metadata.namespace,
            read_secret=secret_reader(self._hub, client, by),
            targets=await self._targets.visible_to(lowered.user, connection, lowered.sync.metadata.namespace),
            readable=lowered.user is not None,
            read_target_secret=secret_reader(self._hub, self._hub.client, by),
            allow_loopback=self._fleet.allow_loopback,
        )
        check_cluster(self._policies, resolved, lowered.sync.metadata.namespace)
        return resolved

    async def _connect_cluster(
        self, lowered: LoweredSpec, triggers: Triggers, destination: Destination, resolved: Resolved
    ) -> ClusterVisit:
        named = structs.replace(destination, cluster=destination.cluster or resolved.name)
        known = named.cluster in {entry.name for entry in written_clusters(lowered.sync.status)}
        if not known and await self._is_closed(resolved):
            message = (
                f"SyncTarget {resolved.name} takes no new syncs: name another one, or set its unschedulable to false"
            )
            closed = LostCluster(name=named.cluster, labels=_labels(resolved), unschedulable=True)
            pending = place_outcomes(lowered, named, ("Pending", "Unschedulable", message))
            return ClusterVisit(outcomes=() if lowered.chooses_clusters else pending, lost=closed)

        connection = named.connection
        assert connection is not None  # noqa: S101 - the caller looked

        async def reread() -> Credentials:
            return (await self._resolve(lowered, connection, by="")).credentials

        member = self._fleet.get_or_create(resolved.key, resolved.credentials, user=sync_user(lowered), reread=reread)
        cluster = self._members.open(member, triggers)
        if not await is_usable(member):
            if is_requested(lowered.sync):
                member.probe_now()
            health = member.health
            seen = f"last seen {member.last_seen:%Y-%m-%dT%H:%M:%SZ}" if member.last_seen else "never seen"
            why = "it does not answer at the moment" if member.up else health.message
            message = f"cluster {named.cluster} cannot be reached ({seen}): {why}"
            reason = "Unreachable" if member.up else health.reason
            lost = place_outcomes(lowered, named, ("Unknown", reason or "Unreachable", message), cluster)
            requeue = Requeue(after=CONNECTING) if member.up else NO_REQUEUE
            away = lost_cluster(named.cluster, resolved.target, member.last_seen)
            return ClusterVisit(key=resolved.key, cluster=cluster.name, outcomes=lost, requeue=requeue, lost=away)
        owner = structs.replace(lowered.sync.owner, hub_uid=self._hub.uid, keys=self._hub.marks.keys)
        site = TargetCluster(
            destination=named,
            cluster=cluster,
            client=member.client,
            owner=owner,
            labels=_labels(resolved),
            unschedulable=resolved.unschedulable,
        )
        one = await self._open_kinds(lowered, site)
        if one.site is None:
            one = structs.replace(one, lost=lost_cluster(named.cluster, resolved.target, member.last_seen))
        warning = resolved.credentials.warning(datetime.now(UTC))
        expires = resolved.credentials.validity is not None
        requeue = Requeue(after=EXPIRY_CHECK) if expires and one.requeue == NO_REQUEUE else one.requeue
        return structs.replace(one, key=resolved.key, cluster=cluster.name, warning=warning, requeue=requeue)

    async def _is_closed(self, resolved: Resolved) -> bool:
        """Whether a cluster accepts no new syncs, by a live read. Syncs that already use it continue."""
        if resolved.target is None or resolved.unschedulable:
            return resolved.unschedulable
        meta = resolved.target.metadata
        live = await self._targets.read_live(Key(meta.namespace, meta.name))
        return live is not None and live.spec.unschedulable

    async def _open_kinds(self, lowered: LoweredSpec, site: TargetCluster) -> ClusterVisit:
        """Open the kinds in a cluster, so that they are watched."""
        name = site.destination.cluster
        recorded = sorted(read_written(lowered.sync.status.written).get(name, ()))
        at_once = site.destination.scope is not NO_NAMESPACES and not lowered.staged
        try:
            for ref in lowered.writes if at_once else ():
                await open_kind(site.cluster, ref.group_kind, ref.version, patience=RELIST_PATIENCE)
            for kind in recorded:
                # If resources are independent, one that cannot be watched affects only its own objects.
                with suppress(*((KindNotServed, NotWatchedError) if lowered.independent else ())):
                    await reopen_kind(site.cluster, kind)
            await site.cluster.wait_namespaces(RELIST_PATIENCE)
        except KindNotServed as error:
            lost = place_outcomes(lowered, site.destination, ("Failed", "KindNotServed", f"cluster {name}: {error}"))
            return ClusterVisit(outcomes=lost)
        except NotWatchedError as error:
            remedy = grant_credential(error.resource, name) if error.forbidden else f"cluster {name}"
            message = with_cause(remedy, error)
            lost = place_outcomes(lowered, site.destination, ("Unknown", "KindNotWatched", message), site.cluster)
            return ClusterVisit(outcomes=lost, requeue=Requeue(after=CONNECTING))
        except KubeError as error:
            lost = place_outcomes(
                lowered, site.destination, ("Unknown", "Unreachable", f"cluster {name}: {error}"), site.cluster
            )
            return ClusterVisit(outcomes=lost, requeue=Requeue(after=CONNECTING))
        return ClusterVisit(site=site)


def _labels(resolved: Resolved) -> Mapping[str, str]:
    return resolved.target.metadata.labels if resolved.target is not None else {}


def _single(connection: ClusterConnection, name: str) -> ClusterConnection:
    """Return the connection to one of the SyncTargets that a selector matches."""
    return ClusterConnection(
        type="SyncTarget",
        sync_target_ref=NameRef(name=name),
        sync_target_namespace=connection.sync_target_namespace,
    )
