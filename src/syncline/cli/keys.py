"""`syncline keys`: the keys that prove which objects are ours."""

import argparse
import asyncio
from collections.abc import Awaitable, Callable

from syncline.cli import connect
from syncline.cli.words import SYNCS, UsageError, resource_of
from syncline.core.marks import MarkKeys, sync_id
from syncline.deploy import NAMESPACE
from syncline.engine.markkeys import NAME, add_key, drop_key, noted_keys, read_mark_keys, write_takeovers
from syncline.engine.view import MetaWire
from syncline.kube.client import Client
from syncline.kube.errors import NotFound

_Act = Callable[[Client, argparse.Namespace], Awaitable[str]]


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    keys = commands.add_parser("keys", help="list, rotate and heal the keys that prove which objects are Syncline's")
    actions = keys.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list the keys by their ids")
    rotate = actions.add_parser(
        "rotate",
        help="have marks signed with a new key",
        description="Adds a key, which the operator signs with from then on. Marks of former keys go on to count, and "
        "are signed anew a few at a time. Nothing is lost, and nothing needs to be restarted.",
    )
    heal = actions.add_parser(
        "heal",
        help="have marks proven anew whose key was lost",
        description="Lets the syncs that there are take over the objects with marks of lost keys: only those that their"
        " specs want. What they do not want is left where it is. Restore the Secret from a backup instead, where there "
        "is one, and restart the operator.",
    )
    drop = actions.add_parser(
        "drop",
        help="have the marks of a former key count for nothing",
        description="Removes a key that was replaced, such as one that has leaked. Wait until all marks are signed "
        "anew: what is still marked with it is neither changed nor removed from then on.",
    )
    drop.add_argument("key", metavar="ID", help="the id of the key, as `syncline keys list` has it")
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
            f"there is no Secret {namespace}/{NAME} yet: start the operator, which makes it, or give its namespace with"
            " --operator-namespace"
        ) from None


async def _list(client: Client, given: argparse.Namespace) -> str:
    namespace = given.operator_namespace
    keys = await _read(client, namespace)
    lines = [f"{one}  {'signs' if one == keys.current else 'proves'}" for one in sorted(keys.ids)]
    lines += [f"{one}  lost" for one in sorted(await noted_keys(client, namespace) - keys.ids)]
    taking = {one or "unsigned": len(syncs) for one, syncs in keys.takeovers.items()}
    for one, number in sorted(taking.items()):
        lines.append(f"{one}  still to be taken over by {number} {'sync' if number == 1 else 'syncs'}")
    return "\n".join(lines)


async def _rotate(client: Client, given: argparse.Namespace) -> str:
    await _read(client, given.operator_namespace)
    keys = await add_key(client, given.operator_namespace)
    former = len(keys.ids) - 1
    count = "the former key count" if former == 1 else f"{former} former keys count"
    return f"marks are signed with key {keys.current} from now on; those of {count} too"


async def _heal(client: Client, given: argparse.Namespace) -> str:
    namespace = given.operator_namespace
    keys = await _read(client, namespace)
    lost = await noted_keys(client, namespace) - keys.ids
    if not lost:
        return "no key is lost"
    syncs = [
        sync_id(sync.metadata.uid)
        for kind in SYNCS
        for sync in (await client.list(resource_of(kind), type=MetaWire, metadata_only=True))[0]
    ]
    await write_takeovers(client, namespace, lambda now: {**now, **dict.fromkeys(lost, syncs)})
    return (
        f"{len(syncs)} syncs may take over what is marked with the lost keys {', '.join(sorted(lost))} and what their "
        "specs want; `syncline keys list` shows how many have not done so yet"
    )


async def _drop(client: Client, given: argparse.Namespace) -> str:
    keys = await _read(client, given.operator_namespace)
    if given.key == keys.current:
        raise UsageError(f"key {given.key} signs: run `syncline keys rotate` first")
    if given.key not in keys and given.key not in await noted_keys(client, given.operator_namespace):
        raise UsageError(f"there is no key {given.key}: `syncline keys list` shows those that there are")
    await drop_key(client, given.operator_namespace, given.key)
    return f"key {given.key} proves nothing any more"
