"""Tokens of GitHub Apps: requested with a signed claim, and cached until shortly before they expire."""

import asyncio
import base64
import datetime as dt
import json
import socket
import ssl
from collections import OrderedDict
from collections.abc import Collection
from typing import Annotated
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from cryptography.exceptions import InternalError
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding

from syncline.fairness import FairSemaphore
from syncline.git.errors import (
    AuthenticationFailed,
    CertificateUntrusted,
    CredentialError,
    Refused,
    RepositoryUnreachable,
)
from syncline.git.remotes import GitHubApp, Remote, rsa_key
from syncline.git.url import addresses, host_refusal
from syncline.lookups import Lookups, resolved
from syncline.tls import client_context

_CLAIM_SECONDS = 540
_CLOCK_SKEW = 60
_EARLY = dt.timedelta(minutes=5)
_DEADLINE = aiohttp.ClientTimeout(total=20)
_ANSWER_LIMIT = 1024 * 1024
_LONGEST_TOKEN = 4096
MOST_TOKENS = 1000
"""The tokens that are kept. The least recently used are dropped first, and requested again."""
REQUESTS, SHARE = 8, 4
"""The most requests at once: in total, and of one tenant."""
_CREATED = 201
_TRANSIENT = (429, 500, 502, 503, 504)


class _Answer(msgspec.Struct):
    token: Annotated[str, msgspec.Meta(max_length=_LONGEST_TOKEN)]
    expires_at: dt.datetime


class AppTokens:
    """The tokens of all apps. Concurrent callers share one request."""

    def __init__(self, lookups: Lookups, *, allow_insecure: bool, allow_loopback: bool) -> None:
        self._lookups = lookups
        self._allow_insecure = allow_insecure
        self._allow_loopback = allow_loopback
        self._answers: OrderedDict[str, _Answer] = OrderedDict()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._requests = FairSemaphore(REQUESTS, share=SHARE)

    def __len__(self) -> int:
        return len(self._answers)

    async def token(self, remote: Remote, app: GitHubApp, tenants: Collection[str] = ()) -> str:
        """Return a token that is valid for at least some minutes."""
        key = remote.key
        turn = self._turns.get(key)
        if turn is None:
            turn = self._turns[key] = asyncio.Lock()
        async with turn:
            answer = self._answers.get(key)
            if answer is None or answer.expires_at - _EARLY < dt.datetime.now(dt.UTC):
                async with self._requests.slot(*tenants):
                    answer = self._answers[key] = await self._ask(remote, app, tenants)
            self._answers.move_to_end(key)
            while len(self._answers) > MOST_TOKENS:
                self._answers.popitem(last=False)
            return answer.token

    def forget(self, remote: Remote) -> None:
        """Request a new token the next time, because the server did not accept the last one."""
        self._answers.pop(remote.key, None)

    async def _ask(self, remote: Remote, app: GitHubApp, tenants: Collection[str]) -> _Answer:
        self._check(app)
        url = f"{app.api}/app/installations/{app.installation}/access_tokens"
        headers = {"Authorization": f"Bearer {claim(app)}", "Accept": "application/vnd.github+json"}
        resolver = CheckedResolver(self._lookups, tenants, allow_loopback=self._allow_loopback)
        connector = aiohttp.TCPConnector(resolver=resolver, ssl=tls_context(remote))
        proxy = remote.proxy.url if remote.proxy else None
        try:
            async with (
                aiohttp.ClientSession(connector=connector, timeout=_DEADLINE, trust_env=False) as session,
                session.post(url, headers=headers, allow_redirects=False, proxy=proxy) as answer,
            ):
                status, body = answer.status, bytearray()
                async for chunk in answer.content.iter_chunked(65536):
                    body += chunk
                    if len(body) > _ANSWER_LIMIT:
                        break
        except aiohttp.ClientConnectorCertificateError:
            raise CertificateUntrusted(
                f"the certificate of {app.api} is not trusted; write its certificate authority"
            ) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise RepositoryUnreachable(
                f"no token of the GitHub App: {app.api} is unreachable ({type(error).__name__})"
            ) from None
        if status in _TRANSIENT:
            raise RepositoryUnreachable(f"no token of the GitHub App: {app.api} answers {status}")
        if status != _CREATED:
            raise AuthenticationFailed(
                f"no token of the GitHub App: {app.api} answers {status}; check appID, installationID and privateKey"
            )
        try:
            return msgspec.json.decode(body, type=_Answer)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            raise RepositoryUnreachable(f"no token of the GitHub App: the answer of {app.api} cannot be read") from None

    def _check(self, app: GitHubApp) -> None:
        parts = urlsplit(app.api)
        if parts.scheme != "https" and not (parts.scheme == "http" and self._allow_insecure):
            raise Refused("the API of a GitHub App must use https; check 'baseURL' in its Secret")
        host = parts.hostname or ""
        if not host or parts.username is not None:
            raise CredentialError("the key 'baseURL' of the Secret is not a URL like https://github.example.com/api/v3")
        if why := host_refusal(host, allow_loopback=self._allow_loopback):
            raise Refused(f"the host {host} {why}")


def claim(app: GitHubApp) -> str:
    """Return the signed claim that identifies the app at GitHub. It is valid for some minutes."""
    now = int(dt.datetime.now(dt.UTC).timestamp())
    header = {"alg": "RS256", "typ": "JWT"}
    body = {"iat": now - _CLOCK_SKEW, "exp": now + _CLAIM_SECONDS, "iss": app.app}
    signed = f"{_segment(json.dumps(header).encode())}.{_segment(json.dumps(body).encode())}"
    try:
        signature = rsa_key(app.private_key).sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    except (InternalError, ValueError):
        raise CredentialError("the key 'privateKey' of the Secret is not a valid RSA key: nothing is signed") from None
    return f"{signed}.{_segment(signature)}"


def _segment(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def tls_context(remote: Remote) -> ssl.SSLContext:
    """Return the TLS settings for an API: the same as for its repository."""
    try:
        return client_context(remote.ca.decode("ascii") if remote.ca else None)
    except (ssl.SSLError, ValueError):
        raise CertificateUntrusted("'ca.crt' cannot be read; give certificates in PEM") from None


class CheckedResolver(AbstractResolver):
    """Returns no refused address."""

    def __init__(self, lookups: Lookups, tenants: Collection[str], *, allow_loopback: bool) -> None:
        self._lookups = lookups
        self._tenants = tenants
        self._allow_loopback = allow_loopback

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a name."""
        found = await addresses(
            host, port, allow_loopback=self._allow_loopback, lookups=self._lookups, tenants=self._tenants
        )
        return [resolved(host, each, port, socket.AF_INET6 if ":" in each else family) for each in found]

    async def close(self) -> None:
        """No resource to release."""
