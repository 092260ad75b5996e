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
    """A SyncTarget is not as the reconcile has read it: the next reconcile reads it again."""


class TargetAuthorCheck(Protocol):
    """Checks the authors of SyncTargets."""

    def refusal(self, target: TargetSync) -> str:
        """Return why a SyncTarget may not be used, or None."""
        ...

    async def confirm(self, target: SyncTarget) -> None:
        """Check the author before the first use. Raises `KubeError` if that fails."""
        ...

    def forget(self, uid: str) -> None:
        """Forget a deleted SyncTarget."""
        ...


class SyncTargetInformer:
    """All SyncTargets, in one watch for the syncs that use them and for their reconciler."""

    def __init__(self, hub: Cluster, on_change: Callable[[], None], namespace: str | None = None) -> None:
        """`namespace`: the only one whose SyncTargets are watched."""
        self.hub = hub
        self._on_change = on_change
        self._listeners: list[Listener] = []
        self.authors: TargetAuthorCheck | None = None
        """None: authors are not checked."""
        self.reflector: Reflector[RawSync, TargetSync] = Reflector(
            hub.client, RESOURCE, decode=RawSync, project=_read, namespace=namespace, on_change=self._changed
        )

    def listen(self, listener: Listener) -> None:
        """Report every change to a listener, also of statuses and of invalid specs."""
        self._listeners.append(listener)

    def all(self) -> Iterator[SyncTarget]:
        """Yield the SyncTargets with a valid spec that may be used. The caller must not await during the iteration."""
        for sync in self.reflector.values():
            if (target := self._target(sync)) is not None:
                yield target

    async def readable_by(
        self, client: Client, connection: ClusterConnection, namespace: str
    ) -> tuple[SyncTarget, ...]:
        """Read the SyncTargets that a connection may mean, with the rights of the sync that names them."""
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
        """Return the SyncTargets that a sync may use: those that its service account can read.

        The authors of the SyncTargets that the connection means are checked. Raises `KubeError`.
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
        """Read a SyncTarget live, because its watch may be behind. Return None if it cannot be used.

        From then on, the cache has this version. Raises `KubeError`.
        """
        try:
            wire = await self.hub.client.get(RESOURCE, key.name, key.namespace, type=RawSync)
        except NotFound:
            return None
        if self.reflector.get(key) is not None:
            self.reflector.observe(wire, "")
        return self._target(_read(wire))

    def refusal(self, sync: TargetSync) -> str:
        """Return why a SyncTarget may not be used, or None."""
        return self.authors.refusal(sync) if self.authors is not None else ""

    async def confirm(self, targets: Iterable[SyncTarget]) -> None:
        """Check the authors of SyncTargets before their credentials are used. Raises `KubeError`."""
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
        # Statuses are ours, and contain nothing that a sync does not know.
        if old is None or new is None or (old.spec, old.metadata.labels) != (new.spec, new.metadata.labels):
            self._on_change()
        if new is None and old is not None and self.authors is not None:
            self.authors.forget(old.metadata.uid)
        for listener in self._listeners:
            listener(key, old, new)


def secret_reader(hub: Cluster, client: Client, by: str = "") -> ReadSecret:
    """Return the reader of credentials as `client`, for the sync `by`. It watches what it has read.

    An earlier list of Secrets has skipped a Secret that no sync named then.
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
