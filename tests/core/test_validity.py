"""What one cluster would refuse goes to none; a cluster that cannot be asked holds up no other."""

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import quick

from syncline.core.validity import NAMED, State, Validity, explain, extent_of, invalid

VALID, INVALID, UNKNOWN = (Validity(state=state) for state in ("Valid", "Invalid", "Unknown"))


@pytest.mark.parametrize(
    ("validities", "live", "occupied", "applied", "passed_over"),
    [
        pytest.param([VALID, VALID], False, "", True, "", id="in order everywhere"),
        pytest.param([VALID, INVALID], False, "", False, "", id="wrong somewhere: nowhere"),
        pytest.param([VALID, UNKNOWN], False, "", True, "b", id="one cannot be asked: the others go on"),
        pytest.param([UNKNOWN, UNKNOWN], False, "ab", False, "", id="none can be asked: what is there stays"),
        pytest.param([VALID, INVALID], True, "a", True, "b", id="live, and wrong in a cluster that came later"),
        pytest.param([UNKNOWN], True, "a", True, "", id="live, and nobody to ask: it is still repaired"),
        pytest.param([VALID, UNKNOWN], True, "a", True, "b", id="live elsewhere: nothing new without a check"),
    ],
)
def test_where_a_revision_goes(
    validities: list[Validity], live: bool, occupied: str, applied: bool, passed_over: str
) -> None:
    extent = extent_of(dict(zip("ab", validities, strict=False)), live=live, occupied=frozenset(occupied))
    assert extent.applied is applied
    assert {*extent.passed_over} == {*passed_over}


STATES: list[State] = ["Valid", "Invalid", "Unknown"]


@quick
@given(
    states=st.dictionaries(st.sampled_from("abcd"), st.sampled_from(STATES), min_size=1),
    live=st.booleans(),
    occupied=st.frozensets(st.sampled_from("abcd")),
)
def test_nothing_is_written_where_it_was_found_wrong(
    states: dict[str, Literal["Valid", "Invalid", "Unknown"]], live: bool, occupied: frozenset[str]
) -> None:
    extent = extent_of({name: Validity(state=state) for name, state in states.items()}, live=live, occupied=occupied)
    written = states.keys() - extent.passed_over.keys() if extent.applied else set()
    assert all(states[name] != "Invalid" for name in written)
    assert all(states[name] == "Valid" or (live and name in occupied) for name in written)
    if not live and "Invalid" in states.values():
        assert not written


def test_all_that_is_wrong_is_named_once_up_to_a_limit() -> None:
    validity = invalid("InvalidManifest", [f"a.yaml:{number}: wrong" for number in range(NAMED + 2)])
    told = explain([("east", validity), ("west", validity)], "0123456789abcdef", live=False)
    assert told.startswith("revision 0123456789 is not applied: cluster east: a.yaml:0: wrong; cluster east: a.yaml:1:")
    assert told.endswith("; and 2 more")
    assert "west" not in told


def test_one_error_leaves_room_for_the_others() -> None:
    validity = invalid("InvalidManifest", ["x" * 5000, "b.yaml:1: wrong"])
    assert explain([("", validity)], "", live=True).endswith("; b.yaml:1: wrong")
