"""People with the rights that a cluster gives to tenants: `edit` in a namespace of their own, and nothing else."""

from typing import Any

from tests.configmapsync.world import Sync, Thing, World, until
from tests.tenancy.accounts import RBAC, is_allowed

from syncline.api.common import API_VERSION
from syncline.api.kinds import KINDS

PLURALS = {kind.kind: kind.plural for kind in KINDS}


class Tenant:
    """Somebody with the built-in role `edit` in one namespace, who acts with a token of their own."""

    def __init__(self, world: World, namespace: str, name: str = "mallory") -> None:
        self._world = world
        self.namespace = namespace
        self.name = name
        self.user = f"system:serviceaccount:{namespace}:{name}"
        self._send("serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
        binding = {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": f"{name}-edits"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        }
        self._send("rolebindings", binding)
        for resource in ("configmaps", "configsyncs"):  # the second comes with a role that is aggregated
            until(lambda: is_allowed(world.sandbox, self.user, namespace, resource, "create"), bool)  # noqa: B023
        self._token = world.sandbox.service_account_token(namespace, name)

    def create(self, api_version: str, kind: str, plural: str, name: str, **body: Any) -> None:
        """Create an object in the own namespace, with no rights but the own."""
        self._send(plural, {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **body}, self._token)

    def sync(self, kind: str, name: str, **spec: Any) -> Sync:
        """Create a sync in the own namespace, with no rights but the own."""
        self.create(API_VERSION, kind, PLURALS[kind], name, spec=spec)
        made = Sync(self._world.sandbox, self.namespace, name)
        Thing.__init__(
            made, self._world.sandbox, f"/apis/{API_VERSION}/namespaces/{self.namespace}/{PLURALS[kind]}", name
        )
        self._world.remember(made)
        return made

    def is_held(self, *, seconds: float) -> bool:
        """Whether the API server lets a write of this tenant wait for longer than that."""
        body = {"metadata": {"generateName": "held-"}}
        path = f"/api/v1/namespaces/{self.namespace}/configmaps?dryRun=All"
        try:
            self._world.sandbox.request("POST", path, body, token=self._token, timeout=seconds)
        except TimeoutError:
            return True
        return False

    def account(self, name: str = "nobody") -> str:
        """Create an account that may do nothing; return its name."""
        self.create("v1", "ServiceAccount", "serviceaccounts", name)
        return name

    def _send(self, plural: str, body: dict[str, Any], token: str | None = None) -> None:
        version = body["apiVersion"]
        prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
        self._world.sandbox.request("POST", f"{prefix}/namespaces/{self.namespace}/{plural}", body, token=token)
