"""One cluster: its client, its credential and its health."""

import asyncio
import contextlib
import contextvars
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
import structlog
from msgspec import Struct, field

from syncline.fleet import metrics
from syncline.fleet.circuit_breaker import CircuitBreaker, ClusterHealth, Timeouts
from syncline.fleet.credentials import Credentials
from syncline.fleet.errors import ClusterDown, NotResolved
from syncline.fleet.gated_transport import GatedClient, GatedTransport
from syncline.kube.cache_budget import CacheBudget
from syncline.kube.client import Client
from syncline.kube.errors import (
    ApiError,
    BadAnswer,
    ConfigError,
    Forbidden,
    NotFound,
    Untrusted,
    from_response,
    read_status,
)
from syncline.kube.identity import KUBE_SYSTEM, LOGICAL_CLUSTER, Landmark, identify
from syncline.kube.resources import NAMESPACES
from syncline.kube.transport import Dialing

_IDENTITY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_REFUSED = 300
_UNAUTHORIZED = 401
_SERVER_ERRORS = 500
_VERSION_AGE = 600.0
_LONGEST = 64
_CLUSTER_NAME = "kcp.io/cluster"
_is_cluster_name = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?").fullmatch

T = TypeVar("T", bound=Struct)


class _NamedMeta(Struct):
    name: str = ""
    uid: str = ""
    annotations: dict[str, str] = field(default_factory=dict)


class _Identity(Struct):
    metadata: _NamedMeta = field(default_factory=_NamedMeta)


class _VersionInfo(Struct, rename="camel"):
    git_version: str = ""


class IdentityProbe(Struct, frozen=True):
    """The identification of a server that lacks the objects that identify a cluster."""

    landmark: Landmark
    """The object that is read; without a name, a list."""
    uid: str = ""
    """The UID of a list, which has none of its own."""
    expected: str = ""
    """The UID that the object has. An object with another UID is another cluster, and has a member of its own."""

    @property
    def path(self) -> str:
        """The address."""
        resource, name = self.landmark
        return resource.path(name=name) if name else f"{resource.path()}?limit=1"


