"""Who the operator is, as the API server knows it, and the profile of rights that was installed."""

from typing import Any

from syncline.core.profiles import LABEL, ROLE, Profile, known
from syncline.kube.client import Client
from syncline.kube.errors import Forbidden, NotFound
from syncline.kube.resources import Resource

_OWN_REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)
_CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)


class OwnRights:
    """Unknown until they are learned. Another profile means another start of the operator."""

    def __init__(self) -> None:
        self.learned = False
        self.user = ""
        """Empty where the API server does not tell."""
        self.profile: Profile | None = None
        """None where nothing is installed that names one, or it may not be read."""

    async def learn(self, client: Client) -> None:
        """Ask the API server; raises what any read raises."""
        self.user = await _user(client)
        self.profile = await installed_profile(client)
        self.learned = True


async def installed_profile(client: Client) -> Profile | None:
    """Return the profile that was installed; None where there is none, or whoever asks may not read it."""
    try:
        role: dict[str, Any] = await client.get(_CLUSTER_ROLES, ROLE, metadata_only=True)
    except (NotFound, Forbidden):
        return None
    return known((role["metadata"].get("labels") or {}).get(LABEL, ""))


async def _user(client: Client) -> str:
    body = {"apiVersion": _OWN_REVIEWS.api_version, "kind": _OWN_REVIEWS.kind}
    try:
        answer: dict[str, Any] = await client.create(_OWN_REVIEWS, body)
    except (NotFound, Forbidden):
        return ""
    return str(((answer.get("status") or {}).get("userInfo") or {}).get("username") or "")
