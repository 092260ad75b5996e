"""Write access: whether a planned write would be allowed, asked by a preview."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from syncline.controllers.targets.clusters import TargetCluster
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.core.plan import Action
from syncline.core.rights import needed_verbs
from syncline.core.wire import DATA_KINDS

AllowedActions = tuple[list[Action], list[Outcome]]
"""What can be done, and what is said of the rest."""


class WriteAccess(Protocol):
    """Knows who may do what."""

    async def refusal(
        self, site: TargetCluster, user: str | None, target: Target, verbs: Sequence[str]
    ) -> Outcome | None:
        """Say why a target cannot be written with these verbs; None where it can, or where nobody can tell.

        `user` is who writes in the sync's own cluster; None: the operator itself.
        """


class Unchecked:
    """Takes everything for allowed: whoever writes learns it."""

    async def refusal(
        self,
        site: TargetCluster,  # noqa: ARG002 - see the protocol
        user: str | None,  # noqa: ARG002
        target: Target,  # noqa: ARG002
        verbs: Sequence[str],  # noqa: ARG002
    ) -> Outcome | None:
        """Refuse nothing."""
        return None


UNCHECKED = Unchecked()


async def split_allowed(
    access: WriteAccess, user: str | None, planned: Iterable[tuple[TargetCluster | None, Action | Outcome]]
) -> AllowedActions:
    """Sort what is planned by whether it is allowed; what cannot be told stays so.

    What is in no cluster that can be reached is not asked about.
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