class RemoteCluster:
    """A cluster with a `client` that stays the same for the lifetime of the member.

    While the cluster is unreachable or not trusted, all requests of `client` fail immediately with `ClusterDown`. A
    member never changes its cluster: if its Secret refers to another cluster, the fleet closes the member and creates a
    new one.
    """

    def __init__(
        self,
        namespace: str,
        name: str,
        credentials: Credentials,
        *,
        timeouts: Timeouts,
        dialing: Dialing,
        reread: Callable[["RemoteCluster"], Awaitable[None]],
        on_change: Callable[["RemoteCluster"], None],
        on_other_cluster: Callable[["RemoteCluster"], None],
        probe: IdentityProbe | None = None,
        caches: CacheBudget | None = None,
    ) -> None:
        self.namespace = namespace
        self.cache_share = (caches or CacheBudget()).cluster(namespace)
        """The share of the cache budget for this cluster."""
        self.name = name
        """The first name of the cluster, for people."""
        self.version = ""
        """The Kubernetes version, after the first connection."""
        self.probe = probe
        """The identification; None: as any cluster."""
        self.logical_cluster = ""
        """The name of the logical cluster of a workspace, after the first connection; empty for other clusters."""
        self.closed = False
        """True: the member is closed for good. The fleet has the member that replaces it."""
        self._credentials = credentials
        self._timeouts = timeouts
        self._reread = reread
        self._on_change = on_change
        self._counted = ""
        self._known_by: Landmark | None = None
        self._version_at = float("-inf")
        self._reread_at = float("-inf")
        self._rereading = asyncio.Lock()
        self._breaker = CircuitBreaker(
            name,
            timeouts,
            check=self._check,
            on_change=self._changed,
            on_other_cluster=lambda: on_other_cluster(self),
        )
        with _naming_secret(credentials):
            self._transport = GatedTransport(
                credentials.connection, self._breaker, timeout=timeouts.request, dialing=dialing
            )
        self._credential = _MemberToken(self)
        self.client: Client = GatedClient(credentials.connection, self._transport, self._credential)
        self.count()
        self._task = asyncio.get_running_loop().create_task(self._breaker.run(), context=contextvars.Context())

    def __repr__(self) -> str:
        """Return the name and the health of the member."""
        return f"RemoteCluster({self.namespace}/{self.name}, {self.health.state} {self.health.reason})"

    @property
    def credentials(self) -> Credentials:
        """The current credential."""
        return self._credentials

    @property
    def health(self) -> ClusterHealth:
        """The health of the cluster, since the last change."""
        return self._breaker.health

    @property
    def up(self) -> bool:
        """Whether requests are allowed now."""
        return self._breaker.up

    @property
    def uid(self) -> str:
        """The UID that identifies the cluster at all addresses; empty before the first connection."""
        return self._breaker.uid

    @property
    def is_workspace(self) -> bool:
        """Whether the cluster is a workspace of kcp. A path such as `/clusters/x` alone does not make it one."""
        return self._known_by == LOGICAL_CLUSTER

    @property
    def last_seen(self) -> datetime | None:
        """The time of the last valid response."""
        return self._breaker.last_seen

    async def wait_probed(self) -> bool:
        """Wait until it is known whether the cluster is usable, at most some seconds. Return whether it is usable."""
        with contextlib.suppress(ClusterDown):
            await self._breaker.acquire()
        return self.up

    def probe_now(self) -> None:
        """Probe at once, on request. A cluster that does not answer is probed less and less often."""
        if not self.up:
            self._breaker.probe_now()

    async def run_watch(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine forever, such as `Reflector.run`, and start it again when the cluster becomes reachable.

        It does not wait for its next retry, which can be half a minute later. Its log records name the cluster.
        """
        structlog.contextvars.bind_contextvars(cluster=self.name)
        while True:
            work = asyncio.ensure_future(run())
            back = asyncio.ensure_future(self._breaker.wait_until_back())
            try:
                await asyncio.wait((work, back), return_when=asyncio.FIRST_COMPLETED)
                if work.done():
                    return await work
            finally:
                for task in (work, back):
                    task.cancel()
                await asyncio.wait((work, back))

    def rotate(self, credentials: Credentials) -> None:
        """Continue with another credential. Raises `NotResolved`, and changes nothing, if it is not valid."""
        if credentials.digest == self._credentials.digest:
            return
        with _naming_secret(credentials):
            self._transport.use(credentials.connection)
        moved = not credentials.same_server(self._credentials)
        self._credentials = credentials
        self.client.connection = credentials.connection
        self._breaker.credential_changed()
        self.count()
        if moved:
            self._transport.break_off()

    async def renew(self) -> bool:
        """Read the Secret again, because a request was refused. Return whether there is a new credential."""
        renewed = await self._reread_secret()
        if not renewed:
            self._breaker.probe_now()
        return renewed

    async def _reread_secret(self) -> bool:
        before = self._credentials.digest
        async with self._rereading:
            clock = asyncio.get_running_loop().time
            if self._credentials.digest == before and clock() - self._reread_at >= self._timeouts.reread:
                self._reread_at = clock()
                await self._reread(self)
        return self._credentials.digest != before

    def end(self, reason: str, message: str) -> None:
        """Refuse all requests, report it, and cancel running requests."""
        self.closed = True
        self._task.cancel()
        self._breaker.close(reason, message)
        metrics.forget(self.namespace, self.name)

    async def close(self) -> None:
        """Close an ended member."""
        await asyncio.wait([self._task])
        await self._transport.close()

    async def _check(self) -> str:
        """Return the identity of the cluster. The request needs the API server, its store and the credential."""
        try:
            if self.probe is not None:
                uid = await self._probed(self.probe)
            else:
                uid, found = await identify(self._identity, self._known_by)
                # A proxy in between may say for a moment that kube-system is absent: keep the object that counts.
                self._known_by = found if uid == (self.uid or uid) else self._known_by
        except Forbidden as error:
            raise NotResolved(
                "Forbidden",
                f"the credential in {self._credentials.origin} may not get {error.resource} {error.name!r}, which"
                f" identifies the cluster: grant get on {error.resource}",
            ) from None
        now = asyncio.get_running_loop().time()
        if not self.up or now - self._version_at >= _VERSION_AGE:
            with contextlib.suppress(ApiError):
                self.version = _decode(await self._ask("/version", "application/json"), _VersionInfo).git_version[
                    :_LONGEST
                ]
            self._version_at = now
        return uid

    async def _probed(self, probe: IdentityProbe) -> str:
        if not probe.uid:
            return await self._identity(probe.landmark)
        await self._ask(probe.path, "application/json", probe.landmark)
        return probe.uid

    async def _identity(self, landmark: Landmark) -> str:
        resource, name = landmark
        body = await self._ask(resource.path(name=name), _IDENTITY, landmark)
        found = _decode(body, _Identity).metadata
        if found.name != name or not found.uid:
            raise _no_api_server()
        if landmark == LOGICAL_CLUSTER:
            cluster = found.annotations.get(_CLUSTER_NAME, "")
            self.logical_cluster = cluster if _is_cluster_name(cluster) else ""
        return found.uid

    async def _ask(self, path: str, accept: str, landmark: Landmark = KUBE_SYSTEM) -> bytes:
        headers = {"Accept": accept}
        token = await self._credential.token()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        try:
            answer = await self._transport.direct(path, headers, self._timeouts.probe)
        except Untrusted as refused:
            message = (
                f"{refused}; if the cluster has a new certificate authority, write it to {self._credentials.origin}"
            )
            raise NotResolved("CertificateNotTrusted", message) from None
        if answer.status < _REFUSED:
            return answer.body
        error = from_response(
            answer.status,
            answer.body,
            verb="get",
            resource=landmark.resource.plural,
            name=landmark.name,
            retry_after=answer.retry_after,
        )
        if answer.status == _UNAUTHORIZED:
            await self._reread_secret()
            raise NotResolved("Unauthorized", self._unauthorized())
        unserved = isinstance(error, NotFound) and landmark.resource is not NAMESPACES
        if answer.status < _SERVER_ERRORS and read_status(answer.body).kind != "Status" and not unserved:
            raise _no_api_server()
        raise error

    def _unauthorized(self) -> str:
        if self._credentials.expired():
            return self._credentials.warning(datetime.now(UTC)) or ""
        return f"the cluster does not accept the credential in {self._credentials.origin}: renew it there"

    def _changed(self) -> None:
        if self.health.state == "Down":
            self._transport.break_off()
        self.count()
        if self.health.reason != self._counted:
            self._counted = self.health.reason
            metrics.changes.labels(self.health.reason).inc()
        self._on_change(self)

    def count(self) -> None:
        """Set the metrics of the member."""
        metrics.up.labels(self.namespace, self.name).set(self.up)
        if self._credentials.expires:
            metrics.expiry.labels(self.namespace, self.name).set(self._credentials.expires.timestamp())


class _MemberToken:
    """The token of a member's current credential. A refused token makes the member read its Secret again."""

    def __init__(self, member: RemoteCluster) -> None:
        self._member = member

    async def token(self) -> str | None:
        """Return the token; None if a client certificate is used."""
        return self._member.credentials.connection.token

    async def renew(self, rejected: str | None) -> bool:
        """Return whether there is a new credential."""
        if rejected is not None and rejected != self._member.credentials.connection.token:
            return True
        return await self._member.renew()


@contextmanager
def _naming_secret(credentials: Credentials) -> Iterator[None]:
    """Add the Secret to the message about an unreadable certificate."""
    try:
        yield
    except ConfigError as error:
        message = str(error).removeprefix(f"{credentials.connection.name}: ")
        raise NotResolved("InvalidCredentials", f"{credentials.origin}: {message}") from None


def _decode(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (ValueError, RecursionError):
        raise _no_api_server() from None


def _no_api_server() -> BadAnswer:
    return BadAnswer("the program at its address is not a Kubernetes API server: check the address")
