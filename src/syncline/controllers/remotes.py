"""Other clusters, as a sync reaches them: by a Secret of its namespace, or by a SyncTarget that lets it."""

import asyncio
import itertools
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from msgspec import Struct, structs

from syncline.api.common import ABANDON, TargetState
from syncline.api.connection import ClusterConnection, NameRef, WrittenCluster
from syncline.api.status import RemoteSyncStatus, SyncStatus
from syncline.api.synctarget import SyncTarget
from syncline.controllers.sites import LIST_PATIENCE, NOWHERE, LocalSites, Reached
from syncline.controllers.survey import Site
from syncline.controllers.synctargets import SyncTargets, secret_reader
from syncline.controllers.targetresources import TargetResources
from syncline.controllers.tenancy import Policies, check_cluster
from syncline.controllers.wakes import Wakes
from syncline.controllers.work import AnySync, Place, Work, connection_id
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
    Member,
    MemberKey,
    NotResolved,
    Resolved,
    no_target,
    resolve,
    resolve_target,
    targets_of,
)
from syncline.kube.cache import Key
from syncline.kube.errors import KindNotServed, KubeError
from syncline.kube.resources import SECRETS
from syncline.render.transform_pool import is_template

# Credentials that end are looked at so often, since their end comes without a word.
EXPIRY_LOOK = 3600.0
# While a cluster is being reached for the first time, its syncs look again so often.
CONNECTING = 1.0
# A cluster that has just failed to answer is asked whether it is still there: so long its syncs wait for that.
DOUBT_PATIENCE = 0.5


class _Arrival(Struct, frozen=True, kw_only=True):
    """What came of reaching one place."""

    site: Site | None = None
    key: MemberKey | None = None
    cluster: str = ""
    target: tuple[str, Key] | None = None
    """The SyncTarget, where it is one, and what the sync calls it."""
    outcomes: tuple[Outcome, ...] = ()
    again: float | None = None
    warning: str | None = None
    unmatched: str = ""
    """Why the place means no cluster at all."""


