"""Logs, metrics, and the endpoints for probes and scrapers.

`logs` configures structured logging and removes secrets, `metrics` defines the metrics of syncs, `http` serves health
and metrics. This package knows nothing about the work of a sync: other packages call it. Status and events are not
here, because they are objects of the cluster.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from syncline.telemetry.bind import BindError
    from syncline.telemetry.certificate import ServingCertificate
    from syncline.telemetry.http import Check, Endpoint, Endpoints, Guard, serve, serve_health, serve_metrics
    from syncline.telemetry.logs import LogFormat, LogLevel, configure
    from syncline.telemetry.scrapers import Scrapers, ScrapeVerdict

__all__ = [
    "BindError",
    "Check",
    "Endpoint",
    "Endpoints",
    "Guard",
    "LogFormat",
    "LogLevel",
    "ScrapeVerdict",
    "Scrapers",
    "ServingCertificate",
    "configure",
    "serve",
    "serve_health",
    "serve_metrics",
]

# The agent logs, and has no room in memory for what serves metrics: each name is imported when it is used.
_MODULES = {
    "BindError": "syncline.telemetry.bind",
    "Check": "syncline.telemetry.http",
    "Endpoint": "syncline.telemetry.http",
    "Endpoints": "syncline.telemetry.http",
    "Guard": "syncline.telemetry.http",
    "LogFormat": "syncline.telemetry.logs",
    "LogLevel": "syncline.telemetry.logs",
    "ScrapeVerdict": "syncline.telemetry.scrapers",
    "Scrapers": "syncline.telemetry.scrapers",
    "ServingCertificate": "syncline.telemetry.certificate",
    "configure": "syncline.telemetry.logs",
    "serve": "syncline.telemetry.http",
    "serve_health": "syncline.telemetry.http",
    "serve_metrics": "syncline.telemetry.http",
}


def __getattr__(name: str) -> object:
    """Import a name of `__all__`."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
