"""`syncline run`: the operator in the foreground."""

import argparse
import asyncio
import sys
from pathlib import Path

from syncline.cli import connect
from syncline.cli.shipped import shipped
from syncline.core.durations import seconds
from syncline.git import GitError
from syncline.operator import run as run_operator
from syncline.settings import Settings, SettingsError
from syncline.telemetry import BindError, configure

_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("run", help="run the operator in the foreground")
    connect.add_flags(parser)
    parser.add_argument(
        "--namespace", metavar="N", help="the operator's own namespace (default: the pod's, else syncline-system)"
    )
    parser.add_argument(
        "--as-installed",
        action="store_true",
        help="act as the installed ServiceAccount, with its rights, not as the user of the kubeconfig; the user needs"
        " the right to create its tokens",
    )
    parser.add_argument("--leader-elect", action="store_true", help="elect one leader among several replicas")
    _add_health_flags(parser)
    parser.add_argument(
        "--watch-namespaces", default="", metavar="A,B", help="reconcile only syncs in these namespaces (default: all)"
    )
    parser.add_argument(
        "--min-interval",
        type=duration,
        default="10s",
        metavar="D",
        help="the smallest interval that a sync can have (default: 10s)",
    )
    _add_webhook_flags(parser)
    _add_depot_flags(parser)
    _add_admission_flags(parser)
    parser.add_argument(
        "--allow-unchecked-authors",
        action="store_true",
        help="reconcile syncs without a service account even if the policies that check authors are not in force",
    )
    connect.add_tenancy_flags(parser)
    parser.add_argument("--log-format", choices=("json", "console"), default="console")
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info")
    parser.set_defaults(func=_run)


def _add_health_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--metrics-bind",
        default="0",
        metavar="ADDR",
        help="serve /metrics at this address, such as :8443 (default: 0, off)",
    )
    parser.add_argument(
        "--metrics-cert-dir",
        default="",
        metavar="FOLDER",
        help="serve metrics with tls.crt and tls.key of this folder (default: self-signed)",
    )
    parser.add_argument(
        "--allow-insecure-metrics",
        action="store_true",
        help="serve metrics over plain HTTP to everybody; they name all syncs and their namespaces (development)",
    )
    parser.add_argument(
        "--health-bind",
        default="0",
        metavar="ADDR",
        help="serve /healthz and /readyz at this address, such as :8081 (default: 0, off)",
    )


def _add_webhook_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--webhook-bind",
        default="0",
        metavar="ADDR",
        help="accept push webhooks for /webhook/{namespace}/{name} at this address, such as :8082 (default: 0, off)",
    )
    parser.add_argument(
        "--webhook-secret-file",
        default="",
        metavar="FILE",
        help="a file with a secret that authenticates push webhooks for all syncs, in addition to the secret of each"
        " sync",
    )
    parser.add_argument(
        "--trusted-proxies",
        default="",
        metavar="CIDR,...",
        help="trust the X-Forwarded-For header of these proxies as the sender of a push webhook (default: none)",
    )


def _add_depot_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--depot-bind",
        default="0",
        metavar="ADDR",
        help="serve the files of IgnitionSyncs to agents at this address, such as :8444 (default: 0, off)",
    )
    parser.add_argument(
        "--depot-url",
        default="",
        metavar="URL",
        help="the address of the depot for agents (default: the host of --depot-bind, else the Service syncline-depot)",
    )
    parser.add_argument(
        "--depot-cert-dir",
        default="",
        metavar="FOLDER",
        help="serve the depot with tls.crt and tls.key of this folder, which agents trust by its ca.crt (default:"
        " certificates of the operator, which it renews)",
    )


def _add_admission_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--admission-bind",
        default="0",
        metavar="ADDR",
        help="add agents to new pods that ask for one: answer the API server at this address, such as :9443"
        " (default: 0, off)",
    )
    parser.add_argument(
        "--admission-url",
        default="",
        metavar="URL",
        help="have the API server call this address instead of the Service syncline-admission, and create the webhook"
        " configuration if it is missing (development)",
    )
    parser.add_argument(
        "--admission-cert-dir",
        default="",
        metavar="FOLDER",
        help="answer the API server with tls.crt and tls.key of this folder; without ca.crt in it, another program"
        " writes the CA bundle of the webhook configuration (default: certificates of the operator)",
    )
    parser.add_argument(
        "--agent-image",
        default="",
        metavar="IMAGE",
        help="the image of agents, if their IgnitionSync names none (default: the image of the operator's pod)",
    )


def duration(text: str) -> float:
    """Parse a Go duration, such as 90s or 1h30m. Return seconds."""
    try:
        return seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _run(given: argparse.Namespace) -> int:
    connection = connect.connection(given)
    configure(given.log_format, given.log_level)
    settings = Settings(
        namespace=given.namespace or _own_namespace(),
        leader_elect=given.leader_elect,
        metrics_bind=given.metrics_bind,
        health_bind=given.health_bind,
        metrics_cert_dir=given.metrics_cert_dir,
        allow_insecure_metrics=given.allow_insecure_metrics,
        allow_unchecked_authors=given.allow_unchecked_authors,
        watch_namespaces=connect.split(given.watch_namespaces),
        min_interval=given.min_interval,
        default_service_account=given.default_service_account,
        require_service_account=given.require_service_account,
        protected_namespaces=connect.split(given.protect_namespaces),
        allow_kinds=connect.split(given.allow_kinds),
        allow_loopback=given.allow_loopback,
        allow_insecure_git=given.allow_insecure_git,
        allow_unconfined_builds=given.allow_unconfined_builds,
        git_cache=given.git_cache,
        webhook_bind=given.webhook_bind,
        webhook_secret_file=given.webhook_secret_file,
        trusted_proxies=connect.split(given.trusted_proxies),
        depot_bind=given.depot_bind,
        depot_url=given.depot_url,
        depot_cert_dir=given.depot_cert_dir,
        admission_bind=given.admission_bind,
        admission_url=given.admission_url,
        admission_cert_dir=given.admission_cert_dir,
        agent_image=given.agent_image,
    )
    try:
        needed = shipped(settings.namespace)
        asyncio.run(run_operator(connection, settings, needed, as_installed=given.as_installed))
    except (BindError, GitError, SettingsError) as error:
        print(f"syncline: {error}", file=sys.stderr)
        return 1
    return 0


def _own_namespace() -> str:
    try:
        return _NAMESPACE_FILE.read_text(encoding="ascii").strip() or "syncline-system"
    except OSError:
        return "syncline-system"