class FleetSites(LocalSites):
    """For syncs that write to this cluster and to others."""

    def __init__(
        self,
        hub: Cluster,
        fleet: Fleet,
        targets: SyncTargets,
        resources: TargetResources | None = None,
        policies: Policies | None = None,
    ) -> None:
        super().__init__(hub)
        self._policies = policies
        self._resources = resources
        self._named: dict[Key, dict[str, Key]] = {}
        """The SyncTargets of each sync, by its name for the cluster."""
        self._fleet = fleet
        self._targets = targets
        self._clusters: dict[Member, Cluster] = {}
        self._numbers = itertools.count(1)
        self._ending: set[asyncio.Task[None]] = set()
        self._wakes: set[Wakes] = set()
        fleet.listen(self._member_changed)

    async def reach(self, work: Work, wakes: Wakes, *, former: bool = True) -> Reached:
        """Return the clusters of a sync, all reached at once; those out of reach hold up nobody."""
        self._wakes.add(wakes)
        if any(not place.local for place in work.places):
            await self._hub.open("", SECRETS.kind)  # a credential that changes wakes its syncs
        local = await super().reach(work, wakes, former=former)
        places = [place for place in work.places if place.connection is not None]
        old = self._former(work, places) if former else []
        if work.sync.deleting and work.sync.status.observed_generation and not _is_abandoned(work):
            # What was written to is on record: nothing else needs to be reached to let go of it.
            places, old = self._former(work, []), []
        if not places and not old:
            self._fleet.keep(_key(work), ())
            self._named.pop(_key(work), None)
            return local
        arrivals, visits = await asyncio.gather(self._go_all(work, wakes, places), self._go_all(work, wakes, old))
        self._fleet.keep(_key(work), {one.key for one in (*arrivals, *visits) if one.key is not None})
        arrivals = _admitted(work, arrivals)
        self._named[_key(work)] = dict(one.target for one in arrivals if one.target is not None)
        reached = [one.site for one in arrivals if one.site is not None]
        known = {site.cluster.uid for site in (*local.sites, *reached)}
        outcomes = tuple(outcome for one in (*arrivals, *visits) for outcome in one.outcomes)
        return Reached(
            sites=(*local.sites, *reached),
            former=(
                *local.former,
                *(one.site for one in visits if one.site is not None and one.site.cluster.uid not in known),
            ),
            superseded=tuple(one.site for one in visits if one.site is not None and one.site.cluster.uid in known),
            outcomes=outcomes,
            unsure=local.unsure or bool(outcomes),
            again=min((one.again for one in (*arrivals, *visits) if one.again is not None), default=local.again),
            warnings=tuple(dict.fromkeys(one.warning for one in (*arrivals, *visits) if one.warning)),
            clusters=frozenset(one.cluster for one in (*arrivals, *visits) if one.cluster),
            unmatched=tuple(dict.fromkeys(one.unmatched for one in arrivals if one.unmatched)),
            unseen_kinds=local.unseen_kinds,
        )

    def record(self, work: Work, reached: Reached, status: SyncStatus) -> SyncStatus:
        """Note kinds and clusters; a cluster that the spec no longer names goes once nothing is left there."""
        assert isinstance(status, RemoteSyncStatus)  # noqa: S101 - only these name other clusters
        left = [site for site in reached.former if _is_empty(site, work)]
        done = [_record(site.place) for site in (*reached.superseded, *left) if not site.place.local]
        here = any(place.local for place in work.places)
        return with_clusters(
            status,
            [_record(site.place) for site in reached.sites if site.place.cluster],
            _kinds(work),
            done=status.clusters if _is_abandoned(work) else done,
            here=here,
            left=not here and any(site.place.local for site in left) and not reached.unseen_kinds,
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
        """Let go of the clusters of a sync that is gone."""
        user = user_key(kind, key)
        self._fleet.keep(user, ())
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

    def _former(self, work: Work, places: Sequence[Place]) -> list[Place]:
        """Return the clusters that were written to and that the spec no longer names, as places for no copies."""
        if _is_abandoned(work):
            return []
        named = [(_name(place), place.connection) for place in places]
        selected = [place.connection for place in places if place.connection and place.connection.selector is not None]
        return [
            Place(cluster=entry.name, connection=entry.connection, scope=NOWHERE)
            for entry in _written(work.sync.status)
            if (entry.name, entry.connection) not in named
            and not (selected and entry.connection.type == "SyncTarget" and self._is_selected(entry, selected, work))
        ]

    def _is_selected(self, entry: WrittenCluster, selected: Iterable[ClusterConnection | None], work: Work) -> bool:
        namespace = work.sync.metadata.namespace
        names = {
            target.metadata.name
            for connection in selected
            if connection is not None
            for target in targets_of(connection, namespace, self._targets.all())
        }
        return entry.name in names

    async def _go_all(self, work: Work, wakes: Wakes, places: Sequence[Place]) -> list[_Arrival]:
        found = await asyncio.gather(*(self._go(work, wakes, place) for place in places))
        return [arrival for arrivals in found for arrival in arrivals]

    async def _go(self, work: Work, wakes: Wakes, place: Place) -> list[_Arrival]:
        """Reach one place, which may mean several clusters."""
        connection = place.connection
        assert connection is not None  # noqa: S101 - the caller looked
        namespace = work.sync.metadata.namespace
        try:
            if connection.selector is None:
                arrival = await self._arrive(
                    work, wakes, place, await self._resolve(work, connection, work.sync.owner.sync)
                )
                return [structs.replace(arrival, target=_target(place, namespace))]
            arrivals = []
            for target in targets_of(connection, namespace, await self._known(work, connection)):
                name = target.metadata.name
                named = structs.replace(place, cluster=name, connection=_single(connection, name))
                try:
                    resolved = await resolve_target(
                        target,
                        namespace,
                        read_secret=secret_reader(self._hub, self._hub.client, work.sync.owner.sync),
                        allow_loopback=self._fleet.allow_loopback,
                    )
                    check_cluster(self._policies, resolved, namespace)
                except KubeError as error:
                    arrivals.append(_lost(work, named, error))
                else:
                    arrival = await self._arrive(work, wakes, named, resolved)
                    arrivals.append(structs.replace(arrival, target=_target(named, namespace)))
            return arrivals or [_Arrival(unmatched=no_target(connection, namespace))]
        except KubeError as error:
            return [_lost(work, place, error)]

    async def _resolve(self, work: Work, connection: ClusterConnection, by: str) -> Resolved:
        client = self._hub.acting_as(work.user)
        resolved = await resolve(
            connection,
            work.sync.metadata.namespace,
            read_secret=secret_reader(self._hub, client, by),
            targets=await self._known(work, connection),
            readable=work.user is not None,
            read_target_secret=secret_reader(self._hub, self._hub.client, by),
            allow_loopback=self._fleet.allow_loopback,
        )
        check_cluster(self._policies, resolved, work.sync.metadata.namespace)
        return resolved

    async def _known(self, work: Work, connection: ClusterConnection) -> Iterable[SyncTarget]:
        """Return the SyncTargets that the sync may see: an account may use only what it can read."""
        if connection.type != "SyncTarget":
            return ()
        namespace = work.sync.metadata.namespace
        if work.user is None:
            found = tuple(self._targets.all())
        else:
            found = await self._targets.seen_by(self._hub.acting_as(work.user), connection, namespace)
        home, ref = connection.sync_target_namespace or namespace, connection.sync_target_ref
        there = (target for target in found if target.metadata.namespace == home)
        await self._targets.confirm(target for target in there if ref is None or target.metadata.name == ref.name)
        return found

    async def _arrive(self, work: Work, wakes: Wakes, place: Place, resolved: Resolved) -> _Arrival:
        named = structs.replace(place, cluster=place.cluster or resolved.name)
        known = named.cluster in {entry.name for entry in _written(work.sync.status)}
        if resolved.unschedulable and not known:
            message = (
                f"SyncTarget {resolved.name} takes no new syncs: name another one, or set its unschedulable to false"
            )
            return _Arrival(outcomes=_outcomes(work, named, ("Pending", "Unschedulable", message)))

        connection = named.connection
        assert connection is not None  # noqa: S101 - the caller looked

        async def reread() -> Credentials:
            return (await self._resolve(work, connection, by="")).credentials

        member = self._fleet.member(resolved.key, resolved.credentials, user=_key(work), reread=reread)
        cluster = self._cluster(member, wakes)
        if not await _settled(member):
            health = member.health
            seen = f"last seen {member.last_seen:%Y-%m-%dT%H:%M:%SZ}" if member.last_seen else "never seen"
            why = "it does not answer at the moment" if member.up else health.message
            message = f"cluster {named.cluster} cannot be reached ({seen}): {why}"
            reason = "Unreachable" if member.up else health.reason
            lost = _outcomes(work, named, ("Unknown", reason or "Unreachable", message), cluster)
            again = CONNECTING if member.up else None
            return _Arrival(key=resolved.key, cluster=cluster.name, outcomes=lost, again=again)
        owner = structs.replace(work.sync.owner, hub=self._hub.uid, keys=self._hub.marks.keys)
        home = member.uid == self._hub.uid
        site = Site(place=named, cluster=cluster, client=member.client, owner=owner, home=home)
        arrival = await self._look(work, site)
        warning = resolved.credentials.warning(datetime.now(UTC))
        again = arrival.again or (EXPIRY_LOOK if resolved.credentials.life is not None else None)
        return structs.replace(arrival, key=resolved.key, cluster=cluster.name, warning=warning, again=again)

    async def _look(self, work: Work, site: Site) -> _Arrival:
        """See to it that the kinds are watched there."""
        name = site.place.cluster
        recorded = sorted(read_written(work.sync.status.written).get(name, ()))
        at_once = site.place.scope is not NOWHERE and not work.staged
        try:
            for ref in work.sources if at_once else ():
                await site.cluster.complete(await site.cluster.open(ref.group, ref.kind, ref.version), LIST_PATIENCE)
            for kind, _, group in (entry.partition(".") for entry in recorded):
                try:
                    await site.cluster.complete(await site.cluster.open(group, kind), LIST_PATIENCE)
                except KindNotServed as error:
                    if not error.certain:
                        raise  # if it is, its objects went with it
            await site.cluster.settled(LIST_PATIENCE)
        except KindNotServed as error:
            lost = _outcomes(work, site.place, ("Failed", "KindNotServed", f"cluster {name}: {error}"))
            return _Arrival(outcomes=lost)
        except NotWatchedError as error:
            remedy = grant_credential(error.resource, name) if error.forbidden else f"cluster {name}"
            message = with_cause(remedy, error)
            lost = _outcomes(work, site.place, ("Unknown", "KindNotWatched", message), site.cluster)
            return _Arrival(outcomes=lost, again=CONNECTING)
        except KubeError as error:
            lost = _outcomes(work, site.place, ("Unknown", "Unreachable", f"cluster {name}: {error}"), site.cluster)
            return _Arrival(outcomes=lost, again=CONNECTING)
        return _Arrival(site=site)

    def _cluster(self, member: Member, wakes: Wakes) -> Cluster:
        if member not in self._clusters:
            name = f"{member.namespace}/{member.name}#{next(self._numbers)}"  # never that of an earlier one
            cluster = Cluster(
                member.client,
                name=name,
                key=self._hub.key,
                marks=self._hub.marks,
                follow=member.follow,
                uid=lambda: member.uid,
                grace=self._hub.grace,
            )
            cluster.start()
            self._clusters[member] = cluster
        wakes.attach(self._clusters[member])
        return self._clusters[member]

    def _member_changed(self, member: Member) -> None:
        cluster = self._clusters.get(member)
        if cluster is None:
            return
        for wakes in self._wakes:
            wakes.cluster_changed(cluster.name)
        if member.closed:
            for wakes in self._wakes:
                wakes.detach(cluster)
            del self._clusters[member]
            task = asyncio.get_running_loop().create_task(cluster.stop())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)


