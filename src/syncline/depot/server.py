"""The endpoint of agents. The requests are those of `syncline.core.gateway_plan`.

| Answer | When |
|---|---|
| 400 | the request, or its body, cannot be read |
| 401 | the token is not that of an existing pod; see `authentication` |
| 404, 409, ... | the operator refuses it for this pod: see `Plans` |
| 408 | the body arrives too slowly |
| 413 | the body is too large |
| 429 | too many requests of this pod, or too many unknown tokens; with Retry-After |
| 503 | the operator is starting or busy, or the API server does not answer: retry later |

No body is read before the pod is authenticated. Bodies and answers are bounded in size and time, and only a few are in
progress at once; namespaces share them fairly. A file is streamed, and never held as a whole.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial

import msgspec
import structlog
from aiohttp import web

from syncline.core.gateway_plan import (
    BLOBS_PATH,
    CHANGES_PATH,
    MAX_REPORT_BYTES,
    MAX_WAIT,
    PLAN_PATH,
    REPORT_PATH,
    BlobRequest,
    ChangeRequest,
    GatewayReport,
)
from syncline.depot import metrics
from syncline.depot.authentication import Authentication
from syncline.depot.bodies import changed_bytes, content_of, decode, read_body, read_line
from syncline.depot.plans import DepotRefusal, Plans, PodIdentity
from syncline.depot.sending import CUT_OFF, send, stream
from syncline.fairness import FairSemaphore
from syncline.kube.errors import KubeError
from syncline.limits import Buckets
from syncline.telemetry import Endpoint, ServingCertificate
from syncline.telemetry.bind import OFF
from syncline.telemetry.http import EndpointLimits

FLAG = "--depot-bind"
CONNECTIONS = 1024
PER_ADDRESS = 128
"""The maximum number of connections: in total, and from one address that is not authenticated yet."""
PLAN_SLOTS, PLAN_SHARE = 8, 4
"""The plans that are composed and sent at once: in total, and of one namespace. A plan can have several MB."""
BLOB_SLOTS, BLOB_SHARE = 32, 12
"""The concurrent streams of files: in total, and of one namespace."""
CHANGE_SLOTS, CHANGE_SHARE = 16, 2
"""The edits that are received and committed at once: in total, and of one namespace. A Git server can be slow."""
SLOT_SECONDS = 30.0
"""The maximum time that a request waits for its slot."""
ANSWER_SECONDS = 30.0
"""The maximum time to compose a plan, to find files or to store a report."""
MAX_BLOB_REQUEST = 64 * 1024
MAX_CHANGE_LINE = 256 * 1024
MAX_REQUESTS = 8
"""The maximum number of requests of one pod at once."""
POD_RATE, POD_BURST = 5.0, 50
REPORT_RATE, REPORT_BURST = 1.0, 20
"""The rates of a pod: of its requests, and of its reports, each of which is written to the API server."""
CHANGE_RATE, CHANGE_BURST = 0.1, 20
"""The rate of a pod for requests with edits, each of which can become a commit."""
CHANGE_SECONDS = 280.0
"""The maximum time to receive edits, to commit and to push them."""
REMEMBERED = 8192
_ROUNDS = 5
_ID = frozenset("0123456789abcdef")
_ID_LENGTHS = (40, 64)

log = structlog.get_logger(__name__)

Answer = Callable[[web.Request, PodIdentity], Awaitable[web.StreamResponse]]


class Depot:
    """Serves agents from `start` to `stop`."""

    def __init__(
        self,
        bind: str,
        *,
        certificate: ServingCertificate | None,
        authentication: Authentication,
        plans: Plans,
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        """`certificate` is needed unless the bind is 0. While the depot is not `ready`, every request is refused."""
        self._bind = bind
        self._certificate = certificate
        self._authentication = authentication
        self._plans = plans
        self._ready = ready
        self._endpoint: Endpoint | None = None
        self._running: dict[str, int] = {}
        self._requests = Buckets(rate=POD_RATE, burst=POD_BURST, capacity=REMEMBERED, clock=time.monotonic)
        self._reports = Buckets(rate=REPORT_RATE, burst=REPORT_BURST, capacity=REMEMBERED, clock=time.monotonic)
        self._commits = Buckets(rate=CHANGE_RATE, burst=CHANGE_BURST, capacity=REMEMBERED, clock=time.monotonic)
        self._plan_slots = FairSemaphore(PLAN_SLOTS, share=PLAN_SHARE)
        self._blob_slots = FairSemaphore(BLOB_SLOTS, share=BLOB_SHARE)
        self._change_slots = FairSemaphore(CHANGE_SLOTS, share=CHANGE_SHARE)

    @property
    def address(self) -> str:
        """The `host:port` of the depot; empty if it does not listen."""
        return self._endpoint.address if self._endpoint is not None else ""

    async def start(self) -> None:
        """Listen, unless the bind is 0. Raises `BindError`."""
        if self._bind == OFF:
            return
        routes = [
            web.get(PLAN_PATH, partial(self._answer, "plan", self._plan), allow_head=False),
            web.post(BLOBS_PATH, partial(self._answer, "blobs", self._blobs)),
            web.post(REPORT_PATH, partial(self._answer, "report", self._report)),
            web.post(CHANGES_PATH, partial(self._answer, "changes", self._changes)),
        ]
        limits = EndpointLimits(connections=CONNECTIONS, per_address=PER_ADDRESS, answers_slowly=True)
        self._endpoint = await Endpoint.start(FLAG, self._bind, routes, self._certificate, limits=limits)

    async def stop(self) -> None:
        """Stop listening and end all connections."""
        if self._endpoint is not None:
            await self._endpoint.close()
            self._endpoint = None
        await self._authentication.close()

    async def _answer(self, name: str, answer: Answer, request: web.Request) -> web.StreamResponse:
        started = time.monotonic()
        try:
            pod = await self._identify(request)
            with self._counted(pod):
                response = await answer(request, pod)
        except DepotRefusal as refused:
            response = _refusal(refused)
        except (KubeError, TimeoutError) as error:
            log.warning("the depot could not answer", request=name, error=str(error) or type(error).__name__)
            response = _refusal(DepotRefusal(503, "the operator could not answer: retry later", retry_after=1.0))
        except (ConnectionError, asyncio.CancelledError):
            metrics.requests.labels(name, "cut-off").inc()
            raise
        except Exception:
            log.exception("the depot could not answer", request=name)
            response = _refusal(DepotRefusal(500, "the operator could not answer: its log has the cause"))
        metrics.requests.labels(name, "cut-off" if CUT_OFF in request else str(response.status)).inc()
        if name != "plan" or "wait" not in request.query:
            metrics.seconds.labels(name).observe(time.monotonic() - started)
        return response

    async def _identify(self, request: web.Request) -> PodIdentity:
        headers = request.headers.getall("Authorization", ())
        pod = await self._authentication.identify(headers[0] if len(headers) == 1 else "", request.remote or "")
        if not self._ready():
            raise DepotRefusal(503, "the operator is starting: retry later", retry_after=1.0)
        if self._endpoint is not None:
            self._endpoint.prove(request, pod.namespace)
        return pod

    @contextlib.contextmanager
    def _counted(self, pod: PodIdentity) -> Iterator[None]:
        if wait := self._requests.take(pod.uid):
            raise DepotRefusal(429, "too many requests of this pod", retry_after=wait)
        if self._running.get(pod.uid, 0) >= MAX_REQUESTS:
            raise DepotRefusal(429, "too many requests of this pod at once", retry_after=1.0)
        self._running[pod.uid] = self._running.get(pod.uid, 0) + 1
        try:
            yield
        finally:
            self._running[pod.uid] -= 1
            if not self._running[pod.uid]:
                del self._running[pod.uid]

    async def _plan(self, request: web.Request, pod: PodIdentity) -> web.StreamResponse:
        have, wait = request.query.get("have", ""), _wait_of(request)
        now = asyncio.get_running_loop().time
        deadline = now() + wait
        for _ in range(_ROUNDS):
            if have:
                with metrics.waiting.track_inprogress():
                    changed = await self._plans.wait(pod, have, max(0.0, deadline - now()))
                if not changed:
                    break
                pod = await self._identify(request)  # the pod may have been deleted during the wait
            async with _turn(self._plan_slots, pod):
                async with asyncio.timeout(ANSWER_SECONDS):
                    plan = await self._plans.plan(pod)
                if plan.id != have:
                    return await send(request, msgspec.json.encode(plan))
        return web.Response(status=304)

    async def _blobs(self, request: web.Request, pod: PodIdentity) -> web.StreamResponse:
        wanted = decode(await read_body(request, MAX_BLOB_REQUEST), BlobRequest)
        ids = dict.fromkeys(wanted.ids)
        if not ids or any(len(one) not in _ID_LENGTHS or not _ID.issuperset(one) for one in ids):
            raise DepotRefusal(400, "name the ids of blobs of the plan")
        wanted = BlobRequest(wanted.plan, tuple(ids))
        async with _turn(self._blob_slots, pod):
            async with asyncio.timeout(ANSWER_SECONDS):
                blobs = await self._plans.blobs(pod, wanted)
            async with contextlib.aclosing(blobs):
                return await stream(request, blobs, frozenset(ids))

    async def _report(self, request: web.Request, pod: PodIdentity) -> web.StreamResponse:
        if wait := self._reports.take(pod.uid):
            raise DepotRefusal(429, "too many reports of this pod", retry_after=wait)
        report = decode(await read_body(request, MAX_REPORT_BYTES), GatewayReport)
        async with asyncio.timeout(ANSWER_SECONDS):
            await self._plans.report(pod, report)
        return web.Response(status=204)

    async def _changes(self, request: web.Request, pod: PodIdentity) -> web.StreamResponse:
        if wait := self._commits.take(pod.uid):
            raise DepotRefusal(429, "too many changes of this pod", retry_after=wait)
        async with _turn(self._change_slots, pod), asyncio.timeout(CHANGE_SECONDS):
            line, rest = await read_line(request, MAX_CHANGE_LINE)
            wanted = decode(line, ChangeRequest)
            content = content_of(request, rest, changed_bytes(wanted))
            async with contextlib.aclosing(content):
                answer = await self._plans.changes(pod, wanted, content)
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")


@contextlib.asynccontextmanager
async def _turn(slots: FairSemaphore, pod: PodIdentity) -> AsyncIterator[None]:
    """Wait for a slot of the pod's namespace, for a limited time."""
    try:
        async with asyncio.timeout(SLOT_SECONDS) as patience, slots.slot(pod.namespace):
            patience.reschedule(None)
            yield
    except TimeoutError:
        if not patience.expired():
            raise
        raise DepotRefusal(503, "too many agents ask at once: retry later", retry_after=1.0) from None


def _wait_of(request: web.Request) -> float:
    try:
        wait = float(request.query.get("wait", "0"))
    except ValueError:
        wait = math.nan
    if not 0 <= wait < math.inf:
        raise DepotRefusal(400, "wait is a number of seconds")
    return min(wait, MAX_WAIT)


def _refusal(refused: DepotRefusal) -> web.Response:
    headers = {"Retry-After": str(math.ceil(refused.retry_after))} if refused.retry_after else {}
    if refused.status == 401:  # noqa: PLR2004 - HTTP's own number
        headers["WWW-Authenticate"] = "Bearer"
    response = web.Response(status=refused.status, text=f"{refused.message}\n", headers=headers)
    response.force_close()
    return response
