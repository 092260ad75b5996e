"""What whoever installs chooses: the image, the profile of rights, and our kinds that edit and admin may write."""

import argparse
from collections.abc import Iterable
from typing import Any

from syncline import deploy
from syncline.cli import connect
from syncline.cli.words import named_kind
from syncline.core.profiles import DEFAULT, LABEL, PROFILES, ROLE, known
from syncline.deploy.names import TENANT_KINDS
from syncline.deploy.rights import AS_SHIPPED
from syncline.kube.client import Client
from syncline.kube.errors import NotFound


def add_flags(parser: argparse.ArgumentParser, *, image: str, profile: str, kinds: str) -> None:
    """Add what whoever installs chooses, and what is taken where they choose nothing."""
    parser.add_argument("--image", help=f"image of the operator (default: {image})")
    parser.add_argument(
        "--rights",
        choices=PROFILES,
        help="what the operator may write in its own name: nothing, ConfigMaps and Secrets, what a usual application "
        f"has, or everything (default: {profile})",
    )
    parser.add_argument(
        "--tenant-kinds",
        metavar="A,B",
        help="which of our kinds the cluster's own roles edit and admin may write: all, none, or some of "
        f"{', '.join(AS_SHIPPED.tenant_kinds)} (default: {kinds})",
    )


def chosen(given: argparse.Namespace, installed: deploy.Choice = AS_SHIPPED) -> deploy.Choice:
    """Return what was chosen; for the rest, what is installed."""
    kinds = installed.tenant_kinds if given.tenant_kinds is None else _tenant_kinds(given.tenant_kinds)
    return deploy.Choice(profile=given.rights or installed.profile, tenant_kinds=kinds)


def _tenant_kinds(text: str) -> tuple[str, ...]:
    """Read the kinds that somebody writes; `UsageError` for one that is none of ours."""
    if text == "all":
        return AS_SHIPPED.tenant_kinds
    return _known([named_kind(name).plural for name in connect.split("" if text == "none" else text)])


def _known(plurals: Iterable[str]) -> tuple[str, ...]:
    """Return those that people may be given, in the order in which they are shipped."""
    given = set(plurals)
    return tuple(kind for kind in AS_SHIPPED.tenant_kinds if kind in given)


async def installed(client: Client) -> deploy.Choice:
    """Return what an earlier installation has chosen."""
    core = await _role(client, ROLE)
    edit = await _role(client, "syncline-edit")
    profile = known((core.get("labels") or {}).get(LABEL, "")) or DEFAULT
    kinds = (edit.get("annotations") or {}).get(TENANT_KINDS, "all")
    plurals = AS_SHIPPED.tenant_kinds if kinds == "all" else _known(kinds.split(","))
    return deploy.Choice(profile=profile, tenant_kinds=plurals)


async def installed_image(client: Client) -> str:
    """Return the image of an earlier installation, unless it is the default one of some version."""
    resource = deploy.resource({"apiVersion": "apps/v1", "kind": "Deployment"})
    try:
        found = await client.get(resource, "syncline", deploy.NAMESPACE)
    except NotFound:
        return deploy.IMAGE
    image = str(found["spec"]["template"]["spec"]["containers"][0]["image"])
    name, _, _ = deploy.IMAGE.partition(":")
    return deploy.IMAGE if image.startswith(f"{name}:") else image


async def _role(client: Client, name: str) -> dict[str, Any]:
    resource = deploy.resource({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"})
    try:
        found = await client.get(resource, name)
    except NotFound:
        return {}
    return dict(found["metadata"])
