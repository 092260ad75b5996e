"""One cluster, for as long as it is that cluster: its client, its credential and its health."""

import asyncio
import contextlib
import contextvars
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
import structlog
from msgspec import Struct, field

from syncline.fleet import metrics
from syncline.fleet.credentials import Credentials
from syncline.fleet.errors import ClusterDown, NotResolved
from syncline.fleet.line import Line, LineClient
from syncline.fleet.pulse import Health, Pace, Pulse
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
from syncline.kube.identity import KUBE_SYSTEM, Landmark, identify
from syncline.kube.resources import NAMESPACES
from syncline.kube.transport import Dialing

_IDENTITY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_REFUSED = 300
_UNAUTHORIZED = 401
_SERVER_ERRORS = 500
_VERSION_AGE = 600.0
_LONGEST = 64

T = TypeVar("T", bound=Struct)


class _Named(Struct):
    name: str = ""
    uid: str = ""


class _Identity(Struct):
    metadata: _Named = field(default_factory=_Named)


class _Version(Struct, rename="camel"):
    git_version: str = ""


class Member:
    """A cluster that can be asked through `client`, which is the same for as long as the member is.

    While the cluster is away or not to be trusted, all requests of `client` fail at once with `ClusterDown`. A member
    is one cluster for good: where its Secret comes to lead to another cluster, the fleet closes it and makes a new one.
    """

    def __init__(
        self,
        namespace: str,
        name: str,
        credentials: Credentials,
        *,
        pace: Pace,
        dialing: Dialing,
        reread: Callable[["Member"], Awaitable[None]],
        on_change: Callable[["Member"], None],
        on_other_cluster: Callable[["Member"], None],
    ) -> None:
        self.namespace = namespace
        self.name = name
        """For people: what the cluster was first called."""
        self.version = ""
        """The version of Kubernetes that it runs, once it was reached."""
        self.closed = False
        """True: it will never be up again. Ask the fleet for the member that took its place."""
        self._credentials = credentials
        self._pace = pace
        self._reread = reread
        self._told = on_change
        self._counted = ""
        self._known_by: Landmark | None = None
        self._version_at = float("-inf")
        self._reread_at = float("-inf")
        self._rereading = asyncio.Lock()
        self._pulse = Pulse(
            name,
            pace,
            check=self._check,
            on_change=self._changed,
            on_other_cluster=lambda: on_other_cluster(self),
        )
        with _named(credentials):
            self._line = Line(credentials.connection, self._pulse, timeout=pace.request, dialing=dialing)
        self._credential = _MemberToken(self)
        self.client: Client = LineClient(credentials.connection, self._line, self._credential)
        self.count()
        self._task = asyncio.get_running_loop().create_task(self._pulse.run(), context=contextvars.Context())

    def __repr__(self) -> str:
        """Name the member and how it is."""
        return f"Member({self.namespace}/{self.name}, {self.health.state} {self.health.reason})"

    @property
    def credentials(self) -> Credentials:
        """What it is reached with now."""
        return self._credentials

    @property
    def health(self) -> Health:
        """How the cluster is, as of the last change."""
        return self._pulse.health

    @property
    def up(self) -> bool:
        """Whether requests pass now."""
        return self._pulse.up

    @property
    def uid(self) -> str:
        """The UID that names the cluster over all addresses and times; empty until it was first reached."""
        return self._pulse.uid

    @property
    def last_seen(self) -> datetime | None:
        """When the cluster last answered as it should."""
        return self._pulse.last_seen

    async def settled(self) -> bool:
        """Wait until it is known whether the cluster can be used, which takes seconds at most; return whether."""
        with contextlib.suppress(ClusterDown):
            await self._pulse.enter()
        return self.up

    def probe_now(self) -> None:
        """Look after the cluster at once, rather than when it is time: for somebody who waits."""
        self._pulse.wake()

    async def follow(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run something for good, and start it again whenever the cluster comes back: a `Reflector.run`.

        It is not left to wait for its next try then, which may be half a minute away. What it logs names the cluster.
        """
        structlog.contextvars.bind_contextvars(cluster=self.name)
        while True:
            work = asyncio.ensure_future(run())
            back = asyncio.ensure_future(self._pulse.wait_until_back())
            try:
                await asyncio.wait((work, back), return_when=asyncio.FIRST_COMPLETED)
                if work.done():
                    return await work
            finally:
                for task in (work, back):
                    task.cancel()
                await asyncio.wait((work, back))

    def rotate(self, credentials: Credentials) -> None:
        """Go on with another credential. Raises `NotResolved`, and changes nothing, where it cannot be used."""
        if credentials.digest == self._credentials.digest:
            return
        with _named(credentials):
            self._line.use(credentials.connection)
        moved = not credentials.same_server(self._credentials)
        self._credentials = credentials
        self.client.connection = credentials.connection
        self._pulse.rotated()
        self.count()
        if moved:
            self._line.break_off()

    async def renew(self) -> bool:
        """Have the Secret read again, since a request was refused; return whether there is another credential now."""
        renewed = await self._look_again()
        if not renewed:
            self._pulse.wake()
        return renewed

    async def _look_again(self) -> bool:
        before = self._credentials.digest
        async with self._rereading:
            clock = asyncio.get_running_loop().time
            if self._credentials.digest == before and clock() - self._reread_at >= self._pace.reread:
                self._reread_at = clock()
                await self._reread(self)
        return self._credentials.digest != before

    def end(self, reason: str, message: str) -> None:
        """Let nothing pass any more, and tell so; what is under way is broken off."""
        self.closed = True
        self._task.cancel()
        self._pulse.close(reason, message)
        metrics.forget(self.namespace, self.name)

    async def close(self) -> None:
        """Close what was ended."""
        await asyncio.wait([self._task])
        await self._line.close()

    async def _check(self) -> str:
        """Return what names the cluster: one answer that needs the server, its store and the credential to work."""
        try:
            uid, self._known_by = await identify(self._identity, self._known_by)
        except Forbidden as error:
            raise NotResolved(
                "Forbidden",
                f"grant get on {error.resource}: the credential in {self._credentials.origin} may not get "
                f"{error.resource} {error.name!r}, by which the cluster is known",
            ) from None
        now = asyncio.get_running_loop().time()
        if not self.up or now - self._version_at >= _VERSION_AGE:
            with contextlib.suppress(ApiError):
                self.version = _decode(await self._ask("/version", "application/json"), _Version).git_version[:_LONGEST]
            self._version_at = now
        return uid

    async def _identity(self, landmark: Landmark) -> str:
        resource, name = landmark
        body = await self._ask(resource.path(name=name), _IDENTITY, landmark)
        found = _decode(body, _Identity).metadata
        if found.name != name or not found.uid:
            raise _no_api_server()
        return found.uid

    async def _ask(self, path: str, accept: str, landmark: Landmark = KUBE_SYSTEM) -> bytes:
        headers = {"Accept": accept}
        token = await self._credential.token()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        try:
            answer = await self._line.direct(path, headers, self._pace.probe)
        except Untrusted as refused:
            message = (
                f"{refused}; if the cluster has a new certificate authority, put it into {self._credentials.origin}"
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
            await self._look_again()
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
            self._line.break_off()
        self.count()
        if self.health.reason != self._counted:
            self._counted = self.health.reason
            metrics.changes.labels(self.health.reason).inc()
        self._told(self)

    def count(self) -> None:
        """Set what is counted about it."""
        metrics.up.labels(self.namespace, self.name).set(self.up)
        if self._credentials.expires:
            metrics.expiry.labels(self.namespace, self.name).set(self._credentials.expires.timestamp())


class _MemberToken:
    """The token of the credential that a member has now; a refused one sends the member to its Secret."""

    def __init__(self, member: Member) -> None:
        self._member = member

    async def token(self) -> str | None:
        """Return it; None where a client certificate says who we are."""
        return self._member.credentials.connection.token

    async def renew(self, rejected: str | None) -> bool:
        """Return whether there is another credential by now."""
        if rejected is not None and rejected != self._member.credentials.connection.token:
            return True
        return await self._member.renew()


@contextmanager
def _named(credentials: Credentials) -> Iterator[None]:
    """Say which Secret holds the certificate that cannot be read."""
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
    return BadAnswer("what answers at its address is no Kubernetes API server")
