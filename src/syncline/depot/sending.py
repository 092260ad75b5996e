"""Sends answers in parts, each with a timeout. An answer that cannot be completed is cut off."""

import asyncio
from collections.abc import AsyncIterator

import structlog
from aiohttp import web

from syncline.core.gateway_plan import MAX_BLOB_BYTES
from syncline.depot import metrics
from syncline.depot.plans import Blob

CHUNK = 64 * 1024
CHUNK_SECONDS = 20.0
"""The timeout of each part: a client that reads more slowly is cut off."""
STREAM_SECONDS = 120.0
"""The maximum time of an answer. An agent asks again for the files that it still lacks."""
CUT_OFF = web.RequestKey("cut_off", bool)
"""Whether the answer to a request was cut off."""

log = structlog.get_logger(__name__)


async def send(request: web.Request, body: bytes) -> web.StreamResponse:
    """Send a JSON body."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.content_length = len(body)
    await response.prepare(request)
    try:
        async with asyncio.timeout(STREAM_SECONDS):
            await _write(response, "plan", body)
            await response.write_eof()
    except TimeoutError:
        _cut_off(request, "the client reads too slowly")
    return response


async def stream(request: web.Request, blobs: AsyncIterator[Blob], wanted: frozenset[str]) -> web.StreamResponse:
    """Send files. A file that was not requested, or with a wrong size, cuts the answer off."""
    response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
    response.enable_chunked_encoding()
    await response.prepare(request)
    try:
        async with asyncio.timeout(STREAM_SECONDS):
            await _write_blobs(response, blobs, wanted)
            await response.write_eof()
    except TimeoutError:
        _cut_off(request, "the client reads too slowly")
    except (ConnectionError, asyncio.CancelledError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever it was, the client must not take the answer for complete
        _cut_off(request, f"the files could not be read: {type(error).__name__}")
    return response


async def _write_blobs(response: web.StreamResponse, blobs: AsyncIterator[Blob], wanted: frozenset[str]) -> None:
    held = bytearray()
    async for blob in blobs:
        if blob.id not in wanted or not 0 <= blob.size <= MAX_BLOB_BYTES:
            raise ValueError("this file was not asked for")
        held += f"{blob.id} {blob.size}\n".encode()
        left = blob.size
        async for chunk in blob.content:
            left -= len(chunk)
            if left < 0:
                raise ValueError("the file is larger than its size")
            held += chunk
            if len(held) >= CHUNK:
                await _write(response, "blobs", held)
                held = bytearray()
        if left:
            raise ValueError("the file is smaller than its size")
    await _write(response, "blobs", held)


async def _write(response: web.StreamResponse, name: str, data: bytes | bytearray) -> None:
    whole = memoryview(data)
    for start in range(0, len(whole), CHUNK):
        part = whole[start : start + CHUNK]
        async with asyncio.timeout(CHUNK_SECONDS):
            await response.write(bytes(part))
        metrics.sent.labels(name).inc(len(part))


def _cut_off(request: web.Request, cause: str) -> None:
    """End the connection without the end of the answer, so that the client does not take it for complete."""
    request[CUT_OFF] = True
    log.warning("an answer of the depot was cut off", path=request.path, client=request.remote, cause=cause)
    if request.transport is not None:
        request.transport.abort()
