"""`syncline keys`: the keys that sign the markers of managed objects."""

import argparse
import asyncio
from collections.abc import Awaitable, Callable

from syncline.cli import connect
from syncline.cli.arguments import SYNCS, UsageError, resource_of
from syncline.core.marks import MarkKeys, sync_id
from syncline.deploy import NAMESPACE
from syncline.engine.kind_informer import MetaWire
from syncline.engine.markkeys import NAME, add_key, drop_key, noted_keys, read_mark_keys, write_takeovers
from syncline.kube.client import Client
from syncline.kube.errors import NotFound

_Act = Callable[[Client, argparse.Namespace], Awaitable[str]]


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    keys = commands.add_parser(
        "keys", help="list, rotate, drop and recover the keys that sign the markers of managed objects"
    )
    actions = keys.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list the ids of the keys")
    rotate = actions.add_parser(
        "rotate",
        help="sign markers with a new key",
        description="Add a key. From then on the operator signs with it. Signatures of previous keys stay valid, and"
        " the operator replaces them gradually. No restart is necessary.",
    )
    heal = actions.add_parser(
        "heal",
        help="take over objects whose signing key was lost",
        description="Let the existing syncs take over the objects whose markers are signed with lost keys, if their"
        " specs want the objects. All other objects stay unchanged. If you have a backup of the Secret, restore it"
        " and restart the operator instead.",
    )
    drop = actions.add_parser(
        "drop",
        help="remove a previous key, so that its signatures are no longer valid",
        description="Remove a previous key, for example because it has leaked. Wait until all markers are signed with"
        " the new key: from then on the operator neither changes nor removes objects whose markers are signed with"
        " the removed key.",
    )
    drop.add_argument("key", metavar="ID", help="the id of the key, as in `syncline keys list`")
    for action, act in ((listing, _list), (rotate, _rotate), (heal, _heal), (drop, _drop)):
        connect.add_flags(action)
        action.add_argument(
            "--operator-namespace",
            default=NAMESPACE,
            metavar="N",
            help=f"the operator's namespace (default: {NAMESPACE})",
        )
        action.set_defaults(func=lambda given, act=act: asyncio.run(_run(given, act)))


async def _run(given: argparse.Namespace, act: _Act) -> int:
    async with Client(connect.connection(given)) as client:
        print(await act(client, given))
    return 0


async def _read(client: Client, namespace: str) -> MarkKeys:
    try:
        return await read_mark_keys(client, namespace)
    except NotFound:
        raise UsageError(
            f"there is no Secret {namespace}/{NAME} yet: start the operator, which creates it, or write its namespace"
            " with --operator-namespace"
        ) from None


async def _list(client: Client, given: argparse.Namespace) -> str:
    namespace = given.operator_namespace
    keys = await _read(client, namespace)
    lines = [f"{one}  {'signs' if one == keys.current else 'proves'}" for one in sorted(keys.ids)]
    lines += [f"{one}  lost" for one in sorted(await noted_keys(client, namespace) - keys.ids)]
    taking = {one or "unsigned": len(syncs) for one, syncs in keys.takeovers.items()}
    for one, number in sorted(taking.items()):
        lines.append(f"{one}  markers still to be taken over by {number} {'sync' if number == 1 else 'syncs'}")
    return "\n".join(lines)


async def _rotate(client: Client, given: argparse.Namespace) -> str:
    await _read(client, given.operator_namespace)
    keys = await add_key(client, given.operator_namespace)
    former = len(keys.ids) - 1
    count = "the previous key stay valid" if former == 1 else f"{former} previous keys stay valid"
    return f"from now on markers are signed with key {keys.current}; signatures of {count}"


async def _heal(client: Client, given: argparse.Namespace) -> str:
    namespace = given.operator_namespace
    keys = await _read(client, namespace)
    lost = await noted_keys(client, namespace) - keys.ids
    if not lost:
        return "no signing key is lost"
    syncs = [
        sync_id(sync.metadata.uid)
        for kind in SYNCS
        for sync in (await client.list(resource_of(kind), type=MetaWire, metadata_only=True))[0]
    ]
    await write_takeovers(client, namespace, lambda now: {**now, **dict.fromkeys(lost, syncs)})
    return (
        f"{len(syncs)} syncs can take over objects that are signed with the lost keys {', '.join(sorted(lost))}, if"
        " their specs want them; `syncline keys list` shows how many syncs are not finished"
    )


async def _drop(client: Client, given: argparse.Namespace) -> str:
    keys = await _read(client, given.operator_namespace)
    if given.key == keys.current:
        raise UsageError(f"the operator signs with key {given.key}: run `syncline keys rotate` first")
    if given.key not in keys and given.key not in await noted_keys(client, given.operator_namespace):
        raise UsageError(f"there is no key {given.key}: `syncline keys list` shows the existing keys")
    await drop_key(client, given.operator_namespace, given.key)
    return f"key {given.key} was removed; its signatures are no longer valid"
