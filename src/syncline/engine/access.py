"""Access reviews: the rights of users in a cluster, as its API server reports them.

The operator reviews the rights of others with its own identity: the owner of an account could delay its requests
without limit, while others wait for the answer. Rights change without an event, so an answer is cached for a short time
only.
"""

import asyncio
import contextvars
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from syncline.kube.client import Client
from syncline.kube.errors import Forbidden
from syncline.kube.resources import Resource
from syncline.kube.reviews import may_self, may_user

# How many seconds an answer is used.
ANSWER_TTL = 20.0
# The maximum number of cached answers; the oldest are dropped.
CAPACITY = 10_000


class AccessRequest(Struct, frozen=True, kw_only=True):
    """A right to review: over all objects of a namespace, or over one object; without a namespace, over all."""

    verb: str
    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


async def is_allowed(client: Client, access: AccessRequest, *, fair_key: str = "") -> bool:
    """Ask the API server whether the user of the client has a right.

    A user who may not even ask has none. Raises `KubeError` if there is no answer.
    """
    try:
        return await may_self(client, _attributes(access), fair_key=fair_key)
    except Forbidden:
        return False


async def is_user_allowed(client: Client, user: str | None, access: AccessRequest, *, fair_key: str = "") -> bool:
    """Ask the API server whether a user has a right; None: the user of the client.

    If the client may not review others, it asks as the user. Raises `KubeError` if there is no answer.
    """
    if user is None:
        return await is_allowed(client, access, fair_key=fair_key)
    try:
        return await may_user(client, user, _attributes(access), fair_key=fair_key)
    except Forbidden:
        return await is_allowed(client.impersonating(user), access, fair_key=fair_key)


def _attributes(access: AccessRequest) -> dict[str, str]:
    resource = access.resource
    return {
        "verb": access.verb,
        "group": resource.group,
        "resource": resource.plural,
        "subresource": access.subresource,
        "namespace": access.namespace,
        "name": access.name,
    }


class AccessReviews:
    """The rights of users in one cluster. Concurrent callers share a review; answers are cached for a short time."""

    def __init__(
        self,
        client: Client,
        *,
        capacity: int = CAPACITY,
        ttl: float = ANSWER_TTL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._capacity = capacity
        self._ttl = ttl
        self._clock = clock
        self._answers: OrderedDict[tuple[str | None, AccessRequest], tuple[float, asyncio.Task[bool]]] = OrderedDict()

    async def may(self, user: str | None, access: AccessRequest, *, by: str = "") -> bool:
        """Return whether a user (None: the operator itself) has a right. `by` is the sync that asks.

        A right in all namespaces is not reviewed for each namespace. Raises `KubeError` if there is no answer.
        """
        if access.namespace:
            everywhere = AccessRequest(verb=access.verb, resource=access.resource, subresource=access.subresource)
            if await self._answer(user, everywhere, by):
                return True
        return await self._answer(user, access, by)

    async def _answer(self, user: str | None, access: AccessRequest, by: str) -> bool:
        key, now = (user, access), self._clock()
        asked, task = self._answers.get(key, (0.0, None))
        if task is None or now - asked >= self._ttl or _has_failed(task):
            # In a separate context: the callers that share the answer must not wait for the quota of the first caller.
            question = is_user_allowed(self._client, user, access, fair_key=by)
            task = asyncio.create_task(question, context=contextvars.Context())
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
