import pytest

from syncline.kube import CONFIGMAPS, CRDS, LEASES, NAMESPACES, Resource


def test_paths_of_the_core_group_and_of_others() -> None:
    assert CONFIGMAPS.path() == "/api/v1/configmaps"
    assert CONFIGMAPS.path("team") == "/api/v1/namespaces/team/configmaps"
    assert LEASES.path("team", "a") == "/apis/coordination.k8s.io/v1/namespaces/team/leases/a"
    assert NAMESPACES.path(name="team", subresource="finalize") == "/api/v1/namespaces/team/finalize"
    assert CRDS.api_version == "apiextensions.k8s.io/v1"
    assert CONFIGMAPS.api_version == "v1"


def test_a_name_cannot_leave_its_place_in_the_path() -> None:
    roles = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
    assert roles.path(name="system:node").endswith("/clusterroles/system:node")
    assert CONFIGMAPS.path("team", "a/../../b?x#y").endswith("/configmaps/a%2F..%2F..%2Fb%3Fx%23y")


@pytest.mark.parametrize(
    ("namespace", "name", "subresource"),
    [
        ("", "a", None),
        ("..", "a", None),
        (".", "a", None),
        ("team", "", None),
        ("team", "..", None),
        ("team", "a", ""),
        (None, "a", None),
        ("team", None, "status"),
    ],
)
def test_what_would_reach_another_object_is_refused(
    namespace: str | None, name: str | None, subresource: str | None
) -> None:
    with pytest.raises(ValueError, match=r".+"):
        CONFIGMAPS.path(namespace, name, subresource)


def test_a_kind_without_namespaces_takes_none() -> None:
    with pytest.raises(ValueError, match="not in namespaces"):
        NAMESPACES.path("team", "a")
