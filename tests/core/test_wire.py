"""What is kept of a ConfigMap that comes over the wire."""

import msgspec
import pytest
from tests.core.server import KEYS

from syncline.core.objects import MAX_STATUS, STATUS_TOO_LARGE, Content, Marker, Observed, Target
from syncline.core.ownership import MARKER
from syncline.core.wire import DataWire, ObjectWire, to_observed


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
        },
        body=True,
    )
    told = {"syncline.dev/prune": "Disabled", "note": "x"}  # what users tell us is theirs
    assert (found.owner, found.labels, found.annotations) == ("o", {"team": "red"}, told)
    assert (found.prune_disabled, found.reconcile_disabled) == (True, False)


MANY = {f"k{number}": "" for number in range(5000)}
LABEL = {"syncline.dev/owner": "o"}


def test_nothing_is_cached_of_an_object_that_only_carries_our_label() -> None:
    forged = {"syncline.dev/base": "{}", "syncline.dev/copy": "?", "syncline.dev/prune": "Disabled", **MANY}
    found = seen(data=MANY, metadata={"labels": {**LABEL, **MANY}, "annotations": forged})
    assert (found.labels, found.annotations, found.base, found.value_digests) == ({}, {}, None, None)
    assert (found.owner, found.prune_disabled, found.trimmed) == ("o", True, "unproven")
    whole = seen(data=MANY, metadata={"labels": {**LABEL, **MANY}, "annotations": forged}, body=True)
    assert (len(whole.labels), len(whole.value_digests or {}), whole.trimmed) == (5000, 5000, "")


def test_an_unproven_marker_with_texts_longer_than_any_name_is_not_cached() -> None:
    """Whoever may edit an object can write a quarter of a mebibyte into its annotations."""
    at = "c/ConfigMap/team-a/settings"
    for source, kept in (("ConfigMap/a/b", True), ("x" * 200_000, False)):
        text = msgspec.json.encode(Marker(sync="ConfigMapSync/a/b", object_id=at, source=source)).decode()
        observed = seen(metadata={"labels": LABEL, "annotations": {MARKER: text}})
        assert (observed.claim is not None) == kept


@pytest.mark.parametrize("what", ["labels", "annotations", "data", "sent"])
def test_of_a_copy_with_very_many_entries_only_a_digest_of_them_is_cached(what: str) -> None:
    def copy(entries: dict[str, str], *, body: bool = False) -> Observed:
        sent = tuple(entries) if what == "sent" else ()
        marker = Marker(sync="s", object_id="c/ConfigMap/team-a/settings", digest="d", labels=sent)
        annotations = {"syncline.dev/copy": KEYS.write(marker), "syncline.dev/base": "{}"}
        labels = {**LABEL, **(entries if what == "labels" else {})}
        annotations |= entries if what == "annotations" else {}
        data = entries if what == "data" else {}
        return seen(data=data, metadata={"labels": labels, "annotations": annotations}, body=body)

    found, other, whole = copy(MANY), copy({**MANY, "k0": "x", "new": ""}), copy(MANY, body=True)
    assert found.trimmed
    assert found.marker is not None
    assert (found.marker.sync, found.marker.labels) == ("s", ())
    assert (found.labels, found.annotations, found.value_digests) == ({}, {}, None)
    assert (found.trimmed, found.digest) != (other.trimmed, other.digest)
    assert not whole.trimmed
    assert not copy({"a": "b"}).trimmed


def test_a_base_that_is_longer_than_any_of_ours_is_not_read() -> None:
    text = msgspec.json.encode({f"data/{name}": "0" * 24 for name in MANY}).decode()
    assert seen(metadata={"annotations": {"syncline.dev/base": text, **marks("d")}}).base is None


def test_the_values_digests_are_held_where_a_base_is_recorded() -> None:
    found = seen(data={"a": "1"}, metadata={"annotations": {"syncline.dev/base": "{}", **marks("d")}})
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


STATUS = b'{"phase":"Good"}'


def reported(sync: str, *, status: bytes = STATUS, status_for: tuple[str, ...] = ()) -> Observed:
    """Return a copy of a sync, with a status, as it is observed."""
    marker = KEYS.write(Marker(sync=sync, object_id="c/Gadget.test/team-a/web"))
    meta = {"name": "web", "namespace": "team-a", "generation": 3, "annotations": {MARKER: marker}}
    body = msgspec.json.encode({"metadata": meta, "status": msgspec.Raw(status)})
    wire = msgspec.json.decode(body, type=ObjectWire)
    return to_observed(wire, kind="Gadget.test", marks=KEYS, status_for=status_for)


def test_a_status_is_held_only_of_the_copies_of_syncs_that_ask_for_it() -> None:
    mine, other = "WorkspaceSync/a/b", "ConfigSync/a/b"
    assert (reported(mine).status, reported(mine).generation) == (None, 0)
    kept = reported(mine, status_for=(mine,))
    assert (kept.status, kept.generation) == (STATUS, 3)
    assert reported(other, status_for=(mine,)).status is None


def test_a_status_that_is_too_large_is_not_held() -> None:
    status = b'{"a":"' + b"x" * MAX_STATUS + b'"}'
    assert reported("A/b/c", status=status, status_for=("A/b/c",)).status == STATUS_TOO_LARGE
