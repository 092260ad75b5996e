"""The adapter of any application that reloads its files after one HTTP request."""

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from syncline.agent.adapters import ApplyError, ApplySession, Availability, NoSession
from syncline.agent.local_http import LocalHttp, UnreachableError
from syncline.core.gateway_plan import GatewayPlan, HttpApply

REQUEST = "request"
_MAX_VALUE_BYTES = 16 * 1024


class HttpAdapter:
    """An application on the loopback address."""

    def __init__(self, http: LocalHttp, request: HttpApply, secrets_dir: str) -> None:
        self._http = http
        self._request = request
        self._secrets = secrets_dir

    def steps(self, paths: Iterable[str]) -> frozenset[str]:
        """Return the request as the only step."""
        return frozenset({REQUEST}) if any(True for _ in paths) else frozenset()

    async def availability(self) -> Availability:
        """Return that the application is available: only the request itself shows it."""
        return Availability(running=True)

    async def check(self, steps: frozenset[str], paths: Iterable[str]) -> None:
        """Do nothing: a publish never has to wait."""
        del steps, paths

    def session(self) -> "AbstractAsyncContextManager[ApplySession]":
        """Begin a publish."""
        return _HttpSession(self)

    async def send(self) -> str:
        """Send the request. Raises `ApplyError`."""
        wanted = self._request
        headers = {name: self._value(name, file) for name, file in wanted.headers.items()}
        try:
            answer = await self._http.send(
                wanted.method, wanted.path, headers=headers, seconds=max(1, min(wanted.timeout_seconds, 300))
            )
        except UnreachableError as error:
            raise ApplyError("ApplyFailed", str(error)) from None
        if answer.status not in wanted.expected:
            expected = ", ".join(map(str, wanted.expected))
            raise ApplyError(
                "ApplyFailed",
                f"{wanted.method} {wanted.path} was answered {answer.status}, and {expected} is expected",
            )
        return f"{wanted.method} {wanted.path} answered {answer.status}"

    def _value(self, name: str, file: str) -> str:
        parts = file.split("/")
        if not self._secrets or any(part in ("", ".", "..") for part in parts):
            raise ApplyError("ApplyFailed", f"the header {name} has no file for its value")
        try:
            with Path(self._secrets, *parts).open("rb") as opened:
                value = opened.read(_MAX_VALUE_BYTES).decode("utf-8").strip()
        except (OSError, ValueError):
            raise ApplyError(
                "ApplyFailed", f"the value of the header {name} cannot be read: check its Secret"
            ) from None
        if not value.isprintable():
            raise ApplyError("ApplyFailed", f"the value of the header {name} is not one line")
        return value


class _HttpSession(NoSession):
    def __init__(self, application: HttpAdapter) -> None:
        self._application = application

    async def apply(self, steps: frozenset[str], plan: GatewayPlan) -> str:
        """Send the request."""
        del plan
        return await self._application.send() if steps else ""
