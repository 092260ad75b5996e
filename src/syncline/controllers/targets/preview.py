"""Preview: the actions of a reconcile, planned without writes."""

from collections.abc import Awaitable, Sequence

from msgspec import Struct, structs

from syncline.controllers.errors import SyncError
from syncline.controllers.targets.clusters import TargetCluster
from syncline.core.conditions import shorten
from syncline.core.objects import Desired, Observed, Target
from syncline.core.outcome import Outcome
from syncline.core.plan import WRITES, Action, Verb
from syncline.engine.write_outcomes import failure
from syncline.engine.writer import Writer
from syncline.kube.errors import Forbidden, KubeError

_PASSED_OVER = {"Pending": "wait with", "Skipped": "skip"}


class Preview(Struct, frozen=True, kw_only=True):
    """The planned actions of a reconcile."""

    actions: tuple[Action, ...] = ()
    skipped: tuple[Outcome, ...] = ()
    problem: SyncError | None = None
    desired: tuple[tuple[TargetCluster, Desired], ...] = ()
    unmatched: tuple[str, ...] = ()
    """Descriptions of the selectors that match nothing."""

    def lines(self) -> list[str]:
        """Return one line for each object that a reconcile would write, and for each target with a problem."""
        lines = [f"{action.verb.value} {_named(action.target)}" for action in self.actions if action.verb in WRITES]
        lines += [
            f"leave {_named(action.target)}: {shorten(action.message, 300)}"
            for action in self.actions
            if action.verb is Verb.LEAVE and action.state in ("Conflict", "Failed")
        ]
        return lines + [
            f"{_PASSED_OVER.get(one.state, 'cannot write')} {_named(one.target)}: {shorten(one.message, 300)}"
            for one in self.skipped
        ]

    @property
    def changes(self) -> int:
        """How many objects would be written."""
        return sum(action.verb in WRITES for action in self.actions)


async def plan_one(writer: Writer, desired: Desired, *, kept: bool = False) -> Action | Outcome:
    """Plan one target as a reconcile would, or return the outcome of a failed read."""
    try:
        observed: Observed | None = await writer.observed(desired.target) or await writer.get_live(desired)
        action = await writer.plan(desired, observed, created_once=kept)
        if action.verb is Verb.READ:
            action = await writer.plan(desired, await writer.get_live(desired))
    except Forbidden:
        # A reconcile creates first, and reads only an object that turns out to exist.
        action = await writer.plan(desired, None, created_once=kept)
        if action.verb is Verb.CREATE:
            unseen = "created if there is none: the sync may not read whether there is"
            action = structs.replace(action, message=unseen)
    except KubeError as error:
        return failure(desired.target, error)
    return action


async def plan_pair(planning: Awaitable[Action], desired: Desired) -> Action | Outcome:
    """Plan the pair of a two-way sync, or return the outcome of a failed read."""
    try:
        return await planning
    except KubeError as error:
        return failure(desired.target, error)


def first_problem(*problems: SyncError | None) -> SyncError | None:
    """Return the first problem, or None."""
    return next((problem for problem in problems if problem is not None), None)


def merge(previews: Sequence[Preview]) -> Preview:
    """Merge the previews of the parts of one sync."""
    return Preview(
        actions=tuple(action for one in previews for action in one.actions),
        skipped=tuple(outcome for one in previews for outcome in one.skipped),
        problem=first_problem(*(one.problem for one in previews)),
        desired=tuple(pair for one in previews for pair in one.desired),
        unmatched=tuple(words for one in previews for words in one.unmatched),
    )


def _named(target: Target) -> str:
    """Return the text of a target with its kind, also for a ConfigMap."""
    cluster = f"{target.cluster}: " if target.cluster else ""
    where = f"{target.namespace}/{target.name}" if target.namespace else target.name
    return f"{cluster}{target.kind} {where}"
