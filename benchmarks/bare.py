"""The yardstick: a loop that only sends requests, with plain aiohttp and nothing of Syncline.

Runs as a process of its own, as the operator does. It is told over its standard input where to connect, then batches of
ready requests to send, 32 at a time, and answers with one line when all are answered.
"""

import asyncio
import json
import ssl
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import aiohttp

if TYPE_CHECKING:  # the loop itself loads nothing of Syncline
    from syncline.kube.config import Connection

CONCURRENCY = 32


async def loop() -> None:
    job = await _line()
    context = ssl.create_default_context(cadata=job["ca"])
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    headers = {"Authorization": f"Bearer {job['token']}", "Accept": "application/json"}
    connector = aiohttp.TCPConnector(ssl=context, limit=CONCURRENCY)
    async with aiohttp.ClientSession(job["server"], connector=connector, headers=headers) as session:
        while batch := await _line():
            print("ready", flush=True)
            await _line()
            waiting = deque((path, body.encode()) for path, body in batch["requests"])

            async def work(method: str = batch["method"], kind: str = batch["kind"], waiting: Any = waiting) -> None:
                while waiting:
                    path, body = waiting.popleft()
                    async with session.request(method, path, data=body, headers={"Content-Type": kind}) as response:
                        await response.read()
                        response.raise_for_status()

            await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
            print("done", flush=True)


async def _line() -> Any:
    line = await asyncio.to_thread(sys.stdin.readline)
    return json.loads(line) if line.strip() else None


class BareLoop:
    """The process, held by the benchmark. `prepare` a batch, then `go`."""

    def __init__(self, server: str, authority: str, token: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.bare"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Ctrl-C is for us; the loop ends with its standard input at the latest.
            start_new_session=True,
        )
        self._tell({"server": server, "ca": authority, "token": token})

    @classmethod
    def to(cls, connection: "Connection") -> Self:
        """Start one for a server, with the token of a kubeconfig."""
        assert connection.ca_pem is not None
        assert connection.token is not None
        return cls(connection.server, connection.ca_pem.decode(), connection.token)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        return self._process.pid

    async def prepare(self, method: str, kind: str, requests: Sequence[tuple[str, bytes]]) -> None:
        """Hand over the requests; returns when the loop holds them."""
        texts = [(path, body.decode()) for path, body in requests]
        await asyncio.to_thread(self._tell, {"method": method, "kind": kind, "requests": texts})
        await self._hear("ready")

    def go(self) -> None:
        """Let it send."""
        self._tell({"go": True})

    async def done(self) -> None:
        """Wait for the last answer."""
        await self._hear("done")

    def _tell(self, message: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    async def _hear(self, word: str) -> None:
        assert self._process.stdout is not None
        heard = await asyncio.to_thread(self._process.stdout.readline)
        if heard.strip() != word:
            raise RuntimeError(f"the bare loop said {heard!r} instead of {word!r}")


if __name__ == "__main__":
    asyncio.run(loop())
