"""The upstream objects that are copied down, and their fields.

Objects that only describe the upstream itself are never copied. A copy loses everything that refers to the upstream:
its identity there, owners, finalizers, the metadata of kcp, and allocated addresses and ports.
"""

from collections.abc import Mapping
from typing import Any

from syncline.core.sanitize import copied_metadata
from syncline.core.strip import NotCopyable, bound_reason, strip_cluster_fields

Json = dict[str, Any]

_EVENTS = "it tells what happened to another object there"
_ENDPOINTS = "each cluster makes its own; write spec.endpoints: true to send those of the targets up"
_NEVER: Mapping[tuple[str, str], str] = {
    ("", "Event"): _EVENTS,
    ("events.k8s.io", "Event"): _EVENTS,
    ("coordination.k8s.io", "Lease"): "it says who leads there",
    ("", "Endpoints"): _ENDPOINTS,
    ("discovery.k8s.io", "EndpointSlice"): _ENDPOINTS,
}
_HEAD = frozenset({"apiVersion", "kind"})
_ROOT_CA = "kube-root-ca.crt"


def never_taken(group: str, kind: str) -> str:
    """Return why no object of a kind is copied down; empty if the kind is."""
    return _NEVER.get((group, kind), "")


def why_left(manifest: Mapping[str, Any]) -> str:
    """Return why this object is not copied down; empty if it is.

    In addition to the kinds of `never_taken`: certificates that each cluster makes, tokens of service accounts, records
    of Helm, and objects that a controller creates for others.
    """
    group, kind = _kind_of(manifest)
    if why := never_taken(group, kind):
        return why
    if (group, kind) == ("", "ConfigMap") and (manifest.get("metadata") or {}).get("name") == _ROOT_CA:
        return "each cluster makes its own in every namespace"
    return bound_reason(manifest)


def taken_down(manifest: Mapping[str, Any]) -> Json:
    """Return the copied form of an upstream object, with its upstream name and namespace. The manifest is not changed.

    Two sides are compared in this form too: values that a downstream server allocates are stripped in the same way.
    Raises `NotCopyable` if `why_left` gives a reason.
    """
    if why := why_left(manifest):
        raise NotCopyable(why)
    metadata = manifest.get("metadata") or {}
    kept: Json = {name: metadata[name] for name in ("name", "namespace") if name in metadata}
    for part in ("labels", "annotations"):
        if entries := copied_metadata(metadata.get(part) or {}):
            kept[part] = entries
    try:
        body = strip_cluster_fields(manifest)
    except (AttributeError, TypeError):
        # A workspace can serve a kind of Kubernetes by a CRD that allows any shape.
        raise NotCopyable(
            f"{_kind_of(manifest)[1]} {kept.get('name')!r} has a field of a wrong type: correct its spec"
        ) from None
    head: Json = {name: body.pop(name) for name in [*body] if name in _HEAD}
    return {**head, "metadata": kept, **body}


def _kind_of(manifest: Mapping[str, Any]) -> tuple[str, str]:
    return str(manifest.get("apiVersion", "")).rpartition("/")[0], str(manifest.get("kind", ""))
