"""`syncline crds`, `manifests`, `install` and `uninstall`: bringing Syncline to a cluster, and away again."""

import argparse
import asyncio
import time
from collections.abc import Sequence

from msgspec import Struct, field

from syncline import deploy
from syncline.api.common import ABANDON, FINALIZER, ObjectMeta
from syncline.api.status import SyncStatus
from syncline.cli import choices, connect
from syncline.cli.grant import revoke_all
from syncline.cli.table import printable
from syncline.cli.words import SYNCS, resource_of
from syncline.controllers.targets.prune import CLEANUP_FAILED
from syncline.core.conditions import find
from syncline.core.profiles import DEFAULT, MEANINGS
from syncline.engine.record import Records
from syncline.engine.view import MetaWire
from syncline.kube.client import Client, PatchKind
from syncline.kube.config import Connection
from syncline.kube.errors import NotFound
from syncline.kube.resources import Resource

_SYNCS = tuple(resource_of(kind) for kind in SYNCS)
_POLL = 0.2


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    crds = commands.add_parser("crds", help="print the CRDs as YAML")
    crds.set_defaults(func=lambda _: _print(deploy.crds()))

    manifests = commands.add_parser(
        "manifests", help="print all that a cluster needs: namespace, CRDs, RBAC, policy, Deployment"
    )
    choices.add_flags(manifests, image=deploy.IMAGE, profile=DEFAULT, kinds="all")
    manifests.set_defaults(
        func=lambda given: _print(deploy.everything(given.image or deploy.IMAGE, choices.chosen(given)))
    )

    install = commands.add_parser("install", help="apply the manifests to a cluster")
    connect.add_flags(install)
    choices.add_flags(
        install,
        image=f"what is installed, else {deploy.IMAGE}",
        profile=f"what is installed, else {DEFAULT}",
        kinds="what is installed, else all",
    )
    install.add_argument(
        "--without-deployment", action="store_true", help="all but the Deployment, to run the operator elsewhere"
    )
    install.set_defaults(func=lambda given: asyncio.run(_install(connect.connection(given), given)))

    uninstall = commands.add_parser(
        "uninstall",
        help="remove Syncline from a cluster, in the order that leaves nothing stuck",
        description="Deletes all syncs and waits until the running operator has let go of their copies, each by its "
        "deletionPolicy; then removes the operator, its roles and policy, the CRDs and the namespace.",
    )
    connect.add_flags(uninstall)
    uninstall.add_argument(
        "--keep-copies", action="store_true", help="leave all copies where they are; needs no running operator"
    )
    uninstall.add_argument(
        "--timeout", type=float, default=120.0, metavar="SECONDS", help="how long to wait for the operator"
    )
    uninstall.set_defaults(func=lambda given: asyncio.run(_uninstall(connect.connection(given), given)))


def _print(manifests: Sequence[deploy.Manifest]) -> int:
    print(deploy.to_yaml(manifests), end="")
    return 0


async def _install(connection: Connection, given: argparse.Namespace) -> int:
    async with Client(connection) as client:
        choice = choices.chosen(given, await choices.installed(client))
        image = given.image or await choices.installed_image(client)
        for manifest in deploy.everything(image, choice):
            if given.without_deployment and manifest["kind"] == "Deployment":
                continue
            meta = manifest["metadata"]
            await client.patch(
                deploy.resource(manifest), meta["name"], meta.get("namespace"), manifest, PatchKind.APPLY, force=True
            )
            print(f"applied {manifest['kind']} {meta['name']}")
    print(f"the operator has the rights of profile {choice.profile}: {MEANINGS[choice.profile]}")
    if not given.without_deployment:
        print(f"its image is {image}")
    else:
        print("run it with these rights: syncline run --as-installed")
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
                f"{count} still there, and nothing else was removed. Do what is said above, or give "
                "--keep-copies to leave their copies where they are."
            )
            return 1
        await revoke_all(client)
        # The Deployment goes first so that nothing runs without its rights, the namespace last so that it is empty.
        for manifest in reversed(deploy.everything(deploy.IMAGE)):
            meta = manifest["metadata"]
            try:
                await client.delete(deploy.resource(manifest), meta["name"], meta.get("namespace"))
            except NotFound:
                continue
            print(f"removed {manifest['kind']} {meta['name']}")
    return 0


async def _delete_syncs(client: Client, *, keep: bool, timeout: float) -> list[tuple[Resource, ObjectMeta]]:
    """Delete all syncs of all kinds and wait for their end; return those that are left."""
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
            await _let_go(client)
        await asyncio.sleep(_POLL)


async def _stuck(client: Client, resource: Resource, meta: ObjectMeta) -> str:
    """Say why a sync that was deleted is still there."""
    try:
        sync = await client.get(resource, meta.name, meta.namespace, type=_Deleted)
    except NotFound:
        return "is gone by now"
    others = [name for name in sync.metadata.finalizers if name != FINALIZER]
    if others and FINALIZER not in sync.metadata.finalizers:
        return f"waits for the finalizer {', '.join(others)}, which is not Syncline's"
    ready = find(sync.status.conditions, "Ready")
    if ready is not None and ready.reason == CLEANUP_FAILED:
        return f"{ready.reason}: {ready.message}"
    return "the operator has not answered: start it if it does not run"


class _Deleted(Struct):
    """A sync, as far as it tells why it is still there."""

    metadata: ObjectMeta
    status: SyncStatus = field(default_factory=SyncStatus)


async def _let_go(client: Client) -> None:
    """Remove our finalizer ourselves, for an operator that may not run any more."""
    for resource in _SYNCS:
        records = Records(client, resource)
        for meta in await _list(client, resource):
            if meta.deletion_timestamp is not None:
                await records.let_go(meta)


async def _list(client: Client, resource: Resource) -> list[ObjectMeta]:
    """List the syncs of a kind; none where the kind is not there any more."""
    try:
        syncs, _ = await client.list(resource, type=MetaWire, metadata_only=True)
    except NotFound:
        return []
    return [sync.metadata for sync in syncs]
