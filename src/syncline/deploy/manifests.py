"""All manifests, in the order in which a cluster accepts them."""

from syncline.api.crd import crd
from syncline.api.kinds import ALL_KINDS
from syncline.deploy.names import IMAGE, LABELS, NAMESPACE
from syncline.deploy.policy import policy
from syncline.deploy.rights import AS_SHIPPED, Choice, rbac
from syncline.deploy.text import Manifest
from syncline.deploy.workload import deployment, injection


def crds() -> list[Manifest]:
    """Return the CustomResourceDefinitions of all kinds."""
    return [crd(kind) for kind in ALL_KINDS]


def namespace() -> list[Manifest]:
    """Return the operator's namespace, which accepts only restricted pods."""
    level = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": {**LABELS, **level}}}]


def everything(image: str = IMAGE, choice: Choice = AS_SHIPPED) -> list[Manifest]:
    """Return all objects that the operator needs. Each object depends only on objects before it.

    The policies are before the Deployment, so that the operator never reconciles a sync with an unchecked author.
    """
    return [*namespace(), *crds(), *rbac(choice), *policy(), *injection(), *deployment(image, choice.profile)]
