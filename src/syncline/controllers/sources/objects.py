"""Object source: desired objects are copies of objects of a cluster, selected, renamed and transformed."""

from collections.abc import Mapping, Sequence
from typing import Generic

from msgspec import structs

from syncline.api.common import TargetState
from syncline.controllers.errors import QuotaError, SyncError
from syncline.controllers.lowered import AnySync, LoweredSpec, SourceObjects, Spec, Status, key_of
from syncline.controllers.sources.desired import DesiredSet, UnitResult
from syncline.controllers.sources.object_reader import ObjectReader, SourceCluster
from syncline.controllers.sources.source_memory import SourceAccount, SourceMemory
from syncline.controllers.state import SyncState
from syncline.controllers.targets.clusters import ConnectedClusters
from syncline.controllers.targets.managed_objects import managed_objects, object_key
from syncline.controllers.targets.prune import KeepSet
from syncline.controllers.targets.select import TargetSelection, select_targets
from syncline.controllers.targets.stages import DesiredAt
from syncline.controllers.targets.transform import render_targets
from syncline.controllers.targets.unmatched import unmatched_namespaces, unmatched_sources
from syncline.controllers.targets.visibility import Visibility
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.core.selectors import selector_matches
from syncline.core.spec_scope import SourceScope
from syncline.engine.claims import Claim, Claims
from syncline.engine.cluster import Cluster
from syncline.engine.watch_index import WatchSet
from syncline.kube.cache import Key
from syncline.render.transform_pool import TransformPool


class ObjectReading(Generic[Spec, Status]):
    """The reading of the source objects of one reconcile."""

    def __init__(
        self,
        lowered: LoweredSpec[Spec, Status],
        reader: ObjectReader,
        renderer: TransformPool,
        hub: Cluster,
        *,
        at: SourceCluster,
        visibility: Visibility | None,
        account: SourceAccount,
    ) -> None:
        self.lowered = lowered
        self._account = account
        self._reader = reader
        self._renderer = renderer
        self._hub = hub
        self._at = at
        self._visibility = visibility
        self._read = SourceObjects()
        self._selection: TargetSelection | None = None

    async def desired(self, unit: str, clusters: ConnectedClusters) -> DesiredSet:
        """Read the sources, select their targets, and render the desired objects."""
        lowered = self.lowered
        self._read = read = await self._reader.read_sources(lowered, self._at, self._account)
        self._selection = selection = await select_targets(
            lowered, clusters.sites, read.sources, self._renderer, self._visibility
        )
        rendered = await render_targets(lowered, selection.copies, read.patches, self._renderer, self._hub.key)
        waiting = await self.waiting_targets(clusters, read.absent)
        outcomes = [*rendered.failed, *selection.unresolved_names, *selection.skipped]
        outcomes += [
            _pending(one.target, "Pending", "SourceNotFound", "waits for the source") for one in waiting.copies
        ]
        outcomes += waiting.skipped
        targets = [*(copy.target for copy in selection.copies), *(outcome.target for outcome in outcomes)]
        missing = unmatched_sources(lowered, read.sources)
        return DesiredSet(
            unit=unit,
            revision=read.revision,
            clusters=clusters,
            items=tuple(
                DesiredAt(copy.site, desired, source=copy.source, hidden=copy.hidden)
                for copy, desired in rendered.desired
            ),
            keep=await self._keep_set(clusters, selection, waiting),
            problem=read.problem,
            outcomes=tuple(outcomes),
            targets=len(selection.copies),
            observed=read.observed,
            unmatched=tuple(missing or unmatched_namespaces(lowered, clusters.sites, targets)),
        )

    def watches(self, clusters: ConnectedClusters) -> tuple[WatchSet, Claim | None] | None:
        """Watch other clusters, names that come from templates, and namespaces of the sources, once they are read."""
        if self._selection is None:
            return None
        lowered = self.lowered
        basic = lowered.watches()
        wants = [claimed for claimed in self._selection.wants() if claimed.name not in basic.names]
        scopes = {
            (site.cluster.name, scope.digest()): (site.cluster.name, scope)
            for site in clusters.sites
            if site.cluster.name or site.destination.scope is None
            for source in self._read.sources
            for scope in (site.destination.scope_of(source.target, lowered.guarded),)
        }
        watches = structs.replace(
            basic,
            names=basic.names | {claimed.name for claimed in wants},
            scopes=(*basic.scopes, *scopes.values()),
            clusters=clusters.clusters,
        )
        return watches, lowered.claim(tuple(wants))

    async def selected(self, scopes: Sequence[SourceScope]) -> Mapping[str, frozenset[str]]:
        """Return the sources that selectors match: from this reading for the spec, by a list for former selectors."""
        known = {scope.key: self._matching(scope) for scope in scopes if self._is_read(scope)}
        for scope in scopes:
            if scope.selector is not None and scope.key not in known:
                known[scope.key] = await self._reader.selected(self._at, scope)
        return known

    async def waiting_targets(
        self, clusters: ConnectedClusters, absent: Sequence[Target] | None = None
    ) -> TargetSelection:
        """Select the targets of named sources that do not exist, or could not be read."""
        sources = self._reader.placeholders(self.lowered, self._at)
        waiting = [source for source in sources if absent is None or source.target in absent]
        if not waiting:
            return TargetSelection()
        try:
            return await select_targets(self.lowered, clusters.sites, waiting, self._renderer, self._visibility)
        except SyncError:
            return TargetSelection()

    async def _keep_set(
        self, clusters: ConnectedClusters, selection: TargetSelection, waiting: TargetSelection
    ) -> KeepSet:
        """Return the wanted copies, and those that the policy keeps although their source is gone."""
        lowered, read = self.lowered, self._read
        deleted: frozenset[str] = frozenset()
        if lowered.source_deletion_policy == "Orphan" and not lowered.is_single:
            made_from = {
                observed.marker.source for _, observed in managed_objects(clusters) if observed.marker is not None
            }
            gone = made_from - {str(source) for source in read.sources}
            deleted = await self._reader.deleted_sources(lowered, self._at, gone)
        uncertain = (selection.unresolved_names, waiting.unresolved_names, selection.refused, waiting.refused)
        return KeepSet(
            targets=frozenset(object_key(copy.site, copy.target) for copy in selection.copies),
            orphans=frozenset(object_key(copy.site, copy.target) for copy in waiting.copies),
            absent=deleted | {f"{target.kind}/{target.namespace}/{target.name}" for target in read.absent},
            certain=not any(uncertain),
            missing=read.absent,
            missing_message=read.problem.message if read.problem is not None else "",
        )

    def _is_read(self, scope: SourceScope) -> bool:
        return scope.selector is not None and scope in self.lowered.scope.sources

    def _matching(self, scope: SourceScope) -> frozenset[str]:
        selector = scope.selector
        return frozenset(
            str(source)
            for source in self._read.sources
            if selector is not None
            and source.target.kind == scope.kind
            and source.target.namespace in ("", scope.namespace)
            and selector_matches(selector, source.meta.labels)
        )


