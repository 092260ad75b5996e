"""Planner: plans the writes and removals of one unit in the same way as a reconcile, without writes."""

from collections.abc import Sequence
from contextlib import suppress

from msgspec import Struct, structs

from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import LoweredSpec
from syncline.controllers.sources.desired import DesiredSet
from syncline.controllers.sources.validation import definitions_in
from syncline.controllers.targets.apply import WriterOf, pair_of, two_way_of
from syncline.controllers.targets.clusters import TargetCluster
from syncline.controllers.targets.dry_run import DryRunner, Refusal
from syncline.controllers.targets.keep_policy import mark_at
from syncline.controllers.targets.namespaces import closed_namespace
from syncline.controllers.targets.preview import Preview, plan_one, plan_pair
from syncline.controllers.targets.prune import Pruner
from syncline.controllers.targets.stages import DesiredAt, refused_kind
from syncline.controllers.targets.visibility import Visibility
from syncline.controllers.targets.write_access import WriteAccess, split_allowed
from syncline.core.group_kind import GroupKind
from syncline.core.objects import Desired, Target
from syncline.core.outcome import Outcome
from syncline.core.plan import WRITES, Action, Change, Verb
from syncline.core.schema_errors import explain_schema_error
from syncline.engine.pair_memory import PairMemory
from syncline.engine.write_outcomes import INVALID_MANIFEST
from syncline.kube.errors import KubeError

# States of objects that do not block the pruning of others.
_APPLIED = frozenset({"Synced", "Skipped", "Conflict"})


class UnitPlanner(Struct, frozen=True):
    """Plans units."""

    writer: WriterOf
    pruner: Pruner
    access: WriteAccess
    requested: frozenset[bytes]
    """The removals that an edit of the spec requested; see `scope_edits`."""
    memory: PairMemory
    visibility: Visibility | None = None
    """The namespaces that the account of the sync may know; None: the user reads with their own rights."""

    async def plan(self, lowered: LoweredSpec, desired: DesiredSet) -> Preview:
        """Plan the writes of a unit, and its removals if a reconcile would prune."""
        actions: list[Action] = []
        planned: list[tuple[TargetCluster, Desired]] = []
        skipped: list[Outcome] = list(desired.outcomes)
        defined = _defined(desired.items)
        for item in _namespaces_first(desired.items):
            outcome = _without_namespace(item, actions)
            if outcome is not None and await self._is_hidden(item):
                outcome = None  # it is planned like any other target that the account may not write
            action = None if outcome is not None else await self._plan_one(lowered, item, defined)
            if isinstance(action, Action):
                able, refused = await split_allowed(self.access, lowered.user, [(item.site, action)])
                actions += able
                skipped += refused
                planned.append((item.site, item.desired))
            elif (refusal := outcome or action) is not None:
                skipped.append(refusal)
        if lowered.unvalidated:
            actions = await self._dry_run(lowered, planned, actions)
        removals, held = self._prune(lowered, desired)
        states = {*(one.state for one in actions), *(one.state for one in skipped)}
        if states <= _APPLIED or not lowered.prunes_after_all:
            clusters = desired.clusters
            sites = {site.destination.cluster: site for site in (*clusters.former, *clusters.sites)}
            able, refused = await split_allowed(
                self.access, lowered.user, [(sites.get(one.target.cluster), one) for one in removals]
            )
            actions += able
            skipped += refused
        return Preview(
            actions=tuple(actions),
            skipped=tuple(skipped),
            problem=desired.problem or held if lowered.staged else held or desired.problem,
            desired=tuple(planned),
        )

    async def _dry_run(
        self, lowered: LoweredSpec, planned: Sequence[tuple[TargetCluster, Desired]], actions: Sequence[Action]
    ) -> list[Action]:
        """Return the actions, as Failed where an API server does not know a field or refuses its value."""
        runner = DryRunner(lambda site: self.writer(site, None))
        writes = {one.target for one in actions if one.verb in WRITES}
        refused: dict[Target, Refusal] = {}
        for site in {id(site): site for site, _ in planned}.values():
            wanted = [one for at, one in planned if at is site and one.target in writes]
            with suppress(KubeError):  # without an answer, the plan is as good as it can be
                found = await runner.run(site, wanted, definitions_in(wanted), frozenset(lowered.sync.status.kept))
                refused |= {one.desired.target: one for one in found.refusals if one.is_manifest and one.field}
        return [_failing(one, refused[one.target]) if one.target in refused else one for one in actions]

    def _prune(self, lowered: LoweredSpec, desired: DesiredSet) -> tuple[list[Action], SyncError | None]:
        if not desired.certain:
            return [], None
        return self.pruner.preview(lowered, desired.clusters, desired.keep, self.requested)

    async def _is_hidden(self, item: DesiredAt) -> bool:
        if self.visibility is None:
            return False
        await refused_kind(item)  # so that the kind is known
        return await self.visibility.is_hidden(item.desired.target)

    async def _plan_one(self, lowered: LoweredSpec, item: DesiredAt, defined: frozenset[str]) -> Action | Outcome:
        desired, site = item.desired, item.site
        refusal = await refused_kind(item)
        if refusal is None:
            kept = mark_at(site.cluster, desired.target) in lowered.sync.status.kept
            writer = self.writer(site, item.policy)
            if item.pair is not None and not item.pair.rules.is_plain():
                pairs, source = pair_of(item.pair, self.memory, writer, item)
                return await plan_pair(pairs.preview(source, desired, created_once=kept), desired)
            if lowered.two_way is None:
                return await plan_one(writer, desired, kept=kept)
            pair, upstream = two_way_of(lowered.two_way, lowered, writer, item, self.memory)
            return await plan_pair(pair.preview(upstream, desired, created_once=kept), desired)
        if refusal.reason == "KindNotServed" and desired.target.kind in defined:
            return Action(
                verb=Verb.CREATE,
                target=desired.target,
                reason="Created",
                message="its kind is not served yet; it is created after its definition, which is applied too",
                change=Change(digest=desired.digest),
            )
        return refusal


