"""A scene of its own for one test of IgnitionSync: a repository, pods of gateways, and what is said about them."""

from collections.abc import Mapping
from typing import Any

from tests.configmapsync.world import ConfigMap, Json, Sync, Thing, conditions, until
from tests.configsync.world import GitWorld

from syncline.api.common import API_VERSION
from syncline.api.ignition_annotations import CR_NAME, GATEWAY_NAME, PREFIX
from syncline.api.ignitionsync import KIND, PLURAL
from syncline.sandbox import RequestError, Sandbox

PROJECT = {"projects/Plant/project.json": '{"title": "Plant"}\n', "projects/Plant/views/main.json": '{"a": 1}\n'}
MAPPINGS = [{"source": "projects", "destination": "projects", "type": "dir"}]


class IgnitionSync(Sync):
    """An IgnitionSync."""

    def __init__(self, sandbox: Sandbox, namespace: str, name: str) -> None:
        super().__init__(sandbox, namespace, name)
        Thing.__init__(self, sandbox, f"/apis/{API_VERSION}/namespaces/{namespace}/{PLURAL}", name)

    def condition(self, kind: str, **wanted: str) -> Json:
        """Wait until a condition is as wanted, for the spec as it is now; return it."""

        def found(body: Json) -> Json:
            one = conditions(body).get(kind, {})
            current = one.get("observedGeneration") == body["metadata"]["generation"]
            return one if current and wanted.items() <= one.items() else {}

        return found(until(self.read, found))

    def at(self, commit: str) -> Json:
        """Wait until the ref of the sync is this commit; return the status."""
        return dict(until(self.read, lambda body: body.get("status", {}).get("lastSyncCommit") == commit)["status"])

    def gateway(self, pod: str) -> Json:
        """Return what the status says of the gateway in a pod."""
        return next((dict(one) for one in self.status.get("discoveredGateways", []) if one["podName"] == pod), {})

    def gateway_at(self, pod: str, state: str, **wanted: object) -> Json:
        """Wait until the gateway in a pod has a state; return what the status says of it."""
        holds = {"syncStatus": state, **wanted}
        return until(lambda: self.gateway(pod), lambda one: holds.items() <= one.items())

    def request(self, ref: str | None, at: str = "2026-01-01T00:00:00Z") -> None:
        """Request a ref by annotations, as a person does; None removes the request."""
        by = {"requested-ref": ref, "requested-at": at if ref else None, "requested-by": "a person" if ref else None}
        self.annotate({f"{PREFIX}/{name}": value for name, value in by.items()})

    @property
    def requested(self) -> dict[str, str]:
        """The annotations of a request."""
        found = self.read()["metadata"].get("annotations") or {}
        return {name: value for name, value in found.items() if name.startswith(f"{PREFIX}/requested-")}


class Pod(Thing):
    """A pod. Nothing here runs it, so its phase is what a test writes."""

    def __init__(self, sandbox: Sandbox, namespace: str, name: str) -> None:
        super().__init__(sandbox, f"/api/v1/namespaces/{namespace}/pods", name)
        self.namespace = namespace

    @property
    def uid(self) -> str:
        return str(self.read()["metadata"]["uid"])

    def phase(self, phase: str) -> None:
        """Set the phase, as a kubelet does."""
        while True:
            body = self.read()
            body["status"] = {**body.get("status", {}), "phase": phase}
            try:
                self.sandbox.request("PUT", f"{self.path}/status", body)
            except RequestError as error:
                if error.status != 409:
                    raise
            else:
                return

    def remove(self) -> None:
        """Delete it at once, as a kubelet does in the end."""
        self.sandbox.request("DELETE", f"{self.path}?gracePeriodSeconds=0")


class PlantWorld(GitWorld):
    """A world with gateways."""

    def __init__(self, sandbox: Sandbox, server: Any, *, account: str | None = None) -> None:
        super().__init__(sandbox, server, account=account)
        self.secret("gw", apiKey="name:key")
        self._has_account: set[str] = set()

    def isync(self, name: str = "plant", *, git: Mapping[str, Any] | None = None, **spec: Any) -> IgnitionSync:
        """Create a sync at home of the repository, with a profile for projects."""
        made = IgnitionSync(self.sandbox, self.home, name)
        self._syncs.append(made)
        made.create(
            {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "metadata": {"name": name},
                "spec": self.acting(
                    {
                        "git": {"repo": self.url, "ref": "main", "caSecretRef": {"name": "git-ca"}, **(git or {})},
                        "polling": {"interval": "10s"},
                        "gateway": {"apiKeySecretRef": {"name": "gw", "key": "apiKey"}},
                        "sync": {"profiles": {"default": {"mappings": MAPPINGS}}},
                        **spec,
                    }
                ),
            }
        )
        return made

    def pod(
        self,
        name: str = "gw-0",
        sync: str = "plant",
        *,
        namespace: str | None = None,
        phase: str = "Running",
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> Pod:
        """Create a pod that names a sync."""
        where = namespace or self.home
        self._await_account(where)
        made = Pod(self.sandbox, where, name)
        own = {f"{PREFIX}/{key}": value for key, value in (annotations or {}).items()}
        made.create(
            {
                "metadata": {
                    "name": name,
                    "labels": dict(labels or {}),
                    "annotations": {CR_NAME: sync, GATEWAY_NAME: name, **own},
                },
                "spec": {"containers": [{"name": "gateway", "image": "example.com/gateway:8.3"}]},
            }
        )
        if phase != "Pending":
            made.phase(phase)
        return made

    def metadata(self, sync: str = "plant") -> ConfigMap:
        """Return the metadata ConfigMap of a sync."""
        return self.config_map(self.home, f"ignition-sync-metadata-{sync}")

    def report(self, pod: str = "gw-0", namespace: str | None = None) -> ConfigMap:
        """Return the ConfigMap with the report of a pod."""
        return self.config_map(namespace or self.home, f"ignition-sync-status-{pod}")

    def _await_account(self, namespace: str) -> None:
        """Wait for the service account that every pod has: the control plane makes it."""
        if namespace not in self._has_account:
            until(Thing(self.sandbox, f"/api/v1/namespaces/{namespace}/serviceaccounts", "default").look, bool)
            self._has_account.add(namespace)
