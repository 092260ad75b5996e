"""Keeps the webhook configuration of this operator: its certificates and its path, and nothing else of it.

The operator has the rights to get and patch one configuration, but not to watch it, so it polls. Changed certificates
are written at once.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import structlog

from syncline.core.webhook_configuration import NAME, Client, repair, webhook_configuration
from syncline.kube.client import Client as KubeClient
from syncline.kube.client import PatchKind
from syncline.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, KubeError, NotFound
from syncline.kube.resources import Resource

log = structlog.get_logger(__name__)

CONFIGURATIONS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
INTERVAL = 10.0
"""The seconds between two checks of the configuration."""
_ATTEMPTS = 5


class WebhookRegistration:
    """Keeps the webhook configuration current, from `run` until it is cancelled."""

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        target: Callable[[], Client],
        *,
        creates: bool,
        refresh: Callable[[], Awaitable[None]],
    ) -> None:
        """`target` returns the client config. `creates`: whether a missing configuration is created.

        `refresh` is awaited before anything is changed: another replica may know newer certificates.
        """
        self._client = client
        self._namespace = namespace
        self._target = target
        self._creates = creates
        self._refresh = refresh
        self._news = asyncio.Event()
        self.problem = ""
        """Why the API server cannot call the operator; empty if it can."""

    def changed(self) -> None:
        """Check the configuration now, because the target has changed."""
        self._news.set()

    async def run(self) -> None:
        """Check the configuration regularly, and repair it."""
        while True:
            self._news.clear()
            await self.look()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(INTERVAL):
                    await self._news.wait()

    async def look(self) -> None:
        """Check the configuration once, and repair it. A new problem is logged."""
        try:
            await self._ensure()
        except NotFound:
            problem = f"run `syncline install` of this version: there is no MutatingWebhookConfiguration {NAME}"
        except Forbidden as error:
            problem = f"grant the rights of the role syncline-core: {error}"
        except KubeError as error:
            problem = str(error)
        else:
            problem = ""
        if problem and problem != self.problem:
            log.warning("the API server cannot ask about new pods: they get no agents", cause=problem)
        self.problem = problem

    async def _ensure(self) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                return await self._ensure_once()
            except (AlreadyExists, Conflict, Invalid):  # somebody else has written it meanwhile
                if attempt + 1 == _ATTEMPTS:
                    raise
        return None

    async def _ensure_once(self) -> None:
        try:
            found = await self._client.get(CONFIGURATIONS, NAME)
        except NotFound:
            if not self._creates:
                raise
            body = webhook_configuration(self._namespace, self._target())
            await self._client.create(CONFIGURATIONS, body)
            log.info("the webhook configuration was created", name=NAME)
            return
        if not repair(found, self._namespace, self._target()):
            return
        await self._refresh()
        patch = repair(found, self._namespace, self._target())
        if patch:
            await self._client.patch(CONFIGURATIONS, NAME, None, patch, PatchKind.JSON)
            log.info("the webhook configuration names the certificates and the address of this operator now", name=NAME)
