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

_NOBODY = 65532
_CACHE = "/var/cache/syncline"


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
                "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "1Gi"}},
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
            {"name": "cache", "emptyDir": {"sizeLimit": "2Gi"}},
            # In memory: decrypted files are here while a tool reads them.
            {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "128Mi"}},
        ],
    }
