"""A depot on loopback with TLS, that serves a real Git tree to pods, and agents that ask it."""

import asyncio
import base64
import json
import ssl
import subprocess
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import msgspec
import pytest

from syncline.core.gateway_plan import (
    AUDIENCE,
    BlobRequest,
    ChangeAnswer,
    ChangeRequest,
    GatewayPlan,
    GatewayReport,
    PlannedFile,
    PlannedMapping,
)
from syncline.core.pod_tokens import PodIdentity
from syncline.depot.authentication import Authentication, Review
from syncline.depot.plans import Blob, DepotRefusal
from syncline.depot.server import Depot
from syncline.telemetry import ServingCertificate

BLUE = PodIdentity("site", "blue-0", "uid-of-blue", "gateway")
RED = PodIdentity("site", "red-0", "uid-of-red", "gateway")
OTHER = PodIdentity("elsewhere", "blue-0", "uid-of-other", "gateway")


def claims(pod: PodIdentity, audience: str | list[str] = AUDIENCE) -> dict[str, Any]:
    """The claims of a token that is bound to a pod."""
    return {
        "aud": audience,
        "kubernetes.io": {
            "namespace": pod.namespace,
            "pod": {"name": pod.name, "uid": pod.uid},
            "serviceaccount": {"name": pod.service_account, "uid": "uid-of-account"},
        },
    }


def token_of(pod: PodIdentity, signature: str = "signed", **more: Any) -> str:
    """A token as it looks on the wire; the signature says whether the API server of a test takes it."""
    parts = ({"alg": "RS256"}, {**claims(pod), **more})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join((*encoded, signature))


