"""What this package counts, in Prometheus' default registry. Labels are bounded: verbs, kinds, codes, never names."""

import contextlib

from prometheus_client import Counter, Gauge, Histogram

api_requests = Counter(
    "syncline_api_requests_total",
    "Attempts at requests to API servers, by how they ended: an HTTP status, or unreachable.",
    ["verb", "resource", "code"],
)
api_seconds = Histogram(
    "syncline_api_request_seconds",
    "How long an answered request took.",
    ["verb"],
    buckets=(0.005, 0.02, 0.1, 0.5, 2, 10, 30),
)
watch_restarts = Counter(
    "syncline_watch_restarts_total", "Watches that ended other than by their own time-out.", ["resource", "reason"]
)
relists = Counter("syncline_relists_total", "Complete lists taken.", ["resource"])
cached = Gauge(
    "syncline_cached_objects",
    "Objects held in memory, as projected: all of a kind, our copies, or others of interest.",
    ["resource", "part"],
)
queue_depth = Gauge("syncline_queue_depth", "Keys that are due and wait for a worker.", ["queue"])
queue_oldest = Gauge("syncline_queue_oldest_seconds", "How long the oldest due key has been waiting.", ["queue"])
queue_retries = Counter("syncline_queue_retries_total", "Keys that were put back after a failure.", ["queue"])
leader = Gauge("syncline_leader", "1 while this process leads.", ["lease"])
events_dropped = Counter("syncline_events_dropped_total", "Events not sent: repeats, floods and failures.", ["reason"])


def forget_cached(resource: str, *parts: str) -> None:
    """Remove the series of a kind that is no longer watched."""
    for part in parts:
        with contextlib.suppress(KeyError):
            cached.remove(resource, part)
