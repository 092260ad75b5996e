"""An HTTP proxy between a client and the API server of a sandbox, with faults on request.

It terminates TLS with a certificate of the sandbox's authority, so a client needs only another address. Bearer tokens
pass through; client certificates cannot. Requests that no rule selects pass unchanged.
"""

import asyncio
import ssl
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import aiohttp
import yaml
from aiohttp import web
from yarl import URL

from syncline.sandbox import Access
from syncline.sandbox.kubeconfig import write_private
from syncline.sandbox.pki import Authority
from syncline.testing.faults import Asked, Cut, Fault, Lines, Rule, is_review, read_request, refusal
from syncline.testing.loop import OnLoop

_PASSED_ON = ("Accept", "Authorization", "Content-Type", "User-Agent", "Impersonate-User")
_PASSED_BACK = ("Content-Type", "Retry-After", "Warning")
_NO_FAULT = Fault()
CLOSING = 0.1


class FaultProxy(OnLoop):
    """A proxy in a thread of its own, for as long as its `with` block lasts."""

    thread_name = "fault-proxy"

    def __init__(self, sandbox: Access) -> None:
        self.requests: list[Asked] = []
        """All requests, in order."""
        self.abandoned: list[Asked] = []
        """The requests, except watches, of clients that did not wait for the answer."""
        self._sandbox = sandbox
        self._rules: list[Rule] = []
        self._watches: set[_Watch] = set()
        self._numbered = 0

    def _prepare(self, stack: ExitStack) -> None:
        # In the folder of the sandbox, which is removed even if this process is killed.
        folder = tempfile.TemporaryDirectory(prefix="proxy-", dir=self._sandbox.folder, ignore_cleanup_errors=True)
        self._folder = Path(stack.enter_context(folder))

    def kubeconfig(self, original: Path) -> Path:
        """Write a kubeconfig with the same users and the address of the proxy. It is removed with the proxy."""
        config = yaml.safe_load(original.read_text(encoding="utf-8"))
        for entry in config["clusters"]:
            entry["cluster"]["server"] = self.server
        path = self._folder / original.name
        write_private(path, yaml.safe_dump(config).encode())
        return path

    def inject(self, fault: Fault, *, when: Callable[[Asked], bool], times: int | None = None) -> Rule:
        """Cause a fault for these requests, up to a number. Of several matching rules, the first counts."""
        rule = Rule(fault, when, times)
        self._rules.append(rule)
        if fault.silent:
            self._thread.run(self._silence(rule))
        return rule

    def cut_watches(self) -> None:
        """Reset all open watches."""
        self._thread.run(self._cut_watches())

    def open_watches(self) -> list[Asked]:
        """Return the open watches."""
        return self._thread.run(self._open_watches())

    def count(self, when: Callable[[Asked], bool]) -> int:
        """Return the number of matching requests."""
        return sum(when(asked) for asked in tuple(self.requests))

    async def _open(self) -> None:
        self._upstream = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=self._sandbox.ca), limit=0),
            headers={"Accept-Encoding": "identity"},
            timeout=aiohttp.ClientTimeout(total=None),
            trust_env=False,
        )
        # Cancelled when its client disconnects: otherwise the proxy would write for a client that is gone.
        self._server = web.Server(self._serve, handler_cancellation=True)
        self._runner = web.ServerRunner(self._server, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls()).start()
        self.server = f"https://127.0.0.1:{self._runner.addresses[0][1]}"

    async def _close(self) -> None:
        await self._cut_watches()
        await self._runner.cleanup()
        for connection in list(self._server.connections):
            if connection.transport is not None:
                connection.transport.abort()
        await self._upstream.close()
        # Transports close in later iterations of the loop. Those that are open when the loop stops count as leaked.
        await asyncio.sleep(CLOSING)

    def _tls(self) -> ssl.SSLContext:
        authority = Authority.load(self._sandbox.ca.encode(), (self._sandbox.folder / "ca.key").read_bytes())
        pair = self._folder / "serving.pem"
        write_private(pair, b"".join(authority.serving()))
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pair)
        return context

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        body = b"".join([chunk async for chunk in request.content.iter_any()])
        changes = request.method != "GET" and not is_review(request.path)
        self._numbered += changes
        number = self._numbered if changes else 0
        asked = read_request(request.method, request.raw_path, request.headers.get("Authorization", ""), number)
        self.requests.append(asked)
        try:
            return await self._answer(request, asked, body)
        except asyncio.CancelledError:
            if asked.verb != "watch":
                self.abandoned.append(asked)
            raise

    async def _answer(self, request: web.BaseRequest, asked: Asked, body: bytes) -> web.StreamResponse:
        fault = next((rule.fault for rule in self._rules if rule.befalls(asked)), _NO_FAULT)
        if fault.before is not None:
            await asyncio.to_thread(fault.before)
        await asyncio.sleep(fault.delay)
        if fault.lost:
            return _reset(request)
        if fault.status:
            headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
            return web.json_response(refusal(fault.status), status=fault.status, headers=headers)
        try:
            return await self._forward(request, asked, body, fault)
        except (aiohttp.ClientError, Cut):
            return _reset(request)

    async def _forward(self, request: web.BaseRequest, asked: Asked, body: bytes, fault: Fault) -> web.StreamResponse:
        url = URL(self._sandbox.server + request.raw_path, encoded=True)
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        async with self._upstream.request(request.method, url, headers=headers, data=body or None) as answer:
            back = {name: answer.headers[name] for name in _PASSED_BACK if name in answer.headers}
            if asked.verb == "watch" and answer.ok:
                return await self._stream(request, answer, back, _Watch(asked, fault, request.transport))
            content = await answer.read()
        if fault.after is not None:
            await asyncio.to_thread(fault.after)
        if fault.cut:
            raise Cut
        return web.Response(body=content, status=answer.status, headers=back)

    async def _stream(
        self, request: web.BaseRequest, answer: aiohttp.ClientResponse, headers: dict[str, str], watch: "_Watch"
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        edit = watch.fault.events or _unchanged
        self._watches.add(watch)
        try:
            async with asyncio.timeout(watch.fault.closed_after):
                async for line in edit(_split(answer.content)):
                    if watch.silent:
                        break
                    await response.write(line)
        except TimeoutError:
            pass
        finally:
            self._watches.discard(watch)
        if watch.silent:
            await asyncio.Event().wait()
        return response

    async def _silence(self, rule: Rule) -> None:
        for watch in self._watches:
            watch.silent = watch.silent or rule.befalls(watch.asked)

    async def _open_watches(self) -> list[Asked]:
        return [watch.asked for watch in self._watches]

    async def _cut_watches(self) -> None:
        for watch in self._watches:
            watch.cut()


class _Watch:
    """An open watch."""

    def __init__(self, asked: Asked, fault: Fault, transport: asyncio.Transport | None) -> None:
        self.asked = asked
        self.fault = fault
        self.silent = fault.silent
        self._transport = transport

    def cut(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def _reset(request: web.BaseRequest) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def _split(content: aiohttp.StreamReader) -> Lines:
    """Yield whole lines, with their ends."""
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line + b"\n"


async def _unchanged(lines: Lines) -> Lines:
    async for line in lines:
        yield line
