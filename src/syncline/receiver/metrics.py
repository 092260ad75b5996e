"""The metrics of deliveries, in the default registry of Prometheus. Labels are bounded: results, never names."""

from typing import Literal

from prometheus_client import Counter

Result = Literal[
    "accepted",
    "duplicate",
    "ignored",
    "malformed",
    "unauthorized",
    "not_allowed",
    "unknown",
    "too_large",
    "too_slow",
    "limited",
    "not_ready",
    "failed",
]

deliveries = Counter("syncline_webhook_deliveries", "Number of webhook deliveries, by result.", ["result"])


def count(result: Result) -> None:
    """Count one delivery."""
    deliveries.labels(result).inc()
