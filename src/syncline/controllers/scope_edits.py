"""Scope edits: which of the objects that a sync no longer wants were removed by an edit of its spec.

Collects what `core.scope_record` decides by: the objects, and what the selectors of former and new scope mean today.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from syncline.api.status import RemoteSyncStatus
from syncline.controllers.lowered import LoweredSpec, SourceObjects, connection_id, source_scope
from syncline.controllers.sources.environments import as_environment, removed_from_spec
from syncline.controllers.sources.objects import ObjectReader
from syncline.controllers.sources.prepared import PreparedRevision, keep_set_of
from syncline.controllers.targets.clusters import ClusterResolver, ConnectedClusters
from syncline.controllers.targets.prune import KEEP_NOTHING, KeepSet, Managed, managed_id, prune_candidates
from syncline.core.scope_record import (
    ScopeRecord,
    Unseen,
    decode_record,
    encode_record,
    is_judged,
    judge,
    without_removals,
)
from syncline.core.selectors import selector_matches
from syncline.core.spec_scope import ManagedObject, SourceScope, SpecScope, Today


class ScopeEdit(Struct, frozen=True):
    """What the edits of a spec come to; without a record nothing could be judged."""

    record: ScopeRecord | None = None
    requested: frozenset[bytes] = frozenset()
    """The unwanted objects that edits have removed, by `managed_id`."""

    @property
    def text(self) -> str | None:
        """What to record in the status."""
        return encode_record(self.record) if self.record is not None else None

    def after(self, left: Iterable[Managed]) -> str | None:
        """Return what to record once the removals were tried, and these objects are left."""
        if self.record is None or not self.requested:
            return self.text
        gone = self.requested - {managed_id(*one) for one in left}
        return encode_record(without_removals(self.record, gone))


class ScopeEditJudge:
    """Judges the edits of the syncs of one kind."""

    def __init__(self, sites: ClusterResolver, gatherer: ObjectReader | None = None) -> None:
        self._sites = sites
        self._reader = gatherer

    async def judge_copies(
        self, lowered: LoweredSpec, connected: ConnectedClusters, sources_read: SourceObjects, wanted: KeepSet
    ) -> ScopeEdit:
        """Judge the copies that a sync no longer wants; not as long as not all their names are known."""
        if not wanted.certain:
            return ScopeEdit()
        record = decode_record(lowered.sync.status.scope)
        if is_judged(record, lowered.scope):
            return ScopeEdit(record)
        sources = await self._selected_sources(lowered, record, sources_read)
        found = [*_managed(connected, prune_candidates(lowered, connected, wanted), copies=True)]
        return self._judge(lowered, connected, record, found, sources=sources)

    def judge_built(
        self, lowered: LoweredSpec, connected: ConnectedClusters, revisions: Sequence[PreparedRevision]
    ) -> ScopeEdit:
        """Judge the objects that environments no longer want, wherever it is known what Git wants now."""
        record = decode_record(lowered.sync.status.scope)
        if is_judged(record, lowered.scope):
            return ScopeEdit(record)
        departed = removed_from_spec(lowered)
        certain = {
            prepared.environment.name: prepared
            for prepared in revisions
            if prepared.certain and prepared.artifact is not None
        }
        found: list[ManagedObject] = []
        for name in departed:
            left = prune_candidates(lowered, as_environment(connected, name), KEEP_NOTHING)
            found += _managed(connected, left, name, copies=False)
        for name, prepared in certain.items():
            part = as_environment(connected, name, departed)
            found += _managed(
                connected, prune_candidates(lowered, part, keep_set_of(part, prepared)), name, copies=False
            )
        uncertain = frozenset(
            prepared.environment.name for prepared in revisions if prepared.environment.name not in certain
        )
        return self._judge(lowered, connected, record, found, uncertain=uncertain)

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
            clusters={selector.key: self._sites.selected(selector, namespace) for selector in selectors},
            sources=sources or {},
        )
        unseen = Unseen(
            environments=uncertain, clusters=_unseen_clusters(lowered, connected), kinds=connected.unseen_kinds
        )
        judged = judge(record, lowered.scope, found, today, unseen)
        return ScopeEdit(judged.record, judged.requested)

    async def _selected_sources(
        self, lowered: LoweredSpec, record: ScopeRecord | None, sources_read: SourceObjects
    ) -> dict[str, frozenset[str]]:
        """Return the sources that the selectors of all scopes mean today."""
        now = {scope.key: scope for scope in map(source_scope, lowered.sources) if scope.selector is not None}
        known = {key: _matching(scope, sources_read) for key, scope in now.items()}
        for scope in _scopes(record, lowered):
            for source in scope.sources:
                if source.selector is not None and source.key not in known and self._reader is not None:
                    known[source.key] = await self._reader.selected(lowered, source)
        return known


def _managed(
    connected: ConnectedClusters, objects: Iterable[Managed], environment: str = "", *, copies: bool
) -> Iterator[ManagedObject]:
    ways: dict[str, set[str]] = {}
    for site in (*connected.sites, *connected.former, *connected.renamed):
        ways.setdefault(site.cluster.uid, set()).add(connection_id(site.destination.connection))
    connections = {uid: frozenset(found) for uid, found in ways.items()}
    for site, seen in objects:
        target = seen.target
        yield ManagedObject(
            id=managed_id(site, seen),
            environment=environment,
            connections=connections[site.cluster.uid],
            cluster=site.destination.cluster,
            kind=target.kind,
            namespace=site.cluster.namespace(target.namespace) if target.namespace else None,
            name=target.name,
            source=seen.marker.source if copies and seen.marker is not None else "",
        )


def _matching(scope: SourceScope, sources_read: SourceObjects) -> frozenset[str]:
    selector = scope.selector
    if selector is None:
        return frozenset()
    return frozenset(
        str(source)
        for source in sources_read.sources
        if source.target.kind == scope.kind
        and source.target.namespace in ("", scope.namespace)
        and selector_matches(selector, source.meta.labels)
    )


def _scopes(record: ScopeRecord | None, lowered: LoweredSpec) -> list[SpecScope]:
    """Return the recorded scopes and that of the spec."""
    if record is None:
        return [lowered.scope]
    former = [one.scope for one in record.earlier]
    return [*former, *([record.scope] if record.scope is not None else []), lowered.scope]


def _unseen_clusters(lowered: LoweredSpec, connected: ConnectedClusters) -> frozenset[str]:
    """Return the clusters that were written to and cannot be looked at now."""
    status = lowered.sync.status
    written = {entry.name for entry in status.clusters} if isinstance(status, RemoteSyncStatus) else set()
    return frozenset(
        written - {site.destination.cluster for site in (*connected.sites, *connected.former, *connected.renamed)}
    )
