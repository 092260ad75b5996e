"""One request with all its attempts: credential, concurrency and retries."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache

from msgspec import Struct

from syncline.kube import metrics
from syncline.kube.config import Connection
from syncline.kube.credentials import Credential
from syncline.kube.errors import ApiError, KubeError, TooManyRequests, Unauthorized, Unreachable, from_response
from syncline.kube.limiter import FairLimiter
from syncline.kube.retry import Retry
from syncline.kube.transport import Answer, Transport

_REFUSED = 300
_REFUSAL_SIZE = 64 * 1024


class Request(Struct, frozen=True, kw_only=True):
    """What to ask, and what it is about: the latter for errors and metrics."""

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
    fair_key: str = ""

    @property
    def reads(self) -> bool:
        """Whether it changes nothing on the server."""
        return self.method == "GET"


class Session:
    """A pool of connections, a credential and the limits on what is in flight, shared by all who use one server."""

    def __init__(
        self, connection: Connection, *, credential: Credential, max_in_flight: int, timeout: float, retry: Retry
    ) -> None:
        self.retry = retry
        self.writes = FairLimiter(max_in_flight)
        self.reads = FairLimiter(2 * max_in_flight)
        self._transport = Transport(connection, timeout=timeout)
        self._credential = credential

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    async def send(self, request: Request, user: str | None) -> bytes:
        """Ask until answered, refused for good, or out of patience.

        A slot is held while a request is on its way, not while waiting to repeat it.
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
        """Open an answer without end, as chunks. Nothing is repeated but, once, what a stale credential spoiled."""
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
                request.method, request.path, headers=headers, body=request.body, timeout=request.timeout
            )
        except Unreachable:
            _count(request, "unreachable")
            raise
        _seconds(request.verb).observe(clock() - started)
        if answer.status >= _REFUSED:
            raise _refusal(request, answer)
        _count(request, str(answer.status))
        return answer.body


def _headers(request: Request, token: str | None, user: str | None) -> dict[str, str]:
    headers = {"Accept": request.accept}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if request.content_type:
        headers["Content-Type"] = request.content_type
    if user:
        headers["Impersonate-User"] = user
    return headers


async def _head(chunks: AsyncIterator[bytes]) -> bytes:
    head = b""
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


# Finding a child by its labels costs as much as the rest of a request's bookkeeping together.
_requests = cache(metrics.api_requests.labels)
_seconds = cache(metrics.api_seconds.labels)
