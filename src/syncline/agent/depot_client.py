"""The client of the depot: plans by long poll, blobs as a stream, reports, local edits."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar
from urllib.parse import quote

import aiohttp
import msgspec
from yarl import URL

from syncline import __version__
from syncline.agent.access import AccessError, AgentAccess
from syncline.core.gateway_plan import (
    BLOBS_PATH,
    CHANGES_PATH,
    MAX_BLOBS,
    MAX_WAIT,
    PLAN_PATH,
    REPORT_PATH,
    BlobRequest,
    ChangeAnswer,
    ChangeRequest,
    GatewayPlan,
    GatewayReport,
)

WAIT_SECONDS = min(50, MAX_WAIT)
"""The time that one request waits for a new plan."""
REQUEST_SECONDS = 30.0
SILENCE_SECONDS = 60.0
"""The longest time without a byte of an answer."""
COMMIT_SECONDS = 300.0
"""The longest time that the depot takes to commit edits."""
MAX_PLAN_BYTES = 32 * 1024 * 1024
MAX_TEXT = 300
CHUNK = 256 * 1024
_LONGEST_LINE = 256
_OK, _NOT_MODIFIED, _UNAUTHORIZED, _FORBIDDEN, _CONFLICT, _TOO_LARGE = 300, 304, 401, 403, 409, 413
_LONGEST_RETRY = 300.0
_WRONG_TIME = (9, 10)
"""OpenSSL's codes of a certificate that is not valid yet, and of one that has expired."""
T = TypeVar("T")


class DepotError(Exception):
    """A request to the depot failed. The reason is one word for the status."""

    def __init__(self, reason: str, message: str, *, retry_after: float = 0.0, status: int = 0) -> None:
        super().__init__(message)
        self.reason = reason
        self.retry_after = retry_after
        self.status = status


class PlanOutdatedError(Exception):
    """There is a newer plan."""


BlobSink = Callable[[str, int, AsyncIterator[bytes]], Awaitable[None]]
"""Receives a blob: its id, its size, and its content, which it reads to the end."""


