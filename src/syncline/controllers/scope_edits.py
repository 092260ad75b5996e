"""Scope edits: finds the unwanted objects of a sync that an edit of its spec has removed.

It collects the inputs of `core.scope_record`: the objects, and the present matches of the former and new selectors.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from syncline.api.status import RemoteSyncStatus
from syncline.controllers.lowered import LoweredSpec, connection_id
from syncline.controllers.sources.desired import DesiredSet, SourceReading
from syncline.controllers.targets.clusters import ConnectedClusters, for_unit
from syncline.controllers.targets.managed_objects import Managed, managed_id
from syncline.controllers.targets.prune import KEEP_NOTHING, prune_candidates
from syncline.core.scope_record import (
    ScopeRecord,
    Unseen,
    decode_record,
    encode_record,
    is_judged,
    judge,
    without_removals,
)
from syncline.core.spec_scope import ClusterSelector, ManagedObject, SpecScope, Today


class ScopeEdit(Struct, frozen=True):
    """The result of the edits of a spec. Without a record nothing could be judged."""

    record: ScopeRecord | None = None
    requested: frozenset[bytes] = frozenset()
    """The unwanted objects that edits have removed, by `managed_id`."""

    @property
    def text(self) -> str | None:
        """The text to record in the status."""
        return encode_record(self.record) if self.record is not None else None

    def after(self, left: Iterable[Managed]) -> str | None:
        """Return the text to record after the removals, with the objects that are left."""
        if self.record is None or not self.requested:
            return self.text
        gone = self.requested - {managed_id(*one) for one in left}
        return encode_record(without_removals(self.record, gone))


class ScopeEditJudge:
    """Judges the edits of the syncs of one kind."""

    def __init__(self, selected: Callable[[ClusterSelector, str], frozenset[str]]) -> None:
        """Take the function that returns the SyncTargets of a selector for a sync of a namespace."""
        self._selected = selected

    async def judge(
        self, reading: SourceReading, lowered: LoweredSpec, clusters: ConnectedClusters, desired: Sequence[DesiredSet]
    ) -> ScopeEdit:
        """Judge the unwanted objects of all units whose desired objects are known.

        Copies are not judged as long as not all their names are known.
        """
        if not all(one.keep.certain for one in desired):
            return ScopeEdit()
        record = decode_record(lowered.sync.status.scope)
        if is_judged(record, lowered.scope):
            return ScopeEdit(record)
        copies, removed = not lowered.staged or lowered.independent, lowered.removed_units
        found: list[ManagedObject] = []
        for name in removed:
            left = prune_candidates(lowered, for_unit(clusters, name), KEEP_NOTHING)
            found += _managed(clusters, left, name, copies=copies)
        certain = [one for one in desired if one.certain and one.known]
        for one in certain:
            unwanted = prune_candidates(lowered, for_unit(clusters, one.unit, removed), one.keep)
            found += _managed(clusters, unwanted, one.unit, copies=copies)
        uncertain = frozenset(one.unit for one in desired) - {one.unit for one in certain}
        # Without a record or without objects, the matches of selectors are not needed: the upstream is not read.
        scopes = _scopes(record, lowered) if record is not None and found else []
        sources = await reading.selected([one for scope in scopes for one in scope.sources])
        return self._judge(lowered, clusters, record, found, uncertain=uncertain, sources=sources)

    def _judge(
        self,
        lowered: LoweredSpec,
        connected: ConnectedClusters,
        record: ScopeRecord | None,
        found: list[ManagedObject],
        *,
        uncertain: frozenset[str] = frozenset(),
        sources: Mapping[str, frozenset[str]] | None = None,
    ) -> ScopeEdit:
        namespace = lowered.sync.metadata.namespace
        clusters = (one for scope in _scopes(record, lowered) for one in scope.clusters)
        selectors = [one.selector for one in clusters if one.selector is not None]
        today = Today(
            guarded=lowered.guarded,
            clusters={selector.key: self._selected(selector, namespace) for selector in selectors},
            sources=sources or {},
        )
        unseen = Unseen(
            environments=uncertain, clusters=_unseen_clusters(lowered, connected), kinds=connected.unseen_kinds
        )
        judged = judge(record, lowered.scope, found, today, unseen)
        return ScopeEdit(judged.record, judged.requested)


def _managed(
    connected: ConnectedClusters, objects: Iterable[Managed], environment: str = "", *, copies: bool
) -> Iterator[ManagedObject]:
    ways: dict[str, set[str]] = {}
    for site in (*connected.sites, *connected.former, *connected.renamed):
        ways.setdefault(site.cluster.uid, set()).add(connection_id(site.destination.connection))
    connections = {uid: frozenset(found) for uid, found in ways.items()}
    for site, observed in objects:
        target = observed.target
        yield ManagedObject(
            id=managed_id(site, observed),
            environment=environment,
            connections=connections[site.cluster.uid],
            cluster=site.destination.cluster,
            kind=target.kind,
            namespace=site.cluster.namespace(target.namespace) if target.namespace else None,
            name=target.name,
            source=observed.marker.source if copies and observed.marker is not None else "",
        )


def _scopes(record: ScopeRecord | None, lowered: LoweredSpec) -> list[SpecScope]:
    """Return the recorded scopes and the scope of the spec."""
    if record is None:
        return [lowered.scope]
    former = [one.scope for one in record.earlier]
    return [*former, *([record.scope] if record.scope is not None else []), lowered.scope]


def _unseen_clusters(lowered: LoweredSpec, connected: ConnectedClusters) -> frozenset[str]:
    """Return the written clusters that cannot be read now."""
    status = lowered.sync.status
    written = {entry.name for entry in status.clusters} if isinstance(status, RemoteSyncStatus) else set()
    return frozenset(
        written - {site.destination.cluster for site in (*connected.sites, *connected.former, *connected.renamed)}
    )
