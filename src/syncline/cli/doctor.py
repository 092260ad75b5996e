"""`syncline doctor`: checks that a cluster has everything that the operator needs, and names the remedies."""

import argparse
import asyncio
import os
from collections.abc import Awaitable

from msgspec import Struct

from syncline.cli import connect
from syncline.cli.shipped import shipped
from syncline.cli.table import print_table
from syncline.core.installation import describe_together
from syncline.engine.selfcheck import Right, Shipped, check_crds, check_policies, check_rights
from syncline.kube.client import Client
from syncline.kube.config import Connection
from syncline.kube.errors import Forbidden, KubeError, NotFound
from syncline.kube.resources import NAMESPACES, Resource
from syncline.kube.reviews import may_user
from syncline.render.tool_process import missing_walls

_DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
YES, NO, UNKNOWN = "yes", "NO", "?"
ELSEWHERE = "-"
"""The result cannot be known from here. It is not an error."""


class Row(Struct, frozen=True):
    """One check, and its result."""

    check: str
    ok: str
    found: str


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "doctor",
        help="check that a cluster has everything that the operator needs",
        description="Check the namespace, the CRDs, the admission policies, the rights, the Deployment, and the"
        " confinement of builds on this machine. Each problem is shown with its remedy. Nothing is changed. Exit code"
        " 0: no problem.",
    )
    connect.add_flags(parser)
    connect.add_operator_identity(parser)
    parser.set_defaults(func=lambda given: asyncio.run(_doctor(connect.connection(given), given)))


async def _doctor(connection: Connection, given: argparse.Namespace) -> int:
    namespace, user = given.operator_namespace, connect.operator_user(given)
    needed = shipped(namespace)
    async with Client(connection) as client:
        rows = [
            await _row("namespace", _namespace(client, namespace), f"{namespace} exists"),
            await _row("crds", check_crds(client, needed), "the CRDs match this version"),
            await _row("policies", check_policies(client, needed), "the policies check authors"),
            await _row("rights", _rights(client, needed, user), f"{user} has the rights of the shipped core roles"),
            await _deployment(client, namespace),
        ]
    rows.append(await _confinement(namespace))
    print_table(("CHECK", "OK", "FOUND"), [(row.check, row.ok, row.found) for row in rows])
    return 0 if all(row.ok in (YES, ELSEWHERE) for row in rows) else 1


async def _row(check: str, problems: Awaitable[list[str]], well: str) -> Row:
    try:
        found = await problems
    except Forbidden as error:
        return Row(check, UNKNOWN, f"this could not be checked, ask somebody who has the right: {error}")
    except KubeError as error:
        return Row(check, UNKNOWN, str(error))
    return Row(check, NO if found else YES, describe_together(found) or well)


async def _namespace(client: Client, namespace: str) -> list[str]:
    try:
        await client.get(NAMESPACES, namespace, metadata_only=True)
    except NotFound:
        return [f"the namespace {namespace} does not exist: run `syncline install`"]
    return []


async def _rights(client: Client, needed: Shipped, user: str) -> list[str]:
    async def may(right: Right) -> bool:
        return await may_user(client, user, right.attributes())

    return await check_rights(needed.rights, may)


async def _deployment(client: Client, namespace: str) -> Row:
    try:
        found = await client.get(_DEPLOYMENTS, "syncline", namespace)
    except NotFound:
        return Row(
            "deployment", ELSEWHERE, "there is no Deployment: the operator runs outside the cluster, or it does not run"
        )
    except KubeError as error:
        return Row("deployment", UNKNOWN, str(error))
    if (found.get("status") or {}).get("readyReplicas"):
        return Row("deployment", YES, "the operator is ready")
    return Row("deployment", NO, f"no replica is ready: see `kubectl -n {namespace} logs deployment/syncline`")


async def _confinement(namespace: str) -> Row:
    missing = ", no ".join(await missing_walls())
    if not missing:
        return Row("confinement", YES, "builds can be confined on this machine")
    if "KUBERNETES_SERVICE_HOST" not in os.environ:
        there = f"`kubectl -n {namespace} exec deployment/syncline -- syncline doctor`"
        return Row("confinement", ELSEWHERE, f"this machine has no {missing}: check in the operator's pod with {there}")
    return Row(
        "confinement", NO, f"this machine has no {missing}: use another kernel, or the flag --allow-unconfined-builds"
    )
