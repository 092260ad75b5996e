"""SyncTarget informer: the SyncTargets that exist, for the syncs that name them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from syncline.api import synctarget as api
from syncline.api.common import GROUP, VERSION
from syncline.api.connection import ClusterConnection
from syncline.api.synctarget import SyncTarget, SyncTargetSpec, SyncTargetStatus
from syncline.engine.cluster import Cluster
from syncline.engine.sync_object import RawSync, Sync, read_sync
from syncline.fleet import ReadSecret, SecretWire
from syncline.kube.cache import Key
from syncline.kube.client import Client
from syncline.kube.errors import KubeError, NotFound
from syncline.kube.reflector import Reflector
from syncline.kube.resources import SECRETS, Resource

RESOURCE = Resource(GROUP, VERSION, api.PLURAL, api.KIND)

TargetSync = Sync[SyncTargetSpec, SyncTargetStatus]
Listener = Callable[[Key, TargetSync | None, TargetSync | None], None]


class TargetChanging(KubeError):  # noqa: N818 - a state, not a mistake
    """A SyncTarget is not what a reconcile has gone by: the next one knows."""


class TargetAuthorCheck(Protocol):
    """Knows whether the author of a SyncTarget was checked."""

    def refusal(self, target: TargetSync) -> str:
        """Say why one is not to be used; nothing where it may be."""
        ...

    async def confirm(self, target: SyncTarget) -> None:
        """Make sure of it before the first use. Raises `KubeError` where that cannot be known."""
        ...

    def forget(self, uid: str) -> None:
        """Forget one that is gone."""
        ...


class SyncTargetInformer:
    """All SyncTargets, in one watch for those who use them and for those who look after them."""

    def __init__(self, hub: Cluster, on_change: Callable[[], None], namespace: str | None = None) -> None:
        """`namespace`: the only one whose SyncTargets are watched."""
        self.hub = hub
        self._on_change = on_change
        self._listeners: list[Listener] = []
        self.authors: TargetAuthorCheck | None = None
        """None: nobody asks whether authors are checked."""
        self.reflector: Reflector[RawSync, TargetSync] = Reflector(
            hub.client, RESOURCE, decode=RawSync, project=_read, namespace=namespace, on_change=self._changed
        )

    def listen(self, listener: Listener) -> None:
        """Tell of every change, also of statuses and of specs that cannot be read."""
        self._listeners.append(listener)

    def all(self) -> Iterator[SyncTarget]:
        """Yield those with a spec that can be read and may be used; do not await meanwhile."""
        for sync in self.reflector.values():
            if (target := self._target(sync)) is not None:
                yield target

    async def readable_by(
        self, client: Client, connection: ClusterConnection, namespace: str
    ) -> tuple[SyncTarget, ...]:
        """Read the SyncTargets that a connection may mean, with the rights of whoever names them."""
        home = connection.sync_target_namespace or namespace
        if connection.sync_target_ref is not None:
            try:
                wires = [await client.get(RESOURCE, connection.sync_target_ref.name, home, type=RawSync)]
            except NotFound:
                wires = []
        else:
            wires, _ = await client.list(RESOURCE, home, type=RawSync)
        return tuple(target for wire in wires if (target := self._target(_read(wire))) is not None)

    async def visible_to(
        self, user: str | None, connection: ClusterConnection, namespace: str
    ) -> tuple[SyncTarget, ...]:
        """Return the SyncTargets that a sync may see, by the account that it acts as: it may use only what it can read.

        The authors of those that the connection means are checked. Raises `KubeError`.
        """
        if connection.type != "SyncTarget":
            return ()
        if user is None:
            found = tuple(self.all())
        else:
            found = await self.readable_by(self.hub.acting_as(user), connection, namespace)
        home, ref = connection.sync_target_namespace or namespace, connection.sync_target_ref
        there = (target for target in found if target.metadata.namespace == home)
        await self.confirm(target for target in there if ref is None or target.metadata.name == ref.name)
        return found

    async def read_live(self, key: Key) -> SyncTarget | None:
        """Read a SyncTarget live, before something new goes to it: its watch may be behind. None: it cannot be used.

        What was read is what the others see from then on. Raises `KubeError`.
        """
        try:
            wire = await self.hub.client.get(RESOURCE, key.name, key.namespace, type=RawSync)
        except NotFound:
            return None
        if self.reflector.get(key) is not None:
            self.reflector.observe(wire, "")
        return self._target(_read(wire))

    def refusal(self, sync: TargetSync) -> str:
        """Say why one is not to be used; nothing where it may be."""
        return self.authors.refusal(sync) if self.authors is not None else ""

    async def confirm(self, targets: Iterable[SyncTarget]) -> None:
        """Make sure, before their credentials are used, that their authors were checked. Raises `KubeError`."""
        if self.authors is not None:
            for target in targets:
                await self.authors.confirm(target)

    def _target(self, sync: TargetSync) -> SyncTarget | None:
        if sync.spec is None or self.refusal(sync):
            return None
        return SyncTarget(metadata=sync.metadata, spec=sync.spec, status=sync.status)

    def _changed(self, key: Key, old: TargetSync | None, new: TargetSync | None, _by: str) -> None:
        self.hub.watch_filter.retain(SECRETS.kind, _secrets_of(new))
        self.hub.watch_filter.release(SECRETS.kind, _secrets_of(old))
        # Statuses are ours, and say nothing that a sync does not know.
        if old is None or new is None or (old.spec, old.metadata.labels) != (new.spec, new.metadata.labels):
            self._on_change()
        if new is None and old is not None and self.authors is not None:
            self.authors.forget(old.metadata.uid)
        for listener in self._listeners:
            listener(key, old, new)


def secret_reader(hub: Cluster, client: Client, by: str = "") -> ReadSecret:
    """Return what reads credentials as `client`, for the sync `by`, so that their change and their end are noticed.

    A list of Secrets that ran before anybody named this one has passed over it.
    """

    async def read(namespace: str, name: str) -> SecretWire:
        informer = await hub.open_kind(SECRETS.group_kind)
        secret = await client.get(SECRETS, name, namespace, type=SecretWire)
        informer.observe_unmanaged(secret.metadata, by)
        return secret

    return read


def _secrets_of(target: TargetSync | None) -> tuple[str, ...]:
    if target is None or target.spec is None:
        return ()
    connection = target.spec.connection
    refs = (connection.kubeconfig_secret_ref, connection.service_account_token_ref)
    return tuple(ref.name for ref in refs if ref is not None)


def _read(wire: RawSync) -> TargetSync:
    return read_sync(api.KIND, SyncTargetSpec, SyncTargetStatus, wire, keep_labels=True)
