"""The reports of agents: stored in one ConfigMap for each pod, and read back only with a valid MAC.

Any replica stores a report; the leader reads it. Any user who can edit ConfigMaps in the namespace can write such a
ConfigMap, so the report has a MAC over itself, the name of the ConfigMap, its pod and its sync. A report without a
valid MAC is ignored. The owner of the ConfigMap is the pod: Kubernetes deletes it with the pod.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from syncline.api.common import ObjectMeta
from syncline.api.ignition_annotations import CR_NAME, STATUS_CONFIG_MAP
from syncline.controllers.gateways.namespace_watches import NamespaceWatches
from syncline.controllers.gateways.owned_config_maps import (
    OBJECT_LABEL,
    OWNER,
    PROOF,
    DataMapWire,
    OwnedConfigMap,
    config_map_name,
    delete,
    owner_of,
    write,
)
from syncline.controllers.gateways.pods import GatewayPod
from syncline.core.gateway_plan import MAX_REPORT_BYTES, GatewayReport
from syncline.engine.cluster import Cluster
from syncline.kube.cache import Key
from syncline.kube.cache_budget import CacheBudget, held_size
from syncline.kube.client import Client
from syncline.kube.reflector import Reflector
from syncline.kube.resources import CONFIGMAPS

PURPOSE = "status"
_META_BYTES = 1000
SPACING = 1.0
"""The seconds between two writes for one pod. All reports in between share the second write."""


class StoredReport(Struct, frozen=True, kw_only=True):
    """The last report of a pod."""

    meta: ObjectMeta
    """The metadata of its ConfigMap."""
    sync: str
    """The name of the sync, to enqueue it; who the report is about is proven by `sync_uid`."""
    pod_uid: str
    sync_uid: str
    time: str
    """The time of the report."""
    report: GatewayReport
    size: int
    """The bytes that it takes, approximately."""


class _Pending:
    """A report that is about to be written, and its waiting callers."""

    def __init__(self, report: GatewayReport) -> None:
        self.report = report
        self.task: asyncio.Task[None] | None = None


class GatewayReports:
    """The reports of all pods, in the namespaces that are followed.

    `on_change` gets the namespace and the name of the sync whose reports have changed.
    """

    def __init__(self, hub: Cluster, on_change: Callable[[str, str], None], budget: CacheBudget) -> None:
        self._hub = hub
        self._budget = budget
        self._on_change = on_change
        self._pending: dict[Key, _Pending] = {}
        self._last: dict[Key, float] = {}
        self.watches: NamespaceWatches[DataMapWire, StoredReport] = NamespaceWatches(self._new)

    def of(self, pod: GatewayPod, sync_uid: str) -> StoredReport | None:
        """Return the last report of exactly this pod about exactly this sync."""
        found = self.watches.get(place_of(pod))
        return found if found is not None and (found.pod_uid, found.sync_uid) == (pod.uid, sync_uid) else None

    def of_sync(self, namespace: str, sync_uid: str) -> list[ObjectMeta]:
        """Return the metadata of the ConfigMaps with reports about a sync."""
        return [one.meta for one in self.watches.values(namespace) if one.sync_uid == sync_uid]

    async def store(self, client: Client, pod: GatewayPod, sync_uid: str, report: GatewayReport) -> None:
        """Return once a report that is at least as new as this one is stored. Raises `KubeError` and `NotOurs`."""
        key = place_of(pod)
        pending = self._pending.get(key)
        if pending is None or pending.task is None:
            pending = self._pending[key] = _Pending(report)
            pending.task = asyncio.create_task(self._write(client, key, pod, sync_uid))
            pending.task.add_done_callback(lambda done: done.cancelled() or done.exception())
        pending.report = report
        # A caller that is cancelled does not cancel the write for the others.
        await asyncio.wait([pending.task])
        pending.task.result()

    async def remove(self, client: Client, pod: GatewayPod, sync_uid: str) -> None:
        """Delete the report of a pod about a sync. Raises `KubeError`."""
        key = place_of(pod)
        await delete(client, self._hub.marks.keys, key.namespace, key.name, sync_uid)

    async def _write(self, client: Client, key: Key, pod: GatewayPod, sync_uid: str) -> None:
        loop = asyncio.get_running_loop()
        try:
            if (pause := self._last.get(key, float("-inf")) + SPACING - loop.time()) > 0:
                await asyncio.sleep(pause)
        finally:
            report = self._pending.pop(key).report  # a later report needs another write
        self._last[key] = loop.time()
        loop.call_later(SPACING, self._forget, key)
        known = self.watches.get(key)
        wanted = self._config_map(pod, sync_uid, report)
        await write(client, self._hub.marks.keys, wanted, known.meta if known is not None else None)

    def _forget(self, key: Key) -> None:
        if self._last.get(key, 0.0) + SPACING <= asyncio.get_running_loop().time():
            self._last.pop(key, None)

    def _config_map(self, pod: GatewayPod, sync_uid: str, report: GatewayReport) -> OwnedConfigMap:
        key, time = place_of(pod), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        text = msgspec.json.encode(report).decode()
        proof = self._hub.marks.keys.mac(_text(key, pod.uid, sync_uid, time, text)) or ""
        return OwnedConfigMap(
            namespace=key.namespace,
            name=key.name,
            sync=pod.sync.name,
            sync_uid=sync_uid,
            purpose=PURPOSE,
            data={"podUID": pod.uid, "time": time, "report": text, "proof": proof},
            owner={"apiVersion": "v1", "kind": "Pod", "name": pod.facts.pod, "uid": pod.uid},
        )

    def _new(self, namespace: str) -> Reflector[DataMapWire, StoredReport]:
        return Reflector(
            self._hub.client,
            CONFIGMAPS,
            decode=DataMapWire,
            project=self._read,
            labels=f"{OBJECT_LABEL}={PURPOSE}",
            namespace=namespace,
            on_change=self._changed,
            part="reports",
            share=self._budget.cluster(namespace),
            weigh=lambda one: one.size,
        )

    def _changed(self, key: Key, old: StoredReport | None, new: StoredReport | None, _by: str) -> None:
        for sync in {one.sync for one in (old, new) if one is not None}:
            self._on_change(key.namespace, sync)

    def _read(self, wire: DataMapWire) -> StoredReport | None:
        """Return a report with a valid MAC; None for any other ConfigMap with the label."""
        meta, data = wire.metadata, wire.data or {}
        text, pod_uid, time = data.get("report", ""), data.get("podUID", ""), data.get("time", "")
        keys = self._hub.marks.keys
        sync_uid = owner_of(meta, keys)
        said = _text(Key(meta.namespace, meta.name), pod_uid, sync_uid, time, text)
        if not sync_uid or len(text) > 2 * MAX_REPORT_BYTES or not keys.proves(said, data.get("proof", "")):
            return None
        try:
            report = msgspec.json.decode(text, type=GatewayReport)
        except msgspec.MsgspecError:  # written by a version of Syncline with other fields
            return None
        kept = ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            resource_version=meta.resource_version,
            annotations={name: meta.annotations[name] for name in (OWNER, PROOF)},
        )
        sync = meta.annotations.get(CR_NAME, "")
        size = held_size(text.encode(errors="replace")) + _META_BYTES
        return StoredReport(
            meta=kept, sync=sync, pod_uid=pod_uid, sync_uid=sync_uid, time=time, report=report, size=size
        )


def place_of(pod: GatewayPod) -> Key:
    """Return the place of the ConfigMap with the report of a pod."""
    return Key(pod.facts.namespace, config_map_name(STATUS_CONFIG_MAP, pod.facts.pod))


def _text(key: Key, pod_uid: str, sync_uid: str, time: str, report: str) -> bytes:
    return msgspec.json.encode(["GatewayReport", key.namespace, key.name, pod_uid, sync_uid, time, report])
