"""Authentication of pods: the API server reviews the token of a request, and the pod is read.

A verdict is cached for at most a minute. Pods that were authenticated before have their own share of reviews. All
others are limited, by address and in total, and their addresses take turns: a flood of invalid tokens delays a new pod,
and locks nobody out.
"""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar

from msgspec import Struct, field

from syncline.core.gateway_plan import AUDIENCE
from syncline.core.pod_tokens import PodIdentity, TokenError, bearer_token, claimed_pod, proven_pod
from syncline.depot.plans import DepotRefusal
from syncline.fairness import FairSemaphore
from syncline.kube.client import Client
from syncline.kube.errors import KubeError, NotFound
from syncline.kube.resources import PODS
from syncline.kube.reviews import review_token
from syncline.limits import Buckets, source_of

PROVEN_SECONDS = 60.0
DENIED_SECONDS = 10.0
REVIEW_SECONDS = 5.0
"""The time for which a verdict is cached, and the timeout of a review."""
KNOWN_SECONDS = 3600.0
"""The time for which an authenticated pod is exempt from the limits of unknown pods."""
REMEMBERED = 8192
"""The maximum number of cached verdicts of each kind, and of addresses."""

KNOWN_SLOTS, KNOWN_SHARE = 16, 8
"""The maximum number of concurrent reviews of known pods: in total, and of one namespace."""
UNKNOWN_SLOTS, UNKNOWN_SHARE = 4, 2
"""The maximum number of concurrent reviews of unknown pods: in total, and of one address."""
UNKNOWN_SECONDS = 0.08
"""The minimum time for which a review of an unknown pod takes its slot: together 50 reviews a second."""
UNKNOWN_PATIENCE = 10.0
"""The maximum time that an unknown pod waits for its review."""
ADDRESS_RATE, ADDRESS_BURST = 20.0, 100
"""The rate of unknown pods by address. Pods behind a proxy share an address."""

_REFUSAL = "the API server does not accept the token for a pod that exists"

Clock = Callable[[], float]
Review = Callable[[str], Awaitable[PodIdentity | None]]
"""Returns the pod of a token, or None if the token is not that of an existing pod. Raises `KubeError`."""
_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class _CallerSpec(Struct, frozen=True, rename="camel"):
    service_account_name: str = ""


class _CallerMeta(Struct, frozen=True):
    uid: str = ""


class _CallerStatus(Struct, frozen=True):
    phase: str = ""


class _Caller(Struct, frozen=True):
    metadata: _CallerMeta = field(default_factory=_CallerMeta)
    spec: _CallerSpec = field(default_factory=_CallerSpec)
    status: _CallerStatus = field(default_factory=_CallerStatus)


def pod_review(client: Client) -> Review:
    """Return a review by the API server that this client talks to."""

    async def review(token: str) -> PodIdentity | None:
        user = await review_token(client, token, AUDIENCE)
        pod = proven_pod(user.username, user.extra) if user is not None else None
        if pod is None:
            return None
        try:
            found = await client.get(PODS, pod.name, pod.namespace, type=_Caller, fair_key=pod.namespace)
        except NotFound:
            return None
        if found.status.phase in ("Succeeded", "Failed"):
            return None
        same = found.metadata.uid == pod.uid and found.spec.service_account_name == pod.service_account
        return pod if same else None

    return review


