"""Endpoints and EndpointSlices of a target, in the form in which they are written next to their Service upstream. Pure.

References to objects and nodes of the target are removed: the addresses, ports and conditions stay.
"""

from collections.abc import Mapping
from typing import Any

from syncline.core.digest import DigestKey, body_digest, short_digest
from syncline.core.objects import Body, Desired, Target

Json = dict[str, Any]

ENDPOINTS = "Endpoints"
SLICES = "EndpointSlice.discovery.k8s.io"
SERVICE_LABEL = "kubernetes.io/service-name"
_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
_SKIP_MIRROR = "endpointslice.kubernetes.io/skip-mirror"
_OF_TARGET = frozenset({"targetRef", "nodeName", "hints", "deprecatedTopology"})
_LONGEST_NAME = 253
_HASH = 6


def service_of(kind: str, name: str, labels: Mapping[str, str]) -> str:
    """Return the Service of an Endpoints or EndpointSlice of a target; empty if it has none."""
    return name if kind == ENDPOINTS else labels.get(SERVICE_LABEL, "")


def upstream_name(kind: str, name: str, target: str) -> str:
    """Return the name upstream; `target` is the name of the target where there are several, else empty.

    The hash keeps names apart that read the same, such as `a-b` of `c` and `a` of `b-c`.
    """
    if kind == ENDPOINTS or not target:
        return name
    mark = short_digest(target, name)[:_HASH]
    return f"{f'{name}-{target}'[: _LONGEST_NAME - _HASH - 1].rstrip('-.')}-{mark}"


def origin_of(target: str, place: Target) -> str:
    """Return the name of an object of a target in the marker of its upstream copy."""
    return f"{target}/{place.kind}/{place.namespace}/{place.name}"


def read_origin(source: str) -> tuple[str, Target] | None:
    """Return the target and the object that a marker names; None if it names none."""
    parts = source.split("/")
    if len(parts) != 4 or parts[1] not in (ENDPOINTS, SLICES):  # noqa: PLR2004 - as `origin_of` writes it
        return None
    return parts[0], Target(parts[2], parts[3], parts[1])


def desired_upstream(manifest: Mapping[str, Any], place: Target, service: str, origin: str, key: DigestKey) -> Desired:
    """Return the desired upstream object for an Endpoints or EndpointSlice of a target."""
    if place.kind == ENDPOINTS:
        fields: Json = {"subsets": [_subset(one) for one in manifest.get("subsets") or ()]}
        labels = {_SKIP_MIRROR: "true"}
        body = Body("v1", "Endpoints", fields)
    else:
        fields = {name: manifest[name] for name in ("addressType", "ports") if manifest.get(name) is not None}
        fields["endpoints"] = [_without_names(one) for one in manifest.get("endpoints") or ()]
        labels = {SERVICE_LABEL: service, _MANAGED_BY: "syncline.dev"}
        body = Body("discovery.k8s.io/v1", "EndpointSlice", fields)
    digest = body_digest(fields, key)
    return Desired(
        target=place, body=body, digest=digest, key=key.id, source=origin, revision=digest[:16], labels=labels
    )


def _subset(subset: Mapping[str, Any]) -> Json:
    return {
        name: [_without_names(one) for one in value] if name != "ports" else value
        for name, value in subset.items()
        if value
    }


def _without_names(endpoint: Mapping[str, Any]) -> Json:
    return {name: value for name, value in endpoint.items() if name not in _OF_TARGET}