async def _settled(member: Member) -> bool:
    """Whether a cluster can be used. One that is in doubt is not waited for: the others of the sync would wait too."""
    try:
        async with asyncio.timeout(DOUBT_PATIENCE if member.up else None):
            return await member.settled()
    except TimeoutError:
        return False


def _single(connection: ClusterConnection, name: str) -> ClusterConnection:
    """Return the connection to one of the SyncTargets that a selector means."""
    return ClusterConnection(
        type="SyncTarget",
        sync_target_ref=NameRef(name=name),
        sync_target_namespace=connection.sync_target_namespace,
    )


def _admitted(work: Work, arrivals: Sequence[_Arrival]) -> list[_Arrival]:
    """Say of the clusters that the inventory has no room for why they are not written to; the known ones go first."""
    status = work.sync.status
    known = _written(status)
    reached = [(one, _record(one.site.place)) for one in arrivals if one.site is not None]
    if work.sync.deleting or not isinstance(status, RemoteSyncStatus) or all(entry in known for _, entry in reached):
        return list(arrivals)
    reached.sort(key=lambda pair: pair[1] not in known)
    room = room_for(status, [entry for _, entry in reached], _kinds(work))
    full = {id(one) for one, _ in reached[room:]}
    return [_unrecorded(work, one) if id(one) in full else one for one in arrivals]


