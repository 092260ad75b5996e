"""The token of a ServiceAccount, requested with the rights of a user, and renewed before it expires."""

import asyncio
from datetime import UTC, datetime

import msgspec
import structlog

from syncline.kube.client import Client
from syncline.kube.errors import ConfigError, Forbidden, KubeError, NotFound
from syncline.kube.resources import SERVICEACCOUNTS

log = structlog.get_logger(__name__)

LIFETIME = 3600
# A token is renewed after this part of its lifetime. An outage of the API server can last for the remaining part.
RENEW_AFTER = 0.5
# After a failed renewal the current token is used for this long before the next attempt.
PAUSE = 10.0


class AccountToken:
    """A credential that `client` requests for an account. Concurrent callers share one request."""

    def __init__(self, client: Client, namespace: str, account: str) -> None:
        self._client = client
        self._namespace = namespace
        self._account = account
        self._token: str | None = None
        self._renew_at = 0.0
        self._ends_at = 0.0
        self._requesting = asyncio.Lock()

    async def token(self) -> str:
        """Return the current token, or request a new one. Raises `ConfigError` if there is none."""
        async with self._requesting:
            if self._token is None or _now() >= self._renew_at:
                await self._request()
            assert self._token is not None  # noqa: S101  # _request sets it or raises
            return self._token

    async def renew(self, rejected: str | None) -> bool:
        """Request a new token, unless another caller just did."""
        async with self._requesting:
            if self._token == rejected:
                self._ends_at = 0.0
                await self._request()
            return self._token != rejected

    async def _request(self) -> None:
        try:
            answer = await self._client.create_for(
                SERVICEACCOUNTS, self._account, self._namespace, "token", _REQUEST, type=TokenAnswer
            )
        except KubeError as error:
            if self._token is not None and _now() < self._ends_at:
                log.warning("the token cannot be renewed; the operator retries", error=str(error))
                self._renew_at = min(_now() + PAUSE, self._ends_at)
                return
            raise ConfigError(self._explain(error)) from error
        left = seconds_left(answer)
        self._token = answer.status.token
        self._renew_at, self._ends_at = _now() + left * RENEW_AFTER, _now() + left

    def _explain(self, error: KubeError) -> str:
        who = f"{self._namespace}/{self._account}"
        if isinstance(error, NotFound):
            return f"there is no ServiceAccount {who}: run `syncline install --without-deployment` first"
        if isinstance(error, Forbidden):
            return f"to act as ServiceAccount {who} you need the right to create serviceaccounts/token there: {error}"
        return f"the token of ServiceAccount {who} cannot be requested: {error}"


_REQUEST = {
    "apiVersion": "authentication.k8s.io/v1",
    "kind": "TokenRequest",
    "spec": {"expirationSeconds": LIFETIME},
}


class _Status(msgspec.Struct, rename="camel"):
    token: str
    expiration_timestamp: datetime


class TokenAnswer(msgspec.Struct):
    """The answer to a request for a token."""

    status: _Status


def seconds_left(answer: TokenAnswer) -> float:
    """Return for how long a token is valid."""
    return (answer.status.expiration_timestamp.astimezone(UTC) - datetime.now(UTC)).total_seconds()


def _now() -> float:
    return asyncio.get_running_loop().time()
