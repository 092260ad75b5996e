"""`syncline plan -f FILE`: the actions of a sync, with their reasons, without making them."""

import argparse
import asyncio
import sys
from collections import Counter
from typing import Any

from syncline.api.configmapsync import KIND as CONFIG_MAP_SYNC
from syncline.api.ignitionsync import KIND as IGNITION_SYNC
from syncline.cli import connect
from syncline.cli.arguments import UsageError, read_syncs
from syncline.cli.gateway_preview import show_plan
from syncline.cli.preview import namespaces_of, open_previewer
from syncline.cli.table import print_table, printable
from syncline.controllers.gateways.preview import FleetPreview
from syncline.controllers.targets.preview import Preview
from syncline.core.objects import Target
from syncline.core.outcome import NOT_READY
from syncline.engine.sync_object import RawSync
from syncline.kube.config import Connection
from syncline.kube.errors import KubeError
from syncline.telemetry import configure

POSSIBLE, IMPOSSIBLE, WRONG = 0, 1, 2
UNDONE = NOT_READY | {"Unknown"}
"""The states of targets that make a sync not ready."""


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "plan",
        help="show the actions of a sync, with their reasons, without making them",
        description="Show the action of each sync in a file for each target, with its reason. Exit code 0: all"
        " actions are possible, 1: some actions are not possible, 2: the file is refused, or the plan cannot be made.",
    )
    connect.add_flags(parser)
    parser.add_argument(
        "-f", "--filename", required=True, metavar="FILE", help="a manifest with one or more syncs; - for stdin"
    )
    parser.add_argument(
        "-n", "--namespace", metavar="N", help="the namespace of syncs that name none (default: the context's)"
    )
    connect.add_operator_flags(parser)
    parser.set_defaults(func=_plan)


def _plan(given: argparse.Namespace) -> int:
    try:
        return _plan_file(given)
    except (KubeError, UsageError) as error:
        print(f"syncline: {error}", file=sys.stderr)
        return WRONG


def _plan_file(given: argparse.Namespace) -> int:
    manifests = read_syncs(given.filename)
    connection = connect.connection(given)
    # An error ends the command with one line.
    configure("console", "error")
    return asyncio.run(_plan_all(connection, given, manifests))


async def _plan_all(connection: Connection, given: argparse.Namespace, manifests: list[dict[str, Any]]) -> int:
    home = given.namespace or connection.namespace or "default"
    async with open_previewer(connection, given, namespaces_of(manifests, home)) as previewer:
        wires = [(manifest["kind"], await previewer.check(manifest, home)) for manifest in manifests]
        previews = [
            await (previewer.preview_gateways(wire) if kind == IGNITION_SYNC else previewer.preview(kind, wire))
            for kind, wire in wires
        ]
    code = POSSIBLE
    for (kind, wire), preview in zip(wires, previews, strict=True):
        if isinstance(preview, FleetPreview):
            code = max(code, show_plan(f"{kind} {wire.metadata.namespace}/{wire.metadata.name}", preview))
        else:
            code = max(code, _show(kind, wire, preview))
    for note in previewer.unchecked():
        print(printable(f"note: {note}"))
    return code


def _show(kind: str, wire: RawSync, preview: Preview) -> int:
    """Print the plan of one sync. Return whether all actions are possible."""
    print(f"{kind} {wire.metadata.namespace}/{wire.metadata.name}")
    # A ConfigMapSync writes only ConfigMaps in this cluster: the columns for kind and cluster are not needed.
    anything = kind != CONFIG_MAP_SYNC
    rows = [
        (action.verb.value, *_place(action.target, anything=anything), action.state, action.message)
        for action in preview.actions
    ]
    rows += [
        ("-", *_place(outcome.target, anything=anything), outcome.state, outcome.message) for outcome in preview.skipped
    ]
    place = ("CLUSTER", "KIND", "TARGET") if anything else ("TARGET",)
    print_table(("ACTION", *place, "THEN", "WHY"), rows)
    if preview.problem is not None:
        print(printable(f"{preview.problem.reason}: {preview.problem.message}"))
    for nothing in preview.unmatched:
        print(printable(f"note: {nothing}"))
    states = [*(action.state for action in preview.actions), *(one.state for one in preview.skipped)]
    unable = sum(state in UNDONE for state in states)
    verbs = Counter(action.verb.value for action in preview.actions if action.state not in UNDONE)
    words = [f"{number} to {verb}" for verb, number in sorted(verbs.items())]
    words += [f"{unable} cannot be done"] if unable else []
    if words or preview.problem is None:
        print(", ".join(words) or "nothing to do")
    return IMPOSSIBLE if unable or preview.problem is not None else POSSIBLE


def _place(target: Target, *, anything: bool) -> tuple[str, ...]:
    where = f"{target.namespace}/{target.name}" if target.namespace else target.name
    return (target.cluster or "-", target.kind, where) if anything else (where,)
