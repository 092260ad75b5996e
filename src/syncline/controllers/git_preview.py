"""Preview of one environment of a ConfigSync: what a reconcile would apply and prune."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import LoweredSpec
from syncline.controllers.sources.prepared import PreparedRevision, keep_set_of
from syncline.controllers.sources.validation import skip_clusters
from syncline.controllers.targets.clusters import ConnectedClusters, TargetCluster
from syncline.controllers.targets.keep_policy import keep_mark
from syncline.controllers.targets.preview import Preview, plan_one
from syncline.controllers.targets.prune import Pruner
from syncline.controllers.targets.stages import DesiredAt, for_cluster, open_kind_of
from syncline.controllers.targets.visibility import Visibility
from syncline.controllers.targets.write_access import WriteAccess, split_allowed
from syncline.core.objects import Desired, Target
from syncline.core.outcome import Outcome
from syncline.core.plan import Action, Edit, Verb
from syncline.engine.cluster import kind_name
from syncline.engine.writer import Writer

# States in which an object does not keep the rest from being pruned.
_APPLIED = frozenset({"Synced", "Skipped", "Conflict"})


class EnvironmentPlanner(Struct, frozen=True):
    """Plans environments."""

    writer: Callable[[TargetCluster], Writer]
    pruner: Pruner
    access: WriteAccess
    requested: frozenset[bytes]
    """The removals that an edit of the spec asks for; see `judging`."""
    visibility: Visibility | None = None
    """What the account of the sync may know; None: whoever asks sees with their own rights."""

    async def plan(self, lowered: LoweredSpec, part: ConnectedClusters, prepared: PreparedRevision) -> Preview:
        """Plan what an environment would apply, and prune if all of it can be applied."""
        actions: list[Action] = []
        planned: list[tuple[TargetCluster, Desired]] = []
        sites_written, skipped = skip_clusters(prepared, part.sites)
        for site in sites_written:
            ours = [for_cluster(site, one) for one in prepared.desired()]
            for desired in (*_namespaces(ours), *_others(ours)):
                outcome = _without_namespace(site, desired.target, actions)
                if outcome is not None and await self._is_hidden(site, desired):
                    outcome = None  # it is planned like any other that the account may not write
                action = None if outcome is not None else await self._plan_one(lowered, site, desired, ours)
                if isinstance(action, Action):
                    able, refused = await split_allowed(self.access, lowered.user, [(site, action)])
                    actions += able
                    skipped += refused
                    planned.append((site, desired))
                elif (refusal := outcome or action) is not None:
                    skipped.append(refusal)
        removals, held = self._prune(lowered, part, prepared)
        states = {*(one.state for one in actions), *(one.state for one in skipped)}
        if states <= _APPLIED:
            sites = {site.destination.cluster: site for site in (*part.former, *part.sites)}
            able, refused = await split_allowed(
                self.access, lowered.user, [(sites.get(one.target.cluster), one) for one in removals]
            )
            actions += able
            skipped += refused
        return Preview(
            actions=tuple(actions),
            skipped=tuple(skipped),
            problem=prepared.problem or held,
            desired=tuple(planned),
        )

    def _prune(
        self, lowered: LoweredSpec, part: ConnectedClusters, prepared: PreparedRevision
    ) -> tuple[list[Action], SyncError | None]:
        if not prepared.certain:
            return [], None
        return self.pruner.preview_prune(lowered, part, keep_set_of(part, prepared), self.requested)

    async def _is_hidden(self, site: TargetCluster, desired: Desired) -> bool:
        if self.visibility is None:
            return False
        await open_kind_of(DesiredAt(site, desired))  # so that the kind is known
        return await self.visibility.is_hidden(desired.target)

    async def _plan_one(
        self, lowered: LoweredSpec, site: TargetCluster, desired: Desired, ours: Sequence[Desired]
    ) -> Action | Outcome:
        refusal = await open_kind_of(DesiredAt(site, desired))
        if refusal is None:
            kept = keep_mark(site.cluster, desired.target) in lowered.sync.status.kept
            return await plan_one(self.writer(site), desired, kept=kept)
        if refusal.reason == "KindNotServed" and desired.target.kind in _defined(ours):
            return Action(
                verb=Verb.CREATE,
                target=desired.target,
                reason="Created",
                message="its kind is not served yet; it is created after its definition, which is applied too",
                edit=Edit(digest=desired.digest),
            )
        return refusal


def _namespaces(desired: Sequence[Desired]) -> list[Desired]:
    return [one for one in desired if one.target.kind == "Namespace"]


def _others(desired: Sequence[Desired]) -> list[Desired]:
    return [one for one in desired if one.target.kind != "Namespace"]


def _defined(desired: Sequence[Desired]) -> set[str]:
    """Return the kinds that are defined along with the rest."""
    specs = [
        one.body.fields.get("spec") or {}
        for one in desired
        if one.target.kind == "CustomResourceDefinition.apiextensions.k8s.io" and one.body is not None
    ]
    return {kind_name(str(spec.get("group")), str((spec.get("names") or {}).get("kind"))) for spec in specs}


def _without_namespace(site: TargetCluster, target: Target, planned: Sequence[Action]) -> Outcome | None:
    """Say of a target why its namespace keeps it out; None where it is there, or is created along with the rest."""
    if not target.namespace:
        return None
    namespace = site.cluster.namespace(target.namespace)
    if namespace is None:
        new = {(one.target.cluster, one.target.name) for one in planned if one.target.kind == "Namespace"}
        if (target.cluster, target.namespace) in new:
            return None
        message = f"namespace {target.namespace!r} does not exist: create it, or have it in the repository too"
        return Outcome(target=target, state="Pending", reason="NamespaceNotFound", message=message)
    if namespace.terminating:
        message = f"namespace {target.namespace!r} is being deleted"
        return Outcome(target=target, state="Skipped", reason="NamespaceTerminating", message=message)
    if namespace.ignored:
        message = f"namespace {target.namespace!r} is labelled syncline.dev/ignore: no sync writes there"
        return Outcome(target=target, state="Skipped", reason="NamespaceIgnored", message=message)
    return None
