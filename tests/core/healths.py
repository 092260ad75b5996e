"""Live objects of many kinds, and how each of them is."""

from typing import Any

Json = dict[str, Any]
Row = tuple[str, Json, str, str]
"""In words, the object, its state, and how the message begins."""


def condition(kind: str, status: str = "True", reason: str = "", message: str = "") -> Json:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def live(kind: str, spec: Json | None = None, *conditions: Json, metadata: Json | None = None, **status: Any) -> Json:
    version, _, name = kind.rpartition("/")
    result: Json = {"apiVersion": version or "v1", "kind": name, "metadata": metadata or {"name": "x"}}
    if spec is not None:
        result["spec"] = spec
    if conditions:
        status["conditions"] = list(conditions)
    if status:
        result["status"] = status
    return result


DEPLOYMENT = "apps/v1/Deployment"
REPLICA_SET = "apps/v1/ReplicaSet"
STATEFUL_SET = "apps/v1/StatefulSet"
DAEMON_SET = "apps/v1/DaemonSet"
JOB = "batch/v1/Job"
CRON_JOB = "batch/v1/CronJob"
BUDGET = "policy/v1/PodDisruptionBudget"
DEFINITION = "apiextensions.k8s.io/v1/CustomResourceDefinition"
API_SERVICE = "apiregistration.k8s.io/v1/APIService"
INGRESS = "networking.k8s.io/v1/Ingress"
AUTOSCALER = "autoscaling/v2/HorizontalPodAutoscaler"
CUSTOM = "example.com/v1/Widget"

