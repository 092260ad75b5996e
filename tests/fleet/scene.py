"""A ManifestSync with another cluster, and the verbs that its tests are told in."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from tests.acting import account_of_tests, acting, empower
from tests.configmapsync.world import Thing, until
from tests.fleet.world import Remote

from syncline.api.common import API_VERSION
from syncline.api.manifestsync import KIND, PLURAL
from syncline.fleet import SecretWire
from syncline.sandbox import RequestError, Sandbox

Json = dict[str, Any]


class Scene:
    """Two clusters: one with the syncs and sources, one with copies."""

    def __init__(self, hub: Sandbox, remote: Remote) -> None:
        self.hub = hub
        self.remote = remote
        self.prefix = f"far{uuid4().hex[:6]}"
        self.home = self.namespace(hub, "home")
        self._syncs: list[Thing] = []
        self._account = account_of_tests()
        if self._account:
            empower(hub, self.home, self._account)

    def namespace(self, cluster: Sandbox, short: str, **labels: str) -> str:
        name = f"{self.prefix}-{short}"
        body = {"metadata": {"name": name, "labels": labels}}
        cluster.request("POST", "/api/v1/namespaces", body)
        return name

    def there(self, short: str, **labels: str) -> str:
        """Make a namespace in the other cluster."""
        return self.namespace(self.remote.sandbox, short, **labels)

    def source(self, **data: str) -> Thing:
        return self.secret(self.home, "token", {key: value.encode() for key, value in data.items()})

    def secret(self, namespace: str, name: str, data: Mapping[str, bytes]) -> Thing:
        thing = Thing(self.hub, f"/api/v1/namespaces/{namespace}/secrets", name)
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name},
            "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
        }
        self.hub.request("PATCH", f"{thing.path}?fieldManager=somebody&force=true", body)
        return thing

    def credential(self, name: str = "edge", *, wire: SecretWire | None = None, namespace: str = "") -> Thing:
        """Put a kubeconfig for the other cluster beside the syncs."""
        wire = wire or self.remote.secret()
        place = namespace or self.home
        return self.secret(place, name, {key: base64.b64decode(value) for key, value in (wire.data or {}).items()})

    def acting(self, spec: Mapping[str, Any]) -> Json:
        """Return a spec with the account that syncs name where the operator has no rights of its own."""
        return acting(self._account, spec)

    def sync(self, *clusters: Json, name: str = "sync", **spec: Any) -> Thing:
        """Create or change the sync."""
        thing = Thing(self.hub, f"/apis/{API_VERSION}/namespaces/{self.home}/{PLURAL}", name)
        body = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": name},
            "spec": self.acting(
                {
                    "sourceRef": {"apiVersion": "v1", "kind": "Secret", "name": "token"},
                    **({"targets": {"remoteClusters": list(clusters)}} if clusters else {}),
                    **spec,
                },
            ),
        }
        if thing.look() is None:
            thing.create(body)
            self._syncs.append(thing)
        else:
            thing.edit(lambda living: living.update(spec=body["spec"]))
        return thing

    def target(
        self, name: str, *, namespace: str = "", secret: str = "edge", allowed: Sequence[str] = (), **labels: str
    ) -> Thing:
        """Declare the other cluster as a SyncTarget, which allows syncs of other namespaces where it says so."""
        folder = f"/apis/{API_VERSION}/namespaces/{namespace or self.home}/synctargets"
        connection = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": secret}}
        thing = Thing(self.hub, folder, name)
        thing.create(
            {
                "apiVersion": API_VERSION,
                "kind": "SyncTarget",
                "metadata": {"name": name, "labels": labels},
                "spec": {"connection": connection, "allowedNamespaces": list(allowed)},
            }
        )
        return thing

    def grant(self, group: str, resource: str) -> None:
        """Let the operator work with another kind, as an admin does."""
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": self.prefix, "labels": {"syncline.dev/aggregate-to-operator": "true"}},
            "rules": [{"apiGroups": [group], "resources": [resource], "verbs": ["*"]}],
        }
        self.hub.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", role)

    def define(self, cluster: Sandbox, group: str) -> None:
        """Let a cluster serve Widgets of a group."""
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        spec = {
            "group": group,
            "names": {"kind": "Widget", "plural": "widgets"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        }
        body = {"metadata": {"name": f"widgets.{group}"}, "spec": spec}
        cluster.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)

    def custom(self, group: str) -> Json:
        """Make a Widget, which only the cluster of the syncs serves, and return what names it as a source."""
        self.define(self.hub, group)
        self.grant(group, "widgets")
        path = f"/apis/{group}/v1/namespaces/{self.home}/widgets"
        ref = {"apiVersion": f"{group}/v1", "kind": "Widget"}
        until(lambda: _created(self.hub, path, {**ref, "metadata": {"name": "token"}, "spec": {"size": 1}}), bool)
        return {**ref, "name": "token"}

    def copy(self, namespace: str, name: str = "token") -> Thing:
        return Thing(self.remote.sandbox, f"/api/v1/namespaces/{namespace}/secrets", name)

    def end(self) -> None:
        for sync in self._syncs:
            if sync.look() is not None:
                sync.annotate({"syncline.dev/abandon": "true"})
                sync.delete()
                sync.gone()


def _created(cluster: Sandbox, path: str, body: Json) -> bool:
    try:
        cluster.request("POST", path, body)
    except RequestError as error:
        return error.status == 409
    return True


def edge(*namespaces: str, name: str = "edge", **more: Any) -> Json:
    """Say how the other cluster is reached."""
    connection = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "edge"}}
    return {"clusterName": name, "connection": connection, "namespaces": list(namespaces), **more}


def value(thing: Thing, key: str = "password") -> str:
    held = (thing.look() or {}).get("data", {}).get(key)
    return base64.b64decode(held).decode() if held else ""


def becomes(thing: Thing, text: str, key: str = "password") -> None:
    until(lambda: value(thing, key), lambda seen: seen == text)


def ready(sync: Thing) -> Json:
    conditions = sync.read().get("status", {}).get("conditions", [])
    return next((dict(one) for one in conditions if one["type"] == "Ready"), {})


def turns(sync: Thing, status: str, reason: str) -> Json:
    """Wait until Ready says this of the newest spec."""
    return until(
        lambda: {**ready(sync), "generation": sync.read()["metadata"]["generation"]},
        lambda seen: (
            (seen.get("status"), seen.get("reason"), seen.get("observedGeneration"))
            == (status, reason, seen["generation"])
        ),
    )


def targets(sync: Thing) -> list[Json]:
    return list(sync.read().get("status", {}).get("targetStatuses", []))