def _unrecorded(work: Work, arrival: _Arrival) -> _Arrival:
    assert arrival.site is not None  # noqa: S101 - the caller looked
    place = arrival.site.place
    message = (
        f"split the sync: its status has no room for cluster {place.cluster}, and nothing is written that is not"
        " recorded there first"
    )
    return structs.replace(arrival, site=None, outcomes=_outcomes(work, place, ("Failed", FULL, message)))


def _kinds(work: Work) -> frozenset[str]:
    return frozenset(ref.kind_name for ref in work.sources)


def _name(place: Place) -> str:
    """Return what a place is called: a SyncTarget has a name already."""
    ref = place.connection.sync_target_ref if place.connection is not None else None
    return place.cluster or (ref.name if ref is not None else "")


def _target(place: Place, namespace: str) -> tuple[str, Key] | None:
    """Return what a sync of this namespace calls a SyncTarget, and which it is; None for a place that is none."""
    connection = place.connection
    if connection is None or connection.sync_target_ref is None:
        return None
    return _name(place), Key(connection.sync_target_namespace or namespace, connection.sync_target_ref.name)


def _written_kinds(sync: AnySync) -> dict[Key, frozenset[str]]:
    """Return the kinds that a sync has written to SyncTargets, as its status has them."""
    found: dict[Key, frozenset[str]] = {}
    written = read_written(sync.status.written)
    for entry in _written(sync.status):
        named = _target(Place(cluster=entry.name, connection=entry.connection), sync.metadata.namespace)
        if named is not None:
            found[named[1]] = written.get(entry.name, frozenset())
    return found


