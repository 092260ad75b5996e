"""The metrics of the depot, in the default registry of Prometheus. Labels are bounded: never names."""

from prometheus_client import Counter, Gauge, Histogram

requests = Counter(
    "syncline_depot_requests", "Number of requests of agents, by request and status code.", ["request", "code"]
)
sent = Counter("syncline_depot_sent_bytes", "Number of bytes of plans and files that agents were sent.", ["request"])
waiting = Gauge("syncline_depot_waiting_agents", "Number of agents that wait for a new plan.")
seconds = Histogram(
    "syncline_depot_request_duration_seconds",
    "Duration of the requests of agents, without the time that they wait for a new plan.",
    ["request"],
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 120),
)
