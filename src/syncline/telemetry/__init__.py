"""What people and machines can see of a running operator: logs, metrics, and the endpoints for probes and scrapers.

`logs` sets up structured logging and keeps secrets out of it, `metrics` holds what is counted about syncs, `http`
serves health and metrics. Nothing here knows how a sync works; those who do call in. Status and events are not here:
they belong to the cluster and its users.
"""

from syncline.telemetry.bind import BindError
from syncline.telemetry.certificate import ServingCertificate
from syncline.telemetry.http import Check, Endpoint, Endpoints, Guard, serve, serve_health, serve_metrics
from syncline.telemetry.logs import LogFormat, LogLevel, configure
from syncline.telemetry.scrapers import Access, Scrapers

__all__ = [
    "Access",
    "BindError",
    "Check",
    "Endpoint",
    "Endpoints",
    "Guard",
    "LogFormat",
    "LogLevel",
    "Scrapers",
    "ServingCertificate",
    "configure",
    "serve",
    "serve_health",
    "serve_metrics",
]
