"""The fields of an IgnitionSync that the operator accepts and does not carry out. Pure."""

from collections.abc import Iterator

from syncline.api.ignition_apply import IgnitionOptions
from syncline.api.ignition_git import RefWebhook
from syncline.api.ignition_rollout import SnapshotStorage
from syncline.api.ignitionsync import IgnitionSyncSpec
from syncline.core.conditions import Finding

UNSUPPORTED = "Unsupported"


def unsupported_fields(spec: IgnitionSyncSpec) -> list[str]:
    """Return the fields of a spec that have no effect, each with the behaviour instead."""
    return [f"{field} ({instead})" for field, instead in _unsupported(spec)]


def unsupported_condition(spec: IgnitionSyncSpec) -> tuple[Finding, ...]:
    """Return the condition that names these fields; none if there are none."""
    fields = unsupported_fields(spec)
    message = f"these fields have no effect: {', '.join(fields)}"
    return (Finding(UNSUPPORTED, "True", "FieldsIgnored", message),) if fields else ()


def _unsupported(spec: IgnitionSyncSpec) -> Iterator[tuple[str, str]]:
    if spec.storage is not None:
        yield "storage", "agents get files from the operator"
    periods = {spec.sync.defaults.sync_period, *(profile.sync_period for profile in spec.sync.profiles.values())}
    if periods != {None}:
        yield "sync.syncPeriod", "agents learn of a change at once"
    if spec.webhook.port != RefWebhook().port:
        yield "webhook.port", "the flag --webhook-bind has the port"
    yield from _unsupported_of_ignition(spec.ignition)
    external = spec.shared.external_resources if spec.shared is not None else None
    if external is not None and external.create_fallback:
        yield "shared.externalResources.createFallback", "config-mode.json is not created"
    if spec.snapshots is not None and spec.snapshots.enabled:
        yield from _unsupported_storage(spec.snapshots.storage)
    if spec.apply.type == "Command":
        yield "apply.type: Command", "gateways keep their files; write Ignition, HTTP, Signal or None"


def _unsupported_storage(storage: SnapshotStorage) -> Iterator[tuple[str, str]]:
    if storage.type != "pvc":
        yield f"snapshots.storage.type: {storage.type}", "snapshots are kept as for pvc"
    elif storage.s3 is not None:
        yield "snapshots.storage.s3", "snapshots are kept in the data volume"


def _unsupported_of_ignition(ignition: IgnitionOptions) -> Iterator[tuple[str, str]]:
    if ignition.perspective_session_policy:
        yield "ignition.perspectiveSessionPolicy", "Perspective sessions are not waited for"
    if ignition.redundancy_role:
        yield "ignition.redundancyRole", "each pod is synced by itself"
    if ignition.peer_gateway_name:
        yield "ignition.peerGatewayName", "each pod is synced by itself"
