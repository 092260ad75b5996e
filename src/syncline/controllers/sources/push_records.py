"""Push records: a push that reached a replica without the lease, as an annotation for the leader.

The annotation says when; nothing else of the delivery is kept, since nothing of it is believed. Whoever may edit the
sync may write the annotation too, and gets by it what `requestedAt` gives them anyway: one check of the repository.
"""

import asyncio
from datetime import UTC, datetime

from syncline.api.common import PUSHED_AT
from syncline.kube.cache import Key
from syncline.kube.client import Client, PatchKind
from syncline.kube.resources import Resource

SPACING = 2.0
"""The seconds between two records for one sync: all deliveries in between share the second."""


class PushRecords:
    """Writes pushes down. Each record serves all deliveries that came before it was begun."""

    def __init__(self, client: Client, resource: Resource) -> None:
        self._client = client
        self._resource = resource
        self._waiting: dict[Key, asyncio.Task[None]] = {}
        self._last: dict[Key, float] = {}

    async def record(self, key: Key) -> None:
        """Return once a record that was begun after this call is stored. Raises `KubeError`."""
        task = self._waiting.get(key)
        if task is None:
            task = self._waiting[key] = asyncio.create_task(self._record(key))
            task.add_done_callback(
                lambda done: done.cancelled() or done.exception()
            )  # nobody may be left to hear of it
        # Whoever gives up waiting leaves the record to the others.
        await asyncio.wait([task])
        task.result()

    async def _record(self, key: Key) -> None:
        loop = asyncio.get_running_loop()
        try:
            if (pause := self._last.get(key, float("-inf")) + SPACING - loop.time()) > 0:
                await asyncio.sleep(pause)
        finally:
            # A delivery that comes from here on may be of a push that the leader does not find yet.
            del self._waiting[key]
        self._last[key] = loop.time()
        loop.call_later(SPACING, self._forget, key)
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        body = {"metadata": {"annotations": {PUSHED_AT: now}}}
        await self._client.patch(self._resource, key.name, key.namespace, body, PatchKind.MERGE)

    def _forget(self, key: Key) -> None:
        if self._last.get(key, 0.0) + SPACING <= asyncio.get_running_loop().time():
            self._last.pop(key, None)
