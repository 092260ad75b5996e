"""The names of sources in marks: one form, read in one place."""

import pytest

from syncline.core.source_names import SourceName, read_source_name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (SourceName("ConfigMap", "shop", "app"), "ConfigMap/shop/app"),
        (SourceName("ClusterRole.rbac.authorization.k8s.io", "", "a:b"), "ClusterRole.rbac.authorization.k8s.io//a:b"),
        (SourceName("ConfigMap", "shop", "app", "2l4oxjz3bq"), "ConfigMap/shop/app/2l4oxjz3bq"),
        (SourceName("Namespace", "", "shop", "2l4oxjz3bq"), "Namespace//shop/2l4oxjz3bq"),
    ],
)
def test_a_name_is_read_as_it_was_written(name: SourceName, text: str) -> None:
    assert str(name) == text
    assert read_source_name(text) == name


@pytest.mark.parametrize(
    "text", ["", "ConfigMap", "ConfigMap/app", "/a/b", "a/b/", "a/b/c/d/e", "path/to/file.yaml#1/2/3"]
)
def test_anything_else_is_no_name(text: str) -> None:
    assert read_source_name(text) is None
