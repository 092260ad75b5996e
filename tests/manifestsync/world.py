"""A scene of its own for one test of ManifestSync: objects of any kind, with the verbs that the tests are told in."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from tests.configmapsync.world import CopiedThing, Json, Sync, Thing, World, until

from syncline import deploy
from syncline.api.common import API_VERSION
from syncline.api.manifestsync import KIND, PLURAL
from syncline.core.ownership import MARKER
from syncline.sandbox import Sandbox
from syncline.testing.audit import OPERATOR, AuditLog, Entry

# apiVersion and plural of the kinds that the tests work with.
KINDS: dict[str, tuple[str, str]] = {
    "ConfigMap": ("v1", "configmaps"),
    "CustomResourceDefinition": ("apiextensions.k8s.io/v1", "customresourcedefinitions"),
    "Deployment": ("apps/v1", "deployments"),
    "Ingress": ("networking.k8s.io/v1", "ingresses"),
    "Job": ("batch/v1", "jobs"),
    "LimitRange": ("v1", "limitranges"),
    "PersistentVolumeClaim": ("v1", "persistentvolumeclaims"),
    "PodTemplate": ("v1", "podtemplates"),
    "PriorityClass": ("scheduling.k8s.io/v1", "priorityclasses"),
    "ReplicationController": ("v1", "replicationcontrollers"),
    "ResourceQuota": ("v1", "resourcequotas"),
    "Role": ("rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": ("rbac.authorization.k8s.io/v1", "rolebindings"),
    "Secret": ("v1", "secrets"),
    "Service": ("v1", "services"),
    "ServiceAccount": ("v1", "serviceaccounts"),
}
CLUSTER_WIDE = frozenset({"PriorityClass"})
_OWN = frozenset({"manifestsyncs", "configmapsyncs", "configsyncs", "events"})


class Object(CopiedThing):
    """An object of any kind, there or not; without a namespace, of a kind that is in none."""

    def __init__(self, sandbox: Sandbox, kind: str, namespace: str, name: str, served: tuple[str, str]) -> None:
        self.api_version, plural = served
        prefix = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        super().__init__(
            sandbox, f"{prefix}/namespaces/{namespace}/{plural}" if namespace else f"{prefix}/{plural}", name
        )
        self.kind = kind
        self.namespace = namespace

    @property
    def ref(self) -> Json:
        """The object as a sync names it."""
        namespace = {"namespace": self.namespace} if self.namespace else {}
        return {"apiVersion": self.api_version, "kind": self.kind, "name": self.name, **namespace}

    @property
    def spec(self) -> Json:
        return dict(self.read()["spec"])

    @property
    def version(self) -> str:
        return str(self.read()["metadata"]["resourceVersion"])

    @property
    def marker(self) -> Json:
        """What our mark says."""
        return dict(msgspec.json.decode(_meta(self.read(), "annotations")[MARKER]))

    @property
    def values(self) -> dict[str, str]:
        """The values of a Secret, as text."""
        return {key: base64.b64decode(value).decode() for key, value in (self.read().get("data") or {}).items()}

    def at(self, *path: str | int) -> Any:
        """Return the value at a path; None where there is none."""
        return _at(self.read(), path)

    def put(self, *path: str | int, value: object, manager: str = "somebody") -> None:
        """Set the value at a path; None takes it away."""

        def change(body: Json) -> None:
            *way, last = path
            place: Any = body
            for step in way:
                place = place[step] if isinstance(step, int) else place.setdefault(step, {})
            if value is None:
                del place[last]
            else:
                place[last] = value

        self.edit(change, manager)

    def shows(self, *path: str | int, value: object) -> None:
        """Wait until the value at a path is this one; None: until there is none."""
        until(self.look, lambda seen: seen is not None and _at(seen, path) == value)

    def holds(self, **values: str) -> None:
        """Wait until a Secret holds exactly these values."""
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
        until(self.look, lambda seen: seen is not None and (seen.get("data") or {}) == encoded)

    def holds_data(self, **values: str) -> None:
        """Wait until a ConfigMap holds exactly these values."""
        until(self.look, lambda seen: seen is not None and (seen.get("data") or {}) == values)

    def keep(self, manager: str = "somebody", **values: str | None) -> None:
        """Set values of a Secret; None removes one."""

        def change(body: Json) -> None:
            data = dict(body.get("data") or {})
            for key, value in values.items():
                if value is None:
                    data.pop(key)
                else:
                    data[key] = base64.b64encode(value.encode()).decode()
            body["data"] = data

        self.edit(change, manager)

    def appears(self) -> None:
        until(self.look, lambda seen: seen is not None)


class ManifestSync(Sync):
    """A ManifestSync."""

    def __init__(self, sandbox: Sandbox, namespace: str, name: str) -> None:
        super().__init__(sandbox, namespace, name)
        Thing.__init__(self, sandbox, f"/apis/{API_VERSION}/namespaces/{namespace}/{PLURAL}", name)

    def into(self, *namespaces: str, **more: object) -> None:
        """Change the namespaces of the copies."""
        self.change(targets={"inCluster": {"namespaces": list(namespaces), **more}})


class Manifests(World):
    """A world with objects of any kind. Syncs and sources live in `home`."""

    def __init__(self, sandbox: Sandbox, *, account: str | None = None) -> None:
        super().__init__(sandbox, account=account)
        self._log = AuditLog(sandbox)
        self._made: list[Thing] = []

    def find(self, kind: str, namespace: str = "", name: str = "app") -> Object:
        """Return an object, there or not."""
        return Object(self.sandbox, kind, namespace, name, KINDS[kind])

    def make(self, kind: str, namespace: str | None = None, name: str = "app", **body: object) -> Object:
        """Create an object as somebody who is not us: at home, unless told otherwise."""
        where = "" if kind in CLUSTER_WIDE else namespace or self.home
        made = self.find(kind, where, name)
        metadata = body.pop("metadata", {})
        assert isinstance(metadata, dict)
        made.create({**body, "metadata": {**metadata, "name": name}})
        if not where:
            self._made.append(made)
        return made

    def secret(self, name: str = "app", *, namespace: str | None = None, **values: str) -> Object:
        """Create a Secret with these values."""
        return self.make("Secret", namespace, name, stringData=values or {"password": "red"})

    def deployment(self, name: str = "app", *, namespace: str | None = None, **spec: object) -> Object:
        """Create a Deployment."""
        return self.make("Deployment", namespace, name, spec={**deployment_spec(), **spec})

    def service(self, name: str = "app", *, namespace: str | None = None, **spec: object) -> Object:
        """Create a Service."""
        return self.make("Service", namespace, name, spec={**service_spec(), **spec})

    def msync(
        self,
        name: str = "sync",
        *sources: Object,
        into: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        **spec: object,
    ) -> ManifestSync:
        """Create a sync at home of these sources."""
        made = ManifestSync(self.sandbox, self.home, name)
        self._syncs.append(made)
        named: Json = {}
        if sources:
            refs = [source.ref for source in sources]
            named = {"sourceRef": refs[0]} if len(refs) == 1 else {"sourceRefs": refs}
        targets = {"inCluster": {"namespaces": list(into)} if into else {}}
        made.create(
            {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "metadata": {**(metadata or {}), "name": name},
                "spec": self.acting({"targets": targets, **named, **spec}),
            }
        )
        return made

    def define(self, plural: str, kind: str, *versions: str) -> Object:
        """Have the cluster serve a kind of its own, in versions of example.com; the last one is how it is stored."""
        versions = versions or ("v1",)
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        served = [
            {"name": name, "served": True, "storage": name == versions[-1], "schema": {"openAPIV3Schema": schema}}
            for name in versions
        ]
        made = self.find("CustomResourceDefinition", name=f"{plural}.example.com")
        names = {"plural": plural, "singular": kind.lower(), "kind": kind}
        spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": served}
        made.create({"metadata": {"name": made.name}, "spec": spec})
        self._made.append(made)
        until(made.read, lambda seen: "Established" in str(seen.get("status")))
        return made

    @contextmanager
    def granted(self, group: str, plural: str) -> Iterator[None]:
        """Give the operator rights on one more kind, as a cluster admin does, for a while."""
        role = Thing(self.sandbox, "/apis/rbac.authorization.k8s.io/v1/clusterroles", f"{self.name}-{plural}")
        labels = {deploy.names.AGGREGATE_LABEL: "true"}
        rule = {"apiGroups": [group], "resources": [plural], "verbs": ["*"]}
        role.create({"metadata": {"name": role.name, "labels": labels}, "rules": [rule]})
        try:
            yield
        finally:
            role.delete()

    def requests(self, since: int) -> list[Entry]:
        """Return what the operator has asked since then about the namespaces and the objects of this world."""
        return [
            entry
            for entry in self._log.entries(OPERATOR, since=since, until=self.mark())
            if entry.namespace.startswith(self.name) or entry.name.startswith(self.name)
        ]

    def copying(self, since: int) -> list[str]:
        """Return the operator's writes since then to anything but its own syncs and events."""
        return [str(entry) for entry in self.requests(since) if entry.changes and entry.resource not in _OWN]

    def stays_quiet(self, *syncs: Sync) -> None:
        """Check that, after the turn in hand, turn after turn writes nothing."""
        for sync in syncs:
            sync.now()
        mark = self.mark()
        for _ in range(2):
            for sync in syncs:
                sync.now()
        assert self.copying(mark) == []

    def end(self) -> None:
        """Delete everything; what is in no namespace after the syncs, which may have copied it."""
        super().end()
        for made in self._made:
            made.delete()


def deployment_spec(image: str = "example.com/app:1", **labels: str) -> Json:
    """Return the spec of a Deployment, as a person writes one."""
    labels = labels or {"app": "app"}
    container = {
        "name": "app",
        "image": image,
        "env": [{"name": "MODE", "value": "fast"}, {"name": "COLOUR", "value": "red"}],
        "ports": [{"containerPort": 8080}],
    }
    return {
        "replicas": 2,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }


def service_spec() -> Json:
    """Return the spec of a Service, as a person writes one."""
    return {"type": "NodePort", "selector": {"app": "app"}, "ports": [{"name": "http", "port": 80}]}


def _at(found: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        try:
            found = found[step]
        except (KeyError, IndexError):
            return None
    return found


def _meta(body: Json, part: str) -> dict[str, str]:
    return dict(body["metadata"].get(part) or {})
