"""The options of an installation: the image, the profile of rights, and the kinds that edit and admin can write."""

import argparse
from collections.abc import Iterable
from typing import Any

from syncline import deploy
from syncline.cli import connect
from syncline.cli.arguments import named_kind
from syncline.core.profiles import DEFAULT, LABEL, PROFILES, ROLE, known
from syncline.deploy.names import TENANT_KINDS
from syncline.deploy.rights import AS_SHIPPED
from syncline.kube.client import Client
from syncline.kube.errors import NotFound


def add_flags(parser: argparse.ArgumentParser, *, image: str, profile: str, kinds: str) -> None:
    """Add the options of an installation, with their defaults."""
    parser.add_argument("--image", help=f"image of the operator (default: {image})")
    parser.add_argument(
        "--rights",
        choices=PROFILES,
        help="the kinds that the operator can write with its own rights: none, ConfigMaps and Secrets, the usual"
        f" kinds of applications, or all (default: {profile})",
    )
    parser.add_argument(
        "--tenant-kinds",
        metavar="A,B",
        help="the kinds of Syncline that the cluster's roles edit and admin can write: all, none, or some of"
        f" {', '.join(AS_SHIPPED.tenant_kinds)} (default: {kinds})",
    )


def chosen(given: argparse.Namespace, installed: deploy.Choice = AS_SHIPPED) -> deploy.Choice:
    """Return the given options, and for the others the options of the existing installation."""
    kinds = installed.tenant_kinds if given.tenant_kinds is None else _tenant_kinds(given.tenant_kinds)
    return deploy.Choice(profile=given.rights or installed.profile, tenant_kinds=kinds)


def _tenant_kinds(text: str) -> tuple[str, ...]:
    """Parse a list of kinds. Raises `UsageError` for a kind that is not Syncline's."""
    if text == "all":
        return AS_SHIPPED.tenant_kinds
    return _known([named_kind(name).plural for name in connect.split("" if text == "none" else text)])


def _known(plurals: Iterable[str]) -> tuple[str, ...]:
    """Return the kinds that users can be granted, in their shipped order."""
    given = set(plurals)
    return tuple(kind for kind in AS_SHIPPED.tenant_kinds if kind in given)


async def installed(client: Client) -> deploy.Choice:
    """Return the options of an existing installation."""
    core = await _role(client, ROLE)
    edit = await _role(client, "syncline-edit")
    profile = known((core.get("labels") or {}).get(LABEL, "")) or DEFAULT
    kinds = (edit.get("annotations") or {}).get(TENANT_KINDS, "all")
    plurals = AS_SHIPPED.tenant_kinds if kinds == "all" else _known(kinds.split(","))
    return deploy.Choice(profile=profile, tenant_kinds=plurals)


async def installed_image(client: Client) -> str:
    """Return the image of an existing installation, unless it is the default image of a version."""
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
