"""What is kept of a ConfigMap that comes over the wire."""

import msgspec
import pytest
from tests.core.server import KEYS

from syncline.core.objects import Content, Marker, Observed, Target
from syncline.core.wire import DataWire, to_observed


def seen(*, body: bool = False, cluster: str = "", **fields: object) -> Observed:
    metadata = {"namespace": "team-a", "name": "settings", "uid": "u", "resourceVersion": "7"}
    metadata |= fields.pop("metadata", {})  # type: ignore[arg-type]
    text = msgspec.json.encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **fields})
    return to_observed(msgspec.json.decode(text, type=DataWire), body=body, cluster=cluster, marks=KEYS)


def marks(digest: str, at: str = "c/ConfigMap/team-a/settings") -> dict[str, str]:
    return {"syncline.dev/copy": KEYS.write(Marker(sync="s", object_id=at, digest=digest))}


def test_the_body_is_dropped_unless_asked_for() -> None:
    assert seen(data={"a": "1"}).content is None
    assert seen(data={"a": "1"}).value_digests is None
    assert seen(data={"a": "1"}, body=True).content == Content(data={"a": "1"})


def test_it_names_the_object_and_its_version() -> None:
    found = seen(cluster="east")
    assert (found.target, found.uid, found.version) == (
        Target("team-a", "settings", "ConfigMap", "east"),
        "u",
        "7",
    )


def test_a_long_annotation_is_not_held() -> None:
    found = seen(metadata={"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "secret " * 100}})
    assert "secret" not in str(found)


def test_our_own_marks_are_not_taken_for_labels_and_annotations_of_others() -> None:
    found = seen(
        metadata={
            "labels": {"syncline.dev/owner": "o", "team": "red"},
            "annotations": {"syncline.dev/copy": "?", "syncline.dev/prune": "Disabled", "note": "x"},
        }
    )
    told = {"syncline.dev/prune": "Disabled", "note": "x"}  # what users tell us is theirs
    assert (found.owner, found.labels, found.annotations) == ("o", {"team": "red"}, told)
    assert (found.prune_disabled, found.reconcile_disabled) == (True, False)


def test_the_values_digests_are_held_where_a_base_is_recorded() -> None:
    found = seen(data={"a": "1"}, metadata={"annotations": {"syncline.dev/base": "{}"}})
    assert found.base == {}
    assert found.value_digests == Content(data={"a": "1"}).value_digests()


@pytest.mark.parametrize("base", ["", "?", "[]", '{"a": 1}', "null"])
def test_a_base_that_cannot_be_read_is_none(base: str) -> None:
    assert seen(metadata={"annotations": {"syncline.dev/base": base}}).base is None


def test_an_object_that_is_being_deleted_is_seen_so() -> None:
    assert seen(metadata={"deletionTimestamp": "2030-01-01T00:00:00Z"}).deleting
    assert not seen().deleting


@pytest.mark.parametrize(
    ("managers", "named"),
    [
        ([("kubectl", "01"), ("syncline", "02")], "kubectl"),
        ([("kubectl", "01"), ("helm", "02")], "helm"),
        ([("helm", "02"), ("kubectl", "01")], "helm"),
        ([("kubectl", "01"), ("helm", "01")], "helm"),
        ([("syncline", "01")], ""),
        ([], ""),
    ],
)
def test_who_wrote_last_besides_us_is_named_on_a_changed_copy(managers: list[tuple[str, str]], named: str) -> None:
    entries = [{"manager": manager, "time": f"2030-01-{day}T00:00:00Z"} for manager, day in managers]
    metadata = {"managedFields": entries, "annotations": marks("of something else")}
    assert seen(metadata=metadata).changed_by == named


def test_nobody_is_named_on_an_unchanged_copy() -> None:
    metadata = {"managedFields": [{"manager": "kubectl"}], "annotations": marks(Content().digest())}
    assert seen(metadata=metadata).changed_by == ""


def test_the_marks_of_a_clone_say_nothing_about_it() -> None:
    assert seen(metadata={"annotations": marks("d")}).marker is not None
    clone = seen(metadata={"annotations": marks("d", at="c/ConfigMap/team-b/settings")})
    assert (clone.marker, clone.claim) == (None, None)
