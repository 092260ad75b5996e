"""A witness that follows all copies from a thread of its own, past any proxy: cheap to ask, and it misses no state."""

import asyncio
import contextlib
import threading
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import Struct, field

from syncline.api.common import ObjectMeta
from syncline.core.ownership import OWNER_LABEL
from syncline.kube import CONFIGMAPS, Client, Key, Reflector, load_kubeconfig


class _Wire(Struct):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    data: dict[str, str] | None = None


class Observer:
    """Holds the data of every copy, and remembers all data that any copy ever had."""

    def __init__(self, kubeconfig: Path) -> None:
        self.history: list[tuple[str, dict[str, str] | None]] = []
        """Each change that was seen: the namespace, and the data after it (None: deleted)."""
        self._kubeconfig = kubeconfig
        self._held: dict[str, dict[str, str]] = {}
        self._values: Counter[str] = Counter()
        self._loop = asyncio.new_event_loop()
        self._synced = threading.Event()
        self._thread = threading.Thread(target=self._run, name="observer")

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._synced.wait(60):
            self.close()
            raise TimeoutError("the observer has seen nothing in 60 s")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._watching.cancel)
        self._thread.join()

    def holding(self, value: str) -> int:
        """Return how many copies have this value under the key `value`."""
        return self._values[value]

    def data(self) -> dict[str, dict[str, str]]:
        """Return what each copy holds, by namespace."""
        return dict(self._held)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner, contextlib.suppress(asyncio.CancelledError):
            runner.run(self._follow())

    async def _follow(self) -> None:
        async with Client(load_kubeconfig(self._kubeconfig)) as client:
            reflector = Reflector(
                client,
                CONFIGMAPS,
                decode=_Wire,
                project=lambda wire: wire.data or {},
                on_change=self._changed,
                labels=OWNER_LABEL,
            )
            self._watching = asyncio.create_task(reflector.run())
            await reflector.synced.wait()
            self._synced.set()
            await self._watching

    def _changed(self, key: Key, old: dict[str, str] | None, new: dict[str, str] | None) -> None:
        self.history.append((key.namespace, new))
        if old is not None:
            self._values[old.get("value", "")] -= 1
            self._held.pop(key.namespace, None)
        if new is not None:
            self._values[new.get("value", "")] += 1
            self._held[key.namespace] = new
