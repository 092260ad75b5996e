"""Ownership: whose an object is, from what it carries alone."""

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs
from tests.core.server import KEYS
from tests.core.world import CLUSTER, EARLIER, HOME, OTHER, OWNER, here
from tests.sampling import quick

from syncline.core.objects import Marker, Seen, Target
from syncline.core.ownership import MARKER, Marks, Owner, Standing, place, read_marks, standing

texts = st.text(max_size=20)
json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def seen(*, owner: str = OWNER.label, sync: str = OWNER.ref, at: str = here(HOME), marked: bool = True) -> Seen:
    marker = Marker(sync=sync, at=at, owner=owner, proof=KEYS.current) if marked else None
    return Seen(target=HOME, uid="uid", version="1", digest="", owner=owner, marker=marker)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(seen(), Standing.OURS, id="label and annotation of this sync, naming this place"),
        pytest.param(seen(owner=EARLIER.label), Standing.FORMER, id="of an earlier sync of this name"),
        pytest.param(seen(owner=OTHER.label, sync=OTHER.ref), Standing.RIVAL, id="of another sync"),
        pytest.param(seen(sync=OTHER.ref), Standing.RIVAL, id="our label, but the annotation names another sync"),
        pytest.param(seen(owner=""), Standing.FOREIGN, id="the annotation without the label"),
        pytest.param(seen(marked=False), Standing.FOREIGN, id="the label without the annotation"),
        pytest.param(seen(owner="", marked=False), Standing.FOREIGN, id="neither"),
        pytest.param(seen(at=place(CLUSTER, Target("x", "settings"))), Standing.FOREIGN, id="names another namespace"),
        pytest.param(seen(at=place(CLUSTER, Target("team-a", "x"))), Standing.FOREIGN, id="names another object"),
        pytest.param(seen(at=place("other", HOME)), Standing.FOREIGN, id="names another cluster"),
        pytest.param(
            seen(at=place(CLUSTER, Target("team-a", "settings", "Secret"))), Standing.FOREIGN, id="names another kind"
        ),
        pytest.param(
            seen(owner=OTHER.label, sync=OTHER.ref, at="elsewhere"), Standing.FOREIGN, id="a clone of a rival's copy"
        ),
    ],
)
def test_standing(found: Seen, expected: Standing) -> None:
    assert standing(found, OWNER, here(HOME)) is expected


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
            Marker(sync="s", at="p"),
            Marker(
                sync=OWNER.ref,
                at=here(HOME),
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
        assert read == Marks(claim=Marker(sync="s", at="p"))

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
