"""The flags by which every command finds its cluster."""

import argparse

from syncline.kube.config import Connection, discover


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add --kubeconfig and --context."""
    parser.add_argument(
        "--kubeconfig", metavar="F", help="kubeconfig to use; default: $KUBECONFIG, in-cluster, ~/.kube/config"
    )
    parser.add_argument("--context", metavar="C", help="context of the kubeconfig; default: its current one")


def connection(given: argparse.Namespace) -> Connection:
    """Return the connection that the flags name."""
    return discover(given.kubeconfig, given.context)
