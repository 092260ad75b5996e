"""An upstream, the clusters below it, and the verbs that the tests of WorkspaceSync are told in."""

import base64
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol
from urllib.parse import quote

from tests.configmapsync.world import LAST_POLL, Json, Sync, Thing, World, conditions, until
from tests.fleet.world import Remote
from tests.manifestsync.world import KINDS, Object, deployment_spec, service_spec

from syncline.api.common import ABANDON, API_VERSION, ObjectMeta
from syncline.api.workspacesync import KIND, PLURAL
from syncline.core.ownership import OWNER_LABEL
from syncline.fleet import SecretWire
from syncline.sandbox import RequestError, Sandbox
from syncline.testing.audit import AuditLog, Entry
from syncline.testing.kcp import KcpWorkspace

SERVED: dict[str, tuple[str, str]] = {
    **KINDS,
    "Endpoints": ("v1", "endpoints"),
    "EndpointSlice": ("discovery.k8s.io/v1", "endpointslices"),
    "Namespace": ("v1", "namespaces"),
    "Pod": ("v1", "pods"),
    "StatefulSet": ("apps/v1", "statefulsets"),
}
UPSTREAM = "upstream"
LABELS = {"east": {"region": "eu", "zone": "a"}, "west": {"region": "us", "zone": "b"}}
RESOLVE = "syncline.dev/resolve"
# Seconds that an undisturbed operator needs at most for the end of a sync, and for a second try.
LETS_GO = 30.0
FAILS_TO = 4.0
_GROUPS = {"deployments": "apps", "statefulsets": "apps", "ingresses": "networking.k8s.io"}


class Cluster(Protocol):
    """An API server, and the credential that a sync reaches it with."""

    @property
    def sandbox(self) -> Any:
        """Sends requests as an admin."""

    def secret(self, token: str = "", *, server: str = "") -> SecretWire:
        """Make the Secret that a tenant would put beside their syncs."""


class KcpUpstream:
    """A workspace of kcp, and the credential of its admin."""

    def __init__(self, workspace: KcpWorkspace) -> None:
        self.sandbox = workspace

    def secret(self, token: str = "", *, server: str = "") -> SecretWire:  # noqa: ARG002 - it has one credential
        """Make the Secret that a tenant would put beside their syncs."""
        data = self.sandbox.kubeconfig_secret(UPSTREAM)["data"]
        if server:  # a proxy before kcp
            address = self.sandbox.server.partition("/clusters/")[0]
            text = base64.b64decode(data["kubeconfig"]).replace(address.encode(), server.encode())
            data = {"kubeconfig": base64.b64encode(text).decode()}
        return SecretWire(metadata=ObjectMeta(name=UPSTREAM), data=data)


def resource(plural: str, **more: Any) -> Json:
    """Name a resource as a sync does."""
    return {"group": _GROUPS.get(plural, ""), "version": "v1", "resource": plural, **more}


