"""Adapters: how an application reloads its files. The rest of the agent knows no kind of application."""

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, Self

from msgspec import Struct

from syncline.core.gateway_plan import GatewayPlan

__all__ = ["Adapter", "ApplyError", "ApplySession", "Availability", "NoAdapter", "NoSession"]


class ApplyError(Exception):
    """The application does not reload files now. The reason is one word for the status."""

    def __init__(self, reason: str, message: str, *, waits: bool = False) -> None:
        """Give the cause. `waits`: there is no failure, but the files have to wait."""
        super().__init__(message)
        self.reason = reason
        self.waits = waits


class Availability(Struct, frozen=True):
    """Whether the application can reload files."""

    running: bool
    message: str = ""


class ApplySession(Protocol):
    """One publish. Its locks are released at its end, also after a failure."""

    async def acquire(self, steps: frozenset[str], paths: Iterable[str]) -> None:
        """Prepare for a change of these files. Raises `ApplyError`; then nothing must be published."""

    async def apply(self, steps: frozenset[str], plan: GatewayPlan) -> str:
        """Have the published files reloaded, and verify it. Return a summary for people. Raises `ApplyError`."""


class Adapter(Protocol):
    """An application."""

    def steps(self, paths: Iterable[str]) -> frozenset[str]:
        """Return the steps after a change of these files, as names that survive a restart. Pure."""

    async def availability(self) -> Availability:
        """Return whether the application runs. It does not raise."""

    async def check(self, steps: frozenset[str], paths: Iterable[str]) -> None:
        """Raise `ApplyError` if a publish would have to wait. Nothing is locked."""

    def session(self) -> AbstractAsyncContextManager[ApplySession]:
        """Begin a publish."""


class NoAdapter:
    """An application that notices changed files by itself."""

    def steps(self, paths: Iterable[str]) -> frozenset[str]:
        """Return nothing."""
        del paths
        return frozenset()

    async def availability(self) -> Availability:
        """Return that the application is available."""
        return Availability(running=True)

    async def check(self, steps: frozenset[str], paths: Iterable[str]) -> None:
        """Do nothing: a publish never has to wait."""
        del steps, paths

    def session(self) -> "AbstractAsyncContextManager[ApplySession]":
        """Begin a publish."""
        return NoSession()


class NoSession:
    """A publish that locks nothing."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def acquire(self, steps: frozenset[str], paths: Iterable[str]) -> None:
        """Do nothing."""
        del steps, paths

    async def apply(self, steps: frozenset[str], plan: GatewayPlan) -> str:
        """Do nothing."""
        del steps, plan
        return ""
