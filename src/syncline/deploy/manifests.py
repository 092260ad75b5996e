"""The parts put together, in the order in which a cluster takes them."""

from syncline.api.crd import crd
from syncline.api.kinds import ALL_KINDS
from syncline.deploy.names import IMAGE, LABELS, NAMESPACE
from syncline.deploy.policy import policy
from syncline.deploy.rights import AS_SHIPPED, Choice, rbac
from syncline.deploy.text import Manifest
from syncline.deploy.workload import deployment


def crds() -> list[Manifest]:
    """Return the CustomResourceDefinitions of all kinds."""
    return [crd(kind) for kind in ALL_KINDS]


def namespace() -> list[Manifest]:
    """Return the operator's namespace, which takes restricted pods only."""
    level = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": {**LABELS, **level}}}]


def everything(image: str = IMAGE, choice: Choice = AS_SHIPPED) -> list[Manifest]:
    """Return all that is needed to run the operator; each object only needs those before it.

    The policy comes before the operator: no sync is carried out whose author was not checked.
    """
    return [*namespace(), *crds(), *rbac(choice), *policy(), *deployment(image, choice.profile)]
