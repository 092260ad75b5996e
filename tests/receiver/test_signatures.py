"""Who may speak for a sync."""

import hmac
from hashlib import sha1

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.receiver.conftest import signed
from tests.sampling import quick

from syncline.receiver import signatures
from syncline.receiver.signatures import is_authentic

BODY = b'{"ref": "main"}'
KEY = b"secret"


def test_githubs_own_example_fits() -> None:
    # The values that GitHub publishes for those who write receivers.
    signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert is_authentic({"X-Hub-Signature-256": signature}, b"Hello, World!", [b"It's a Secret to Everybody"])


@pytest.mark.parametrize("header", signatures._SIGNATURES)
@pytest.mark.parametrize("prefix", ["sha256=", "SHA256=", ""])
def test_a_signature_fits_in_each_of_its_headers(header: str, prefix: str) -> None:
    must_name_it = header.startswith("X-Hub-") and not prefix
    assert is_authentic(signed(BODY, KEY, header, prefix), BODY, [KEY]) is not must_name_it
    assert not is_authentic(signed(BODY, KEY, header, prefix), BODY + b" ", [KEY])
    assert not is_authentic(signed(BODY, KEY, header, prefix), BODY, [b"other"])


def test_an_old_signature_does_not_fit() -> None:
    old = hmac.new(KEY, BODY, sha1).hexdigest()
    assert not is_authentic({"X-Hub-Signature": f"sha1={old}", "X-Signature": old}, BODY, [KEY])


@pytest.mark.parametrize(
    ("headers", "fit"),
    [
        ({"X-Gitlab-Token": "secret"}, True),
        ({"X-Gitlab-Token": "Secret"}, False),
        ({"X-Gitlab-Token": "secre"}, False),
        ({"X-Gitlab-Token": ""}, False),
        ({"Authorization": "Bearer secret"}, True),
        ({"Authorization": "bearer  secret "}, True),
        ({"Authorization": "Bearer"}, False),
        ({"Authorization": "Bearer "}, False),
        ({"Authorization": "secret"}, False),
        ({"Authorization": "Basic c2VjcmV0"}, False),
    ],
)
def test_a_token_fits_whole_or_not_at_all(headers: dict[str, str], fit: bool) -> None:
    assert is_authentic(headers, BODY, [KEY]) is fit


@pytest.mark.parametrize("keys", [[], [b""], [b"\n"], [b"", b""]])
@pytest.mark.parametrize("headers", [{}, {"X-Gitlab-Token": ""}, signed(BODY, b""), {"Authorization": "Bearer "}])
def test_no_key_and_an_empty_key_fit_nothing(keys: list[bytes], headers: dict[str, str]) -> None:
    assert not is_authentic(headers, BODY, keys)


@pytest.mark.parametrize("written", [b"secret\n", b"secret\r\n"])
def test_a_newline_at_the_end_of_a_secret_is_no_part_of_it(written: bytes) -> None:
    assert is_authentic(signed(BODY, KEY), BODY, [written])
    assert is_authentic({"X-Gitlab-Token": "secret"}, BODY, [written])


def test_one_valid_proof_among_others_is_enough() -> None:
    assert is_authentic({"X-Gogs-Signature": "nonsense", **signed(BODY, KEY)}, BODY, [b"other", KEY])


def test_a_name_without_keys_costs_what_one_with_keys_does(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    real = hmac.compare_digest

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(len(one))
        return real(one, other)

    monkeypatch.setattr(signatures.hmac, "compare_digest", compare)
    headers = {**signed(BODY, KEY), "X-Gitlab-Token": "guess"}
    costs = []
    for keys in ([], [b""], [KEY], [KEY, b"other"]):
        compared.clear()
        is_authentic(headers, BODY, keys)
        costs.append([*compared])
    assert costs == [[64, 32] * signatures.SLOTS] * 4


@quick
@given(
    st.dictionaries(st.sampled_from([*signatures._SIGNATURES, "X-Gitlab-Token", "Authorization"]), st.text()),
    st.binary(),
)
def test_nothing_that_is_guessed_fits_or_breaks(headers: dict[str, str], body: bytes) -> None:
    assert not is_authentic(headers, body, [b"\x00 a key that no text is"])
