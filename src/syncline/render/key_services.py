"""Requests the data key of a SOPS file from a key service: AWS KMS, Google Cloud KMS, Azure Key Vault, Vault.

The `sops` program has no network, because its libraries connect to any server in a credential. Here one request goes to
the official address of the service, or to the address in the decryption Secret, never to an address in the file. Every
address passes the same check as for Git. Only the key is used from the answer; no message quotes it.
"""

import asyncio
import base64
import binascii
import json
import re
import socket
import ssl
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlencode

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from syncline.core.addresses import refusal
from syncline.core.private_keys import KeyRefused
from syncline.lookups import FairResolver, Lookups
from syncline.render.errors import BuildError
from syncline.render.key_credentials import (
    AWS_KEY,
    AZURE_KEY,
    GOOGLE_KEY,
    GOOGLE_TOKEN_URL,
    VAULT_ADDRESS_KEY,
    VAULT_TOKEN_KEY,
    AwsCredential,
    KeyCredentialError,
    read_aws,
    read_azure,
    read_google,
    read_vault,
)
from syncline.render.signing import aws_headers, service_account_assertion
from syncline.tls import client_context

DATA_KEY_BYTES = 32
# If a file has more keys, only the first ones are tried.
MOST_ENTRIES = 5
SECONDS = 20.0
_MOST_ANSWER = 64 * 1024
_GOOGLE = "https://cloudkms.googleapis.com/v1/"
_MICROSOFT = "https://login.microsoftonline.com/"
_ARN = re.compile(
    r"arn:(aws|aws-cn|aws-us-gov):kms:([a-z]{2}(?:-[a-z]+)+-\d):\d{12}:(?:key|alias)/[A-Za-z0-9/_-]{1,256}"
)
_GOOGLE_RESOURCE = re.compile(r"projects/[^/]{1,63}/locations/[^/]{1,63}/keyRings/[^/]{1,63}/cryptoKeys/[^/]{1,63}")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,256}")
_ENGINE = re.compile(r"[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+){0,9}")
_SECRET_KEYS = {
    "kms": AWS_KEY,
    "gcp_kms": GOOGLE_KEY,
    "azure_kv": AZURE_KEY,
    "hc_vault": f"{VAULT_TOKEN_KEY} and {VAULT_ADDRESS_KEY}",
}

Entry = Mapping[str, str]
"""The name of a key in a file: fields of the SOPS metadata."""


class _ServiceRefused(Exception):  # noqa: N818 - one of several may be
    """This key does not decrypt the file, with the cause."""


