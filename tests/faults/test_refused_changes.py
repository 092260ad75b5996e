"""A change that the API server refuses is sent once, not again because of what it has left behind."""

from typing import Any

from tests.configmapsync.world import until
from tests.faults.gates import WatchGate
from tests.faults.scene import Scene, calm_operator, wait_until

from syncline.api.common import API_VERSION, REQUESTED_AT
from syncline.core.ownership import OWNER_LABEL
from syncline.testing.proxy import FaultProxy

Json = dict[str, Any]
RBAC = "rbac.authorization.k8s.io"


class Services:
    """Services of one namespace, copied to another one by a sync each, with an account that may do so."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.to = scene.namespace("to")
        account = {"metadata": {"name": "writer"}}
        scene.sandbox.request("POST", f"/api/v1/namespaces/{scene.home}/serviceaccounts", account)
        role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "admin"}
        subject = {"kind": "ServiceAccount", "namespace": scene.home, "name": "writer"}
        body = {"metadata": {"name": "writer"}, "roleRef": role, "subjects": [subject]}
        for namespace in (scene.home, self.to):
            scene.sandbox.request("POST", f"/apis/{RBAC}/v1/namespaces/{namespace}/rolebindings", body)

    def sync(self, name: str, *, patch: str = "") -> None:
        """Copy a Service, changed by a patch."""
        service = {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}
        self.scene._apply(f"/api/v1/namespaces/{self.scene.home}/services/{name}", "v1", "Service", name, service)
        ref = {"apiVersion": "v1", "kind": "Service", "name": name}
        spec: Json = {"sourceRefs": [ref], "targets": {"inCluster": {"namespaces": [self.to]}}}
        spec |= {"serviceAccountName": "writer"}
        spec |= {"patch": {"patchStrategy": "Merge", "patchContent": patch}} if patch else {}
        self.scene._apply(self._path(name), API_VERSION, "ManifestSync", name, {"spec": spec})

    def request_now(self, name: str) -> None:
        """Ask for a reconcile, and wait for its end."""
        request = f"now-{self.scene.version()}"
        body = {"metadata": {"annotations": {REQUESTED_AT: request}}}
        full = {"apiVersion": API_VERSION, "kind": "ManifestSync", **body}
        full["metadata"]["name"] = name
        self.scene.sandbox.request("PATCH", f"{self._path(name)}?fieldManager=nudge&force=true", full)
        until(lambda: self.status(name), lambda status: status.get("lastHandledRequest") == request)

    def status(self, name: str) -> Json:
        return dict(self.scene.sandbox.request("GET", self._path(name)).get("status") or {})

    def becomes(self, name: str, reason: str) -> None:
        """Wait for the reason of Ready."""

        def found() -> bool:
            ready = [one for one in self.status(name).get("conditions", []) if one["type"] == "Ready"]
            return bool(ready) and ready[0]["reason"] == reason

        wait_until(found, f"{name} to be {reason}", instead=lambda: self.status(name))

    def drift(self, name: str) -> None:
        """Change a copy, and wait until it is repaired."""
        path = f"/api/v1/namespaces/{self.to}/services/{name}"
        copy = self.scene.sandbox.request("GET", path)
        copy["spec"]["sessionAffinity"] = "ClientIP"
        self.scene.sandbox.request("PUT", f"{path}?fieldManager=tests", copy)
        until(lambda: self.scene.sandbox.request("GET", path)["spec"]["sessionAffinity"], lambda one: one == "None")

    def refused(self, since: int) -> list[str]:
        """Return the refused writes of copies since a mark of the audit log."""
        found = self.scene.audit.writes(since=since, until=self.scene.audit.mark())
        return [str(one) for one in found if one.resource == "services" and one.code == 422]

    def end(self) -> None:
        for name in ("stuck", "witness"):
            self.scene.sandbox.request("DELETE", self._path(name))
            wait_until(lambda at=name: self.scene._get(self._path(at)) is None, f"{name} to be gone")

    def _path(self, name: str) -> str:
        return f"/apis/{API_VERSION}/namespaces/{self.scene.home}/manifestsyncs/{name}"


def test_the_news_of_our_own_preparation_for_a_refused_change_enqueue_nobody(scene: Scene, proxy: FaultProxy) -> None:
    """Before its first apply, the fields of a copy are counted as applied: a write of ours, which the watch tells."""
    services = Services(scene)
    watch = WatchGate(proxy, "services", OWNER_LABEL)
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)):
        for name in ("stuck", "witness"):
            services.sync(name)
            services.becomes(name, "Synced")
        watch.close()
        services.sync("stuck", patch="spec: {clusterIP: None}")
        services.becomes("stuck", "Immutable")
        services.request_now("stuck")
        before = scene.audit.mark()
        watch.open()
        services.drift("witness")  # the same watch has told of it, after all that it had to tell of the other one
        services.becomes("witness", "Synced")
        assert services.refused(before) == []
        services.end()
