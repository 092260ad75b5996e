"""A cluster with Syncline installed, as these tests set it up and look at it: as admin, past any proxy."""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from syncline.api.common import API_VERSION
from syncline.core.ownership import MARKER, OWNER_LABEL
from syncline.kube import CONFIGMAPS, NAMESPACES, Client, load_kubeconfig
from syncline.sandbox import RequestError, Sandbox
from syncline.testing.operator import OperatorProcess, install

Json = dict[str, Any]
Place = tuple[str, str]

HOME = "home"
NAME = "settings"
_SYNCS = f"/apis/{API_VERSION}/namespaces/{HOME}/configmapsyncs"


def wait_until(check: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    """Wait until a check holds; fail with the words given when it does not in time."""
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.02)


class Scene:
    """One source `home/settings` and whatever syncs a test makes of it."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.kubeconfig: Path = install(sandbox)
        self.namespace(HOME)

    def namespace(self, name: str, **labels: str) -> None:
        self._apply(f"/api/v1/namespaces/{name}", "v1", "Namespace", name, {"metadata": {"labels": labels}})

    def namespaces(self, names: Iterable[str], **labels: str) -> None:
        """Make many at once."""

        async def make() -> None:
            async with Client(load_kubeconfig(self.sandbox.kubeconfig), max_in_flight=16) as client:
                bodies = [{"metadata": {"name": name, "labels": labels}} for name in names]
                await asyncio.gather(*(client.create(NAMESPACES, body) for body in bodies))

        asyncio.run(make())

    def source(self, name: str = NAME, **data: str) -> None:
        self.config_map(HOME, name, **data)

    def config_map(self, namespace: str, name: str, labels: Mapping[str, str] | None = None, **data: str) -> None:
        body = {"metadata": {"labels": dict(labels or {})}, "data": data}
        self._apply(CONFIGMAPS.path(namespace, name), "v1", "ConfigMap", name, body)

    def delete_config_map(self, namespace: str, name: str = NAME) -> None:
        self.sandbox.request("DELETE", CONFIGMAPS.path(namespace, name))

    def sync(self, name: str = NAME, **spec: Any) -> None:
        body = {"spec": {"sourceNamespace": HOME, "configMapName": NAME, **spec}}
        self._apply(f"{_SYNCS}/{name}", API_VERSION, "ConfigMapSync", name, body)

    def delete_sync(self, name: str = NAME) -> None:
        with contextlib.suppress(RequestError):
            self.sandbox.request("DELETE", f"{_SYNCS}/{name}")

    def get_sync(self, name: str = NAME) -> Json | None:
        try:
            return self.sandbox.request("GET", f"{_SYNCS}/{name}")
        except RequestError as error:
            if error.status != 404:
                raise
            return None

    def ready(self, name: str = NAME) -> Json:
        """Return the Ready condition of a sync, empty where it has none."""
        conditions = ((self.get_sync(name) or {}).get("status") or {}).get("conditions", [])
        return next((condition for condition in conditions if condition["type"] == "Ready"), {})

    def copies(self) -> dict[Place, Json]:
        """Return all objects that carry our label, by place."""
        found = self.sandbox.request("GET", f"/api/v1/configmaps?labelSelector={OWNER_LABEL}", timeout=30)["items"]
        return {(item["metadata"]["namespace"], item["metadata"]["name"]): item for item in found}

    def all_places(self) -> set[Place]:
        """Return where there are ConfigMaps at all."""
        found = self.sandbox.request("GET", "/api/v1/configmaps", timeout=30)["items"]
        return {(item["metadata"]["namespace"], item["metadata"]["name"]) for item in found}

    def values(self, key: str = "value") -> dict[str, str | None]:
        """Return what each copy holds under a key, by namespace."""
        return {place[0]: (copy.get("data") or {}).get(key) for place, copy in self.copies().items()}

    def all_hold(self, namespaces: Iterable[str], value: str, key: str = "value") -> bool:
        """Whether there are copies in exactly these namespaces, all with this value."""
        return self.values(key) == dict.fromkeys(namespaces, value)

    def _apply(self, path: str, version: str, kind: str, name: str, body: Json) -> None:
        full = {"apiVersion": version, "kind": kind, **body}
        full["metadata"] = {"name": name, **body.get("metadata", {})}
        self.sandbox.request("PATCH", f"{path}?fieldManager=tests&force=true", full)


def marker_of(copy: Json) -> Json:
    """Return what the operator's annotation says."""
    marker: Json = json.loads(copy["metadata"]["annotations"][MARKER])
    return marker


def metric(operator: OperatorProcess, name: str, **labels: str) -> float:
    """Return the sum of a metric's series that have these labels."""
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    _, text = operator.get("metrics", "/metrics")
    lines = [line for line in text.splitlines() if line.startswith((f"{name}{{", f"{name} "))]
    return sum(float(line.rpartition(" ")[2]) for line in lines if all(label in line for label in wanted))


def turns(operator: OperatorProcess) -> float:
    """Return how many turns have ended."""
    return metric(operator, "syncline_sync_total")


def assert_calm(operator: OperatorProcess) -> None:
    """No traceback, no line that is no log line, nothing that the operator itself calls an error."""
    log = operator.log()
    assert "Traceback" not in log, log[-4000:]
    assert not [event for event in operator.events() if event.get("level") in ("error", "critical")], log[-4000:]
