"""Lets go of copies: where they are no longer wanted, when their source is gone, and when their sync is deleted.

Each needs its own evidence, and none of them takes silence for it.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial

from msgspec import Struct, structs

from syncline.api.common import ABANDON, CONFIRM_DELETION
from syncline.controllers.cascade import reprieve, takes_others_along
from syncline.controllers.gathering import Gathered
from syncline.controllers.memory import Memory, ObjectUid
from syncline.controllers.reporting import AnySync, Problem
from syncline.controllers.sites import Reached
from syncline.controllers.survey import Site, Survey
from syncline.controllers.work import Work
from syncline.core.inventory import read_written
from syncline.core.objects import Seen, Target
from syncline.core.ordering import removal_stages
from syncline.core.outcome import HOLDS_FOREIGN, UNPROVEN, Outcome
from syncline.core.ownership import OWNER_LABEL, Standing, is_proven, place, standing
from syncline.core.plan import MARK_UNPROVEN, Action, Verb
from syncline.core.scope import Namespace
from syncline.core.scope_record import object_id
from syncline.core.surplus import Brake, brake, plan_removal
from syncline.engine.view import MetaWire, View
from syncline.engine.writer import Writer
from syncline.kube.errors import Forbidden, KubeError, NotFound
from syncline.kube.resources import NAMESPACES

# A source that is replaced (deleted and created again) is away for a moment; its copies stay meanwhile.
SOURCE_GRACE = 2.0
# How long a deletion is retried before the copies are left behind and the sync is let go.
FINALIZE_PATIENCE = 300.0
PATIENCE_ENDS = (
    f"they are left where they are after {FINALIZE_PATIENCE / 60:.0f} minutes of trying, and at once with the "
    f'annotation {ABANDON}: "true"'
)
PRUNED = "Pruned"
CLEANUP_FAILED = "CleanupFailed"
# How soon it is looked again whether what others have put there has gone.
LOOK_AGAIN = 60.0

Owned = tuple[Site, Seen]
Where = tuple[str, Target]
"""A cluster by its UID, and a place in it: what a sync calls the cluster may come to mean another one."""
Sends = Callable[[Site, Seen], None]


class Removed(Struct, frozen=True, kw_only=True):
    """What was removed, and whether to look again after some seconds."""

    outcomes: tuple[Outcome, ...] = ()
    held: Problem | None = None
    again: float | None = None
    look_again: float | None = None
    """After how many seconds what stays because of others is looked at again: nothing tells when they have gone."""


class Ending(Struct, frozen=True, kw_only=True):
    """How far the deletion of a sync has come; with a problem, it is tried again."""

    outcomes: tuple[Outcome, ...] = ()
    problem: Problem | None = None
    warning: str = ""


class Wanted(Struct, frozen=True):
    """Which copies a sync still wants."""

    targets: frozenset[Where]
    orphans: frozenset[Where]
    """Those whose source does not exist: what becomes of them is not for pruning to say."""
    absent: frozenset[str]
    """Those sources, as markers name them."""
    certain: bool
    """Whether all names are known."""

    def is_orphan(self, site: Site, seen: Seen) -> bool:
        """Whether the source of a copy does not exist."""
        marker = seen.marker
        return _where(site, seen.target) in self.orphans or (marker is not None and marker.source in self.absent)


NOTHING_WANTED = Wanted(frozenset(), frozenset(), frozenset(), certain=True)


def wanted_by(surveyed: Survey, waiting: Survey, gathered: Gathered, vanished: frozenset[str] = frozenset()) -> Wanted:
    """Sum up which copies are wanted; `waiting` are those that wait for their source, `vanished` former sources."""
    return Wanted(
        targets=frozenset(_where(spot.site, spot.target) for spot in surveyed.spots),
        orphans=frozenset(_where(spot.site, spot.target) for spot in waiting.spots),
        absent=vanished | {f"{target.kind}/{target.namespace}/{target.name}" for target in gathered.absent},
        certain=not any((surveyed.unnamed, waiting.unnamed, surveyed.refused, waiting.refused)),
    )


def is_abandoned(sync: AnySync) -> bool:
    """Whether a person has said that the copies of a sync stay when it is deleted."""
    return sync.metadata.annotations.get(ABANDON) == "true"


class Remover:
    """Removes copies for the syncs of one kind."""

    def __init__(self, writer: Callable[[Site], Writer]) -> None:
        self._writer = writer

    async def prune(
        self, work: Work, memory: Memory, reached: Reached, wanted: Wanted, requested: frozenset[bytes]
    ) -> Removed:
        """Remove objects from where they are no longer wanted, or say why, or for how long, that must wait.

        What an edit of the spec has removed (`requested`, by `managed_id`) goes at once. Shrinkage that nobody spelled
        out waits until it has come to rest, so that it is judged as a whole: then, if it is large, for a person.
        """
        stale = unwanted(work, reached, wanted)
        derived = [one for one in stale if managed_id(*one) not in requested]
        now = time.monotonic()
        recent = memory.recently_pruned(lambda: {_uid(*one) for one in owned(reached) if not one[1].deleting}, now)
        verdict = self._brake(work, reached, stale, derived, recent)
        held = Problem("DeletionHeld", verdict.message) if verdict.held else None
        again: float | None = None
        if verdict.derived and not verdict.held:
            left = memory.unrest(frozenset(seen.target for _, seen in derived), now)
            again = left if left > 0 else None
        waits = {seen.target for _, seen in derived} if held is not None or again is not None else set()
        going = [one for one in stale if one[1].target not in waits]
        removed: list[Outcome] = []
        if not verdict.derived:
            memory.was_confirmed()
        unasked = {_uid(*one) for one in derived} if verdict.derived else set()

        def sends(site: Site, seen: Seen) -> None:
            if _uid(site, seen) in unasked:
                memory.sends_pruning(_uid(site, seen), time.monotonic())

        for group in _in_order(going, staged=work.staged):
            jobs = [
                (seen.target, partial(self._remove_proven, work, site, seen, wanted, sends)) for site, seen in group
            ]
            removed += await memory.fan_out.run(jobs, _no_progress)
        stays = any(outcome.reason in (HOLDS_FOREIGN, UNPROVEN) for outcome in removed)
        return Removed(outcomes=tuple(removed), held=held, again=again, look_again=LOOK_AGAIN if stays else None)

    async def sources_gone(
        self, work: Work, memory: Memory, reached: Reached, gathered: Gathered, wanted: Wanted
    ) -> Removed:
        """Act on sources that do not exist: wait a moment, look again, then follow the policy."""
        now = time.monotonic()
        memory.missing = {target: memory.missing.get(target, now) for target in gathered.absent}
        if not gathered.absent or work.source_deletion_policy == "Orphan":
            return Removed()
        copies = [one for one in owned(reached) if wanted.is_orphan(*one)]
        if not copies:
            return Removed()
        if (left := max(memory.missing.values()) + SOURCE_GRACE - now) > 0:
            return Removed(again=left)
        what = gathered.problem.message if gathered.problem is not None else "the source does not exist"
        # Of two sides, an edit beats a deletion.
        why, both_ways = ("SourceDeleted", what), work.two_way is not None
        return Removed(outcomes=tuple(await self._remove(memory, copies, why, keep_edited=both_ways)))

    async def finalize(self, sync: AnySync, work: Work | None, memory: Memory, reached: Reached) -> Ending:
        """Let go of all copies as the policy says. Never traps the sync."""
        abandon = is_abandoned(sync)
        if abandon or work is None or work.suspended:
            why = (
                "abandoned on request"
                if abandon
                else "the sync was suspended"
                if work
                else "its spec cannot be carried out"
            )
            left = any(owned(reached)) or work is None
            return Ending(warning=f"the copies were left where they are: {why}" if left else "")
        if work.deletion_policy == "Orphan":
            return Ending()
        # Asked for before the list: what comes home after that may have written what the list does not know.
        in_flight = memory.fan_out.in_flight
        removed = [*await self._remove_all(sync, memory, reached, staged=work.staged), *reached.outcomes]
        failed = [outcome for outcome in removed if outcome.state not in ("Synced", "Skipped")]
        # On our own clock: the API server's may be another, and nothing is left behind because of that.
        memory.finalizing_since = memory.finalizing_since or time.monotonic()
        if (failed or in_flight) and time.monotonic() - memory.finalizing_since < FINALIZE_PATIENCE:
            message = (
                f"{len(failed)} copies cannot be removed yet, {PATIENCE_ENDS}: {failed[0].message}"
                if failed
                else f"{in_flight} writes are still in flight, and what they write must go too; {PATIENCE_ENDS}"
            )
            # Tried again, at the latest, when patience ends.
            again = max(memory.finalizing_since + FINALIZE_PATIENCE - time.monotonic(), 0.0)
            problem = Problem(CLEANUP_FAILED, message, again=again)
            return Ending(outcomes=tuple(removed), problem=problem)
        closed = sum(not _is_open(site, seen) for site, seen in owned(reached))
        words = [f"{len(failed)} copies could not be removed and were left: {failed[0].message}"] if failed else []
        told = (HOLDS_FOREIGN, UNPROVEN, MARK_UNPROVEN)
        words += [f"{one.target}: {one.message}" for one in removed if one.reason in told][:1]
        words += [f"{closed} copies stay in namespaces that are ignored or being deleted"] if closed else []
        return Ending(outcomes=tuple(removed), warning="; ".join(words))

    def preview(
        self, work: Work, reached: Reached, gathered: Gathered, wanted: Wanted, requested: frozenset[bytes]
    ) -> tuple[list[Action], Problem | None]:
        """Return what `prune` and `sources_gone` would do."""
        removals, held = self.preview_prune(work, reached, wanted, requested)
        if work.source_deletion_policy == "Delete" and gathered.problem is not None:
            gone = [one for one in owned(reached) if wanted.is_orphan(*one) and _is_open(*one)]
            why = ("SourceDeleted", gathered.problem.message)
            removals += _removals(gone, why, keep_edited=work.two_way is not None)
        return removals, held

    def preview_prune(
        self, work: Work, reached: Reached, wanted: Wanted, requested: frozenset[bytes]
    ) -> tuple[list[Action], Problem | None]:
        """Return what `prune` would do."""
        stale = unwanted(work, reached, wanted)
        verdict = self._brake(work, reached, stale, [one for one in stale if managed_id(*one) not in requested])
        held = Problem("DeletionHeld", verdict.message) if verdict.held else None
        return _removals(stale, (PRUNED, work.unwanted)), held

    def _brake(self, work: Work, reached: Reached, stale: list[Owned], derived: list[Owned], recent: int = 0) -> Brake:
        return brake(
            _removals(derived, (PRUNED, work.unwanted)),
            _staying(owned(reached)) - _staying(stale) + _staying(derived) if derived else 0,
            why=work.shrinkage,
            confirmed=work.sync.metadata.annotations.get(CONFIRM_DELETION, ""),
            recent=recent,
        )

    async def _remove_proven(self, work: Work, site: Site, seen: Seen, wanted: Wanted, sends: Sends) -> Outcome | None:
        """Remove a copy after a live look at its namespace has confirmed that it is unwanted."""
        why = (PRUNED, work.unwanted)
        if not seen.target.namespace:
            return await self._let_go(site, seen, why, wanted.targets, sends=sends)
        try:
            wire = await site.cluster.client.get(NAMESPACES, seen.target.namespace, type=MetaWire, metadata_only=True)
        except NotFound:
            return None
        except KubeError as error:
            message = f"it is no longer wanted, but stays until its namespace can be read to be sure: {error}"
            return Outcome(target=seen.target, state="Unknown", reason=UNPROVEN, message=message, retry=True, gone=True)
        meta = wire.metadata
        live = Namespace(meta.name, meta.uid, meta.labels, meta.deletion_timestamp is not None)
        if (
            live.terminating
            or live.ignored
            or _matches(site, live) != _matches(site, site.cluster.namespace(meta.name))
        ):
            return None
        return await self._let_go(site, seen, why, sends=sends)

    async def _remove_all(self, sync: AnySync, memory: Memory, reached: Reached, *, staged: bool) -> list[Outcome]:
        """Remove every copy, found by the cache and by a live list: a cache may lag behind another leader's write."""
        known: dict[Target, Owned] = {seen.target: (site, seen) for site, seen in owned(reached)}
        troubles: list[Outcome] = []
        # Of several names for one connection, one is enough: under each name the same objects would be found again.
        connections = {(id(site.cluster), site.owner.hub): site for site in (*reached.former, *reversed(reached.sites))}
        for site in connections.values():
            kinds = await self._written_kinds(sync, site)
            for view in list(site.cluster.views()):
                if view.kind not in kinds:
                    continue
                try:
                    found = await self._list(site, view)
                except NotFound:
                    continue  # the kind is no longer served: its objects went with it
                except KubeError as error:
                    where = Target("", view.kind, view.kind, site.place.cluster)
                    troubles.append(
                        Outcome(target=where, state="Failed", reason=CLEANUP_FAILED, message=str(error), gone=True)
                    )
                    continue
                known.update((seen.target, (site, seen)) for seen in found)
        why = ("SyncDeleted", "the sync was deleted")
        removed = [_left_unproven(seen) for site, seen in known.values() if _is_unproven(site, seen)]
        for group in _in_order(known.values(), staged=staged):
            removed += await self._remove(memory, group, why)
        return [*removed, *troubles]

    async def _written_kinds(self, sync: AnySync, site: Site) -> frozenset[str]:
        """Return the kinds that a sync may have written in a cluster: they are recorded before the first write."""
        written = read_written(sync.status.written)
        here, status_lost = not site.cluster.name, not sync.status.observed_generation
        if here:
            return written.get("", frozenset()) | (await self._scan(site) if status_lost else frozenset())
        if status_lost:
            return frozenset(view.kind for view in site.cluster.views())
        # By any name: a cluster may have been called otherwise when it was written to.
        return frozenset().union(*(kinds for name, kinds in written.items() if name))

    async def _scan(self, site: Site) -> frozenset[str]:
        """Look for copies of all kinds: the status, which says what was written, is lost, as after a restore."""
        kinds = set()
        for served in await site.cluster.discovery.resources():
            resource = served.resource
            if not served.keeps_objects:
                continue
            label = f"{OWNER_LABEL}={site.owner.label}"
            try:
                found, _ = await site.cluster.client.list(resource, labels=label, type=MetaWire, metadata_only=True)
            except (Forbidden, NotFound):
                continue  # what the operator may not read, it has not written
            if found:
                kinds.add((await site.cluster.open(resource.group, resource.kind)).kind)
        return frozenset(kinds)

    async def _list(self, site: Site, view: View) -> list[Seen]:
        found, _ = await site.cluster.client.list(
            view.resource, labels=f"{OWNER_LABEL}={site.owner.label}", type=view.wire
        )
        return [_relabelled(site, view.see(wire)) for wire in found]

    async def _remove(
        self,
        memory: Memory,
        copies: Iterable[Owned],
        why: tuple[str, str],
        *,
        keep_edited: bool = False,
    ) -> list[Outcome]:
        """Remove copies for a reason that needs no proof; closed namespaces are left alone."""
        jobs: list[tuple[Target, Callable[[], Awaitable[Outcome | None]]]] = [
            (seen.target, partial(self._let_go, site, seen, why, keep_edited=keep_edited))
            for site, seen in copies
            if _is_open(site, seen)
        ]
        return await memory.fan_out.run(jobs, _no_progress)

    async def _let_go(
        self,
        site: Site,
        seen: Seen,
        why: tuple[str, str],
        wanted: frozenset[Where] = frozenset(),
        *,
        keep_edited: bool = False,
        sends: Sends | None = None,
    ) -> Outcome | None:
        """Remove a copy, unless others would go along with it; `sends` is called just before."""
        if takes_others_along(seen.target) and any(one.verb is Verb.DELETE for one in _removals([(site, seen)], why)):
            stays = await reprieve(site, seen, wanted)
            if stays is not None:
                return stays
        if sends is not None:
            sends(site, seen)
        return await self._writer(site).remove(seen, *why, keep_edited=keep_edited)


