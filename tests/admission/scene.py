"""The admission webhook of some replicas on loopback, which a real API server calls, and tenants who make pods."""

import asyncio
import json
import re
import secrets
import socket
import ssl
import urllib.error
import urllib.request
from contextlib import AsyncExitStack, closing, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from syncline import deploy
from syncline.admission_service import AdmissionService, admission_hosts
from syncline.api.common import API_VERSION
from syncline.api.ignition_annotations import CR_NAME, INJECT
from syncline.api.ignitionsync import KIND, PLURAL
from syncline.controllers.gateways.fleet import DepotAccess
from syncline.core.serving_authorities import Lifetimes
from syncline.core.webhook_configuration import NAME
from syncline.engine.cluster import Cluster
from syncline.engine.serving_authority import ServingAuthority
from syncline.kube.client import Client
from syncline.kube.config import load_kubeconfig
from syncline.kube.events import EventRecorder
from syncline.reconcilers import BuildTools, new_reconcilers
from syncline.render.build_pool import BuildPool
from syncline.render.transform_pool import TransformPool
from syncline.sandbox import RequestError, Sandbox
from syncline.settings import Settings
from syncline.testing.loop import OnLoop

Json = dict[str, Any]
CONFIGURATION = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{NAME}"
IMAGE = "registry.example.com/syncline:1.0"
DEPOT = "https://depot.example.com"
DATA = "/usr/local/bin/ignition/data"


def free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Balancer:
    """Passes each connection on to the next of several ports, as a Service does."""

    def __init__(self, port: int, ports: list[int]) -> None:
        self._port = port
        self._ports = ports
        self._turns = count()
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)

    async def stop(self) -> None:
        """Close the port and every connection: the API server keeps its connections open."""
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(self._pass_on(reader, writer))
        self._connections.add(connection)

        def end(_: asyncio.Task[None]) -> None:
            self._connections.discard(connection)
            writer.transport.abort()

        connection.add_done_callback(end)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = self._ports[next(self._turns) % len(self._ports)]
        with suppress(OSError):
            answers, requests = await asyncio.open_connection("127.0.0.1", port)
            try:
                await asyncio.gather(_copy(reader, requests), _copy(answers, writer))
            finally:
                requests.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
    writer.transport.abort()


class Webhooks(OnLoop):
    """Replicas of the operator as far as they answer the API server; nobody leads, and nothing is reconciled."""

    thread_name = "webhooks"

    def __init__(
        self, kubeconfig: Path, *, replicas: int = 1, lifetimes: Lifetimes | None = None, **settings: Any
    ) -> None:
        self._kubeconfig = kubeconfig
        self._lifetimes = lifetimes
        self._ports = [free_port() for _ in range(replicas)]
        self.port = self._ports[0] if replicas == 1 else free_port()
        given = {"admission_url": f"https://127.0.0.1:{self.port}/inject", "agent_image": IMAGE, **settings}
        self.settings = [Settings(admission_bind=f"127.0.0.1:{port}", **given) for port in self._ports]
        self.authorities: list[ServingAuthority] = []
        self.services: list[AdmissionService] = []

    async def _open(self) -> None:
        self._held = AsyncExitStack()
        for settings in self.settings:
            await self._start(settings)
        if len(self._ports) > 1:
            balancer = Balancer(self.port, self._ports)
            await balancer.start()
            self._held.push_async_callback(balancer.stop)
        for service in self.services:
            await service._registration.look()

    async def _start(self, settings: Settings) -> None:
        client = await self._held.enter_async_context(Client(load_kubeconfig(self._kubeconfig)))
        hub = Cluster(client)
        tools = BuildTools(TransformPool(), BuildPool(), settings.mirrors())
        gateways = new_reconcilers(hub, tools, EventRecorder(client, "tests", "tests"), settings).gateways
        watches = [asyncio.create_task(one.run()) for one in gateways.syncs.values()]
        self._held.push_async_callback(_end, watches)
        for one in gateways.syncs.values():
            await one.synced.wait()
        authority = ServingAuthority(client, deploy.NAMESPACE, admission_hosts(settings), lifetimes=self._lifetimes)
        await authority.start()
        self._held.push_async_callback(authority.stop)
        service = AdmissionService(settings, client, authority)
        service.connect(gateways, DepotAccess(lambda: DEPOT, lambda: authority.ca), None)
        await service.start()
        self._held.push_async_callback(service.stop)
        self.authorities.append(authority)
        self.services.append(service)

    async def _close(self) -> None:
        await self._held.aclose()


