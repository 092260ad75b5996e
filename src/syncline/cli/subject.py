"""The one sync that a command is about: how it is named, read and changed."""

import argparse
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from syncline.api.kinds import Kind
from syncline.cli import connect
from syncline.cli.words import SYNCS, UsageError, kind_and_name, kind_named, resource_of
from syncline.kube.client import Client, PatchKind
from syncline.kube.errors import NotFound
from syncline.telemetry import configure

T = TypeVar("T")


class Subject:
    """One sync; `str()` names it."""

    def __init__(self, client: Client, kind: Kind, name: str, namespace: str) -> None:
        self._client = client
        self._kind = kind
        self._name = name
        self._namespace = namespace

    def __str__(self) -> str:
        return f"{self._kind.kind} {self._namespace}/{self._name}"

    async def read(self, type_: type[T]) -> T:
        """Read it; `UsageError` where it is not there."""
        try:
            return await self._client.get(resource_of(self._kind), self._name, self._namespace, type=type_)
        except NotFound as error:
            raise self._absent(error) from None

    async def merge(self, patch: Mapping[str, Any]) -> None:
        """Change it by a JSON merge patch."""
        await self._patch(patch, PatchKind.MERGE)

    async def edit(self, operations: Sequence[Mapping[str, Any]]) -> None:
        """Change it by a JSON patch; the server refuses all of it where a test fails."""
        await self._patch(operations, PatchKind.JSON)

    async def _patch(self, patch: Any, kind: PatchKind) -> None:
        try:
            await self._client.patch(resource_of(self._kind), self._name, self._namespace, patch, kind)
        except NotFound as error:
            raise self._absent(error) from None

    def _absent(self, error: NotFound) -> UsageError:
        if error.about == self._name:
            return UsageError(f"there is no {self._kind.kind} {self._name} in namespace {self._namespace}")
        return UsageError(f"the cluster does not serve {self._kind.kind}: install Syncline there (syncline install)")


def add_arguments(parser: argparse.ArgumentParser, kind: Kind | None = None) -> None:
    """Add what names a sync, of one kind or of any."""
    connect.add_flags(parser)
    if kind is None:
        names = "; ".join((", ".join(one.kind for one in SYNCS), ", ".join(one.short_names[0] for one in SYNCS)))
        parser.add_argument("kind", metavar="KIND", help=names)
        # KIND/NAME is one word.
        parser.add_argument("name", nargs="?", metavar="NAME", help="the sync")
    else:
        parser.add_argument("name", metavar="NAME", help=f"the {kind.kind}")
    parser.add_argument(
        "-n", "--namespace", metavar="N", help="the namespace of the sync (default: the context's namespace)"
    )


@asynccontextmanager
async def subject(given: argparse.Namespace, kind: Kind | None = None) -> AsyncIterator[Subject]:
    """Connect, and hold the connection for as long as the block lasts."""
    word, name = kind_and_name(given.kind, given.name) if kind is None else (kind.kind, given.name)
    found = kind_named(str(word), SYNCS)
    if name is None:
        raise UsageError(f"which {found.kind}? Write its name too")
    connection = connect.connection(given)
    configure("console", "error")
    async with Client(connection) as client:
        yield Subject(client, found, name, given.namespace or connection.namespace or "default")
