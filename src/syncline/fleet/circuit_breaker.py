"""The circuit breaker of a cluster: whether the cluster is usable, and whether it is still the same cluster.

One loop probes the cluster. It reads the UID of a namespace that every cluster has. This needs the API server, its
store and the credential, and the UID identifies the cluster at all addresses. The loop probes every half minute while
the cluster is healthy, immediately after a failed request, and with backoff while the cluster is unreachable. Only the
loop decides, so requests never test an unreachable cluster: they are sent, wait for the result of a running probe, or
fail.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Literal

import structlog
from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from syncline.fleet.errors import ClusterDown, NotResolved
from syncline.kube.errors import ApiError, BadAnswer, KubeError, ServerError, TooManyRequests, Unreachable

State = Literal["Unknown", "Up", "Down"]

_FAILURES_TO_OPEN = 2
"""After this many failures in sequence, the last of a probe, the cluster counts as unreachable."""
_NOT_TRUSTED = ("NotTheSame", "Replaced", "BadAnswer", "CertificateNotTrusted", "Unauthorized", "Forbidden", "Closed")
_ENDED = ("Replaced", "Closed")
_LOGGED = 512

log: FilteringBoundLogger = structlog.get_logger(__name__)


class Timeouts(Struct, frozen=True, kw_only=True):
    """The timeouts and intervals of a fleet, in seconds."""

    connect: float = 5.0
    request: float = 15.0
    probe: float = 5.0
    """The timeout of a probe."""
    heartbeat: float = 30.0
    """The interval between probes of a healthy cluster."""
    confirm: float = 0.25
    """The delay after a first failed probe, and the minimum time between probes."""
    backoff_min: float = 1.0
    backoff_max: float = 60.0
    idle: float = 30.0
    """The time that an unused member is kept: it watches its cluster meanwhile, with a credential nobody needs."""
    reread: float = 2.0
    """The minimum time between reads of a Secret after refused credentials."""


class ClusterHealth(Struct, frozen=True, kw_only=True):
    """The health of a cluster since the last change. The message is that of the last probe with a new result."""

    state: State
    reason: str
    """One CamelCase word: Connecting, Reachable, Unreachable, ServerError, BadAnswer, Unauthorized, Forbidden, ..."""
    message: str
    since: datetime
    """The time of the last change of the state."""
    last_seen: datetime | None = None
    """The time of the last valid response at the last change."""


class CircuitBreaker:
    """The health of one cluster. `run` is its loop; `enter` is the gate."""

    def __init__(
        self,
        name: str,
        timeouts: Timeouts,
        *,
        check: Callable[[], Awaitable[str]],
        on_change: Callable[[], None],
        on_other_cluster: Callable[[], None],
    ) -> None:
        self.uid = ""
        """The identity of the cluster, from its first valid response on."""
        self.health = ClusterHealth(
            state="Unknown", reason="Connecting", message="not connected yet", since=datetime.now(UTC)
        )
        self.last_seen: datetime | None = None
        self._name = name
        self._timeouts = timeouts
        self._check = check
        self._on_change = on_change
        self._on_other_cluster = on_other_cluster
        self._trusted = False
        self._decided = asyncio.Event()
        self._alarm = asyncio.Event()
        self._came_up = asyncio.Event()
        self._failures = 0
        self._credential = 0
        self._doubts = 0
        self._fresh = False
        self._vague = 0

    @property
    def up(self) -> bool:
        """Whether requests are allowed, now or after the running probe."""
        return self.health.state == "Up"

    async def acquire(self) -> None:
        """Wait until a request is allowed. Raises `ClusterDown` immediately if the cluster is unreachable."""
        while not self._trusted:
            if self.health.state == "Down":
                raise self.refusal()
            await self._decided.wait()

    async def verify(self) -> None:
        """Verify that the cluster is still the same. Raises `ClusterDown`."""
        self.half_open()
        await self.acquire()

    def record_success(self) -> None:
        """Record a valid response."""
        self._failures = 0
        self.last_seen = datetime.now(UTC)

    def record_failure(self, *, broken: bool) -> None:
        """Record a request that failed because of the cluster. A probe then checks the cluster.

        After a broken connection the next connection can reach another cluster: no request is sent before a successful
        probe.
        """
        if self.health.state == "Down":
            return
        self._failures += 1
        if broken:
            self.half_open()
        self.probe_now()

    def half_open(self) -> None:
        """Send no request before the next successful probe."""
        self._doubts += 1
        self._trusted = False
        self._decided.clear()
        self.probe_now()

    def probe_now(self) -> None:
        """Probe at once."""
        self._alarm.set()

    def credential_changed(self) -> None:
        """Start again with another credential, which can refer to another cluster."""
        self._credential += 1
        self._fresh = True
        self._failures = 0
        self.half_open()

    def close(self, reason: str, message: str) -> None:
        """Refuse all requests from now on."""
        self._open_circuit(reason, message)

    def refusal(self) -> ClusterDown:
        """Return the current error of a request."""
        health = self.health
        verb = "is not used" if health.reason in _NOT_TRUSTED else "is unreachable"
        since = f"{health.since:%Y-%m-%dT%H:%M:%SZ}"
        return ClusterDown(self._name, health.reason, f"cluster {self._name} {verb} since {since}: {health.message}")

    async def wait_until_back(self) -> None:
        """Wait until the cluster becomes reachable."""
        self._came_up.clear()
        await self._came_up.wait()

    async def run(self) -> None:
        """Probe until cancelled."""
        failures = 0
        while True:
            self._alarm.clear()
            try:
                await self._probe()
            except Exception:  # without probes, the cluster would stay in its last state
                log.exception("the probe of a cluster failed with a bug", cluster=self._name)
                self._open_circuit("ProbeFailed", "the cluster cannot be probed: see the operator's log")
            failures = failures + 1 if self.health.state == "Down" else 0
            await self._pause(failures)

    async def _probe(self) -> None:
        while True:
            credential, doubts = self._credential, self._doubts
            try:
                uid = await self._check()
            except KubeError as error:
                if credential == self._credential:
                    self._probe_failed(error)
                    return
            else:
                if doubts == self._doubts:
                    break
            # Probe again: the response belongs to the previous credential, or started before the last failure.
        if self.uid and uid != self.uid:
            self._found_another()
            return
        self.uid, self._fresh = uid, False
        self.record_success()
        self._trusted = True
        self._change("Up", "Reachable", "the cluster answers")
        self._decided.set()

    def _probe_failed(self, error: KubeError) -> None:
        if isinstance(error, NotResolved):
            self._vague = 0
            self._open_circuit(error.reason, str(error))
            return
        if isinstance(error, TooManyRequests) and self._trusted:  # the cluster is reachable, but busy
            return
        self._failures += 1
        if self.health.state == "Up" and self._failures < _FAILURES_TO_OPEN:
            self.half_open()
            return
        self._vague = self._vague + 1 if isinstance(error, Unreachable) and error.vague else 0
        if self.health.state == "Down" and self._vague == 1:
            return  # the previous cause is more precise, unless this cause persists
        # Messages of a server can differ each time and are reported once. Our own messages are reported again.
        said = isinstance(error, ApiError) and self.health.reason == _reason(error)
        self._open_circuit(_reason(error), self.health.message if said else str(error))

    def _found_another(self) -> None:
        if self._fresh:
            self._on_other_cluster()
            return
        self._open_circuit(
            "NotTheSame",
            "another cluster with another UID answers at the same address: change the Secret to use this cluster, or"
            " restore the previous cluster",
        )

    def _open_circuit(self, reason: str, message: str) -> None:
        self._trusted = False
        self._change("Down", reason, message)
        self._decided.set()

    def _change(self, state: State, reason: str, message: str) -> None:
        """Report a change of the state or of its cause."""
        before = self.health
        if (before.state, before.reason, before.message) == (state, reason, message):
            return
        since = before.since if before.state == state else datetime.now(UTC)
        self.health = ClusterHealth(state=state, reason=reason, message=message, since=since, last_seen=self.last_seen)
        if state == "Up" and before.state == "Down":
            self._came_up.set()
        tell = log.info if state == "Up" or reason in _ENDED else log.warning
        tell(f"cluster is {state.lower()}", cluster=self._name, reason=reason, message=message[:_LOGGED])
        self._on_change()

    async def _pause(self, failures: int) -> None:
        timeouts, spread = self._timeouts, random.uniform(0.5, 1.0)  # noqa: S311  # spreads load, keeps no secret
        await asyncio.sleep(timeouts.confirm)  # many requests that fail together cause one probe
        if self.health.state == "Down":
            delay = min(timeouts.backoff_max, timeouts.backoff_min * 2 ** min(failures - 1, 16)) * spread
        else:
            delay = timeouts.heartbeat * spread if self._trusted else 0.0
        try:
            async with asyncio.timeout(delay):
                await self._alarm.wait()
        except TimeoutError:
            return


def _reason(error: KubeError) -> str:
    if isinstance(error, ServerError | TooManyRequests):
        return type(error).__name__
    lost = isinstance(error, Unreachable) and not isinstance(error, BadAnswer)
    return "Unreachable" if lost else "BadAnswer"
