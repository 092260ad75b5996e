"""How objects are, by the rules of kstatus: one line of a table for each rule."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.healths import CUSTOM, TABLE, Json, Row, condition, live
from tests.sampling import quick

from syncline.core.health import Health, health_of


@pytest.mark.parametrize(("given_live", "state", "message"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_health_by_kind(given_live: Json, state: str, message: str) -> None:
    health = health_of(given_live)
    assert (health.state, health.message[: len(message)]) == (state, message)
    if state == "Current":
        assert health.message == message


def test_a_long_message_of_others_is_one_short_line() -> None:
    health = health_of(live(CUSTOM, {}, condition("Ready", "False", message="no\n  disk " * 1000)))
    assert health.message.startswith("no disk no disk")
    assert health.message.endswith("...")
    assert len(health.message) == 300


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inside: st.lists(inside, max_size=2) | st.dictionaries(st.text(max_size=5), inside, max_size=2),
    max_leaves=4,
)
fields = st.dictionaries(
    st.sampled_from(["replicas", "conditions", "phase", "loadBalancer", "observedGeneration", "updateStrategy"]),
    anything,
)


@quick
@given(st.sampled_from(TABLE), fields | anything, fields | anything, anything)
def test_no_object_is_too_strange_to_be_answered(row: Row, spec: Any, status: Any, metadata: Any) -> None:
    strange = {**row[1], "spec": spec, "status": status, "metadata": metadata}
    assert isinstance(health_of(strange), Health)
