"""A scene of its own for one test of ConfigSync: a repository, and the objects that come of it."""

import json
from collections.abc import Mapping
from typing import Any

import yaml
from tests.configmapsync.world import Json, Sync, Thing, conditions, until
from tests.manifestsync.world import KINDS, Manifests

from syncline.api.common import API_VERSION
from syncline.api.configsync import KIND, PLURAL
from syncline.sandbox import Sandbox
from syncline.testing.gitserver import GitServer, Repository

KINDS.setdefault("Namespace", ("v1", "namespaces"))


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

    def environment(self, name: str) -> Json:
        """Return what the status says of an environment."""
        return next((dict(one) for one in self.status.get("environments", []) if one["name"] == name), {})


class GitWorld(Manifests):
    """A world with a repository of its own, served over https."""

    def __init__(self, sandbox: Sandbox, server: GitServer) -> None:
        super().__init__(sandbox)
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
        body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": {**source, **spec}}
        made.create(body)
        return made


def config_map(name: str = "app", namespace: str | None = None, **data: str) -> Json:
    """Return a ConfigMap as a manifest."""
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **where}, "data": data or {"a": "1"}}


def manifest(api_version: str, kind: str, name: str, namespace: str | None = None, **fields: Any) -> Json:
    """Return a manifest of any kind."""
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **where}, **fields}


def _text(content: Any) -> Any:
    if isinstance(content, dict):
        return json.dumps(content)
    if isinstance(content, list):
        return yaml.safe_dump_all(content)
    return content
