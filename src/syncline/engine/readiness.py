"""The checks of `/readyz`: each passes, or names what is missing and the remedy."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import structlog
from msgspec import Struct

from syncline.core.installation import INSTALL, describe_together
from syncline.core.scope import Namespace
from syncline.engine.installation import Installation
from syncline.kube.errors import KubeError
from syncline.kube.reflector import AnyReflector
from syncline.render.tool_process import missing_walls
from syncline.telemetry import metrics

log = structlog.get_logger(__name__)

T = TypeVar("T")

Check = Callable[[], tuple[bool, str]]

MAX_PAUSE = 30.0


class Waived(Struct, frozen=True, kw_only=True):
    """The protections that flags turn off."""

    confinement: bool = False
    author_checks: bool = False


class Readiness:
    """The conditions that keep the operator from working."""

    def __init__(self, installation: Installation, waived: Waived) -> None:
        self.waits_for = "the caches are being filled"
        """The step that the operator waits for before it reconciles; empty after it."""
        self._installation = installation
        self._waived = waived
        self._missing_walls: list[str] = []

    def checks(
        self,
        watches: Callable[[], Iterable[AnyReflector]],
        takes_webhooks: Callable[[], bool],
        home: Callable[[], Namespace | None],
    ) -> dict[str, Check]:
        """Return the checks by name: the watches are live, webhooks are accepted, and the namespace exists."""
        return {
            "work": self._can_work,
            "namespace": lambda: self._has_home(home()),
            "watches": lambda: _are_live(watches()),
            "policies": self._authors_checked,
            "crds": self._installation.crds_fit,
            "rights": self._installation.rights_suffice,
            "confinement": self._builds_confined,
            "webhooks": lambda: _webhooks_taken(taken=takes_webhooks()),
        }

    async def begin(self) -> None:
        """Find out whether builds and git can be confined here, and log the missing protections."""
        self._missing_walls = await missing_walls()
        missing = bool(self._missing_walls)
        metrics.set_unconfined(missing=missing, allowed=self._waived.confinement)
        metrics.set_self_check("confinement", ok=not missing)
        if missing:
            log.warning(self._builds_confined()[1])
        metrics.set_authors_unchecked(unchecked=self._waived.author_checks)
        if self._waived.author_checks:
            log.warning("the authors of syncs are not checked, as --allow-unchecked-authors says")

    async def persist(self, what: str, act: Callable[[], Awaitable[T]]) -> T:
        """Retry a step that must succeed before anything can be written."""
        pause, before = 1.0, self.waits_for
        while True:
            try:
                done = await act()
            except KubeError as error:
                self.waits_for = f"cannot {what}: {error}"
                log.warning("nothing can be written yet; trying again", cannot=what, error=str(error))
            else:
                self.waits_for = before
                return done
            await asyncio.sleep(pause)
            pause = min(MAX_PAUSE, pause * 2)

    def _can_work(self) -> tuple[bool, str]:
        return not self.waits_for, self.waits_for or "nothing keeps the operator from working"

    def _has_home(self, home: Namespace | None) -> tuple[bool, str]:
        """Whether the operator's own namespace exists: its keys and its lease are in it."""
        if self.waits_for:
            return True, "not checked before the operator reconciles"
        if home is None:
            return False, f"{INSTALL}: the operator's namespace does not exist"
        if home.terminating:
            return False, f"once the operator's namespace is gone, {INSTALL}: it is being deleted"
        return True, "the operator's namespace exists"

    def _authors_checked(self) -> tuple[bool, str]:
        if self._waived.author_checks:
            return True, "authors are not checked, as --allow-unchecked-authors says"
        problems = describe_together(self._installation.policies.problems())
        return not problems, problems or "authors are checked"

    def _builds_confined(self) -> tuple[bool, str]:
        missing = ", no ".join(self._missing_walls)
        if not missing:
            return True, "builds and git are confined"
        if self._waived.confinement:
            return True, f"builds and git run unconfined, as --allow-unconfined-builds says: no {missing}"
        return False, f"builds and git are refused, because they cannot be confined here: no {missing}"


def _are_live(watches: Iterable[AnyReflector]) -> tuple[bool, str]:
    sick = [reflector.status() for reflector in watches if not reflector.healthy()]
    words = [f"{one.resource}: {one.failure or ('silent' if one.synced else 'not listed yet')}" for one in sick]
    return not sick, "; ".join(words) or "all watches are live"


def _webhooks_taken(*, taken: bool) -> tuple[bool, str]:
    return taken, "deliveries are taken" if taken else "the secrets of webhooks are being read"
