"""Observes the gateways of a sync: their pods, their newest plans, and the reports of their agents."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from syncline.controllers.errors import SyncError
from syncline.controllers.gateways.composition import PlanComposer, PlanSummary
from syncline.controllers.gateways.plans import GatewaySync, plan_inputs
from syncline.controllers.gateways.pods import GatewayPod
from syncline.controllers.gateways.reports import GatewayReports, StoredReport
from syncline.core.gateway_serving import Serving
from syncline.core.gateway_status import SILENT_AFTER, GatewayObservation
from syncline.git import CommitTree

_TIME = "%Y-%m-%dT%H:%M:%SZ"

TreeReader = Callable[[Serving], Awaitable[CommitTree]]
"""Returns the tree of a served commit. Raises `SyncError`."""


class ObservedFleet(Struct, frozen=True):
    """The gateways of a sync at one time."""

    gateways: tuple[GatewayObservation, ...]
    silence_in: float | None = None
    """The seconds after which the next agent counts as silent."""


class GatewayObserver:
    """Observes gateways, and composes the plans that are not cached yet."""

    def __init__(self, reports: GatewayReports, composer: PlanComposer, ca: Callable[[], str]) -> None:
        self._reports = reports
        self._composer = composer
        self._ca = ca

    async def observe(
        self,
        sync: GatewaySync,
        pods: Sequence[GatewayPod],
        serve: Callable[[str], Serving],
        read_tree: TreeReader,
        now: float,
    ) -> ObservedFleet:
        """Return the observed state of these pods; `serve` returns the decision for a pod."""
        found = [await self._observe(sync, pod, serve(pod.facts.pod), read_tree, now) for pod in pods]
        return ObservedFleet(tuple(one for one, _ in found), min(_times(found), default=None))

    async def _observe(
        self, sync: GatewaySync, pod: GatewayPod, served: Serving, read_tree: TreeReader, now: float
    ) -> tuple[GatewayObservation, float | None]:
        summary = await self._summary(sync, pod, served, read_tree)
        stored = self._reports.of(pod, sync.metadata.uid)
        left = _until_silent(stored, now)
        facts = pod.facts
        observation = GatewayObservation(
            name=facts.name,
            pod=facts.pod,
            namespace=facts.namespace,
            labels=facts.labels,
            service_account=pod.service_account,
            service_path=facts.service_path,
            profile=summary.profile,
            running=pod.running,
            has_agent=pod.has_agent,
            wants_agent=pod.wants_agent,
            commit=served.commit,
            plan=summary.id,
            reason=_reason(served, summary),
            message=summary.message,
            omitted=summary.omitted,
            report=stored.report if stored is not None else None,
            silent=left is not None and left <= 0,
            dry_run=summary.dry_run,
            has_branch=summary.has_branch,
        )
        return observation, left if left is not None and left > 0 else None

    async def _summary(self, sync: GatewaySync, pod: GatewayPod, served: Serving, read_tree: TreeReader) -> PlanSummary:
        """Return the summary of the newest plan of a pod. The plan is composed if no summary is cached."""
        inputs = plan_inputs(sync, pod, served, self._ca())
        if (known := self._composer.known(inputs)) is not None:
            return known
        tree = None
        if served.action == "Publish":
            try:
                tree = await read_tree(served)
            except SyncError as error:  # not cached, because it may be temporary
                return PlanSummary(id="", action="Hold", message=error.message, reason=error.reason)
        return (await self._composer.compose(inputs, sync.spec, tree)).summary


def _reason(served: Serving, summary: PlanSummary) -> str:
    waits = served.action == "Hold" and summary.reason == "Held"
    return "WaitingForStage" if waits else summary.reason


def _until_silent(stored: StoredReport | None, now: float) -> float | None:
    """Return the seconds until an agent counts as silent; None if it has never reported."""
    if stored is None:
        return None
    try:
        heard = datetime.strptime(stored.time, _TIME).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0
    return heard + SILENT_AFTER - now


def _times(found: Iterable[tuple[GatewayObservation, float | None]]) -> list[float]:
    return [left for one, left in found if left is not None and one.running]
