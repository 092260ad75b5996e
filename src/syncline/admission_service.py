"""The admission webhook of this replica: its server, its decisions, and the configuration that names it."""

import asyncio
import contextlib
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import structlog

from syncline import __version__
from syncline.admission.server import AdmissionServer
from syncline.controllers.author_check import AuthorCheck
from syncline.controllers.gateways.fleet import DepotAccess
from syncline.controllers.gateways.injector import Injector
from syncline.controllers.kinds.ignitionsync import IgnitionSyncReconciler
from syncline.core.injection import AgentFacts, NoAgentError
from syncline.core.webhook_configuration import SERVICE, Client, service_client, url_client
from syncline.engine.serving_authority import ServingAuthority
from syncline.engine.webhook_registration import WebhookRegistration
from syncline.kube.client import Client as KubeClient
from syncline.kube.errors import KubeError, NotFound
from syncline.kube.resources import PODS
from syncline.settings import Settings
from syncline.telemetry import Check, ServingCertificate
from syncline.telemetry.bind import OFF

log = structlog.get_logger(__name__)

CERT_DIR_FLAG = "--admission-cert-dir"
CA = "ca.crt"
CONTAINER = "syncline"
"""The container of the operator in its own pod."""
OLDEST_MINOR = 29
"""Kubernetes 1.29 is the first version with native sidecars."""
MAX_PAUSE = 30.0
_LARGEST_CA = 64 * 1024


class AdmissionService:
    """Answers the API server from `start` to `stop`, unless the bind is 0."""

    def __init__(self, settings: Settings, client: KubeClient, authority: ServingAuthority) -> None:
        """Read the settings. Raises `SettingsError` and `BindError`."""
        self._bind = settings.admission_bind
        self._url = settings.checked_admission_url()
        self._folder = settings.admission_cert_dir
        self._namespace = settings.namespace
        self._image = settings.agent_image
        self._client = client
        self._authority = authority
        self._too_old = ""
        self._certificate = authority.certificate
        if self._folder and self._bind != OFF:
            self._certificate = ServingCertificate.from_folder(CERT_DIR_FLAG, self._folder, "admission")
        self._server: AdmissionServer | None = None
        self._depot = DepotAccess()
        self._registration = WebhookRegistration(
            client, self._namespace, self._target, creates=bool(self._url), refresh=authority.refresh
        )
        self._task: asyncio.Task[None] | None = None

    def connect(self, gateways: IgnitionSyncReconciler, depot: DepotAccess, authors: AuthorCheck | None) -> None:
        """Set the syncs, the access of agents to the depot, and the check of authors."""
        self._depot = depot
        injector = Injector(self._client, gateways.kind.resource, gateways, self._facts, authors)
        self._server = AdmissionServer(
            self._bind,
            certificate=lambda: self._certificate,
            token=lambda: self._authority.token,
            decide=injector.decide,
        )
        self._authority.listen(self._registration.changed)

    async def start(self) -> dict[str, str]:
        """Listen, and return the address by name. The authority is started already. Raises `BindError`."""
        if self._server is None or self._bind == OFF:
            return {}
        await self._server.start()
        self._task = asyncio.create_task(self._run(), name="the registration of the admission webhook")
        return {"admission": self._server.address}

    async def stop(self) -> None:
        """Stop listening. The configuration stays: other replicas answer, or pods are created without an answer."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._server is not None:
            await self._server.stop()

    def checks(self) -> dict[str, Check]:
        """Return the checks of `/readyz`."""
        return {"admission": self._is_served}

    def _is_served(self) -> tuple[bool, str]:
        if self._bind == OFF:
            return True, "not served: --admission-bind is 0"
        if self._server is None or not self._server.address:
            return False, "the admission webhook does not listen yet"
        # A problem of the configuration must not remove this replica from its Services.
        return True, self._registration.problem or "the API server can ask about new pods"

    async def _run(self) -> None:
        await self._persist(self._check_version)
        await self._persist(self._find_image)
        await self._authority.ready.wait()
        await self._registration.run()

    async def _persist(self, act: Callable[[], Awaitable[None]]) -> None:
        pause = 1.0
        while True:
            try:
                return await act()
            except KubeError as error:
                log.warning("the admission webhook is not ready yet; trying again", error=str(error))
            await asyncio.sleep(pause)
            pause = min(MAX_PAUSE, pause * 2)

    async def _check_version(self) -> None:
        """Log a warning if the API server has no native sidecars: the agent would keep its pod from starting."""
        version = await self._client.version()
        if is_too_old(version):
            self._too_old = f"Kubernetes {version} has no native sidecars: agents need 1.{OLDEST_MINOR} or newer"
            log.warning("pods get no agents", cause=self._too_old)

    async def _find_image(self) -> None:
        """Find the image of agents: from the flag, the operator's own pod, or this version."""
        pod = os.environ.get("POD_NAME", "")
        if not self._image and pod:
            with contextlib.suppress(NotFound):
                found: dict[str, Any] = await self._client.get(PODS, pod, self._namespace)
                self._image = next(
                    (str(one["image"]) for one in found["spec"]["containers"] if one["name"] == CONTAINER), ""
                )
        if not self._image:
            self._image = f"syncline:{__version__}"
            log.info("the operator has no pod, so agents get the default image: see --agent-image", image=self._image)

    def _facts(self) -> AgentFacts:
        """Return the facts that all agents share. Raises `NoAgentError`."""
        if self._too_old:
            raise NoAgentError(self._too_old)
        url, ca = self._depot.url(), self._depot.ca()
        if not url or not ca:
            raise NoAgentError("the operator serves no files to agents: start it with --depot-bind")
        if not self._image:
            raise NoAgentError("the operator is starting: recreate the pod")
        return AgentFacts(self._image, url, ca)

    def _target(self) -> Client:
        """Return how the API server reaches this operator."""
        ca, token = self._trusted(), self._authority.token
        if self._url:
            return url_client(self._url, token, ca)
        return service_client(self._namespace, token, ca)

    def _trusted(self) -> str:
        """Return the CA certificates for the webhook configuration; empty if another program writes them."""
        if not self._folder:
            return self._authority.ca
        try:
            with Path(self._folder, CA).open(encoding="ascii") as file:
                return file.read(_LARGEST_CA)
        except (OSError, ValueError):
            return ""


def is_too_old(version: str) -> bool:
    """Whether an API server of this version has no native sidecars. Versions that cannot be read count as newer."""
    found = re.match(r"v?1\.(\d+)", version)
    return found is not None and int(found[1]) < OLDEST_MINOR


def admission_hosts(settings: Settings) -> tuple[str, ...]:
    """Return the host names and IP addresses by which the API server reaches the webhook."""
    service = f"{SERVICE}.{settings.namespace}"
    given = urlsplit(settings.admission_url).hostname or "" if settings.admission_url else ""
    return tuple(host for host in (SERVICE, service, f"{service}.svc", given) if host)
