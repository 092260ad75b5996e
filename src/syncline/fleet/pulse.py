"""Whether a cluster can be used, and whether it is still the same one.

One loop asks: for the UID of a namespace that every cluster has, which needs the API server, its store and our
credential to work, and names the cluster over all addresses and times. Every half minute while all is well; at once
when a request fails, for a request alone proves nothing about a cluster; ever more rarely while it is away. Nobody else
decides, so that requests never test a dead cluster: they pass, wait for the answer of a probe under way, or fail.
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

_CONFIRMED = 2
"""So many failures in a row, the last one a probe's, are no accident."""
_DISTRUST = ("NotTheSame", "Replaced", "BadAnswer", "CertificateNotTrusted", "Unauthorized", "Forbidden", "Closed")
_ENDED = ("Replaced", "Closed")
_LOGGED = 512

log: FilteringBoundLogger = structlog.get_logger(__name__)


class Pace(Struct, frozen=True, kw_only=True):
    """How patient a fleet is, in seconds."""

    connect: float = 5.0
    request: float = 15.0
    probe: float = 5.0
    """How long a probe may take."""
    heartbeat: float = 30.0
    """How often a cluster is probed that nothing is wrong with."""
    confirm: float = 0.25
    """How soon a first failed probe is repeated, and how soon one may follow another."""
    backoff_min: float = 1.0
    backoff_max: float = 60.0
    idle: float = 300.0
    """How long a member stays that nobody uses."""
    reread: float = 2.0
    """How soon a Secret may be read again because its credential was refused."""


class Health(Struct, frozen=True, kw_only=True):
    """How a cluster is, as of the last change; the message is that of the last probe that told something new."""

    state: State
    reason: str
    """One CamelCase word: Connecting, Reachable, Unreachable, ServerError, BadAnswer, Unauthorized, Forbidden, ..."""
    message: str
    since: datetime
    """When the state last changed."""
    last_seen: datetime | None = None
    """When the cluster last answered as it should, as of then."""


