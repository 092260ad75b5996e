"""Requests to the application of this pod: bounded in time and size, no redirects, no proxies."""

import asyncio
import ssl
from collections.abc import Mapping
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from syncline import __version__

MAX_ANSWER = 1024 * 1024
CONNECT_SECONDS = 5.0


class UnreachableError(Exception):
    """There was no answer. The message is one line for people."""


class LocalAnswer(NamedTuple):
    """An answer."""

    status: int
    body: bytes


class LocalHttp:
    """A client for one address. It does not verify the certificate of a server on this machine."""

    def __init__(self, url: str, resolver: AbstractResolver | None = None) -> None:
        """Connect to the addresses of the host, as this resolver finds them."""
        self.url = url.rstrip("/")
        host = urlsplit(url).hostname or ""
        verified: ssl.SSLContext | bool = not _is_this_machine(host)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=4, ssl=verified, resolver=resolver),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            headers={"User-Agent": f"syncline-agent/{__version__}", "Accept-Encoding": "identity"},
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        seconds: float = 10.0,
    ) -> LocalAnswer:
        """Send a request. Raises `UnreachableError`."""
        if not path.startswith("/"):  # it would become part of the host
            raise UnreachableError(f"{self.url} is not asked: the path {path[:80]!r} does not begin with /")
        try:
            async with (
                asyncio.timeout(seconds),
                self._session.request(
                    method,
                    URL(self.url + path, encoded=True),
                    headers=headers,
                    data=body,
                    allow_redirects=False,
                ) as answer,
            ):
                content = bytearray()
                async for chunk in answer.content.iter_chunked(64 * 1024):
                    content += chunk
                    if len(content) > MAX_ANSWER:
                        raise UnreachableError(f"{self.url} answers with more than {MAX_ANSWER} bytes")
                return LocalAnswer(answer.status, bytes(content))
        except TimeoutError:
            raise UnreachableError(f"{self.url} did not answer within {seconds:.0f} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
            raise UnreachableError(f"{self.url} cannot be reached: {why}") from None


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
