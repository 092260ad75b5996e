"""Endpoints of a target beside the Service upstream: addresses go up, what names the target does not."""

import pytest

from syncline.core.digest import DigestKey
from syncline.core.endpoints_upward import (
    ENDPOINTS,
    SERVICE_LABEL,
    SLICES,
    desired_upstream,
    origin_of,
    read_origin,
    service_of,
    upstream_name,
)
from syncline.core.objects import Target

NAMES = {"nodeName": "node-1", "targetRef": {"kind": "Pod", "name": "web-1", "namespace": "east", "uid": "u"}}


def test_a_slice_keeps_addresses_ports_and_conditions_and_loses_what_names_the_target() -> None:
    endpoint = {"addresses": ["10.0.0.1"], "conditions": {"ready": True}, "zone": "a"}
    manifest = {
        "metadata": {"name": "web-x1", "labels": {SERVICE_LABEL: "web", "syncline.dev/owner": "o"}},
        "addressType": "IPv4",
        "endpoints": [{**endpoint, **NAMES, "hints": {"forZones": [{"name": "a"}]}}],
        "ports": [{"port": 80}],
    }
    place = Target("team", "web-x1", SLICES, "upstream")
    desired = desired_upstream(manifest, place, "web", origin_of("east", place), DigestKey())
    assert desired.body is not None
    assert desired.body.fields == {"addressType": "IPv4", "endpoints": [endpoint], "ports": [{"port": 80}]}
    assert desired.labels == {SERVICE_LABEL: "web", "endpointslice.kubernetes.io/managed-by": "syncline.dev"}


def test_endpoints_lose_the_same_and_are_not_mirrored() -> None:
    subsets = [{"addresses": [{"ip": "10.0.0.1", **NAMES}], "notReadyAddresses": [], "ports": [{"port": 80}]}]
    place = Target("team", "web", ENDPOINTS, "upstream")
    desired = desired_upstream({"subsets": subsets}, place, "web", origin_of("east", place), DigestKey())
    assert desired.body is not None
    assert desired.body.fields == {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]}
    assert desired.labels == {"endpointslice.kubernetes.io/skip-mirror": "true"}


@pytest.mark.parametrize("kind", [ENDPOINTS, SLICES])
def test_a_mark_names_the_origin(kind: str) -> None:
    place = Target("team", "web", kind)
    assert read_origin(origin_of("east", place)) == ("east", place)


@pytest.mark.parametrize("source", ["", "Service/team/web", "east/Service/team/web", "a/b/c/d/e"])
def test_the_mark_of_anything_else_names_no_origin(source: str) -> None:
    assert read_origin(source) is None


def test_names_of_several_targets_never_meet() -> None:
    assert upstream_name(SLICES, "web-x1", "") == "web-x1"
    assert upstream_name(ENDPOINTS, "web", "east") == "web"
    assert upstream_name(SLICES, "web-x1", "east").startswith("web-x1-east-")
    assert upstream_name(SLICES, "a-b", "c") != upstream_name(SLICES, "a", "b-c")
    long = [upstream_name(SLICES, "x" * 253, target) for target in ("east", "west")]
    assert len({*long}) == 2
    assert all(len(name) <= 253 for name in long)


def test_the_service_of_an_object() -> None:
    assert service_of(ENDPOINTS, "web", {}) == "web"
    assert service_of(SLICES, "web-x1", {SERVICE_LABEL: "web"}) == "web"
    assert service_of(SLICES, "web-x1", {}) == ""
