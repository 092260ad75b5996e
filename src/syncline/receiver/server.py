"""The endpoint: `POST /webhook/{namespace}/{name}`.

| Answer | When |
|---|---|
| 202 | the sync will look; also for a delivery seen before, a ping, and events that are no push |
| 400 | proven, but no message that we know; or a body that cannot be read |
| 401 | no valid signature or token; of a sync that is not there, too |
| 404 | proven with the global secret, and there is no such sync |
| 405 | not a POST |
| 408 | the body came too slowly |
| 413 | more than 1 MiB |
| 429 | too many, with Retry-After |
| 503 | the operator has just started, or the push could not be passed on: send it again |

Nothing is parsed before it is proven, and no more than 1 MiB is ever held of a request. Names that are not there are
checked as those that are, by the same code, against a key that nobody has.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence

import structlog
from aiohttp import web

from syncline.core.pushes import Push, Unread, read_push
from syncline.kube.errors import KubeError
from syncline.receiver import metrics
from syncline.receiver.forwarded import HEADER, Network, client_of, is_trusted
from syncline.receiver.limits import Buckets, Budget, Deliveries, OverBudgetError, source_of
from syncline.receiver.proofs import fits
from syncline.telemetry.bind import OFF
from syncline.telemetry.http import Endpoint

FLAG = "--webhook-bind"
BODY_LIMIT = 1024 * 1024
BODY_SECONDS = 5.0
"""How long a body may take to arrive. Headers have the time that every endpoint gives a new connection."""
CHUNK = 64 * 1024
HELD_LIMIT = 32 * BODY_LIMIT
"""Bytes of bodies that all requests together may hold; most of them are of strangers."""
PASS_SECONDS = 8.0
"""How long a push may take to be passed on; Git hosts wait for about ten."""
DRAIN_LIMIT = 4 * BODY_LIMIT
DRAIN_SECONDS = 1.0
SOURCE_RATE, SOURCE_BURST = 50.0, 200
"""By address, of deliveries that are not proven."""
PAIR_RATE, PAIR_BURST = 5.0, 50
"""By address and sync, of deliveries that are not proven: many hosts may share a proxy, and the address's allowance."""
SYNC_RATE, SYNC_BURST = 1.0, 30
"""By sync, of proven deliveries: they cost a look at the repository."""
REMEMBERED = 10_000

Secrets = Callable[[str, str], tuple[bytes, ...] | None]
"""The secrets of a sync by namespace and name: none of its own, an empty tuple; no such sync, None."""
OnPush = Callable[[str, str, Push], Awaitable[None]]
"""Called for each push with the namespace and name it came for. The push is answered when it is where it must be."""

log = structlog.get_logger(__name__)


class _Refusal(Exception):  # noqa: N818 - an answer, not a fault
    """An answer other than the good one."""

    def __init__(self, status: int, result: metrics.Result, text: str, retry_after: float = 0.0) -> None:
        super().__init__(text)
        self.status = status
        self.result = result
        self.text = text
        self.retry_after = retry_after


