"""What one environment of a ConfigSync would apply and prune: planned as a reconcile does it, and not written."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from syncline.controllers.access import Access, allowed
from syncline.controllers.foresight import Preview, foreseen
from syncline.controllers.keeping import kept_mark
from syncline.controllers.laps import Lap
from syncline.controllers.parts import wanted_of
from syncline.controllers.removal import Remover
from syncline.controllers.reporting import Problem
from syncline.controllers.sites import Reached
from syncline.controllers.staging import Wanted, at_site, watched
from syncline.controllers.survey import Site
from syncline.controllers.validation import pass_over
from syncline.controllers.visibility import Visibility
from syncline.controllers.work import Work
from syncline.core.objects import Desired, Target
from syncline.core.outcome import Outcome
from syncline.core.plan import Action, Edit, Verb
from syncline.engine.cluster import kind_name
from syncline.engine.writer import Writer

# States in which an object does not keep the rest from being pruned.
_APPLIED = frozenset({"Synced", "Skipped", "Conflict"})


class Planner(Struct, frozen=True):
    """Plans environments."""

    writer: Callable[[Site], Writer]
    remover: Remover
    access: Access
    requested: frozenset[bytes]
    """The removals that an edit of the spec asks for; see `judging`."""
    visibility: Visibility | None = None
    """What the account of the sync may know; None: whoever asks sees with their own rights."""

    async def plan(self, work: Work, part: Reached, lap: Lap) -> Preview:
        """Plan what an environment would apply, and prune if all of it can be applied."""
        actions: list[Action] = []
        planned: list[tuple[Site, Desired]] = []
        sites_written, passed_over = pass_over(lap, part.sites)
        for site in sites_written:
            ours = [at_site(site, one) for one in lap.desired()]
            for desired in (*_namespaces(ours), *_others(ours)):
                outcome = _without_namespace(site, desired.target, actions)
                if outcome is not None and await self._is_hidden(site, desired):
                    outcome = None  # it is planned like any other that the account may not write
                action = None if outcome is not None else await self._plan_one(work, site, desired, ours)
                if isinstance(action, Action):
                    able, refused = await allowed(self.access, work.user, [(site, action)])
                    actions += able
                    passed_over += refused
                    planned.append((site, desired))
                elif (refusal := outcome or action) is not None:
                    passed_over.append(refusal)
        removals, held = self._prune(work, part, lap)
        states = {*(one.state for one in actions), *(one.state for one in passed_over)}
        if states <= _APPLIED:
            sites = {site.place.cluster: site for site in (*part.former, *part.sites)}
            able, refused = await allowed(
                self.access, work.user, [(sites.get(one.target.cluster), one) for one in removals]
            )
            actions += able
            passed_over += refused
        return Preview(
            actions=tuple(actions),
            passed_over=tuple(passed_over),
            problem=lap.problem or held,
            desired=tuple(planned),
        )

    def _prune(self, work: Work, part: Reached, lap: Lap) -> tuple[list[Action], Problem | None]:
        if not lap.certain:
            return [], None
        return self.remover.preview_prune(work, part, wanted_of(part, lap), self.requested)

    async def _is_hidden(self, site: Site, desired: Desired) -> bool:
        if self.visibility is None:
            return False
        await watched(Wanted(site, desired))  # so that the kind is known
        return await self.visibility.is_hidden(desired.target)

    async def _plan_one(self, work: Work, site: Site, desired: Desired, ours: Sequence[Desired]) -> Action | Outcome:
        refusal = await watched(Wanted(site, desired))
        if refusal is None:
            kept = kept_mark(site.cluster, desired.target) in work.sync.status.kept
            return await foreseen(self.writer(site), desired, kept=kept)
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


def _without_namespace(site: Site, target: Target, planned: Sequence[Action]) -> Outcome | None:
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
