"""`syncline plan -f FILE`: what a sync would do, and why, without doing it."""

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from syncline import deploy
from syncline.api import configmapsync as api
from syncline.api.common import API_VERSION
from syncline.cli import connect
from syncline.cli.table import print_table
from syncline.controllers.configmapsync import RESOURCE, ConfigMapSyncController, Preview
from syncline.engine.cluster import Cluster
from syncline.engine.record import SyncWire
from syncline.kube.client import Client
from syncline.kube.config import Connection
from syncline.kube.errors import KubeError, NotFound
from syncline.kube.events import EventRecorder
from syncline.kube.reflector import AnyReflector
from syncline.render import Renderer
from syncline.telemetry import configure

_POLL = 0.02


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
    return asyncio.run(_plan_all(connection, manifests, given.namespace))


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
    syncs = [document for document in documents if _is_sync(document)]
    for sync in syncs:
        if not isinstance(sync.get("metadata"), dict) or not sync["metadata"].get("name"):
            raise _FileError(f"{filename}: a sync needs metadata.name")
    if not syncs:
        raise _FileError(f"{filename} holds no object of apiVersion {API_VERSION} and kind {api.KIND}")
    return syncs


def _is_sync(document: object) -> bool:
    """Whether it is one of ours; a file may hold its source and namespaces too."""
    if not isinstance(document, dict):
        return False
    return (document.get("apiVersion"), document.get("kind")) == (API_VERSION, api.KIND)


async def _plan_all(connection: Connection, manifests: list[dict[str, Any]], namespace: str | None) -> int:
    async with Client(connection) as client, Renderer() as renderer:
        cluster = Cluster(client)
        controller = ConfigMapSyncController(
            cluster,
            renderer=renderer,
            events=EventRecorder(client, "syncline", "plan"),
            guarded=frozenset({deploy.NAMESPACE}),
        )
        reflectors: tuple[AnyReflector, ...] = (*cluster.reflectors, *controller.syncs.values())
        watches = [asyncio.create_task(reflector.run()) for reflector in reflectors]
        try:
            # A first read tells at once, and in words, what a watch would try again and again.
            await client.version()
            wires = [
                await _check(client, manifest, namespace or connection.namespace or "default") for manifest in manifests
            ]
            await _synced(reflectors)
            previews = [await controller.preview(wire) for wire in wires]
        finally:
            for watch in watches:
                watch.cancel()
            await asyncio.gather(*watches, return_exceptions=True)
    for wire, preview in zip(wires, previews, strict=True):
        _show(wire, preview)
    return 1 if any(preview.problem is not None for preview in previews) else 0


async def _synced(reflectors: Sequence[AnyReflector]) -> None:
    """Wait for the first lists; what a running operator would try again ends the command."""
    while waiting := [reflector.status() for reflector in reflectors if not reflector.synced.is_set()]:
        failures = [status.failure for status in waiting if status.failure]
        if failures:
            raise KubeError(failures[0])
        await asyncio.sleep(_POLL)


async def _check(client: Client, manifest: dict[str, Any], namespace: str) -> SyncWire:
    """Let the API server check and default the manifest in a dry run; identity and status are those of the living."""
    meta = manifest["metadata"]
    name, namespace = str(meta["name"]), str(meta.get("namespace") or namespace)
    body = {**manifest, "metadata": {**meta, "namespace": namespace}}
    try:
        living = await client.get(RESOURCE, name, namespace)
    except NotFound:
        checked = await client.create(RESOURCE, body, namespace, dry_run=True, type=SyncWire)
        return msgspec.structs.replace(checked, status=msgspec.Raw(b"{}"))
    # Replaced, not applied: what the file leaves out is not asked for any more.
    annotations = {**(living["metadata"].get("annotations") or {}), **(meta.get("annotations") or {})}
    body["metadata"] = {**living["metadata"], "annotations": annotations}
    checked = await client.replace(RESOURCE, name, namespace, body, dry_run=True, type=SyncWire)
    return msgspec.structs.replace(checked, status=msgspec.Raw(msgspec.json.encode(living.get("status") or {})))


def _show(wire: SyncWire, preview: Preview) -> None:
    print(f"{api.KIND} {wire.metadata.namespace}/{wire.metadata.name}")
    rows = [(action.verb.value, str(action.target), action.state, action.message) for action in preview.actions]
    rows += [("-", str(outcome.target), outcome.state, outcome.message) for outcome in preview.passed_over]
    print_table(("ACTION", "TARGET", "THEN", "WHY"), rows)
    if preview.problem is not None:
        print(f"{preview.problem.reason}: {preview.problem.message}")
    verbs = Counter(action.verb.value for action in preview.actions)
    print(", ".join(f"{number} to {verb}" for verb, number in sorted(verbs.items())) or "nothing to do")
