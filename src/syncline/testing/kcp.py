"""Workspaces of a real kcp: made, filled, deleted; and an API export that workspaces bind to."""

import base64
import functools
import secrets
import time
from collections.abc import Callable, Iterable
from typing import Any, Self

from syncline.sandbox import Access, RequestError, Sandbox
from syncline.testing.workload_crds import workload_crds

WAIT_SECONDS = 120.0
_POLL_SECONDS = 0.05
_WORKSPACES = "/apis/tenancy.kcp.io/v1alpha1/workspaces"
_APIS = "/apis/apis.kcp.io"
_BINDINGS = f"{_APIS}/v1alpha2/apibindings"
_CLAIMED = ("configmaps", "secrets", "namespaces")
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class KcpWorkspace(Access):
    """A workspace that is Ready, with admin access to it.

    `path` is as in `root:team`, `cluster` the name of its logical cluster, `kubeconfig` a self-contained kubeconfig
    whose server is the workspace. Requests are of the workspace: `workspace.request("GET", "/api/v1/namespaces")`.
    """

    def __init__(self, kcp: Sandbox, path: str, cluster: str) -> None:
        super().__init__(kcp.folder, f"{kcp.server.removesuffix('/root')}/{path}", kcp.ca, kcp.token)
        self.path = path
        self.name = path.rpartition(":")[2]
        self.cluster = cluster
        self.kubeconfig = self.kubeconfig_for(kcp.token, path)
        self._kcp = kcp

    @classmethod
    def create(cls, kcp: Sandbox, name: str | None = None, parent: str = "root") -> Self:
        """Create a workspace of type universal below another one. Returns when it is ready."""
        name = name or f"w-{secrets.token_hex(5)}"
        above = f"{kcp.server.removesuffix('/root')}/{parent}"
        requests = Access(kcp.folder, above, kcp.ca, kcp.token)
        body = {
            "apiVersion": "tenancy.kcp.io/v1alpha1",
            "kind": "Workspace",
            "metadata": {"name": name},
            "spec": {"type": {"name": "universal", "path": "root"}},
        }
        requests.request("POST", _WORKSPACES, body)

        def made() -> dict[str, Any] | None:
            now = requests.request("GET", f"{_WORKSPACES}/{name}")
            return now if now.get("status", {}).get("phase") == "Ready" else None

        cluster = _wait(made, f"workspace {parent}:{name} is not Ready")["spec"]["cluster"]
        workspace = cls(kcp, f"{parent}:{name}", cluster)
        workspace.wait_for("/api/v1/namespaces/default")
        return workspace

    def child(self, name: str | None = None) -> "KcpWorkspace":
        """Create a workspace below this one. It is deleted with this one."""
        return KcpWorkspace.create(self._kcp, name, self.path)

    def delete(self) -> None:
        """Delete the workspace, if it exists. kcp ends the deletion after this returns."""
        self._ignoring_absence("DELETE", f"{_WORKSPACES}/{self.name}")

    def is_gone(self) -> bool:
        """Whether the deletion of a workspace has ended."""
        return self._ignoring_absence("GET", f"{_WORKSPACES}/{self.name}") is None

    def serve(self, crds: Iterable[dict[str, Any]]) -> None:
        """Let the workspace serve more kinds. Returns when discovery and OpenAPI have them, after 5 seconds."""
        crds = list(crds)
        for crd in crds:
            self.request("POST", _CRDS, crd)
        for crd in crds:
            spec = crd["spec"]
            for version in spec["versions"]:
                self.wait_for_kind(spec["group"], version["name"], spec["names"]["plural"])
                # Also of the core group, whose own kinds are at api/v1.
                document = f"apis/{spec['group']}/{version['name']}"
                self.wait_for("/openapi/v3", functools.partial(_lists, document))

    def serve_workloads(self) -> None:
        """Let the workspace serve `deployments.apps` (with status and scale) and `services` (with status)."""
        self.serve(workload_crds())

    def wait_for_kind(self, group: str, version: str, plural: str) -> None:
        """Wait until discovery lists a kind, and its objects can be listed."""
        folder = f"/apis/{group}/{version}" if group else f"/api/{version}"
        self.wait_for(folder, lambda found: any(one["name"] == plural for one in found["resources"]))
        self.wait_for(f"{folder}/{plural}")

    def wait_for(self, path: str, check: Callable[[dict[str, Any]], bool] = bool) -> dict[str, Any]:
        """Wait until a GET of the path succeeds and the answer passes the check; the answer."""

        def answer() -> dict[str, Any] | None:
            try:
                found = self.request("GET", path)
            except RequestError:
                return None
            return found if check(found) else None

        return _wait(answer, f"{self.path} does not serve {path}")

    def kubeconfig_secret(self, name: str) -> dict[str, Any]:
        """Make the Secret by which a cluster connects to this workspace."""
        content = base64.b64encode(self.kubeconfig.read_bytes()).decode()
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"kubeconfig": content}}

    def _ignoring_absence(self, method: str, path: str) -> dict[str, Any] | None:
        parent = self.path.rpartition(":")[0]
        above = Access(self.folder, f"{self._kcp.server.removesuffix('/root')}/{parent}", self.ca, self.token)
        try:
            return above.request(method, path)
        except RequestError as error:
            if error.status in (403, 404):  # 403: the parent is gone as well
                return None
            raise