def _record(place: Place) -> WrittenCluster:
    assert place.connection is not None  # noqa: S101 - it is another cluster
    return WrittenCluster(name=place.cluster, connection=place.connection)


def _written(status: SyncStatus) -> list[WrittenCluster]:
    """Return the clusters that a sync has written to."""
    return status.clusters if isinstance(status, RemoteSyncStatus) else []


def _is_empty(site: Site, work: Work) -> bool:
    """Whether nothing of the sync is left in a cluster, as far as its kinds are watched."""
    owners = (structs.replace(site.owner, part=part) for part in work.parts)
    copies = (seen for owner in owners for seen in site.cluster.copies_of(owner.ref))
    return not any(seen.marker is not None and seen.marker.hub == site.owner.hub for seen in copies)


def _is_abandoned(work: Work) -> bool:
    """Whether the user has given up what is left in clusters that the spec no longer names."""
    return work.sync.metadata.annotations.get(ABANDON) == "true"


def _lost(work: Work, place: Place, error: KubeError) -> _Arrival:
    """Say of all targets of a place why it cannot be reached at all."""
    reason = error.reason if isinstance(error, NotResolved) else "CredentialUnreadable"
    named = structs.replace(place, cluster=_name(place))
    lost = _outcomes(work, named, ("Failed", reason, f"cluster {named.cluster}: {error}"))
    # What may not be used, or is not there, is not written to; other troubles pass.
    is_target = reason != "SyncTargetNotFound"
    return _Arrival(outcomes=lost, target=_target(named, work.sync.metadata.namespace) if is_target else None)


def _outcomes(
    work: Work, place: Place, why: tuple[TargetState, str, str], cluster: Cluster | None = None
) -> tuple[Outcome, ...]:
    """Say the same of all targets of a place, as far as they are known."""
    state, reason, message = why
    targets: list[Target] = []
    for ref in work.sources:
        name = work.target_name if work.target_name and not is_template(work.target_name) else ref.name
        scope = place.scope if place.scope is not None else Scope(names=frozenset({ref.namespace}))
        namespaces = set(scope.names)
        if cluster is not None:
            namespaces |= {one.name for one in cluster.namespaces.values() if scope.matches(one)}
        targets += [Target(namespace, name, ref.kind_name, place.cluster) for namespace in sorted(namespaces or {""})]
    return tuple(
        Outcome(target=target, state=state, reason=reason, message=message, retry=state == "Failed")
        for target in targets
    )


def _key(work: Work) -> Key:
    return user_key(work.sync.kind, Key(work.sync.metadata.namespace, work.sync.metadata.name))


def user_key(kind: str, key: Key) -> Key:
    """Name a sync among those of all kinds."""
    return Key(key.namespace, f"{kind}/{key.name}")
