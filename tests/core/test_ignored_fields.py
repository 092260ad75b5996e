"""What of an object is left to others."""

import time
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import quick

from syncline.api.configsync import Ignored
from syncline.core.ignored_fields import PointerError, compared_values, ignored, parse_pointer, remove_paths
from syncline.core.live_fields import keep_live_fields

REPLICAS = ("spec", "replicas")
DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "team", "labels": {"a/b": "1", "c": "2"}},
    "spec": {
        "replicas": 3,
        "containers": [
            {"name": "app", "image": "app:1", "env": [{"name": "A"}, {"name": "B"}]},
            {"name": "side", "image": "side:1"},
        ],
    },
}


def removed(*pointers: str) -> dict[str, Any]:
    before = deepcopy(DEPLOYMENT)
    result = remove_paths(DEPLOYMENT, [parse_pointer(pointer) for pointer in pointers])
    assert before == DEPLOYMENT
    return result


class TestWhichObjects:
    @pytest.mark.parametrize(
        ("entry", "applies"),
        [
            ({}, True),
            ({"kind": "Deployment"}, True),
            ({"kind": "deployment"}, True),
            ({"kind": "Deploy*"}, True),
            ({"kind": "StatefulSet"}, False),
            ({"group": "apps"}, True),
            ({"group": "batch"}, False),
            ({"group": "apps", "kind": "Deployment", "name": "web"}, True),
            ({"name": "we?"}, True),
            ({"name": "*"}, True),
            ({"name": "Web"}, False),
            ({"kind": "Deployment", "name": "other"}, False),
        ],
    )
    def test_an_entry_is_for_objects_of_its_group_kind_and_name(self, entry: dict[str, str], applies: bool) -> None:
        entries = [Ignored(paths=["/spec/replicas"], **entry)]  # type: ignore[arg-type]
        assert ignored(entries, "Deployment.apps", "web") == ((REPLICAS,) if applies else ())

    def test_a_kind_of_the_core_has_no_group(self) -> None:
        entry = Ignored(group="apps", paths=["/data/x"])
        assert ignored([entry], "ConfigMap", "web") == ()

    def test_the_paths_of_all_entries_that_apply_count_once_each(self) -> None:
        entries = [Ignored(paths=["/spec/replicas", "/spec/x"]), Ignored(kind="*", paths=["/spec/replicas"])]
        assert ignored(entries, "Deployment.apps", "web") == (REPLICAS, ("spec", "x"))


class TestPointers:
    @pytest.mark.parametrize(
        ("pointer", "path"),
        [
            ("/spec/replicas", REPLICAS),
            ("/metadata/labels/a~1b", ("metadata", "labels", "a/b")),
            ("/x/~01", ("x", "~1")),
            ("/spec/containers/*/image", ("spec", "containers", "*", "image")),
        ],
    )
    def test_a_pointer_is_split_at_its_slashes(self, pointer: str, path: tuple[str, ...]) -> None:
        assert parse_pointer(pointer) == path

    @pytest.mark.parametrize(
        ("pointer", "message"),
        [
            ("", "does not begin with a slash"),
            ("spec.replicas", "does not begin with a slash"),
            ("/", "has an empty part"),
            ("/spec/", "has an empty part"),
            ("//spec", "has an empty part"),
            ("/a~b", "has a ~ on its own"),
            ("/kind", "is part of the identity of the object"),
            ("/apiVersion", "is part of the identity of the object"),
            ("/metadata", "is part of the identity of the object"),
            ("/metadata/name", "is part of the identity of the object"),
            ("/metadata/namespace", "is part of the identity of the object"),
        ],
    )
    def test_a_bad_pointer_is_named_with_what_to_write(self, pointer: str, message: str) -> None:
        with pytest.raises(PointerError, match=message):
            ignored([Ignored(paths=[pointer])], "ConfigMap", "a")


class TestRemoval:
    def test_the_field_is_not_sent(self) -> None:
        assert removed("/spec/replicas")["spec"].keys() == {"containers"}

    def test_what_is_not_there_is_no_matter(self) -> None:
        assert removed("/spec/paused", "/status/x/y", "/spec/replicas/0", "/spec/containers/7") == DEPLOYMENT

    def test_a_star_means_every_item(self) -> None:
        assert [sorted(one) for one in removed("/spec/containers/*/image")["spec"]["containers"]] == [
            ["env", "name"],
            ["name"],
        ]

    def test_stars_may_be_nested(self) -> None:
        assert removed("/spec/containers/*/env/*/name")["spec"]["containers"][0]["env"] == [{}, {}]

    def test_numbers_mean_the_items_as_they_were_before(self) -> None:
        assert removed("/spec/containers/0/env/0", "/spec/containers/0/env/1")["spec"]["containers"][0]["env"] == []

    def test_an_escaped_key_is_found(self) -> None:
        assert removed("/metadata/labels/a~1b")["metadata"]["labels"] == {"c": "2"}

    def test_a_star_never_removes_what_makes_it_this_object(self) -> None:
        assert removed("/metadata/*")["metadata"] == {"name": "web", "namespace": "team"}
        assert removed("/*") == {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": DEPLOYMENT["metadata"],
        }

    def test_no_paths_change_nothing(self) -> None:
        assert removed() == DEPLOYMENT


parts = st.sampled_from(["apiVersion", "kind", "metadata", "name", "labels", "spec", "containers", "0", "*"])


@quick
@given(st.lists(st.lists(parts, min_size=1, max_size=4), max_size=4))
def test_any_paths_leave_the_identity(raw: list[list[str]]) -> None:
    paths = []
    for path in raw:
        try:
            paths.append(parse_pointer("/" + "/".join(path)))
        except PointerError:
            continue
    once = remove_paths(DEPLOYMENT, paths)
    assert (once["apiVersion"], once["kind"]) == ("apps/v1", "Deployment")
    assert (once["metadata"]["name"], once["metadata"]["namespace"]) == ("web", "team")
    assert all(key in DEPLOYMENT for key in once)


def test_many_pointers_and_many_fields_take_little_time() -> None:
    """50 entries with 50 paths each are 2,500 pointers, and an object can have 30,000 fields."""
    pointers = [parse_pointer(f"/data/v{number}") for number in range(1_250)]
    pointers += [parse_pointer(f"/data/*/v{number}") for number in range(1_250)]
    fields = {f"k{number}": {"a": 1} for number in range(30_000)}
    before = time.thread_time()
    assert remove_paths({"data": fields}, pointers) == {"data": fields}
    digests = {f"data/{name}": "" for name in fields}
    assert compared_values(digests, pointers[:1_250]) == digests
    assert compared_values(digests, pointers) == {}
    assert time.thread_time() - before < 3


def test_live_values_of_many_items_are_found_in_little_time() -> None:
    sent = [{"name": f"n{number}", "value": 1} for number in range(20_000)]
    live = [{"name": f"n{number}", "value": 2} for number in reversed(range(20_000))]
    before = time.thread_time()
    kept = keep_live_fields({"spec": {"items": sent}}, {"spec": {"items": live}}, [("spec", "items", "*", "value")])
    assert kept == {"spec": {"items": live[::-1]}}
    assert time.thread_time() - before < 2