class Pulse:
    """The health of one cluster. `run` is its loop; `enter` is the gate."""

    def __init__(
        self,
        name: str,
        pace: Pace,
        *,
        check: Callable[[], Awaitable[str]],
        on_change: Callable[[], None],
        on_other_cluster: Callable[[], None],
    ) -> None:
        self.uid = ""
        """Names the cluster, from the first good answer on, for as long as this pulse is kept."""
        self.health = Health(state="Unknown", reason="Connecting", message="not reached yet", since=datetime.now(UTC))
        self.last_seen: datetime | None = None
        self._name = name
        self._pace = pace
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
        """Whether requests are let through, now or after the probe that is under way."""
        return self.health.state == "Up"

    async def enter(self) -> None:
        """Return when a request may be sent. Raises `ClusterDown` where the cluster is away, at once."""
        while not self._trusted:
            if self.health.state == "Down":
                raise self.down()
            await self._decided.wait()

    async def confirm(self) -> None:
        """Make sure that the cluster is still the one that it was. Raises `ClusterDown`."""
        self.doubt()
        await self.enter()

    def seen(self) -> None:
        """Take note of an answer as it should be."""
        self._failures = 0
        self.last_seen = datetime.now(UTC)

    def failed(self, *, broken: bool) -> None:
        """Take note of a request that failed for reasons of the cluster; a probe looks into it.

        After a broken connection the next one may lead elsewhere: no request passes before the probe has succeeded.
        """
        if self.health.state == "Down":
            return
        self._failures += 1
        if broken:
            self.doubt()
        self.wake()

    def doubt(self) -> None:
        """Let no request pass before the next probe has succeeded."""
        self._doubts += 1
        self._trusted = False
        self._decided.clear()
        self.wake()

    def wake(self) -> None:
        """Probe at once."""
        self._alarm.set()

    def rotated(self) -> None:
        """Begin anew with another credential, which may lead elsewhere."""
        self._credential += 1
        self._fresh = True
        self._failures = 0
        self.doubt()

    def close(self, reason: str, message: str) -> None:
        """Let nothing pass any more."""
        self._go_down(reason, message)

    def down(self) -> ClusterDown:
        """Return what a request fails with now."""
        health = self.health
        verb = "is not used" if health.reason in _DISTRUST else "is unreachable"
        since = f"{health.since:%Y-%m-%dT%H:%M:%SZ}"
        return ClusterDown(self._name, health.reason, f"cluster {self._name} {verb} since {since}: {health.message}")

    async def wait_until_back(self) -> None:
        """Return when the cluster comes up the next time."""
        self._came_up.clear()
        await self._came_up.wait()

    async def run(self) -> None:
        """Probe until cancelled."""
        failures = 0
        while True:
            self._alarm.clear()
            try:
                await self._examine()
            except Exception:  # nobody else would notice that the cluster is not looked after any more
                log.exception("a cluster cannot be probed", cluster=self._name)
                self._go_down("ProbeFailed", "it cannot be probed; the operator's log says why")
            failures = failures + 1 if self.health.state == "Down" else 0
            await self._pause(failures)

    async def _examine(self) -> None:
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
            # Asked again: the answer is about the credential before, or older than a doubt.
        if self.uid and uid != self.uid:
            self._found_another()
            return
        self.uid, self._fresh = uid, False
        self.seen()
        self._trusted = True
        self._change("Up", "Reachable", "the cluster answers")
        self._decided.set()

    def _probe_failed(self, error: KubeError) -> None:
        if isinstance(error, NotResolved):
            self._vague = 0
            self._go_down(error.reason, str(error))
            return
        if isinstance(error, TooManyRequests) and self._trusted:  # it is there, and busy
            return
        self._failures += 1
        if self.health.state == "Up" and self._failures < _CONFIRMED:
            self.doubt()
            return
        self._vague = self._vague + 1 if isinstance(error, Unreachable) and error.vague else 0
        if self.health.state == "Down" and self._vague == 1:
            return  # a cause that was told before tells more, unless this one stays
        # What a server says may differ each time, and is told once; what we find ourselves is told anew.
        said = isinstance(error, ApiError) and self.health.reason == _reason(error)
        self._go_down(_reason(error), self.health.message if said else str(error))

    def _found_another(self) -> None:
        if self._fresh:
            self._on_other_cluster()
            return
        self._go_down(
            "NotTheSame",
            "another cluster answers at the same address (it has another UID); it is used when its Secret changes, or "
            "when the cluster that was there before is back",
        )

    def _go_down(self, reason: str, message: str) -> None:
        self._trusted = False
        self._change("Down", reason, message)
        self._decided.set()

    def _change(self, state: State, reason: str, message: str) -> None:
        """Tell of a change: of the state, or of what is known of its cause."""
        before = self.health
        if (before.state, before.reason, before.message) == (state, reason, message):
            return
        since = before.since if before.state == state else datetime.now(UTC)
        self.health = Health(state=state, reason=reason, message=message, since=since, last_seen=self.last_seen)
        if state == "Up" and before.state == "Down":
            self._came_up.set()
        tell = log.info if state == "Up" or reason in _ENDED else log.warning
        tell(f"cluster is {state.lower()}", cluster=self._name, reason=reason, message=message[:_LOGGED])
        self._on_change()

    async def _pause(self, failures: int) -> None:
        pace, spread = self._pace, random.uniform(0.5, 1.0)  # noqa: S311  # spreads load, keeps no secret
        await asyncio.sleep(pace.confirm)  # whatever the alarm: many requests that fail together are one
        if self.health.state == "Down":
            delay = min(pace.backoff_max, pace.backoff_min * 2 ** min(failures - 1, 16)) * spread
        else:
            delay = pace.heartbeat * spread if self._trusted else 0.0
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
