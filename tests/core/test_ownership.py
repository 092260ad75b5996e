"""Ownership: whose an object is, from what it carries alone."""

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs
from tests.core.server import KEYS
from tests.core.world import CLUSTER, EARLIER, HOME, OTHER, OWNER, here
from tests.sampling import quick

from syncline.core.digest import short_digest
from syncline.core.marks import UNSIGNED, MarkKeys
from syncline.core.objects import Marker, Observed, Target
from syncline.core.ownership import (
    MARKER,
    Marks,
    Owner,
    Ownership,
    is_replaced,
    may_be_copy,
    object_id_of,
    ownership_of,
    read_marks,
)

texts = st.text(max_size=20)
json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def seen(*, owner: str = OWNER.label, sync: str = OWNER.ref, at: str = here(HOME), marked: bool = True) -> Observed:
    marker = Marker(sync=sync, object_id=at, owner=owner, proof=KEYS.current) if marked else None
    return Observed(target=HOME, uid="uid", version="1", digest="", owner=owner, marker=marker)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(seen(), Ownership.OURS, id="label and annotation of this sync, naming this place"),
        pytest.param(seen(owner=EARLIER.label), Ownership.PREVIOUS, id="of an earlier sync of this name"),
        pytest.param(
            structs.replace(seen(), replaced=True), Ownership.PREVIOUS, id="put on another object of the same name"
        ),
        pytest.param(seen(owner=OTHER.label, sync=OTHER.ref), Ownership.OTHER_SYNC, id="of another sync"),
        pytest.param(seen(sync=OTHER.ref), Ownership.OTHER_SYNC, id="our label, but the annotation names another sync"),
        pytest.param(seen(owner=""), Ownership.FOREIGN, id="the annotation without the label"),
        pytest.param(seen(marked=False), Ownership.FOREIGN, id="the label without the annotation"),
        pytest.param(seen(owner="", marked=False), Ownership.FOREIGN, id="neither"),
        pytest.param(
            seen(at=object_id_of(CLUSTER, Target("x", "settings"))), Ownership.FOREIGN, id="names another namespace"
        ),
        pytest.param(
            seen(at=object_id_of(CLUSTER, Target("team-a", "x"))), Ownership.FOREIGN, id="names another object"
        ),
        pytest.param(seen(at=object_id_of("other", HOME)), Ownership.FOREIGN, id="names another cluster"),
        pytest.param(
            seen(at=object_id_of(CLUSTER, Target("team-a", "settings", "Secret"))),
            Ownership.FOREIGN,
            id="names another kind",
        ),
        pytest.param(
            seen(owner=OTHER.label, sync=OTHER.ref, at="elsewhere"), Ownership.FOREIGN, id="a clone of a rival's copy"
        ),
    ],
)
def test_standing(found: Observed, expected: Ownership) -> None:
    assert ownership_of(found, OWNER, here(HOME)) is expected


@pytest.mark.parametrize(
    ("said", "replaced"),
    [
        pytest.param({}, False, id="of an earlier version"),
        pytest.param({"uid": short_digest("uid")}, False, id="of a write to this object"),
        pytest.param({"uid": short_digest("former")}, True, id="of a write to a former object"),
        pytest.param({"made": 1000}, False, id="of its creation"),
        pytest.param({"made": 700}, False, id="of its creation, by a clock that is behind"),
        pytest.param({"made": 9000}, False, id="of its creation, by a clock that is ahead"),
        pytest.param({"made": 699}, True, id="of the creation of a former object"),
    ],
)
def test_a_marker_is_compared_with_the_object_that_it_was_written_on(said: dict[str, Any], replaced: bool) -> None:
    marker = Marker(sync=OWNER.ref, object_id=here(HOME), **said)
    assert is_replaced(marker, "uid", "1970-01-01T00:16:40Z") is replaced


def test_a_sync_made_anew_has_the_same_name_and_another_label() -> None:
    assert OWNER.ref == EARLIER.ref
    assert OWNER.label != EARLIER.label


def test_syncs_of_different_kinds_and_namespaces_are_different_owners() -> None:
    owners = [
        Owner("ConfigMapSync", "a", "b", "1"),
        Owner("ManifestSync", "a", "b", "1"),
        Owner("ConfigMapSync", "a-b", "", "1"),
        Owner("ConfigMapSync", "b", "a", "1"),
    ]
    assert len({owner.ref for owner in owners}) == len(owners)


class TestReadingTheMarker:
    @pytest.mark.parametrize(
        "marker",
        [
            Marker(sync="s", object_id="p"),
            Marker(
                sync=OWNER.ref,
                object_id=here(HOME),
                source="shared/settings",
                revision="7",
                digest="d",
                mode="Adopted",
                labels=("team",),
                annotations=("note",),
            ),
        ],
    )
    def test_it_is_read_as_it_was_written(self, marker: Marker) -> None:
        read = read_marks({MARKER: KEYS.write(marker)}, KEYS)
        assert read == Marks(marker=structs.replace(marker, proof=KEYS.current))

    def test_a_field_of_a_newer_version_is_passed_over(self) -> None:
        read = read_marks({MARKER: '{"sync": "s", "at": "p", "new": {"x": 1}}'}, KEYS)
        assert read == Marks(claim=Marker(sync="s", object_id="p"))

    @quick
    @given(texts)
    @example("")
    @example("{")
    @example("null")
    @example('{"sync": "s"}')
    @example('{"sync": 1, "at": "p"}')
    @example('{"sync": "s", "at": "p", "labels": "team"}')
    @example('{"sync": "\\ud800", "at": "p"}')
    def test_any_text_is_read_or_is_no_marker(self, text: str) -> None:
        assert read_marks({MARKER: text}, KEYS) == Marks()

    @quick
    @given(json)
    def test_any_json_is_read_or_is_no_marker(self, value: object) -> None:
        marker, claim = read_marks({MARKER: msgspec.json.encode(value).decode()}, KEYS)
        assert marker is None
        assert claim is None or {"sync", "at"} <= set(value)  # type: ignore[call-overload]

    def test_nothing_there_is_no_marker(self) -> None:
        assert read_marks({}, KEYS) == Marks()
        assert read_marks({"note": "text"}, KEYS) == Marks()


HUB = "uid-of-the-hub"
LOST = MarkKeys([b"k" * 32], takeovers={"taken": frozenset()}, lost=frozenset({"lost"}))


@pytest.mark.parametrize(
    ("hub", "key", "in_hub", "expected"),
    [
        pytest.param(HUB, "lost", False, True, id="of a key that was lost"),
        pytest.param(HUB, "taken", False, True, id="of a key whose marks are being taken over"),
        pytest.param(HUB, "made-up", False, False, id="of a key that never was"),
        pytest.param(HUB, UNSIGNED, False, False, id="unsigned"),
        pytest.param("another-hub", "its-key", False, True, id="of another hub"),
        pytest.param("another-hub", UNSIGNED, False, True, id="of another hub that does not sign yet"),
        pytest.param("", "its-key", False, False, id="of an operator in another cluster, for that cluster"),
        pytest.param("", "lost", True, True, id="of this cluster, with a key that was lost"),
        pytest.param("", "made-up", True, False, id="of this cluster, with a key that never was"),
    ],
)
def test_marks_that_are_not_proven_hide_an_object_only_where_a_sync_may_have_written_it(
    hub: str, key: str, in_hub: bool, expected: bool
) -> None:
    claim = Marker(sync="ConfigMapSync/fleet/one", object_id="id", hub_uid=hub, proof=key)
    assert may_be_copy(claim, HUB, LOST, in_hub=in_hub) is expected
