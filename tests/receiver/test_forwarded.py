"""Who sends what comes through proxies: what a sender could have made up is not believed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import quick

from syncline.receiver.forwarded import client_of, is_trusted, read_networks

INGRESS = read_networks(["10.0.0.0/8", "2001:db8:1::/48", "192.0.2.7"])


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("10.0.0.1", ["203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["1.1.1.1, 203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["1.1.1.1, 203.0.113.9, 10.0.0.2, 192.0.2.7"], "203.0.113.9"),
        ("10.0.0.1", ["1.1.1.1", "203.0.113.9", "10.0.0.2"], "203.0.113.9"),
        ("10.0.0.1", ["203.0.113.9:4711"], "203.0.113.9"),
        ("10.0.0.1", ["[2001:db8:2::1]:4711"], "2001:db8:2::1"),
        ("2001:db8:1::1", ["2001:db8:2::1"], "2001:db8:2::1"),
        ("::ffff:10.0.0.1", ["::ffff:203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", ["203.0.113.9, unknown"], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.9, _hidden, 10.0.0.2"], "10.0.0.2"),
        ("203.0.113.5", ["10.0.0.2"], "203.0.113.5"),
        ("203.0.113.5", ["1.1.1.1"], "203.0.113.5"),
        ("", ["1.1.1.1"], ""),
        (None, ["1.1.1.1"], ""),
    ],
)
def test_the_sender_is_the_first_from_the_right_that_is_no_trusted_proxy(
    peer: str | None, forwarded: list[str], client: str
) -> None:
    assert client_of(peer, forwarded, INGRESS) == client


@quick
@given(st.lists(st.text(max_size=60), max_size=4), st.sampled_from(["203.0.113.9", "2001:db8:9::1"]))
def test_nothing_that_a_sender_writes_makes_it_somebody_else(made_up: list[str], sender: str) -> None:
    assert client_of("10.0.0.1", [*made_up, sender], INGRESS) == sender
    assert client_of(sender, made_up, INGRESS) == sender


@given(st.lists(st.text(max_size=60), max_size=4))
@quick
def test_without_trusted_proxies_nothing_is_believed(made_up: list[str]) -> None:
    assert client_of("10.0.0.1", made_up, ()) == "10.0.0.1"


def test_an_address_stands_for_itself_alone() -> None:
    assert is_trusted("192.0.2.7", INGRESS)
    assert not is_trusted("192.0.2.8", INGRESS)


@pytest.mark.parametrize(
    ("text", "message"),
    [("ingress", "is not an address or network"), ("0.0.0.0/0", "every address"), ("::/0", "every address")],
)
def test_what_is_no_proxy_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_networks([text])
