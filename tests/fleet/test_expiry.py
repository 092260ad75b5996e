"""Credentials say when they end, and are warned about early enough to renew them."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st
from tests.fleet.forms import AUTHORITY, CANARY, encode, kubeconfig, secret, token

from syncline.fleet import Credentials
from syncline.fleet.credentials import validate
from syncline.fleet.expiry import certificate_validity, token_validity
from syncline.fleet.secrets import kubeconfig_connection

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def certificate(begins: datetime, ends: datetime) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "edge")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, begins, ends)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def credentials(**user: str) -> Credentials:
    return validate(
        kubeconfig_connection(secret({"value": kubeconfig(user=user)}), None),
        "Secret team-a/edge",
        allow_loopback=False,
    )


def test_the_end_of_a_certificate_is_read_as_everybody_else_reads_it() -> None:
    pem, _ = AUTHORITY.client("somebody", ["one", "two"])
    life, known = certificate_validity(pem), x509.load_pem_x509_certificate(pem)
    assert life is not None
    assert (life.begins, life.ends) == (known.not_valid_before_utc, known.not_valid_after_utc)


@given(
    st.datetimes(datetime(1951, 1, 1), datetime(2049, 12, 31)),  # noqa: DTZ001  # as the strategy wants it
    st.datetimes(datetime(2050, 1, 1), datetime(9999, 1, 1)),  # noqa: DTZ001
)
def test_both_ways_to_write_a_time_in_a_certificate_are_read(begins: datetime, ends: datetime) -> None:
    begins, ends = (moment.replace(microsecond=0, tzinfo=UTC) for moment in (begins, ends))
    life = certificate_validity(certificate(begins, ends))
    assert life is not None
    assert (life.begins, life.ends) == (begins, ends)


def test_of_a_chain_the_first_to_end_counts() -> None:
    ends = [NOW + timedelta(days=days) for days in (30, 10, 20)]
    life = certificate_validity(b"junk\n" + b"".join(certificate(NOW, end) for end in ends))
    assert life is not None
    assert life.ends == ends[1]


@given(st.binary(max_size=200))
def test_what_is_no_certificate_has_no_end(content: bytes) -> None:
    assert certificate_validity(content) is None
    assert (
        certificate_validity(b"-----BEGIN CERTIFICATE-----" + encode(content).encode() + b"-----END CERTIFICATE-----")
        is None
    )


@given(st.integers(0, 400))
def test_a_certificate_that_is_cut_short_has_no_end_and_does_no_harm(length: int) -> None:
    whole = AUTHORITY.client("somebody")[0].splitlines()
    body = b"".join(whole[1:-1])[:length]
    life = certificate_validity(b"\n".join([whole[0], body, whole[-1]]))
    assert life is None or life.ends > life.begins  # type: ignore[operator]


def test_the_end_of_a_token_is_read_without_its_signature() -> None:
    life = token_validity(token(begins=NOW.timestamp(), ends=NOW.timestamp() + 3600))
    assert life is not None
    assert (life.begins, life.ends) == (NOW, NOW + timedelta(hours=1))


@pytest.mark.parametrize(
    "text",
    [
        *(CANARY, "", "..", "a.b.c", "a.e30.c", "ey.ey.ey", token()),
        *(token(ends=value) for value in (1e30, -1e30, float("inf"), float("nan"))),
    ],
)
def test_a_token_without_an_end_has_none(text: str) -> None:
    assert token_validity(text) is None


def test_the_first_end_counts_and_is_named() -> None:
    far, near = NOW + timedelta(days=90), NOW + timedelta(days=30)
    pem = encode(certificate(NOW, near))
    found = credentials(
        **{
            "token": token(ends=far.timestamp()),
            "client-certificate-data": pem,
            "client-key-data": encode(b"a key"),
        }
    )
    assert (found.perishable, found.expires) == ("client certificate", near)


@pytest.mark.parametrize(
    ("life", "left", "warned"),
    [
        (timedelta(days=365), timedelta(days=8), False),
        (timedelta(days=365), timedelta(days=6, hours=23), True),
        (timedelta(days=30), timedelta(days=6, hours=1), False),
        (timedelta(days=30), timedelta(days=5, hours=23), True),
        (timedelta(hours=1), timedelta(minutes=13), False),
        (timedelta(hours=1), timedelta(minutes=11), True),
        (None, timedelta(days=8), False),
        (None, timedelta(days=6), True),
    ],
)
def test_a_warning_comes_a_week_or_a_fifth_of_its_life_before_the_end(
    life: timedelta | None, left: timedelta, warned: bool
) -> None:
    ends = NOW + left
    begins = None if life is None else (ends - life).timestamp()
    found = credentials(token=token(begins=begins, ends=ends.timestamp()))
    assert (found.warning(NOW) is not None) == warned
    assert not found.expired(NOW)


def test_the_warning_says_what_to_renew_and_until_when() -> None:
    found = credentials(token=token(ends=NOW.timestamp()))
    assert found.warning(NOW - timedelta(days=1)) == (
        "the token in Secret team-a/edge expires on 2030-01-01T00:00:00Z: renew it there"
    )
    assert "expired on" in (found.warning(NOW + timedelta(seconds=1)) or "")
    assert found.expired(NOW)
    assert credentials(token=CANARY).warning(NOW) is None
