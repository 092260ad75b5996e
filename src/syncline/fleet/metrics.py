"""What is counted about clusters, in Prometheus' default registry. A member's series go with it."""

import contextlib

from prometheus_client import Counter, Gauge

_LABELS = ["namespace", "cluster"]

up = Gauge("syncline_cluster_up", "1 while a cluster can be used, 0 while not.", _LABELS)
expiry = Gauge(
    "syncline_credential_expiry_timestamp_seconds", "When the credential of a cluster ends, where it says so.", _LABELS
)
changes = Counter("syncline_cluster_changes", "How often a cluster came or went, by why.", ["reason"])


def forget(namespace: str, cluster: str) -> None:
    """Remove the series of a member that is gone."""
    for gauge in (up, expiry):
        with contextlib.suppress(KeyError):
            gauge.remove(namespace, cluster)
