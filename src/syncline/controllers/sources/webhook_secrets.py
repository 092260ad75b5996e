"""Webhook secrets: read in advance.

The answer to a delivery must be fast, and its duration must reveal nothing. Every replica reads the secrets, because
each can receive a delivery.
"""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import structlog
from msgspec import Struct

from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import AnySync
from syncline.controllers.sources.references import CACHE_TTL, ReferenceReader, Requester
from syncline.core.objects import Observed, Target
from syncline.engine.cluster import Cluster
from syncline.kube.cache import Key
from syncline.kube.errors import KubeError
from syncline.kube.queue import Queue, run_workers

WORKERS = 4
MOST_BYTES = 4096
"""The length of the longest secret: those of all syncs stay in memory, and verify each delivery."""

SomeSync = TypeVar("SomeSync", bound=AnySync)

log = structlog.get_logger(__name__)


class NamedSecret(Struct, frozen=True):
    """The key of the Secret that a sync names for its webhooks."""

    name: str
    key: str


class WebhookSecrets(Generic[SomeSync]):
    """The webhook secrets of all syncs of a kind, each read with the identity of its sync."""

    def __init__(
        self,
        hub: Cluster,
        references: ReferenceReader,
        get: Callable[[Key], SomeSync | None],
        requester: Callable[[SomeSync], Requester],
        named: Callable[[SomeSync], NamedSecret | None],
    ) -> None:
        """`named` returns the Secret that a sync names; None for a sync that reads none, such as a suspended one."""
        self.queue: Queue[Key] = Queue("webhook-secrets", group=lambda key: key.namespace)
        self._references = references
        self._get = get
        self._requester = requester
        self._named_by = named
        self._secrets: dict[Key, tuple[bytes, ...]] = {}
        self._named: dict[Key, Target] = {}
        self._readers: dict[Target, set[Key]] = {}
        self._unread: set[Key] | None = None
        hub.listen(_ignore, self._managed_changed, self._object_changed, _ignore)

    @property
    def complete(self) -> bool:
        """Whether the secrets of all syncs that existed at the start were read, or cannot be read."""
        return self._unread is not None and not self._unread

    def of(self, key: Key) -> tuple[bytes, ...]:
        """Return the secret of a sync; empty if it has none."""
        return self._secrets.get(key, ())

    def sync_changed(self, key: Key, sync: SomeSync | None) -> None:
        """Handle that a sync was created, changed or deleted."""
        named = self._named_by(sync) if sync is not None else None
        target = Target(key.namespace, named.name, "Secret") if named is not None else None
        before = self._named.get(key)
        if before is not None and before != target:
            del self._named[key]
            self._secrets.pop(key, None)
            readers = self._readers[before]
            readers.discard(key)
            if not readers:
                del self._readers[before]
        if target is not None:
            self._named[key] = target
            self._readers.setdefault(target, set()).add(key)
            self.queue.add(key)

    async def run(self, present: Iterable[Key]) -> None:
        """Read secrets until the queue is closed. `present` are the syncs that exist at the start."""
        self._unread = {key for key in present if key in self._named}
        await run_workers(self.queue, WORKERS, self._read)

    async def _read(self, key: Key) -> None:
        try:
            await self._learn(key)
        finally:
            (self._unread or set()).discard(key)

    async def _learn(self, key: Key) -> None:
        sync, target = self._get(key), self._named.get(key)
        named = self._named_by(sync) if sync is not None else None
        if sync is None or named is None or target is None:
            self._secrets.pop(key, None)
            return
        try:
            requester = self._requester(sync)
            held = await self._references.get_or_none(requester, target, "webhook.secretRef", reconciling=False)
        except (SyncError, KubeError) as error:
            self._secrets.pop(key, None)
            delay = self.queue.retry(key)
            log.warning(
                "the secret of a webhook cannot be read", sync="/".join(key), error=str(error), retry_in=round(delay, 1)
            )
            return
        secret = held.data.get(named.key) if held is not None else None
        if secret is not None and len(secret) > MOST_BYTES:
            log.warning("the secret of a webhook is too long and is not used", sync="/".join(key), bytes=len(secret))
            secret = None
        self._secrets[key] = (secret,) if secret else ()
        if requester.user is not None:
            # No event reports a change of the rights of an account.
            self.queue.add(key, delay=CACHE_TTL)

    def _object_changed(self, cluster: Cluster, target: Target, _by: str) -> None:
        if not cluster.name:
            for key in self._readers.get(target, ()):
                self.queue.add(key)

    def _managed_changed(self, cluster: Cluster, old: Observed | None, new: Observed | None, by: str) -> None:
        for observed in (old, new):
            if observed is not None:
                self._object_changed(cluster, observed.target.local(), by)


def _ignore(*_: object) -> None:
    return
