"""Logs, metrics, and the endpoints for probes and scrapers.

`logs` configures structured logging and removes secrets, `metrics` defines the metrics of syncs, `http` serves health
and metrics. This package knows nothing about the work of a sync: other packages call it. Status and events are not
here, because they are objects of the cluster.
"""

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
