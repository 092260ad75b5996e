"""Reads the bodies of requests: within limits of size and time, and only after the pod is authenticated."""

import asyncio
from collections.abc import AsyncGenerator
from typing import TypeVar

import msgspec
from aiohttp import web

from syncline.core.gateway_plan import MAX_BLOB_BYTES, ChangeRequest
from syncline.depot.plans import DepotRefusal

BODY_SECONDS = 10.0
"""The timeout of a body that is held as a whole."""
CHUNK = 64 * 1024
CHUNK_SECONDS = 20.0
"""The timeout of each part of a streamed body."""
MAX_CHANGED_FILES = 1000
MAX_CHANGE_BYTES = 256 * 1024 * 1024

_T = TypeVar("_T")


async def read_body(request: web.Request, limit: int) -> bytes:
    """Read a whole body. Raises `DepotRefusal`."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in _chunks(request, limit):
                body += chunk
    except TimeoutError:
        raise DepotRefusal(408, "the body arrives too slowly") from None
    return bytes(body)


async def read_line(request: web.Request, limit: int) -> tuple[bytes, bytes]:
    """Read a body to the end of its first line; return the line, and the bytes read after it. Raises `DepotRefusal`."""
    held = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while b"\n" not in held:
                if len(held) > limit:
                    raise DepotRefusal(413, f"the first line is longer than {limit} bytes")
                if not (chunk := await _next(request)):
                    raise DepotRefusal(400, "the body has no line")
                held += chunk
    except TimeoutError:
        raise DepotRefusal(408, "the body arrives too slowly") from None
    line, _, rest = bytes(held).partition(b"\n")
    return line, rest


async def content_of(request: web.Request, begun: bytes, size: int) -> AsyncGenerator[bytes, None]:
    """Yield the rest of a body, which must have exactly this size. Raises `DepotRefusal`."""
    left = size
    chunk = begun
    while True:
        if len(chunk) > left:
            raise DepotRefusal(400, "the body is longer than the sizes of its files")
        left -= len(chunk)
        if chunk:
            yield chunk
        try:
            async with asyncio.timeout(CHUNK_SECONDS):
                chunk = await _next(request)
        except TimeoutError:
            raise DepotRefusal(408, "the body arrives too slowly") from None
        if not chunk:
            break
    if left:
        raise DepotRefusal(400, "the body is shorter than the sizes of its files")


def decode(body: bytes, type: type[_T]) -> _T:  # noqa: A002 - the word of msgspec
    """Decode a body strictly. Raises `DepotRefusal`."""
    try:
        return msgspec.json.decode(body, type=type)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise DepotRefusal(400, f"the body cannot be read: {str(error)[:200]}") from None


def changed_bytes(request: ChangeRequest) -> int:
    """Return the total size of the files of a request. Raises `DepotRefusal` for too many or too large files."""
    if not request.files:
        raise DepotRefusal(400, "name the files that have changed")
    if len(request.files) > MAX_CHANGED_FILES:
        raise DepotRefusal(413, f"more than {MAX_CHANGED_FILES} files")
    for file in request.files:
        if not 0 <= file.size <= MAX_BLOB_BYTES:
            raise DepotRefusal(413, f"a file is larger than {MAX_BLOB_BYTES} bytes")
        if file.deleted and file.size:
            raise DepotRefusal(400, "a deleted file has no content")
    total = sum(file.size for file in request.files)
    if total > MAX_CHANGE_BYTES:
        raise DepotRefusal(413, f"the files have more than {MAX_CHANGE_BYTES} bytes")
    return total


async def _chunks(request: web.Request, limit: int) -> AsyncGenerator[bytes, None]:
    left = limit
    if (request.content_length or 0) > limit:
        raise DepotRefusal(413, f"the body is larger than {limit} bytes")
    while chunk := await _next(request):
        left -= len(chunk)
        if left < 0:
            raise DepotRefusal(413, f"the body is larger than {limit} bytes")
        yield chunk


async def _next(request: web.Request) -> bytes:
    try:
        return await request.content.read(CHUNK)
    except web.RequestPayloadError:
        raise DepotRefusal(400, "the body is unreadable") from None
