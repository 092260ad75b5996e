"""The endpoint: `POST /webhook/{namespace}/{name}`.

| Answer | When |
|---|---|
| 202 | the operator checks the repository; also for a repeated or outdated delivery, a ping, and other events |
| 400 | authenticated, but the message is unknown, or the body is unreadable |
| 401 | no valid signature or token; also if the sync does not exist |
| 403 | authenticated, but the sync does not allow what the delivery requests |
| 404 | authenticated with the global secret, but the sync does not exist |
| 405 | not a POST |
| 408 | the body arrived too slowly |
| 413 | more than 1 MiB |
| 429 | too many requests, with Retry-After |
| 503 | the operator has just started, or the push could not be forwarded: send it again |

No request is parsed before its authentication, and at most 1 MiB of a request is held in memory. Names that do not
exist are checked by the same code as existing names, with a random key.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

import structlog
from aiohttp import web

from syncline.core.pushes import Push, Unread, read_push
from syncline.kube.errors import KubeError
from syncline.limits import BodyBudget, Buckets, OverBudgetError, source_of
from syncline.receiver import metrics
from syncline.receiver.forwarded import HEADER, Network, client_of, is_trusted
from syncline.receiver.limits import Deliveries
from syncline.receiver.signatures import is_authentic
from syncline.telemetry.bind import OFF
from syncline.telemetry.http import Endpoint

FLAG = "--webhook-bind"
BODY_LIMIT = 1024 * 1024
BODY_SECONDS = 5.0
"""The timeout for a body, in seconds. Headers have the timeout of a new connection."""
CHUNK = 64 * 1024
HELD_LIMIT, HELD_SHARE = 20 * BODY_LIMIT, 5 * BODY_LIMIT
"""The maximum size of large bodies in memory: of all, and of one sender. Most of them are not authenticated."""
SMALL = CHUNK
"""The part of each body that does not count: nobody can block small deliveries with large ones."""
PASS_SECONDS = 8.0
"""The timeout to forward a push, in seconds. Git hosts wait for about ten seconds."""
DRAIN_LIMIT = 4 * BODY_LIMIT
DRAIN_SECONDS = 1.0
SOURCE_RATE, SOURCE_BURST = 50.0, 200
"""The rate of unauthenticated deliveries by address."""
PAIR_RATE, PAIR_BURST = 5.0, 50
"""The rate of unauthenticated deliveries by address and sync: many hosts can share the address of a proxy."""
SYNC_RATE, SYNC_BURST = 1.0, 30
"""The rate of authenticated deliveries by sync: each causes a check of the repository."""
REMEMBERED = 10_000

Secrets = Callable[[str, str], Mapping[str, tuple[bytes, ...]]]
"""Returns the secrets of the syncs with a namespace and name, by kind: an empty tuple for a sync that has none."""
OnPush = Callable[[str, str, Push, frozenset[str]], Awaitable[None]]
"""Called for each push with the namespace and the name of the syncs, and with the kinds that it is authenticated for.

