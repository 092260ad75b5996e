"""The cluster of the demo: what is done to it goes out as requests, what comes of it is seen on watches."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import yaml

from syncline import deploy
from syncline.api.configmapsync import ConfigMapSync
from syncline.api.configsync import ConfigSync
from syncline.api.ignitionsync import IgnitionSync
from syncline.api.manifestsync import ManifestSync
from syncline.api.workspacesync import WorkspaceSync
from syncline.controllers.kinds.configmapsync import RESOURCE as CONFIG_MAP_SYNCS
from syncline.controllers.kinds.configsync import RESOURCE as CONFIG_SYNCS
from syncline.controllers.kinds.ignitionsync import RESOURCE as IGNITION_SYNCS
from syncline.controllers.kinds.manifestsync import RESOURCE as MANIFEST_SYNCS
from syncline.controllers.kinds.synctarget import RESOURCE as SYNC_TARGETS
from syncline.controllers.kinds.workspacesync import RESOURCE as WORKSPACE_SYNCS
from syncline.core.conditions import find
from syncline.core.wire import DataWire
from syncline.kube import CONFIGMAPS, EVENTS, NAMESPACES, SECRETS, Client, Key, Reflector, Resource, load_kubeconfig
from syncline.kube.cache import is_older
from syncline.sandbox import Sandbox

PATIENCE = 20.0

Manifest = deploy.Manifest
Contents = Reflector[DataWire, DataWire]
Syncs = (
    Reflector[ConfigMapSync, ConfigMapSync]
    | Reflector[ManifestSync, ManifestSync]
    | Reflector[ConfigSync, ConfigSync]
    | Reflector[WorkspaceSync, WorkspaceSync]
    | Reflector[IgnitionSync, IgnitionSync]
)

_OWN = (CONFIG_MAP_SYNCS, MANIFEST_SYNCS, CONFIG_SYNCS, WORKSPACE_SYNCS, IGNITION_SYNCS, SYNC_TARGETS)
RESOURCES = {each.kind: each for each in (NAMESPACES, CONFIGMAPS, SECRETS, *_OWN)}


class StageError(Exception):
    """What was to be seen did not come to pass."""


class Stage:
    """Write as a user, and wait for what the watches tell."""

    def __init__(self, sandbox: Sandbox, client: Client) -> None:
        self._sandbox = sandbox
        self._client = client
        self._changed = asyncio.Event()
        self._seen_at: dict[tuple[str, Key], float] = {}
        self.contents: dict[str, Contents] = {each.kind: self._follow(each) for each in (CONFIGMAPS, SECRETS)}
        self.syncs: dict[str, Syncs] = {
            "ConfigMapSync": Reflector(
                client, CONFIG_MAP_SYNCS, decode=ConfigMapSync, project=lambda sync: sync, on_change=self._wake
            ),
            "ManifestSync": Reflector(
                client, MANIFEST_SYNCS, decode=ManifestSync, project=lambda sync: sync, on_change=self._wake
            ),
            "ConfigSync": Reflector(
                client, CONFIG_SYNCS, decode=ConfigSync, project=lambda sync: sync, on_change=self._wake
            ),
            "WorkspaceSync": Reflector(
                client, WORKSPACE_SYNCS, decode=WorkspaceSync, project=lambda sync: sync, on_change=self._wake
            ),
            "IgnitionSync": Reflector(
                client, IGNITION_SYNCS, decode=IgnitionSync, project=lambda sync: sync, on_change=self._wake
            ),
        }

    @classmethod
    @asynccontextmanager
    async def open(cls, sandbox: Sandbox) -> AsyncIterator[Self]:
        """Follow a sandbox as its admin."""
        async with Client(load_kubeconfig(sandbox.kubeconfig)) as client:
            stage = cls(sandbox, client)
            reflectors = (*stage.contents.values(), *stage.syncs.values())
            watches = [asyncio.create_task(reflector.run()) for reflector in reflectors]
            try:
                async with asyncio.timeout(PATIENCE):
                    for reflector in reflectors:
                        await reflector.synced.wait()
                yield stage
            finally:
                for watch in watches:
                    watch.cancel()
                await asyncio.gather(*watches, return_exceptions=True)

    async def apply(self, *manifests: Manifest, manager: str = "kubectl") -> float:
        """Apply manifests, as `kubectl apply --server-side` does; return when the last one was sent."""
        sent = _now()
        for manifest in manifests:
            meta = manifest["metadata"]
            kind = manifest["kind"]
            path = RESOURCES[kind].path(meta.get("namespace"), meta["name"])
            sent = _now()
            answer = await self._request("PATCH", f"{path}?fieldManager={manager}&force=true", manifest)
            if kind in self.contents:
                key = Key(meta["namespace"], meta["name"])
                await self._catch_up(kind, key, answer["metadata"]["resourceVersion"])
        return sent

    async def delete(self, kind: str, name: str, namespace: str | None = None) -> float:
        """Delete an object; return when that was sent."""
        sent = _now()
        await self._request("DELETE", RESOURCES[kind].path(namespace, name))
        return sent

    def data(self, namespace: str, name: str, kind: str = "ConfigMap") -> Mapping[str, str] | None:
        """Return what a ConfigMap or Secret says, or None where there is none."""
        found = self.contents[kind].get(Key(namespace, name))
        return None if found is None else found.data or {}

    def namespaces(self, name: str) -> Iterator[tuple[str, Mapping[str, str] | None]]:
        """Yield all namespaces with a ConfigMap of this name, and what it says."""
        for key, wire in self.contents["ConfigMap"].items():
            if key.name == name:
                yield key.namespace, wire.data

    def uid(self, namespace: str, name: str) -> str:
        """Tell one ConfigMap from another of the same name."""
        found = self.contents["ConfigMap"].get(Key(namespace, name))
        return "" if found is None else found.metadata.uid

    def seen_at(self, namespace: str, name: str, kind: str = "ConfigMap") -> float:
        """Return when a ConfigMap or Secret was last seen to change."""
        return self._seen_at[kind, Key(namespace, name)]

    def has_sync(self, namespace: str, name: str, kind: str = "ConfigMapSync") -> bool:
        """Whether a sync is there."""
        return self.syncs[kind].get(Key(namespace, name)) is not None

    def ready(self, namespace: str, name: str, kind: str = "ConfigMapSync") -> tuple[str, str, str]:
        """Return status, reason and message of a sync's Ready condition, if it is about the spec as it is now."""
        sync = self.syncs[kind].get(Key(namespace, name))
        condition = find(sync.status.conditions, "Ready") if sync is not None else None
        if sync is None or condition is None or sync.status.observed_generation != sync.metadata.generation:
            return "", "", ""
        return condition.status, condition.reason, condition.message

    def counts(self, namespace: str, name: str, kind: str = "ConfigMapSync") -> str:
        """Return the "n/m" of a sync's targets."""
        sync = self.syncs[kind].get(Key(namespace, name))
        return sync.status.targets.summary if sync is not None and sync.status.targets is not None else ""

    def gateway_commit(self, namespace: str, name: str) -> str:
        """Return the commit that the only gateway of an IgnitionSync has."""
        sync = self.syncs["IgnitionSync"].get(Key(namespace, name))
        gateways = sync.status.discovered_gateways if isinstance(sync, IgnitionSync) else []
        return gateways[0].synced_commit if len(gateways) == 1 else ""

    @staticmethod
    def now() -> float:
        """Return this moment, on the clock of all times that the stage tells."""
        return _now()

    async def until(self, what: str, check: Callable[[], bool], patience: float = PATIENCE) -> float:
        """Wait until the watches show it; return when they did."""
        deadline = _now() + patience
        while not check():
            self._changed.clear()
            try:
                async with asyncio.timeout(deadline - _now()):
                    await self._changed.wait()
            except TimeoutError:
                raise StageError(f"waited {patience:.0f} s for {what}") from None
        return _now()

    async def event(self, namespace: str, reason: str) -> str:
        """Wait for an event about a sync and return what it says."""
        deadline = _now() + PATIENCE
        while _now() < deadline:
            events, _ = await self._client.list(EVENTS, namespace)
            for event in events:
                if event.get("reason") == reason:
                    return str(event.get("note", ""))
            await asyncio.sleep(0.005)
        raise StageError(f"waited {PATIENCE:.0f} s for the event {reason}")

    async def _catch_up(self, kind: str, key: Key, version: str) -> None:
        """Wait until the watch knows of our own write, so that what it shows is never older."""

        def knows() -> bool:
            found = self.contents[kind].get(key)
            return found is not None and not is_older(found.metadata.resource_version, version)

        await self.until(f"the watch to show {key.namespace}/{key.name}", knows)

    async def _request(self, method: str, path: str, body: Manifest | None = None) -> dict[str, Any]:
        return await asyncio.to_thread(self._sandbox.request, method, path, body)

    def _follow(self, resource: Resource) -> Contents:
        def note(key: Key, _: DataWire | None, __: DataWire | None, _by: str) -> None:
            self._seen_at[resource.kind, key] = _now()
            self._changed.set()

        return Reflector(self._client, resource, decode=DataWire, project=lambda wire: wire, on_change=note)

    def _wake(self, *_: object) -> None:
        self._changed.set()


def load(path: Path) -> list[Manifest]:
    """Read the manifests of a file."""
    return [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document]


def pick(manifests: Sequence[Manifest], kind: str) -> Manifest:
    """Return the one manifest of a kind."""
    (found,) = (manifest for manifest in manifests if manifest["kind"] == kind)
    return found


def _now() -> float:
    return time.monotonic()