class ObjectSource:
    """Reads source objects for the syncs of one kind."""

    def __init__(
        self,
        hub: Cluster,
        claims: Claims,
        renderer: TransformPool,
        allowed_kinds: frozenset[str],
        memory: SourceMemory,
    ) -> None:
        self._hub = hub
        self._claims = claims
        self._renderer = renderer
        self._reader = ObjectReader(hub, claims, allowed_kinds)
        self._memory = memory
        self._accounts: dict[Key, SourceAccount] = {}

    async def read(
        self,
        lowered: LoweredSpec[Spec, Status],
        state: SyncState,  # noqa: ARG002 - see the protocol
        *,
        preview: bool = False,
        at: SourceCluster | None = None,
    ) -> ObjectReading[Spec, Status]:
        """Begin to read. `at` is the cluster of the sources, by default the cluster of the sync."""
        # A preview reads with the rights of the user who runs it.
        visibility = None if preview else self._visibility(lowered)
        namespace = lowered.sync.metadata.namespace
        # A preview runs in the command of one user, and shares its memory with no other sync.
        account = SourceAccount(SourceMemory() if preview else self._memory, namespace)
        if not preview:
            self.end(key_of(lowered.sync))
            self._accounts[key_of(lowered.sync)] = account
        return self._reading(lowered, at or self._reader.here(lowered), visibility, account)

    async def unknown_targets(
        self, lowered: LoweredSpec, clusters: ConnectedClusters, error: SyncError
    ) -> Sequence[Outcome] | None:
        """Return the targets of all named sources as Unknown."""
        if (claim := lowered.claim()) is not None:
            self._claims.replace_extended(claim)
        if lowered.suspended or isinstance(error, QuotaError):
            return None
        account = SourceAccount(self._memory, lowered.sync.metadata.namespace)
        reading = self._reading(lowered, self._reader.here(lowered), self._visibility(lowered), account)
        waiting = await reading.waiting_targets(clusters)
        why = "not read: see the Ready condition of the sync"
        outcomes = [_pending(copy.target, "Unknown", error.reason, why) for copy in waiting.copies]
        return [*outcomes, *waiting.skipped, *clusters.outcomes]

    def _reading(
        self,
        lowered: LoweredSpec[Spec, Status],
        at: SourceCluster,
        visibility: Visibility | None,
        account: SourceAccount,
    ) -> ObjectReading[Spec, Status]:
        return ObjectReading(
            lowered, self._reader, self._renderer, self._hub, at=at, visibility=visibility, account=account
        )

    def _visibility(self, lowered: LoweredSpec) -> Visibility:
        return Visibility(lowered, self._hub, self._claims.access)

    def begin(self, key: Key) -> None:
        """Nothing is held."""

    def end(self, key: Key) -> None:
        """Release the memory of the sources."""
        if (account := self._accounts.pop(key, None)) is not None:
            account.release()

    def finished(self, lowered: LoweredSpec, units: Sequence[UnitResult], *, settled: bool) -> None:
        """Nothing is held."""

    def observe_health(self, lowered: LoweredSpec, state: SyncState, result: UnitResult) -> bool:  # noqa: ARG002 - see the protocol
        """Choose nothing: sources have no earlier revisions."""
        return False

    async def report_upward(self, lowered: LoweredSpec, desired: DesiredSet, state: SyncState) -> None:
        """Report nothing: the status of a copy concerns its own cluster."""

    async def finalize(self, lowered: LoweredSpec, state: SyncState) -> str:  # noqa: ARG002 - see the protocol
        """Remove nothing: only two-way syncs write to a source, and their changes stay."""
        return ""

    def sync_changed(self, key: Key, old: AnySync | None, new: AnySync | None) -> None:
        """Nothing is held."""

    def forget(self, key: Key) -> None:
        """Nothing is held."""


def _pending(target: Target, state: TargetState, reason: str, message: str) -> Outcome:
    return Outcome(target=target, state=state, reason=reason, message=message)