The response is sent after this call.
"""

log = structlog.get_logger(__name__)


class RequestRefusedError(Exception):
    """A sync does not allow what an authenticated delivery requests. The message is the answer."""


class OutdatedRequestError(Exception):
    """A sync has taken a newer request than an authenticated delivery. The message is the answer."""


class _Refusal(Exception):  # noqa: N818 - an answer, not a fault
    """A response that refuses a request."""

    def __init__(self, status: int, result: metrics.Result, text: str, retry_after: float = 0.0) -> None:
        super().__init__(text)
        self.status = status
        self.result = result
        self.text = text
        self.retry_after = retry_after


class Receiver:
    """Accepts deliveries from `start` to `stop`.

    A delivery is authenticated with a secret of its sync, or with the global secret. Without both, no delivery is
    accepted. Syncs of several `kinds` can have the same name: a delivery reaches those that it is authenticated for.
    While the receiver is not `ready`, because the secrets are not known yet, it accepts no delivery.
    """

    def __init__(
        self,
        bind: str,
        *,
        kinds: Sequence[str],
        global_secret: bytes | None,
        secrets: Secrets,
        on_push: OnPush,
        ready: Callable[[], bool] = lambda: True,
        trusted_proxies: Sequence[Network] = (),
    ) -> None:
        self._bind = bind
        self._trusted = trusted_proxies
        self._ready = ready
        self._kinds = kinds
        self._global = () if global_secret is None else (global_secret,)
        self._secrets = secrets
        self._on_push = on_push
        self._endpoint: Endpoint | None = None
        self._sources = Buckets(rate=SOURCE_RATE, burst=SOURCE_BURST, capacity=REMEMBERED, clock=time.monotonic)
        self._pairs = Buckets(rate=PAIR_RATE, burst=PAIR_BURST, capacity=REMEMBERED, clock=time.monotonic)
        self._syncs = Buckets(rate=SYNC_RATE, burst=SYNC_BURST, capacity=REMEMBERED, clock=time.monotonic)
        self._budget = BodyBudget(HELD_LIMIT, share=HELD_SHARE, free=SMALL)
        self._deliveries = Deliveries(REMEMBERED)

    @property
    def address(self) -> str:
        """The host and port of the receiver; empty if it does not listen."""
        return self._endpoint.address if self._endpoint else ""

    @property
    def port(self) -> int:
        """The port of the receiver; 0 if it does not listen."""
        return int(self.address.rpartition(":")[2] or 0)

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
        pair = (source, hash((namespace, name)))  # a hash, because names can be long
        self._admit(source, pair)
        if not self._ready():
            raise _Refusal(503, "not_ready", "the operator is starting: send it again", 1.0)
        with self._budget.share(source) as claim:
            body = await _read(request, claim)
            kinds = self._prove(request, body, namespace, name)
            self._sources.give_back(source)
            self._pairs.give_back(pair)
            if wait := self._syncs.take((namespace, name)):
                raise _Refusal(429, "limited", "too many deliveries for this sync", wait)
            push = read_push(request.headers, body)
        if isinstance(push, Unread):
            if push.broken:
                raise _Refusal(400, "malformed", push.reason)
            return "ignored", push.reason
        return await self._pass_on(namespace, name, push, kinds)

    def _admit(self, source: str, pair: tuple[str, int]) -> None:
        """Count a request before its body is read. An authenticated request is not counted."""
        # Too many requests for one sync do not use the rate of the address for other syncs.
        if wait := self._pairs.take(pair):
            raise _Refusal(429, "limited", "too many requests for this sync from this address", wait)
        if wait := self._sources.take(source):
            raise _Refusal(429, "limited", "too many requests from this address", wait)

    def _prove(self, request: web.Request, body: bytes, namespace: str, name: str) -> frozenset[str]:
        """Return the kinds of syncs that a delivery is authenticated for. All are checked, to take the same time."""
        own = self._secrets(namespace, name)
        by_sync = [kind for kind in self._kinds if is_authentic(request.headers, body, own.get(kind, ()))]
        by_all = is_authentic(request.headers, body, self._global)
        if not (by_sync or by_all):
            raise _Refusal(401, "unauthorized", "no valid signature or token: check the secret of the webhook")
        if not own:
            raise _Refusal(404, "unknown", f"there is no sync {namespace}/{name}")
        return frozenset(own if by_all else by_sync)

    async def _pass_on(
        self, namespace: str, name: str, push: Push, kinds: frozenset[str]
    ) -> tuple[metrics.Result, str]:
        delivery = (namespace, name, push.delivery, *sorted(kinds))
        if push.delivery and delivery in self._deliveries:
            return "duplicate", "repeated delivery, ignored"
        if push.kind != "Ping":
            try:
                await self._hand_over(namespace, name, push, kinds)
            except OutdatedRequestError as error:
                return "duplicate", str(error)
            log.info("push webhook received", sync=f"{namespace}/{name}", host=push.host, kind=push.kind)
        if push.delivery:
            self._deliveries.add(delivery)
        return ("ignored", "pong") if push.kind == "Ping" else ("accepted", "accepted")

    async def _hand_over(self, namespace: str, name: str, push: Push, kinds: frozenset[str]) -> None:
        refusal = _Refusal(503, "failed", "the push could not be forwarded: send it again", 1.0)
        try:
            async with asyncio.timeout(PASS_SECONDS):
                await self._on_push(namespace, name, push, kinds)
        except OutdatedRequestError:
            raise
        except RequestRefusedError as error:
            raise _Refusal(403, "not_allowed", str(error)) from None
        except (KubeError, TimeoutError) as error:
            # An error of the API server is not a bug: one line, no traceback.
            cause = str(error) or f"no result within {PASS_SECONDS:g} s"
            log.warning("push webhook could not be forwarded", sync=f"{namespace}/{name}", error=cause)
            raise refusal from None
        except Exception:
            log.exception("push webhook could not be forwarded", sync=f"{namespace}/{name}")
            raise refusal from None


async def _read(request: web.Request, claim: Callable[[int], None]) -> bytes:
    """Read the raw body, within its limits."""
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise _Refusal(400, "malformed", "the body is compressed: send it uncompressed")
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
        raise _Refusal(408, "too_slow", "the body arrived too slowly") from None
    except OverBudgetError:
        raise _Refusal(429, "limited", "too many large requests at once: send it again", 1.0) from None
    except web.RequestPayloadError:
        raise _Refusal(400, "malformed", "the body is unreadable") from None
    return bytes(body)


async def _too_large(request: web.Request) -> _Refusal:
    """Return the response after the sender has finished: a sender that still sends sees only a closed connection."""
    drained = 0
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            async for chunk in request.content.iter_chunked(CHUNK):
                drained += len(chunk)
                if drained > DRAIN_LIMIT:
                    break
    except (TimeoutError, web.RequestPayloadError):
        pass
    return _Refusal(413, "too_large", "the body is larger than 1 MiB")


async def _expect(request: web.Request) -> web.StreamResponse | None:
    """Answer a sender that asks for permission before it sends the body."""
    if (request.content_length or 0) > BODY_LIMIT:
        metrics.count("too_large")
        return _response(413, "the body is larger than 1 MiB")
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    return None


def _response(status: int, text: str, retry_after: float = 0.0) -> web.Response:
    headers = {"Retry-After": str(math.ceil(retry_after))} if retry_after else {}
    if status == 401:  # noqa: PLR2004 - HTTP's own number
        headers["WWW-Authenticate"] = "Bearer"
    response = web.Response(status=status, text=f"{text}\n", headers=headers)
    response.force_close()
    return response
