"""Examples applied to a sandbox as a user would apply them, and looked at as a user would."""

import base64
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from tests.acting import account_of_tests, acting, empower

from syncline.api.common import GROUP, REQUESTED_AT, VERSION
from syncline.api.kinds import KINDS
from syncline.deploy import Manifest, resource
from syncline.kube import CONFIGMAPS, SECRETS, Resource
from syncline.sandbox import RequestError, Sandbox

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
OWN = {kind.kind: Resource(GROUP, VERSION, kind.plural, kind.kind) for kind in KINDS}
TEKTON = {kind: Resource("tekton.dev", "v1", f"{kind.lower()}s", kind) for kind in ("Task", "Pipeline")}
SYNCS = {"ConfigMapSync", "ManifestSync", "ConfigSync", "WorkspaceSync"}

Check = Callable[[], bool]


def load(path: Path) -> list[Manifest]:
    return [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document]


class Scene:
    """One example in the sandbox; of several syncs, the last one is looked at."""

    def __init__(self, sandbox: Sandbox, eventually: Callable[[Check], None], name: str) -> None:
        self._sandbox = sandbox
        self.eventually = eventually
        self.manifests = self._acting(self.adapted(load(EXAMPLES / name)))
        for manifest in self.manifests:
            eventually(partial(self._is_free, manifest))
            self.apply(manifest)
        self._syncs = [path(manifest) for manifest in self.manifests if manifest["kind"] in SYNCS]
        self._sync = self._syncs[-1]

    def adapted(self, manifests: list[Manifest]) -> list[Manifest]:
        """Return the example as this machine can play it."""
        return manifests

    def _is_free(self, manifest: Manifest) -> bool:
        """Whether nothing of this name is being deleted, such as a namespace of an earlier example."""
        return "deletionTimestamp" not in (self._get(path(manifest)) or {}).get("metadata", {})

    def _acting(self, manifests: list[Manifest]) -> list[Manifest]:
        """Return the example with an account in each sync, where the operator writes nothing with its own rights."""
        account = account_of_tests()
        for manifest in manifests if account else ():
            if manifest["kind"] in SYNCS:
                empower(self._sandbox, manifest["metadata"]["namespace"], account)
                manifest["spec"] = acting(account, manifest["spec"])
        return manifests

    def apply(self, manifest: Manifest, manager: str = "kubectl") -> None:
        self._sandbox.request("PATCH", f"{path(manifest)}?fieldManager={manager}&force=true", manifest)

    def edit(self, namespace: str, name: str, data: dict[str, str]) -> None:
        """Set some keys of a ConfigMap, as somebody else than its author."""
        metadata = {"namespace": namespace, "name": name}
        self.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}, "somebody")

    def ask(self) -> None:
        """Ask for a turn now."""
        self._sandbox.request("PATCH", f"{self._sync}?fieldManager=somebody&force=true", self._request())

    def _request(self) -> Manifest:
        sync = self._get(self._sync) or {}
        metadata = {"name": sync["metadata"]["name"], "annotations": {REQUESTED_AT: "now"}}
        return {"apiVersion": sync["apiVersion"], "kind": sync["kind"], "metadata": metadata}

    def delete(self, namespace: str, name: str) -> None:
        self._sandbox.request("DELETE", CONFIGMAPS.path(namespace, name))

    def delete_sync(self) -> None:
        """Delete the sync, or all of them, and wait until they are gone."""
        for sync in self._syncs:
            self._sandbox.request("DELETE", sync)
        self.eventually(lambda: not any(map(self._get, self._syncs)))

    def config_map(self, namespace: str, name: str) -> dict[str, Any] | None:
        return self._get(CONFIGMAPS.path(namespace, name))

    def data(self, namespace: str, name: str) -> dict[str, str] | None:
        found = self.config_map(namespace, name)
        return None if found is None else found.get("data", {})

    def secret(self, namespace: str, name: str) -> dict[str, str] | None:
        """Return what a Secret says, as text."""
        found = self._get(SECRETS.path(namespace, name))
        held = (found or {}).get("data", {}).items()
        return None if found is None else {key: base64.b64decode(value).decode() for key, value in held}

    def look(self, manifest: Manifest) -> dict[str, Any] | None:
        """Return an object of any kind that the examples use."""
        return self._get(path(manifest))

    def counts(self) -> str:
        """Return the "n/m" of the targets."""
        return str((self._get(self._sync) or {}).get("status", {}).get("targets", {}).get("summary", ""))

    def ready(self) -> tuple[str, str]:
        """Return status and reason of the Ready condition, of the spec as it is now."""
        found = self.condition()
        return found.get("status", ""), found.get("reason", "")

    def condition(self, name: str = "Ready") -> dict[str, str]:
        """Return a condition of the sync, of the spec as it is now."""
        sync = self._get(self._sync) or {}
        status = sync.get("status", {})
        if status.get("observedGeneration") != sync.get("metadata", {}).get("generation"):
            return {}
        return next((each for each in status.get("conditions", ()) if each["type"] == name), {})

    def status(self) -> dict[str, Any]:
        """Return all that the sync reports."""
        return (self._get(self._sync) or {}).get("status", {})

    def targets(self) -> Iterator[dict[str, str]]:
        sync = self._get(self._sync) or {}
        yield from sync.get("status", {}).get("targetStatuses", ())

    def _get(self, path: str) -> dict[str, Any] | None:
        try:
            return self._sandbox.request("GET", path)
        except RequestError as error:
            if error.status != 404:
                raise
            return None


def path(manifest: Manifest) -> str:
    """Return where the API server has an object."""
    known = {"ConfigMap": CONFIGMAPS, "Secret": SECRETS, **OWN, **TEKTON}
    metadata = manifest["metadata"]
    kind = known.get(manifest["kind"]) or resource(manifest)
    return kind.path(metadata.get("namespace"), metadata["name"])
