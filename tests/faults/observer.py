"""A witness that follows copies from a thread of its own, past any proxy: cheap to ask, and it misses no state."""

import asyncio
from collections import Counter
from pathlib import Path

from msgspec import Struct, field

from syncline.api.common import ObjectMeta
from syncline.core.ownership import OWNER_LABEL
from syncline.kube import CONFIGMAPS, Client, Key, Reflector, load_kubeconfig
from syncline.testing.loop import OnLoop


class _Wire(Struct):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    data: dict[str, str] | None = None


class Observer(OnLoop):
    """Holds the data of each copy in namespaces with this prefix, and remembers all data that any of them ever had."""

    thread_name = "observer"

    def __init__(self, kubeconfig: Path, prefix: str) -> None:
        self.history: list[tuple[str, dict[str, str] | None]] = []
        """Each change that was seen: the namespace, and the data after it (None: deleted)."""
        self._kubeconfig = kubeconfig
        self._prefix = prefix
        self._held: dict[str, dict[str, str]] = {}
        self._values: Counter[str] = Counter()

    def holding(self, value: str) -> int:
        """Return how many copies have this value under the key `value`."""
        return self._values[value]

    def data(self) -> dict[str, dict[str, str]]:
        """Return what each copy holds, by namespace."""
        return dict(self._held)

    async def _open(self) -> None:
        self._client = Client(load_kubeconfig(self._kubeconfig))
        reflector = Reflector(
            self._client,
            CONFIGMAPS,
            decode=_Wire,
            project=lambda wire: wire.data or {},
            on_change=self._changed,
            labels=OWNER_LABEL,
        )
        self._watching = asyncio.create_task(reflector.run())
        await reflector.synced.wait()

    async def _close(self) -> None:
        self._watching.cancel()
        await asyncio.wait([self._watching])
        await self._client.close()

    def _changed(self, key: Key, old: dict[str, str] | None, new: dict[str, str] | None, _: str) -> None:
        if not key.namespace.startswith(self._prefix):
            return
        self.history.append((key.namespace, new))
        if old is not None:
            self._values[old.get("value", "")] -= 1
            self._held.pop(key.namespace, None)
        if new is not None:
            self._values[new.get("value", "")] += 1
            self._held[key.namespace] = new
