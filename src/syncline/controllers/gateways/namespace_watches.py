"""Watches in the namespaces that have syncs of a kind, and in no others."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from syncline.kube.cache import Key
from syncline.kube.reflector import Reflector
from syncline.kube.wire import W

T = TypeVar("T")

NewReflector = Callable[[str], Reflector[W, T]]
"""Returns the reflector of a namespace."""


class NamespaceWatches(Generic[W, T]):
    """One reflector for each followed namespace. They run from `start` to `stop`."""

    def __init__(self, new: NewReflector[W, T]) -> None:
        self._new = new
        self._reflectors: dict[str, Reflector[W, T]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._running = False

    def start(self) -> None:
        """Watch the followed namespaces from now on."""
        self._running = True
        for namespace in self._reflectors:
            self._run(namespace)

    async def stop(self) -> None:
        """End all watches."""
        self._running = False
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def follow(self, namespace: str) -> None:
        """Watch a namespace, if it is not watched yet."""
        if namespace not in self._reflectors:
            self._reflectors[namespace] = self._new(namespace)
            if self._running:
                self._run(namespace)

    def unfollow(self, namespace: str) -> None:
        """Stop watching a namespace, and forget its objects."""
        reflector, task = self._reflectors.pop(namespace, None), self._tasks.pop(namespace, None)
        if task is not None:
            task.cancel()
        if reflector is not None:
            reflector.release()

    def get(self, key: Key) -> T | None:
        """Return the cached state of an object."""
        reflector = self._reflectors.get(key.namespace)
        return reflector.get(key) if reflector is not None else None

    def values(self, namespace: str) -> Iterator[T]:
        """Iterate over the cached objects of a namespace; do not await meanwhile."""
        reflector = self._reflectors.get(namespace)
        return reflector.values() if reflector is not None else iter(())

    def reflector(self, namespace: str) -> Reflector[W, T] | None:
        """Return the reflector of a followed namespace."""
        return self._reflectors.get(namespace)

    def problem(self, namespace: str) -> str:
        """Return why the objects of a namespace are not known; empty if they are."""
        reflector = self._reflectors.get(namespace)
        if reflector is None:
            return "the namespace is not watched"
        status = reflector.status()
        if not status.synced:
            return status.failure or "they are not listed yet"
        if status.full:
            return status.failure or "there are more of them than there is room for"
        return status.failure if status.refused else ""

    def _run(self, namespace: str) -> None:
        if namespace not in self._tasks:
            self._tasks[namespace] = asyncio.create_task(self._reflectors[namespace].run())
