"""Each answer is that of its request, whatever servers do, and whenever requests are cancelled. Nothing stays open."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable

import pytest
from tests.kube.conftest import Until
from tests.kube.raw import GET, OK, Talk, server, transport
from tests.kube.test_tls_transport import AUTHORITY

from syncline.kube.errors import Unreachable
from syncline.kube.transport import Transport
from syncline.sandbox.pki import Authority

WORKERS, REQUESTS = 8, 40
WAYS = ("sized", "chunked", "pieces", "early", "surplus", "last", "open-ended", "cut", "gone", "silent")
COMMON = (8, 8, 4, 4, 2, 2, 2, 2, 1, 1)


def echoing(chosen: random.Random, latest: Callable[[], str]) -> Talk:
    """Answer each request with its path, in a way that is chosen for each one."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        [way], head = chosen.choices(WAYS, COMMON), latest()
        length = int(head.partition("Content-Length: ")[2].partition("\r\n")[0] or 0)
        if way == "gone":
            writer.transport.abort()
        elif way == "silent":
            await asyncio.Event().wait()
        elif way != "early":
            await reader.readexactly(length)
        for part in parts(way, head.split()[1].encode() * chosen.choice((1, 1, 2000)), chosen):
            writer.write(part)
            await writer.drain()
        if way == "early":
            await reader.readexactly(length)
        if way in {"open-ended", "cut"}:
            writer.close()

    return talk


def parts(way: str, content: bytes, chosen: random.Random) -> list[bytes]:
    """Return what a server writes."""
    sized = OK + b"Content-Length: %d\r\n\r\n" % len(content) + content
    cut, size = chosen.randrange(len(sized)), chosen.randint(64, 4000)
    pieces = [content[at : at + size] for at in range(0, len(content), size)]
    chunks = [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in [*pieces, b""]]
    ways = {
        "chunked": [OK + b"Transfer-Encoding: chunked\r\n\r\n", *chunks],
        "pieces": [sized[:cut], sized[cut:]],
        "surplus": [sized + OK + b"Content-Length: 4\r\n\r\nevil"],
        "last": [sized.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)],
        "open-ended": [OK + b"\r\n" + content],
        "cut": [sized[:cut]],
        "gone": [],
    }
    return ways.get(way, [sized])


async def ask(line: Transport, path: str, chosen: random.Random) -> str:
    """Send a request, and maybe cancel it. Return how it ended."""
    method, body = chosen.choice((("GET", None), ("POST", b"x" * 10), ("POST", b"x" * 300_000)))
    task = asyncio.create_task(line.send(method, path, headers=GET, body=body, timeout=1.0))
    if chosen.random() < 0.3:
        await asyncio.wait({task}, timeout=chosen.random() * 0.02)
        task.cancel()
    try:
        answer = await task
    except asyncio.CancelledError:
        return "cancelled"
    except Unreachable as error:
        return "ambiguous" if error.ambiguous else "failed"
    assert answer.body.replace(path.encode(), b"") == b""
    return "answered" if answer.body else "empty"


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("authority", [None, AUTHORITY], ids=["plain", "tls"])
async def test_each_answer_is_that_of_its_request(authority: Authority | None, seed: int, until: Until) -> None:
    chosen, results = random.Random(seed), Counter[str]()

    async def work(worker: int) -> None:
        for number in range(REQUESTS):
            results[await ask(line, f"/{seed}-{worker}-{number}.", chosen)] += 1

    async with (
        server(echoing(chosen, lambda: seen.latest), authority) as seen,
        transport(seen.url, authority=authority, most=100_000) as line,
    ):
        await asyncio.gather(*map(work, range(WORKERS)))
        pool = line._pool
        assert pool is not None
        await until(lambda: len(pool._open) == len(pool._idle))
        line._retire()
        await until(lambda: pool.closed and not pool._open)
    assert results["answered"] > WORKERS * REQUESTS // 3
    assert results.keys() <= {"answered", "cancelled", "ambiguous", "failed"}