def owned(reached: Reached) -> Iterator[Owned]:
    """Yield all copies of a sync, by the names that it has for its clusters."""
    clusters: dict[tuple[str, str], list[Site]] = {}
    for site in (*reached.sites, *reached.former):
        clusters.setdefault((site.cluster.uid, site.owner.hub), []).append(site)
    for sites in clusters.values():
        first = sites[0]
        for seen in first.cluster.copies_of(first.owner.ref):
            if _is_owned(first, seen):
                site = first if len(sites) == 1 else _wanting(sites, seen)
                yield site, _relabelled(site, seen)


def _is_owned(site: Site, seen: Seen) -> bool:
    """Whether an object whose marker names the sync is its own: a forged mark or a clone counts for nothing."""
    marker = seen.marker
    return (
        marker is not None
        and marker.hub == site.owner.hub
        and marker.at == place(site.cluster.uid, seen.target)
        and is_proven(seen, site.owner)
    )


def _is_unproven(site: Site, seen: Seen) -> bool:
    return standing(seen, site.owner, place(site.cluster.uid, seen.target)) is Standing.UNPROVEN


def _left_unproven(seen: Seen) -> Outcome:
    message = (
        "it is left, with all others like it, since its mark is signed with a key that is not known; delete it yourself"
        " if it was this sync's"
    )
    return Outcome(target=seen.target, state="Skipped", reason=MARK_UNPROVEN, message=message, gone=True)


