"""Credentials of key services in a decryption Secret. Only known fields are accepted.

The usual formats of these files can name other servers, files to read and commands to run. A tenant writes them, so
these settings are never used: fields that are not in the short list of a service are refused by name.
"""

import configparser
import json
import re
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Any

from msgspec import Struct
from yarl import URL

from syncline.core.documents import DocumentError, read_document

GOOGLE_TOKEN_URL = "https://oauth2.googleapis.com/token"  # noqa: S105 - an address
# It is parsed in the event loop: the text of a tenant must not take long.
_MOST_TEXT = 16 * 1024
_MOST_AUTHORITIES = 64 * 1024
AWS_KEY, GOOGLE_KEY, AZURE_KEY = "aws-kms", "gcp-kms", "azure-kv"
VAULT_TOKEN_KEY, VAULT_ADDRESS_KEY = "vault-token", "vault-address"
VAULT = "vault"
VAULT_NAMESPACE_KEY, VAULT_CA_KEY = "vault-namespace", "vault-ca"

_AWS_FIELDS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_GOOGLE_FIELDS = ("client_email", "private_key", "private_key_id")
# Other fields in the file of Google, which are not used.
_GOOGLE_UNUSED = (
    "type",
    "project_id",
    "client_id",
    "auth_uri",
    "token_uri",
    "auth_provider_x509_cert_url",
    "client_x509_cert_url",
    "universe_domain",
)
_AZURE_FIELDS = ("tenantId", "clientId", "clientSecret", "vaultUrl")
_SERVER = re.compile(r"https://(?:[a-z0-9_.-]+|\[(?P<ip>[0-9a-f:.]+)\])(?::(?P<port>[0-9]{1,5}))?")
_TENANT = re.compile(r"[A-Za-z0-9.-]{1,253}")


class KeyCredentialError(Exception):
    """A credential is not valid. The message names the key of the Secret, and the remedy."""


class AwsCredential(Struct, frozen=True):
    """Static keys of AWS."""

    key_id: str
    secret: str
    session_token: str = ""


class GoogleCredential(Struct, frozen=True):
    """A Google service account with its own key."""

    email: str
    private_key: str
    private_key_id: str = ""


class AzureCredential(Struct, frozen=True):
    """An application of Microsoft Entra with a client secret, and the vault that it is for."""

    tenant: str
    client_id: str
    client_secret: str
    vault_url: str


class VaultCredential(Struct, frozen=True):
    """A token of HashiCorp Vault or OpenBao, and the server that it is for."""

    address: str
    token: str
    namespace: str = ""
    ca: str = ""


def read_aws(keys: Mapping[str, bytes]) -> AwsCredential | None:
    """Read static keys, from a credentials file of AWS or from a flat map."""
    text = _text(keys, AWS_KEY)
    if text is None:
        return None
    if text.lstrip().startswith("["):
        parser = configparser.RawConfigParser()
        try:
            parser.read_string(text)
        except configparser.Error:
            raise KeyCredentialError(
                f"{AWS_KEY} is not a credentials file of AWS: write {', '.join(_AWS_FIELDS)}"
            ) from None
        if parser.sections() != ["default"]:
            raise KeyCredentialError(f"{AWS_KEY} must have one section, [default], and no other")
        fields: dict[str, Any] = dict(parser["default"])
    else:
        fields = _map(AWS_KEY, text)
    found = _known(AWS_KEY, fields, _AWS_FIELDS, required=2)
    return AwsCredential(*(found.get(name, "") for name in _AWS_FIELDS))


def read_google(keys: Mapping[str, bytes]) -> GoogleCredential | None:
    """Read the key file of a service account. Other types of Google credentials name addresses or files."""
    text = _text(keys, GOOGLE_KEY)
    if text is None:
        return None
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict) or fields.get("type") != "service_account":
        raise KeyCredentialError(
            f'{GOOGLE_KEY} must be the JSON key of a service account ("type": "service_account"); other types name '
            "addresses and files, which are not followed"
        )
    if fields.get("token_uri", GOOGLE_TOKEN_URL) != GOOGLE_TOKEN_URL:
        raise KeyCredentialError(f"token_uri of {GOOGLE_KEY} must be {GOOGLE_TOKEN_URL}, or absent")
    if fields.get("universe_domain", "googleapis.com") != "googleapis.com":
        raise KeyCredentialError(f"universe_domain of {GOOGLE_KEY} must be googleapis.com, or absent")
    used = {name: value for name, value in fields.items() if name not in _GOOGLE_UNUSED}
    found = _known(GOOGLE_KEY, used, _GOOGLE_FIELDS, required=2)
    return GoogleCredential(*(found.get(name, "") for name in _GOOGLE_FIELDS))


