"""Reads the pod from a ServiceAccount token, before the token is verified.

Only a token that names a pod is sent to a TokenReview, and only the review authenticates the pod.
"""

import base64
import binascii
from collections.abc import Mapping

import msgspec
from msgspec import Struct, field

from syncline.core.gateway_plan import AUDIENCE

MAX_TOKEN = 8192
"""The maximum length of a token. Tokens of pods have about 1,200 characters."""

POD_NAME = "authentication.kubernetes.io/pod-name"
POD_UID = "authentication.kubernetes.io/pod-uid"
"""The extra values of a user that a bound token has."""

_ACCOUNT = "system:serviceaccount:"


class PodIdentity(Struct, frozen=True):
    """A pod and its service account. The depot uses it only after the API server has authenticated it."""

    namespace: str
    name: str
    uid: str
    service_account: str


class TokenError(Exception):
    """A token that cannot be that of a pod. The message has the remedy."""


class _Named(Struct, frozen=True):
    name: str = ""
    uid: str = ""


class _Bound(Struct, frozen=True):
    namespace: str = ""
    pod: _Named | None = None
    serviceaccount: _Named = field(default_factory=_Named)


class _TokenClaims(Struct, frozen=True, rename={"bound": "kubernetes.io"}):
    aud: str | list[str] = ""
    bound: _Bound = field(default_factory=_Bound)


def bearer_token(authorization: str) -> str:
    """Return the token of an Authorization header. Raises `TokenError`."""
    scheme, _, token = authorization.partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise TokenError(f"send a ServiceAccount token of the pod for the audience {AUDIENCE} as a bearer token")
    return token


def claimed_pod(token: str) -> PodIdentity:
    """Return the pod that a token names. Raises `TokenError` for a token that cannot be accepted."""
    claims = _claims(token)
    audiences = [claims.aud] if isinstance(claims.aud, str) else claims.aud
    if AUDIENCE not in audiences:
        raise TokenError(f"the token is not for the audience {AUDIENCE}: project a token for it into the pod")
    pod, account, namespace = claims.bound.pod, claims.bound.serviceaccount.name, claims.bound.namespace
    if pod is None or not (pod.name and pod.uid and namespace and account):
        raise TokenError("the token is not bound to a pod: project it into the pod, or request it for the pod")
    return PodIdentity(namespace, pod.name, pod.uid, account)


def proven_pod(username: str, extra: Mapping[str, list[str]]) -> PodIdentity | None:
    """Return the pod of a user that the API server has authenticated; None if the user is no pod."""
    namespace, _, account = username.removeprefix(_ACCOUNT).partition(":")
    names, uids = extra.get(POD_NAME, ()), extra.get(POD_UID, ())
    if not username.startswith(_ACCOUNT) or len(names) != 1 or len(uids) != 1:
        return None
    if not (namespace and account and names[0] and uids[0]):
        return None
    return PodIdentity(namespace, names[0], uids[0], account)


def _claims(token: str) -> _TokenClaims:
    parts = token.split(".") if len(token) <= MAX_TOKEN else ()
    if len(parts) != 3 or not token.isascii():  # noqa: PLR2004 - header, claims, signature
        raise TokenError("this is not a ServiceAccount token")
    try:
        text = base64.b64decode(parts[1] + "=" * (-len(parts[1]) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(text, type=_TokenClaims)
    except (binascii.Error, msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise TokenError("this is not a ServiceAccount token") from None
