"""The certificate of an endpoint: from files, which are read again after a change, or self-signed in memory."""

import datetime as dt
import ssl
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from syncline.telemetry.bind import BindError

log = structlog.get_logger(__name__)

CERTIFICATE = "tls.crt"
KEY = "tls.key"
"""The names of the files: the keys of a Secret of type kubernetes.io/tls."""

CHECK_SECONDS = 1.0
"""The time between two checks of the files, while there are connections."""

LIFETIME = dt.timedelta(days=365)
RENEWED_AFTER = LIFETIME.total_seconds() / 2
_CLOCK_SKEW = dt.timedelta(hours=1)

_Stamp = tuple[tuple[int, int, int], ...]


class ServingCertificate:
    """A TLS context with a current certificate. Create it with `from_folder` or `self_signed`, or with a `renew`.

    `renew` loads a newer certificate into the context, if there is one, and returns whether it has replaced another.
    Log lines name the `endpoint`.
    """

    def __init__(self, renew: Callable[[ssl.SSLContext], bool], endpoint: str) -> None:
        self._renew = renew
        self._endpoint = endpoint
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        # All clients have it. Of the other groups, some (ffdhe8192) take a tenth of a second of the event loop.
        self._context.set_ecdh_curve("prime256v1")
        renew(self._context)

    @classmethod
    def from_folder(cls, flag: str, folder: str, endpoint: str = "metrics") -> "ServingCertificate":
        """Use tls.crt and tls.key of a folder. Raises `BindError`, which names the flag."""
        try:
            return cls(_Files(Path(folder)).renew, endpoint)
        except (OSError, ssl.SSLError) as error:
            raise BindError(
                f"{flag} {folder}: put a certificate in {CERTIFICATE} and its key in {KEY}; {error}"
            ) from None

    @classmethod
    def self_signed(cls, names: Sequence[str], endpoint: str = "metrics") -> "ServingCertificate":
        """Use a self-signed certificate. It protects against eavesdropping, not against impersonation."""
        return cls(_SelfSigned(names).renew, endpoint)

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection. An unreadable new certificate does not replace the previous one."""
        try:
            if self._renew(self._context):
                log.info("the certificate of an endpoint was renewed", endpoint=self._endpoint)
        except (OSError, ssl.SSLError) as error:
            log.warning(
                "the new certificate of an endpoint is unreadable; the previous one stays in use",
                endpoint=self._endpoint,
                error=str(error),
            )
        return self._context


class _Files:
    def __init__(self, folder: Path) -> None:
        self._files = (folder / CERTIFICATE, folder / KEY)
        self._stamp: _Stamp | None = None
        self._looked = 0.0

    def renew(self, context: ssl.SSLContext) -> bool:
        """Load the files if they have changed since the last load."""
        now = time.monotonic()
        if self._stamp is not None and now - self._looked < CHECK_SECONDS:
            return False
        self._looked = now
        stamp = tuple((found.st_mtime_ns, found.st_ino, found.st_size) for found in (one.stat() for one in self._files))
        if stamp == self._stamp:
            return False
        first, self._stamp = self._stamp is None, stamp
        try:
            load_pair(context, *(file.read_bytes() for file in self._files))
        except BaseException:
            # A certificate and a key that do not match can be an unfinished rotation: read them again.
            self._stamp = ()
            raise
        return not first


class _SelfSigned:
    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._made: float | None = None

    def renew(self, context: ssl.SSLContext) -> bool:
        """Create a certificate, and a new one long before it expires."""
        now, first = time.monotonic(), self._made is None
        if self._made is not None and now - self._made < RENEWED_AFTER:
            return False
        load_pair(context, *make_self_signed(self._names))
        self._made = now
        return not first


def make_self_signed(names: Sequence[str]) -> tuple[bytes, bytes]:
    """Return a certificate and its key, PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = dt.datetime.now(dt.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "syncline")])
    certificate = (
        x509.CertificateBuilder(
            issuer_name=subject,
            subject_name=subject,
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=now - _CLOCK_SKEW,
            not_valid_after=now + LIFETIME,
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private


def load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a certificate and its key, PEM, into a context."""
    # OpenSSL needs files: they are private, and deleted after the call.
    # If the pair does not match, OpenSSL keeps the new certificate in the context. Another context therefore tests the
    # pair first.
    with tempfile.TemporaryDirectory(prefix="syncline-tls-") as folder:
        files = Path(folder, CERTIFICATE), Path(folder, KEY)
        for file, content in zip(files, (certificate, key), strict=True):
            file.touch(mode=0o600)
            file.write_bytes(content)
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*files)
        context.load_cert_chain(*files)