async def _end(tasks: list["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Answered(NamedTuple):
    """What the API server answers to a tenant."""

    body: Json
    warnings: list[str]

    @property
    def agent(self) -> Json:
        """The container of the agent; empty if there is none."""
        found = [one for one in self.body["spec"].get("initContainers", []) if one["name"] == "syncline-agent"]
        assert len(found) <= 1
        return dict(found[0]) if found else {}

    @property
    def variables(self) -> dict[str, str]:
        return {one["name"]: one["value"] for one in self.agent["env"]}


class Tenant:
    """Somebody with `edit` in a namespace: their own, or one that there is already."""

    def __init__(self, sandbox: Sandbox, namespace: str = "") -> None:
        self._sandbox = sandbox
        self._context = ssl.create_default_context(cadata=sandbox.ca)
        self.namespace = namespace or f"injected-{secrets.token_hex(4)}"
        if not namespace:
            sandbox.request("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        for name in ("tenant", "gateway"):
            sandbox.request(
                "POST", f"/api/v1/namespaces/{self.namespace}/serviceaccounts", {"metadata": {"name": name}}
            )
        self.token = sandbox.service_account_token(self.namespace, "tenant")
        rbac = "rbac.authorization.k8s.io"
        binding = {
            "metadata": {"name": "tenant"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": self.namespace}],
        }
        sandbox.request("POST", f"/apis/{rbac}/v1/namespaces/{self.namespace}/rolebindings", binding)

    def sync(self, name: str = "plant", **spec: Any) -> Json:
        """Create an IgnitionSync, as an administrator: what its author may do is another matter."""
        body = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": name},
            "spec": {
                "git": {"repo": "https://git.example.com/plant.git", "ref": "main"},
                "gateway": {"apiKeySecretRef": {"name": "gw", "key": "apiKey"}},
                "sync": {"profiles": {"default": {"mappings": [{"source": "a", "destination": "projects"}]}}},
                **spec,
            },
        }
        return self._sandbox.request("POST", f"/apis/{API_VERSION}/namespaces/{self.namespace}/{PLURAL}", body)

    def drop(self, name: str = "plant") -> None:
        self._sandbox.request("DELETE", f"/apis/{API_VERSION}/namespaces/{self.namespace}/{PLURAL}/{name}")

    def pod(self, sync: str | None = "plant", *, dry_run: bool = False, **pod: Any) -> Answered:
        """Create a pod that asks for an agent."""
        return self.create(self.body(sync, **pod), dry_run=dry_run)

    def body(self, sync: str | None = "plant", *, name: str = "", annotations: Json | None = None, **spec: Any) -> Json:
        named = {} if sync is None else {CR_NAME: sync}
        gateway = {"name": "gateway", "image": "ignition", "volumeMounts": [{"name": "data", "mountPath": DATA}]}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name or f"gw-{secrets.token_hex(4)}",
                "annotations": {INJECT: "true", **named, **(annotations or {})},
            },
            "spec": {
                "serviceAccountName": "gateway",
                "containers": [gateway],
                "volumes": [{"name": "data", "emptyDir": {}}],
                "securityContext": {"runAsUser": 2003, "runAsGroup": 2003, "fsGroup": 2003},
                **spec,
            },
        }

    def create(self, body: Json, *, dry_run: bool = False) -> Answered:
        query = "?dryRun=All" if dry_run else ""
        request = urllib.request.Request(
            f"{self._sandbox.server}/api/v1/namespaces/{self.namespace}/pods{query}",
            data=json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60, context=self._context) as answer:
                told = answer.headers.get_all("Warning") or []
                return Answered(json.load(answer), [_text(one) for one in told])
        except urllib.error.HTTPError as error:
            with error:
                raise RequestError(error.code, error.read().decode()) from None

    def exists(self, name: str) -> bool:
        try:
            return bool(self._sandbox.request("GET", f"/api/v1/namespaces/{self.namespace}/pods/{name}"))
        except RequestError:
            return False

    def is_injected(self) -> bool:
        """Whether the API server has a pod injected now; nothing is created."""
        return bool(self.pod(dry_run=True).agent)


def _text(header: str) -> str:
    found = re.fullmatch(r'299 - "(.*)"', header)
    return found[1].replace('\\"', '"') if found else header


def configuration(sandbox: Sandbox) -> Json:
    return dict(sandbox.request("GET", CONFIGURATION))


def client_config(sandbox: Sandbox) -> Json:
    [webhook] = configuration(sandbox)["webhooks"]
    return dict(webhook["clientConfig"])


def put_back(sandbox: Sandbox) -> None:
    """Have the configuration as it is shipped."""
    with suppress(RequestError):
        sandbox.request("DELETE", CONFIGURATION)
    [manifest] = deploy.injection()
    sandbox.request("POST", CONFIGURATION.rpartition("/")[0], manifest)
