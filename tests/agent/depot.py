"""A depot with one plan, over TLS, with faults on request."""

import asyncio
import ssl
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from tests.files.scene import Repository, Tree

from syncline.core.gateway_plan import BlobRequest, ChangeAnswer, ChangeRequest, GatewayPlan, GatewayReport
from syncline.sandbox.kubeconfig import write_private
from syncline.sandbox.pki import Authority
from syncline.testing.loop import OnLoop
from syncline.testing.proxy import CLOSING


class PlanDepot(OnLoop):
    """A depot at `url`, for as long as its `with` block lasts."""

    thread_name = "depot"

    def __init__(self) -> None:
        self.authority = Authority.create()
        self.repository = Repository()
        self.plan: GatewayPlan | None = None
        self.token = "token-1"
        self.reports: list[GatewayReport] = []
        self.fetched: list[str] = []
        """The blobs that were asked for."""
        self.polls = 0
        self.status = 0
        """What requests are answered instead."""
        self.damage: dict[str, bytes] = {}
        """What is sent in place of blobs."""
        self.cut = 0
        """After how many bytes answers with blobs break off."""
        self.changes: list[tuple[ChangeRequest, list[bytes]]] = []
        self.answer = ChangeAnswer("edits", "c" * 40)
        self.valid: tuple[timedelta, timedelta] | None = None
        """From when to when its certificate is valid, counted from now; None for a long time."""
        self.port = 0
        self._runner: web.ServerRunner | None = None

    def _prepare(self, stack: ExitStack) -> None:
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="syncline-depot-")))

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca(self) -> str:
        return self.authority.certificate.decode()

    @property
    def last(self) -> GatewayReport:
        return self.reports[-1]

    def publish(self, files: Tree, **fields: Any) -> GatewayPlan:
        """Make a commit with these files the newest plan."""
        return self.serve(self.repository.plan(files, **fields))

    def serve(self, plan: GatewayPlan) -> GatewayPlan:
        async def change() -> None:
            async with self._changed:
                self.plan = plan
                self._changed.notify_all()

        self._thread.run(change())
        return plan

    def stop(self) -> None:
        """Be away."""
        self._thread.run(self._stop())

    def start(self) -> None:
        """Be back, at the same port."""
        self._thread.run(self._start())

    def restart(self, valid: tuple[timedelta, timedelta] | None = None) -> None:
        """Serve with a new certificate of the same authority, which is valid from then to then."""
        self.valid = valid
        self.stop()
        self.start()

    def rotate(self) -> None:
        """Serve with a certificate of another authority."""
        self.authority = Authority.create()
        self.stop()
        self.start()

    async def _open(self) -> None:
        self._changed = asyncio.Condition()
        await self._start()

    async def _close(self) -> None:
        await self._stop()
        await asyncio.sleep(CLOSING)

    async def _start(self) -> None:
        server = web.Server(self._serve, handler_cancellation=True)
        self._runner = web.ServerRunner(server, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        pair = self.folder / "serving.pem"
        certificate, key = self.authority.serving()
        if self.valid is not None:
            certificate = revalidated(certificate, self.authority, *self.valid)
        write_private(pair, certificate + key)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pair)
        await web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=context, reuse_address=True).start()
        self.port = self._runner.addresses[0][1]

    async def _stop(self) -> None:
        if self._runner is not None:
            server = self._runner.server
            await self._runner.cleanup()
            for connection in list(server.connections if server is not None else ()):
                if connection.transport is not None:
                    connection.transport.abort()
            self._runner = None

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        known = request.headers.get("Authorization") == f"Bearer {self.token}"
        if self.status or not known:
            return web.Response(status=self.status or 401, text="so it was asked for")
        match request.method, request.path:
            case "GET", "/v1/plan":
                return await self._answer_plan(request.query.get("have", ""), float(request.query.get("wait", "0")))
            case "POST", "/v1/blobs":
                return await self._answer_blobs(request, await request.read())
            case "POST", "/v1/report":
                self.reports.append(msgspec.json.decode(await request.read(), type=GatewayReport))
                return web.Response(status=204)
            case "POST", "/v1/changes":
                return await self._take_changes(request)
        return web.Response(status=404)

    async def _answer_plan(self, have: str, wait: float) -> web.Response:
        self.polls += 1
        async with self._changed:
            try:
                async with asyncio.timeout(wait):
                    await self._changed.wait_for(lambda: self.plan is not None and self.plan.id != have)
            except TimeoutError:
                return web.Response(status=304)
        return web.Response(body=msgspec.json.encode(self.plan))

    async def _answer_blobs(self, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        asked = msgspec.json.decode(body, type=BlobRequest)
        if self.plan is None or asked.plan != self.plan.id:
            return web.Response(status=409)
        answer = web.StreamResponse()
        await answer.prepare(request)
        left = self.cut or 1 << 60
        for blob in asked.ids:
            self.fetched.append(blob)
            content = self.repository.blobs[blob]
            sent = self.damage.get(blob, content)
            part = b"%s %d\n%s" % (blob.encode(), len(content), sent)
            await answer.write(part[:left])
            left -= len(part)
            if left <= 0:
                self.cut = 0
                assert request.transport is not None
                request.transport.abort()
                break
        return answer

    async def _take_changes(self, request: web.BaseRequest) -> web.Response:
        line, _, content = (await request.read()).partition(b"\n")
        asked = msgspec.json.decode(line, type=ChangeRequest)
        files = []
        for file in asked.files:
            files.append(content[: file.size])
            content = content[file.size :]
        self.changes.append((asked, files))
        return web.Response(body=msgspec.json.encode(self.answer))


def revalidated(certificate: bytes, authority: Authority, begin: timedelta, end: timedelta) -> bytes:
    """Return a certificate that is valid at another time, signed by its authority."""
    old, now = x509.load_pem_x509_certificate(certificate), datetime.now(UTC)
    signer = serialization.load_pem_private_key(authority.key, password=None)
    assert isinstance(signer, EllipticCurvePrivateKey)
    builder = x509.CertificateBuilder(
        issuer_name=old.issuer,
        subject_name=old.subject,
        public_key=old.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now + begin,
        not_valid_after=now + end,
        extensions=list(old.extensions),
    )
    return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