def read_azure(keys: Mapping[str, bytes]) -> AzureCredential | None:
    """Read an application's secret, and the vault that the Secret names."""
    text = _text(keys, AZURE_KEY)
    if text is None:
        return None
    found = _known(AZURE_KEY, _map(AZURE_KEY, text), _AZURE_FIELDS, required=len(_AZURE_FIELDS))
    if not _TENANT.fullmatch(found["tenantId"]):
        raise KeyCredentialError(f"tenantId of {AZURE_KEY} must be the id or the domain of a tenant")
    url = _address(AZURE_KEY, found["vaultUrl"])
    return AzureCredential(found["tenantId"], found["clientId"], found["clientSecret"], url)


def read_vault(keys: Mapping[str, bytes]) -> VaultCredential | None:
    """Read a token, and the server that the Secret names."""
    token = _text(keys, VAULT_TOKEN_KEY)
    if token is None:
        return None
    address = _text(keys, VAULT_ADDRESS_KEY)
    if address is None:
        raise KeyCredentialError(
            f"the Secret has {VAULT_TOKEN_KEY} but not {VAULT_ADDRESS_KEY}: add the server's address"
        )
    return VaultCredential(
        address=_address(VAULT_ADDRESS_KEY, address),
        token=_header(VAULT_TOKEN_KEY, token),
        namespace=_header(VAULT_NAMESPACE_KEY, _text(keys, VAULT_NAMESPACE_KEY) or ""),
        ca=_text(keys, VAULT_CA_KEY, _MOST_AUTHORITIES) or "",
    )


def services_of(keys: Mapping[str, bytes]) -> list[tuple[str, str]]:
    """Return the key services that a decryption Secret has credentials for, and their addresses where it names them.

    The address of a credential that cannot be read is empty: nothing is ever sent with it.
    """
    found = [(name, "") for name in (AWS_KEY, GOOGLE_KEY) if name in keys]
    if AZURE_KEY in keys:
        try:
            azure = read_azure(keys)
        except KeyCredentialError:
            azure = None
        found.append((AZURE_KEY, azure.vault_url if azure is not None else ""))
    if VAULT_TOKEN_KEY in keys:
        try:
            vault = read_vault(keys)
        except KeyCredentialError:
            vault = None
        found.append((VAULT, vault.address if vault is not None else ""))
    return found


def _text(keys: Mapping[str, bytes], name: str, most: int = _MOST_TEXT) -> str | None:
    if name not in keys:
        return None
    if len(keys[name]) > most:
        raise KeyCredentialError(f"{name} is larger than {most} bytes")
    try:
        return keys[name].decode()
    except UnicodeDecodeError:
        raise KeyCredentialError(f"{name} is not text") from None


def _map(name: str, text: str) -> dict[str, Any]:
    try:
        fields = read_document(text)
    except DocumentError:
        fields = None
    if not isinstance(fields, dict):
        raise KeyCredentialError(f"{name} must be a map of fields, in YAML or JSON")
    return fields


def _known(name: str, fields: Mapping[str, Any], allowed: Sequence[str], *, required: int) -> dict[str, str]:
    """Return the allowed fields. The first ones are required, and all others are refused."""
    others = sorted(str(field) for field in fields if field not in allowed)
    if others:
        raise KeyCredentialError(
            f"{name} has the field {others[0]!r}, which is not used: write {', '.join(allowed)} only"
        )
    for field in allowed[:required]:
        if not fields.get(field):
            raise KeyCredentialError(f"{name} lacks the field {field}")
    found = {field: str(value) for field, value in fields.items()}
    if any(not value.isprintable() for field, value in found.items() if field != "private_key"):
        raise KeyCredentialError(f"{name} has a field with unprintable characters")
    return found


def _header(name: str, text: str) -> str:
    """Return the value of a header."""
    value = text.strip()
    if not value.isprintable():
        raise KeyCredentialError(f"{name} has unprintable characters, such as the end of a line")
    return value


def _is_host(url: str) -> bool:
    """Whether the host of a URL can be read: an encoded label of a name may stand for nothing."""
    try:
        return bool(URL(url).host)
    except ValueError:
        return False


def _is_ip(text: str | None) -> bool:
    try:
        return text is None or bool(ip_address(text))
    except ValueError:
        return False


def _address(name: str, url: str) -> str:
    """Return the address of a server. Raises `CredentialError` if it has a path or is not an address."""
    found = _SERVER.fullmatch(url.strip().rstrip("/").lower())
    is_server = found is not None and _is_ip(found["ip"]) and int(found["port"] or 1) in range(1, 65536)
    if found is None or not is_server or not _is_host(found.string):
        raise KeyCredentialError(f"{name} must name a server as https://HOST or https://HOST:PORT, and nothing else")
    return found.string
