"""The metrics of clusters, in the default registry of Prometheus. The series of a member are removed with it."""

import contextlib

from prometheus_client import Counter, Gauge

_LABELS = ["namespace", "cluster"]

up = Gauge("syncline_cluster_up", "1 while a cluster is usable, else 0.", _LABELS)
expiry = Gauge(
    "syncline_credential_expiry_timestamp_seconds",
    "Time when the credential of a cluster expires, if it contains this.",
    _LABELS,
)
changes = Counter(
    "syncline_cluster_changes",
    "Number of changes between reachable and unreachable of clusters, by reason.",
    ["reason"],
)


def forget(namespace: str, cluster: str) -> None:
    """Remove the series of a closed member."""
    for gauge in (up, expiry):
        with contextlib.suppress(KeyError):
            gauge.remove(namespace, cluster)
