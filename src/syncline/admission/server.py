"""The endpoint that the API server calls for pods that request an agent.

| Answer | When |
|---|---|
| 200 | an `AdmissionReview`: the pod is allowed, with a patch, with warnings, or as it is |
| 400 | the message cannot be read |
| 404 | the path is not that of the webhook configuration |
| 408, 413, 429 | the message is too slow or too large, or there are too many large messages at once |

The path ends in a random text that only the webhook configuration and the operator's Secret contain. Nothing of a
request is read before its path is checked. The pod is created even if this endpoint fails: the failure policy of the
webhook is Ignore.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable

import structlog
from aiohttp import web

from syncline.admission import metrics
from syncline.admission.review import ReviewError, ReviewRequest, answer_of, read_review
from syncline.core.injection import Injection, NewPod, NoAgentError
from syncline.kube.errors import KubeError
from syncline.limits import BodyBudget, OverBudgetError
from syncline.telemetry import Endpoint, ServingCertificate
from syncline.telemetry.bind import OFF
from syncline.telemetry.http import EndpointLimits

FLAG = "--admission-bind"
CONNECTIONS = 1024
PER_ADDRESS = 512
"""The maximum number of connections: in total, and from one address. An API server opens one for each pod."""
BODY_LIMIT = 8 * 1024 * 1024
"""The maximum size of a message. The API server accepts objects of 3 MiB."""
HELD_LIMIT = 2 * BODY_LIMIT
"""The maximum size of all messages in memory."""
BODY_SECONDS = 2.0
DECISION_SECONDS = 2.5
"""The timeouts of a message and of a decision. Their sum is less than the timeout of the webhook, 5 s."""
CHUNK = 64 * 1024

log = structlog.get_logger(__name__)

Decide = Callable[[str, NewPod], Awaitable[Injection]]
"""Returns the patch and the warnings for a pod of a namespace. Raises `NoAgentError` and `KubeError`."""


class _RefusedMessage(Exception):  # noqa: N818 - an answer, not a fault
    """An answer that is no `AdmissionReview`."""

    def __init__(self, status: int, result: metrics.Result, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.result = result


class AdmissionServer:
    """Answers the API server from `start` to `stop`."""

    def __init__(
        self, bind: str, *, certificate: Callable[[], ServingCertificate], token: Callable[[], str], decide: Decide
    ) -> None:
        """`token` returns the last part of the path; while it is empty, every request is refused."""
        self._bind = bind
        self._certificate = certificate
        self._token = token
        self._decide = decide
        self._budget = BodyBudget(HELD_LIMIT)
        self._endpoint: Endpoint | None = None

    @property
    def address(self) -> str:
        """The `host:port` of the server; empty if it does not listen."""
        return self._endpoint.address if self._endpoint is not None else ""

    async def start(self) -> None:
        """Listen, unless the bind is 0. Raises `BindError`."""
        if self._bind == OFF:
            return
        route = web.post("/{path:.*}", self._answer)
        limits = EndpointLimits(connections=CONNECTIONS, per_address=PER_ADDRESS)
        self._endpoint = await Endpoint.start(FLAG, self._bind, [route], self._certificate(), limits=limits)

    async def stop(self) -> None:
        """Stop listening and end all connections."""
        if self._endpoint is not None:
            await self._endpoint.close()
            self._endpoint = None

    async def _answer(self, request: web.Request) -> web.Response:
        try:
            self._check_path(request)
            with self._budget.share() as claim:
                review = _review_of(await _read(request, claim))
                body = await self._decide_review(review)
        except _RefusedMessage as refused:
            if refused.status != 404:  # noqa: PLR2004 - HTTP's own number; unknown callers are not counted
                metrics.count(refused.result)
            response = web.Response(status=refused.status, text=f"{refused}\n")
            response.force_close()
            return response
        return web.Response(body=body, content_type="application/json")

    def _check_path(self, request: web.Request) -> None:
        """Refuse a caller that does not know the path."""
        expected, given = self._token(), request.path.rpartition("/")[2]
        if not expected or not hmac.compare_digest(given.encode(errors="replace"), expected.encode()):
            raise _RefusedMessage(404, "malformed", "there is nothing here")
        if self._endpoint is not None:
            self._endpoint.prove(request, "api-server")

    async def _decide_review(self, review: ReviewRequest) -> bytes:
        if not review.is_new_pod:
            return answer_of(review.uid)
        result, done = await self._decide_pod(review)
        if not review.dry_run:
            metrics.count(result)
        return answer_of(review.uid, done)

    async def _decide_pod(self, review: ReviewRequest) -> tuple[metrics.Result, Injection]:
        """Decide about a pod. After a failure the pod is allowed, with a warning for its user."""
        try:
            async with asyncio.timeout(DECISION_SECONDS):
                done = await self._decide(review.namespace, review.pod())
        except (NoAgentError, ReviewError) as error:
            return "skipped", _without_agent(str(error))
        except TimeoutError:
            log.warning("a pod gets no agent: there was no decision in time", namespace=review.namespace)
            return "late", _without_agent("the operator did not decide in time: recreate the pod")
        except KubeError as error:
            log.warning("a pod gets no agent: the API server refuses", namespace=review.namespace, error=str(error))
            return "failed", _without_agent("the operator could not read the IgnitionSync: recreate the pod")
        except Exception:
            log.exception("a pod gets no agent: the decision failed", namespace=review.namespace)
            return "failed", _without_agent("the operator could not decide: its log has the cause")
        return done.result, done


def _without_agent(cause: str) -> Injection:
    return Injection("skipped", warnings=(f"the pod gets no agent of Syncline: {cause}",))


def _review_of(body: bytes) -> ReviewRequest:
    try:
        return read_review(body)
    except ReviewError as error:
        raise _RefusedMessage(400, "malformed", str(error)) from None


async def _read(request: web.Request, claim: Callable[[int], None]) -> bytes:
    """Read the body, within its limits."""
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise _RefusedMessage(400, "malformed", "the message is compressed")
    too_large = _RefusedMessage(413, "limited", f"the message is larger than {BODY_LIMIT} bytes")
    if (request.content_length or 0) > BODY_LIMIT:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.content.iter_chunked(CHUNK):
                if len(body) + len(chunk) > BODY_LIMIT:
                    raise too_large
                claim(len(chunk))
                body += chunk
    except TimeoutError:
        raise _RefusedMessage(408, "limited", "the message arrived too slowly") from None
    except OverBudgetError:
        raise _RefusedMessage(429, "limited", "too many large messages at once") from None
    except web.RequestPayloadError:
        raise _RefusedMessage(400, "malformed", "the message cannot be read") from None
    return bytes(body)
