"""Marks are signed anew a few at a time, and the keys in the Secret are read with care."""

import base64

import pytest

from syncline.core.marks import UNSIGNED, key_id
from syncline.engine.markkeys import RENEWALS_AT_ONCE, RENEWALS_PER_SECOND, MarkRing, data_of, read_keys
from syncline.kube.errors import ConfigError

ONE, TWO = b"1" * 32, b"2" * 32


def test_marks_are_signed_anew_at_a_bounded_rate() -> None:
    now = 0.0
    ring = MarkRing(clock=lambda: now)
    assert sum(ring.may_renew("a/b/c") for _ in range(1000)) == RENEWALS_AT_ONCE
    assert not ring.is_finished("a/b/c")
    now += 2.0
    ring.begin("a/b/c")
    assert ring.is_finished("a/b/c")
    assert sum(ring.may_renew("a/b/c") for _ in range(1000)) == 2 * RENEWALS_PER_SECOND


def test_keys_are_read_as_they_were_written() -> None:
    keys = read_keys(data_of([ONE], TWO, {UNSIGNED: ["x"], "k": []}), "ns/name")
    assert keys.current == key_id(TWO)
    assert keys.ids == {key_id(ONE), key_id(TWO)}
    assert keys.takeovers == {UNSIGNED: {"x"}}


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"current": ""},
        {"current": base64.b64encode(b"gone").decode()},
        {key_id(TWO): "?"},
        {key_id(TWO): base64.b64encode(b"short").decode()},
        {key_id(TWO): base64.b64encode(ONE).decode()},
    ],
)
def test_a_secret_without_the_key_that_it_names_is_refused(broken: dict[str, str]) -> None:
    data = {**data_of([], TWO, {}), **broken} if broken else None
    with pytest.raises(ConfigError, match="ns/name"):
        read_keys(data, "ns/name")


@pytest.mark.parametrize("takeovers", ["", "?", base64.b64encode(b"[1]").decode()])
def test_nobody_takes_over_what_is_not_clearly_said(takeovers: str) -> None:
    assert read_keys({**data_of([], TWO, {}), "takeovers": takeovers}, "ns/name").takeovers == {}
