"""The transport for requests to another cluster: with the circuit breaker, and with limits for responses."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from syncline.fleet.circuit_breaker import CircuitBreaker
from syncline.fleet.errors import ClusterDown
from syncline.kube.client import Client
from syncline.kube.config import Connection
from syncline.kube.credentials import Credential
from syncline.kube.errors import BadAnswer, KubeError, Unreachable, read_status
from syncline.kube.limiter import fair_limiter
from syncline.kube.retry import Retry
from syncline.kube.session import Session
from syncline.kube.transport import Answer, Dialing, Transport

WRITES_IN_FLIGHT = 24
MAX_ANSWER = 8 * 1024 * 1024
"""The maximum size of a response, because the cluster of a tenant can send anything."""

_REDIRECTS = range(300, 400)
_REFUSALS = range(400, 500)
_SERVER_ERRORS = 500


class GatedTransport(Transport):
    """A transport with a circuit breaker."""

    def __init__(self, connection: Connection, breaker: CircuitBreaker, *, timeout: float, dialing: Dialing) -> None:
        super().__init__(connection, timeout=timeout, dialing=dialing)
        self._breaker = breaker

    async def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout: float | None = None,
        max_answer: int | None = None,
    ) -> Answer:
        """Send one request, if the cluster is usable. Raises `Unreachable`, also if this is no API server."""
        await self._breaker.acquire()
        changes = method != "GET"
        try:
            answer = await super().send(
                method, path, headers=headers, body=body, timeout=timeout, max_answer=max_answer
            )
            self._judge(answer, headers, changes=changes)
        except Unreachable:
            self._breaker.record_failure(broken=True)
            raise
        if answer.status in _REFUSALS and read_status(answer.body).kind != "Status":
            # An API server refuses groups that it does not serve without a Status, and other programs refuse any path.
            await self._breaker.verify()
        elif answer.status < _SERVER_ERRORS:
            self._breaker.record_success()
        return answer

    async def direct(self, path: str, headers: Mapping[str, str], timeout: float) -> Answer:
        """GET without the circuit breaker, for probes."""
        return await super().send("GET", path, headers=headers, timeout=timeout)

    @asynccontextmanager
    async def stream(
        self, path: str, headers: Mapping[str, str], silence: float
    ) -> AsyncIterator[tuple[int, str | None, AsyncIterator[bytes]]]:
        """Open a streaming response, if the cluster is usable."""
        await self._breaker.acquire()
        try:
            async with super().stream(path, headers, silence) as opened:
                if opened[0] >= _SERVER_ERRORS:
                    self._breaker.record_failure(broken=False)
                yield opened
        except Unreachable:
            self._breaker.record_failure(broken=True)
            raise

    def _judge(self, answer: Answer, headers: Mapping[str, str], *, changes: bool) -> None:
        if answer.status >= _SERVER_ERRORS:
            self._breaker.record_failure(broken=False)
        elif answer.status in _REDIRECTS:
            raise BadAnswer(
                f"{self._server} answers with a redirect, so it is not an API server: check its address",
                ambiguous=changes,
            )
        elif answer.status not in _REFUSALS:
            wants_json = headers.get("Accept", "").startswith("application/json")
            if wants_json and not answer.body[:16].lstrip().startswith(b"{"):
                raise BadAnswer(
                    f"{self._server} does not answer with JSON, so it is not an API server: check its address",
                    ambiguous=changes,
                )


class GatedRetry(Retry, frozen=True):
    """The default retries, except for requests that the circuit breaker refuses: a retry would fail too."""

    def delay(self, failure: KubeError, *, reads: bool, attempt: int, elapsed: float) -> float | None:
        """Return how long to wait, or None: do not repeat."""
        if isinstance(failure, ClusterDown):
            return None
        return super().delay(failure, reads=reads, attempt=attempt, elapsed=elapsed)


class _GatedSession(Session):
    """A session over a given transport."""

    def __init__(self, transport: GatedTransport, credential: Credential) -> None:
        self.retry = GatedRetry(tries=3, budget=20.0)
        self.writes = fair_limiter(WRITES_IN_FLIGHT)
        self.reads = fair_limiter(2 * WRITES_IN_FLIGHT)
        self._transport = transport
        self._credential = credential
        self.skew = 0.0
        self._clock_checked = float("-inf")


class GatedClient(Client):
    """A client over a transport. It stays the same when the credential changes."""

    def __init__(self, connection: Connection, transport: GatedTransport, credential: Credential) -> None:
        self.connection = connection
        self._session = _GatedSession(transport, credential)
        self._user = None