class GitTree:
    """A real Git repository, and the plans that it results in: each pod gets the folder of its gateway."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.email", "somebody@example.com")
        self.git("config", "user.name", "Somebody")

    def git(self, *arguments: str) -> bytes:
        return subprocess.run(["git", *arguments], cwd=self.folder, check=True, capture_output=True).stdout

    def commit(self, files: Mapping[str, bytes]) -> str:
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "Change files")
        return self.git("rev-parse", "HEAD").decode().strip()

    def files(self, commit: str, below: str) -> tuple[PlannedFile, ...]:
        listed = self.git("ls-tree", "-r", "-l", "-z", f"{commit}:{below}").decode().split("\0")
        rows = [row.split("\t") for row in listed if row]
        return tuple(
            PlannedFile(path=path, blob=row.split()[2], size=int(row.split()[3]), mapping=0) for row, path in rows
        )


class TreePlans:
    """The plans of a Git tree for the pods that it knows. It records what agents report."""

    def __init__(self, tree: GitTree) -> None:
        self.tree = tree
        self.folders: dict[PodIdentity, str] = {}
        self.commit = ""
        self.reports: list[tuple[PodIdentity, GatewayReport]] = []
        self.changed: list[tuple[PodIdentity, ChangeRequest, bytes]] = []
        self.composed = 0
        self.waits = 0
        self.closed = 0
        self.news = asyncio.Condition()
        self.break_after: int | None = None

    async def push(self, files: Mapping[str, bytes]) -> None:
        self.commit = self.tree.commit(files)
        async with self.news:
            self.news.notify_all()

    def _folder(self, pod: PodIdentity) -> str:
        if pod not in self.folders:
            raise DepotRefusal(404, "this pod belongs to no sync")
        return self.folders[pod]

    def _id(self, pod: PodIdentity) -> str:
        return f"{self._folder(pod)}@{self.commit}"

    async def plan(self, pod: PodIdentity) -> GatewayPlan:
        self.composed += 1
        folder = self._folder(pod)
        return GatewayPlan(
            id=self._id(pod),
            sync="plant",
            gateway=pod.name,
            action="Publish",
            commit=self.commit,
            files=self.tree.files(self.commit, folder),
            mappings=(PlannedMapping(source=folder, destination=""),),
        )

    async def wait(self, pod: PodIdentity, have: str, seconds: float) -> bool:
        self._folder(pod)
        self.waits += 1
        try:
            async with self.news, asyncio.timeout(seconds):
                await self.news.wait_for(lambda: self._id(pod) != have)
        except TimeoutError:
            return False
        return True

    async def blobs(self, pod: PodIdentity, request: BlobRequest) -> AsyncGenerator[Blob, None]:
        plan = await self.plan(pod)
        if request.plan != plan.id:
            raise DepotRefusal(409, "there is a newer plan")
        sizes = {file.blob: file.size for file in plan.files}
        if not sizes.keys() >= set(request.ids):
            raise DepotRefusal(404, "a blob is not in the plan")
        return self._read([(one, sizes[one]) for one in request.ids])

    async def _read(self, wanted: list[tuple[str, int]]) -> AsyncGenerator[Blob, None]:
        try:
            for one, size in wanted:
                yield Blob(one, size, self._content(one))
        finally:
            self.closed += 1

    async def _content(self, blob: str) -> AsyncIterator[bytes]:
        content = self.tree.git("cat-file", "blob", blob)
        for start in range(0, len(content), 65536):
            if self.break_after is not None and start >= self.break_after:
                raise OSError("the mirror is damaged")
            yield content[start : start + 65536]

    async def report(self, pod: PodIdentity, report: GatewayReport) -> None:
        self._folder(pod)
        self.reports.append((pod, report))

    async def changes(self, pod: PodIdentity, request: ChangeRequest, content: AsyncIterator[bytes]) -> ChangeAnswer:
        self._folder(pod)
        received = b"".join([chunk async for chunk in content])
        self.changed.append((pod, request, received))
        return ChangeAnswer(branch="edits", commit="c" * 40)


class Answer(NamedTuple):
    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def plan(self) -> GatewayPlan:
        assert self.status == 200, self
        return msgspec.json.decode(self.body, type=GatewayPlan)


class Agent:
    """Asks a depot as a pod does."""

    def __init__(self, session: aiohttp.ClientSession, address: str, token: str) -> None:
        self.session = session
        self.address = address
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    async def ask(self, method: str, path: str, data: Any = None, **headers: str) -> Answer:
        url = f"https://{self.address}{path}"
        sent = {**self.headers, **headers}
        async with self.session.request(method, url, data=data, headers=sent) as response:
            return Answer(response.status, await response.read(), response.headers)

    async def plan(self, have: str = "", wait: float | None = None) -> Answer:
        query = f"?have={have}" + ("" if wait is None else f"&wait={wait}") if have else ""
        return await self.ask("GET", f"/v1/plan{query}")

    async def blobs(self, plan: str, *ids: str) -> Answer:
        return await self.ask("POST", "/v1/blobs", msgspec.json.encode({"plan": plan, "ids": ids}))

    async def report(self, body: bytes | None = None) -> Answer:
        report = GatewayReport(state="Synced", reason="Published", commit="c" * 40)
        return await self.ask("POST", "/v1/report", msgspec.json.encode(report) if body is None else body)


def parse(stream: bytes) -> dict[str, bytes]:
    """Split the answer of a request for blobs."""
    found = {}
    while stream:
        line, _, stream = stream.partition(b"\n")
        name, size = line.split()
        found[name.decode()], stream = stream[: int(size)], stream[int(size) :]
    return found


def accepting(*pods: PodIdentity) -> Review:
    """A review that takes the tokens of these pods that are signed."""

    async def review(token: str) -> PodIdentity | None:
        return next((pod for pod in pods if token == token_of(pod)), None)

    return review


class Scene:
    """A depot with the gateways blue and red in one namespace, and other in another one."""

    def __init__(self, tree: GitTree) -> None:
        self.plans = TreePlans(tree)
        self.plans.folders = {BLUE: "blue", RED: "red", OTHER: "other"}
        self.ready = True
        self.certificate = ServingCertificate.self_signed(("localhost",))
        self.depot = Depot(
            "127.0.0.1:0",
            certificate=self.certificate,
            authentication=Authentication(accepting(BLUE, RED, OTHER)),
            plans=self.plans,
            ready=lambda: self.ready,
        )
        self.session: aiohttp.ClientSession

    def agent(self, pod: PodIdentity = BLUE) -> Agent:
        return Agent(self.session, self.depot.address, token_of(pod))

    def somebody(self, token: str = "") -> Agent:
        return Agent(self.session, self.depot.address, token)


@asynccontextmanager
async def raw_connection(address: str, sent: bytes) -> AsyncIterator[asyncio.StreamReader]:
    """A connection of a client that sends these bytes and then does as it likes."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(*address.split(":"), ssl=context)
    try:
        writer.write(sent)
        yield reader
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


@asynccontextmanager
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(ssl=False, limit=0)
    async with aiohttp.ClientSession(connector=connector) as opened:
        yield opened


@pytest.fixture
def tree(tmp_path: Path) -> GitTree:
    folder = tmp_path / "repository"
    folder.mkdir()
    return GitTree(folder)


@pytest.fixture
async def scene(tree: GitTree) -> AsyncIterator[Scene]:
    scene = Scene(tree)
    await scene.plans.push(
        {
            "blue/projects/one/project.json": b'{"title": "one"}',
            "blue/large.bin": bytes(range(256)) * 4096,
            "blue/empty": b"",
            "red/secret.json": b'{"of": "red"}',
            "other/secret.json": b'{"of": "other"}',
        }
    )
    await scene.depot.start()
    async with session() as scene.session:
        yield scene
    await scene.depot.stop()


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], Any]:
    """Wait until a condition holds."""

    async def wait(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(120):
            while not condition():  # noqa: ASYNC110 - what tests wait for has no event of its own
                await asyncio.sleep(0.01)

    return wait
