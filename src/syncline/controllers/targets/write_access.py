"""Write access: whether a planned write would be allowed, for a preview."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from syncline.controllers.targets.clusters import TargetCluster
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.core.plan import Action
from syncline.core.rights import needed_verbs
from syncline.core.wire import DATA_KINDS

AllowedActions = tuple[list[Action], list[Outcome]]
"""The allowed actions, and the outcomes of the others."""


class WriteAccess(Protocol):
    """Checks rights."""

    async def refusal(
        self, site: TargetCluster, user: str | None, target: Target, verbs: Sequence[str]
    ) -> Outcome | None:
        """Return why a target cannot be written with these verbs; None if it can, or if that cannot be known.

        `user` writes in the own cluster of the sync; None: the operator itself.
        """


class Unchecked:
    """Allows everything: the write itself is the check."""

    async def refusal(
        self,
        site: TargetCluster,  # noqa: ARG002 - see the protocol
        user: str | None,  # noqa: ARG002
        target: Target,  # noqa: ARG002
        verbs: Sequence[str],  # noqa: ARG002
    ) -> Outcome | None:
        """Return None: nothing is refused."""
        return None


UNCHECKED = Unchecked()


async def split_allowed(
    access: WriteAccess, user: str | None, planned: Iterable[tuple[TargetCluster | None, Action | Outcome]]
) -> AllowedActions:
    """Divide the planned actions into allowed and refused ones. Failed plans stay as they are.

    Actions in unreachable clusters are not checked.
    """
    actions: list[Action] = []
    refused: list[Outcome] = []
    for site, action in planned:
        if isinstance(action, Outcome):
            refused.append(action)
            continue
        verbs = needed_verbs(action, by_content=action.target.kind in DATA_KINDS)
        refusal = await access.refusal(site, user, action.target, verbs) if site is not None and verbs else None
        if refusal is None:
            actions.append(action)
        else:
            refused.append(refusal)
    return actions, refused