class WorkspaceSync(Sync):
    """A WorkspaceSync."""

    def __init__(self, sandbox: Sandbox, namespace: str, name: str) -> None:
        super().__init__(sandbox, namespace, name)
        Thing.__init__(self, sandbox, f"/apis/{API_VERSION}/namespaces/{namespace}/{PLURAL}", name)

    def is_ready(self) -> Json:
        """Wait until Ready is True for the spec as it is now; return Ready."""
        return conditions(until(self.read, self._holds("True", ())))["Ready"]

    def fails(self, *words: str) -> Json:
        """Wait until Ready is False for the spec as it is now, and its message has these words; return Ready."""
        return conditions(until(self.read, self._holds("False", words)))["Ready"]

    def doubts(self, *words: str) -> Json:
        """Wait until Ready is Unknown for the spec as it is now, and its message has these words; return Ready."""
        return conditions(until(self.read, self._holds("Unknown", words)))["Ready"]

    def has_trouble(self, *words: str) -> Json:
        """Wait until Ready is not True for the spec as it is now, and its message has these words; return Ready."""
        return conditions(until(self.read, self._holds(None, words)))["Ready"]

    def tells_of(self, *words: str) -> Json:
        """Wait until the conditions and targets say all these words; return the status."""
        return dict(until(self.read, lambda body: all(word in told(body) for word in words))["status"])

    def is_conflicted(self, *words: str) -> Json:
        """Wait until Conflicted is True with these words; return the condition."""

        def holds(body: Json) -> bool:
            found = conditions(body).get("Conflicted", {})
            return found.get("status") == "True" and all(word in found["message"] for word in words)

        return conditions(until(self.read, holds))["Conflicted"]

    def is_not_conflicted(self) -> None:
        """Wait until Conflicted is not True."""
        until(self.read, lambda body: conditions(body).get("Conflicted", {}).get("status") != "True")

    def places(self) -> dict[str, list[str]]:
        """Return the clusters that each upstream namespace is placed on, as the status says it."""
        found = self.status.get("placement", [])
        return {str(one["namespace"]): sorted(one.get("targets", [])) for one in found}

    def placement(self, namespace: str) -> Json:
        """Return what the status says about the place of an upstream namespace; nothing where it says none."""
        found = self.status.get("placement", [])
        return next((dict(one) for one in found if one["namespace"] == namespace), {})

    def resource_state(self, plural: str) -> str:
        """Return the state of a resource, as the status says it."""
        return next((str(one["state"]) for one in self.status.get("resources", []) if one["resource"] == plural), "")

    def conflicting_paths(self) -> list[str]:
        """Return the paths that the status lists as changed on both sides."""
        return sorted(path for one in self.status.get("conflicts", []) for path in one.get("paths", []))

    def _holds(self, status: str | None, words: Sequence[str]) -> Callable[[Json], bool]:
        def holds(body: Json) -> bool:
            ready = conditions(body).get("Ready", {})
            return (
                (ready.get("status") == status if status else ready.get("status") in ("False", "Unknown"))
                and ready.get("observedGeneration") == body["metadata"]["generation"]
                and all(word in told(body) for word in words)
            )

        return holds


def told(body: Json) -> str:
    """Return all that the status says to people."""
    status = body.get("status", {})
    parts = ("conditions", "targetStatuses", "namespaces", "resources", "placement", "conflicts")
    return json.dumps([status.get(part) for part in parts])


