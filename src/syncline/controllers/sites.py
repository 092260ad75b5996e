"""The clusters that a sync writes to, as it reaches them now."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct, structs

from syncline.api.status import SyncStatus
from syncline.controllers.survey import Site
from syncline.controllers.wakes import Wakes
from syncline.controllers.work import AnySync, Place, Work
from syncline.core.inventory import read_written, with_kinds
from syncline.core.outcome import Outcome
from syncline.core.scope import Scope
from syncline.core.spec_scope import ClusterSelector
from syncline.engine.cluster import Cluster, NotWatchedError
from syncline.kube.cache import Key
from syncline.kube.errors import KindNotServed

# How long a turn waits for the first list of a kind that an earlier turn has written.
LIST_PATIENCE = 2.0
NOWHERE = Scope()
# Longer than any write can take: an API server gives up after a minute.
LONGEST_WRITE = 120.0


class Reached(Struct, frozen=True, kw_only=True):
    """What could be reached, and what not."""

    sites: tuple[Site, ...] = ()
    former: tuple[Site, ...] = ()
    """Clusters that the spec no longer names and that may still hold copies."""
    outcomes: tuple[Outcome, ...] = ()
    """Targets in clusters that cannot be seen."""
    unsure: bool = False
    """Whether any place could not be looked at: then nothing is known to be done."""
    again: float | None = None
    superseded: tuple[Site, ...] = ()
    """Clusters by a name that the spec no longer has, and that it does name otherwise."""
    clusters: frozenset[str] = frozenset()
    """All other clusters that were tried."""
    warnings: tuple[str, ...] = ()
    """What will be wrong soon."""
    unmatched: tuple[str, ...] = ()
    """What of the spec leads to no cluster now."""
    unseen_kinds: frozenset[str] = frozenset()
    """The kinds that this sync has written in this cluster and that cannot be watched now."""


class Sites(Protocol):
    """Finds the clusters of syncs."""

    async def reach(self, work: Work, wakes: Wakes, *, former: bool = True) -> Reached:
        """Return the clusters of a sync; those that are out of reach become outcomes."""

    def record(self, work: Work, reached: Reached, status: SyncStatus) -> SyncStatus:
        """Note in the status what is about to be written to."""

    def selected(self, selector: ClusterSelector, namespace: str) -> frozenset[str]:
        """Return the connections that a selector of SyncTargets means now, for a sync of this namespace."""

    async def observe(self, sync: AnySync, outcomes: Sequence[Outcome] | None) -> None:
        """Note what a reconcile has found in the clusters of a sync; None: it did not look."""

    def forget(self, kind: str, key: Key) -> None:
        """Let go of what was held for a sync that is gone."""


class LocalSites:
    """For syncs that write to their own cluster only."""

    def __init__(self, hub: Cluster) -> None:
        self._hub = hub

    async def reach(self, work: Work, wakes: Wakes, *, former: bool = True) -> Reached:  # noqa: ARG002 - see the protocol
        """Return this cluster, with a view of every kind that the sync has written.

        Where the spec no longer has it, and the sync has written to it, it is a former one.
        """
        unseen = await self._open(local_kinds(work.sync.status))
        client = self._hub.acting_as(work.user)
        owner = structs.replace(work.sync.owner, keys=self._hub.marks.keys)
        sites = tuple(
            Site(place=place, cluster=self._hub, client=client, owner=owner) for place in work.places if place.local
        )
        left: tuple[Site, ...] = ()
        if former and not sites and local_kinds(work.sync.status):
            left = (Site(place=Place(scope=NOWHERE), cluster=self._hub, client=client, owner=owner),)
        return Reached(sites=sites, former=left, unsure=bool(unseen), unseen_kinds=unseen)

    def record(self, work: Work, reached: Reached, status: SyncStatus) -> SyncStatus:  # noqa: ARG002 - see the protocol
        """Note the kinds."""
        return with_kinds(status, {"": {ref.kind_name for ref in work.sources}})

    def selected(self, selector: ClusterSelector, namespace: str) -> frozenset[str]:  # noqa: ARG002 - see the protocol
        """Return nothing: there are no other clusters."""
        return frozenset()

    async def observe(self, sync: AnySync, outcomes: Sequence[Outcome] | None) -> None:
        """Nothing is to be said of this cluster."""

    def forget(self, kind: str, key: Key) -> None:
        """Nothing is held."""

    async def _open(self, kinds: tuple[str, ...]) -> frozenset[str]:
        """Watch the kinds that were written earlier; return those that cannot be."""
        unseen: set[str] = set()
        for name in kinds:
            kind, _, group = name.partition(".")
            try:
                await self._hub.complete(await self._hub.open(group, kind), LIST_PATIENCE)
            except KindNotServed as error:
                unseen |= set() if error.certain else {name}  # if it is, its objects went with it
            except NotWatchedError:
                unseen.add(name)
        return frozenset(unseen)


def emptied_kinds(work: Work, reached: Reached) -> dict[str, set[str]]:
    """Return the recorded kinds that the sync does not write any more and of which nothing is left, by cluster.

    A write that a crash left in flight may still make an object: so a kind must have been watched for longer than any
    request takes.
    """
    wanted = {ref.kind_name for ref in work.sources}
    recorded = read_written(work.sync.status.written)
    refs = [structs.replace(work.sync.owner, part=part).ref for part in work.parts]
    found: dict[str, set[str]] = {}
    for site in (*reached.sites, *reached.former):
        cluster, name = site.cluster, site.place.cluster
        for kind in recorded.get(name, frozenset()) - wanted - (frozenset() if name else reached.unseen_kinds):
            is_gone = not cluster.is_open(kind) or cluster.watched_for(kind) >= LONGEST_WRITE
            if is_gone and not any(cluster.copies_of(ref, kind) for ref in refs):
                found.setdefault(name, set()).add(kind)
    return found


def local_kinds(status: SyncStatus) -> tuple[str, ...]:
    """Return the kinds that a sync has written in its own cluster."""
    return tuple(sorted(read_written(status.written).get("", ())))
