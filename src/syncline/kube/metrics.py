"""The metrics of this package, in the default registry of Prometheus. Labels are bounded: no names."""

import contextlib

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


def forget_cached(resource: str, *parts: str) -> None:
    """Remove the series of a kind that is no longer watched."""
    for part in parts:
        with contextlib.suppress(KeyError):
            cached.remove(resource, part)
