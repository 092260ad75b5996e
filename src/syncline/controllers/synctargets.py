"""The SyncTargets that exist, kept at hand for the syncs that name them."""

from collections.abc import Callable, Iterator

import msgspec

from syncline.api import synctarget as api
from syncline.api.common import GROUP, VERSION
from syncline.api.connection import ClusterConnection
from syncline.api.synctarget import SyncTarget, SyncTargetSpec
from syncline.engine.cluster import Cluster
from syncline.engine.record import SyncWire
from syncline.kube.cache import Key
from syncline.kube.client import Client
from syncline.kube.errors import NotFound
from syncline.kube.reflector import Reflector
from syncline.kube.resources import SECRETS, Resource

RESOURCE = Resource(GROUP, VERSION, api.PLURAL, api.KIND)


class SyncTargets:
    """All SyncTargets with a spec that can be read."""

    def __init__(self, hub: Cluster, on_change: Callable[[], None]) -> None:
        self._hub = hub
        self._on_change = on_change
        self.reflector: Reflector[SyncWire, SyncTarget] = Reflector(
            hub.client, RESOURCE, decode=SyncWire, project=_read, on_change=self._changed
        )

    def all(self) -> Iterator[SyncTarget]:
        """Yield all of them; do not await meanwhile."""
        yield from self.reflector.values()

    async def seen_by(self, client: Client, connection: ClusterConnection, namespace: str) -> tuple[SyncTarget, ...]:
        """Read the SyncTargets that a connection may mean, with the rights of whoever names them."""
        home = connection.sync_target_namespace or namespace
        if connection.sync_target_ref is not None:
            try:
                wires = [await client.get(RESOURCE, connection.sync_target_ref.name, home, type=SyncWire)]
            except NotFound:
                wires = []
        else:
            wires, _ = await client.list(RESOURCE, home, type=SyncWire)
        return tuple(target for target in map(_read, wires) if target is not None)

    def _changed(self, _key: Key, old: SyncTarget | None, new: SyncTarget | None) -> None:
        self._hub.attention.pay(SECRETS.kind, _secrets_of(new))
        self._hub.attention.end(SECRETS.kind, _secrets_of(old))
        # Statuses are ours, and say nothing that a sync does not know.
        if old is None or new is None or (old.spec, old.metadata.labels) != (new.spec, new.metadata.labels):
            self._on_change()


def _secrets_of(target: SyncTarget | None) -> tuple[str, ...]:
    if target is None:
        return ()
    connection = target.spec.connection
    refs = (connection.kubeconfig_secret_ref, connection.service_account_token_ref)
    return tuple(ref.name for ref in refs if ref is not None)


def _read(wire: SyncWire) -> SyncTarget | None:
    try:
        spec = msgspec.json.decode(wire.spec, type=SyncTargetSpec)
    except msgspec.MsgspecError:
        return None
    return SyncTarget(metadata=wire.metadata, spec=spec)
