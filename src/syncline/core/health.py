"""The health of a live object, by the rules of kstatus.

    health_of(live).state == "Current"

What every kind has in common goes first: deletion, a generation that its controller has not seen yet, and the
conditions Stalled and Reconciling. Then come the rules of the kinds that Kubernetes brings along; any other kind is
read by its Ready condition, and one without such a condition, or without a status, is Current.

Where kstatus leaves room or people expect more, this is what holds: a Job is Current when it is complete, not when it
has started; a LoadBalancer waits for its address; an autoscaler that cannot scale and an API that is not available
are in progress; a Ready condition of an older generation does not count; what was paused or suspended on purpose is
Current, and the message says so.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from syncline.core.group_kind import GroupKind

HealthState = Literal["Current", "InProgress", "Failed", "Terminating", "Unknown"]
Live = Mapping[str, Any]
Conditions = Mapping[str, Mapping[str, Any]]

_LONGEST_MESSAGE = 300
_CRASHES = ("CrashLoopBackOff",)


class Health(Struct, frozen=True):
    """The health of one object, with the reason."""

    state: HealthState
    message: str = ""


class _ShapeError(Exception):
    """The object does not have the form of its kind. The text names the field."""


def health_of(live: Live) -> Health:
    """Return the health of a live object. Total: an invalid object is Unknown, and the message names the field."""
    try:
        rule = _RULES.get(_kind_of(live), _other)
        found = _common(live) or rule(live)
    except _ShapeError as error:
        return Health("Unknown", f"cannot be told: {error} is not what this kind has there")
    return Health(found.state, _short(found.message))


def _common(live: Live) -> Health | None:
    metadata, status = _map(live, "metadata"), _map(live, "status")
    if metadata.get("deletionTimestamp"):
        waits = ", ".join(map(str, _list(metadata, "finalizers")))
        return Health("Terminating", f"is being deleted{f'; waits for {waits}' if waits else ''}")
    seen, generation = status.get("observedGeneration"), metadata.get("generation")
    if seen is not None and generation is not None and seen != generation:
        return Health("InProgress", f"generation {generation} is not seen by its controller yet, which is at {seen}")
    conditions = _conditions(live)
    if _is(conditions, "Stalled", "True"):
        return Health("Failed", _why(conditions, "Stalled", "is stalled"))
    if _is(conditions, "Reconciling", "True"):
        return Health("InProgress", _why(conditions, "Reconciling", "is being reconciled"))
    return None


def _other(live: Live) -> Health:
    conditions = _conditions(live)
    if _spec_suspends(live) and not _is(conditions, "Ready", "False"):
        return Health("Current", "is suspended")
    seen, generation = conditions.get("Ready", {}).get("observedGeneration"), _map(live, "metadata").get("generation")
    if isinstance(seen, int) and isinstance(generation, int) and 0 < seen < generation:
        return Health("InProgress", f"Ready is of generation {seen}, and this is {generation}")
    if "Ready" in conditions and not _is(conditions, "Ready", "True"):
        return Health("InProgress", _why(conditions, "Ready", "is not ready"))
    return Health("Current", _why(conditions, "Ready", "") if "Ready" in conditions else "")


def _spec_suspends(live: Live) -> bool:
    spec = live.get("spec")
    return isinstance(spec, Mapping) and spec.get("suspend") is True


def _deployment(live: Live) -> Health:
    spec, conditions = _map(live, "spec"), _conditions(live)
    if spec.get("paused") is True:
        return Health("Current", "is paused: changes of its template are not rolled out")
    progressing = conditions.get("Progressing")
    if progressing and progressing.get("reason") == "ProgressDeadlineExceeded":
        return Health("Failed", _why(conditions, "Progressing", "made no progress within its deadline"))
    wanted = _number(spec, "replicas", 1)
    if missing := _deployed_pods(_map(live, "status"), wanted, conditions):
        return missing
    # There is no such condition if the spec has no deadline.
    if progressing and (progressing.get("status"), progressing.get("reason")) != ("True", "NewReplicaSetAvailable"):
        return Health("InProgress", _why(conditions, "Progressing", "its new pods are not complete"))
    if not _is(conditions, "Available", "True"):
        return Health("InProgress", _why(conditions, "Available", "is not available yet"))
    return Health("Current", f"{wanted} of {wanted} pods are available")


def _deployed_pods(status: Live, wanted: int, conditions: Conditions) -> Health | None:
    total, updated = _number(status, "replicas"), _number(status, "updatedReplicas")
    if updated < wanted:
        return _waiting("updated", updated, wanted, conditions)
    if total > wanted:
        return Health("InProgress", f"{total - wanted} old pods are being removed")
    for name, word in (("availableReplicas", "available"), ("readyReplicas", "ready")):
        if (count := _number(status, name)) < wanted:
            return _waiting(word, count, wanted, conditions)
    return None


def _replica_set(live: Live) -> Health:
    spec, status, conditions = _map(live, "spec"), _map(live, "status"), _conditions(live)
    wanted, total = _number(spec, "replicas", 1), _number(status, "replicas")
    if _is(conditions, "ReplicaFailure", "True"):
        return Health("InProgress", _why(conditions, "ReplicaFailure", "its pods cannot be made"))
    counts = (("fullyLabeledReplicas", "labelled"), ("availableReplicas", "available"), ("readyReplicas", "ready"))
    for name, word in counts:
        if (count := _number(status, name)) < wanted:
            return _waiting(word, count, wanted, conditions)
    if total > wanted:
        return Health("InProgress", f"{total - wanted} pods too many are being removed")
    return Health("Current", f"{wanted} of {wanted} pods are available")


def _stateful_set(live: Live) -> Health:
    spec, status = _map(live, "spec"), _map(live, "status")
    strategy = _map(spec, "updateStrategy")
    if strategy.get("type") == "OnDelete":
        return Health("Current", "updates its pods when they are deleted (OnDelete)")
    wanted, total = _number(spec, "replicas", 1), _number(status, "replicas")
    for name, word in (("replicas", "made"), ("readyReplicas", "ready")):
        if (count := _number(status, name)) < wanted:
            return _waiting(word, count, wanted)
    if total > wanted:
        return Health("InProgress", f"{total - wanted} pods too many are being removed")
    return _rollout(status, wanted, _number(_map(strategy, "rollingUpdate"), "partition"))


def _rollout(status: Live, wanted: int, partition: int) -> Health:
    updated = _number(status, "updatedReplicas")
    if partition and updated >= wanted - partition:
        return Health("Current", f"{updated} pods are updated, all but those below partition {partition}")
    if partition:
        return _waiting("updated", updated, max(0, wanted - partition))
    if status.get("currentRevision") != status.get("updateRevision"):
        return _waiting("updated", updated, wanted)
    return Health("Current", f"{wanted} of {wanted} pods are ready")


def _daemon_set(live: Live) -> Health:
    status = _map(live, "status")
    if not status.get("observedGeneration") or "desiredNumberScheduled" not in status:
        return Health("InProgress", "its controller has not observed it yet")
    wanted = _number(status, "desiredNumberScheduled")
    on_delete = _map(_map(live, "spec"), "updateStrategy").get("type") == "OnDelete"
    counts = [("currentNumberScheduled", "scheduled"), ("updatedNumberScheduled", "updated")]
    counts += [("numberAvailable", "available"), ("numberReady", "ready")]
    for name, word in counts:
        if not (on_delete and word == "updated") and (count := _number(status, name)) < wanted:
            return _waiting(word, count, wanted)
    return Health("Current", f"{wanted} of {wanted} pods are available")


def _pod(live: Live) -> Health:
    status, conditions = _map(live, "status"), _conditions(live)
    phase = status.get("phase")
    if phase == "Succeeded":
        return Health("Current", "has ended well")
    if phase == "Failed":
        return Health("Failed", str(status.get("message") or status.get("reason") or "has failed"))
    if crashing := sorted(_crashing(status)):
        return Health("Failed", f"crashes again and again: {', '.join(crashing)}")
    if phase == "Running" and _is(conditions, "Ready", "True"):
        return Health("Current", "is ready")
    if _is(conditions, "PodScheduled", "False"):
        return Health("InProgress", _why(conditions, "PodScheduled", "is not scheduled"))
    return Health("InProgress", _why(conditions, "Ready", "runs, but is not ready" if phase == "Running" else "starts"))


def _crashing(status: Live) -> Iterator[str]:
    for name in ("initContainerStatuses", "containerStatuses"):
        for container in _list(status, name):
            if isinstance(container, Mapping):
                waiting = _map(_map(container, "state"), "waiting")
                if waiting.get("reason") in _CRASHES:
                    yield str(container.get("name", "a container"))


def _job(live: Live) -> Health:
    status, conditions = _map(live, "status"), _conditions(live)
    if _is(conditions, "Failed", "True"):
        return Health("Failed", _why(conditions, "Failed", "has failed"))
    done = _number(status, "succeeded")
    if _is(conditions, "Complete", "True"):
        return Health("Current", f"is complete: {done} pods have ended well")
    if _spec_suspends(live):
        return Health("Current", "is suspended")
    if not status.get("startTime"):
        return Health("InProgress", "has not started yet")
    active, failed = _number(status, "active"), _number(status, "failed")
    return Health("InProgress", f"{active} pods run, {done} have ended well, {failed} have failed")


def _cron_job(live: Live) -> Health:
    return Health("Current", "is suspended" if _spec_suspends(live) else "is scheduled")


def _claim(live: Live) -> Health:
    phase = _map(live, "status").get("phase")
    if phase == "Bound":
        return Health("Current", "is bound")
    if phase == "Lost":
        return Health("Failed", "its volume is lost")
    return Health("InProgress", "is not bound to a volume; some storage classes wait for the first pod that uses it")


def _service(live: Live) -> Health:
    spec, status = _map(live, "spec"), _map(live, "status")
    if spec.get("type") != "LoadBalancer":
        return Health("Current")
    if not spec.get("clusterIP"):
        return Health("InProgress", "has no address in the cluster yet")
    if not _list(_map(status, "loadBalancer"), "ingress") and not _list(spec, "externalIPs"):
        return Health("InProgress", "its load balancer has no address yet")
    return Health("Current", "has an address")


def _definition(live: Live) -> Health:
    conditions = _conditions(live)
    if _is(conditions, "NamesAccepted", "False"):
        return Health("Failed", _why(conditions, "NamesAccepted", "its names are taken"))
    if _is(conditions, "Established", "True"):
        return Health("Current", "is established")
    if _is(conditions, "Established", "False") and conditions["Established"].get("reason") != "Installing":
        return Health("Failed", _why(conditions, "Established", "cannot be established"))
    return Health("InProgress", "is not established yet")


def _budget(live: Live) -> Health:
    status, conditions = _map(live, "status"), _conditions(live)
    if "desiredHealthy" not in status:
        return Health("InProgress", "its controller has not observed it yet")
    healthy, wanted = _number(status, "currentHealthy"), _number(status, "desiredHealthy")
    if healthy < wanted:
        return _waiting("healthy", healthy, wanted, conditions)
    return Health("Current", f"{_number(status, 'disruptionsAllowed')} disruptions are allowed")


def _namespace(live: Live) -> Health:
    if _map(live, "status").get("phase") == "Terminating":
        return Health("Terminating", "is being deleted")
    return Health("Current", "is active")


def _api_service(live: Live) -> Health:
    conditions = _conditions(live)
    if _is(conditions, "Available", "True"):
        return Health("Current", "is available")
    return Health("InProgress", _why(conditions, "Available", "is not available yet"))


def _ingress(live: Live) -> Health:
    # Many controllers never write an address, so a wait could last forever.
    addresses = _list(_map(_map(live, "status"), "loadBalancer"), "ingress")
    return Health("Current", "has an address" if addresses else "has no address yet, or its controller reports none")


def _autoscaler(live: Live) -> Health:
    conditions = _conditions(live)
    if _is(conditions, "AbleToScale", "False"):
        return Health("InProgress", _why(conditions, "AbleToScale", "cannot scale"))
    if _is(conditions, "ScalingActive", "False"):
        if conditions["ScalingActive"].get("reason") == "ScalingDisabled":
            return Health("Current", "rests, since its target is scaled to zero")
        return Health("InProgress", _why(conditions, "ScalingActive", "cannot tell how many replicas are needed"))
    return Health("Current")


_RULES: dict[GroupKind, Callable[[Live], Health]] = {
    GroupKind("", "Namespace"): _namespace,
    GroupKind("", "PersistentVolumeClaim"): _claim,
    GroupKind("", "Pod"): _pod,
    GroupKind("", "Service"): _service,
    GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
    GroupKind("apiregistration.k8s.io", "APIService"): _api_service,
    GroupKind("apps", "DaemonSet"): _daemon_set,
    GroupKind("apps", "Deployment"): _deployment,
    GroupKind("apps", "ReplicaSet"): _replica_set,
    GroupKind("apps", "StatefulSet"): _stateful_set,
    GroupKind("autoscaling", "HorizontalPodAutoscaler"): _autoscaler,
    GroupKind("batch", "CronJob"): _cron_job,
    GroupKind("batch", "Job"): _job,
    GroupKind("networking.k8s.io", "Ingress"): _ingress,
    GroupKind("policy", "PodDisruptionBudget"): _budget,
}


def _waiting(word: str, count: int, wanted: int, conditions: Conditions | None = None) -> Health:
    failure = _why(conditions or {}, "ReplicaFailure", "") if _is(conditions or {}, "ReplicaFailure", "True") else ""
    return Health("InProgress", f"{count} of {wanted} pods are {word}{f': {failure}' if failure else ''}")


def _kind_of(live: Live) -> GroupKind:
    return GroupKind.of(str(live.get("apiVersion") or ""), str(live.get("kind") or ""))


def _map(fields: Live, name: str) -> Live:
    found = fields.get(name)
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise _ShapeError(name)
    return found


def _list(fields: Live, name: str) -> list[Any]:
    found = fields.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise _ShapeError(name)
    return found


def _number(fields: Live, name: str, default: int = 0) -> int:
    found = fields.get(name)
    if found is None:
        return default
    if not isinstance(found, int):
        raise _ShapeError(name)
    return found


def _conditions(live: Live) -> Conditions:
    """Return the conditions by type. Invalid ones of a custom resource are left out."""
    found = _map(live, "status").get("conditions")
    if not isinstance(found, list):
        return {}
    return {str(one["type"]): one for one in found if isinstance(one, Mapping) and "type" in one}


def _is(conditions: Conditions, name: str, status: str) -> bool:
    return name in conditions and conditions[name].get("status") == status


def _why(conditions: Conditions, name: str, otherwise: str) -> str:
    condition = conditions.get(name) or {}
    return str(condition.get("message") or condition.get("reason") or otherwise)


def _short(message: str) -> str:
    """Return the message on one line, because the messages of others can be long."""
    line = " ".join(message.split())
    return line if len(line) <= _LONGEST_MESSAGE else line[: _LONGEST_MESSAGE - 3] + "..."