class KeyServices:
    """Asks key services. Open it, and close it."""

    def __init__(
        self,
        *,
        allow_loopback: bool = False,
        resolver: AbstractResolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._allow_loopback = allow_loopback
        self._resolver = resolver
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None
        self._lookups = Lookups()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        self._lookups.close()
        if self._session is not None:
            await self._session.close()

    async def data_key(self, path: str, entries: Sequence[tuple[str, Entry]], keys: Mapping[str, bytes]) -> bytes:
        """Return the data key of a file, from the first service that returns it. Raises BuildError."""
        causes: list[str] = []
        try:
            async with asyncio.timeout(SECONDS):
                for service, entry in entries[:MOST_ENTRIES]:
                    try:
                        return _checked(await self._ask(service, entry, keys))
                    except (_ServiceRefused, KeyCredentialError) as refused:
                        causes.append(f"{service}: {refused}")
        except TimeoutError:
            causes.append(f"no key service answered within {SECONDS:.0f} s")
        raise BuildError(f"no key service decrypts it: {'; '.join(dict.fromkeys(causes))}", file=path)

    async def _ask(self, service: str, entry: Entry, keys: Mapping[str, bytes]) -> bytes:
        match service:
            case "kms":
                return await self._aws(entry, read_aws(keys) or _missing(service))
            case "gcp_kms":
                return await self._google(entry, keys)
            case "azure_kv":
                return await self._azure(entry, keys)
            case "hc_vault":
                return await self._vault(entry, keys)
        raise _ServiceRefused("this key service is not supported; encrypt the file for an age key too")

    async def _aws(self, entry: Entry, credential: AwsCredential) -> bytes:
        arn = entry.get("arn", "")
        found = _ARN.fullmatch(arn)
        if found is None:
            raise _ServiceRefused("the file does not name a key by its ARN")
        if entry.get("role"):
            raise _ServiceRefused("the key needs an assumed role, which is not supported; use the key of that role")
        partition, region = found.groups()
        host = f"kms.{region}.amazonaws.com{'.cn' if partition == 'aws-cn' else ''}"
        body = {"KeyId": arn, "CiphertextBlob": entry.get("enc", ""), "EncryptionContext": _context(entry)}
        content = json.dumps(body).encode()
        headers = aws_headers(credential, host, region, content, datetime.now(UTC))
        answer = await self._post(f"https://{host}/", content, headers)
        return _base64(answer.get("Plaintext"))

    async def _google(self, entry: Entry, keys: Mapping[str, bytes]) -> bytes:
        credential = read_google(keys) or _missing("gcp_kms")
        resource = entry.get("resource_id", "")
        if not _GOOGLE_RESOURCE.fullmatch(resource):
            raise _ServiceRefused("the file does not name a key by projects/.../cryptoKeys/...")
        try:
            assertion = service_account_assertion(credential, GOOGLE_TOKEN_URL, datetime.now(UTC))
        except KeyRefused as refused:
            raise _ServiceRefused(f"private_key of {GOOGLE_KEY} {refused}") from None
        form = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": assertion}
        token = await self._token(GOOGLE_TOKEN_URL, form)
        body = json.dumps({"ciphertext": entry.get("enc", "")}).encode()
        answer = await self._post(f"{_GOOGLE}{resource}:decrypt", body, {"Authorization": f"Bearer {token}"})
        return _base64(answer.get("plaintext"))

    async def _azure(self, entry: Entry, keys: Mapping[str, bytes]) -> bytes:
        credential = read_azure(keys) or _missing("azure_kv")
        name, version = entry.get("name", ""), entry.get("version", "")
        if entry.get("vault_url", "").rstrip("/").lower() != credential.vault_url:
            raise _ServiceRefused(f"the file names another vault than vaultUrl of {AZURE_KEY}")
        if not _NAME.fullmatch(name) or not _NAME.fullmatch(version):
            raise _ServiceRefused("the file does not name a key and its version")
        form = {
            "grant_type": "client_credentials",
            "client_id": credential.client_id,
            "client_secret": credential.client_secret,
            "scope": "https://vault.azure.net/.default",
        }
        token = await self._token(f"{_MICROSOFT}{quote(credential.tenant)}/oauth2/v2.0/token", form)
        body = json.dumps({"alg": "RSA-OAEP-256", "value": entry.get("enc", "")}).encode()
        url = f"{credential.vault_url}/keys/{name}/{version}/decrypt?api-version=7.4"
        answer = await self._post(url, body, {"Authorization": f"Bearer {token}"})
        return _base64(answer.get("value"), url_safe=True)

    async def _vault(self, entry: Entry, keys: Mapping[str, bytes]) -> bytes:
        credential = read_vault(keys) or _missing("hc_vault")
        engine, name = entry.get("engine_path", "").strip("/"), entry.get("key_name", "")
        if entry.get("vault_address", "").rstrip("/").lower() != credential.address:
            raise _ServiceRefused(f"the file names another server than {VAULT_ADDRESS_KEY}")
        if not _ENGINE.fullmatch(engine) or ".." in engine or not _NAME.fullmatch(name):
            raise _ServiceRefused("the file does not name an engine and a key")
        headers = {"X-Vault-Token": credential.token, "X-Vault-Request": "true"}
        if credential.namespace:
            headers["X-Vault-Namespace"] = credential.namespace
        body = json.dumps({"ciphertext": entry.get("enc", "")}).encode()
        tls = _tls(credential.ca) if credential.ca else None
        answer = await self._post(f"{credential.address}/v1/{engine}/decrypt/{name}", body, headers, tls=tls)
        data = answer.get("data")
        return _base64(data.get("plaintext") if isinstance(data, dict) else None)

    async def _token(self, url: str, form: Mapping[str, str]) -> str:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = await self._post(url, urlencode(form).encode(), headers)
        token = answer.get("access_token")
        if not isinstance(token, str) or not token.isprintable():
            raise _ServiceRefused("the service sent no token")
        return token

    async def _post(
        self, url: str, body: bytes, headers: Mapping[str, str], *, tls: ssl.SSLContext | None = None
    ) -> dict[str, Any]:
        """Send one request and return the answer. No redirect is followed, and no error quotes the answer."""
        where = URL(url).host
        session = self._session = self._session or self._open()
        self._tls = self._tls or client_context()
        try:
            async with session.post(
                URL(url, encoded=True),
                data=body,
                headers={"Content-Type": "application/json", **headers},
                allow_redirects=False,
                ssl=tls or self._tls,
            ) as response:
                content = await response.content.read(_MOST_ANSWER)
                status = response.status
        except _AddressError as error:
            raise _ServiceRefused(str(error)) from None
        except (aiohttp.ClientError, OSError) as error:
            raise _ServiceRefused(f"{where} is unreachable ({type(error).__name__})") from None
        if status != 200:  # noqa: PLR2004 - OK
            raise _ServiceRefused(
                f"{where} answered {status}: check that the credential has the right to decrypt with this key"
            )
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise _ServiceRefused(f"the response of {where} is not valid for a key service")
        return answer

    def _open(self) -> aiohttp.ClientSession:
        # One connection for each request: tenants share none.
        connector = aiohttp.TCPConnector(
            resolver=self._resolver or FairResolver(self._lookups),
            socket_factory=self._new_socket,
            force_close=True,
            limit=16,
        )
        return aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=SECONDS, connect=5.0, sock_connect=5.0),
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    def _new_socket(self, info: Any) -> socket.socket:
        """Make the socket for an address: the last moment, when it is certain where a connection goes."""
        family, kind, protocol, _, address = info
        why = refusal(str(address[0]), allow_loopback=self._allow_loopback)
        if why is not None:
            raise _AddressError(f"{address[0]} {why}")
        return socket.socket(family, kind, protocol)


class _AddressError(Exception):
    """An address that no connection may lead to."""


def _missing(service: str) -> Any:
    raise KeyCredentialError(f"write its credential to the decryption Secret, as {_SECRET_KEYS[service]}")


def _checked(key: bytes) -> bytes:
    if len(key) != DATA_KEY_BYTES:
        raise _ServiceRefused("the response of the service is not the key of the file")
    return key


def _context(entry: Entry) -> dict[str, str]:
    """Return AWS's encryption context, which the metadata holds as JSON here."""
    try:
        context = json.loads(entry.get("context") or "{}")
    except (ValueError, RecursionError):
        context = None
    if not isinstance(context, dict):
        raise _ServiceRefused("the encryption context of the key is not a map")
    return {str(name): str(value) for name, value in context.items()}


def _base64(value: object, *, url_safe: bool = False) -> bytes:
    if not isinstance(value, str):
        raise _ServiceRefused("the response of the service is not a key")
    try:
        if url_safe:
            return base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise _ServiceRefused("the response of the service is not a key") from None


def _tls(ca: str) -> ssl.SSLContext:
    try:
        return client_context(ca)
    except (ssl.SSLError, ValueError):
        raise KeyCredentialError("vault-ca is not a certificate in PEM") from None
