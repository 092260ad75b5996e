"""The conditions of an IgnitionSync, and why it is not ready. Pure."""

from collections.abc import Iterator

from msgspec import Struct

from syncline.api.ignition_annotations import CR_NAME
from syncline.api.ignition_status import DiscoveredGateway
from syncline.api.ignitionsync import IgnitionSyncSpec
from syncline.controllers.errors import SyncError
from syncline.core.bidirectional_status import EditedGateway, bidirectional_ready
from syncline.core.conditions import Finding
from syncline.core.gateway_rollout import RolloutDecision
from syncline.core.gateway_status import (
    AGENTS_READY,
    FAILED,
    IN_PROGRESS,
    NO_GATEWAYS,
    WEBHOOK_READY,
    GatewayObservation,
    agents_ready,
    all_synced,
    describe_unsynced,
    resolution,
)
from syncline.core.gateway_target import TargetCommit
from syncline.core.gateway_unsupported import unsupported_condition

_SHORT = 12


class FleetSituation(Struct, frozen=True, kw_only=True):
    """The findings of one reconcile."""

    observed: tuple[GatewayObservation, ...]
    """The gateways of all pods that are served."""
    gateways: tuple[DiscoveredGateway, ...]
    """The running gateways."""
    decision: RolloutDecision
    target: TargetCommit
    resolution: SyncError | None
    """Why the ref could not be resolved."""
    ref: str
    commit: str
    missing_secret: SyncError | None = None
    metadata: SyncError | None = None
    """Why the metadata ConfigMap could not be written."""
    webhook: tuple[bool, bool, bool] = (False, False, False)
    """Whether webhooks are received, whether the sync takes them, and whether a secret proves them."""
    depot: bool = False
    """Whether the operator serves agents."""


def problem_of(situation: FleetSituation) -> SyncError | None:
    """Return why a sync is not ready; None if it is."""
    return next(_problems(situation), None)


def _problems(situation: FleetSituation) -> Iterator[SyncError]:
    decision, target = situation.decision, situation.target
    if situation.resolution is not None and target.rollback is None:
        yield situation.resolution
    if situation.missing_secret is not None:
        yield situation.missing_secret
    if target.problem:
        yield SyncError("NotFound", target.problem, stalled=True)
    synced = all_synced(situation.gateways)
    if synced.reason == NO_GATEWAYS:
        yield SyncError(NO_GATEWAYS, f"no pod of a gateway runs; a pod names the sync by its annotation {CR_NAME}")
    elif synced.reason == FAILED:
        why = describe_unsynced(situation.gateways)
        yield SyncError(FAILED, f"{why}; {decision.message}" if decision.held else why)
    elif synced.reason == IN_PROGRESS:
        yield SyncError(IN_PROGRESS, describe_unsynced(situation.gateways))
    if decision.held:
        yield SyncError("RolledBackOnFailure", decision.message)
    if situation.metadata is not None:
        yield situation.metadata
    if target.rollback is not None:
        message = (
            f"all gateways stay at {target.rollback.to[:_SHORT]}, as spec.rollback asks; remove it to follow the ref"
        )
        yield SyncError("RolledBack", message, status="True")


def conditions_of(spec: IgnitionSyncSpec, situation: FleetSituation) -> tuple[Finding, ...]:
    """Return the conditions that only this kind has."""
    error = situation.resolution
    if error is not None:
        resolved = resolution(error.status, error.reason, error.message)
    else:
        resolved = resolution("True", "RefResolved", f"{situation.ref} is {situation.commit[:_SHORT]}")
    findings = [
        *resolved,
        all_synced(situation.gateways),
        agents_ready(situation.observed) if situation.depot else _no_depot(),
        _webhook_ready(situation),
    ]
    edited = [
        EditedGateway(one.name, one.pod, one.report.edits if one.report is not None else None, one.has_branch)
        for one in situation.observed
        if one.running
    ]
    back = bidirectional_ready(spec, edited, followed=situation.ref, has_depot=situation.depot)
    if back is not None:
        findings.append(back)
    return (*findings, *unsupported_condition(spec))


def _no_depot() -> Finding:
    message = "the operator serves no files to agents: start it with --depot-bind"
    return Finding(AGENTS_READY, "False", "DepotDisabled", message)


def _webhook_ready(situation: FleetSituation) -> Finding:
    received, enabled, proven = situation.webhook
    if not enabled:
        return Finding(WEBHOOK_READY, "False", "WebhookDisabled", "webhook.enabled is false")
    if not received:
        message = "the operator receives no webhooks: start it with --webhook-bind"
        return Finding(WEBHOOK_READY, "False", "ReceiverDisabled", message)
    if not proven:
        message = "no secret proves webhooks for this sync: write webhook.secretRef, and its Secret"
        return Finding(WEBHOOK_READY, "False", "SecretMissing", message)
    return Finding(WEBHOOK_READY, "True", "Listening", "webhooks for this sync are received")