class Receiver:
    """Takes deliveries from `start` to `stop`.

    A delivery is proven by a secret of the sync that it names, or by the global one; without either, by nothing.
    While it is not `ready`, because the secrets are not known yet, none is taken.
    """

    def __init__(
        self,
        bind: str,
        *,
        global_secret: bytes | None,
        secrets: Secrets,
        on_push: OnPush,
        ready: Callable[[], bool] = lambda: True,
        trusted_proxies: Sequence[Network] = (),
    ) -> None:
        self._bind = bind
        self._trusted = trusted_proxies
        self._ready = ready
        self._global = () if global_secret is None else (global_secret,)
        self._secrets = secrets
        self._on_push = on_push
        self._endpoint: Endpoint | None = None
        self._sources = Buckets(rate=SOURCE_RATE, burst=SOURCE_BURST, capacity=REMEMBERED, clock=time.monotonic)
        self._pairs = Buckets(rate=PAIR_RATE, burst=PAIR_BURST, capacity=REMEMBERED, clock=time.monotonic)
        self._syncs = Buckets(rate=SYNC_RATE, burst=SYNC_BURST, capacity=REMEMBERED, clock=time.monotonic)
        self._budget = Budget(HELD_LIMIT)
        self._deliveries = Deliveries(REMEMBERED)

    @property
    def port(self) -> int:
        """Where it listens; 0 where it does not."""
        return int(self._endpoint.address.rpartition(":")[2]) if self._endpoint else 0

    async def start(self) -> None:
        """Listen, unless the bind is 0. Raises `BindError`."""
        if self._bind == OFF:
            return
        route = web.post("/webhook/{namespace}/{name}", self._answer, expect_handler=_expect)
        self._endpoint = await Endpoint.start(
            FLAG, self._bind, [route], shared=lambda address: is_trusted(address, self._trusted)
        )

    async def stop(self) -> None:
        """Stop listening and end all connections."""
        if self._endpoint is not None:
            await self._endpoint.close()
            self._endpoint = None

    async def _answer(self, request: web.Request) -> web.Response:
        try:
            result, text = await self._receive(request)
        except _Refusal as refusal:
            metrics.count(refusal.result)
            return _response(refusal.status, refusal.text, refusal.retry_after)
        metrics.count(result)
        return _response(202, text)

    async def _receive(self, request: web.Request) -> tuple[metrics.Result, str]:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        source = source_of(client_of(request.remote, request.headers.getall(HEADER, ()), self._trusted))
        pair = (source, hash((namespace, name)))  # of any name the same few bytes are kept
        self._admit(source, pair)
        if not self._ready():
            raise _Refusal(503, "not_ready", "the operator is starting; send it again", 1.0)
        with self._budget.share() as claim:
            body = await _read(request, claim)
            self._prove(request, body, namespace, name)
            self._sources.give_back(source)
            self._pairs.give_back(pair)
            if wait := self._syncs.take((namespace, name)):
                raise _Refusal(429, "limited", "too many deliveries for this sync", wait)
            push = read_push(request.headers, body)
        if isinstance(push, Unread):
            if push.broken:
                raise _Refusal(400, "malformed", push.reason)
            return "ignored", push.reason
        return await self._pass_on(namespace, name, push)

    def _admit(self, source: str, pair: tuple[str, int]) -> None:
        """Count a request before anything is read of it; one that is proven later is not counted."""
        # What one sync is told too often does not use up what the address has for others.
        if wait := self._pairs.take(pair):
            raise _Refusal(429, "limited", "too many requests for this sync from this address", wait)
        if wait := self._sources.take(source):
            raise _Refusal(429, "limited", "too many requests from this address", wait)

    def _prove(self, request: web.Request, body: bytes, namespace: str, name: str) -> None:
        own = self._secrets(namespace, name)
        by_sync = fits(request.headers, body, own or ())
        by_all = fits(request.headers, body, self._global)
        if not (by_sync or by_all):
            raise _Refusal(401, "unauthorized", "no valid signature or token: check the secret of the webhook")
        if own is None:
            raise _Refusal(404, "unknown", f"there is no sync {namespace}/{name}")

    async def _pass_on(self, namespace: str, name: str, push: Push) -> tuple[metrics.Result, str]:
        delivery = (namespace, name, push.delivery)
        if push.delivery and delivery in self._deliveries:
            return "duplicate", "seen before"
        if push.kind != "Ping":
            await self._hand_over(namespace, name, push)
            log.info("a push came", sync=f"{namespace}/{name}", host=push.host, kind=push.kind)
        if push.delivery:
            self._deliveries.add(delivery)
        return ("ignored", "pong") if push.kind == "Ping" else ("accepted", "accepted")

    async def _hand_over(self, namespace: str, name: str, push: Push) -> None:
        refusal = _Refusal(503, "failed", "the push could not be passed on; send it again", 1.0)
        try:
            async with asyncio.timeout(PASS_SECONDS):
                await self._on_push(namespace, name, push)
        except (KubeError, TimeoutError) as error:
            # What the API server says, or does not say, is no fault of ours: one line, no traceback.
            cause = str(error) or f"no end within {PASS_SECONDS:g} s"
            log.warning("a push could not be passed on", sync=f"{namespace}/{name}", error=cause)
            raise refusal from None
        except Exception:
            log.exception("a push could not be passed on", sync=f"{namespace}/{name}")
            raise refusal from None


async def _read(request: web.Request, claim: Callable[[int], None]) -> bytes:
    """Read the body as it came, within its limits."""
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise _Refusal(400, "malformed", "the body is compressed: send it as it is")
    body = bytearray()
    try:
        if (request.content_length or 0) > BODY_LIMIT:
            raise await _too_large(request)
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.content.iter_chunked(CHUNK):
                if len(body) + len(chunk) > BODY_LIMIT:
                    raise await _too_large(request)
                claim(len(chunk))
                body += chunk
    except TimeoutError:
        raise _Refusal(408, "too_slow", "the body came too slowly") from None
    except OverBudgetError:
        raise _Refusal(429, "limited", "too much at once", 1.0) from None
    except web.RequestPayloadError:
        raise _Refusal(400, "malformed", "the body cannot be read") from None
    return bytes(body)


async def _too_large(request: web.Request) -> _Refusal:
    """Return the answer, once the sender can hear it: who is still sending when we hang up sees only that."""
    drained = 0
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            async for chunk in request.content.iter_chunked(CHUNK):
                drained += len(chunk)
                if drained > DRAIN_LIMIT:
                    break
    except (TimeoutError, web.RequestPayloadError):
        pass
    return _Refusal(413, "too_large", "larger than 1 MiB")


async def _expect(request: web.Request) -> web.StreamResponse | None:
    """Tell a sender that asks before it sends whether it may."""
    if (request.content_length or 0) > BODY_LIMIT:
        metrics.count("too_large")
        return _response(413, "larger than 1 MiB")
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    return None


def _response(status: int, text: str, retry_after: float = 0.0) -> web.Response:
    headers = {"Retry-After": str(math.ceil(retry_after))} if retry_after else {}
    if status == 401:  # noqa: PLR2004 - HTTP's own number
        headers["WWW-Authenticate"] = "Bearer"
    response = web.Response(status=status, text=f"{text}\n", headers=headers)
    response.force_close()
    return response
