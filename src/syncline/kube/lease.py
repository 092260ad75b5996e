"""Leader election with a Lease.

Clocks of different machines are never compared: a candidate observes the Lease with its own clock, and takes over if
the Lease did not change for its duration. This is not a fence: a leader that was frozen can continue and believe for a
moment that it still leads. Every write must therefore be safe with two leaders.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import structlog
from msgspec import Struct, field
from structlog.typing import FilteringBoundLogger

from syncline.kube import metrics
from syncline.kube.client import Client
from syncline.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from syncline.kube.resources import LEASES

log: FilteringBoundLogger = structlog.get_logger(__name__)


class _LeaseSpec(Struct, kw_only=True, rename="camel", omit_defaults=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Lease(Struct, kw_only=True, rename="camel", omit_defaults=True):
    api_version: str = LEASES.api_version
    kind: str = LEASES.kind
    metadata: dict[str, Any] = field(default_factory=dict)
    """All fields, as received: unknown fields are not dropped."""
    spec: _LeaseSpec = field(default_factory=_LeaseSpec)


class LeaderElection:
    """One candidate for one Lease. Start `run()`; work while `leading` is set; `release()` at the end.

    `leading` is cleared when another holds the lease, and when our renewals have failed for `renew` seconds,
    before anybody else can take over at `duration`. `on_leading` is called each time that it is set.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        *,
        duration: float = 15.0,
        renew: float = 10.0,
        retry: float = 2.0,
        on_leading: Callable[[], None] | None = None,
    ) -> None:
        if not retry < renew < duration:
            raise ValueError("a lease needs retry < renew < duration")
        self.leading = asyncio.Event()
        self.identity = identity
        self._client = client
        self._namespace = namespace
        self._name = name
        self._duration = duration
        self._renew = renew
        self._retry = retry
        self._on_leading = on_leading
        self._lease: _Lease | None = None
        self._seen_at = 0.0
        self._renewed_at = float("-inf")
        self._failing = False
        self._log = log.bind(lease=f"{namespace}/{name}", identity=identity)

    @property
    def holder(self) -> str:
        """The last observed leader, for people."""
        return (self._lease.spec.holder_identity if self._lease else None) or ""

    async def run(self) -> None:
        """Try to lead, and keep leading, until cancelled. Failures are logged; none ends it."""
        while True:
            started = _now()
            # The leader's request ends before the lease does: a late answer must not find it still leading.
            patience = self._renewed_at + self._renew - started if self.leading.is_set() else self._renew
            try:
                async with asyncio.timeout(max(0.0, patience)):
                    mine = await self._renew_or_acquire()
                self._failing = False
            except (KubeError, TimeoutError) as error:
                mine = self.leading.is_set() and _now() < self._renewed_at + self._renew
                self._log_failure(error)
            else:
                self._renewed_at = started if mine else self._renewed_at
            self._become(leading=mine)
            left = self._renewed_at + self._renew - _now() if mine else self._retry
            await asyncio.sleep(max(0.0, min(self._retry, left)))

    async def release(self) -> None:
        """Release the lease for other candidates. Call it after `run()` is cancelled and all work has ended."""
        if not self.leading.is_set() or self._lease is None:
            return
        self._become(leading=False)
        try:
            async with asyncio.timeout(self._renew):
                try:
                    await self._put(_released(self._lease))
                except Conflict:  # a renewal that was cancelled may have been written
                    await self._read()
                    if self._lease is not None and self._is_ours():
                        await self._put(_released(self._lease))
        except (KubeError, TimeoutError) as error:
            self._log.warning("the lease could not be released; it expires by itself", error=str(error))

    async def _renew_or_acquire(self) -> bool:
        """Renew the lease, or take it if it is free. Return whether we hold it."""
        if not self.leading.is_set() or self._lease is None:
            await self._read()
        try:
            return await self._try()
        except (Conflict, AlreadyExists, NotFound):  # it has changed, perhaps by an earlier write of our own
            await self._read()
            return await self._try()

    async def _try(self) -> bool:
        if self._lease is None:
            await self._create()
        elif self._is_ours() or self._may_be_taken(self._lease):
            await self._put(self._claim(self._lease))
        return self._is_ours()

    def _is_ours(self) -> bool:
        return self._lease is not None and self._lease.spec.holder_identity == self.identity

    async def _read(self) -> None:
        try:
            found = await self._client.get(LEASES, self._name, self._namespace, type=_Lease)
        except NotFound:
            self._lease = None
            return
        if self._lease is None or _version(found) != _version(self._lease):
            self._seen_at = _now()
        self._lease = found

    def _may_be_taken(self, lease: _Lease) -> bool:
        lasts = lease.spec.lease_duration_seconds or self._duration
        return not lease.spec.holder_identity or _now() >= self._seen_at + lasts

    def _claim(self, lease: _Lease) -> _Lease:
        now, spec = _micro_time(), lease.spec
        taking = spec.holder_identity != self.identity
        return _Lease(
            metadata=lease.metadata,
            spec=_LeaseSpec(
                holder_identity=self.identity,
                lease_duration_seconds=max(1, round(self._duration)),
                acquire_time=now if taking else spec.acquire_time,
                renew_time=now,
                lease_transitions=(spec.lease_transitions or 0) + (taking and _version(lease) is not None),
            ),
        )

    async def _create(self) -> None:
        claim = self._claim(_Lease(metadata={"name": self._name, "namespace": self._namespace}))
        self._lease = await self._client.create(LEASES, claim, self._namespace, type=_Lease)

    async def _put(self, lease: _Lease) -> None:
        self._lease = await self._client.replace(LEASES, self._name, self._namespace, lease, type=_Lease)

    def _become(self, *, leading: bool) -> None:
        metrics.leader.labels(self._name).set(leading)
        if leading == self.leading.is_set():
            return
        if leading:
            self.leading.set()
            self._log.info("leading")
            if self._on_leading is not None:
                self._on_leading()
        else:
            self.leading.clear()
            self._log.warning("no longer leading", holder=self.holder)

    def _log_failure(self, error: Exception) -> None:
        if not self._failing:
            self._failing = True
            self._log.warning(
                "cannot renew or take the lease; the operator retries", error=str(error) or "no response in time"
            )


def _version(lease: _Lease) -> Any:
    return lease.metadata.get("resourceVersion")


def _now() -> float:
    return asyncio.get_running_loop().time()


def _micro_time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _released(lease: _Lease) -> _Lease:
    lease.spec.holder_identity = ""
    lease.spec.lease_duration_seconds = 1
    return lease
