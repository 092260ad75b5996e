"""Private keys of tenants: those that are used, and those that would take the time of the operator."""

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, padding, rsa
from tests.core.hostile_keys import der, integer, large_dsa, large_rsa, pem, pkcs8, rsa_numbers

from syncline.core.private_keys import KeyRefused, key_type, read_pem, rsa_key

RSA = rsa.generate_private_key(65537, 2048)
OTHER = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
RSA_OID, EC_OID = "2a864886f70d010101", "2a8648ce3d0201"


def written(
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | dsa.DSAPrivateKey,
    form: str = "PKCS8",
    password: bytes = b"",
) -> bytes:
    hidden: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password:
        hidden = serialization.BestAvailableEncryption(password)
    return key.private_bytes(serialization.Encoding.PEM, getattr(serialization.PrivateFormat, form), hidden)


@pytest.mark.parametrize("form", ["PKCS8", "TraditionalOpenSSL"])
def test_an_rsa_key_signs(form: str) -> None:
    text = written(RSA, form)
    for each in (text, text.replace(b"\n", b"\r\n"), b"# a comment\n" + text):
        signature = rsa_key(each).sign(b"text", padding.PKCS1v15(), hashes.SHA256())
        assert signature == RSA.sign(b"text", padding.PKCS1v15(), hashes.SHA256())


def test_keys_of_usual_types_are_known() -> None:
    assert key_type(read_pem(written(RSA))) == key_type(read_pem(written(RSA, "TraditionalOpenSSL"))) == "RSA"
    assert key_type(read_pem(written(EC))) == key_type(read_pem(written(EC, "TraditionalOpenSSL"))) == "EC"
    assert key_type(read_pem(written(ED))) == "Ed25519"
    with_curve = pem("EC PARAMETERS", der(6, bytes.fromhex("2a8648ce3d030107"))) + written(EC, "TraditionalOpenSSL")
    assert key_type(read_pem(with_curve)) == "EC"
    assert read_pem(with_curve).text.startswith(b"-----BEGIN EC PRIVATE KEY-----")


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (large_rsa(), "has more than 4096 bits"),
        (pem("PRIVATE KEY", pkcs8(RSA_OID, der(5, b""), rsa_numbers())), "has more than 4096 bits"),
        (pem("PRIVATE KEY", large_dsa()), "is not an RSA, EC or Ed25519 key"),
        (written(dsa.generate_private_key(1024), "TraditionalOpenSSL"), "is not an RSA, EC or Ed25519 key"),
        (pem("PRIVATE KEY", pkcs8(EC_OID, der(0x30, integer(1)), b"x")), "no key of a named curve"),
        (pem("PRIVATE KEY", pkcs8(EC_OID, der(6, b"\x2a"), bytes(5000))), "no key of a named curve"),
        (pem("EC PRIVATE KEY", der(0x30, integer(1) + der(0xA0, der(0x30, integer(1))))), "no key of a named curve"),
        (written(EC), "is not an RSA key"),
        (written(RSA, password=b"secret"), "without a passphrase"),
        (written(RSA, "TraditionalOpenSSL", b"secret"), "without a passphrase"),
        (written(RSA) + written(OTHER), "more than one private key"),
        (b"canary", "is not a private key in PEM"),
        (b"-----BEGIN PRIVATE KEY-----\n!!!\n-----END PRIVATE KEY-----\n", "is not a private key in PEM"),
        (b"-----BEGIN PRIVATE KEY-----\nMAA=\n", "is not a private key in PEM"),
        (pem("PRIVATE KEY", b"\x30\x84\xff\xff\xff\xff"), "is not a private key in PEM"),
        (pem("PRIVATE KEY", b"\x30"), "is not a private key in PEM"),
        (pem("PRIVATE KEY", b"\x30\x80"), "is not a private key in PEM"),
        (pem("PRIVATE KEY", der(0x30, integer(0) * 40)), "is not a private key in PEM"),
        (b"x" * 70_000, "more than 64 KiB"),
    ],
)
def test_a_key_that_would_take_long_or_is_none_is_refused(key: bytes, said: str) -> None:
    with pytest.raises(KeyRefused, match=said):
        rsa_key(key)


def test_an_rsa_key_whose_numbers_do_not_fit_each_other_is_refused() -> None:
    numbers = RSA.private_numbers()
    p, q = numbers.p, numbers.q
    assert rsa_key(pem("RSA PRIVATE KEY", rsa_numbers(p, q))).private_numbers().public_numbers == numbers.public_numbers
    for name, wrong in (
        ("n", p * q + 2),
        ("e", (1 << 40) + 15),
        ("d", numbers.d + 2),
        ("p", 1),
        ("q", 2**2000),
        ("dp", numbers.dmp1 + 2),
        ("dq", -numbers.dmq1),
        ("qi", numbers.iqmp + 1),
    ):
        with pytest.raises(KeyRefused, match="is not a valid RSA key"):
            rsa_key(pem("RSA PRIVATE KEY", rsa_numbers(p, q, other={name: wrong})))


def test_a_key_is_in_no_representation() -> None:
    assert repr(read_pem(written(RSA))) == "PemKey('PRIVATE KEY')"
