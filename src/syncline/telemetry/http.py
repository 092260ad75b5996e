"""The endpoints: /healthz and /readyz for the kubelet, /metrics for Prometheus. Read-only, without secrets.

Metrics contain the names and namespaces of syncs. They are therefore served over TLS, and only to clients with the
right to read them (`Guard`), unless a flag disables this. Probes have no credential and use their own listener.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self
from weakref import WeakSet

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import REGISTRY
from prometheus_client.exposition import choose_encoder

from syncline.limits import network_of, source_of
from syncline.telemetry.bind import OFF, BindError, address_of, listen
from syncline.telemetry.certificate import ServingCertificate
from syncline.telemetry.handshakes import Handshakes
from syncline.telemetry.scrapers import Authorize, ScrapeVerdict

Check = Callable[[], tuple[bool, str]]
"""Returns whether a component is ready, with the cause. It must not block."""

LAG_LIMIT = 5.0
"""The process counts as stuck if one iteration of the event loop takes longer, in seconds."""

ANSWER_SECONDS = 10.0
"""The maximum time of a response, in seconds."""

FIRST_REQUEST_SECONDS = 10.0
"""The maximum time until a new connection sends its first request, in seconds."""

HANDSHAKE_SECONDS = 5.0
KEEPALIVE_SECONDS = 75.0
HEADER_BYTES = 8192
CONNECTIONS = 200
"""The maximum number of connections. A new connection replaces the one with the longest idle time, of the network with
the most connections."""

PER_ADDRESS = 32
"""The maximum number of connections from one address, or from one IPv6 network."""

HEALTH_FLAG = "--health-bind"
METRICS_FLAG = "--metrics-bind"

_SCRAPERS = "scrapers"
_GROUP = web.RequestKey("group", str)
"""The group of a request that has proven its rights, see `Endpoint.prove`."""

_REFUSALS = {
    ScrapeVerdict.UNAUTHENTICATED: "the API server does not accept the bearer token: send a valid token",
    ScrapeVerdict.FORBIDDEN: (
        "no right to `get` the nonResourceURL /metrics: bind the ClusterRole syncline-metrics-reader"
    ),
    ScrapeVerdict.TOO_MANY: "too many tokens were tried: retry later",
    ScrapeVerdict.UNKNOWN: "the API server did not answer the review of this token: retry later",
}


@dataclass(frozen=True)
class Guard:
    """The protection of the metrics."""

    certificate: ServingCertificate
    authorize: Authorize


@dataclass(frozen=True)
class Endpoints:
    """Both endpoints. An endpoint that is off is None. One server for both is the same object twice."""

    health: "Endpoint | None"
    metrics: "Endpoint | None"

    async def close(self) -> None:
        """Close both."""
        for endpoint in {self.health, self.metrics}:
            if endpoint is not None:
                await endpoint.close()


async def serve(*, health: str, metrics: str, checks: Mapping[str, Check], guard: Guard | None = None) -> Endpoints:
    """Serve health and metrics at these addresses. If both are equal and unguarded, one server serves both."""
    if health == metrics and guard is None:
        routes = [*_health(checks), *_metrics()]
        both = None if health == OFF else await Endpoint.start(f"{HEALTH_FLAG} and {METRICS_FLAG}", health, routes)
        return Endpoints(both, both)
    first = await serve_health(health, checks)
    try:
        return Endpoints(first, await serve_metrics(metrics, guard))
    except BindError:
        await Endpoints(first, None).close()
        raise


async def serve_health(bind: str, checks: Mapping[str, Check]) -> "Endpoint | None":
    """Serve /healthz and /readyz; None when the bind is 0. Raises `BindError`."""
    return None if bind == OFF else await Endpoint.start(HEALTH_FLAG, bind, _health(checks))


async def serve_metrics(bind: str, guard: Guard | None = None) -> "Endpoint | None":
    """Serve /metrics; None when the bind is 0. Without a guard: plain HTTP for everybody. Raises `BindError`."""
    if bind == OFF:
        return None
    if guard is None:
        return await Endpoint.start(METRICS_FLAG, bind, _metrics())
    return await Endpoint.start(METRICS_FLAG, bind, _metrics(guard.authorize), guard.certificate)


@dataclass(frozen=True)
class EndpointLimits:
    """The limits of an endpoint. A limit that is None is that of all endpoints."""

    connections: int | None = None
    per_address: int | None = None
    answers_slowly: bool = False
    """Whether requests have their own timeouts, and end when their client has gone."""


class Endpoint:
    """A server that listens at `address` until it is closed."""

    def __init__(
        self, address: str, runner: web.AppRunner, certificate: ServingCertificate | None, limits: EndpointLimits
    ) -> None:
        self.address = address
        self._runner = runner
        self._certificate = certificate
        self._limits = limits
        self._turns = Handshakes()
        self._proven: dict[web.RequestHandler, str] = {}
        self._handshakes: dict[web.RequestHandler, tuple[asyncio.Transport, asyncio.Task[None]]] = {}
        self._listener: asyncio.Server | None = None
        self._closed = False
        self._shared: Callable[[str], bool] = lambda _: False
        self._newcomers: dict[web.RequestHandler, asyncio.TimerHandle] = {}
        self._transports: WeakSet[asyncio.Transport] = WeakSet()
        """The TCP connections, below TLS."""
        self._sources: dict[web.RequestHandler, str] = {}
        """The senders of all connections, the least recently used first."""

    @classmethod
    async def start(
        cls,
        flag: str,
        bind: str,
        routes: Sequence[web.RouteDef],
        certificate: ServingCertificate | None = None,
        *,
        shared: Callable[[str], bool] = lambda _: False,
        limits: EndpointLimits = EndpointLimits(),  # noqa: B008 - it is frozen
    ) -> Self:
        """Listen at the address that the flag sets, with TLS if there is a certificate.

        `shared` returns whether many clients share an address, such as a proxy. The number of its connections is not
        limited.
        """
        listening = listen(flag, bind)
        app = web.Application(client_max_size=1)
        runner = web.AppRunner(
            app,
            access_log=None,
            keepalive_timeout=KEEPALIVE_SECONDS,
            max_line_size=HEADER_BYTES,
            max_field_size=HEADER_BYTES,
            lingering_time=0,
            auto_decompress=False,  # a small body can decompress to a large one
            shutdown_timeout=1,
            handler_cancellation=limits.answers_slowly,
        )
        endpoint = cls(address_of(listening), runner, certificate, limits)
        endpoint._shared = shared
        app.add_routes(routes)
        app.middlewares.append(endpoint._attend)
        await runner.setup()
        endpoint._listener = await asyncio.get_running_loop().create_server(lambda: _Door(endpoint), sock=listening)
        return endpoint

    async def close(self) -> None:
        """Stop listening and end all connections."""
        if self._listener is not None:
            self._listener.close()
        self._closed = True
        for timer in self._newcomers.values():
            timer.cancel()
        unfinished = list(self._handshakes.values())
        for transport, handshake in unfinished:
            handshake.cancel()
            transport.abort()
        self._turns.close()
        await asyncio.gather(*(handshake for _, handshake in unfinished), return_exceptions=True)
        await self._runner.cleanup()
        for transport in self._transports:
            transport.abort()  # a client that does not answer the end of TLS would keep its connection
        await asyncio.sleep(0)

    def admit(self, transport: asyncio.Transport) -> None:
        """Accept a new connection, or close it if its address has too many connections."""
        server = self._runner.server
        if server is None or self._closed:  # it was accepted before the end of the listener
            transport.abort()
            return
        self._transports.add(transport)
        open_now = {*server.connections, *self._handshakes}
        self._sources = {one: known for one, known in self._sources.items() if one in open_now}
        self._proven = {one: group for one, group in self._proven.items() if one in open_now}
        address = str((transport.get_extra_info("peername") or ("",))[0])
        source = source_of(address)
        most = CONNECTIONS if self._limits.connections is None else self._limits.connections
        if not most or (self._is_crowded(source) and not self._shared(address)):
            transport.abort()
            return
        if len(self._sources) >= most:
            self._make_room()
        connection = server()
        self._sources[connection] = source
        loop = asyncio.get_running_loop()
        self._newcomers[connection] = loop.call_later(FIRST_REQUEST_SECONDS, self._dismiss, connection)
        if self._certificate is None:
            transport.set_protocol(connection)
            connection.connection_made(transport)
            return
        transport.pause_reading()
        handshake = loop.create_task(self._shake_hands(self._certificate, transport, connection, address))
        self._handshakes[connection] = transport, handshake
        handshake.add_done_callback(lambda _: self._handshakes.pop(connection))

    async def _shake_hands(
        self,
        certificate: ServingCertificate,
        transport: asyncio.Transport,
        connection: web.RequestHandler,
        address: str,
    ) -> None:
        """Start TLS, in turn. The server gets the connection only afterwards. Until then it is only counted."""
        early = _Early()
        try:
            await self._turns.turn(address)
            secure = await asyncio.get_running_loop().start_tls(
                transport,
                early,
                certificate.context(),
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=1.0,
            )
        except (OSError, EOFError):
            transport.abort()
            return
        if secure is None or early.ended or self._runner.server is None or connection not in self._sources:
            transport.abort()
            return
        secure.set_protocol(connection)
        connection.connection_made(secure)
        if early.received:
            connection.data_received(bytes(early.received))

    def prove(self, request: web.Request, group: str) -> None:
        """Take a connection out of the limit of its address, and protect it from clients that have proven nothing.

        It makes room only for others that are proven, if no other is left, and if its group has the most connections.
        """
        self._proven[request.protocol] = group
        if self._certificate is not None:
            self._turns.know(request.remote or "")

    def _is_crowded(self, source: str) -> bool:
        most = PER_ADDRESS if self._limits.per_address is None else self._limits.per_address
        return sum(known == source and one not in self._proven for one, known in self._sources.items()) >= most

    def _make_room(self) -> None:
        """Close the least recently used connection of the network, or of the group, that has the most."""
        groups = {one: network_of(source) for one, source in self._sources.items() if one not in self._proven}
        groups = groups or {one: self._proven[one] for one in self._sources}
        largest = Counter(groups.values()).most_common(1)[0][0]
        idle = next(one for one, group in groups.items() if group == largest)
        del self._sources[idle]
        self._proven.pop(idle, None)
        if timer := self._newcomers.pop(idle, None):
            timer.cancel()
        self._end(idle)

    def _dismiss(self, connection: web.RequestHandler) -> None:
        del self._newcomers[connection]
        self._end(connection)

    def _end(self, connection: web.RequestHandler) -> None:
        if connection in self._handshakes:
            transport, handshake = self._handshakes[connection]
            handshake.cancel()
            transport.abort()
        connection.force_close()

    @web.middleware
    async def _attend(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if timer := self._newcomers.pop(request.protocol, None):
            timer.cancel()
        if (source := self._sources.pop(request.protocol, None)) is not None:
            self._sources[request.protocol] = source
        if self._limits.answers_slowly:
            return await handler(request)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await handler(request)
        except TimeoutError:
            return web.Response(status=503, text="the response took too long\n")
        finally:
            if _GROUP in request:
                self.prove(request, request[_GROUP])


class _Door(asyncio.Protocol):
    """A connection before its address is known."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._endpoint.admit(transport)


