"""The operator as a Deployment: one replica that holds a lease, with the least a pod can be given.

Push webhooks are taken at a Service of their own; what leads there from outside is for whoever installs it to say.
"""

from typing import Any

from syncline.core.profiles import DEFAULT, LABEL, Profile
from syncline.deploy.names import (
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
from syncline.git.limits import Limits
from syncline.render.build_pool import WORKERS as BUILDS
from syncline.render.tool_process import MEMORY_LIMIT as TOOL_MEMORY
from syncline.render.transform_pool import WORKERS as TRANSFORMS
from syncline.render.workers.confinement import BUILD_MEMORY, TRANSFORM_MEMORY

_NOBODY = 65532
_CACHE = "/var/cache/syncline"
_MIB = 1024 * 1024
_TMP = 128 * _MIB
_PYTHON = 48 * _MIB
"""What a process of Python takes before it has done anything."""
_CACHES = 256 * _MIB
"""What the operator itself takes for a few thousand syncs and their objects, without what Git servers sent."""

OPERATOR_MEMORY = _CACHES + Limits().held_at_most
"""Bytes that the operator itself may take: the processes that it starts have limits of their own."""

MEMORY = (
    OPERATOR_MEMORY
    + Limits().process_memory_at_most
    + TRANSFORMS * (TRANSFORM_MEMORY + _PYTHON)
    + BUILDS * (BUILD_MEMORY + _PYTHON + TOOL_MEMORY)
    + _TMP
)
"""Bytes that everything takes when it is at its limit at once. A pod that has less can be made to run out of it."""

DISK = Limits().disk_at_most
"""Bytes that the mirrors of repositories take at most."""


_PORTS = {"metrics": METRICS_PORT, "health": HEALTH_PORT, "webhooks": WEBHOOK_PORT}


def deployment(image: str = IMAGE, profile: Profile = DEFAULT) -> list[Manifest]:
    """Return the Deployment of the operator, the NetworkPolicy around it, and the Services for webhooks and metrics."""
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
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "syncline", "namespace": NAMESPACE, "labels": LABELS},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": SELECTOR},
                # The operator learns its profile when it starts, so that another one means another pod.
                "template": {
                    "metadata": {"labels": LABELS, "annotations": {LABEL: profile}},
                    "spec": _pod(image),
                },
            },
        },
    ]


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
                    "--git-cache",
                    f"{_CACHE}/git",
                    "--log-format",
                    "json",
                ],
                "ports": [{"name": name, "containerPort": port} for name, port in _PORTS.items()],
                "livenessProbe": {"httpGet": {"path": "/healthz", "port": "health"}, "periodSeconds": 20},
                "readinessProbe": {"httpGet": {"path": "/readyz", "port": "health"}, "periodSeconds": 5},
                "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": _quantity(MEMORY)}},
                # Mirrors and the folders that charts and kustomizations are built in; nothing in them outlives the pod.
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
            # In memory: decrypted files are here while a tool reads them.
            {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": _quantity(_TMP)}},
        ],
    }


def _quantity(size: int) -> str:
    """Return a number of bytes as Kubernetes writes it, rounded up to a quarter of a GiB where it is large."""
    step = 256 if size > 1024 * _MIB else 1
    return f"{-(-size // (step * _MIB)) * step}Mi"
