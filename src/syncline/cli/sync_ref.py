"""The sync of a command: its name, and how to read and change it."""

import argparse
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from syncline.api.kinds import Kind
from syncline.cli import connect
from syncline.cli.arguments import SYNCS, Reference, UsageError, reference, resource_of
from syncline.kube.client import Client, PatchKind
from syncline.kube.errors import NotFound
from syncline.telemetry import configure

T = TypeVar("T")


class SyncRef:
    """One sync; `str()` names it."""

    def __init__(self, client: Client, kind: Kind, name: str, namespace: str) -> None:
        self._client = client
        self._kind = kind
        self._name = name
        self._namespace = namespace

    def __str__(self) -> str:
        return f"{self._kind.kind} {self._namespace}/{self._name}"

    async def read(self, type_: type[T]) -> T:
        """Read the sync. Raises `UsageError` if it does not exist."""
        try:
            return await self._client.get(resource_of(self._kind), self._name, self._namespace, type=type_)
        except NotFound as error:
            raise self._absent(error) from None

    async def merge_patch(self, patch: Mapping[str, Any]) -> None:
        """Change the sync with a JSON merge patch."""
        await self._patch(patch, PatchKind.MERGE)

    async def json_patch(self, operations: Sequence[Mapping[str, Any]]) -> None:
        """Change the sync with a JSON patch. If a test fails, the API server refuses the whole patch."""
        await self._patch(operations, PatchKind.JSON)

    async def _patch(self, patch: Any, kind: PatchKind) -> None:
        try:
            await self._client.patch(resource_of(self._kind), self._name, self._namespace, patch, kind)
        except NotFound as error:
            raise self._absent(error) from None

    def _absent(self, error: NotFound) -> UsageError:
        if error.about == self._name:
            return UsageError(f"there is no {self._kind.kind} {self._name} in namespace {self._namespace}")
        return UsageError(not_served(self._kind))


def add_arguments(parser: argparse.ArgumentParser, *kinds: Kind) -> None:
    """Add the arguments that name a sync, of these kinds or of all."""
    connect.add_flags(parser)
    names = ", ".join(f"{one.kind} ({one.short_names[0]})" for one in kinds or SYNCS)
    parser.add_argument("kind", metavar="[KIND/]NAME", help=f"the sync: NAME, KIND/NAME or KIND NAME; KIND is {names}")
    parser.add_argument("name", nargs="?", metavar="NAME", help="the name of the sync, after KIND")
    parser.add_argument(
        "-n", "--namespace", metavar="N", help="the namespace of the sync (default: the context's namespace)"
    )


@asynccontextmanager
async def sync_ref(given: argparse.Namespace, *kinds: Kind) -> AsyncIterator[SyncRef]:
    """Connect, and keep the connection until the end of the block."""
    named = reference(given.kind, given.name, kinds or SYNCS)
    if named.name is None:
        raise UsageError(f"the name of the {named.kinds[0].kind} is missing: write KIND and NAME")
    connection = connect.connection(given)
    configure("console", "error")
    namespace = given.namespace or connection.namespace or "default"
    async with Client(connection) as client:
        yield SyncRef(client, await find_kind(client, named, namespace), named.name, namespace)


async def find_kind(client: Client, named: Reference, namespace: str) -> Kind:
    """Return the kind of a named object. Raises `UsageError` if no kind or several kinds have the name."""
    if named.kind is not None:
        return named.kind
    found: list[Kind] = []
    missing: list[Kind] = []
    for kind in named.kinds:
        try:
            await client.get(resource_of(kind), str(named.name), namespace, metadata_only=True)
        except NotFound as error:
            if error.about != named.name:
                missing.append(kind)
        else:
            found.append(kind)
    if len(found) == 1:
        return found[0]
    if found:
        choices = " or ".join(f"{kind.short_names[0]}/{named.name}" for kind in found)
        raise UsageError(f"several kinds have a {named.name} in namespace {namespace}: write {choices}")
    if len(missing) == len(named.kinds):
        raise UsageError(not_served(*missing))
    kinds = " or ".join(kind.kind for kind in named.kinds)
    raise UsageError(f"there is no {kinds} {named.name} in namespace {namespace}")


def not_served(*kinds: Kind) -> str:
    """Return the message that a cluster does not serve kinds of Syncline."""
    names = ", ".join(kind.kind for kind in kinds)
    return f"the cluster does not serve {names}: install Syncline (syncline install)"
