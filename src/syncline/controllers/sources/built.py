"""Built source: desired objects are built from the files of repositories, or from the keys of an object.

A reading prepares all environments first, and then validates each for its clusters. A reconcile waits for nothing: a
fetch or a build that is not done yet enqueues the sync when it is, so that a newer commit is always used at once.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from msgspec import structs

from syncline.api.common import PUSHED_AT, REQUESTED_AT
from syncline.api.configsync import ConfigSyncSpec, ConfigSyncStatus
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import AnySync, LoweredSpec, WriteRef, key_of, spec_of
from syncline.controllers.quotas import Quotas
from syncline.controllers.sources.build import BuildRequest, ManifestBuilder, RevisionBuilder
from syncline.controllers.sources.changes import ChangeFilter, built_from
from syncline.controllers.sources.checks import RepositoryChecks
from syncline.controllers.sources.dependencies import DependencyGraph
from syncline.controllers.sources.desired import DesiredSet, UnitResult
from syncline.controllers.sources.environments import BuiltSync, is_reconcile_requested, spec_claim, spec_watches
from syncline.controllers.sources.git import GitSources
from syncline.controllers.sources.prepared import PreparedRevision, within_limits
from syncline.controllers.sources.push_records import PushRecords
from syncline.controllers.sources.references import ReferenceReader, Requester
from syncline.controllers.sources.revision import RevisionSelector
from syncline.controllers.sources.validation import RevisionValidator, skip_clusters
from syncline.controllers.sources.webhook_secrets import NamedSecret, WebhookSecrets
from syncline.controllers.state import SyncState
from syncline.controllers.targets.clusters import ConnectedClusters, TargetCluster
from syncline.controllers.targets.prune import KeepSet
from syncline.controllers.targets.stages import DesiredAt, for_cluster
from syncline.controllers.tenancy import Tenancy
from syncline.core.environments import environments_of
from syncline.core.objects import Desired, Target
from syncline.core.outcome import Outcome
from syncline.core.scope import Scope
from syncline.core.spec_scope import SourceScope
from syncline.engine.claims import Claim, ClaimedTarget
from syncline.engine.cluster import Cluster
from syncline.engine.watch_index import WatchSet
from syncline.engine.writer import Writer
from syncline.git import Mirrors
from syncline.kube.cache import Key
from syncline.kube.resources import Resource

BuiltSpec = LoweredSpec[ConfigSyncSpec, ConfigSyncStatus]

# Other syncs that want the same object are never its source.
_GIT = Target("", "", "")


class SourceHost(Protocol):
    """The reconciler that a source serves."""

    def get(self, key: Key) -> BuiltSync | None:
        """Return a sync with its trusted status."""

    def trusted(self, sync: BuiltSync) -> BuiltSync:
        """Return a sync from a watch with its trusted status."""

    def enqueue(self, key: Key) -> None:
        """Reconcile a sync soon."""

    def writer(self, site: TargetCluster) -> Writer:
        """Return the writer for a cluster."""


class BuiltReading:
    """The revisions that one reconcile has prepared."""

    def __init__(
        self,
        lowered: BuiltSpec,
        spec: ConfigSyncSpec,
        prepared: Sequence[PreparedRevision],
        state: SyncState,
        validator: RevisionValidator,
    ) -> None:
        self._spec = spec
        self._state = state
        self._validator = validator
        self._prepared = {one.environment.name: one for one in prepared}
        self.lowered = structs.replace(lowered, writes=_writes(prepared))

    async def desired(self, unit: str, clusters: ConnectedClusters) -> DesiredSet:
        """Validate a revision as a whole. Return it, or the revision that was applied before."""
        prepared = await self._validator.validate(
            self.lowered, self._spec, self._prepared[unit], clusters.sites, self._state.unit(unit)
        )
        self._prepared[unit] = prepared
        self.lowered = structs.replace(self.lowered, writes=_writes(self._prepared.values()))
        sites, withheld = skip_clusters(prepared, clusters.sites)
        return DesiredSet(
            unit=unit,
            revision=prepared.revision,
            clusters=clusters,
            items=tuple(DesiredAt(site, for_cluster(site, one)) for site in sites for one in prepared.desired()),
            keep=KeepSet(frozenset((site.cluster.uid, one.target) for site in sites for one in prepared.desired())),
            certain=prepared.certain,
            problem=prepared.problem,
            known=prepared.artifact is not None,
            outcomes=tuple(withheld),
            withheld=tuple(withheld),
            targets=len(prepared.desired()) * len(clusters.sites),
            prepared=prepared,
        )

    def watches(self, clusters: ConnectedClusters) -> tuple[WatchSet, Claim | None]:
        """Watch the objects, their namespaces, and other clusters."""
        targets = [one.target for prepared in self._prepared.values() for one in prepared.desired()]
        wants = tuple(
            ClaimedTarget((site.cluster.name, target.kind, target.name), _own_namespace(target), _GIT)
            for target in targets
            for site in clusters.sites
        )
        namespaces = Scope(names=frozenset(target.namespace for target in targets if target.namespace))
        watches = structs.replace(
            spec_watches(self.lowered.sync, self._spec),
            names=frozenset(claimed.name for claimed in wants),
            scopes=tuple((site.cluster.name, namespaces) for site in clusters.sites),
            clusters=clusters.clusters,
        )
        return watches, spec_claim(self.lowered.sync, self._spec, self.lowered.user, wants)

    async def selected(self, scopes: Sequence[SourceScope]) -> Mapping[str, frozenset[str]]:  # noqa: ARG002 - see the protocol
        """Files have no selectors."""
        return {}


class BuiltSource:
    """Builds revisions for all ConfigSyncs."""

    def __init__(
        self,
        host: SourceHost,
        hub: Cluster,
        tenancy: Tenancy,
        quotas: Quotas,
        *,
        resource: Resource,
        mirrors: Mirrors,
        builder: ManifestBuilder,
    ) -> None:
        self._host = host
        self._tenancy = tenancy
        references = ReferenceReader(hub)
        self._git = GitSources(references, mirrors, quotas)
        self._selector = RevisionSelector(self._git, RevisionBuilder(hub, references, builder, quotas))
        self._builder = builder
        self._validator = RevisionValidator(builder, host.writer)
        self._dependencies = DependencyGraph()
        self._push_records = PushRecords(hub.client, resource)
        self._changes = ChangeFilter(mirrors, host.enqueue)
        self.checks = RepositoryChecks(self._git)
        self.webhook_secrets: WebhookSecrets[BuiltSync] = WebhookSecrets(
            hub, references, host.get, lambda sync: self._requester(sync, spec_of(sync)), _webhook_secret
        )

    def repository_changed(self, who: object) -> None:
        """Handle that a repository of a sync has changed, has failed, or answers again."""
        match who:
            case (Key() as key, str(remote)):
                self._changes.on_push(key, remote)

    async def pushed(self, namespace: str, name: str, *, leading: bool) -> None:
        """Check a repository after a push webhook, or leave it to the leader. Raises `KubeError`."""
        key = Key(namespace, name)
        if leading:
            self.checks.start(key)
        else:
            await self._push_records.record(key)

    def hook_secrets(self, namespace: str, name: str) -> tuple[bytes, ...] | None:
        """Return the secrets that verify a push for a sync: empty without a secret, None without such a sync."""
        key = Key(namespace, name)
        return self.webhook_secrets.of(key) if self._host.get(key) is not None else None

    def begin(self, key: Key) -> None:
        """Let every push from now on cause a reconcile."""
        self._changes.forget(key)

    def end(self, key: Key) -> None:
        """Release nothing: builds are cached for the next reconcile, within their own limits."""

    async def read(self, lowered: BuiltSpec, state: SyncState, *, preview: bool = False) -> BuiltReading:
        """Choose the revision of each environment, and build it. A preview follows no repository and waits for none."""
        sync = lowered.sync
        spec = spec_of(sync)
        requester = self._requester(sync, spec)
        environments = environments_of(spec, sync.metadata.namespace)
        unready: SyncError | None = None
        if not sync.status.observed_generation:
            self._builder.warm()  # a new sync builds everything: the worker starts during the check and the fetch
        if not preview:
            with suppress(SyncError):  # each environment reports it
                await self._git.follow(requester, environments)
            await self.checks.complete(requester.key)
            unready = self._dependencies.problem(requester.key, spec, self._host.get)
        report = not preview and _must_report_revision(sync)
        requests = [
            BuildRequest(requester=requester, spec=spec, environment=environment, force_report=report)
            for environment in environments
        ]
        prepared = await asyncio.gather(*(self._selector.prepare(one, sync, state, unready) for one in requests))
        allowed = [within_limits(one.unpack(), requester.limits) for one in prepared]
        return BuiltReading(structs.replace(lowered, limits=requester.limits), spec, allowed, state, self._validator)

    async def unknown_targets(
        self,
        lowered: BuiltSpec,  # noqa: ARG002 - see the protocol
        clusters: ConnectedClusters,  # noqa: ARG002
        error: SyncError,  # noqa: ARG002
    ) -> Sequence[Outcome] | None:
        """Return None: without a build no target is known."""
        return None

    def finished(self, lowered: BuiltSpec, units: Sequence[UnitResult], *, settled: bool) -> None:
        """Record the inputs of a settled sync: a push that changes none of them needs no reconcile."""
        key = key_of(lowered.sync)
        if settled:
            self._changes.remember(key, built_from(spec_of(lowered.sync), units, self._git.open_remotes(key)))

    async def report_upward(self, lowered: BuiltSpec, desired: DesiredSet, state: SyncState) -> None:
        """Report nothing: a repository has no status."""

    async def finalize(self, lowered: BuiltSpec, state: SyncState) -> str:  # noqa: ARG002 - see the protocol
        """Remove nothing: nothing is written to a repository."""
        return ""

    def observe_health(self, lowered: BuiltSpec, state: SyncState, result: UnitResult) -> bool:
        """Record the health of a revision. If it has failed, an earlier one may be chosen."""
        unit = state.unit(result.desired.unit)
        failed = result.health == "Failed"
        falls_back = failed and unit.health != "Failed" and spec_of(lowered.sync).failure_policy == "Rollback"
        unit.health = result.health
        prepared = result.desired.prepared
        if failed and prepared is not None and prepared.artifact is not None:
            unit.failed = prepared.artifact.inputs
        return falls_back

    def sync_changed(self, key: Key, old: BuiltSync | None, new: BuiltSync | None) -> None:
        """Record the dependencies of a sync, and check its repositories if its user expects the newest commit."""
        self.webhook_secrets.sync_changed(key, new)
        if new is None:
            self._dependencies.drop(key)
            self.checks.forget(key)
        else:
            if new.spec is not None and (old is None or _is_other_spec(old, new)):
                self._dependencies.put(key, spec_of(new))
            if old is None or _requested_by_user(old) != _requested_by_user(new):
                # A user who creates, edits or resumes a sync, or requests a reconcile, expects the newest commit.
                self.checks.require(key)
            elif old.metadata.annotations.get(PUSHED_AT) != new.metadata.annotations.get(PUSHED_AT):
                self.checks.start(key)
        if self._dependencies.is_news(old, self._host.trusted(new) if new is not None else None):
            for dependent in self._dependencies.of(key):
                self._host.enqueue(dependent)

    def forget(self, key: Key) -> None:
        """Stop following the repositories of a sync."""
        self._git.forget(key)
        self._changes.forget(key)

    def _requester(self, sync: BuiltSync, spec: ConfigSyncSpec) -> Requester:
        namespace = sync.metadata.namespace
        return Requester(
            key=key_of(sync),
            user=self._tenancy.user(namespace, spec.service_account_name),
            interval=self._tenancy.interval(spec.refresh_interval),
            limits=self._tenancy.limits(namespace),
        )


def _webhook_secret(sync: BuiltSync) -> NamedSecret | None:
    """Return the Secret that verifies pushes for a sync; a suspended sync reads none."""
    spec = sync.spec
    if spec is None or spec.webhook is None or spec.suspend:
        return None
    return NamedSecret(spec.webhook.secret_ref.name, spec.webhook.secret_ref.key)


def _own_namespace(target: Target) -> Scope | None:
    return Scope(names=frozenset({target.namespace})) if target.namespace else None


def _writes(prepared: Iterable[PreparedRevision]) -> tuple[WriteRef, ...]:
    return tuple({one.target: _write_ref(one) for revision in prepared for one in revision.desired()}.values())


def _write_ref(desired: Desired) -> WriteRef:
    target = desired.target
    group, kind = target.group_kind
    version = desired.body.api_version.rpartition("/")[2] if desired.body is not None else "v1"
    return WriteRef(group=group, version=version, kind=kind, namespace=target.namespace, name=target.name)


def _requested_by_user(sync: AnySync) -> tuple[object, ...]:
    """Return the identifier of the user's request: the spec, and the last request to reconcile."""
    return sync.metadata.uid, sync.metadata.generation, sync.metadata.annotations.get(REQUESTED_AT)


def _is_other_spec(old: AnySync, new: AnySync) -> bool:
    return (old.metadata.uid, old.metadata.generation) != (new.metadata.uid, new.metadata.generation) or new.deleting


def _must_report_revision(sync: AnySync) -> bool:
    """Whether the status is written in any case. Then it names the newest revision, even without a change."""
    return is_reconcile_requested(sync) or sync.status.observed_generation != sync.metadata.generation
