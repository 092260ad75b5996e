"""The API paths of the installed objects: the installer needs no discovery."""

from syncline.deploy.text import Manifest
from syncline.kube.resources import CRDS, NAMESPACES, SERVICEACCOUNTS, Resource

_RBAC = ("rbac.authorization.k8s.io", "v1")
_ADMISSION = ("admissionregistration.k8s.io", "v1")
_RESOURCES = (
    NAMESPACES,
    CRDS,
    SERVICEACCOUNTS,
    Resource("", "v1", "services", "Service"),
    Resource(*_RBAC, "clusterroles", "ClusterRole", namespaced=False),
    Resource(*_RBAC, "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    Resource(*_RBAC, "roles", "Role"),
    Resource(*_RBAC, "rolebindings", "RoleBinding"),
    Resource(*_ADMISSION, "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False),
    Resource(*_ADMISSION, "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", namespaced=False),
    Resource(*_ADMISSION, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False),
    Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
    Resource("", "v1", "services", "Service"),
    Resource("apps", "v1", "deployments", "Deployment"),
)
_BY_KIND = {(resource.api_version, resource.kind): resource for resource in _RESOURCES}


def resource(manifest: Manifest) -> Resource:
    """Return the resource of a manifest that `everything` lists; KeyError for other kinds."""
    return _BY_KIND[manifest["apiVersion"], manifest["kind"]]
