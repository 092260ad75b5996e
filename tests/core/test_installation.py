"""Whether the CRDs of a cluster are those that this version needs."""

import copy
from typing import Any

import pytest

from syncline import deploy
from syncline.core.installation import describe_together, find_crd_problem


@pytest.fixture(params=deploy.crds(), ids=lambda one: one["metadata"]["name"])
def shipped(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(request.param)


def test_what_is_shipped_is_what_is_needed(shipped: dict[str, Any]) -> None:
    assert not find_crd_problem(shipped, copy.deepcopy(shipped))


def test_a_crd_that_is_not_there_is_told(shipped: dict[str, Any]) -> None:
    assert find_crd_problem(shipped, None).endswith("does not exist")


def test_a_newer_crd_may_have_more(shipped: dict[str, Any]) -> None:
    newer = copy.deepcopy(shipped)
    newer["spec"]["versions"].insert(0, {"name": "v1", "served": True})
    newer["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["more"] = {}
    assert not find_crd_problem(shipped, newer)


def test_a_version_that_is_no_longer_served_is_told(shipped: dict[str, Any]) -> None:
    older = copy.deepcopy(shipped)
    older["spec"]["versions"][0]["served"] = False
    assert "does not serve version v1alpha1" in find_crd_problem(shipped, older)


def test_a_field_that_an_older_crd_lacks_is_named(shipped: dict[str, Any]) -> None:
    older = copy.deepcopy(shipped)
    status = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    del status["properties"]["conditions"]["items"]["properties"]["reason"]
    assert find_crd_problem(shipped, older).endswith("it has no status.conditions[].reason")


def test_a_crd_without_a_status_subresource_is_told(shipped: dict[str, Any]) -> None:
    older = copy.deepcopy(shipped)
    del older["spec"]["versions"][0]["subresources"]
    assert "no status subresource" in find_crd_problem(shipped, older)


def test_what_is_to_be_done_is_told_once() -> None:
    assert describe_together(["run x: a is gone", "delete y: it is old: 1.0", "run x: b is gone"]) == (
        "run x: a is gone; b is gone; delete y: it is old: 1.0"
    )
    assert not describe_together([])
