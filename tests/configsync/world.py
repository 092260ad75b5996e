"""A scene of its own for one test of ConfigSync: a repository, and the objects that come of it."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import yaml
from tests.configmapsync.world import Json, Sync, Thing, conditions, until
from tests.manifestsync.world import KINDS, Manifests, Object
from tests.tenancy.accounts import is_allowed

from syncline import deploy
from syncline.api.common import API_VERSION
from syncline.api.configsync import KIND, PLURAL
from syncline.sandbox import RequestError, Sandbox
from syncline.testing.gitserver import GitServer, Repository

KINDS.update(
    {
        "Namespace": ("v1", "namespaces"),
        "StatefulSet": ("apps/v1", "statefulsets"),
        "ValidatingWebhookConfiguration": (
            "admissionregistration.k8s.io/v1",
            "validatingwebhookconfigurations",
        ),
    }
)
_OPERATOR = f"system:serviceaccount:{deploy.NAMESPACE}:{deploy.SERVICE_ACCOUNT}"


class ConfigSync(Sync):
    """A ConfigSync."""

    def __init__(self, sandbox: Sandbox, namespace: str, name: str) -> None:
        super().__init__(sandbox, namespace, name)
        Thing.__init__(self, sandbox, f"/apis/{API_VERSION}/namespaces/{namespace}/{PLURAL}", name)

    @property
    def revision(self) -> str | None:
        return self.status.get("sourceRevision")

    def at(self, commit: str) -> Json:
        """Wait until a commit is applied, and Ready; return the status."""

        def holds(body: Json) -> bool:
            status = body.get("status", {})
            ready = conditions(body).get("Ready", {})
            return status.get("sourceRevision") == commit and ready.get("status") == "True"

        return dict(until(self.read, holds)["status"])

    def holds_at(self, reason: str, commit: str | None = None) -> Json:
        """Wait until Ready has a reason while the status names a commit; return the status."""

        def holds(body: Json) -> bool:
            ready = conditions(body).get("Ready", {})
            known = body.get("status", {}).get("sourceRevision")
            return ready.get("reason") == reason and (commit is None or known == commit)

        return dict(until(self.read, holds)["status"])

    @property
    def history(self) -> list[str]:
        """The commits that were applied, newest first."""
        return [str(entry["revision"]) for entry in self.status.get("history", [])]

    def environment_at(self, name: str, commit: str, ready: str = "True") -> Json:
        """Wait until an environment is at a commit; return what the status says of it."""
        holds = {"sourceRevision": commit, "ready": ready}
        return until(lambda: self.environment(name), lambda one: holds.items() <= one.items())

    def environment(self, name: str) -> Json:
        """Return what the status says of an environment."""
        return next((dict(one) for one in self.status.get("environments", []) if one["name"] == name), {})


class GitWorld(Manifests):
    """A world with a repository of its own, served over https."""

    def __init__(self, sandbox: Sandbox, server: GitServer, *, account: str | None = None) -> None:
        super().__init__(sandbox, account=account)
        self.server = server
        self.repository: Repository = server.repository(self.name)
        self.secret("git-ca", **{"ca.crt": server.ca.decode()})

    @property
    def url(self) -> str:
        return self.server.url(self.name)

    def push(self, files: Mapping[str, Any] | None = None, *, ref: str = "refs/heads/main", **more: Any) -> str:
        """Commit manifests (or texts) and return the commit; None removes a file."""
        contents = {path: _text(content) for path, content in {**(files or {}), **more}.items()}
        return self.repository.commit(contents, ref=ref)

    def git(self, **more: Any) -> Json:
        """Return a source that names the repository."""
        return {"git": {"repo": self.url, "caSecretRef": {"name": "git-ca"}, **more}}

    def csync(self, name: str = "sync", *, git: Mapping[str, Any] | None = None, **spec: Any) -> ConfigSync:
        """Create a sync at home of the repository."""
        made = ConfigSync(self.sandbox, self.home, name)
        self._syncs.append(made)
        source = {} if "source" in spec or "sources" in spec else {"source": self.git(**(git or {}))}
        body = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": name},
            "spec": self.acting({**source, **spec}),
        }
        made.create(body)
        return made

    def custom(self, kind: str, plural: str, namespace: str, name: str = "app") -> Object:
        """Return an object of a kind of the group example.com, there or not."""
        return Object(self.sandbox, kind, namespace, name, ("example.com/v1", plural))

    def leave_behind(self, *things: Thing) -> None:
        """Delete these when the test ends: they are in no namespace."""
        self._made.extend(things)

    @contextmanager
    def seeing_everything(self) -> Iterator[None]:
        """Let the operator list all kinds, for a while."""
        everywhere = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["list"]}
        role = Thing(self.sandbox, "/apis/rbac.authorization.k8s.io/v1/clusterroles", f"{self.name}-list")
        labels = {deploy.names.AGGREGATE_LABEL: "true"}
        role.create({"metadata": {"name": role.name, "labels": labels}, "rules": [everywhere]})
        until(lambda: is_allowed(self.sandbox, _OPERATOR, "", "podtemplates", "list"), bool)
        try:
            yield
        finally:
            role.delete()


def config_map(name: str = "app", namespace: str | None = None, **data: str) -> Json:
    """Return a ConfigMap as a manifest."""
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **where}, "data": data or {"a": "1"}}


def manifest(api_version: str, kind: str, name: str, namespace: str | None = None, **fields: Any) -> Json:
    """Return a manifest of any kind."""
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **where}, **fields}


def definition(plural: str, kind: str) -> Json:
    """Return a CustomResourceDefinition of the group example.com as a manifest."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"{plural}.example.com", spec=spec)


def stateful_set(name: str = "app", image: str = "example.com/app:1") -> Json:
    """Return a StatefulSet as a manifest; nothing here runs it, so its status is what a test writes."""
    labels = {"app": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": image}]}}
    spec = {"replicas": 1, "serviceName": name, "selector": {"matchLabels": labels}, "template": pod}
    return manifest("apps/v1", "StatefulSet", name, spec=spec)


def fares(thing: Object, *, well: bool = True) -> None:
    """Write into the status of a StatefulSet that its pod runs, or that it does not."""
    number = int(well)
    counts = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "currentReplicas")
    while True:
        body = thing.read()
        body["status"] = {
            **dict.fromkeys(counts, number),
            "observedGeneration": body["metadata"]["generation"],
            "currentRevision": "one",
            "updateRevision": "one",
        }
        try:
            thing.sandbox.request("PUT", f"{thing.path}/status", body)
        except RequestError as error:
            if error.status != 409:
                raise
        else:
            return


def _text(content: Any) -> Any:
    if isinstance(content, dict):
        return json.dumps(content)
    if isinstance(content, list):
        return yaml.safe_dump_all(content)
    return content
