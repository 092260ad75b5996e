"""Which of the objects that a sync no longer wants were removed by an edit of its spec.

Collects what `core.scope_record` decides by: the objects, and what the selectors of former and new scope mean today.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from syncline.api.status import RemoteSyncStatus
from syncline.controllers.gathering import Gathered, Gatherer
from syncline.controllers.laps import Lap
from syncline.controllers.parts import departed_parts, part_of, wanted_of
from syncline.controllers.removal import NOTHING_WANTED, Owned, Wanted, managed_id, unwanted
from syncline.controllers.sites import Reached, Sites
from syncline.controllers.work import Work, connection_id, source_scope
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


class JudgedEdit(Struct, frozen=True):
    """What the edits of a spec come to; without a record nothing could be judged."""

    record: ScopeRecord | None = None
    requested: frozenset[bytes] = frozenset()
    """The unwanted objects that edits have removed, by `managed_id`."""

    @property
    def text(self) -> str | None:
        """What to record in the status."""
        return encode_record(self.record) if self.record is not None else None

    def after(self, left: Iterable[Owned]) -> str | None:
        """Return what to record once the removals were tried, and these objects are left."""
        if self.record is None or not self.requested:
            return self.text
        gone = self.requested - {managed_id(*one) for one in left}
        return encode_record(without_removals(self.record, gone))


class ScopeJudge:
    """Judges the edits of the syncs of one kind."""

    def __init__(self, sites: Sites, gatherer: Gatherer | None = None) -> None:
        self._sites = sites
        self._gatherer = gatherer

    async def judge_copies(self, work: Work, reached: Reached, gathered: Gathered, wanted: Wanted) -> JudgedEdit:
        """Judge the copies that a sync no longer wants; not as long as not all their names are known."""
        if not wanted.certain:
            return JudgedEdit()
        record = decode_record(work.sync.status.scope)
        if is_judged(record, work.scope):
            return JudgedEdit(record)
        sources = await self._selected_sources(work, record, gathered)
        found = [*_managed(reached, unwanted(work, reached, wanted), copies=True)]
        return self._judge(work, reached, record, found, sources=sources)

    def judge_built(self, work: Work, reached: Reached, laps: Sequence[Lap]) -> JudgedEdit:
        """Judge the objects that environments no longer want, wherever it is known what Git wants now."""
        record = decode_record(work.sync.status.scope)
        if is_judged(record, work.scope):
            return JudgedEdit(record)
        departed = departed_parts(work)
        certain = {lap.track.name: lap for lap in laps if lap.certain and lap.made is not None}
        found: list[ManagedObject] = []
        for name in departed:
            left = unwanted(work, part_of(reached, name), NOTHING_WANTED)
            found += _managed(reached, left, name, copies=False)
        for name, lap in certain.items():
            part = part_of(reached, name, departed)
            found += _managed(reached, unwanted(work, part, wanted_of(part, lap)), name, copies=False)
        uncertain = frozenset(lap.track.name for lap in laps if lap.track.name not in certain)
        return self._judge(work, reached, record, found, uncertain=uncertain)

    def _judge(
        self,
        work: Work,
        reached: Reached,
        record: ScopeRecord | None,
        found: list[ManagedObject],
        *,
        uncertain: frozenset[str] = frozenset(),
        sources: Mapping[str, frozenset[str]] | None = None,
    ) -> JudgedEdit:
        namespace = work.sync.metadata.namespace
        clusters = (one for scope in _scopes(record, work) for one in scope.clusters)
        selectors = [one.selector for one in clusters if one.selector is not None]
        today = Today(
            guarded=work.guarded,
            clusters={selector.key: self._sites.selected(selector, namespace) for selector in selectors},
            sources=sources or {},
        )
        unseen = Unseen(environments=uncertain, clusters=_unseen_clusters(work, reached), kinds=reached.unseen_kinds)
        judged = judge(record, work.scope, found, today, unseen)
        return JudgedEdit(judged.record, judged.requested)

    async def _selected_sources(
        self, work: Work, record: ScopeRecord | None, gathered: Gathered
    ) -> dict[str, frozenset[str]]:
        """Return the sources that the selectors of all scopes mean today."""
        now = {scope.key: scope for scope in map(source_scope, work.sources) if scope.selector is not None}
        known = {key: _matching(scope, gathered) for key, scope in now.items()}
        for scope in _scopes(record, work):
            for source in scope.sources:
                if source.selector is not None and source.key not in known and self._gatherer is not None:
                    known[source.key] = await self._gatherer.selected(work, source)
        return known


def _managed(
    reached: Reached, objects: Iterable[Owned], environment: str = "", *, copies: bool
) -> Iterator[ManagedObject]:
    ways: dict[str, set[str]] = {}
    for site in (*reached.sites, *reached.former, *reached.superseded):
        ways.setdefault(site.cluster.uid, set()).add(connection_id(site.place.connection))
    connections = {uid: frozenset(found) for uid, found in ways.items()}
    for site, seen in objects:
        target = seen.target
        yield ManagedObject(
            id=managed_id(site, seen),
            environment=environment,
            connections=connections[site.cluster.uid],
            cluster=site.place.cluster,
            kind=target.kind,
            namespace=site.cluster.namespace(target.namespace) if target.namespace else None,
            name=target.name,
            source=seen.marker.source if copies and seen.marker is not None else "",
        )


def _matching(scope: SourceScope, gathered: Gathered) -> frozenset[str]:
    selector = scope.selector
    if selector is None:
        return frozenset()
    return frozenset(
        str(source)
        for source in gathered.sources
        if source.target.kind == scope.kind
        and source.target.namespace in ("", scope.namespace)
        and selector_matches(selector, source.meta.labels)
    )


def _scopes(record: ScopeRecord | None, work: Work) -> list[SpecScope]:
    """Return the recorded scopes and that of the spec."""
    if record is None:
        return [work.scope]
    former = [one.scope for one in record.earlier]
    return [*former, *([record.scope] if record.scope is not None else []), work.scope]


def _unseen_clusters(work: Work, reached: Reached) -> frozenset[str]:
    """Return the clusters that were written to and cannot be looked at now."""
    status = work.sync.status
    written = {entry.name for entry in status.clusters} if isinstance(status, RemoteSyncStatus) else set()
    return frozenset(written - {site.place.cluster for site in (*reached.sites, *reached.former, *reached.superseded)})
