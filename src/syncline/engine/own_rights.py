"""The operator's own user, as the API server knows it, and the installed profile of rights."""

import asyncio
from typing import Any

import structlog

from syncline.core.profiles import LABEL, ROLE, Profile, known
from syncline.kube.client import Client
from syncline.kube.errors import Forbidden, NotFound
from syncline.kube.resources import Resource
from syncline.kube.reviews import own_name

log = structlog.get_logger(__name__)

# How long an API server may take before the operator starts without knowing who it is.
SOON = 5.0
_CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)


class OwnRights:
    """Unknown until they are learned. Another profile means another start of the operator."""

    def __init__(self, account: str = "") -> None:
        """`account` is who the operator is where it runs as installed."""
        self._account = account
        self.learned = False
        self.user = ""
        """Empty where the API server does not tell."""
        self.profile: Profile | None = None
        """None where nothing is installed that names one, or it may not be read."""

    async def introduce(self, client: Client, stop: asyncio.Event) -> None:
        """Say first of all who this is. An API server that does not answer soon is asked again later, by `learn`."""
        learning = asyncio.create_task(self.learn(client))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([learning, stopping], timeout=SOON, return_when=asyncio.FIRST_COMPLETED)
        for task in (learning, stopping):
            task.cancel()
        await asyncio.wait([learning, stopping])
        if not self.learned:
            error = None if learning.cancelled() else learning.exception()
            server = client.connection.server
            log.warning("operator", identity="not known yet", server=server, error=str(error or "no answer yet"))

    async def learn(self, client: Client) -> None:
        """Ask the API server, and log what it says; raises what any read raises."""
        self.user = await own_name(client)
        self.profile = await installed_profile(client)
        self.learned = True
        if not self._account:
            return
        server, profile = client.connection.server, self.profile or "unknown"
        log.info("operator", identity=self.user or "unknown", server=server, rights=profile)
        if self.profile is not None and self.user != self._account:
            log.warning(
                "this operator acts with the rights of whoever runs it, not with those that were installed: "
                "`syncline run --as-installed` acts with the installed ones",
                identity=self.user,
            )


async def installed_profile(client: Client) -> Profile | None:
    """Return the profile that was installed; None where there is none, or whoever asks may not read it."""
    try:
        role: dict[str, Any] = await client.get(_CLUSTER_ROLES, ROLE, metadata_only=True)
    except (NotFound, Forbidden):
        return None
    return known((role["metadata"].get("labels") or {}).get(LABEL, ""))
