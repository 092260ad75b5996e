"""What of an upstream is taken down."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import thorough

from syncline.core.strip import NotCopyable
from syncline.core.upstream_objects import never_taken, taken_down, why_left

Json = dict[str, Any]

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
json = st.recursive(
    scalars, lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=3), inside), max_leaves=8
)


def upstream(kind: str = "ConfigMap", api_version: str = "v1", name: str = "settings", **body: Any) -> Json:
    metadata = {
        "name": name,
        "namespace": "shop",
        "uid": "1",
        "resourceVersion": "7",
        "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": ["example.com/x"],
        "ownerReferences": [{"kind": "Widget", "name": "w", "uid": "2"}],
        "managedFields": [{"manager": "kubectl"}],
        "labels": {
            "app": "shop",
            "claimed.internal.apis.kcp.io/x1": "y",
            "internal.apis.kcp.io/z": "1",
            "kcp.io/l": "1",
        },
        "annotations": {"note": "kept", "kcp.io/cluster": "2x7k", "internal.tenancy.kcp.io/a": "b", "a.kcp.io/b": "c"},
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}


def test_all_that_names_the_upstream_is_stripped() -> None:
    source = upstream(data={"a": "1"}, status={"x": 1})
    before = deepcopy(source)
    assert taken_down(source) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "settings",
            "namespace": "shop",
            "labels": {"app": "shop"},
            "annotations": {"note": "kept"},
        },
        "data": {"a": "1"},
    }
    assert source == before


def test_metadata_that_would_be_empty_is_left_out() -> None:
    assert taken_down({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})["metadata"] == {"name": "a"}


@pytest.mark.parametrize(
    ("spec", "taken"),
    [
        ({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ports": [{"port": 80}]}, {"ports": [{"port": 80}]}),
        ({"clusterIP": "None", "clusterIPs": ["None"]}, {"clusterIP": "None", "clusterIPs": ["None"]}),
        (
            {"type": "LoadBalancer", "healthCheckNodePort": 30001, "ports": [{"port": 80, "nodePort": 30002}]},
            {"type": "LoadBalancer", "ports": [{"port": 80}]},
        ),
    ],
)
def test_addresses_and_ports_that_the_upstream_allocated_stay_there(spec: Json, taken: Json) -> None:
    assert taken_down(upstream("Service", spec=spec))["spec"] == taken


@pytest.mark.parametrize(
    "left",
    [
        upstream(name="kube-root-ca.crt", data={"ca.crt": "x"}),
        upstream("Secret", type="kubernetes.io/service-account-token", data={"token": "c2VjcmV0"}),
        upstream("Event"),
        upstream("Event", "events.k8s.io/v1"),
        upstream("Lease", "coordination.k8s.io/v1"),
        upstream("Endpoints"),
        upstream("EndpointSlice", "discovery.k8s.io/v1"),
    ],
    ids=lambda one: f"{one['kind']} {one['metadata']['name']}",
)
def test_what_describes_the_upstream_is_never_taken(left: Json) -> None:
    why = why_left(left)
    assert why
    assert "c2VjcmV0" not in why
    with pytest.raises(NotCopyable):
        taken_down(left)


@pytest.mark.parametrize(
    "taken",
    [
        upstream("Secret", type="Opaque", data={"a": "MQ=="}),
        upstream("Secret", type="kubernetes.io/tls"),
        upstream("Secret", name="kube-root-ca.crt"),
        upstream("Event", "example.com/v1"),
        upstream("Endpoints", "example.com/v1"),
    ],
    ids=lambda one: f"{one['apiVersion']} {one['kind']}",
)
def test_what_only_has_such_a_name_is_taken(taken: Json) -> None:
    assert why_left(taken) == ""
    assert taken_down(taken)["metadata"]["name"] == taken["metadata"]["name"]


def test_a_kind_is_left_as_a_whole() -> None:
    assert never_taken("coordination.k8s.io", "Lease")
    assert never_taken("apps", "Deployment") == ""


@thorough
@given(
    st.sampled_from(
        [
            ("v1", "Service"),
            ("apps/v1", "Deployment"),
            ("apps/v1", "StatefulSet"),
            ("batch/v1", "Job"),
            ("batch/v1", "CronJob"),
            ("v1", "ServiceAccount"),
            ("v1", "Pod"),
            ("example.com/v1", "Widget"),
        ]
    ),
    st.fixed_dictionaries(
        {},
        optional={
            "spec": json
            | st.fixed_dictionaries(
                {}, optional={"ports": json, "template": json, "containers": json, "clusterIP": json}
            ),
            "imagePullSecrets": json,
            "secrets": json,
        },
    ),
)
def test_a_tenant_cannot_break_it_with_an_object_of_another_shape(kind: tuple[str, str], body: Json) -> None:
    source = upstream(kind[1], kind[0], **body)
    try:
        taken = taken_down(source)
    except NotCopyable as error:
        assert "wrong type" in str(error)  # noqa: PT017 - either is fine
    else:
        assert taken_down({**taken, "status": {"x": 1}}) == taken
