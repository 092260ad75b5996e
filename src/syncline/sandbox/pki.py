"""The sandbox's certificates: an authority, the API server's serving certificate, client certificates, keys."""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = dt.timedelta(days=3650)
_CLOCK_SKEW = dt.timedelta(hours=1)
_SERVING_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


class Authority:
    """A certificate authority with P-256 keys, which are created in a millisecond."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate

    @classmethod
    def create(cls) -> Self:
        """Create an authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("syncline-sandbox")
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = (
            _unsigned(name, name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        return cls(key, builder.sign(key, hashes.SHA256()))

    @classmethod
    def load(cls, certificate: bytes, key: bytes) -> Self:
        """Load an authority from its PEM files."""
        loaded = serialization.load_pem_private_key(key, password=None)
        if not isinstance(loaded, ec.EllipticCurvePrivateKey):
            raise TypeError("the authority's key is not an elliptic curve key")
        return cls(loaded, x509.load_pem_x509_certificate(certificate))

    @property
    def certificate(self) -> bytes:
        """The authority's own certificate, PEM."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key(self) -> bytes:
        """The authority's private key, PEM."""
        return _private(self._key)

    def serving(self) -> tuple[bytes, bytes]:
        """Return the certificate and key, PEM, of a server on loopback with the usual names of an API server."""
        names: list[x509.GeneralName] = [x509.DNSName(name) for name in _SERVING_NAMES]
        names += [x509.IPAddress(ipaddress.ip_address(address)) for address in ("127.0.0.1", "::1")]
        alternative = x509.SubjectAlternativeName(names)
        return self._issue(_name("kube-apiserver"), ExtendedKeyUsageOID.SERVER_AUTH, alternative)

    def client(self, user: str, groups: Sequence[str] = ()) -> tuple[bytes, bytes]:
        """Return the client certificate and key, PEM, of a user with groups."""
        return self._issue(_name(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _issue(
        self, name: x509.Name, usage: x509.ObjectIdentifier, alternative: x509.SubjectAlternativeName | None
    ) -> tuple[bytes, bytes]:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _unsigned(name, self._certificate.subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if alternative is not None:
            builder = builder.add_extension(alternative, critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), _private(key)


def signing_key() -> bytes:
    """Create a private key, PEM, for the signatures of ServiceAccount tokens."""
    return _private(ec.generate_private_key(ec.SECP256R1()))


def _name(common: str, organizations: Sequence[str] = ()) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _unsigned(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=key,
        serial_number=x509.random_serial_number(),
        not_valid_before=now - _CLOCK_SKEW,
        not_valid_after=now + _LIFETIME,
    )


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    # The API server reads elliptic curve keys for ServiceAccounts in the traditional format.
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
