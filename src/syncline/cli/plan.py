"""`syncline plan -f FILE`: what a sync would do, and why, without doing it."""

import argparse
import asyncio
from collections import Counter
from typing import Any

from syncline.api.configmapsync import KIND as CONFIG_MAP_SYNC
from syncline.cli import connect
from syncline.cli.preview import previewer
from syncline.cli.table import print_table, printable
from syncline.cli.words import read_syncs
from syncline.controllers.foresight import Preview
from syncline.core.objects import Target
from syncline.engine.record import SyncWire
from syncline.kube.config import Connection
from syncline.operator import Settings
from syncline.telemetry import configure


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("plan", help="what a sync would do, and why, without doing it")
    connect.add_flags(parser)
    parser.add_argument(
        "-f", "--filename", required=True, metavar="FILE", help="manifest of one or more syncs; - for stdin"
    )
    parser.add_argument(
        "-n", "--namespace", metavar="N", help="namespace of syncs that name none (default: the context's)"
    )
    connect.add_operator_flags(parser)
    parser.set_defaults(func=_plan)


def _plan(given: argparse.Namespace) -> int:
    manifests = read_syncs(given.filename)
    connection = connect.connection(given)
    # What goes wrong ends the command with a line of its own.
    configure("console", "error")
    return asyncio.run(_plan_all(connection, manifests, given.namespace, connect.settings(given)))


async def _plan_all(
    connection: Connection, manifests: list[dict[str, Any]], namespace: str | None, settings: Settings
) -> int:
    async with previewer(connection, settings) as eyes:
        home = namespace or connection.namespace or "default"
        wires = [await eyes.check(manifest, home) for manifest in manifests]
        previews = [await eyes.preview(manifest["kind"], wire) for manifest, wire in zip(manifests, wires, strict=True)]
    for manifest, wire, preview in zip(manifests, wires, previews, strict=True):
        _show(manifest["kind"], wire, preview)
    return 1 if any(preview.problem is not None for preview in previews) else 0


def _show(kind: str, wire: SyncWire, preview: Preview) -> None:
    print(f"{kind} {wire.metadata.namespace}/{wire.metadata.name}")
    # A ConfigMapSync writes ConfigMaps, and in this cluster: two columns less to read.
    anything = kind != CONFIG_MAP_SYNC
    rows = [
        (action.verb.value, *_place(action.target, anything=anything), action.state, action.message)
        for action in preview.actions
    ]
    rows += [
        ("-", *_place(outcome.target, anything=anything), outcome.state, outcome.message)
        for outcome in preview.passed_over
    ]
    place = ("CLUSTER", "KIND", "TARGET") if anything else ("TARGET",)
    print_table(("ACTION", *place, "THEN", "WHY"), rows)
    if preview.problem is not None:
        print(printable(f"{preview.problem.reason}: {preview.problem.message}"))
    verbs = Counter(action.verb.value for action in preview.actions)
    print(", ".join(f"{number} to {verb}" for verb, number in sorted(verbs.items())) or "nothing to do")


def _place(target: Target, *, anything: bool) -> tuple[str, ...]:
    where = f"{target.namespace}/{target.name}" if target.namespace else target.name
    return (target.cluster or "-", target.kind, where) if anything else (where,)
