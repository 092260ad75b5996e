"""The state of the installation while the operator runs: policies, CRDs and rights."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

import structlog

from syncline.core.installation import describe_together
from syncline.engine.author_policies import AuthorPolicies
from syncline.engine.selfcheck import Right, Shipped, check_crds, check_rights
from syncline.kube.client import Client
from syncline.kube.errors import KubeError
from syncline.kube.reviews import may_self
from syncline.telemetry import metrics

log = structlog.get_logger(__name__)

LOOK_SECONDS = 600.0
"""The interval of checks of rights and CRDs without an event."""

RETRY_SECONDS = 10.0


class Installation:
    """Checks the operator's own installation. Policies are watched; rights and CRDs are checked at an interval."""

    def __init__(self, client: Client, shipped: Shipped, on_authors: Callable[[str], None]) -> None:
        self.policies = AuthorPolicies(client, shipped.policies, shipped.version, on_authors)
        self._client = client
        self._shipped = shipped
        self._crd_problems: list[str] = []
        self._missing_rights: list[str] = []
        self._names = frozenset(manifest["metadata"]["name"] for manifest in shipped.crds)
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Check until cancelled."""
        await asyncio.gather(
            self.policies.run(),
            self._keep(self._look_at_crds, self._changed),
            self._keep(self._look_at_rights, asyncio.Event()),
        )

    def crd_changed(self, name: str) -> None:
        """Check again if a CRD of ours has changed."""
        if name in self._names:
            self._changed.set()

    def crds_fit(self) -> tuple[bool, str]:
        """Return whether the CRDs are those that this version needs, and a message."""
        found = describe_together(self._crd_problems)
        return not found, found or "our kinds are served as this version needs them"

    def rights_suffice(self) -> tuple[bool, str]:
        """Return whether the operator has the rights of every profile, and a message."""
        found = describe_together(self._missing_rights)
        return not found, found or "the operator has the rights of the shipped core roles"

    async def _keep(self, look: Callable[[], Awaitable[bool]], changed: asyncio.Event) -> None:
        while True:
            changed.clear()
            try:
                pause = LOOK_SECONDS if await look() else RETRY_SECONDS
            except KubeError as error:
                log.debug("the installation cannot be checked", error=str(error))
                pause = RETRY_SECONDS
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), pause)

    async def _look_at_crds(self) -> bool:
        found = await check_crds(self._client, self._shipped)
        _report(found, self._crd_problems)
        self._crd_problems = found
        metrics.set_self_check("crds", ok=not found)
        return True  # a watch reports changes

    async def _look_at_rights(self) -> bool:
        async def may(right: Right) -> bool:
            return await may_self(self._client, right.attributes())

        found = await check_rights(self._shipped.rights, may)
        _report(found, self._missing_rights)
        self._missing_rights = found
        metrics.set_self_check("rights", ok=not found)
        return not found


def _report(found: Sequence[str], before: Sequence[str]) -> None:
    for problem in found:
        if problem not in before:
            log.warning("the installation is not whole", why=problem)