def _wanting(sites: list[Site], seen: Seen) -> Site:
    """Of several names for one cluster, return the one that a copy belongs to, or the first where it is unwanted."""
    namespace = sites[0].cluster.namespace(seen.target.namespace)
    beside = seen.marker is not None and seen.marker.source.split("/")[1:2] == [seen.target.namespace]
    return next(
        (site for site in sites if _matches(site, namespace) or (site.place.scope is None and beside)), sites[0]
    )


def _where(site: Site, target: Target) -> Where:
    return site.cluster.uid, target.local()


def _relabelled(site: Site, seen: Seen) -> Seen:
    if not site.place.cluster:
        return seen
    return structs.replace(seen, target=seen.target._replace(cluster=site.place.cluster))


def _staying(copies: Iterable[Owned]) -> int:
    """Count the copies that nobody has deleted yet: those that wait for a finalizer are removed already."""
    return sum(not seen.deleting for _, seen in copies)


def _uid(site: Site, seen: Seen) -> ObjectUid:
    return site.cluster.uid, seen.uid


def managed_id(site: Site, seen: Seen) -> bytes:
    """Name this very object in the record of the scope."""
    target = seen.target
    return object_id(site.cluster.uid, target.kind, target.namespace, target.name, seen.uid)


def unwanted(work: Work, reached: Reached, wanted: Wanted) -> list[Owned]:
    """Return the copies that are no longer wanted; a namespace on its way out takes its copy along."""
    if not work.prune or not wanted.certain:
        return []
    return [
        (site, seen)
        for site, seen in owned(reached)
        if _where(site, seen.target) not in wanted.targets and not wanted.is_orphan(site, seen) and _is_open(site, seen)
    ]


def _removals(copies: Iterable[Owned], why: tuple[str, str], *, keep_edited: bool = False) -> list[Action]:
    removals = (
        plan_removal(seen, site.owner, site.cluster.uid, *why, keep_edited=keep_edited) for site, seen in copies
    )
    return [action for action in removals if action is not None]


def _in_order(copies: Iterable[Owned], *, staged: bool) -> list[list[Owned]]:
    """Return copies in the order in which they go: what needs others before these."""
    if not staged:
        return [list(copies)]
    by_target = {seen.target: (site, seen) for site, seen in copies}
    return [[by_target[target] for target in stage] for stage in removal_stages(by_target)]


def _is_open(site: Site, seen: Seen) -> bool:
    """Whether the namespace of a copy lets us touch it."""
    if not seen.target.namespace:
        return True
    namespace = site.cluster.namespace(seen.target.namespace)
    return namespace is not None and not namespace.terminating and not namespace.ignored


def _matches(site: Site, namespace: Namespace | None) -> bool:
    scope = site.place.scope
    return scope is not None and namespace is not None and scope.matches(namespace)


async def _no_progress(_: list[Outcome]) -> None:
    return
