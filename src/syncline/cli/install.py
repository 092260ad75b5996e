"""`syncline crds`, `manifests`, `install` and `uninstall`: installation and removal of Syncline."""

import argparse
import asyncio
import time
from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from syncline import deploy
from syncline.api.common import ABANDON, FINALIZER, ObjectMeta
from syncline.api.status import SyncStatus
from syncline.cli import choices, connect
from syncline.cli.arguments import SYNCS, resource_of
from syncline.cli.grant import revoke_all
from syncline.cli.table import printable
from syncline.controllers.targets.written_objects import CLEANUP_FAILED
from syncline.core.conditions import find
from syncline.core.profiles import DEFAULT, MEANINGS
from syncline.engine.kind_informer import MetaWire
from syncline.engine.sync_object import SyncObjectWriter
from syncline.kube.client import Client, PatchKind
from syncline.kube.config import Connection
from syncline.kube.errors import Invalid, NotFound
from syncline.kube.resources import Resource

_SYNCS = tuple(resource_of(kind) for kind in SYNCS)
_POLL = 0.2


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    crds = commands.add_parser("crds", help="print the CRDs as YAML")
    crds.set_defaults(func=lambda _: _print(deploy.crds()))

    manifests = commands.add_parser(
        "manifests", help="print all manifests: namespace, CRDs, RBAC, policies, Deployment"
    )
    choices.add_flags(manifests, image=deploy.IMAGE, profile=DEFAULT, kinds="all")
    manifests.set_defaults(
        func=lambda given: _print(deploy.everything(given.image or deploy.IMAGE, choices.chosen(given)))
    )

    install = commands.add_parser("install", help="apply the manifests to a cluster")
    connect.add_flags(install)
    choices.add_flags(
        install,
        image=f"the installed image, else {deploy.IMAGE}",
        profile=f"the installed profile, else {DEFAULT}",
        kinds="the installed kinds, else all",
    )
    install.add_argument(
        "--without-deployment",
        action="store_true",
        help="apply everything except the Deployment, to run the operator elsewhere",
    )
    install.set_defaults(func=lambda given: asyncio.run(_install(connect.connection(given), given)))

    uninstall = commands.add_parser(
        "uninstall",
        help="remove Syncline from a cluster",
        description="Delete all syncs, and wait until the running operator has removed or kept their objects by their"
        " deletionPolicy. Then remove the operator, its roles and policies, the CRDs and the namespace.",
    )
    connect.add_flags(uninstall)
    uninstall.add_argument(
        "--keep-copies", action="store_true", help="keep all objects of the syncs; this needs no running operator"
    )
    uninstall.add_argument(
        "--timeout",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="the maximum time to wait for the operator (default: 120)",
    )
    uninstall.set_defaults(func=lambda given: asyncio.run(_uninstall(connect.connection(given), given)))


def _print(manifests: Sequence[deploy.Manifest]) -> int:
    print(deploy.to_yaml(manifests), end="")
    return 0


async def _apply(client: Client, manifest: deploy.Manifest) -> None:
    resource, meta = deploy.resource(manifest), manifest["metadata"]
    try:
        await client.patch(resource, meta["name"], meta.get("namespace"), manifest, PatchKind.APPLY, force=True)
    except Invalid:
        if manifest not in deploy.injection():
            raise
        # It names the address of `--admission-url`, which excludes a Service.
        await client.delete(resource, meta["name"])
        await client.patch(resource, meta["name"], None, manifest, PatchKind.APPLY, force=True)


async def _install(connection: Connection, given: argparse.Namespace) -> int:
    async with Client(connection) as client:
        choice = choices.chosen(given, await choices.installed(client))
        image = given.image or await choices.installed_image(client)
        for manifest in deploy.everything(image, choice):
            if given.without_deployment and manifest["kind"] == "Deployment":
                continue
            await _apply(client, manifest)
            print(f"applied {manifest['kind']} {manifest['metadata']['name']}")
    print(f"the operator has the rights of profile {choice.profile}: {MEANINGS[choice.profile]}")
    if not given.without_deployment:
        print(f"its image is {image}")
    else:
        print("to run the operator with these rights: syncline run --as-installed")
    return 0


