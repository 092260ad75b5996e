"""Push records: annotations that inform the leader of a push that another replica received.

The annotation has the time of the push. Nothing else of the delivery is kept, because it is not trusted. A user who can
edit the sync can write the annotation too, and gets the same as from `requestedAt`: one check of the repository.
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
    """Writes push records. Each record serves all deliveries before its start."""

    def __init__(self, client: Client, resource: Resource) -> None:
        self._client = client
        self._resource = resource
        self._waiting: dict[Key, asyncio.Task[None]] = {}
        self._last: dict[Key, float] = {}

    async def record(self, key: Key) -> None:
        """Return when a record that began after this call is stored. Raises `KubeError`."""
        task = self._waiting.get(key)
        if task is None:
            task = self._waiting[key] = asyncio.create_task(self._record(key))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())  # there may be no waiter left
        # If one waiter is cancelled, the record continues for the others.
        await asyncio.wait([task])
        task.result()

    async def _record(self, key: Key) -> None:
        loop = asyncio.get_running_loop()
        try:
            if (pause := self._last.get(key, float("-inf")) + SPACING - loop.time()) > 0:
                await asyncio.sleep(pause)
        finally:
            # A later delivery may be of a push that the leader does not find yet.
            del self._waiting[key]
        self._last[key] = loop.time()
        loop.call_later(SPACING, self._forget, key)
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        body = {"metadata": {"annotations": {PUSHED_AT: now}}}
        await self._client.patch(self._resource, key.name, key.namespace, body, PatchKind.MERGE)

    def _forget(self, key: Key) -> None:
        if self._last.get(key, 0.0) + SPACING <= asyncio.get_running_loop().time():
            self._last.pop(key, None)