class _Early(asyncio.Protocol):
    """Buffers data that arrives between the end of a handshake and the moment when the server takes the connection."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.ended = False

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, _error: Exception | None) -> None:
        self.ended = True


def _health(checks: Mapping[str, Check]) -> list[web.RouteDef]:
    async def healthz(_request: web.Request) -> web.Response:
        now = asyncio.get_running_loop().time
        before = now()
        await asyncio.sleep(0)
        lag = now() - before
        if lag > LAG_LIMIT:
            return _last(web.Response(status=503, text=f"one iteration of the event loop took {lag:.1f} s\n"))
        return _last(web.Response(text="ok\n"))

    async def readyz(request: web.Request) -> web.Response:
        results = {name: _run(check) for name, check in checks.items()}
        ready = all(ok for ok, _ in results.values())
        lines = [f"[{'+' if ok else '-'}] {name}: {detail}\n" for name, (ok, detail) in results.items()]
        if ready and "verbose" not in request.query:
            lines = []
        text = "".join(lines) + ("ok\n" if ready else "not ready\n")
        return _last(web.Response(status=200 if ready else 503, text=text))

    return [web.get("/healthz", healthz), web.get("/readyz", readyz)]


def _last(response: web.Response) -> web.Response:
    """Close the connection after this response: each probe opens a new connection."""
    response.force_close()
    return response


def _run(check: Check) -> tuple[bool, str]:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - a broken check is an answer: not ready
        return False, f"the check itself failed: {type(error).__name__}"


def _metrics(authorize: Authorize | None = None) -> list[web.RouteDef]:
    one_at_a_time = asyncio.Lock()

    async def metrics(request: web.Request) -> web.Response:
        if authorize is not None:
            access = await authorize(request.headers.get("Authorization", ""), request.remote or "")
            if access is not ScrapeVerdict.ALLOWED:
                return _refuse(access)
            request[_GROUP] = _SCRAPERS
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        async with one_at_a_time:
            # The text of thousands of series takes a while. A thread does it, so that the event loop is not blocked.
            body = await asyncio.to_thread(encode, REGISTRY)
        response = web.Response(body=body, headers={"Content-Type": content_type})
        response.enable_compression()
        return response

    return [web.get("/metrics", metrics)]


def _refuse(access: ScrapeVerdict) -> web.Response:
    response = web.Response(status=access.value, text=f"{_REFUSALS[access]}\n")
    if access is ScrapeVerdict.UNAUTHENTICATED:
        response.headers["WWW-Authenticate"] = "Bearer"
    return _last(response)
