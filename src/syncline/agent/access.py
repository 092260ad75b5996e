"""The access of an agent to the depot: by the files of its pod, or with a kubeconfig outside of a pod."""

from pathlib import Path
from typing import Protocol

from syncline.agent.settings import AgentSettings

_MAX_BYTES = 256 * 1024


class AccessError(Exception):
    """The depot is not known, or there is no token. The message is one line with the remedy."""


class AgentAccess(Protocol):
    """The address of the depot, its certificates, and a token."""

    async def url(self) -> str:
        """Return the address of the depot. Raises `AccessError`."""

    async def token(self) -> str:
        """Return a current token. Raises `AccessError`."""

    async def ca(self) -> str:
        """Return the CA certificates of the depot, as PEM. Raises `AccessError`."""

    async def refresh(self) -> None:
        """Drop cached values, after the depot was unreachable or refused the token."""

    async def close(self) -> None:
        """End."""


class PodAccess:
    """The access by files that are mounted into the pod. They are read for each use, because they are rotated."""

    def __init__(self, settings: AgentSettings) -> None:
        self._settings = settings

    async def url(self) -> str:
        """Return the address of the pod spec."""
        return self._settings.depot_url

    async def token(self) -> str:
        """Read the token."""
        return _read(self._settings.token_file, "the token")

    async def ca(self) -> str:
        """Return the certificates of the pod spec, or read their file."""
        return self._settings.ca or _read(self._settings.ca_file, "the certificates of the depot")

    async def refresh(self) -> None:
        """Do nothing: files are read for each use."""

    async def close(self) -> None:
        """Do nothing."""


def _read(path: str, what: str) -> str:
    try:
        with Path(path).open("rb") as file:
            content = file.read(_MAX_BYTES).decode("ascii").strip()
    except (OSError, ValueError):
        raise AccessError(f"{what} cannot be read from {path}: check the volumes of the pod") from None
    if not content:
        raise AccessError(f"{path} is empty, and should have {what}")
    return content
