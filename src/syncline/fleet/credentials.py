"""The rules for every credential of another cluster."""

import hashlib
import re
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from syncline.fleet.addresses import check_server
from syncline.fleet.errors import NotResolved
from syncline.fleet.expiry import ValidityPeriod, certificate_validity, token_validity
from syncline.kube.config import Connection, is_server_url
from syncline.kube.errors import ConfigError

NOTICE = timedelta(days=7)
_TOKEN = re.compile(r"[\x21-\x7e]{1,65536}")


class Credentials(Struct, frozen=True, kw_only=True):
    """A valid connection, with its origin and its expiry."""

    connection: Connection
    origin: str
    """The origin for people: `Secret team-a/edge`."""
    digest: str
    """A fingerprint that is equal for equal content. It must not be logged."""
    perishable: str = ""
    """The part that expires first: the token or the client certificate."""
    validity: ValidityPeriod | None = None

    def __repr__(self) -> str:
        """Return the origin of the credential, without its content."""
        return f"Credentials({self.origin!r}, {self.connection.server!r})"

    @property
    def expires(self) -> datetime | None:
        """The time when the credential expires, if it contains this."""
        return self.validity.ends if self.validity else None

    def expired(self, now: datetime | None = None) -> bool:
        """Whether the credential has expired."""
        return self.validity is not None and self.validity.ends <= (now or datetime.now(UTC))

    def warning(self, now: datetime) -> str | None:
        """Return a warning 7 days, or a fifth of its lifetime, before the expiry, whichever is later."""
        if self.validity is None or self.validity.ends - now > self.validity.margin(NOTICE):
            return None
        verb = "expired" if self.expired(now) else "expires"
        return (
            f"the {self.perishable} in {self.origin} {verb} on {self.validity.ends:%Y-%m-%dT%H:%M:%SZ}: renew it there"
        )

    def same_server(self, other: "Credentials") -> bool:
        """Whether both connect to the same server with the same certificate authority."""
        return _way(self.connection) == _way(other.connection)


def validate(connection: Connection, origin: str, *, allow_loopback: bool) -> Credentials:
    """Return a connection as a valid credential.

    Raises `NotResolved`. Its message names the origin and the mistake, and quotes nothing of the credential.
    """
    try:
        _check(connection)
        check_server(connection.server, allow_loopback=allow_loopback)
    except ConfigError as error:
        raise NotResolved("InvalidCredentials", f"{origin}: {str(error).removeprefix(f'{origin}: ')}") from None
    lives = {
        "token": token_validity(connection.token) if connection.token else None,
        "client certificate": certificate_validity(connection.client_cert_pem) if connection.client_cert_pem else None,
    }
    perishable, life = min(
        ((name, life) for name, life in lives.items() if life), key=lambda item: item[1].ends, default=("", None)
    )
    return Credentials(
        connection=connection, origin=origin, digest=_digest(connection), perishable=perishable, validity=life
    )


def _check(connection: Connection) -> None:
    if not connection.server.lower().startswith("https://") or not is_server_url(connection.server):
        raise ConfigError("the server is not an https URL without user, query and fragment: correct it")
    if connection.token is None and connection.client_cert_pem is None:
        raise ConfigError("there is no credential: add a token or a client certificate")
    if connection.token is not None and not _TOKEN.fullmatch(connection.token):
        raise ConfigError("the token contains spaces, newlines or other invalid characters: correct it")
    if not connection.verify_tls or connection.proxy_url or connection.exec_plugin or connection.token_file:
        raise ConfigError(
            "only a server, its certificate authority, and an inline token or client certificate are accepted: remove"
            " other settings"
        )


def _way(connection: Connection) -> tuple[str, bytes, str]:
    return (connection.server, connection.ca_pem or b"", connection.tls_server_name or "")


def _digest(connection: Connection) -> str:
    server, authority, name = _way(connection)
    parts = (
        server.encode(),
        authority,
        name.encode(),
        (connection.token or "").encode(),
        connection.client_cert_pem or b"",
        connection.client_key_pem or b"",
    )
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).hexdigest()
