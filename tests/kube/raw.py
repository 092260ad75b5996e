"""A loopback server that sends the bytes it is told to, over plain connections or TLS."""

import asyncio
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from msgspec import Struct, field

from syncline.kube.config import Connection
from syncline.kube.transport import Dialing, Transport
from syncline.sandbox.pki import Authority

OK = b"HTTP/1.1 200 OK\r\n"
HELLO = OK + b"Content-Length: 5\r\n\r\nhello"
GET = {"Accept": "application/json"}

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Lines(Struct):
    """What a server has seen."""

    url: str = ""
    heads: list[list[str]] = field(default_factory=list)
    """By connection, the begin of each request."""
    latest: str = ""
    """The begin of the request that is answered next."""
    closed: int = 0


@asynccontextmanager
async def server(talk: Talk, authority: Authority | None = None) -> AsyncIterator[Lines]:
    """Serve each connection as told; with an authority, over TLS."""
    seen, tasks, transports = Lines(), set[asyncio.Task[None]](), set[asyncio.WriteTransport]()
    context = None if authority is None else _tls(authority)

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        transports.add(writer.transport)
        heads: list[str] = []
        seen.heads.append(heads)
        try:
            while head := await _head(reader):
                heads.append(head)
                seen.latest = head
                await talk(reader, writer)
        except ConnectionError:
            pass
        finally:
            seen.closed += 1
            writer.close()

    listening = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
    host, port = listening.sockets[0].getsockname()
    seen.url = f"{'https' if context else 'http'}://{host}:{port}"
    try:
        yield seen
    finally:
        listening.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for each in transports:
            each.abort()  # a client that has gone does not answer the end of TLS
        for _ in range(3):
            await asyncio.sleep(0)


def _tls(authority: Authority) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.NamedTemporaryFile() as pair:
        pair.write(b"".join(authority.serving()))
        pair.flush()
        context.load_cert_chain(pair.name)
    return context


async def _head(reader: asyncio.StreamReader) -> str:
    try:
        return (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return ""


def says(answer: bytes) -> Talk:
    """Answer each request."""

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()

    return talk


def says_and_closes(answer: bytes) -> Talk:
    """Answer one request, and close."""

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    return talk


@asynccontextmanager
async def transport(
    url: str,
    *,
    timeout: float = 30.0,
    proxy: str | None = None,
    authority: Authority | None = None,
    most: int = 1000,
) -> AsyncIterator[Transport]:
    """Open one, for small answers."""
    ca = None if authority is None else authority.certificate
    connection = Connection(server=url, name="test", proxy_url=proxy, ca_pem=ca)
    opened = Transport(connection, timeout=timeout, dialing=Dialing(max_answer=most))
    try:
        yield opened
    finally:
        await opened.close()
