"""Reviews by the API server: the user of a token, and the rights of a user."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from syncline.kube.client import Client
from syncline.kube.errors import Forbidden, NotFound
from syncline.kube.resources import Resource

TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False)
OWN_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)

OWN_REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)


class User(Struct, frozen=True):
    """A user that the API server has authenticated."""

    username: str = ""
    uid: str = ""
    groups: list[str] = field(default_factory=list)
    extra: dict[str, list[str]] = field(default_factory=dict)


class _TokenStatus(Struct, frozen=True):
    authenticated: bool = False
    user: User | None = None
    audiences: list[str] | None = None


class _TokenReview(Struct, frozen=True):
    status: _TokenStatus = field(default_factory=_TokenStatus)


class _OwnStatus(Struct, frozen=True, rename="camel"):
    user_info: User = field(default_factory=User)


class _OwnReview(Struct, frozen=True):
    status: _OwnStatus = field(default_factory=_OwnStatus)


class _AccessStatus(Struct, frozen=True):
    allowed: bool = False
    denied: bool = False


class _AccessReview(Struct, frozen=True):
    status: _AccessStatus = field(default_factory=_AccessStatus)


async def review_token(client: Client, token: str, audience: str = "") -> User | None:
    """Return the user of a token; None for an unknown token, and for one that is not for this audience.

    Without an audience, the token must be for the API server.
    """
    wanted = {"audiences": [audience]} if audience else {}
    body = {"apiVersion": TOKEN_REVIEWS.api_version, "kind": TOKEN_REVIEWS.kind, "spec": {"token": token, **wanted}}
    status = (await client.create(TOKEN_REVIEWS, body, type=_TokenReview)).status
    if audience and audience not in (status.audiences or ()):
        return None
    return status.user if status.authenticated and status.user is not None and status.user.username else None


async def own_name(client: Client) -> str:
    """Return the user of this client; empty if the API server does not return it."""
    body = {"apiVersion": OWN_REVIEWS.api_version, "kind": OWN_REVIEWS.kind}
    try:
        return (await client.create(OWN_REVIEWS, body, type=_OwnReview)).status.user_info.username
    except (NotFound, Forbidden):
        return ""


async def may_get_url(client: Client, user: User, path: str) -> bool:
    """Ask whether a user may GET a path that is not a resource."""
    asked = {"nonResourceAttributes": {"path": path, "verb": "get"}}
    subject = {"user": user.username, "uid": user.uid, "groups": user.groups, "extra": user.extra}
    return await _is_allowed(client, ACCESS_REVIEWS, {**asked, **subject})


async def may_self(client: Client, attributes: Mapping[str, str], *, fair_key: str = "") -> bool:
    """Ask whether the user of this client has a right to a resource."""
    return await _is_allowed(client, OWN_ACCESS_REVIEWS, {"resourceAttributes": dict(attributes)}, fair_key)


async def may_user(client: Client, user: str, attributes: Mapping[str, str], *, fair_key: str = "") -> bool:
    """Ask whether a user, with the groups that the API server adds, has a right to a resource."""
    asked = {"resourceAttributes": dict(attributes), "user": user, "groups": groups_of(user)}
    return await _is_allowed(client, ACCESS_REVIEWS, asked, fair_key)


def groups_of(user: str) -> list[str]:
    """Return the groups that the API server adds to a user."""
    if not user.startswith("system:serviceaccount:"):
        return ["system:authenticated"]
    return ["system:serviceaccounts", f"system:serviceaccounts:{user.split(':')[2]}", "system:authenticated"]


async def _is_allowed(client: Client, resource: Resource, spec: Mapping[str, Any], fair_key: str = "") -> bool:
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
    status = (await client.create(resource, body, type=_AccessReview, fair_key=fair_key)).status
    return status.allowed and not status.denied