class Workspaces(World):
    """One test's part of an upstream and of the clusters below it. Syncs and SyncTargets live in `home`.

    The namespaces of the upstream that a sync follows have the label `world`.
    """

    def __init__(self, hub: Sandbox, upstream: Cluster, **clusters: Cluster) -> None:
        super().__init__(hub)
        self.upstream = upstream
        self.clusters = clusters
        self._targets: list[Thing] = []
        self._defined: list[Object] = []
        self._logs: dict[int, AuditLog] = {}
        self.credential(UPSTREAM, upstream)
        for name, cluster in clusters.items():
            self.credential(name, cluster)
            self.target(name, **LABELS.get(name, {}))

    # What leads to clusters.

    def credential(self, name: str, cluster: Cluster, *, server: str = "") -> None:
        """Put a kubeconfig for a cluster beside the syncs, in place of the one that was there."""
        self.keep_credential(name, dict(cluster.secret(server=server).data or {}))

    def keep_credential(self, name: str, data: Mapping[str, str]) -> None:
        """Put a Secret with these values beside the syncs, in place of the one that was there."""
        path = f"/api/v1/namespaces/{self.home}/secrets/{name}?fieldManager=somebody&force=true"
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": dict(data)}
        self.sandbox.request("PATCH", path, body)

    def target(self, name: str, *, secret: str = "", **labels: str) -> Thing:
        """Declare a cluster as a SyncTarget."""
        made = self.find_target(name)
        connection = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": secret or name}}
        head = {"apiVersion": API_VERSION, "kind": "SyncTarget", "metadata": {"name": name, "labels": labels}}
        made.create({**head, "spec": {"connection": connection}})
        self._targets.append(made)
        return made

    def find_target(self, name: str) -> Thing:
        """Return a SyncTarget, there or not."""
        return Thing(self.sandbox, f"/apis/{API_VERSION}/namespaces/{self.home}/synctargets", name)

    def resources_of(self, target: str) -> dict[str, str]:
        """Return the resources that a SyncTarget lists, with their state."""
        found = self.find_target(target).read().get("status", {}).get("syncedResources", [])
        return {entry["name"]: entry["state"] for entry in found}

    def has_target(self, target: str, status: str = "True") -> None:
        """Wait until a SyncTarget is Ready, or not."""
        until(self.find_target(target).read, lambda body: conditions(body).get("Ready", {}).get("status") == status)

    # The syncs.

    def wsync(
        self,
        name: str = "sync",
        *resources: str | Json,
        to: Sequence[str] = ("east",),
        metadata: Mapping[str, Any] | None = None,
        **spec: Any,
    ) -> WorkspaceSync:
        """Create a sync of resources, ConfigMaps unless told otherwise; None leaves a field of its spec out."""
        made = WorkspaceSync(self.sandbox, self.home, name)
        made.create(self.manifest(name, *resources, to=to, metadata=metadata, **spec))
        self._syncs.append(made)
        return made

    def manifest(
        self,
        name: str = "sync",
        *resources: str | Json,
        to: Sequence[str] = ("east",),
        metadata: Mapping[str, Any] | None = None,
        **spec: Any,
    ) -> Json:
        """Return a sync as `wsync` would make it."""
        named = [resource(one) if isinstance(one, str) else one for one in resources or ("configmaps",)]
        whole = {
            "upstream": {"connection": {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": UPSTREAM}}},
            "downstream": {"syncTargets": list(to)},
            "resources": named,
            "namespaces": self.followed(),
            **spec,
        }
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {**(metadata or {}), "name": name, "namespace": self.home},
            "spec": self.acting({key: value for key, value in whole.items() if value is not None}),
        }

    def followed(self, **more: Any) -> Json:
        """Name the namespaces of this test, as `spec.namespaces` does."""
        return {"selector": {"matchLabels": {"world": self.name}}, **more}

    # The objects on both sides.

    def above(self, short: str, **labels: str) -> str:
        """Make a namespace of the upstream that the syncs follow."""
        return self.namespace_at(self.upstream, f"{self.name}-{short}", world=self.name, **labels)

    def namespace_at(self, cluster: Cluster, name: str, **labels: str) -> str:
        """Make a namespace in a cluster, as somebody who is not us."""
        cluster.sandbox.request("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        return name

    def up(self, kind: str, namespace: str, name: str = "app") -> Object:
        """Return an object of the upstream, there or not."""
        return Object(self.upstream.sandbox, kind, namespace, name, self.served(kind))

    def down(self, kind: str, namespace: str, name: str = "app", *, at: str = "east") -> Object:
        """Return an object of a cluster, there or not."""
        return Object(self.clusters[at].sandbox, kind, namespace, name, self.served(kind))

    def served(self, kind: str) -> tuple[str, str]:
        """Return apiVersion and plural of a kind."""
        return (f"{self.group}/v1", "widgets") if kind == "Widget" else SERVED[kind]

    def data(self, namespace: str, name: str = "app", *, metadata: Json | None = None, **values: str) -> Object:
        """Make a ConfigMap upstream."""
        made = self.up("ConfigMap", namespace, name)
        made.create({"metadata": {**(metadata or {}), "name": name}, "data": values or {"colour": "red"}})
        return made

    def keep(self, namespace: str, name: str = "app", **values: str) -> Object:
        """Make a Secret upstream."""
        made = self.up("Secret", namespace, name)
        made.create({"metadata": {"name": name}, "stringData": values})
        return made

    def deployment(self, namespace: str, name: str = "app", *, metadata: Json | None = None, **spec: Any) -> Object:
        """Make a Deployment upstream."""
        made = self.up("Deployment", namespace, name)
        head = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {**(metadata or {}), "name": name}}
        made.create({**head, "spec": {**deployment_spec(), **spec}})
        return made

    def service(self, namespace: str, name: str = "app", **spec: Any) -> Object:
        """Make a Service upstream."""
        made = self.up("Service", namespace, name)
        head = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}}
        made.create({**head, "spec": {**service_spec(), **spec}})
        return made

    def widget(self, namespace: str, name: str = "app", **spec: Any) -> Object:
        """Make an object of a kind of its own upstream."""
        made = self.up("Widget", namespace, name)
        head = {"apiVersion": made.api_version, "kind": "Widget", "metadata": {"name": name}}
        until(lambda: _created(made, {**head, "spec": spec}), bool)
        return made

    @property
    def group(self) -> str:
        """The group of the Widgets of this test."""
        return f"{self.name}.example.com"

    def widgets(self, **more: Any) -> Json:
        """Name the Widgets of this test as a sync does."""
        return {"group": self.group, "version": "v1", "resource": "widgets", **more}

    def define_widgets(self, cluster: Cluster, *, scope: str = "Namespaced", status: Json | None = None) -> Object:
        """Have a cluster serve the Widgets of this test, with a status of any form or of one."""
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        schema = {**anything, "properties": {"status": {**anything, "properties": status}}} if status else anything
        version = {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}},
        }
        names = {"plural": "widgets", "singular": "widget", "kind": "Widget"}
        spec = {"group": self.group, "scope": scope, "names": names, "versions": [version]}
        served = SERVED["CustomResourceDefinition"]
        made = Object(cluster.sandbox, "CustomResourceDefinition", "", f"widgets.{self.group}", served)
        made.create({"metadata": {"name": made.name}, "spec": spec})
        self._defined.append(made)
        until(made.read, lambda seen: "Established" in str(seen.get("status")))
        return made

    def namespaces_at(self, cluster: str = "east") -> list[str]:
        """Return the namespaces of this test in a cluster."""
        found = self.clusters[cluster].sandbox.request("GET", "/api/v1/namespaces")["items"]
        return sorted(name for one in found if self.name in (name := str(one["metadata"]["name"])))

    def copies_at(self, plural: str = "configmaps", *, cluster: str = "east") -> dict[tuple[str, str], str]:
        """Return the UIDs of the copies of this test in a cluster, by namespace and name."""
        prefix = "/apis/apps/v1" if _GROUPS.get(plural) == "apps" else "/api/v1"
        path = f"{prefix}/{plural}?labelSelector={quote(OWNER_LABEL)}"
        metas = [one["metadata"] for one in self.clusters[cluster].sandbox.request("GET", path)["items"]]
        return {
            (meta["namespace"], meta["name"]): str(meta["uid"]) for meta in metas if self.name in str(meta["namespace"])
        }

    # What was asked of the clusters.

    def mark_at(self, cluster: Cluster) -> int:
        """Return this moment in the audit log of a cluster."""
        return self._log(cluster).mark()

    def written_at(self, cluster: Cluster, since: int) -> list[Entry]:
        """Return the writes of our credential in a cluster since then, about what belongs to this test."""
        assert isinstance(cluster, Remote)
        user = f"system:serviceaccount:{cluster.namespace}:syncline"
        log = self._log(cluster)
        return [
            entry
            for entry in log.writes(user, since=since, until=log.mark())
            if self.name in f"{entry.namespace} {entry.name}" and "dryRun" not in entry.uri
        ]

    def comes_to_rest(self, *syncs: WorkspaceSync) -> None:
        """Check that, after the reconcile in hand, one reconcile after the other writes nothing anywhere."""
        for sync in syncs:
            sync.now()
        clusters = [cluster for cluster in (self.upstream, *self.clusters.values()) if self._is_logged(cluster)]
        marks = [self.mark_at(cluster) for cluster in clusters]
        for _ in range(2):
            for sync in syncs:
                sync.now()
        written = [self.written_at(cluster, mark) for cluster, mark in zip(clusters, marks, strict=True)]
        assert [str(entry) for entries in written for entry in entries] == []

    def _is_logged(self, cluster: Cluster) -> bool:
        return isinstance(cluster, Remote) and cluster.sandbox.audit_log is not None

    def _log(self, cluster: Cluster) -> AuditLog:
        return self._logs.setdefault(id(cluster.sandbox), AuditLog(cluster.sandbox))

    @contextmanager
    def asleep(self, sync: WorkspaceSync) -> Iterator[None]:
        """Sync nothing while people edit both sides."""
        sync.change(suspend=True)
        sync.becomes("Suspended")
        yield
        sync.change(suspend=None)

    def end(self) -> None:
        """Delete the syncs, see that each lets go, and delete their clusters after them."""
        for sync in self._syncs:
            if (body := sync.look()) is not None:
                print(f"{sync.name} said: {told(body)}")  # noqa: T201 - shown where a test fails
        super().end()
        for sync in self._syncs:
            if not lets_go(sync):
                sync.edit_if_there(
                    lambda body: body["metadata"].setdefault("annotations", {}).update({ABANDON: "true"})
                )
                sync.gone()
        for made in (*self._targets, *self._defined):
            made.delete()


