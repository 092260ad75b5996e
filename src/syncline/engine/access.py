"""Who may do what in a cluster, as its API server says.

The server is asked with the identity in question, so that it adds the groups itself, and whatever authorizes there
is heard. Rights change without a word: an answer is believed for a short while only.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from syncline.kube.client import Client
from syncline.kube.errors import Forbidden
from syncline.kube.resources import Resource
from syncline.kube.reviews import may_self

# How long an answer is believed.
ANSWER_TTL = 20.0
# As many answers are kept; a flood of questions pushes out the oldest.
CAPACITY = 10_000


class AccessRequest(Struct, frozen=True, kw_only=True):
    """A right that somebody may have: over all objects of a namespace, or over one; without a namespace, over all."""

    verb: str
    resource: Resource
    namespace: str = ""
    name: str = ""


async def is_allowed(client: Client, access: AccessRequest, *, fair_key: str = "") -> bool:
    """Ask the API server whether whom the client acts as has a right.

    An identity that may not even ask has none. Raises `KubeError` where there is no answer.
    """
    resource = access.resource
    attributes = {
        "verb": access.verb,
        "group": resource.group,
        "resource": resource.plural,
        "namespace": access.namespace,
        "name": access.name,
    }
    try:
        return await may_self(client, attributes, fair_key=fair_key)
    except Forbidden:
        return False


class AccessReviews:
    """The rights of identities in one cluster: asked once, by however many at a time, and believed for a while."""

    def __init__(
        self, client: Client, *, capacity: int = CAPACITY, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._capacity = capacity
        self._clock = clock
        self._answers: OrderedDict[tuple[str | None, AccessRequest], tuple[float, asyncio.Task[bool]]] = OrderedDict()

    async def may(self, user: str | None, access: AccessRequest, *, by: str = "") -> bool:
        """Tell whether a user (None: the operator itself) has a right; `by` is the sync that wants to know.

        Whoever has it in all namespaces need not be asked about each. Raises `KubeError` where there is no answer.
        """
        if access.namespace:
            everywhere = AccessRequest(verb=access.verb, resource=access.resource)
            if await self._answer(user, everywhere, by):
                return True
        return await self._answer(user, access, by)

    async def _answer(self, user: str | None, access: AccessRequest, by: str) -> bool:
        key, now = (user, access), self._clock()
        asked, task = self._answers.get(key, (0.0, None))
        if task is None or now - asked >= ANSWER_TTL or _has_failed(task):
            client = self._client if user is None else self._client.impersonating(user)
            task = asyncio.create_task(is_allowed(client, access, fair_key=by))
            self._answers[key] = (now, task)
            self._answers.move_to_end(key)
            while len(self._answers) > self._capacity:
                self._answers.popitem(last=False)
        # Others may wait for the same answer.
        return await asyncio.shield(task)

    def __len__(self) -> int:
        return len(self._answers)


def _has_failed(task: "asyncio.Task[bool]") -> bool:
    with suppress(asyncio.InvalidStateError):
        return task.cancelled() or task.exception() is not None
    return False
