"""The metrics of the admission webhook, in the default registry of Prometheus. Labels are bounded: never names."""

from typing import Literal

from prometheus_client import Counter

Result = Literal["injected", "present", "skipped", "late", "failed", "malformed", "limited"]

injections = Counter(
    "syncline_ignition_injections",
    "Number of new pods that asked for an agent, by result. Dry runs do not count.",
    ["result"],
)


def count(result: Result) -> None:
    """Count one pod."""
    injections.labels(result).inc()
