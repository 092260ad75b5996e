"""The metrics of this package, in the default registry of Prometheus. Labels are bounded: no names."""

from collections import Counter as Counts
from typing import ClassVar

from prometheus_client import Counter, Gauge, Histogram

api_requests = Counter(
    "syncline_api_requests_total",
    "Number of attempts of requests to API servers, by result: an HTTP status, or unreachable.",
    ["verb", "resource", "code"],
)
api_seconds = Histogram(
    "syncline_api_request_seconds",
    "Duration of answered requests.",
    ["verb"],
    buckets=(0.005, 0.02, 0.1, 0.5, 2, 10, 30),
)
watch_restarts = Counter(
    "syncline_watch_restarts_total",
    "Number of watches that ended for another reason than their timeout.",
    ["resource", "reason"],
)
relists = Counter("syncline_relists_total", "Number of complete lists.", ["resource"])
cached = Gauge(
    "syncline_cached_objects",
    "Number of cached objects: all of a kind, managed objects, or other observed objects.",
    ["resource", "part"],
)
queue_depth = Gauge("syncline_queue_depth", "Number of keys that are due and wait for a worker.", ["queue"])
queue_oldest = Gauge("syncline_queue_oldest_seconds", "Waiting time of the oldest due key.", ["queue"])
queue_retries = Counter("syncline_queue_retries_total", "Number of keys that were requeued after a failure.", ["queue"])
leader = Gauge("syncline_leader", "1 while this process leads.", ["lease"])
events_dropped = Counter(
    "syncline_events_dropped_total",
    "Number of events that were not sent, by reason: repetition, rate limit or failure.",
    ["reason"],
)


class CachedCount:
    """The number of objects in one cache, as a part of `cached`: caches of several clusters share a series.

    The series ends with its last cache.
    """

    _caches: ClassVar[Counts[tuple[str, str]]] = Counts()
    """By series: how many caches it has."""

    def __init__(self, resource: str, part: str) -> None:
        self._series = resource, part
        self._number: int | None = None
        self._child = cached  # with its labels from the first count on: the lookup costs more than the count

    def set(self, number: int) -> None:
        """Count this many objects."""
        if self._number is None:
            self._caches[self._series] += 1
            self._child = cached.labels(*self._series)
        self._child.inc(number - (self._number or 0))
        self._number = number

    def end(self) -> None:
        """Count no objects of this cache any more."""
        if self._number is None:
            return
        self._child.dec(self._number)
        self._number = None
        self._caches[self._series] -= 1
        if not self._caches[self._series]:
            del self._caches[self._series]
            cached.remove(*self._series)
