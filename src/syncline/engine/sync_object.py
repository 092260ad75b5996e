"""Reads and writes a sync's own object: its spec, its finalizer and its status. Writes only changes."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, Generic, TypeVar

import msgspec
import structlog
from msgspec import Struct, field, structs

from syncline.api.common import FINALIZER, GROUP, ObjectMeta
from syncline.api.fitting import repair
from syncline.api.ignition_annotations import PREFIX
from syncline.api.status import SyncStatus
from syncline.api.synctarget import SyncTargetStatus
from syncline.core.ownership import Owner
from syncline.core.status_proof import sign_status
from syncline.engine.markkeys import MarkRing
from syncline.kube.client import Client, PatchKind
from syncline.kube.errors import Conflict, Invalid, KubeError, NotFound
from syncline.kube.resources import Resource

log = structlog.get_logger(__name__)

MOST_ANNOTATIONS = 20
ANNOTATION_LENGTH = 1024
# How often a status is sent again because the sync was edited at the same time.
TRIES = 5
_PREFIXES = (f"{GROUP}/", f"{PREFIX}/")

Spec_co = TypeVar("Spec_co", bound=Struct, covariant=True)
Status_co = TypeVar("Status_co", bound=Struct, covariant=True)
Status = TypeVar("Status", bound=Struct)


class RawSync(Struct, rename="camel"):
    """An object of one of our kinds. Spec and status are decoded later, so that one invalid object affects no other."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: msgspec.Raw = field(default_factory=lambda: msgspec.Raw(b"{}"))
    status: msgspec.Raw = field(default_factory=lambda: msgspec.Raw(b"{}"))


class SyncGone(KubeError):  # noqa: N818 - a state, not a mistake
    """The sync was deleted, or re-created under its name, during the reconcile: nothing may be written for it."""


class StatusConflict(KubeError):  # noqa: N818 - as above
    """Another leader or a user has written the status since the read. `live` is the present sync."""

    def __init__(self, live: RawSync) -> None:
        super().__init__("another writer has changed the status")
        self.live = live


class Sync(Struct, Generic[Spec_co, Status_co], frozen=True, kw_only=True):
    """A decoded sync. If the spec is not valid, `spec` is None, and `error` is the reason."""

    kind: str
    metadata: ObjectMeta
    spec: Spec_co | None
    status: Status_co
    """The status that the reconcile starts from."""
    stored: Status_co | None = None
    """The stored status, if it differs because others have written it."""
    error: str = ""

    @property
    def owner(self) -> Owner:
        """Return the sync as an owner of objects."""
        return Owner(self.kind, self.metadata.namespace, self.metadata.name, self.metadata.uid)

    @property
    def stored_status(self) -> Status_co:
        """Return the stored status."""
        return self.status if self.stored is None else self.stored

    @property
    def deleting(self) -> bool:
        """Whether its user has deleted it."""
        return self.metadata.deletion_timestamp is not None


def read_sync(
    kind: str, spec_type: type[Spec_co], status_type: type[Status_co], wire: RawSync, *, keep_labels: bool = False
) -> Sync[Spec_co, Status_co]:
    """Decode a sync. An invalid spec is reported, and the valid parts of an invalid status are kept.

    Only Syncline's annotations are kept, and labels only if requested: users who create syncs decide their size.
    """
    error, spec = "", None
    try:
        spec = msgspec.json.decode(wire.spec, type=spec_type)
    except msgspec.MsgspecError as problem:
        error = str(problem)
    except RecursionError:
        error = "the spec is nested too deeply to be read: take levels out"
    labels = wire.metadata.labels if keep_labels else {}
    metadata = structs.replace(wire.metadata, labels=labels, annotations=_own_annotations(wire.metadata))
    return Sync(kind=kind, metadata=metadata, spec=spec, status=_status(wire, status_type), error=error)


def _own_annotations(metadata: ObjectMeta) -> dict[str, str]:
    own = ((name, value) for name, value in metadata.annotations.items() if name.startswith(_PREFIXES))
    return {name: value[:ANNOTATION_LENGTH] for name, value in islice(own, MOST_ANNOTATIONS)}


