"""Events about objects, in their own namespaces, without repetitions."""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal

import structlog
from msgspec import Struct, convert, to_builtins
from structlog.typing import FilteringBoundLogger

from syncline.kube import metrics
from syncline.kube.client import Client
from syncline.kube.errors import KubeError
from syncline.kube.resources import EVENTS

REPEAT_AFTER = 600.0
BURST = 25
REFILL = 300.0
"""Seconds for one more event about the same object, once BURST are spent."""
_NOTE_LIMIT = 1024
_WORD_LIMIT = 128
_REMEMBERED = 4096
_SEND_TIMEOUT = 10.0

log: FilteringBoundLogger = structlog.get_logger(__name__)


class ObjectReference(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What an event is about."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Bucket(Struct):
    tokens: float
    filled_at: float


class EventRecorder:
    """Sends events (events.k8s.io/v1). It never raises: events are optional."""

    def __init__(self, client: Client, component: str, instance: str) -> None:
        self._client = client
        self._component = component
        self._instance = instance[:_WORD_LIMIT]
        self._sent: OrderedDict[tuple[str, str, str], float] = OrderedDict()
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    async def emit(
        self,
        regarding: ObjectReference | Mapping[str, str],
        type: Literal["Normal", "Warning"],  # noqa: A002  # the field's name
        reason: str,
        message: str,
        action: str,
    ) -> None:
        """Send an event, unless it repeats an event of the last ten minutes or exceeds the rate of the object."""
        about = regarding if isinstance(regarding, ObjectReference) else convert(dict(regarding), ObjectReference)
        note = _cut(message, _NOTE_LIMIT)
        told = (about.uid or f"{about.kind}/{about.namespace}/{about.name}", reason, note)
        dropped = self._why_not(told)
        if dropped:
            metrics.events_dropped.labels(dropped).inc()
            return
        namespace = about.namespace or "default"
        event = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": f"{about.name[:200].rstrip('.-')}.{secrets.token_hex(8)}", "namespace": namespace},
            "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": self._component,
            "reportingInstance": self._instance,
            "type": type,
            "reason": _cut(reason, _WORD_LIMIT),
            "action": _cut(action, _WORD_LIMIT),
            "note": note,
            "regarding": to_builtins(about),
        }
        try:
            async with asyncio.timeout(_SEND_TIMEOUT):
                await self._client.create(EVENTS, event, namespace)
        except (KubeError, TimeoutError) as error:
            metrics.events_dropped.labels("failed").inc()
            self._sent.pop(told, None)
            log.warning("an event could not be sent", about=f"{about.kind} {namespace}/{about.name}", error=str(error))

    def _why_not(self, told: tuple[str, str, str]) -> str | None:
        now = asyncio.get_running_loop().time()
        if now - self._sent.get(told, float("-inf")) < REPEAT_AFTER:
            return "repeated"
        bucket = self._buckets.setdefault(told[0], _Bucket(BURST, now))
        bucket.tokens = min(BURST, bucket.tokens + (now - bucket.filled_at) / REFILL)
        bucket.filled_at = now
        self._buckets.move_to_end(told[0])
        if bucket.tokens < 1:
            return "flood"
        bucket.tokens -= 1
        self._sent[told] = now
        self._sent.move_to_end(told)
        for memory in (self._sent, self._buckets):
            while len(memory) > _REMEMBERED:
                memory.popitem(last=False)
        return None


def _cut(text: str, limit: int) -> str:
    """Cut in the middle to a number of bytes, which is how the API server counts, without cutting a character."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= limit:
        return encoded.decode()
    tail = (limit - 3) // 2
    head = encoded[: limit - 3 - tail].decode(errors="ignore")
    return f"{head}...{encoded[len(encoded) - tail :].decode(errors='ignore')}"
