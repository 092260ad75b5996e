"""Upward deletion: a copy that somebody deleted takes its upstream object along, where the spec says `Both`.

The evidence is complete, or the copy is created again: this process has seen the copy in order, made from exactly the
version of the upstream object that is there now; a watch has told the deletion of this very copy; and the cluster says
that the copy is gone. A copy that is only missing says nothing: its cluster may have been restored from a backup.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from syncline.api.common import CONFIRM_DELETION
from syncline.controllers.lowered import AnySync
from syncline.controllers.state import PRUNE_WINDOW, UnitState
from syncline.controllers.targets.stages import DesiredAt
from syncline.core.group_kind import GroupKind
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.core.plan import Action, Verb
from syncline.core.prune_plan import GuardVerdict, deletion_guard
from syncline.engine.write_outcomes import failure
from syncline.kube.errors import Conflict, KubeError, NotFound

# A copy that is replaced (deleted and created again) is away for a moment.
GRACE = 2.0
Job = Callable[[], Awaitable[Outcome | None]]


def deleted_copies(sync: AnySync, unit: UnitState, items: Sequence[DesiredAt]) -> dict[Target, Job | Outcome]:
    """Return what becomes of the items whose copies were in order and are gone; the others are not in it."""
    gone = [item for item in items if item.pair is not None and item.pair.deletes_upward and _is_deleted(unit, item)]
    now = time.monotonic()
    unit.deleted_since = {item.desired.target: unit.deleted_since.get(item.desired.target, now) for item in gone}
    unit.deleted_upward = {one: then for one, then in unit.deleted_upward.items() if now - then < PRUNE_WINDOW}
    due = [item for item in gone if now - unit.deleted_since[item.desired.target] >= GRACE]
    verdict = deletion_guard(
        [_removal(item) for item in gone],  # all of them: a script deletes one by one
        len(unit.settled),
        confirmed=sync.metadata.annotations.get(CONFIRM_DELETION, ""),
        recent=len(unit.deleted_upward.keys() - unit.deleted_since.keys()),
        why="their copies were deleted",
    )
    found: dict[Target, Job | Outcome] = {item.desired.target: _awaited(item.desired.target) for item in gone}
    for item in due:
        target = item.desired.target
        found[target] = _held(target, verdict) if verdict.held else partial(_delete, unit, item, counts=verdict.derived)
    return found


def _held(target: Target, verdict: GuardVerdict) -> Outcome:
    """Say that an upstream object is not deleted before a person has confirmed it."""
    return Outcome(target=target, state="Pending", reason="DeletionHeld", message=verdict.message)


def _awaited(target: Target) -> Outcome:
    """Say that a copy is gone, and that its upstream object goes too if the copy stays away."""
    message = "the copy was deleted; its upstream object is deleted too if the copy does not return in a moment"
    return Outcome(target=target, state="Pending", reason="CopyDeleted", message=message, retry=True)


def _is_deleted(unit: UnitState, item: DesiredAt) -> bool:
    known = unit.settled.get((item.site.cluster.uid, item.desired.target))
    if known is None or known.desired is not item.desired or known.source is not item.source:
        return False
    namespace = item.site.cluster.namespace(item.desired.target.namespace)
    # A namespace that was created again says nothing of what its predecessor took along.
    is_open = not item.desired.target.namespace or (
        namespace is not None and not namespace.terminating and namespace.uid == known.namespace
    )
    cluster, target = item.site.cluster, item.desired.target
    is_gone = cluster.managed_at(target) is None and cluster.informer(target.kind).managed.was_deleted(known.observed)
    return is_open and is_gone


def _removal(item: DesiredAt) -> Action:
    uid = item.source.meta.uid if item.source is not None else ""
    return Action(verb=Verb.DELETE, target=item.desired.target, reason="CopyDeleted", message="", uid=uid)


async def _delete(unit: UnitState, item: DesiredAt, *, counts: bool) -> Outcome | None:
    """Delete the upstream object, unless the copy is there after all or the object has changed.

    `counts`: nobody has confirmed it, so it counts together with those that follow soon.
    """
    source, pair, target = item.source, item.pair, item.desired.target
    assert source is not None  # noqa: S101 - only copies of sources come here
    assert pair is not None  # noqa: S101 - the caller looked
    try:
        if await _is_there(item):
            return _awaited(target)  # the watch tells of it
        above = await pair.upstream.open_kind(GroupKind.parse(source.target.kind))
        place = (source.target.name, source.target.namespace or None)
        if counts:
            unit.deleted_upward[target] = time.monotonic()
        await pair.client.delete(above.resource, *place, uid=source.meta.uid, version=source.meta.resource_version)
    except Conflict:  # an edit beats a deletion: the copy is created again from the edited object
        message = "the upstream object was changed after its copy was deleted, so it stays"
        return Outcome(target=target, state="Pending", reason="SourceMoved", message=message, retry=True)
    except NotFound as error:
        return None if error.about == source.target.name else failure(target, error)
    except KubeError as error:
        return failure(target, error)
    message = "its copy was deleted, so the upstream object was deleted too"
    return Outcome(
        target=target,
        state="Synced",
        reason="DeletedUpstream",
        message=message,
        written=Verb.DELETE,
        gone=True,
        upward=True,
    )


async def _is_there(item: DesiredAt) -> bool:
    """Whether a copy is in its cluster, by the cluster's own answer about this very object."""
    target = item.desired.target
    resource = item.site.cluster.informer(target.kind).resource
    try:
        await item.site.client.get(resource, target.name, target.namespace or None, metadata_only=True)
    except NotFound as error:
        if error.about != target.name:
            raise
        return False
    return True
