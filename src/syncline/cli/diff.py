"""`syncline diff`: the changes of the next reconcile of a sync, for each object, without making them."""

import argparse
import asyncio
import difflib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from syncline.api.configsync import ConfigSyncSpec
from syncline.api.kinds import CONFIG_SYNC, IGNITION_SYNC, MANIFEST_SYNC
from syncline.api.manifestsync import ManifestSyncSpec
from syncline.cli import connect
from syncline.cli.arguments import SYNCS, Reference, UsageError, read_syncs, reference
from syncline.cli.gateway_preview import show_diff
from syncline.cli.preview import BOTH_WAYS, Previewer, goes_both_ways, namespaces_of, open_previewer
from syncline.cli.projected import States, removed, written
from syncline.cli.redact import shown
from syncline.cli.sync_ref import find_kind
from syncline.cli.table import printable
from syncline.controllers.targets.preview import Preview
from syncline.core.objects import Target
from syncline.core.plan import WRITES, Action
from syncline.core.redact import may_contain_secrets
from syncline.core.schema_errors import explain_schema_error
from syncline.engine.cluster import Cluster
from syncline.engine.sync_object import RawSync
from syncline.kube.client import Client
from syncline.kube.config import Connection
from syncline.kube.errors import KubeError, NotFound, ServerError
from syncline.telemetry import configure

SAME, DIFFERENT, WRONG = 0, 1, 2

Json = dict[str, Any]
_SPECS: dict[str, type[Struct]] = {MANIFEST_SYNC.kind: ManifestSyncSpec, CONFIG_SYNC.kind: ConfigSyncSpec}


class _ObjectDiff(Struct, frozen=True):
    """The difference at one target."""

    action: Action
    states: States = (None, None)
    error: str = ""


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "diff",
        help="show the changes of the next reconcile of a sync, for each object",
        description="Compare live objects with the objects that a sync would write. Values of Secrets are never"
        " shown. Exit code 0: no difference, 1: differences, 2: an error.",
    )
    connect.add_flags(parser)
    parser.add_argument("kind", nargs="?", metavar="[KIND/]NAME", help="the sync: NAME, KIND/NAME or KIND NAME")
    parser.add_argument("name", nargs="?", metavar="NAME", help="the name of the sync, after KIND")
    parser.add_argument("-f", "--filename", metavar="FILE", help="a manifest with one or more syncs; - for stdin")
    parser.add_argument("-n", "--namespace", metavar="N", help="the namespace of the sync (default: the context's)")
    connect.add_operator_flags(parser)
    parser.set_defaults(func=_diff)


def _diff(given: argparse.Namespace) -> int:
    try:
        named, manifests = _asked(given)
        connection = connect.connection(given)
        configure("console", "error")
        return asyncio.run(_diff_all(connection, given, manifests, named))
    except (KubeError, UsageError) as error:
        print(f"syncline: {error}", file=sys.stderr)
        return WRONG


def _asked(given: argparse.Namespace) -> tuple[Reference, list[Json]]:
    """Return the named sync, or the manifests."""
    if (given.filename is None) == (given.kind is None):
        raise UsageError("write either -f FILE, or KIND and NAME")
    named = reference(given.kind, given.name, SYNCS)
    if given.kind is None:
        return named, read_syncs(given.filename)
    if named.name is None:
        raise UsageError(f"the name of the {named.kinds[0].kind} is missing: write KIND and NAME")
    return named, []


async def _diff_all(connection: Connection, given: argparse.Namespace, manifests: list[Json], named: Reference) -> int:
    home = given.namespace or connection.namespace or "default"
    code = SAME
    async with open_previewer(connection, given, namespaces_of(manifests, home)) as previewer:
        asked = [(one["kind"], await previewer.check(one, home)) for one in manifests]
        if not manifests:
            kind = (await find_kind(previewer.client, named, home)).kind
            asked.append((kind, await previewer.read(kind, str(named.name), home)))
        for kind, wire in asked:
            if kind == IGNITION_SYNC.kind:
                title = f"{kind} {wire.metadata.namespace}/{wire.metadata.name}"
                code = max(code, show_diff(title, await previewer.preview_gateways(wire)))
                continue
            preview = await previewer.preview(kind, wire)
            places = _Places(preview, previewer)
            parts = await asyncio.gather(*(_part(places, action) for action in preview.actions))
            title = f"{kind} {wire.metadata.namespace}/{wire.metadata.name}"
            private = _is_private(kind, wire) or (bool(manifests) and await _was_private(previewer, kind, wire))
            if goes_both_ways(wire):
                print(f"# {BOTH_WAYS}")
            code = max(code, _show(title, preview, parts, private=private))
        for note in previewer.unchecked():
            print(printable(f"# {note}"))
    return code


