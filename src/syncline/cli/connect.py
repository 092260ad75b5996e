"""The flags by which every command finds its cluster."""

import argparse

from syncline.deploy import NAMESPACE
from syncline.kube.config import Connection, discover
from syncline.operator import Settings


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add --kubeconfig and --context."""
    parser.add_argument(
        "--kubeconfig", metavar="F", help="kubeconfig to use; default: $KUBECONFIG, in-cluster, ~/.kube/config"
    )
    parser.add_argument("--context", metavar="C", help="context of the kubeconfig; default: its current one")


def add_operator_flags(parser: argparse.ArgumentParser) -> None:
    """Add what a command must know of the operator to plan as it does."""
    parser.add_argument(
        "--operator-namespace", default=NAMESPACE, metavar="N", help=f"the operator's namespace (default: {NAMESPACE})"
    )
    parser.add_argument(
        "--allow-loopback",
        action="store_true",
        help="reach clusters at loopback addresses, as an operator with that flag",
    )


def connection(given: argparse.Namespace) -> Connection:
    """Return the connection that the flags name."""
    return discover(given.kubeconfig, given.context)


def settings(given: argparse.Namespace) -> Settings:
    """Return the operator's settings that `add_operator_flags` asks for."""
    return Settings(namespace=given.operator_namespace, allow_loopback=given.allow_loopback)
