"""Upward deletion: deletes the upstream object of a deleted copy, if `deletePropagation` is `Both`.

Without complete evidence the copy is created again. The evidence is: this process has seen the copy in sync with
exactly the present version of the upstream object; a watch has reported the deletion of exactly this copy; and the
cluster answers that the copy does not exist. A missing copy alone is no evidence: its cluster may have been restored
from a backup.
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
from syncline.core.outcome import SOURCE_MOVED, Outcome
from syncline.core.plan import Action, Verb
from syncline.core.prune_plan import GuardVerdict, deletion_guard
from syncline.engine.write_outcomes import failure
from syncline.kube.errors import Conflict, KubeError, NotFound

# A copy that is replaced (deleted and created again) is absent for a moment.
GRACE = 2.0
Job = Callable[[], Awaitable[Outcome | None]]


def deleted_copies(sync: AnySync, unit: UnitState, items: Sequence[DesiredAt]) -> dict[Target, Job | Outcome]:
    """Return the outcomes of the items whose copies were in sync and are deleted; other items have none."""
    gone = [item for item in items if item.pair is not None and item.pair.deletes_upward and _is_deleted(unit, item)]
    now = time.monotonic()
    unit.deleted_since = {item.desired.target: unit.deleted_since.get(item.desired.target, now) for item in gone}
    unit.deleted_upward = {one: then for one, then in unit.deleted_upward.items() if now - then < PRUNE_WINDOW}
    due = [item for item in gone if now - unit.deleted_since[item.desired.target] >= GRACE]
    verdict = deletion_guard(
        [_removal(item) for item in gone],  # all of them: a script deletes one by one
        len(unit.in_sync),
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
    """Return the outcome of an upstream object whose deletion waits for a confirmation."""
    return Outcome(target=target, state="Pending", reason="DeletionHeld", message=verdict.message)


def _awaited(target: Target) -> Outcome:
    """Return the outcome of a deleted copy whose upstream object is deleted if the copy does not return."""
    message = "the copy was deleted; its upstream object is deleted too if the copy does not return in a moment"
    return Outcome(target=target, state="Pending", reason="CopyDeleted", message=message, retry=True)


def _is_deleted(unit: UnitState, item: DesiredAt) -> bool:
    known = unit.in_sync.get((item.site.cluster.uid, item.desired.target))
    if known is None or known.desired is not item.desired or known.source is not item.source:
        return False
    namespace = item.site.cluster.namespace(item.desired.target.namespace)
    # A namespace that was created again is no evidence for what was deleted with its predecessor.
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
    """Delete the upstream object, unless the copy exists after all or the object has changed.

    `counts`: no person has confirmed it, so the deletion guard counts it with later ones.
    """
    source, pair, target = item.source, item.pair, item.desired.target
    assert source is not None  # noqa: S101 - only copies of sources come here
    assert pair is not None  # noqa: S101 - the caller looked
    try:
        if await _is_there(item):
            return _awaited(target)  # the watch reports it
        above = await pair.upstream.open_kind(GroupKind.parse(source.target.kind))
        place = (source.target.name, source.target.namespace or None)
        if counts:
            unit.deleted_upward[target] = time.monotonic()
        await pair.client.delete(above.resource, *place, uid=source.meta.uid, version=source.meta.resource_version)
    except Conflict:  # an edit beats a deletion: the copy is created again from the edited object
        message = "the upstream object was changed after its copy was deleted, so it stays"
        return Outcome(target=target, state="Pending", reason=SOURCE_MOVED, message=message, retry=True)
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
    """Whether a copy exists in its cluster, by a live read of exactly this object."""
    target = item.desired.target
    resource = item.site.cluster.informer(target.kind).resource
    try:
        await item.site.client.get(resource, target.name, target.namespace or None, metadata_only=True)
    except NotFound as error:
        if error.about != target.name:
            raise
        return False
    return True
