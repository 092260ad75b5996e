"""`syncline grant`: grants the operator, or the service account of a sync, the missing rights that a message names."""

import argparse
import asyncio
from typing import Any

from syncline import deploy
from syncline.cli import connect
from syncline.cli.arguments import UsageError
from syncline.core.group_kind import GroupResource
from syncline.core.profiles import READ, WRITE
from syncline.deploy.names import AGGREGATE_LABEL, GRANTED_LABEL, LABELS
from syncline.kube.client import Client, PatchKind
from syncline.kube.config import Connection
from syncline.kube.errors import NotFound

_RBAC = "rbac.authorization.k8s.io"
_KINDS = ("RoleBinding", "Role", "ClusterRoleBinding", "ClusterRole")


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "grant",
        help="grant the operator, or a service account, the rights to write a kind",
        description="Grant the operator the rights to write a kind with its own rights, in all namespaces. With"
        " --read: only the rights to watch it, for syncs with a service account. With --to: grant a service account"
        " the rights to write it. Each grant is a role with the label syncline.dev/granted. Delete the role to revoke"
        " the grant.",
    )
    connect.add_flags(parser)
    parser.add_argument(
        "resources", nargs="+", metavar="RESOURCE", help="the resource, such as services or deployments.apps"
    )
    parser.add_argument("--read", action="store_true", help="grant only the rights to read and watch the resource")
    parser.add_argument(
        "--to", default="", metavar="NAMESPACE/ACCOUNT", help="a service account (default: the operator itself)"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "-n", "--namespace", metavar="N", help="the namespace in which the account can write (with --to)"
    )
    where.add_argument(
        "-A", "--all-namespaces", action="store_true", help="all namespaces, and cluster-scoped resources (with --to)"
    )
    parser.set_defaults(func=_grant)


def _grant(given: argparse.Namespace) -> int:
    verbs = READ if given.read else WRITE
    if given.to:
        manifests = [one for named in given.resources for one in _to_account(named, verbs, given)]
    elif given.namespace or given.all_namespaces:
        raise UsageError("-n and -A need --to: the operator itself has its rights in all namespaces")
    else:
        manifests = [_to_operator(named, verbs) for named in given.resources]
    return asyncio.run(_apply(connect.connection(given), manifests))


def _to_operator(resource: str, verbs: tuple[str, ...]) -> deploy.Manifest:
    labels = {AGGREGATE_LABEL: "true"}
    return _role("ClusterRole", _metadata(f"syncline-grant-{resource}", "", labels), resource, verbs)


def _to_account(resource: str, verbs: tuple[str, ...], given: argparse.Namespace) -> list[deploy.Manifest]:
    home, slash, account = str(given.to).partition("/")
    if not (home and slash and account) or "/" in account:
        raise UsageError(f"--to {given.to}: write NAMESPACE/ACCOUNT")
    if bool(given.namespace) == bool(given.all_namespaces):
        raise UsageError(
            "--to needs the namespaces in which the account can write: add -n NAMESPACE, or -A for all namespaces"
        )
    kind = "Role" if given.namespace else "ClusterRole"
    name, namespace = f"syncline-grant-{home}-{account}-{resource}", str(given.namespace or "")
    binding = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": _metadata(name, namespace),
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": home}],
    }
    return [_role(kind, _metadata(name, namespace), resource, verbs), binding]


def _role(kind: str, metadata: dict[str, Any], resource: str, verbs: tuple[str, ...]) -> deploy.Manifest:
    group, plural = GroupResource.parse(resource)
    if not plural or "*" in resource:
        raise UsageError(f"{resource}: write one resource, such as deployments.apps")
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": metadata,
        "rules": [{"apiGroups": [group], "resources": [plural], "verbs": list(verbs)}],
    }


def _metadata(name: str, namespace: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    where = {"namespace": namespace} if namespace else {}
    return {"name": name, **where, "labels": {**LABELS, GRANTED_LABEL: "true", **(labels or {})}}


async def _apply(connection: Connection, manifests: list[deploy.Manifest]) -> int:
    async with Client(connection) as client:
        for manifest in manifests:
            meta = manifest["metadata"]
            await client.patch(
                deploy.resource(manifest), meta["name"], meta.get("namespace"), manifest, PatchKind.APPLY, force=True
            )
            print(f"applied {manifest['kind']} {meta['name']}")
    return 0


async def revoke_all(client: Client) -> None:
    """Revoke all grants."""
    for kind in _KINDS:
        resource = deploy.resource({"apiVersion": f"{_RBAC}/v1", "kind": kind})
        granted, _ = await client.list(resource, labels=f"{GRANTED_LABEL}=true", metadata_only=True)
        for one in granted:
            meta = one["metadata"]
            try:
                await client.delete(resource, meta["name"], meta.get("namespace"))
            except NotFound:
                continue
            print(f"removed {kind} {meta['name']}")
