"""Names of kinds and resources: how they are written, and how they are read."""

import pytest

from syncline.core.group_kind import GroupKind, GroupResource


@pytest.mark.parametrize(
    ("name", "group", "kind"),
    [
        ("Secret", "", "Secret"),
        ("Deployment.apps", "apps", "Deployment"),
        ("Ingress.networking.k8s.io", "networking.k8s.io", "Ingress"),
    ],
)
def test_a_kind_is_read_as_it_is_written(name: str, group: str, kind: str) -> None:
    assert GroupKind.parse(name) == GroupKind(group, kind)
    assert str(GroupKind(group, kind)) == name


@pytest.mark.parametrize(
    ("name", "group", "resource"),
    [
        ("secrets", "", "secrets"),
        ("deployments.apps", "apps", "deployments"),
        ("customresourcedefinitions.apiextensions.k8s.io", "apiextensions.k8s.io", "customresourcedefinitions"),
    ],
)
def test_a_resource_is_read_as_it_is_written(name: str, group: str, resource: str) -> None:
    assert GroupResource.parse(name) == GroupResource(group, resource)
    assert str(GroupResource(group, resource)) == name


@pytest.mark.parametrize(
    ("api_version", "group"), [("v1", ""), ("apps/v1", "apps"), ("networking.k8s.io/v1beta1", "networking.k8s.io")]
)
def test_the_group_is_the_api_version_without_its_version(api_version: str, group: str) -> None:
    assert GroupKind.of(api_version, "Any") == GroupKind(group, "Any")
