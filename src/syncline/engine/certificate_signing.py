"""Creates and reads the operator's own certificate authorities, and signs certificates for its endpoints."""

import datetime as dt
from collections.abc import Sequence
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from syncline.core.serving_authorities import CertificateAuthority

_CLOCK_SKEW = dt.timedelta(hours=1)
_SUBJECT = "syncline-serving"
_MOST_CHARACTERS = 16 * 1024


def make_authority(now: float, lifetime: float) -> CertificateAuthority:
    """Create an authority that can sign certificates, but no further authorities."""
    key = ec.generate_private_key(ec.SECP256R1())
    at, serial = dt.datetime.fromtimestamp(now, dt.UTC), x509.random_serial_number()
    # A unique name, so that clients that trust several authorities find the right one.
    name = _name(f"{_SUBJECT}-ca-{serial:040x}"[:64])
    expires = at + dt.timedelta(seconds=lifetime)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), serial, at - _CLOCK_SKEW, expires)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return CertificateAuthority(
        _pem(certificate), _private_pem(key).decode(), now, certificate.not_valid_after_utc.timestamp()
    )


def read_authority(certificate: str, key: str, created: float) -> CertificateAuthority:
    """Read an authority. Raises `ValueError` if it cannot sign. The error quotes nothing of the key."""
    if max(len(certificate), len(key)) > _MOST_CHARACTERS:
        raise ValueError("the certificate or the key is too long")
    found, private = _loaded(certificate, key)
    try:
        if not found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            raise ValueError("the certificate is not that of an authority")
    except x509.ExtensionNotFound:
        raise ValueError("the certificate is not that of an authority") from None
    if found.public_key() != private.public_key():
        raise ValueError("the key is not that of the certificate")
    return CertificateAuthority(_pem(found), key, created, found.not_valid_after_utc.timestamp())


def sign_certificate(
    authority: CertificateAuthority, names: Sequence[str], now: float, lifetime: float
) -> tuple[bytes, bytes]:
    """Return a new certificate for the host names and IP addresses, and its key, PEM. It ends before its authority."""
    issuer, signer = _loaded(authority.certificate, authority.key)
    key = ec.generate_private_key(ec.SECP256R1())
    at = dt.datetime.fromtimestamp(now, dt.UTC)
    begins = max(at - _CLOCK_SKEW, issuer.not_valid_before_utc)
    expires = min(at + dt.timedelta(seconds=lifetime), issuer.not_valid_after_utc)
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    certificate = (
        x509.CertificateBuilder(
            issuer.subject, _name(_SUBJECT), key.public_key(), x509.random_serial_number(), begins, expires
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(issuer_key, critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    return _pem(certificate).encode(), _private_pem(key)


def _loaded(certificate: str, key: str) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        found = x509.load_pem_x509_certificate(certificate.encode())
        private = serialization.load_pem_private_key(key.encode(), None)
    except (ValueError, TypeError):  # not kept as the cause: it could quote the key
        raise ValueError("the certificate or the key cannot be read") from None
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise ValueError("the key is not one of an elliptic curve")  # noqa: TRY004 - its text is wrong, not its type
    return found, private


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
