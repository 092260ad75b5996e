"""Which keys are copied, and under which names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.strategies import contents
from tests.sampling import quick

from syncline.api.content import Keys
from syncline.core.content import ContentError, select_keys

DATA = {"app.yaml": "1", "db.yaml": "2", "notes": "3"}
BINARY = {"logo.png": "AA==", "app.bin": "AQ=="}


def selected(keys: Keys | None) -> set[str]:
    data, binary = select_keys(keys, DATA, BINARY)
    return {*data, *binary}


def test_everything_is_copied_unless_said_otherwise() -> None:
    assert select_keys(None, DATA, BINARY) == (DATA, BINARY)
    assert select_keys(Keys(), DATA, BINARY) == (DATA, BINARY)


def test_only_included_keys_are_copied() -> None:
    assert selected(Keys(include=["*.yaml"])) == {"app.yaml", "db.yaml"}


def test_include_and_exclude_hold_for_binary_data_too() -> None:
    assert selected(Keys(include=["app.*"])) == {"app.yaml", "app.bin"}
    assert selected(Keys(exclude=["*.png", "*.bin"])) == set(DATA)


def test_an_excluded_key_is_not_copied_even_when_included() -> None:
    assert selected(Keys(include=["*.yaml"], exclude=["db*"])) == {"app.yaml"}


def test_a_key_is_renamed_with_its_value() -> None:
    keys = Keys(rename={"notes": "README", "logo.png": "icon.png"})
    assert select_keys(keys, DATA, BINARY) == (
        {"app.yaml": "1", "db.yaml": "2", "README": "3"},
        {"icon.png": "AA==", "app.bin": "AQ=="},
    )


def test_include_and_exclude_speak_of_the_names_in_the_source() -> None:
    assert selected(Keys(include=["notes"], rename={"notes": "app.yaml"})) == {"app.yaml"}
    assert selected(Keys(include=["README"], rename={"notes": "README"})) == set()


def test_two_keys_may_swap_their_names() -> None:
    keys = Keys(include=["*.yaml"], rename={"app.yaml": "db.yaml", "db.yaml": "app.yaml"})
    assert select_keys(keys, DATA, {}) == ({"db.yaml": "1", "app.yaml": "2"}, {})


def test_a_rename_of_a_key_that_is_absent_does_nothing() -> None:
    assert selected(Keys(rename={"absent": "notes"})) == {*DATA, *BINARY}


@pytest.mark.parametrize(
    "rename",
    [{"app.yaml": "notes"}, {"app.yaml": "x", "db.yaml": "x"}, {"app.yaml": "logo.png"}, {"logo.png": "notes"}],
)
def test_two_keys_of_one_name_are_refused_by_name(rename: dict[str, str]) -> None:
    with pytest.raises(ContentError) as refusal:
        select_keys(Keys(rename=rename), DATA, BINARY)
    for old, new in rename.items():
        assert repr(old) in str(refusal.value)
        assert repr(new) in str(refusal.value)
    assert "rename or exclude one of them" in str(refusal.value)


def test_no_clash_with_a_key_that_is_not_copied() -> None:
    assert selected(Keys(exclude=["notes"], rename={"app.yaml": "notes"})) == {"notes", "db.yaml", *BINARY}


@quick
@given(contents(), st.dictionaries(st.sampled_from(("a", "b", "c")), st.sampled_from(("a", "b", "new"))))
def test_renaming_loses_no_value_or_is_refused(
    content: tuple[dict[str, str], dict[str, str]], rename: dict[str, str]
) -> None:
    data, binary = content
    names = [rename.get(name, name) for name in (*data, *binary)]
    if len(set(names)) < len(names):
        with pytest.raises(ContentError):
            select_keys(Keys(rename=rename), data, binary)
    else:
        kept = select_keys(Keys(rename=rename), data, binary)
        assert [list(part.values()) for part in kept] == [list(data.values()), list(binary.values())]
        assert [*kept[0], *kept[1]] == names
