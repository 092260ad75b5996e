"""One request with all its attempts: credential, concurrency and retries."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from email.utils import parsedate_to_datetime
from functools import cache

from msgspec import Struct

from syncline.kube import metrics
from syncline.kube.config import Connection
from syncline.kube.credentials import Credential
from syncline.kube.errors import ApiError, KubeError, TooManyRequests, Unauthorized, Unreachable, from_response
from syncline.kube.limiter import fair_limiter
from syncline.kube.retry import Retry
from syncline.kube.transport import Answer, Transport

_REFUSED = 300
_REFUSAL_SIZE = 64 * 1024
# A watch may be silent for minutes, but not its refusal.
_REFUSAL_SECONDS = 5.0
# How often the clock of the server is compared with ours.
_CLOCK_CHECK = 60.0


class Request(Struct, frozen=True, kw_only=True):
    """A request, with its resource and verb for errors and metrics."""

    verb: str
    resource: str
    namespace: str | None = None
    name: str | None = None
    method: str = "GET"
    path: str
    accept: str = "application/json"
    body: bytes | None = None
    content_type: str | None = None
    timeout: float | None = None
    max_answer: int | None = None
    """The maximum size of the answer in bytes; None: that of the transport."""
    fair_key: str = ""

    @property
    def reads(self) -> bool:
        """Whether it is a read."""
        return self.method == "GET"


class Session:
    """A pool of connections, a credential and limits of concurrency, shared by all users of one server."""

    def __init__(
        self, connection: Connection, *, credential: Credential, max_in_flight: int, timeout: float, retry: Retry
    ) -> None:
        self.retry = retry
        self.writes = fair_limiter(max_in_flight)
        self.reads = fair_limiter(2 * max_in_flight)
        self._transport = Transport(connection, timeout=timeout)
        self._credential = credential
        self.skew = 0.0
        """By how many seconds the clock of the server is ahead of ours, as its last answers told."""
        self._clock_checked = float("-inf")

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    async def send(self, request: Request, user: str | None) -> bytes:
        """Send a request until there is an answer, a final refusal, or no retry left.

        A slot is held during an attempt, not between attempts.
        """
        clock = asyncio.get_running_loop().time
        limiter = self.reads if request.reads else self.writes
        started, attempt, renewed = clock(), 0, False
        while True:
            attempt += 1
            token = await self._credential.token()
            try:
                async with limiter.slot(request.fair_key):
                    answer = await self._attempt(request, _headers(request, token, user))
                limiter.on_success()
                return answer
            except Unauthorized:
                if renewed or not await self._credential.renew(token):
                    raise
                renewed = True
            except KubeError as failure:
                if isinstance(failure, TooManyRequests):
                    limiter.on_throttle()
                delay = self.retry.delay(failure, reads=request.reads, attempt=attempt, elapsed=clock() - started)
                if delay is None:
                    raise
                await asyncio.sleep(delay)

    @asynccontextmanager
    async def stream(self, request: Request, user: str | None, silence: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open an endless answer, as chunks. The only retry is after a stale credential, once."""
        token = await self._credential.token()
        for attempt in (1, 2):
            headers = _headers(request, token, user)
            async with self._transport.stream(request.path, headers, silence) as (status, retry_after, chunks):
                if status < _REFUSED:
                    _count(request, str(status))
                    yield chunks
                    return
                refusal = _refusal(request, Answer(status, await _head(chunks), retry_after))
            if attempt > 1 or not isinstance(refusal, Unauthorized) or not await self._credential.renew(token):
                raise refusal
            token = await self._credential.token()

    async def _attempt(self, request: Request, headers: dict[str, str]) -> bytes:
        clock = asyncio.get_running_loop().time
        started = clock()
        try:
            answer = await self._transport.send(
                request.method,
                request.path,
                headers=headers,
                body=request.body,
                timeout=request.timeout,
                max_answer=request.max_answer,
            )
        except Unreachable:
            _count(request, "unreachable")
            raise
        _seconds(request.verb).observe(clock() - started)
        if answer.date is not None and clock() - self._clock_checked > _CLOCK_CHECK:
            self._clock_checked = clock()
            self.skew = _skew(answer.date, self.skew)
        if answer.status >= _REFUSED:
            raise _refusal(request, answer)
        _count(request, str(answer.status))
        return answer.body


def _skew(date: str, known: float) -> float:
    """Return by how much a clock is ahead of ours; it tells whole seconds."""
    try:
        return parsedate_to_datetime(date).timestamp() + 0.5 - time.time()
    except (ValueError, OverflowError):
        return known


def _headers(request: Request, token: str | None, user: str | None) -> dict[str, str]:
    headers = {"Accept": request.accept}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if request.content_type:
        headers["Content-Type"] = request.content_type
    if user is not None:  # an empty one is refused, since it would be the operator itself
        headers["Impersonate-User"] = user
    return headers


async def _head(chunks: AsyncIterator[bytes]) -> bytes:
    head = b""
    with suppress(TimeoutError):
        async with asyncio.timeout(_REFUSAL_SECONDS):
            async for chunk in chunks:
                head += chunk
                if len(head) > _REFUSAL_SIZE:
                    break
    return head


def _refusal(request: Request, answer: Answer) -> ApiError:
    _count(request, str(answer.status))
    return from_response(
        answer.status,
        answer.body,
        verb=request.verb,
        resource=request.resource,
        namespace=request.namespace,
        name=request.name,
        retry_after=answer.retry_after,
    )


def _count(request: Request, code: str) -> None:
    _requests(request.verb, request.resource, code).inc()


# The lookup of a child by its labels costs as much as all other bookkeeping of a request.
_requests = cache(metrics.api_requests.labels)
_seconds = cache(metrics.api_seconds.labels)
