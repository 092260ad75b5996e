"""The health of the lists and watches of one kind: contact, failures, and what follows from a failure."""

import asyncio
import random

import structlog
from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from syncline.kube import metrics
from syncline.kube.errors import (
    ApiError,
    BadAnswer,
    CacheFull,
    Forbidden,
    Gone,
    KubeError,
    NotFound,
    NothingDelivered,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from syncline.kube.watch_trust import WatchTrust

_GARBLED_LIMIT = 3

log: FilteringBoundLogger = structlog.get_logger(__name__)


class Timing(Struct, frozen=True, kw_only=True):
    """The timeouts of a reflector, in seconds. A silent connection is closed after `watch_max + grace`."""

    watch_min: float = 30.0
    watch_max: float = 45.0
    """The server ends each watch after a random time between these two."""
    grace: float = 5.0
    """The extra time without a byte before the connection counts as dead."""
    probe: float = 5.0
    """The time in which a server answers a watch from a version that is too old."""
    list_max: float = 300.0
    """The timeout of a streamed list."""
    settled: float = 1.0
    """A watch that lasted this long, or sent an event, counts as successful."""
    stale: float = 60.0
    """The maximum time without contact for a healthy cache."""
    broken: float = 5.0
    """The same, if the watch is known to have failed."""
    relist: float = 900.0
    """The approximate time between two full lists: they repair a lost event."""
    full: float = 60.0
    """The time until the next list of a cluster with more objects than there is room for."""
    backoff_min: float = 0.5
    backoff_max: float = 30.0


class ReflectorStatus(Struct, frozen=True):
    """The health of a reflector."""

    resource: str
    synced: bool
    healthy: bool
    objects: int
    age: float
    """Seconds since the last contact with the server."""
    failure: str
    """The current failure, for people; empty if there is none."""
    refused: bool
    """Whether the server refuses: the kind, or the right to it, is missing."""
    forbidden: bool = False
    """Whether the right is missing."""
    full: bool = False
    """Whether there are more objects than there is room for, so that some are not cached."""
    failing: float = 0.0
    """Seconds since the current failure began; a failure of another kind begins anew."""
    unwatched: float = 0.0
    """Seconds since the watch began to fail, whatever the failures; 0.0 while it works."""
    working: float = 0.0
    """Seconds since the watch began to work; 0.0 while it does not."""
    delivers: bool = True
    """False if watches open, but bring nothing: the server answers, and yet changes are not noticed."""


class WatchHealth:
    """The failures of the lists and watches of one kind, and the time of the last contact."""

    def __init__(self, resource: str, timing: Timing) -> None:
        self.streak = 0
        """The number of failures in a row."""
        self.failure: Exception | None = None
        self.trust = WatchTrust(timing.watch_min, timing.relist)
        self._resource = resource
        self._timing = timing
        self._failing_since = 0.0
        self._working_since: float | None = None
        self._unwatched_since: float | None = None
        self._contact = float("-inf")
        self._broken = True
        self._log = log.bind(resource=resource)

    def age(self) -> float:
        """Return the seconds since the last contact with the server."""
        return _now() - self._contact

    def is_current(self) -> bool:
        """Whether changes are noticed."""
        patience = self._timing.broken if self._broken else self._timing.stale
        return self.trust.delivers and self.age() <= patience

    def status(self, *, synced: bool, objects: int, overflowed: bool) -> ReflectorStatus:
        """Return the health."""
        now = _now()
        return ReflectorStatus(
            resource=self._resource,
            synced=synced,
            healthy=synced and self.is_current(),
            objects=objects,
            age=self.age(),
            failure=str(self.failure or ""),
            refused=isinstance(self.failure, Forbidden | NotFound),
            forbidden=isinstance(self.failure, Forbidden),
            full=overflowed or isinstance(self.failure, CacheFull),
            failing=now - self._failing_since if self.failure else 0.0,
            unwatched=now - self._unwatched_since if self._unwatched_since is not None else 0.0,
            working=now - self._working_since if self._working_since is not None else 0.0,
            delivers=self.trust.delivers,
        )

    def heard(self) -> None:
        """Note that the server answers."""
        self._broken = False
        self._contact = _now()

    def probed(self, *, answered: bool) -> None:
        """Note whether the server answered a probe."""
        self.trust.probed(_now(), answered=answered)
        if answered:
            self.recovered()

    def settled(self) -> None:
        """Note that a watch has been open for a moment. That is not enough where watches are known to bring nothing."""
        if self.trust.delivers:
            self.recovered()

    def closed_at_once(self) -> None:
        """Note a watch that ended at once without a line: perhaps by a proxy that stops."""
        self.streak += 1
        metrics.watch_restarts.labels(self._resource, "Closed").inc()

    def failed(self, error: Exception) -> None:
        """Note the failure of a list or a watch."""
        if self._unwatched_since is None:
            self._unwatched_since = _now()
        self._working_since = None
        self.streak = 1 if _is_back(error, self.failure) else self.streak + 1
        self._broken = True
        reason = type(error).__name__
        metrics.watch_restarts.labels(self._resource, reason).inc()
        if self.failure is None or type(self.failure).__name__ != reason:
            trace = None if isinstance(error, KubeError) else error
            self._log.warning("cannot watch the cluster; the operator retries", error=str(error), exc_info=trace)
            self._failing_since = _now()
        self.failure = error

    def delay(self) -> float:
        """Return the seconds until the next attempt."""
        return _backoff(self.streak, self._timing, self.failure) if self.streak else 0.0

    def recovered(self) -> None:
        """Note that watches work again."""
        if self.failure is not None:
            self._log.info("watching the cluster again", after=str(self.failure))
        if self._working_since is None:
            self._working_since = _now()
        self.streak, self.failure, self._unwatched_since = 0, None, None


def must_relist(error: Exception, streak: int) -> bool:
    """Whether the current version cannot be used any more.

    It is kept if the server is unreachable for a moment, or refuses for now. It is dropped if the server says that it
    is too old or too new, after an unknown error, if the same event stays unreadable, and if the server stays away: it
    may be restored from a backup, and have other events with the same versions.
    """
    if isinstance(error, BadAnswer):
        return streak >= _GARBLED_LIMIT
    if isinstance(error, Unreachable):
        return streak > 1
    if isinstance(error, ServerError):
        return "ResourceVersionTooLarge" in error.causes or "too large resource version" in error.message.lower()
    return not isinstance(error, Unauthorized | Forbidden | TooManyRequests)


def whole(seconds: float) -> int:
    """Return whole seconds, at least one, for `timeoutSeconds`."""
    return max(1, round(seconds))


def _is_back(error: Exception, before: Exception | None) -> bool:
    """Whether the server works, so that the next attempt needs no long delay.

    A server that has just started refuses all requests for a while. A server that calls the version too old can list,
    and so can one whose watches bring nothing.
    """
    if isinstance(error, Gone):
        return not isinstance(before, Gone)
    if isinstance(error, NothingDelivered):
        return True
    return isinstance(error, Forbidden | Unauthorized) and isinstance(before, Unreachable)


def _backoff(streak: int, timing: Timing, failure: Exception | None) -> float:
    if isinstance(failure, CacheFull):
        return timing.full
    delay: float = min(timing.backoff_max, timing.backoff_min * 2 ** min(streak - 1, 16))
    delay *= random.uniform(0.5, 1.0)  # noqa: S311  # spreads load, keeps no secret
    asked = failure.retry_after if isinstance(failure, ApiError) else None
    return delay if asked is None else min(asked, timing.backoff_max) + delay


def _now() -> float:
    return asyncio.get_running_loop().time()
