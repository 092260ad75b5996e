"""`syncline plan -f FILE`: what a sync would do, and why, without doing it."""

import argparse
import asyncio
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import yaml

from syncline.api.common import API_VERSION
from syncline.cli import connect
from syncline.cli.preview import KINDS, is_sync, previewer
from syncline.cli.table import print_table
from syncline.controllers.copier import Preview
from syncline.engine.record import SyncWire
from syncline.kube.config import Connection
from syncline.operator import Settings
from syncline.telemetry import configure


class _FileError(Exception):
    """What was given cannot be planned."""


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
    try:
        manifests = _read(given.filename)
    except _FileError as error:
        print(f"syncline: {error}", file=sys.stderr)
        return 1
    connection = connect.connection(given)
    # What goes wrong ends the command with a line of its own.
    configure("console", "error")
    settings = Settings(namespace=given.operator_namespace, allow_loopback=given.allow_loopback)
    return asyncio.run(_plan_all(connection, manifests, given.namespace, settings))


def _read(filename: str) -> list[dict[str, Any]]:
    try:
        text = sys.stdin.read() if filename == "-" else Path(filename).read_text(encoding="utf-8")
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
    except OSError as error:
        raise _FileError(f"cannot read {filename}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise _FileError(f"{filename} is not YAML: {' '.join(str(error).split())}") from error
    try:
        msgspec.json.encode(documents)
    except RecursionError:
        raise _FileError(f"{filename} refers to itself without end") from None
    syncs = [document for document in documents if is_sync(document)]
    for sync in syncs:
        if not isinstance(sync.get("metadata"), dict) or not sync["metadata"].get("name"):
            raise _FileError(f"{filename}: a sync needs metadata.name")
    if not syncs:
        kinds = " or ".join(kind.kind for kind in KINDS)
        raise _FileError(f"{filename} holds no object of apiVersion {API_VERSION} and kind {kinds}")
    return syncs


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
    rows = [(action.verb.value, str(action.target), action.state, action.message) for action in preview.actions]
    rows += [("-", str(outcome.target), outcome.state, outcome.message) for outcome in preview.passed_over]
    print_table(("ACTION", "TARGET", "THEN", "WHY"), rows)
    if preview.problem is not None:
        print(f"{preview.problem.reason}: {preview.problem.message}")
    verbs = Counter(action.verb.value for action in preview.actions)
    print(", ".join(f"{number} to {verb}" for verb, number in sorted(verbs.items())) or "nothing to do")