class KcpExport:
    """An APIExport of Deployments and Services that claims ConfigMaps, Secrets and namespaces.

    `workspace` is the provider's, `name` the export's. Objects that are listed or watched `everywhere` name their
    logical cluster in the annotation `kcp.io/cluster`.
    """

    def __init__(self, workspace: KcpWorkspace, name: str = "apps") -> None:
        self.workspace = workspace
        self.name = name
        self.claims = [{"group": "", "resource": claimed, "verbs": ["*"]} for claimed in _CLAIMED]
        exported = [self._publish(crd["spec"]) for crd in workload_crds()]
        spec = {"resources": exported, "permissionClaims": self.claims}
        self._post(workspace, "v1alpha2/apiexports", "APIExport", name, spec)

    @property
    def url(self) -> str:
        """The address of the export's virtual workspace, which it gets once a workspace is bound."""
        path = f"{_APIS}/v1alpha1/apiexportendpointslices/{self.name}"
        found = self.workspace.wait_for(path, lambda found: bool(found.get("status", {}).get("endpoints")))
        return str(found["status"]["endpoints"][0]["url"])

    @property
    def everywhere(self) -> Access:
        """Access to what is exported and claimed in all workspaces that are bound."""
        return self.access("*")

    def access(self, cluster: str) -> Access:
        """Give access to what is exported and claimed in one logical cluster, which goes by its name, not its path."""
        kcp = self.workspace
        return Access(kcp.folder, f"{self.url}/clusters/{cluster}", kcp.ca, kcp.token)

    def bind(self, workspace: KcpWorkspace) -> None:
        """Bind a workspace and accept all claims; returns once it serves the kinds."""
        accepted = [{**claim, "state": "Accepted", "selector": {"matchAll": True}} for claim in self.claims]
        reference = {"export": {"path": self.workspace.path, "name": self.name}}
        spec = {"reference": reference, "permissionClaims": accepted}
        self._post(workspace, "v1alpha2/apibindings", "APIBinding", self.name, spec)
        self._wait_for_binding(workspace, lambda status: status.get("phase") == "Bound")
        for crd in workload_crds():
            workspace.wait_for_kind(crd["spec"]["group"], "v1", crd["spec"]["names"]["plural"])

    def reject(self, workspace: KcpWorkspace, resource: str) -> None:
        """Take back what a workspace has accepted of one claim; returns once that is in force."""
        binding = workspace.request("GET", f"{_BINDINGS}/{self.name}")
        for claim in binding["spec"]["permissionClaims"]:
            if claim["resource"] == resource:
                claim["state"] = "Rejected"
        workspace.request("PUT", f"{_BINDINGS}/{self.name}", binding)
        self._wait_for_binding(
            workspace,
            lambda status: all(claim["resource"] != resource for claim in status.get("appliedPermissionClaims", [])),
        )

    def unbind(self, workspace: KcpWorkspace) -> None:
        """Delete a workspace's binding, with which kcp deletes its Deployments and Services."""
        workspace.request("DELETE", f"{_BINDINGS}/{self.name}")

    def _publish(self, spec: dict[str, Any]) -> dict[str, Any]:
        versions = [{**each, "schema": each["schema"]["openAPIV3Schema"]} for each in spec["versions"]]
        name = f"v1.{spec['names']['plural']}.{spec['group'] or 'core'}"
        schema = {"group": spec["group"], "names": spec["names"], "scope": spec["scope"], "versions": versions}
        self._post(self.workspace, "v1alpha1/apiresourceschemas", "APIResourceSchema", name, schema)
        return {"group": spec["group"], "name": spec["names"]["plural"], "schema": name, "storage": {"crd": {}}}

    def _wait_for_binding(self, workspace: KcpWorkspace, check: Callable[[dict[str, Any]], bool]) -> None:
        workspace.wait_for(f"{_BINDINGS}/{self.name}", lambda found: check(found.get("status", {})))

    @staticmethod
    def _post(workspace: KcpWorkspace, where: str, kind: str, name: str, spec: dict[str, Any]) -> None:
        api_version = f"apis.kcp.io/{where.partition('/')[0]}"
        body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        workspace.request("POST", f"{_APIS}/{where}", body)


def _lists(document: str, index: dict[str, Any]) -> bool:
    return document in index["paths"]


def _wait(answer: Callable[[], dict[str, Any] | None], failure: str) -> dict[str, Any]:
    deadline = time.monotonic() + WAIT_SECONDS
    while (found := answer()) is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{failure} after {WAIT_SECONDS:g} s")
        time.sleep(_POLL_SECONDS)
    return found
