"""The metrics of IgnitionSyncs. Series of a sync end with the sync, and series of a gateway with its pod."""

import contextlib
import re

from prometheus_client import Counter, Gauge, Histogram

from syncline.api.ignition_status import DiscoveredGateway
from syncline.core.gateway_status import FleetReport

_discovered = Gauge(
    "syncline_ignition_gateways_discovered", "Number of running gateways of a sync.", ["namespace", "name"]
)
_synced = Gauge(
    "syncline_ignition_gateways_synced", "Number of gateways of a sync that have its commit.", ["namespace", "name"]
)
_last_sync = Gauge(
    "syncline_ignition_last_sync_timestamp_seconds",
    "Time when all gateways of a sync last had its commit, in seconds since the epoch.",
    ["namespace", "name"],
)
_state = Gauge(
    "syncline_ignition_gateway_status",
    "State of a gateway: 0 Pending, 1 Synced, 2 Error, 3 MissingSidecar, 4 Syncing.",
    ["namespace", "name", "pod"],
)
_sync_seconds = Histogram(
    "syncline_ignition_sync_duration_seconds",
    "Duration of one sync of a gateway, as its agent reports it.",
    buckets=(0.1, 0.5, 1, 5, 20, 60, 300, 1800),
)
_scan_seconds = Histogram(
    "syncline_ignition_scan_api_duration_seconds",
    "Duration of the scans of a gateway after a sync, as its agent reports it.",
    buckets=(0.1, 0.5, 1, 5, 20, 60, 300, 1800),
)
_files = Counter("syncline_ignition_files_changed", "Number of files that agents have changed.")
_rollbacks = Counter(
    "syncline_ignition_rollback_triggered", "Number of commits that were rolled back because they failed."
)
pull_requests = Counter(
    "syncline_ignition_bidirectional_prs_created", "Number of pull requests that were opened with edits of gateways."
)
commits = Counter("syncline_ignition_commits", "Number of commits with edits of gateways, by result.", ["result"])

_SCANNED = re.compile(r" in ([0-9]{1,6}\.[0-9]) s$", re.ASCII)
"""The end of the result of a scan, as the adapter of Ignition words it."""
_VALUES = {"Pending": 0, "Synced": 1, "Error": 2, "MissingSidecar": 3, "Syncing": 4}
_OF_SYNC = (_discovered, _synced, _last_sync)


class FleetMetrics:
    """The series of all syncs."""

    def __init__(self) -> None:
        self._pods: dict[tuple[str, str], dict[str, DiscoveredGateway]] = {}

    def update(self, namespace: str, name: str, fleet: FleetReport, now: float) -> None:
        """Set the series of a sync."""
        gateways = {one.pod_name: one for one in fleet.gateways or ()}
        known = self._pods.get((namespace, name), {})
        _discovered.labels(namespace, name).set(len(gateways))
        _synced.labels(namespace, name).set(sum(one.sync_status == "Synced" for one in gateways.values()))
        if fleet.completed:
            _last_sync.labels(namespace, name).set(now)
        if fleet.event == "RolloutRolledBack":
            _rollbacks.inc()
        for pod, one in gateways.items():
            _state.labels(namespace, name, pod).set(_VALUES[one.sync_status])
            before = known.get(pod)
            if before is not None and one.last_sync_time != before.last_sync_time:
                _count(one)
        for pod in known.keys() - gateways.keys():
            _state.remove(namespace, name, pod)
        self._pods[namespace, name] = gateways

    def forget(self, namespace: str, name: str) -> None:
        """Remove the series of a sync."""
        for pod in self._pods.pop((namespace, name), {}):
            _state.remove(namespace, name, pod)
        for gauge in _OF_SYNC:
            with contextlib.suppress(KeyError):
                gauge.remove(namespace, name)


def _count(one: DiscoveredGateway) -> None:
    """Count a sync that an agent has reported."""
    _files.inc(one.files_changed)
    with contextlib.suppress(ValueError):
        _sync_seconds.observe(float(one.last_sync_duration.removesuffix("s")))
    if (scan := _SCANNED.search(one.last_scan_result)) is not None:
        _scan_seconds.observe(float(scan[1]))
