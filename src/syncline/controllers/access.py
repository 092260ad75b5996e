"""Whether a write that is planned would be allowed: asked by a command that only looks, before it promises anything."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from syncline.controllers.survey import Site
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.core.plan import Action
from syncline.core.rights import needed_verbs
from syncline.core.wire import DATA_KINDS

Allowed = tuple[list[Action], list[Outcome]]
"""What can be done, and what is said of the rest."""


class Access(Protocol):
    """Knows who may do what."""

    async def refusal(self, site: Site, user: str | None, target: Target, verbs: Sequence[str]) -> Outcome | None:
        """Say why a target cannot be written with these verbs; None where it can, or where nobody can tell.

        `user` is who writes in the sync's own cluster; None: the operator itself.
        """


class Unchecked:
    """Takes everything for allowed: whoever writes learns it."""

    async def refusal(self, site: Site, user: str | None, target: Target, verbs: Sequence[str]) -> Outcome | None:  # noqa: ARG002 - see the protocol
        """Refuse nothing."""
        return None


UNCHECKED = Unchecked()


async def allowed(access: Access, user: str | None, planned: Iterable[tuple[Site | None, Action | Outcome]]) -> Allowed:
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
