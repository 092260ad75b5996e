"""An operator that knows an earlier state of a sync, such as a late leader, overwrites nothing of the present one."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from syncline.api.common import FINALIZER, GROUP, VERSION, ObjectMeta
from syncline.api.kinds import MANIFEST_SYNC
from syncline.api.manifestsync import ManifestSyncStatus
from syncline.engine.sync_object import SyncGone, SyncObjectWriter
from syncline.kube import Client, load_kubeconfig
from syncline.kube.client import PatchKind
from syncline.kube.errors import Conflict, Invalid
from syncline.kube.resources import Resource
from syncline.sandbox import Sandbox

SYNCS = Resource(GROUP, VERSION, MANIFEST_SYNC.plural, MANIFEST_SYNC.kind)
THEIRS = "example.com/theirs"

pytestmark = pytest.mark.usefixtures("arena_kubeconfig")


class StoredSync:
    """A sync that no operator looks at."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.name = f"late-{uuid4().hex[:6]}"
        self.writer = SyncObjectWriter(client, SYNCS)

    async def create(self, *finalizers: str) -> ObjectMeta:
        body = {
            "apiVersion": SYNCS.api_version,
            "kind": SYNCS.kind,
            "metadata": {"name": self.name, "finalizers": list(finalizers)},
            "spec": {
                "sourceRef": {"apiVersion": "v1", "kind": "Secret", "name": "a"},
                "targets": {"inCluster": {"namespaces": ["b"]}},
            },
        }
        await self.client.create(SYNCS, body, "default")
        return await self.meta()

    async def meta(self) -> ObjectMeta:
        return msgspec.convert((await self.client.get(SYNCS, self.name, "default"))["metadata"], ObjectMeta)

    async def set_finalizers(self, *names: str) -> None:
        change = {"metadata": {"finalizers": list(names)}}
        await self.client.patch(SYNCS, self.name, "default", change, PatchKind.MERGE)

    async def delete(self) -> None:
        await self.set_finalizers()
        await self.client.delete(SYNCS, self.name, "default")


Write = Callable[[StoredSync, ObjectMeta], Awaitable[Any]]


async def add_finalizer(sync: StoredSync, known: ObjectMeta) -> None:
    await sync.writer.add_finalizer(msgspec.structs.replace(known, finalizers=[]))


async def remove_finalizer(sync: StoredSync, known: ObjectMeta) -> None:
    await sync.writer.remove_finalizer(msgspec.structs.replace(known, finalizers=[FINALIZER]))


async def write_status(sync: StoredSync, known: ObjectMeta) -> None:
    await sync.writer.write_status(known, ManifestSyncStatus(), ManifestSyncStatus(scope="late"))


@pytest.fixture
async def sync(arena: Sandbox) -> AsyncIterator[StoredSync]:
    async with Client(load_kubeconfig(Path(arena.kubeconfig))) as client:
        sync = StoredSync(client)
        yield sync
        await sync.delete()


@pytest.mark.parametrize("write", [add_finalizer, remove_finalizer])
async def test_a_finalizer_that_somebody_has_added_meanwhile_stays(sync: StoredSync, write: Write) -> None:
    known = await sync.create(FINALIZER)
    await sync.set_finalizers(FINALIZER, THEIRS)
    with pytest.raises(Conflict):
        await write(sync, known)
    assert (await sync.meta()).finalizers == [FINALIZER, THEIRS]


@pytest.mark.parametrize("write", [add_finalizer, remove_finalizer, write_status])
async def test_a_sync_that_was_created_again_under_its_name_is_not_touched(sync: StoredSync, write: Write) -> None:
    known = await sync.create(FINALIZER)
    await sync.delete()
    again = await sync.create(FINALIZER)
    # Even if the version were that of the new one, the UID is not.
    with pytest.raises((Conflict, Invalid, SyncGone)):
        await write(sync, msgspec.structs.replace(known, resource_version=again.resource_version))
    assert await sync.meta() == again
