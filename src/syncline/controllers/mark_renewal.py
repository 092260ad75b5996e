"""Renewal of ownership marks: holds their keys, and lets every mark be signed with the current key.

A reconcile renews the marks of its objects, a few at a time. Here the syncs with marks left are enqueued again, and the
finished ones leave the list of syncs that may take over unsigned marks.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence

import structlog

from syncline.api.common import FINALIZER
from syncline.controllers.base import AnySyncReconciler
from syncline.controllers.lowered import AnySync, key_of
from syncline.core.marks import NO_KEYS, UNSIGNED, sync_id
from syncline.engine.cluster import Cluster
from syncline.engine.markkeys import (
    NAME,
    KeysWire,
    ensure_mark_keys,
    note_keys,
    noted_keys,
    read_keys,
    write_takeovers,
)
from syncline.kube.cache import Key
from syncline.kube.errors import ConfigError, KubeError
from syncline.kube.reflector import Reflector
from syncline.kube.resources import SECRETS

log = structlog.get_logger(__name__)

# The interval of checks for syncs with marks left.
INTERVAL = 5.0
# How long a new key only verifies, before it signs.
SIGNING_DELAY = 5.0


class MarkRenewal:
    """The keys of marks, for as long as the operator runs."""

    def __init__(
        self, hub: Cluster, namespace: str, reconcilers: Sequence[AnySyncReconciler], leads: Callable[[], bool]
    ) -> None:
        self._hub = hub
        self._namespace = namespace
        self._reconcilers = {reconciler.queue.name: reconciler for reconciler in reconcilers}
        self._leads = leads
        self._signs_at: float | None = None
        self._next = NO_KEYS
        self._watch: Reflector[KeysWire, KeysWire] = Reflector(
            hub.client,
            SECRETS,
            decode=KeysWire,
            project=lambda wire: wire,
            namespace=namespace,
            fields=f"metadata.name={NAME}",
            on_change=self._changed,
            part="keys",
        )

    async def load(self) -> None:
        """Read the keys, or create one. Raises the errors of a request."""
        proofs = {sync.metadata.uid: sync.status.proof for sync in self._all() if sync.status.proof is not None}
        worked_on = [uid for uid, was_worked_on in self._syncs() if was_worked_on and uid not in proofs]
        signers = frozenset(proof.partition(".")[0] for proof in proofs.values())
        keys = await ensure_mark_keys(self._hub.client, self._namespace, worked_on, signers)
        self._hub.marks.keys = keys
        unsigned = {uid for uid, _ in self._syncs() if UNSIGNED in keys.taken_over_by(uid)}
        for reconciler in self._reconcilers.values():
            reconciler.take_over_statuses(unsigned)

    async def run(self) -> None:
        """Renew marks forever. Without marks to renew it makes no requests."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch.run())
            tasks.create_task(self._tend())

    def _changed(self, _key: Key, _old: KeysWire | None, new: KeysWire | None, _by: str) -> None:
        """Handle added and removed keys. A deleted or invalid Secret changes nothing.

        A new key verifies at once, and signs later, when every replica has it.
        """
        if new is None:
            log.error("the keys of marks are gone: restore the Secret before the operator is restarted", secret=NAME)
            return
        try:
            found = read_keys(new.data, NAME)
        except ConfigError as error:
            log.warning("the keys of marks cannot be read any more; those that were read count", error=str(error))
            return
        marks = self._hub.marks
        before, self._next = marks.keys, found
        marks.keys = found.signing(before.current) if before.current in found else found
        if found.ids != before.ids or found.takeovers.keys() - before.takeovers.keys():
            log.info("keys of marks have changed", keys=sorted(found.ids))
            marks.taken_over.clear()
            self._signs_at = asyncio.get_running_loop().time() + SIGNING_DELAY

    def _sign(self) -> None:
        """Sign with the newest key when it is time, and enqueue every sync to renew its marks."""
        if self._signs_at is None or asyncio.get_running_loop().time() < self._signs_at:
            return
        self._signs_at = None
        self._hub.marks.keys = self._next
        for reconciler in self._reconcilers.values():
            for reflector in reconciler.syncs.values():
                for sync in reflector.values():
                    reconciler.queue.add(key_of(sync), priority=1)

    async def _tend(self) -> None:
        marks = self._hub.marks
        while True:
            await asyncio.sleep(INTERVAL)
            self._sign()
            for ref in tuple(marks.waiting):
                kind, namespace, name = ref.split("/")
                if (reconciler := self._reconcilers.get(kind)) is not None:
                    reconciler.queue.add(Key(namespace, name), priority=1)
            if marks.keys.takeovers and self._leads():
                try:
                    await self._end_takeovers()
                except KubeError as error:
                    log.warning("cannot note which marks were taken over; trying again", error=str(error))

    async def _end_takeovers(self) -> None:
        """Remove the syncs with nothing left to take over from the list, and the deleted ones."""
        marks = self._hub.marks
        living = {sync_id(uid) for uid, _ in self._syncs()}
        listed = frozenset().union(*marks.keys.takeovers.values())
        ended = {sync for sync in listed if sync in marks.taken_over or sync not in living}
        if not ended:
            return
        client, before = self._hub.client, marks.keys.takeovers.keys()
        left = await write_takeovers(client, self._namespace, lambda now: _without(now, ended))
        marks.keys = left
        if healed := before - left.takeovers.keys() - {UNSIGNED}:
            await note_keys(client, self._namespace, await noted_keys(client, self._namespace) - healed)
        if not left.takeovers:
            log.info("all marks are signed; unsigned ones do not count any more")

    def _syncs(self) -> list[tuple[str, bool]]:
        return [
            (sync.metadata.uid, FINALIZER in sync.metadata.finalizers or sync.status.observed_generation > 0)
            for sync in self._all()
        ]

    def _all(self) -> Iterator[AnySync]:
        for reconciler in self._reconcilers.values():
            for reflector in reconciler.syncs.values():
                yield from reflector.values()


def _without(takeovers: Mapping[str, frozenset[str]], ended: set[str]) -> dict[str, frozenset[str]]:
    return {key: syncs - ended for key, syncs in takeovers.items()}