class Authentication:
    """Authenticates the pod that sends a request."""

    def __init__(self, review: Review, clock: Clock = time.monotonic) -> None:
        self._review = review
        self._clock = clock
        self._proven: OrderedDict[bytes, tuple[PodIdentity, float]] = OrderedDict()
        self._denied: OrderedDict[bytes, float] = OrderedDict()
        self._known: OrderedDict[tuple[str, str], float] = OrderedDict()
        """The authenticated pods, by address and UID, with the time until which they count as known."""
        self._reviews: dict[bytes, asyncio.Task[PodIdentity]] = {}
        self._addresses = Buckets(rate=ADDRESS_RATE, burst=ADDRESS_BURST, capacity=REMEMBERED, clock=clock)
        self._known_slots = FairSemaphore(KNOWN_SLOTS, share=KNOWN_SHARE)
        self._unknown_slots = FairSemaphore(UNKNOWN_SLOTS, share=UNKNOWN_SHARE)

    async def identify(self, authorization: str, address: str) -> PodIdentity:
        """Return the pod of a request by its Authorization header and its source address. Raises `DepotRefusal`."""
        try:
            token = bearer_token(authorization)
            key = hashlib.sha256(token.encode(errors="surrogatepass")).digest()
            now = self._clock()
            pod, until = self._proven.get(key, (None, 0.0))
            if pod is not None and now < until:
                return pod
            claimed = claimed_pod(token)
        except TokenError as error:
            raise DepotRefusal(401, str(error)) from None
        if now < self._denied.get(key, 0.0):
            raise DepotRefusal(401, _REFUSAL)
        review = self._reviews.get(key)
        if review is None:
            review = self._reviews[key] = asyncio.create_task(self._decide(key, token, claimed, source_of(address)))
            review.add_done_callback(lambda done: self._reviewed(key, done))
        return await asyncio.shield(review)

    async def close(self) -> None:
        """Cancel the reviews in progress."""
        running = list(self._reviews.values())
        for review in running:
            review.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _reviewed(self, key: bytes, done: "asyncio.Task[PodIdentity]") -> None:
        self._reviews.pop(key, None)
        if not done.cancelled():
            done.exception()  # it was raised for the waiting callers; none may be left

    async def _decide(self, key: bytes, token: str, claimed: PodIdentity, source: str) -> PodIdentity:
        known = (source, claimed.uid)
        if self._clock() < self._known.get(known, 0.0):
            async with self._known_slots.slot(claimed.namespace):
                pod = await self._ask(token, claimed)
        else:
            pod = await self._review_unknown(token, claimed, source)
        now = self._clock()
        if pod is None:
            # An address that sends a wrong token for a known pod counts as unknown from now on.
            self._known.pop(known, None)
            self._proven.pop(key, None)
            _remember(self._denied, key, now + DENIED_SECONDS)
            raise DepotRefusal(401, _REFUSAL)
        _remember(self._proven, key, (pod, now + PROVEN_SECONDS))
        _remember(self._known, known, now + KNOWN_SECONDS)
        return pod

    async def _review_unknown(self, token: str, claimed: PodIdentity, source: str) -> PodIdentity | None:
        if wait := self._addresses.take(source):
            raise DepotRefusal(429, "too many unknown tokens from this address: retry later", retry_after=wait)
        try:
            async with asyncio.timeout(UNKNOWN_PATIENCE) as patience, self._unknown_slots.slot(source):
                patience.reschedule(None)
                # The slot is held for a minimum time, which limits the total rate of unknown pods.
                pause = asyncio.create_task(asyncio.sleep(UNKNOWN_SECONDS))
                try:
                    pod = await self._ask(token, claimed)
                finally:
                    await pause
        except TimeoutError:
            raise DepotRefusal(429, "too many unknown tokens: retry later", retry_after=1.0) from None
        if pod is not None:
            self._addresses.give_back(source)
        return pod

    async def _ask(self, token: str, claimed: PodIdentity) -> PodIdentity | None:
        try:
            async with asyncio.timeout(REVIEW_SECONDS):
                pod = await self._review(token)
        except (KubeError, TimeoutError):
            raise DepotRefusal(
                503, "the API server did not answer the review of the token: retry later", retry_after=1.0
            ) from None
        return pod if pod == claimed else None


def _remember(known: "OrderedDict[_K, _V]", key: _K, value: _V) -> None:
    known[key] = value
    known.move_to_end(key)
    while len(known) > REMEMBERED:
        known.popitem(last=False)