class _Places:
    """The clusters of the targets in a preview."""

    def __init__(self, preview: Preview, previewer: Previewer) -> None:
        self.wanted = {desired.target: (site, desired) for site, desired in preview.desired}
        self._clusters = {site.destination.cluster: (site.cluster, site.client) for site, _ in self.wanted.values()}
        self._clusters.setdefault("", (previewer.hub, previewer.client))

    def of(self, target: Target) -> tuple[Cluster, Client] | None:
        """Return the cluster of a target that is removed; None if the spec no longer names it."""
        return self._clusters.get(target.cluster)


async def _part(places: _Places, action: Action) -> _ObjectDiff:
    """Return the difference at one target."""
    if action.verb not in WRITES:
        return _ObjectDiff(action)
    try:
        if action.target in places.wanted:
            return _ObjectDiff(action, await written(*places.wanted[action.target], action))
        if (place := places.of(action.target)) is not None:
            return _ObjectDiff(action, await removed(*place, action))
    except KubeError as error:
        named = explain_schema_error(error.message) if isinstance(error, ServerError) else ""
        return _ObjectDiff(action, error=named or str(error))
    return _ObjectDiff(action)


def _is_private(kind: str, wire: RawSync) -> bool:
    """Whether the objects of a sync can contain values of Secrets, although they are not Secrets."""
    spec = msgspec.json.decode(wire.spec, type=_SPECS[kind]) if kind in _SPECS else None
    return may_contain_secrets(spec)


async def _was_private(previewer: Previewer, kind: str, wire: RawSync) -> bool:
    """Whether this was true before an edit: the live objects can still contain values of Secrets."""
    try:
        return _is_private(kind, await previewer.read(kind, wire.metadata.name, wire.metadata.namespace))
    except NotFound:
        return False


def _show(title: str, preview: Preview, parts: Sequence[_ObjectDiff], *, private: bool) -> int:
    code = SAME
    lines: list[str] = []
    for part in parts:
        action = part.action
        if action.verb in WRITES:
            code = max(code, WRONG if part.error else DIFFERENT)
            lines.append(printable(f"# {action.verb.value} {action.target}: {action.message}"))
            lines += _lines(part, private=private)
        elif action.state != "Synced":
            lines.append(printable(f"# not changed: {action.target}: {action.message}"))
    lines += [printable(f"# {one.state}: {one.target}: {one.message}") for one in preview.skipped]
    if any(one.state in ("Failed", "Unknown") for one in preview.skipped):
        code = WRONG
    problem = preview.problem
    if problem is not None and problem.reason == "Suspended":
        lines.append(printable(f"# {problem.message}"))
    if lines:
        print("\n".join([f"# {printable(title)}", *lines]))
    if problem is not None and problem.reason != "Suspended":
        print(printable(f"syncline: {title}: {problem.reason}: {problem.message}"), file=sys.stderr)
        return WRONG
    return code


def _lines(part: _ObjectDiff, *, private: bool) -> Iterator[str]:
    target = part.action.target
    if part.error:
        # The message of the API server quotes the refused values.
        said = "the message of the API server can contain the value of a Secret" if private else part.error
        yield printable(f"# the difference cannot be shown: {said}")
        return
    before, after = shown(*part.states, secret=target.kind == "Secret", private=private)
    yield from difflib.unified_diff(
        before.splitlines(), after.splitlines(), f"live {target}", f"wanted {target}", lineterm=""
    )
