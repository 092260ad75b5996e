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

# How long the operator waits for the API server before it starts without knowing its user.
SOON = 5.0
_CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)


class OwnRights:
    """Unknown until they are learned. The profile does not change while the operator runs."""

    def __init__(self, account: str = "") -> None:
        """`account` is the user of an operator that runs as installed."""
        self._account = account
        self.learned = False
        self.user = ""
        """The name of the user; empty if the API server does not report it."""
        self.profile: Profile | None = None
        """The installed profile; None if there is none, or it may not be read."""

    async def introduce(self, client: Client, stop: asyncio.Event) -> None:
        """Learn and log the user at the start. If the API server does not answer soon, `learn` asks it again later."""
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
        """Ask the API server, and log the answer. Raises the errors of a read."""
        self.user = await own_name(client)
        self.profile = await installed_profile(client)
        self.learned = True
        if not self._account:
            return
        server, profile = client.connection.server, self.profile or "unknown"
        log.info("operator", identity=self.user or "unknown", server=server, rights=profile)
        if self.profile is not None and self.user != self._account:
            log.warning(
                "this operator acts with the rights of the user who runs it, not with the installed rights: "
                "`syncline run --as-installed` acts with the installed ones",
                identity=self.user,
            )


async def installed_profile(client: Client) -> Profile | None:
    """Return the installed profile; None if there is none, or the client may not read it."""
    try:
        role: dict[str, Any] = await client.get(_CLUSTER_ROLES, ROLE, metadata_only=True)
    except (NotFound, Forbidden):
        return None
    return known((role["metadata"].get("labels") or {}).get(LABEL, ""))
