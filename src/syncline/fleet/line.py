"""The way of every request to another cluster: through the gate, within bounds, and judged by what comes back."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from syncline.fleet.errors import ClusterDown
from syncline.fleet.pulse import Pulse
from syncline.kube.client import Client
from syncline.kube.config import Connection
from syncline.kube.credentials import Credential
from syncline.kube.errors import BadAnswer, KubeError, Unreachable, read_status
from syncline.kube.limiter import FairLimiter
from syncline.kube.retry import Retry
from syncline.kube.session import Session
from syncline.kube.transport import Answer, Dialing, Transport

WRITES_IN_FLIGHT = 16
MAX_ANSWER = 8 * 1024 * 1024
"""What a cluster may make us hold at once, times the reads in flight: a tenant's cluster may send what it likes."""

_REDIRECTS = range(300, 400)
_REFUSALS = range(400, 500)
_SERVER_ERRORS = 500


class Line(Transport):
    """A transport with a gate."""

    def __init__(self, connection: Connection, pulse: Pulse, *, timeout: float, dialing: Dialing) -> None:
        super().__init__(connection, timeout=timeout, dialing=dialing)
        self._pulse = pulse

    async def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """Send one request, if the cluster can be used. Raises `Unreachable`, also for what no API server answers."""
        await self._pulse.enter()
        changes = method != "GET"
        try:
            answer = await super().send(method, path, headers=headers, body=body, timeout=timeout)
            self._judge(answer, headers, changes=changes)
        except Unreachable:
            self._pulse.failed(broken=True)
            raise
        if answer.status in _REFUSALS and read_status(answer.body).kind != "Status":
            # A real server says so of groups that it does not serve, and any other program of anything.
            await self._pulse.confirm()
        elif answer.status < _SERVER_ERRORS:
            self._pulse.seen()
        return answer

    async def direct(self, path: str, headers: Mapping[str, str], timeout: float) -> Answer:
        """GET past the gate: for probes."""
        return await super().send("GET", path, headers=headers, timeout=timeout)

    @asynccontextmanager
    async def stream(
        self, path: str, headers: Mapping[str, str], silence: float
    ) -> AsyncIterator[tuple[int, str | None, AsyncIterator[bytes]]]:
        """Open an answer without end, if the cluster can be used."""
        await self._pulse.enter()
        try:
            async with super().stream(path, headers, silence) as opened:
                if opened[0] >= _SERVER_ERRORS:
                    self._pulse.failed(broken=False)
                yield opened
        except Unreachable:
            self._pulse.failed(broken=True)
            raise

    def _judge(self, answer: Answer, headers: Mapping[str, str], *, changes: bool) -> None:
        if answer.status >= _SERVER_ERRORS:
            self._pulse.failed(broken=False)
        elif answer.status in _REDIRECTS:
            raise BadAnswer(f"{self._server} answers with a redirect, which no API server does", ambiguous=changes)
        elif answer.status not in _REFUSALS:
            wants_json = headers.get("Accept", "").startswith("application/json")
            if wants_json and not answer.body[:16].lstrip().startswith(b"{"):
                raise BadAnswer(f"{self._server} answers with something else than JSON", ambiguous=changes)


class Patience(Retry, frozen=True):
    """As ever, but what the gate refuses is not tried again: the answer would be the same."""

    def delay(self, failure: KubeError, *, reads: bool, attempt: int, elapsed: float) -> float | None:
        """Return how long to wait, or None: do not repeat."""
        if isinstance(failure, ClusterDown):
            return None
        return super().delay(failure, reads=reads, attempt=attempt, elapsed=elapsed)


class _Session(Session):
    """A session over a line that is given."""

    def __init__(self, line: Line, credential: Credential) -> None:
        self.retry = Patience(tries=3, budget=20.0)
        self.writes = FairLimiter(WRITES_IN_FLIGHT)
        self.reads = FairLimiter(2 * WRITES_IN_FLIGHT)
        self._transport = line
        self._credential = credential


class LineClient(Client):
    """A client over a line. It stays the same when the credential changes."""

    def __init__(self, connection: Connection, line: Line, credential: Credential) -> None:
        self.connection = connection
        self._session = _Session(line, credential)
        self._user = None
