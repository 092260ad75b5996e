"""The flags for the connection to the cluster."""

import argparse

from syncline.deploy import NAMESPACE
from syncline.deploy.names import SERVICE_ACCOUNT
from syncline.kube.config import Connection, discover
from syncline.settings import Settings


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add --kubeconfig and --context."""
    parser.add_argument(
        "--kubeconfig",
        metavar="F",
        help="the kubeconfig (default: $KUBECONFIG, the in-cluster configuration, ~/.kube/config)",
    )
    parser.add_argument("--context", metavar="C", help="the context in the kubeconfig (default: its current context)")


def add_tenancy_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the operator that a command needs to plan in the same way."""
    parser.add_argument(
        "--default-service-account",
        default="",
        metavar="A",
        help="the service account of syncs that name none (default: none)",
    )
    parser.add_argument(
        "--require-service-account", action="store_true", help="refuse syncs that name no service account"
    )
    parser.add_argument(
        "--protect-namespaces",
        default="",
        metavar="A,B",
        help="namespaces, names or globs, that globs and selectors of syncs never match, in addition to kube-* and"
        " the operator's",
    )
    parser.add_argument(
        "--allow-kinds",
        default="",
        metavar="A,B",
        help="copy these kinds even if they are protected, such as Lease.coordination.k8s.io",
    )
    parser.add_argument(
        "--allow-loopback",
        action="store_true",
        help="allow clusters and repositories at loopback and link-local addresses (development)",
    )
    parser.add_argument("--allow-insecure-git", action="store_true", help="allow repositories over http (development)")
    parser.add_argument(
        "--allow-unconfined-builds",
        action="store_true",
        help="build even if the kernel lacks Landlock or seccomp: content from Git can then read the operator's files",
    )
    parser.add_argument(
        "--git-cache",
        default="",
        metavar="FOLDER",
        help="the folder for mirrors of repositories (default: syncline/git in the user's cache folder)",
    )


def add_operator_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the operator, with which a command makes the same plan."""
    add_operator_identity(parser)
    add_tenancy_flags(parser)


def add_operator_identity(parser: argparse.ArgumentParser) -> None:
    """Add the flags for the namespace and the identity of the operator."""
    parser.add_argument(
        "--operator-namespace", default=NAMESPACE, metavar="N", help=f"the operator's namespace (default: {NAMESPACE})"
    )
    parser.add_argument(
        "--operator-user",
        default="",
        metavar="U",
        help="the identity of the operator, to check its rights (default: its ServiceAccount in --operator-namespace)",
    )


def operator_user(given: argparse.Namespace) -> str:
    """Return the identity of the operator at the API server."""
    account = f"system:serviceaccount:{given.operator_namespace}:{SERVICE_ACCOUNT}"
    return str(given.operator_user or account)


def connection(given: argparse.Namespace) -> Connection:
    """Return the connection that the flags name."""
    return discover(given.kubeconfig, given.context)


def settings(given: argparse.Namespace) -> Settings:
    """Return the operator's settings from the flags of `add_operator_flags`."""
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
    """Parse a list with commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())
