"""What users do: one operation at a time each, several users at a time."""

from random import Random

from tests.churn.operations import copies, fleet, git, kinds, namespaces, sources, syncs
from tests.churn.operations.actor import Actor, Operation, Stage

_ALL = (
    *sources.OPERATIONS,
    *copies.OPERATIONS,
    *syncs.OPERATIONS,
    *namespaces.OPERATIONS,
    *git.OPERATIONS,
    *fleet.OPERATIONS,
    *kinds.OPERATIONS,
)
__all__ = ["Actor", "Stage", "choose"]


def choose(rng: Random) -> Operation:
    """Draw an operation by its weight."""
    return rng.choices([operation for _, operation in _ALL], [weight for weight, _ in _ALL])[0]