def _failing(action: Action, refusal: Refusal) -> Action:
    """Return an action that does not write all of the manifest. Its message names a field, and no value."""
    unknown = f"{refusal.field}: the API server does not know this field, or refuses its value: correct or remove it"
    message = explain_schema_error(refusal.error.message) or unknown
    return structs.replace(action, state="Failed", reason=INVALID_MANIFEST, message=message)


def _namespaces_first(items: Sequence[DesiredAt]) -> list[DesiredAt]:
    """Sort items: in each cluster Namespaces are first, so that their objects can be planned."""
    order = {id(site): number for number, site in enumerate({id(item.site): item.site for item in items}.values())}
    return sorted(items, key=lambda item: (order[id(item.site)], item.desired.target.kind != "Namespace"))


def _defined(items: Sequence[DesiredAt]) -> frozenset[str]:
    """Return the kinds whose CRDs are in the same plan."""
    specs = [
        item.desired.body.fields.get("spec") or {}
        for item in items
        if item.desired.target.kind == "CustomResourceDefinition.apiextensions.k8s.io" and item.desired.body is not None
    ]
    kinds = (GroupKind(str(spec.get("group")), str((spec.get("names") or {}).get("kind"))) for spec in specs)
    return frozenset(map(str, kinds))


def _without_namespace(item: DesiredAt, planned: Sequence[Action]) -> Outcome | None:
    """Return why nothing is written to the namespace of a target; None if it exists, or is created by the same plan."""
    target = item.desired.target
    if not target.namespace or item.hidden:
        return None
    namespace = item.site.cluster.namespace(target.namespace)
    if namespace is not None:
        return closed_namespace(namespace, target)
    new = {(one.target.cluster, one.target.name) for one in planned if one.target.kind == "Namespace"}
    if (target.cluster, target.namespace) in new:
        return None
    message = f"namespace {target.namespace!r} does not exist: create it, or have it in the repository too"
    return Outcome(target=target, state="Pending", reason="NamespaceNotFound", message=message)
