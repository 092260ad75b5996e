"""What a sync's own object says: its finalizer and its status. Written only when it changes."""

from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct, field

from syncline.api.common import FINALIZER, ObjectMeta
from syncline.core.ownership import Owner
from syncline.kube.client import Client, PatchKind
from syncline.kube.errors import NotFound
from syncline.kube.resources import Resource

Spec_co = TypeVar("Spec_co", bound=Struct, covariant=True)
Status_co = TypeVar("Status_co", bound=Struct, covariant=True)


class SyncWire(Struct, rename="camel"):
    """An object of one of our kinds; spec and status are decoded one by one, so that a bad one harms no other."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: msgspec.Raw = field(default_factory=lambda: msgspec.Raw(b"{}"))
    status: msgspec.Raw = field(default_factory=lambda: msgspec.Raw(b"{}"))


class Sync(Struct, Generic[Spec_co, Status_co], frozen=True, kw_only=True):
    """A sync as read: `spec` is None where it cannot be read, and `error` says why."""

    kind: str
    metadata: ObjectMeta
    spec: Spec_co | None
    status: Status_co
    error: str = ""

    @property
    def owner(self) -> Owner:
        """Return the sync as the owner of copies."""
        return Owner(self.kind, self.metadata.namespace, self.metadata.name, self.metadata.uid)

    @property
    def deleting(self) -> bool:
        """Whether its user has deleted it."""
        return self.metadata.deletion_timestamp is not None


def read_sync(
    kind: str, spec_type: type[Spec_co], status_type: type[Status_co], wire: SyncWire
) -> Sync[Spec_co, Status_co]:
    """Decode a sync; a spec that breaks the schema is reported, a status that does is forgotten."""
    error, spec = "", None
    try:
        spec = msgspec.json.decode(wire.spec, type=spec_type)
    except msgspec.MsgspecError as problem:
        error = str(problem)
    try:
        status = msgspec.json.decode(wire.status, type=status_type)
    except msgspec.MsgspecError:
        status = status_type()
    return Sync(kind=kind, metadata=wire.metadata, spec=spec, status=status, error=error)


class Records:
    """Writes finalizers and statuses of one kind."""

    def __init__(self, client: Client, resource: Resource) -> None:
        self._client = client
        self._resource = resource

    async def hold(self, metadata: ObjectMeta) -> SyncWire | None:
        """Add our finalizer, before the first write; None where it is there."""
        if FINALIZER in metadata.finalizers:
            return None
        # The version makes the server refuse the patch if anybody touched the list meanwhile.
        body = {
            "metadata": {
                "uid": metadata.uid,
                "resourceVersion": metadata.resource_version,
                "finalizers": [*metadata.finalizers, FINALIZER],
            }
        }
        return await self._client.patch(
            self._resource, metadata.name, metadata.namespace, body, PatchKind.MERGE, type=SyncWire
        )

    async def let_go(self, metadata: ObjectMeta) -> None:
        """Remove our finalizer, and nobody else's."""
        if FINALIZER not in metadata.finalizers:
            return
        body = {
            "metadata": {
                "uid": metadata.uid,
                "resourceVersion": metadata.resource_version,
                "finalizers": [name for name in metadata.finalizers if name != FINALIZER],
            }
        }
        try:
            await self._client.patch(self._resource, metadata.name, metadata.namespace, body, PatchKind.MERGE)
        except NotFound:
            return

    async def write_status(self, metadata: ObjectMeta, old: Struct, new: Struct) -> SyncWire | None:
        """Write the status if it differs; None where it does not, or where the sync is gone."""
        value: dict[str, Any] = msgspec.to_builtins(new)
        if value == msgspec.to_builtins(old):
            return None
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": metadata.uid},
            {"op": "add", "path": "/status", "value": value},
        ]
        try:
            return await self._client.patch(
                self._resource,
                metadata.name,
                metadata.namespace,
                patch,
                PatchKind.JSON,
                subresource="status",
                type=SyncWire,
            )
        except NotFound:
            return None