async def _uninstall(connection: Connection, given: argparse.Namespace) -> int:
    async with Client(connection) as client:
        left = await _delete_syncs(client, keep=given.keep_copies, timeout=given.timeout)
        if left:
            for resource, meta in left:
                print(
                    printable(f"{resource.kind} {meta.namespace}/{meta.name}: {await _stuck(client, resource, meta)}")
                )
            count = "1 sync is" if len(left) == 1 else f"{len(left)} syncs are"
            print(
                f"{count} not deleted yet, and nothing else was removed. Remove the causes above, or use --keep-copies"
                " to keep the objects of the syncs."
            )
            return 1
        first, rest = removal_order()
        await _remove(client, first)
        await revoke_all(client)
        await _remove(client, rest)
    return 0


def removal_order() -> tuple[list[deploy.Manifest], list[deploy.Manifest]]:
    """Return the manifests to delete before the grants, and those to delete after them.

    The Deployment is removed first, so that no operator runs without its rights, and the empty namespace last. The
    aggregated role is removed before the roles that it aggregates: their removal has the control plane write it again.
    """
    manifests = list(reversed(deploy.everything(deploy.IMAGE)))
    first = [one for one in manifests if one["kind"] == "Deployment"]
    first += [one for one in manifests if "aggregationRule" in one]
    return first, [one for one in manifests if one not in first]


async def _remove(client: Client, manifests: Iterable[deploy.Manifest]) -> None:
    for manifest in manifests:
        meta = manifest["metadata"]
        try:
            await client.delete(deploy.resource(manifest), meta["name"], meta.get("namespace"))
        except NotFound:
            continue
        print(f"removed {manifest['kind']} {meta['name']}")


async def _delete_syncs(client: Client, *, keep: bool, timeout: float) -> list[tuple[Resource, ObjectMeta]]:
    """Delete all syncs of all kinds and wait for their end. Return the syncs that are left."""
    deadline = time.monotonic() + timeout
    asked: set[str] = set()
    while True:
        left = [(resource, meta) for resource in _SYNCS for meta in await _list(client, resource)]
        for resource, meta in left:
            if meta.uid in asked:
                continue
            asked.add(meta.uid)
            if keep:
                patch = {"metadata": {"annotations": {ABANDON: "true"}}}
                await client.patch(resource, meta.name, meta.namespace, patch, PatchKind.MERGE)
            await client.delete(resource, meta.name, meta.namespace, uid=meta.uid)
            print(f"deleting {resource.kind} {meta.namespace}/{meta.name}")
        if not left or time.monotonic() > deadline:
            return left
        if keep:
            await _remove_finalizers(client)
        await asyncio.sleep(_POLL)


async def _stuck(client: Client, resource: Resource, meta: ObjectMeta) -> str:
    """Return why a deleted sync still exists."""
    try:
        sync = await client.get(resource, meta.name, meta.namespace, type=_Deleted)
    except NotFound:
        return "is now deleted"
    others = [name for name in sync.metadata.finalizers if name != FINALIZER]
    if others and FINALIZER not in sync.metadata.finalizers:
        return f"waits for the finalizer {', '.join(others)}, which is not Syncline's"
    ready = find(sync.status.conditions, "Ready")
    if ready is not None and ready.reason == CLEANUP_FAILED:
        return f"{ready.reason}: {ready.message}"
    return "the operator has not reported a status: check that it runs"


class _Deleted(Struct):
    """The fields of a sync that show why it still exists."""

    metadata: ObjectMeta
    status: SyncStatus = field(default_factory=SyncStatus)


async def _remove_finalizers(client: Client) -> None:
    """Remove the finalizer directly, because the operator may not run any more."""
    for resource in _SYNCS:
        sync_objects = SyncObjectWriter(client, resource)
        for meta in await _list(client, resource):
            if meta.deletion_timestamp is not None:
                await sync_objects.remove_finalizer(meta)


async def _list(client: Client, resource: Resource) -> list[ObjectMeta]:
    """List the syncs of a kind; none if the cluster no longer serves the kind."""
    try:
        syncs, _ = await client.list(resource, type=MetaWire, metadata_only=True)
    except NotFound:
        return []
    return [sync.metadata for sync in syncs]
