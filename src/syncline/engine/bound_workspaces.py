"""The workspaces that are bound to an APIExport of kcp, watched through its virtual workspace."""

import asyncio
import contextvars
from collections.abc import Callable
from contextlib import suppress

from syncline.core.api_exports import Binding, BindingWire, read_binding
from syncline.engine.cache_sizes import binding_size
from syncline.engine.cluster import RunWatch, wait_listed
from syncline.kube.cache import Key
from syncline.kube.cache_budget import ClusterShare
from syncline.kube.client import Client
from syncline.kube.reflector import Reflector
from syncline.kube.resources import Resource

APIBINDINGS = Resource("apis.kcp.io", "v1alpha2", "apibindings", "APIBinding", namespaced=False)


class BoundWorkspaces:
    """The APIBindings of all workspaces; `on_change` is called when one comes, changes or goes."""

    def __init__(
        self,
        client: Client,
        name: str,
        run_watch: RunWatch,
        on_change: Callable[[str], None],
        share: ClusterShare | None = None,
    ) -> None:
        self.name = name
        """A name that differs from those of all clusters, to register for changes."""
        self._on_change = on_change
        self._run_watch = run_watch
        self._reflector: Reflector[BindingWire, Binding] = Reflector(
            client,
            APIBINDINGS,
            decode=BindingWire,
            project=read_binding,
            on_change=self._changed,
            share=share,
            weigh=binding_size,
        )
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Watch from now on."""
        self._task = asyncio.create_task(self._run_watch(self._reflector.run), context=contextvars.Context())

    async def stop(self) -> None:
        """End the watch."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self._reflector.release()

    async def bindings(self, patience: float) -> list[Binding]:
        """Return all bindings. Raises `NotWatchedError` if they are not known in time."""
        await wait_listed(self._reflector, patience)
        return list(self._reflector.values())

    def _changed(self, _: Key, _old: Binding | None, _new: Binding | None, _by: str) -> None:
        self._on_change(self.name)