class SyncObjectWriter:
    """Writes finalizers and statuses of one kind.

    Every write tests the UID and the version of the sync: an operator with an old cache overwrites nothing.
    """

    def __init__(self, client: Client, resource: Resource, marks: MarkRing | None = None) -> None:
        self._client = client
        self._resource = resource
        self._marks = marks or MarkRing()

    def signed(self, metadata: ObjectMeta, status: Status) -> Status:
        """Return the form of a status that is stored: the status of a sync or SyncTarget is signed."""
        if not isinstance(status, SyncStatus | SyncTargetStatus):
            return status
        return sign_status(status, self._resource.kind, metadata.uid, self._marks.keys)

    async def add_finalizer(self, metadata: ObjectMeta) -> RawSync | None:
        """Add our finalizer, before the first write; None if it is present. Raises `SyncGone`."""
        if FINALIZER in metadata.finalizers:
            return None
        with _gone_if_not_found(metadata):
            return await self._set_finalizers(metadata, [*metadata.finalizers, FINALIZER])

    async def remove_finalizer(self, metadata: ObjectMeta) -> None:
        """Remove our finalizer. Finalizers of others stay."""
        if FINALIZER not in metadata.finalizers:
            return
        try:
            await self._set_finalizers(metadata, [name for name in metadata.finalizers if name != FINALIZER])
        except NotFound:
            return

    async def verify(self, metadata: ObjectMeta) -> RawSync:
        """Read the sync live. Raises `SyncGone` if it was deleted, or created again."""
        with _gone_if_not_found(metadata):
            wire = await self._client.get(self._resource, metadata.name, metadata.namespace or None, type=RawSync)
        if wire.metadata.uid != metadata.uid:
            raise SyncGone(f"{metadata.namespace}/{metadata.name} was deleted and created again")
        return wire

    async def write_status(self, metadata: ObjectMeta, old: Struct, new: Struct) -> RawSync | None:
        """Write the status if it differs from the old one; None if it does not.

        An edit of the sync at the same time does not matter, but another status does. Raises `SyncGone` and
        `StatusConflict`.
        """
        value: dict[str, Any] = msgspec.to_builtins(self.signed(metadata, new))
        if value == msgspec.to_builtins(old):
            return None
        version, tries = metadata.resource_version, TRIES
        while True:
            try:
                with _gone_if_not_found(metadata):
                    wire = await self._send_status(metadata, version, value)
                if "proof" in value and b'"proof"' not in bytes(wire.status):
                    log.warning("the CRDs are of an earlier version, so statuses are not signed; install them again")
                return wire
            except (Conflict, Invalid) as error:
                live = await self.verify(metadata)
                tries -= 1
                if not tries or (isinstance(error, Invalid) and live.metadata.resource_version == version):
                    raise
                if _status(live, type(old)) != old:
                    raise StatusConflict(live) from error
                version = live.metadata.resource_version

    async def _send_status(self, metadata: ObjectMeta, version: str, value: dict[str, Any]) -> RawSync:
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": metadata.uid},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
            {"op": "add", "path": "/status", "value": value},
        ]
        return await self._client.patch(
            self._resource,
            metadata.name,
            metadata.namespace or None,
            patch,
            PatchKind.JSON,
            subresource="status",
            type=RawSync,
        )

    async def _set_finalizers(self, metadata: ObjectMeta, names: list[str]) -> RawSync:
        # The version makes the server refuse the patch if the list has changed since the read.
        meta = {"uid": metadata.uid, "resourceVersion": metadata.resource_version, "finalizers": names}
        return await self._client.patch(
            self._resource, metadata.name, metadata.namespace, {"metadata": meta}, PatchKind.MERGE, type=RawSync
        )


@contextmanager
def _gone_if_not_found(metadata: ObjectMeta) -> Iterator[None]:
    """Raise `SyncGone` if the server does not find exactly this object. An unknown kind is no evidence for that."""
    try:
        yield
    except NotFound as error:
        if error.about != metadata.name:
            raise
        raise SyncGone(str(error)) from error


def _status(wire: RawSync, status_type: type[Status_co]) -> Status_co:
    try:
        return msgspec.json.decode(wire.status, type=status_type)
    except msgspec.MsgspecError:
        return repair(status_type, msgspec.json.decode(wire.status))
