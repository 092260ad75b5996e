"""A tenant who tries to use the operator's rights, and the policy that keeps her from it."""

from tests.configmapsync.world import Json, Thing
from tests.manifestsync.world import Manifests, ManifestSync

from syncline.api.common import API_VERSION
from syncline.sandbox import RequestError, Sandbox
from syncline.testing.operator import install

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICY = "manifestsyncs-authors.syncline.dev"


class Mallory:
    """A tenant with the role `edit` in one namespace."""

    def __init__(self, world: Manifests) -> None:
        self._sandbox = world.sandbox
        self.namespace = world.namespace("mallory")
        folder = f"/api/v1/namespaces/{self.namespace}/serviceaccounts"
        Thing(world.sandbox, folder, "mallory").create({"metadata": {"name": "mallory"}})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
        subject = {"kind": "ServiceAccount", "name": "mallory", "namespace": self.namespace}
        bindings = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{self.namespace}/rolebindings"
        Thing(world.sandbox, bindings, "mallory").create(
            {"metadata": {"name": "mallory"}, "roleRef": role, "subjects": [subject]}
        )
        self._token = world.sandbox.service_account_token(self.namespace, "mallory")

    def steal(self, namespace: str, name: str, copy: str = "") -> str:
        """Ask for a copy of a Secret of others; return what the API server says, or nothing where it agrees."""
        source = {"apiVersion": "v1", "kind": "Secret", "name": name, "namespace": namespace}
        spec = {"sourceRef": source, "targets": {"inCluster": {"namespaces": [self.namespace]}}}
        spec |= {"targetName": copy} if copy else {}
        body = {"apiVersion": API_VERSION, "kind": "ManifestSync", "metadata": {"name": "theft"}, "spec": spec}
        return self._ask("POST", "", body)

    def edit(self, sync: ManifestSync, namespace: str = "") -> str:
        """Change the namespace of the source, or the spec a little; return what the API server says, if anything."""
        body = sync.read()
        if namespace:
            body["spec"]["sourceRef"]["namespace"] = namespace
            body["spec"]["suspend"] = False  # a little edit that was still let through may have set it
        else:
            body["spec"]["suspend"] = not body["spec"].get("suspend", False)
        return self._ask("PUT", f"/{sync.name}", body)

    def _ask(self, method: str, name: str, body: Json) -> str:
        folder = f"/apis/{API_VERSION}/namespaces/{self.namespace}/manifestsyncs"
        try:
            self._sandbox.request(method, f"{folder}{name}", body, token=self._token)
        except RequestError as refusal:
            return str(refusal)
        return ""


def is_younger(arena: Sandbox, created: str, binding: Thing | None = None) -> bool:
    """Put the binding back, and make sure that it is of a later second than the sync."""
    install(arena)
    binding = binding or Thing(arena, f"{ADMISSION}/validatingadmissionpolicybindings", POLICY)
    if str(binding.read()["metadata"]["creationTimestamp"]) > created:
        return True
    binding.delete()
    return False
