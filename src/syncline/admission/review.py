"""The messages of the API server: `AdmissionReview` of `admission.k8s.io/v1`."""

import base64
from typing import Any

import msgspec
from msgspec import Struct, field

from syncline.core.injection import Injection, NewPod

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
MOST_WARNINGS = 5
LONGEST_WARNING = 240
"""The API server cuts a warning off after 256 characters."""
_LONGEST_UID = 128


class ReviewError(Exception):
    """A message is not an `AdmissionReview`."""


class _ReviewedResource(Struct, frozen=True):
    group: str = ""
    resource: str = ""


class ReviewRequest(Struct, frozen=True, rename="camel"):
    """A request of the API server. `object` is the new pod as JSON."""

    uid: str
    resource: _ReviewedResource = field(default_factory=_ReviewedResource)
    sub_resource: str = ""
    namespace: str = ""
    operation: str = ""
    dry_run: bool | None = None
    object: msgspec.Raw = field(default_factory=lambda: msgspec.Raw(b"null"))

    @property
    def is_new_pod(self) -> bool:
        """Whether the request is for the creation of a pod."""
        found = self.resource.group, self.resource.resource, self.sub_resource, self.operation
        return found == ("", "pods", "", "CREATE")

    def pod(self) -> NewPod:
        """Return the pod. Raises `ReviewError`."""
        try:
            return msgspec.json.decode(self.object, type=NewPod)
        except (msgspec.MsgspecError, RecursionError):  # not kept as the cause: their text quotes the pod
            raise ReviewError("the pod cannot be read") from None


class _Review(Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    request: ReviewRequest


def read_review(body: bytes) -> ReviewRequest:
    """Return the request of a message. Raises `ReviewError`."""
    try:
        review = msgspec.json.decode(body, type=_Review)
    except (msgspec.MsgspecError, RecursionError):
        raise ReviewError(f"this is not an {KIND}") from None
    if (review.api_version, review.kind) != (API_VERSION, KIND) or not 0 < len(review.request.uid) <= _LONGEST_UID:
        raise ReviewError(f"this is not an {KIND} of {API_VERSION}")
    return review.request


def answer_of(uid: str, done: Injection | None = None) -> bytes:
    """Return the answer: the pod is allowed, with the patch and the warnings of `done`."""
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if done is not None and done.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(done.patch)).decode()
    if done is not None and done.warnings:
        response["warnings"] = [_brief(one) for one in done.warnings[:MOST_WARNINGS]]
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _brief(text: str) -> str:
    """Return a warning on one line, because it becomes an HTTP header."""
    line = "".join(one if one.isprintable() else " " for one in text)
    return line if len(line) <= LONGEST_WARNING else f"{line[: LONGEST_WARNING - 3]}..."