ROLLED_OUT = condition("Progressing", "True", "NewReplicaSetAvailable")
AVAILABLE = condition("Available")
THREE: Json = {"replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3}
THREE_LABELLED: Json = {"replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 3, "availableReplicas": 3}
THREE_IN_ORDER: Json = {"replicas": 3, "readyReplicas": 3, "updatedReplicas": 3}
ONE_REVISION: Json = {"currentReplicas": 3, "currentRevision": "r1", "updateRevision": "r1"}
TWO_REVISIONS: Json = {"currentReplicas": 3, "currentRevision": "r1", "updateRevision": "r2"}
ON_FOUR_NODES: Json = {
    "observedGeneration": 1,
    "desiredNumberScheduled": 4,
    "currentNumberScheduled": 4,
    "updatedNumberScheduled": 4,
    "numberAvailable": 4,
    "numberReady": 4,
}
CRASHING: Json = {"name": "app", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
PULLING: Json = {"name": "app", "state": {"waiting": {"reason": "ContainerCreating"}}}

TABLE: list[Row] = [
    # Any kind.
    ("no status", live("ConfigMap"), "Current", ""),
    ("a custom resource without a status", live(CUSTOM, {"size": 1}), "Current", ""),
    ("an empty status", {**live(CUSTOM), "status": {}}, "Current", ""),
    (
        "deleted, and held by a finalizer",
        live(CUSTOM, metadata={"deletionTimestamp": "2030-01-01T00:00:00Z", "finalizers": ["example.com/x"]}),
        "Terminating",
        "is being deleted; waits for example.com/x",
    ),
    (
        "deletion beats failure",
        live(CUSTOM, {}, condition("Stalled"), metadata={"deletionTimestamp": "2030-01-01T00:00:00Z"}),
        "Terminating",
        "is being deleted",
    ),
    (
        "a generation that is not seen yet",
        live(CUSTOM, {}, condition("Ready"), metadata={"generation": 3}, observedGeneration=2),
        "InProgress",
        "generation 3 is not seen by its controller yet, which is at 2",
    ),
    (
        "a generation that is seen",
        live(CUSTOM, {}, condition("Ready"), metadata={"generation": 3}, observedGeneration=3),
        "Current",
        "",
    ),
    (
        "an old failure of an older generation",
        live(CUSTOM, {}, condition("Stalled"), metadata={"generation": 3}, observedGeneration=2),
        "InProgress",
        "generation 3 is not seen by its controller yet, which is at 2",
    ),
    ("reconciling", live(CUSTOM, {}, condition("Reconciling", message="fetching")), "InProgress", "fetching"),
    ("no longer reconciling", live(CUSTOM, {}, condition("Reconciling", "False")), "Current", ""),
    ("stalled", live(CUSTOM, {}, condition("Stalled", reason="BadSpec")), "Failed", "BadSpec"),
    ("stalled beats reconciling", live(CUSTOM, {}, condition("Reconciling"), condition("Stalled")), "Failed", ""),
    ("ready", live(CUSTOM, {}, condition("Ready", message="all is well")), "Current", "all is well"),
    ("not ready", live(CUSTOM, {}, condition("Ready", "False", message="no disk")), "InProgress", "no disk"),
    ("ready is unknown", live(CUSTOM, {}, condition("Ready", "Unknown")), "InProgress", "is not ready"),
    (
        "ready as of an older generation",
        live(CUSTOM, {}, {**condition("Ready"), "observedGeneration": 2}, metadata={"generation": 3}),
        "InProgress",
        "Ready is of generation 2, and this is 3",
    ),
    (
        "ready as of this generation",
        live(CUSTOM, {}, {**condition("Ready"), "observedGeneration": 3}, metadata={"generation": 3}),
        "Current",
        "",
    ),
    ("suspended", live(CUSTOM, {"suspend": True}, condition("Ready", "Unknown")), "Current", "is suspended"),
    ("suspended while broken", live(CUSTOM, {"suspend": True}, condition("Ready", "False")), "InProgress", ""),
    ("other conditions", live(CUSTOM, {}, condition("Healthy", "False")), "Current", ""),
    ("conditions that are none", live(CUSTOM, {}, conditions={"Ready": "False"}), "Current", ""),
    ("a Deployment of another group", live("example.com/v1/Deployment", {"replicas": 3}), "Current", ""),
    # Deployment.
    ("a new Deployment", live(DEPLOYMENT, {"replicas": 3}), "InProgress", "0 of 3 pods are updated"),
    ("a Deployment of one by default", live(DEPLOYMENT, {}), "InProgress", "0 of 1 pods are updated"),
    (
        "a Deployment that is rolled out",
        live(DEPLOYMENT, {"replicas": 3}, ROLLED_OUT, AVAILABLE, **THREE),
        "Current",
        "3 of 3 pods are available",
    ),
    (
        "a Deployment without a deadline has no Progressing condition",
        live(DEPLOYMENT, {"replicas": 3}, AVAILABLE, **THREE),
        "Current",
        "3 of 3 pods are available",
    ),
    (
        "a Deployment scaled to zero",
        live(DEPLOYMENT, {"replicas": 0}, ROLLED_OUT, AVAILABLE, observedGeneration=1),
        "Current",
        "0 of 0 pods are available",
    ),
    (
        "a Deployment past its deadline",
        live(
            DEPLOYMENT,
            {"replicas": 3},
            condition("Progressing", "False", "ProgressDeadlineExceeded", "has timed out progressing"),
            **{**THREE, "readyReplicas": 2, "availableReplicas": 2},
        ),
        "Failed",
        "has timed out progressing",
    ),
    (
        "a Deployment with pods of the old template",
        live(DEPLOYMENT, {"replicas": 3}, AVAILABLE, **{**THREE, "updatedReplicas": 2}),
        "InProgress",
        "2 of 3 pods are updated",
    ),
    (
        "a Deployment with a pod too many",
        live(DEPLOYMENT, {"replicas": 3}, ROLLED_OUT, AVAILABLE, **{**THREE, "replicas": 4}),
        "InProgress",
        "1 old pods are being removed",
    ),
    (
        "a Deployment with pods that are not available",
        live(DEPLOYMENT, {"replicas": 3}, ROLLED_OUT, AVAILABLE, **{**THREE, "availableReplicas": 1}),
        "InProgress",
        "1 of 3 pods are available",
    ),
    (
        "a Deployment with pods that are not ready",
        live(DEPLOYMENT, {"replicas": 3}, ROLLED_OUT, AVAILABLE, **{**THREE, "readyReplicas": 1}),
        "InProgress",
        "1 of 3 pods are ready",
    ),
    (
        "a Deployment whose pods a quota forbids",
        live(DEPLOYMENT, {"replicas": 3}, condition("ReplicaFailure", message="exceeded quota"), replicas=0),
        "InProgress",
        "0 of 3 pods are updated: exceeded quota",
    ),
    (
        "a Deployment whose new ReplicaSet is not complete",
        live(DEPLOYMENT, {"replicas": 3}, condition("Progressing", "True", "ReplicaSetUpdated"), AVAILABLE, **THREE),
        "InProgress",
        "ReplicaSetUpdated",
    ),
    (
        "a Deployment below its availability",
        live(DEPLOYMENT, {"replicas": 3}, ROLLED_OUT, condition("Available", "False"), **THREE),
        "InProgress",
        "is not available yet",
    ),
    (
        "a paused Deployment",
        live(DEPLOYMENT, {"replicas": 3, "paused": True}, condition("Progressing", "Unknown", "DeploymentPaused")),
        "Current",
        "is paused: changes of its template are not rolled out",
    ),
    # ReplicaSet.
    ("a new ReplicaSet", live(REPLICA_SET, {"replicas": 3}), "InProgress", "0 of 3 pods are labelled"),
    ("a full ReplicaSet", live(REPLICA_SET, {"replicas": 3}, **THREE_LABELLED), "Current", "3 of 3 pods are available"),
    (
        "a ReplicaSet that cannot make pods",
        live(REPLICA_SET, {"replicas": 3}, condition("ReplicaFailure", message="exceeded quota")),
        "InProgress",
        "exceeded quota",
    ),
    (
        "a ReplicaSet with pods that are not available",
        live(REPLICA_SET, {"replicas": 3}, **{**THREE_LABELLED, "availableReplicas": 2}),
        "InProgress",
        "2 of 3 pods are available",
    ),
    (
        "a ReplicaSet with pods that are not ready",
        live(REPLICA_SET, {"replicas": 3}, **{**THREE_LABELLED, "readyReplicas": 2}),
        "InProgress",
        "2 of 3 pods are ready",
    ),
    (
        "a ReplicaSet with pods too many",
        live(REPLICA_SET, {"replicas": 2}, **THREE_LABELLED),
        "InProgress",
        "1 pods too many are being removed",
    ),
    # StatefulSet.
    ("a new StatefulSet", live(STATEFUL_SET, {"replicas": 3}), "InProgress", "0 of 3 pods are made"),
    (
        "a StatefulSet with pods that are not ready",
        live(STATEFUL_SET, {"replicas": 3}, replicas=3, readyReplicas=1),
        "InProgress",
        "1 of 3 pods are ready",
    ),
    (
        "a StatefulSet with a pod too many",
        live(STATEFUL_SET, {"replicas": 2}, **THREE_IN_ORDER),
        "InProgress",
        "1 pods too many are being removed",
    ),
    (
        "a StatefulSet that is rolled out",
        live(STATEFUL_SET, {"replicas": 3}, **THREE_IN_ORDER, **ONE_REVISION),
        "Current",
        "3 of 3 pods are ready",
    ),
    (
        "a StatefulSet in the middle of an update",
        live(STATEFUL_SET, {"replicas": 3}, **{**THREE_IN_ORDER, "updatedReplicas": 1}, **TWO_REVISIONS),
        "InProgress",
        "1 of 3 pods are updated",
    ),
    (
        "a StatefulSet whose update stops at its partition",
        live(
            STATEFUL_SET,
            {"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 2}}},
            **{**THREE_IN_ORDER, "updatedReplicas": 1},
            **TWO_REVISIONS,
        ),
        "Current",
        "1 pods are updated, all but those below partition 2",
    ),
    (
        "a StatefulSet that has not reached its partition",
        live(
            STATEFUL_SET,
            {"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 1}}},
            **{**THREE_IN_ORDER, "updatedReplicas": 1},
            **TWO_REVISIONS,
        ),
        "InProgress",
        "1 of 2 pods are updated",
    ),
    (
        "a StatefulSet with the partition that the server fills in",
        live(
            STATEFUL_SET,
            {"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 0}}},
            **{**THREE_IN_ORDER, "updatedReplicas": 0},
            **TWO_REVISIONS,
        ),
        "InProgress",
        "0 of 3 pods are updated",
    ),
    (
        "a StatefulSet that updates on deletion",
        live(STATEFUL_SET, {"replicas": 3, "updateStrategy": {"type": "OnDelete"}}),
        "Current",
        "updates its pods when they are deleted (OnDelete)",
    ),
    # DaemonSet.
    ("a new DaemonSet", live(DAEMON_SET, {}), "InProgress", "its controller has not observed it yet"),
    ("a DaemonSet everywhere", live(DAEMON_SET, {}, **ON_FOUR_NODES), "Current", "4 of 4 pods are available"),
    (
        "a DaemonSet that no node wants",
        live(DAEMON_SET, {}, observedGeneration=1, desiredNumberScheduled=0),
        "Current",
        "0 of 0 pods are available",
    ),
    *[
        (
            f"a DaemonSet of which one pod is not {word}",
            live(DAEMON_SET, {}, **{**ON_FOUR_NODES, name: 3}),
            "InProgress",
            f"3 of 4 pods are {word}",
        )
        for name, word in (
            ("currentNumberScheduled", "scheduled"),
            ("updatedNumberScheduled", "updated"),
            ("numberAvailable", "available"),
            ("numberReady", "ready"),
        )
    ],
    (
        "a DaemonSet that updates on deletion",
        live(DAEMON_SET, {"updateStrategy": {"type": "OnDelete"}}, **{**ON_FOUR_NODES, "updatedNumberScheduled": 0}),
        "Current",
        "4 of 4 pods are available",
    ),
    # Pod.
    ("a new Pod", live("Pod", {}), "InProgress", "starts"),
    ("a Pod that starts", live("Pod", {}, phase="Pending", containerStatuses=[PULLING]), "InProgress", "starts"),
    (
        "a Pod that no node takes",
        live("Pod", {}, condition("PodScheduled", "False", "Unschedulable", "0/3 nodes"), phase="Pending"),
        "InProgress",
        "0/3 nodes",
    ),
    ("a Pod that is ready", live("Pod", {}, condition("Ready"), phase="Running"), "Current", "is ready"),
    (
        "a Pod that runs and is not ready",
        live("Pod", {}, condition("Ready", "False", message="unready: [app]"), phase="Running"),
        "InProgress",
        "unready: [app]",
    ),
    (
        "a Pod that crashes",
        live("Pod", {}, condition("Ready", "False"), phase="Running", containerStatuses=[CRASHING]),
        "Failed",
        "crashes again and again: app",
    ),
    (
        "a Pod that crashes before it starts",
        live("Pod", {}, phase="Pending", initContainerStatuses=[CRASHING]),
        "Failed",
        "crashes again and again: app",
    ),
    ("a Pod that has ended", live("Pod", {}, phase="Succeeded"), "Current", "has ended well"),
    ("a Pod that has failed", live("Pod", {}, phase="Failed", reason="Evicted"), "Failed", "Evicted"),
    # Job and CronJob.
    ("a new Job", live(JOB, {}), "InProgress", "has not started yet"),
    (
        "a Job that runs",
        live(JOB, {}, startTime="2030-01-01T00:00:00Z", active=1, succeeded=2, failed=1),
        "InProgress",
        "1 pods run, 2 have ended well, 1 have failed",
    ),
    (
        "a complete Job",
        live(JOB, {}, condition("Complete"), succeeded=1),
        "Current",
        "is complete: 1 pods have ended well",
    ),
    (
        "a failed Job",
        live(JOB, {}, condition("Failed", reason="BackoffLimitExceeded"), startTime="2030-01-01T00:00:00Z"),
        "Failed",
        "BackoffLimitExceeded",
    ),
    ("a suspended Job", live(JOB, {"suspend": True}, condition("Suspended")), "Current", "is suspended"),
    ("a CronJob", live(CRON_JOB, {"schedule": "@daily"}), "Current", "is scheduled"),
    ("a suspended CronJob", live(CRON_JOB, {"suspend": True}), "Current", "is suspended"),
    # Storage.
    ("a bound claim", live("PersistentVolumeClaim", {}, phase="Bound"), "Current", "is bound"),
    ("a lost claim", live("PersistentVolumeClaim", {}, phase="Lost"), "Failed", "its volume is lost"),
    (
        "a pending claim",
        live("PersistentVolumeClaim", {}, phase="Pending"),
        "InProgress",
        "is not bound to a volume; some storage classes wait for the first pod that uses it",
    ),
    # Network.
    ("a Service in the cluster", live("Service", {"type": "ClusterIP"}), "Current", ""),
    (
        "a load balancer that nobody has seen",
        live("Service", {"type": "LoadBalancer"}),
        "InProgress",
        "has no address in the cluster yet",
    ),
    (
        "a load balancer without an address",
        live("Service", {"type": "LoadBalancer", "clusterIP": "10.0.0.1"}, loadBalancer={}),
        "InProgress",
        "its load balancer has no address yet",
    ),
    (
        "a load balancer with an address",
        live("Service", {"type": "LoadBalancer", "clusterIP": "10.0.0.1"}, loadBalancer={"ingress": [{"ip": "x"}]}),
        "Current",
        "has an address",
    ),
    (
        "a load balancer with an address of its own",
        live("Service", {"type": "LoadBalancer", "clusterIP": "10.0.0.1", "externalIPs": ["192.0.2.1"]}),
        "Current",
        "has an address",
    ),
    (
        "an Ingress without an address",
        live(INGRESS, {}, loadBalancer={}),
        "Current",
        "has no address yet, or its controller reports none",
    ),
    ("an Ingress with one", live(INGRESS, {}, loadBalancer={"ingress": [{"ip": "x"}]}), "Current", "has an address"),
    # Autoscaling and budgets.
    ("an autoscaler without a status", live(AUTOSCALER, {}), "Current", ""),
    (
        "an autoscaler that works",
        live(AUTOSCALER, {}, condition("AbleToScale"), condition("ScalingActive")),
        "Current",
        "",
    ),
    (
        "an autoscaler without a target",
        live(AUTOSCALER, {}, condition("AbleToScale", "False", "FailedGetScale", "not found")),
        "InProgress",
        "not found",
    ),
    (
        "an autoscaler without metrics",
        live(AUTOSCALER, {}, condition("AbleToScale"), condition("ScalingActive", "False", "FailedGetResourceMetric")),
        "InProgress",
        "FailedGetResourceMetric",
    ),
    (
        "an autoscaler whose target is at zero",
        live(AUTOSCALER, {}, condition("AbleToScale"), condition("ScalingActive", "False", "ScalingDisabled")),
        "Current",
        "rests, since its target is scaled to zero",
    ),
    ("a new budget", live(BUDGET, {}), "InProgress", "its controller has not observed it yet"),
    (
        "a budget that is met",
        live(BUDGET, {}, currentHealthy=3, desiredHealthy=2, disruptionsAllowed=1),
        "Current",
        "1 disruptions are allowed",
    ),
    (
        "a budget that is not met",
        live(BUDGET, {}, currentHealthy=1, desiredHealthy=2),
        "InProgress",
        "1 of 2 pods are healthy",
    ),
    # The API itself.
    ("a namespace", live("Namespace", {}, phase="Active"), "Current", "is active"),
    ("a namespace that goes", live("Namespace", {}, phase="Terminating"), "Terminating", "is being deleted"),
    ("a new definition", live(DEFINITION, {}), "InProgress", "is not established yet"),
    (
        "a definition that is being installed",
        live(DEFINITION, {}, condition("NamesAccepted"), condition("Established", "False", "Installing")),
        "InProgress",
        "is not established yet",
    ),
    (
        "a definition that is established",
        live(DEFINITION, {}, condition("NamesAccepted"), condition("Established")),
        "Current",
        "is established",
    ),
    (
        "a definition whose names are taken",
        live(DEFINITION, {}, condition("NamesAccepted", "False", "Conflict"), condition("Established", "False")),
        "Failed",
        "Conflict",
    ),
    (
        "a definition that cannot be established",
        live(DEFINITION, {}, condition("NamesAccepted"), condition("Established", "False", "NotAccepted")),
        "Failed",
        "NotAccepted",
    ),
    ("a new API", live(API_SERVICE, {}), "InProgress", "is not available yet"),
    ("an API that answers", live(API_SERVICE, {}, condition("Available")), "Current", "is available"),
    (
        "an API that does not answer",
        live(API_SERVICE, {}, condition("Available", "False", "MissingEndpoints", "no endpoints")),
        "InProgress",
        "no endpoints",
    ),
    # What cannot be read.
    ("a status that is text", {**live(CUSTOM), "status": "fine"}, "Unknown", "cannot be told: status"),
    ("a count that is text", live(DEPLOYMENT, {"replicas": "3"}), "Unknown", "cannot be told: replicas"),
    (
        "addresses that are a map",
        live(INGRESS, {}, loadBalancer={"ingress": {}}),
        "Unknown",
        "cannot be told: ingress",
    ),
]