class DepotClient:
    """A client of the depot. Address, certificates and token are looked up for each request."""

    def __init__(self, access: AgentAccess) -> None:
        self._access = access
        self._learned = ""
        self._trusted = ("", ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=4),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=SILENCE_SECONDS),
            headers={"User-Agent": f"syncline-agent/{__version__}", "Accept-Encoding": "identity"},
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()
        await self._access.close()

    def trust(self, ca: str) -> None:
        """Trust these certificates from now on, in place of those of the settings."""
        self._learned = ca

    @property
    def learned(self) -> str:
        """The certificates that are trusted in place of those of the settings."""
        return self._learned

    async def plan(self, have: str, wait: float = WAIT_SECONDS) -> GatewayPlan | None:
        """Return the newest plan, or None if its id is still `have` after the wait."""
        path = f"{PLAN_PATH}?have={quote(have, safe='')}&wait={wait:.0f}"
        async with self._sent("GET", path, seconds=wait + REQUEST_SECONDS) as answer:
            if answer.status == _NOT_MODIFIED:
                return None
            return await _decoded(answer, GatewayPlan, MAX_PLAN_BYTES)

    async def blobs(self, plan: str, wanted: Mapping[str, int], sink: BlobSink) -> None:
        """Fetch blobs, given by their ids and sizes. Raises `PlanOutdatedError` if the plan is no longer the newest."""
        ids = sorted(wanted)
        for start in range(0, len(ids), MAX_BLOBS):
            await self._fetch(plan, {blob: wanted[blob] for blob in ids[start : start + MAX_BLOBS]}, sink)

    async def report(self, report: GatewayReport) -> None:
        """Send a report."""
        async with self._sent("POST", REPORT_PATH, msgspec.json.encode(report)):
            pass

    async def changes(self, request: ChangeRequest, contents: AsyncIterator[bytes]) -> ChangeAnswer:
        """Send local edits. `contents` are the files of the request, one after another."""

        async def body() -> AsyncIterator[bytes]:
            yield msgspec.json.encode(request) + b"\n"
            async for chunk in contents:
                yield chunk

        # The depot is silent while it commits and pushes.
        async with self._sent("POST", CHANGES_PATH, body(), seconds=COMMIT_SECONDS, silence=COMMIT_SECONDS) as answer:
            return await _decoded(answer, ChangeAnswer, MAX_TEXT * 100)

    async def _fetch(self, plan: str, wanted: dict[str, int], sink: BlobSink) -> None:
        body = msgspec.json.encode(BlobRequest(plan, tuple(wanted)))
        async with self._sent("POST", BLOBS_PATH, body, seconds=None) as answer:
            left = dict(wanted)
            while left:
                blob, size = _header(await _line(answer.content))
                if left.pop(blob, None) != size:
                    raise DepotError("FetchFailed", "the depot sent a file that was not asked for")
                await sink(blob, size, _content(answer.content, size))

    @asynccontextmanager
    async def _sent(
        self,
        method: str,
        path: str,
        body: bytes | AsyncIterator[bytes] | None = None,
        *,
        seconds: float | None = REQUEST_SECONDS,
        silence: float = SILENCE_SECONDS,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request, and yield an answer that is not a refusal. Raises `DepotError`."""
        try:
            url, token, context = await self._access.url(), await self._access.token(), await self._context()
        except AccessError as error:
            await self._access.refresh()
            raise DepotError("DepotUnavailable", str(error)) from None
        try:
            async with (
                asyncio.timeout(seconds),
                self._session.request(
                    method,
                    URL(url.rstrip("/") + path, encoded=True),
                    data=body,
                    headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
                    ssl=context,
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=silence),
                ) as answer,
            ):
                if answer.status >= _OK and answer.status != _NOT_MODIFIED:
                    await self._refuse(answer)
                yield answer
        except (TimeoutError, aiohttp.ClientError, OSError, asyncio.IncompleteReadError, ValueError) as error:
            await self._access.refresh()
            raise DepotError("DepotUnavailable", f"the depot at {url} cannot be reached: {_why(error)}") from None

    async def _refuse(self, answer: aiohttp.ClientResponse) -> None:
        if answer.status == _CONFLICT and answer.url.path == BLOBS_PATH:
            raise PlanOutdatedError
        said = (await answer.content.read(MAX_TEXT)).decode(errors="replace").strip()
        said = "".join(character for character in said if character.isprintable())
        if answer.status == _UNAUTHORIZED:
            await self._access.refresh()
        refused = answer.status in (_UNAUTHORIZED, _FORBIDDEN, 404, 400, _TOO_LARGE)
        raise DepotError(
            "DepotRefused" if refused else "DepotUnavailable",
            f"the depot answers {answer.status}: {said or 'no reason given'}",
            retry_after=_retry_after(answer.headers.get("Retry-After", "")),
            status=answer.status,
        )

    async def _context(self) -> ssl.SSLContext:
        pem = self._learned or await self._access.ca()
        if self._trusted[0] != pem:
            try:
                context = ssl.create_default_context(cadata=pem)
            except (ssl.SSLError, ValueError):
                raise AccessError("the certificates of the depot are not valid PEM") from None
            self._trusted = pem, context
        return self._trusted[1]


async def _decoded(answer: aiohttp.ClientResponse, kind: type[T], limit: int) -> T:
    content = bytearray()
    async for chunk in answer.content.iter_chunked(CHUNK):
        content += chunk
        if len(content) > limit:
            raise DepotError("DepotRefused", f"the depot answers with more than {limit} bytes")
    try:
        return msgspec.json.decode(bytes(content), type=kind)
    except (ValueError, RecursionError):
        raise DepotError(
            "DepotRefused", "the depot answers with something else: use an agent of the operator's version"
        ) from None


async def _line(stream: aiohttp.StreamReader) -> bytes:
    line = await stream.readuntil(b"\n")
    if not line.endswith(b"\n") or len(line) > _LONGEST_LINE:
        raise DepotError("FetchFailed", "the depot ended its answer before all files were sent")
    return line


def _header(line: bytes) -> tuple[str, int]:
    parts = line.split()
    if len(parts) != len(("id", "size")) or not parts[1].isdigit():
        raise DepotError("FetchFailed", "the depot answers with something else than files")
    return parts[0].decode("ascii", errors="replace"), int(parts[1])


async def _content(stream: aiohttp.StreamReader, size: int) -> AsyncIterator[bytes]:
    while size:
        chunk = await stream.read(min(size, CHUNK))
        if not chunk:
            raise DepotError("FetchFailed", "the depot ended its answer in the middle of a file")
        size -= len(chunk)
        yield chunk


def _retry_after(text: str) -> float:
    return min(float(text), _LONGEST_RETRY) if text.isascii() and text.isdecimal() else 0.0


def _why(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
        hint = ": check the clock of this node" if getattr(cause, "verify_code", 0) in _WRONG_TIME else ""
        return f"its certificate cannot be verified ({getattr(cause, 'verify_message', '')}){hint}"
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    if isinstance(error, aiohttp.ClientConnectorError):
        return error.os_error.strerror or type(error.os_error).__name__
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__
