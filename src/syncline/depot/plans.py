"""The plans of pods, which the depot serves. The operator implements `Plans`."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import NamedTuple, Protocol

from syncline.core.gateway_plan import BlobRequest, ChangeAnswer, ChangeRequest, GatewayPlan, GatewayReport
from syncline.core.pod_tokens import PodIdentity

__all__ = ["Blob", "DepotRefusal", "Plans", "PodIdentity"]


class DepotRefusal(Exception):  # noqa: N818 - an answer, not a fault
    """The answer to a refused request: an HTTP status from 400 to 599, and a message with the remedy.

    The message is sent to the pod, so it names nothing that the pod must not know.
    """

    def __init__(self, status: int, message: str, *, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after


class Blob(NamedTuple):
    """A file of a plan, as its content arrives."""

    id: str
    size: int
    """The exact number of bytes that `content` has."""
    content: AsyncIterator[bytes]


class Plans(Protocol):
    """The plans of all pods. Every method raises `DepotRefusal` if the pod belongs to no sync."""

    async def plan(self, pod: PodIdentity) -> GatewayPlan:
        """Return the newest plan of a pod. The depot calls this for a few pods at a time, because plans are large."""

    async def wait(self, pod: PodIdentity, have: str, seconds: float) -> bool:
        """Wait until the newest plan may have an id other than `have`; return False after the timeout.

        Many pods wait at the same time, so a wait composes no plan: an unknown id counts as another id.
        """

    async def blobs(self, pod: PodIdentity, request: BlobRequest) -> AsyncGenerator[Blob, None]:
        """Return the requested files, in any order, each at most once.

        Raises `DepotRefusal` before the first file: if the plan is no longer the newest (409), or if a file is not in
        it (404). The caller reads the content of a file before it takes the next file, and closes the generator.
        """

    async def report(self, pod: PodIdentity, report: GatewayReport) -> None:
        """Store the report of a pod."""

    async def changes(self, pod: PodIdentity, request: ChangeRequest, content: AsyncIterator[bytes]) -> ChangeAnswer:
        """Commit the edits of a gateway. `content` is the concatenation of its files."""
