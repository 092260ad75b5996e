"""Copies: the desired copy of an upstream object at each target. It accesses no cluster.

A copy is made once for each version of its source: an object that has not changed costs a look-up.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from syncline.api.common import ObjectMeta
from syncline.api.configsync import Ignored
from syncline.api.object_transforms import ObjectTransform
from syncline.api.workspacesync import WorkspaceSyncSpec, strategy_of
from syncline.controllers.lowered import SourceObject
from syncline.controllers.sources.held_objects import HeldObjects, MadeCopy
from syncline.controllers.sources.object_reader import SourceCluster
from syncline.controllers.sources.upstream_reader import UpstreamResource
from syncline.controllers.targets.clusters import TargetCluster
from syncline.controllers.targets.stages import DesiredAt, PairedObject
from syncline.core.desired import DesiredError, from_manifest
from syncline.core.digest import DigestKey, short_digest
from syncline.core.documents import has_many_values
from syncline.core.durations import seconds
from syncline.core.group_kind import GroupResource
from syncline.core.namespace_mapping import Workspace
from syncline.core.object_shapes import shape_of_kind
from syncline.core.object_transforms import (
    ObjectTransformError,
    TransformedObject,
    TransformStep,
    transform_variables,
    transformed,
)
from syncline.core.objects import Desired, Target
from syncline.core.outcome import Outcome
from syncline.core.pair_rules import PairRules
from syncline.core.placing import Placed
from syncline.core.plan import Policy
from syncline.core.selectors import selector_matches
from syncline.core.source_history import SourceVersion, is_regressed, read_source_version, source_version
from syncline.core.strip import NotCopyable
from syncline.core.tenancy import NO_LIMITS, TenantLimits
from syncline.core.upstream_objects import taken_down, why_left
from syncline.engine.twoway import Upstream
from syncline.engine.write_attempts import ConflictLimit
from syncline.fairness import FairSemaphore, on_behalf_of
from syncline.programs import in_thread

Json = dict[str, Any]
_SCALED = (Ignored(paths=["/spec/replicas"]),)


class ReplicaShare(Struct, frozen=True, kw_only=True):
    """The replicas of an object in one cluster."""

    number: int | None = None
    """None: the replicas of the upstream object."""
    scaled: bool = False
    """Whether another manager scales the copy (an autoscaler): then its replicas are left alone."""


_MANY_VALUES = 1_000
"""A copy with more values is made in a thread."""
_slots = FairSemaphore(2, share=1)
"""The large copies that are made at once: in total, and of one namespace."""


class CopyRules(Struct, frozen=True, kw_only=True):
    """The rules for the copies of one sync."""

    spec: WorkspaceSyncSpec
    workspace: Workspace
    key: DigestKey
    at: SourceCluster
    policies: Mapping[str, Policy]
    """By kind."""
    pairs: Mapping[str, PairRules]
    """By kind, for those whose copies may be edited."""
    resources: Mapping[str, str]
    """The resource of each kind, such as `deployments.apps`."""
    yielded: frozenset[Target] = frozenset()
    """The upstream objects that an older sync writes: they are only copied down."""
    limits: TenantLimits = NO_LIMITS
    """What TenantPolicies let the sync write, upstream too."""

    def pair_at(self, cluster: str, source: Target) -> PairRules | None:
        """Return the rules for an upstream object and its copy in a cluster: one cluster alone writes upstream."""
        rules = self.pairs.get(source.kind)
        if rules is None or not rules.two_way:
            return rules
        may_write = self.is_writer(cluster, source) and self.limits.target(source.kind, source.namespace) is None
        return rules if may_write else structs.replace(rules, two_way=False)

    def is_writer(self, cluster: str, source: Target) -> bool:
        """Whether the copies in a cluster are to be written to an upstream object, if the limits allow it."""
        rules, downstream = self.pairs.get(source.kind), self.spec.downstream
        only = downstream.sync_targets[0] if len(downstream.sync_targets) == 1 else ""
        is_chosen = cluster == (downstream.writer or only) and source not in self.yielded
        return rules is not None and rules.two_way and is_chosen


class CopyMaker:
    """Makes the copies of one reconcile. Cached copies that it does not use are dropped at its end."""

    def __init__(self, rules: CopyRules, generation: int, held: HeldObjects) -> None:
        self._rules = rules
        self._generation = generation
        self._held = held
        retry = rules.spec.retry
        self._limit = ConflictLimit(retries=retry.max_retries, delay=seconds(retry.delay))
        self._made: dict[tuple[str, Target], MadeCopy] = {}
        self._prepared: dict[tuple[str, Target], DesiredAt | Outcome] = {}
        self.regressed: list[tuple[SourceObject, SourceVersion]] = []
        """Sources with an earlier version than the one their copies were made from."""

    def make(
        self, site: TargetCluster, source: SourceObject, target: Target, replicas: ReplicaShare, *, own: bool = False
    ) -> DesiredAt | Outcome:
        """Return the copy of an object at a target, or the outcome of a target that has none.

        `own`: its namespace must be one that the sync has created.
        """
        place = (site.destination.cluster, source.target)
        known = self._known(site, source, target, replicas)
        if known is None:
            prepared = self._prepared.pop(place, None)
            made = prepared or self._make(site, source, target, replicas)
            known = MadeCopy(source, self._inputs(site, source, target, replicas), made)
            if (seen := _seen_later(site, source, target)) is not None:
                self.regressed.append((source, seen))
        if not self.regressed:  # otherwise all are checked again
            self._made[place] = known
        # The name may refer to another cluster than last time.
        if isinstance(known.item, Outcome):
            return known.item
        return structs.replace(known.item, site=site, in_own_namespace=own)

    async def prepare(self, site: TargetCluster, source: SourceObject, target: Target, replicas: ReplicaShare) -> None:
        """Make a large copy in a thread, of which tenants have a fair share, so that `make` need not make it."""
        if not has_many_values(source.manifest, _MANY_VALUES):
            return
        if self._known(site, source, target, replicas) is None:
            async with _slots.slot(on_behalf_of.get()):
                made = await in_thread(self._make, site, source, target, replicas)
            self._prepared[site.destination.cluster, source.target] = made

    def _known(
        self, site: TargetCluster, source: SourceObject, target: Target, replicas: ReplicaShare
    ) -> MadeCopy | None:
        """Return the copy of an earlier reconcile, if its inputs are the same."""
        known = self._held.copies.get((site.destination.cluster, source.target))
        if known is None or known.source is not source:
            return None
        return known if known.made_with == self._inputs(site, source, target, replicas) else None

    def _inputs(
        self, site: TargetCluster, source: SourceObject, target: Target, replicas: ReplicaShare
    ) -> tuple[object, ...]:
        return (
            target,
            self._generation,
            self._rules.key.id,
            site.labels,
            replicas,
            self._rules.workspace,
            self._rules.at.cluster.name,
            source.target in self._rules.yielded,
        )

    def is_source(self, site: TargetCluster, source: SourceObject, target: Target) -> bool:
        """Whether a target is the upstream object itself."""
        is_same_name = (target.namespace, target.name) == (source.target.namespace, source.target.name)
        return is_same_name and site.cluster.uid == self._rules.at.cluster.uid

    def writes_upward(self, site: TargetCluster, source: SourceObject) -> bool:
        """Whether the copy in a cluster is to be written to its source."""
        return self._rules.is_writer(site.destination.cluster, source.target)

    def end(self, *, whole: bool) -> None:
        """Keep the copies of this reconcile for the next one; if they are not all, the others stay."""
        if whole:
            self._held.copies = self._made
        else:
            self._held.copies.update(self._made)

    def _make(
        self, site: TargetCluster, source: SourceObject, target: Target, replicas: ReplicaShare
    ) -> DesiredAt | Outcome:
        try:
            desired, one_way = self._desired(site, source, target, replicas)
        except (DesiredError, NotCopyable, ObjectTransformError) as error:
            return Outcome(target=target, state="Failed", reason="InvalidContent", message=str(error))
        pair = self._pair(site, source, target, replicas, one_way)
        return DesiredAt(
            site,
            desired,
            source=source,
            policy=self._rules.policies.get(target.kind),
            pair=pair,
            limit=self._limit,
        )

    def _pair(
        self,
        site: TargetCluster,
        source: SourceObject,
        target: Target,
        replicas: ReplicaShare,
        one_way: Iterable[str],
    ) -> PairedObject | None:
        """Return how the copy and its source are kept in agreement; None if the copy only follows."""
        rules = self._rules.pair_at(site.destination.cluster, source.target)
        if rules is None or rules.is_plain():
            return None

        def desired_of(upstream: Upstream) -> Desired | None:
            meta = msgspec.convert(upstream.manifest["metadata"], ObjectMeta)
            renewed = structs.replace(source, meta=meta, manifest=upstream.manifest)
            try:
                return self._desired(site, renewed, target, replicas)[0]
            except (DesiredError, NotCopyable, ObjectTransformError):
                return None

        at = self._rules.at
        return PairedObject(
            upstream=at.cluster,
            client=at.client,
            rules=structs.replace(rules, one_way=tuple(sorted(one_way))),
            desired_of=desired_of,
            deletes_upward=rules.two_way and self._rules.spec.delete_propagation == "Both",
        )

    def _desired(
        self, site: TargetCluster, source: SourceObject, target: Target, replicas: ReplicaShare
    ) -> tuple[Desired, frozenset[str]]:
        """Return the copy, and the paths that flow down only, because the source does not have them."""
        manifest = taken_down(source.manifest)
        divided: frozenset[str] = frozenset()
        if replicas.number is not None:
            manifest = {**manifest, "spec": {**(manifest.get("spec") or {}), "replicas": replicas.number}}
            divided = frozenset({"/spec/replicas"})
        changed = self._transformed(site, source, target, manifest)
        if changed.manifest is not manifest and (why := why_left(changed.manifest)):
            raise NotCopyable(why)  # a transform can change it into something else
        manifest = changed.manifest
        metadata = {**manifest.get("metadata", {}), "name": target.name}
        if target.namespace:
            metadata["namespace"] = target.namespace
        else:
            metadata.pop("namespace", None)
        placed = Placed(target=target, manifest={**manifest, "metadata": metadata}, origin=str(source))
        desired = from_manifest(placed, _SCALED if replicas.scaled else (), self._rules.key, "")
        generation = source.meta.generation
        revision = str(generation) if generation else short_digest(desired.digest)
        seen = source_version(source.meta.uid, source.meta.resource_version)
        return structs.replace(desired, revision=revision, source_version=seen), changed.written | divided

    def _transformed(
        self, site: TargetCluster, source: SourceObject, target: Target, manifest: Json
    ) -> TransformedObject:
        resource = self._rules.resources.get(target.kind, "")
        chosen = [
            transform_step(number, one)
            for number, one in enumerate(self._rules.spec.transforms)
            if one.resource == resource and (one.targets is None or selector_matches(one.targets, site.labels))
        ]
        if not chosen:
            return TransformedObject(manifest=manifest, written=frozenset())
        variables = transform_variables(
            cluster=site.destination.cluster,
            namespace=target.namespace,
            labels=site.labels,
            source=(source.target.namespace, source.target.name),
            workspace=self._rules.workspace,
        )
        return transformed(manifest, chosen, variables, shape_of_kind(target.kind))


def _seen_later(site: TargetCluster, source: SourceObject, target: Target) -> SourceVersion | None:
    """Return a later state of the same source that its copy was made from."""
    observed = site.cluster.managed_at(target)
    marker = observed.marker if observed is not None else None
    seen = read_source_version(marker.source_version) if marker is not None and marker.source == str(source) else None
    return seen if is_regressed(seen, source.meta.uid, source.meta.resource_version) else None


def transform_step(number: int, one: ObjectTransform) -> TransformStep:
    """Return an entry of `spec.transforms` as a step. A value that is absent stays absent, so that it is refused."""
    patch = [msgspec.to_builtins(operation) for operation in one.patch]
    return TransformStep(index=number, remove=one.remove, set=one.set or {}, patch=patch)


def copy_rules(
    spec: WorkspaceSyncSpec,
    workspace: Workspace,
    at: SourceCluster,
    resources: Sequence[UpstreamResource],
    key: DigestKey,
    *,
    reports_status: bool,
    limits: TenantLimits = NO_LIMITS,
) -> CopyRules:
    """Return the rules for the copies of a sync."""
    policies: dict[str, Policy] = {}
    pairs: dict[str, PairRules] = {}
    names: dict[str, str] = {}
    for one in resources:
        if not one.kind:
            continue
        names[one.kind] = str(GroupResource(one.spec.group, one.spec.resource))
        policies[one.kind] = Policy(
            management=spec.resource_management_policy,
            keep_extras=not spec.exact,
            exact=spec.exact,
            track_revision=reports_status,
        )
        pairs[one.kind] = PairRules(
            strategy=strategy_of(spec, one.spec),
            two_way=one.spec.direction == "Bidirectional",
            on_conflict=spec.on_conflict,
            exact=spec.exact,
            max_retries=spec.retry.max_retries,
            delay=seconds(spec.retry.delay),
        )
    return CopyRules(
        spec=spec,
        workspace=workspace,
        key=key,
        at=at,
        policies=policies,
        pairs=pairs,
        resources=names,
        limits=limits,
    )
