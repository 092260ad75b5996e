"""The flags by which every command finds its cluster."""

import argparse

from syncline.deploy import NAMESPACE
from syncline.deploy.names import SERVICE_ACCOUNT
from syncline.kube.config import Connection, discover
from syncline.settings import Settings


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add --kubeconfig and --context."""
    parser.add_argument(
        "--kubeconfig", metavar="F", help="kubeconfig to use; default: $KUBECONFIG, in-cluster, ~/.kube/config"
    )
    parser.add_argument("--context", metavar="C", help="context of the kubeconfig; default: its current one")


def add_tenancy_flags(parser: argparse.ArgumentParser) -> None:
    """Add what an operator is told about tenants, and what a command must know to plan as it does."""
    parser.add_argument(
        "--default-service-account", default="", metavar="A", help="the account of syncs that name none (default: none)"
    )
    parser.add_argument(
        "--require-service-account", action="store_true", help="refuse syncs that act with the operator's own rights"
    )
    parser.add_argument(
        "--protect-namespaces",
        default="",
        metavar="A,B",
        help="namespaces, names or globs, that only an exact name in a sync reaches, beside kube-* and the operator's",
    )
    parser.add_argument(
        "--allow-kinds",
        default="",
        metavar="A,B",
        help="copy these kinds though they are protected, e.g. Lease.coordination.k8s.io",
    )
    parser.add_argument(
        "--allow-loopback",
        action="store_true",
        help="reach clusters and repositories at loopback and link-local addresses (development)",
    )
    parser.add_argument("--allow-insecure-git", action="store_true", help="read repositories over http (development)")
    parser.add_argument(
        "--allow-unconfined-builds",
        action="store_true",
        help="build also where the kernel lacks Landlock or seccomp: what Git holds can then read the operator's files",
    )
    parser.add_argument(
        "--git-cache",
        default="",
        metavar="FOLDER",
        help="where mirrors of repositories are kept (default: syncline/git in the user's cache folder)",
    )


def add_operator_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags by which a command plans as the operator does; give it those that the operator has."""
    add_operator_identity(parser)
    add_tenancy_flags(parser)


def add_operator_identity(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say where the operator is, and who."""
    parser.add_argument(
        "--operator-namespace", default=NAMESPACE, metavar="N", help=f"the operator's namespace (default: {NAMESPACE})"
    )
    parser.add_argument(
        "--operator-user",
        default="",
        metavar="U",
        help="who the operator is, to check its rights (default: its ServiceAccount in --operator-namespace)",
    )


def operator_user(given: argparse.Namespace) -> str:
    """Return who the operator is, as the API server knows it."""
    account = f"system:serviceaccount:{given.operator_namespace}:{SERVICE_ACCOUNT}"
    return str(given.operator_user or account)


def connection(given: argparse.Namespace) -> Connection:
    """Return the connection that the flags name."""
    return discover(given.kubeconfig, given.context)


def settings(given: argparse.Namespace) -> Settings:
    """Return the operator's settings, as far as `add_operator_flags` asks for them."""
    return Settings(
        namespace=given.operator_namespace,
        default_service_account=given.default_service_account,
        require_service_account=given.require_service_account,
        protected_namespaces=split(given.protect_namespaces),
        allow_kinds=split(given.allow_kinds),
        allow_loopback=given.allow_loopback,
        allow_insecure_git=given.allow_insecure_git,
        allow_unconfined_builds=given.allow_unconfined_builds,
        git_cache=given.git_cache,
    )


def split(text: str) -> tuple[str, ...]:
    """Read a list that is written with commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())