def lets_go(sync: Sync) -> bool:
    """Whether a deleted sync goes by itself; not if it still says after some tries that it cannot remove its copies."""
    deadline = time.monotonic() + LETS_GO
    failing_since: float | None = None
    while (body := sync.look()) is not None:
        now = time.monotonic()
        if conditions(body).get("Ready", {}).get("reason") != "CleanupFailed":
            failing_since = None
        elif failing_since is None:
            failing_since = now
        if now > deadline or (failing_since is not None and now - failing_since > FAILS_TO):
            return False
        time.sleep(LAST_POLL)
    return True


def report(thing: Object, **status: Any) -> None:
    """Write a status by hand, as the controllers of a cluster do; once more if somebody was faster."""
    while (body := thing.look()) is not None:
        body["status"] = {**body.get("status", {}), **status}
        try:
            thing.sandbox.request("PUT", f"{thing.path}/status?fieldManager=controller", body)
        except RequestError as error:
            if error.status not in (404, 409):
                raise
        else:
            return


def run_pods(cluster: Cluster, namespace: str, count: int) -> None:
    """Say of so many pods of a namespace that they run, and of the others that they do not.

    There is no kubelet: the controllers of the cluster count what stands here.
    """
    pods = until(lambda: _pods(cluster, namespace), lambda seen: len(seen) >= count)
    for number, pod in enumerate(sorted(pods, key=lambda one: one.name)):
        _say(pod, "True" if number < count else "False")


def run_every_pod(cluster: Cluster, namespace: str) -> None:
    """Say of all pods of a namespace that they run, also while a controller takes some away."""
    for pod in _pods(cluster, namespace):
        _say(pod, "True")


def _pods(cluster: Cluster, namespace: str) -> list[Object]:
    found = cluster.sandbox.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    metas = [pod["metadata"] for pod in found if "deletionTimestamp" not in pod["metadata"]]
    return [Object(cluster.sandbox, "Pod", namespace, meta["name"], SERVED["Pod"]) for meta in metas]


def _say(pod: Object, ready: str) -> None:
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": _LONG_AGO}
    if pod.look() is not None:
        report(pod, phase="Running", conditions=[condition])


_LONG_AGO = "2026-01-01T00:00:00Z"


def _created(thing: Object, body: Json) -> bool:
    """Create an object, once its kind is served."""
    try:
        thing.create(body)
    except RequestError as error:
        if error.status != 404:
            raise
        return False
    return True


def kubeconfig_of(wire: SecretWire) -> str:
    """Return the kubeconfig that a Secret holds."""
    return base64.b64decode((wire.data or {})["value"]).decode()
