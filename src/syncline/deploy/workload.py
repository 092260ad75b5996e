"""The operator as a Deployment: one replica with leader election, and the minimum of privileges for a pod.

Push webhooks have their own Service. The administrator decides how traffic from outside reaches it. Agents in the
cluster reach the depot by another.
"""

from typing import Any

from syncline.admission.server import HELD_LIMIT
from syncline.controllers.gateways.pods import GATEWAYS_BYTES
from syncline.controllers.gateways.served_files import BATCH, BATCHES
from syncline.controllers.sources.held_budget import MOST_BYTES as UPSTREAM_MEMORY
from syncline.controllers.sources.source_memory import MOST_BYTES as SOURCE_MEMORY
from syncline.core.profiles import DEFAULT, LABEL, Profile
from syncline.core.webhook_configuration import PORT, service_client, webhook_configuration
from syncline.deploy.names import (
    ADMISSION_PORT,
    DEPOT_PORT,
    HEALTH_PORT,
    IMAGE,
    LABELS,
    METRICS_PORT,
    NAMESPACE,
    SELECTOR,
    SERVICE_ACCOUNT,
    WEBHOOK_PORT,
)
from syncline.deploy.text import Manifest
from syncline.depot.server import PLAN_SLOTS
from syncline.git.limits import Limits
from syncline.kube.cache_budget import MOST_BYTES as REMOTE_CACHES
from syncline.render.build_pool import WORKERS as BUILDS
from syncline.render.tool_process import MEMORY_LIMIT as TOOL_MEMORY
from syncline.render.transform_pool import WORKERS as TRANSFORMS
from syncline.render.workers.confinement import BUILD_MEMORY, TRANSFORM_MEMORY

_NOBODY = 65532
_CACHE = "/var/cache/syncline"
_MIB = 1024 * 1024
_TMP = 128 * _MIB
_PYTHON = 48 * _MIB
"""The memory of a Python process at its start, in bytes."""
_CACHES = 256 * _MIB
"""The memory of the operator for a few thousand syncs and their objects, without data of Git servers."""

_DEPOT = BATCHES * BATCH + PLAN_SLOTS * 32 * _MIB
"""The memory for the files and the plans that agents are sent at once. A plan has at most 50,000 files."""

_GATEWAYS = 2 * GATEWAYS_BYTES
"""The memory for the pods and reports of gateways, and for a list that replaces them."""

_ADMISSION = 2 * HELD_LIMIT
"""The memory for messages of the API server about new pods, as they arrive and as they are read."""

# Twice: what is made of source and upstream objects takes as much, and so does a list that replaces a cache.
_COPIED = 2 * (SOURCE_MEMORY + UPSTREAM_MEMORY + REMOTE_CACHES)

OPERATOR_MEMORY = _CACHES + Limits().held_at_most + _COPIED + _DEPOT + _GATEWAYS + _ADMISSION
"""The memory limit of the operator itself. The processes that it starts have their own limits."""

MEMORY = (
    OPERATOR_MEMORY
    + Limits().process_memory_at_most
    + TRANSFORMS * (TRANSFORM_MEMORY + _PYTHON)
    + BUILDS * (BUILD_MEMORY + _PYTHON + TOOL_MEMORY)
    + _TMP
)
"""The memory of all components at their limits. A pod with a smaller limit can run out of memory."""

DISK = Limits().disk_at_most
"""The maximum size of the mirrors of repositories."""


_PORTS = {
    "metrics": METRICS_PORT,
    "health": HEALTH_PORT,
    "webhooks": WEBHOOK_PORT,
    "depot": DEPOT_PORT,
    "admission": ADMISSION_PORT,
}


def deployment(image: str = IMAGE, profile: Profile = DEFAULT) -> list[Manifest]:
    """Return the Deployment of the operator, the NetworkPolicy around it, and the Services of its ports."""
    return [
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "syncline", "namespace": NAMESPACE, "labels": LABELS},
            "spec": {
                "podSelector": {"matchLabels": SELECTOR},
                "policyTypes": ["Ingress", "Egress"],
                "ingress": [{"ports": [{"protocol": "TCP", "port": port} for port in _PORTS.values()]}],
                "egress": [{}],
            },
        },
        _service("webhooks", 80),
        _service("metrics", METRICS_PORT),
        _service("depot", 443),
        _service("admission", PORT),
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "syncline", "namespace": NAMESPACE, "labels": LABELS},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": SELECTOR},
                # The operator reads its profile at start, so a new profile needs a new pod.
                "template": {
                    "metadata": {"labels": LABELS, "annotations": {LABEL: profile}},
                    "spec": _pod(image),
                },
            },
        },
    ]


def injection() -> list[Manifest]:
    """Return the configuration that has the API server ask the operator about pods which want an agent.

    The operator writes its certificates and its path into it.
    """
    made = webhook_configuration(NAMESPACE, service_client(NAMESPACE))
    return [{**made, "metadata": {**made["metadata"], "labels": LABELS}}]


def _service(port: str, number: int) -> Manifest:
    """Return the Service of one port of the pod."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": f"syncline-{port}", "namespace": NAMESPACE, "labels": LABELS},
        "spec": {
            "selector": SELECTOR,
            "ports": [{"name": port, "port": number, "targetPort": port, "protocol": "TCP"}],
        },
    }


def _pod(image: str) -> dict[str, Any]:
    return {
        "serviceAccountName": SERVICE_ACCOUNT,
        "automountServiceAccountToken": True,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _NOBODY,
            "runAsGroup": _NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "syncline",
                "image": image,
                "command": ["syncline"],
                "args": [
                    "run",
                    "--leader-elect",
                    "--metrics-bind",
                    f":{METRICS_PORT}",
                    "--health-bind",
                    f":{HEALTH_PORT}",
                    "--webhook-bind",
                    f":{WEBHOOK_PORT}",
                    "--depot-bind",
                    f":{DEPOT_PORT}",
                    "--admission-bind",
                    f":{ADMISSION_PORT}",
                    "--git-cache",
                    f"{_CACHE}/git",
                    "--log-format",
                    "json",
                ],
                # Agents get the image of this pod.
                "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "ports": [{"name": name, "containerPort": port} for name, port in _PORTS.items()],
                "livenessProbe": {"httpGet": {"path": "/healthz", "port": "health"}, "periodSeconds": 20},
                "readinessProbe": {"httpGet": {"path": "/readyz", "port": "health"}, "periodSeconds": 5},
                "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": _quantity(MEMORY)}},
                # Mirrors, and the folders for builds. They are deleted with the pod.
                "volumeMounts": [{"name": "cache", "mountPath": _CACHE}, {"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
        "volumes": [
            {"name": "cache", "emptyDir": {"sizeLimit": _quantity(DISK)}},
            # In memory, because it contains decrypted files while a tool reads them.
            {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": _quantity(_TMP)}},
        ],
    }


def _quantity(size: int) -> str:
    """Return a number of bytes as a Kubernetes quantity. Large numbers are rounded up to a quarter of a GiB."""
    step = 256 if size > 1024 * _MIB else 1
    return f"{-(-size // (step * _MIB)) * step}Mi"
