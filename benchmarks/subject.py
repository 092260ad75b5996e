"""What is copied by which kind of sync: the same benchmark serves several."""

import base64
from typing import Any, Literal

from msgspec import Struct

from benchmarks.stage import HOME, Stage
from syncline.controllers.kinds.configmapsync import RESOURCE as CONFIGMAPSYNCS
from syncline.controllers.kinds.manifestsync import RESOURCE as MANIFESTSYNCS
from syncline.core.objects import Content
from syncline.kube.client import PatchKind
from syncline.kube.resources import CONFIGMAPS, SECRETS, Resource

Json = dict[str, Any]

_PAYLOAD = "".join(f"setting-{number}: the value of this setting\n" for number in range(25))


class Subject(Struct, frozen=True):
    """Objects of about 1 KB, each known by a token in it, and the syncs that copy them."""

    kind: Literal["ConfigMap", "Secret"]
    resource: Resource
    syncs: Resource

    def source(self, namespace: str, name: str, token: str) -> Json:
        """Return a source."""
        return {"metadata": {"namespace": namespace, "name": name}, "data": dict(self.content(token).data)}

    def content(self, token: str) -> Content:
        """Return what is in it."""
        data = {"token": token, "settings.yaml": _PAYLOAD}
        if self.kind == "ConfigMap":
            return Content(data=data)
        return Content(data={name: _encoded(value) for name, value in data.items()}, type="Opaque")

    def needle(self, token: str) -> bytes:
        """Return the text by which an object with this token is known on the wire."""
        return f'"{self.content(token).data["token"]}"'.encode()

    def sync(self, name: str, source: str, **labels: str) -> Json:
        """Return a sync of a source to the namespaces with these labels."""
        selector = {"matchLabels": labels}
        if self.kind == "ConfigMap":
            return self._sync(name, sourceNamespace=HOME, configMapName=source, destinationNamespaceSelector=selector)
        return self._sync(name, sourceRef=_ref(source), targets={"inCluster": {"namespaceSelector": selector}})

    def remote_sync(self, name: str, source: str, clusters: list[Json]) -> Json:
        """Return a sync of a source to other clusters."""
        return self._sync(name, sourceRef=_ref(source), targets={"remoteClusters": clusters})

    async def edit(self, scene: Stage, name: str, token: str) -> None:
        """Change a source."""
        patch = {"data": {"token": self.content(token).data["token"]}}
        await scene.client.patch(self.resource, name, HOME, patch, PatchKind.MERGE)

    def _sync(self, name: str, **spec: object) -> Json:
        metadata = {"namespace": HOME, "name": name}
        return {"apiVersion": self.syncs.api_version, "kind": self.syncs.kind, "metadata": metadata, "spec": spec}


CONFIGMAP = Subject("ConfigMap", CONFIGMAPS, CONFIGMAPSYNCS)
SECRET = Subject("Secret", SECRETS, MANIFESTSYNCS)


def _ref(source: str) -> Json:
    return {"apiVersion": "v1", "kind": "Secret", "name": source}


def _encoded(value: str) -> str:
    return base64.b64encode(value.encode()).decode()
