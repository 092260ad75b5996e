"""The operator as a Deployment: one replica that holds a lease, with the least a pod can be given."""

from typing import Any

from syncline.deploy.names import HEALTH_PORT, IMAGE, LABELS, METRICS_PORT, NAMESPACE, SELECTOR, SERVICE_ACCOUNT
from syncline.deploy.text import Manifest

_NOBODY = 65532


def deployment(image: str = IMAGE) -> list[Manifest]:
    """Return the Deployment of the operator, and the NetworkPolicy around it."""
    return [
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "syncline", "namespace": NAMESPACE, "labels": LABELS},
            "spec": {
                "podSelector": {"matchLabels": SELECTOR},
                "policyTypes": ["Ingress", "Egress"],
                "ingress": [{"ports": [{"protocol": "TCP", "port": port} for port in (METRICS_PORT, HEALTH_PORT)]}],
                "egress": [{}],
            },
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "syncline", "namespace": NAMESPACE, "labels": LABELS},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": SELECTOR},
                "template": {"metadata": {"labels": LABELS}, "spec": _pod(image)},
            },
        },
    ]


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
                    "--log-format",
                    "json",
                ],
                "ports": [
                    {"name": "metrics", "containerPort": METRICS_PORT},
                    {"name": "health", "containerPort": HEALTH_PORT},
                ],
                "livenessProbe": {"httpGet": {"path": "/healthz", "port": "health"}, "periodSeconds": 20},
                "readinessProbe": {"httpGet": {"path": "/readyz", "port": "health"}, "periodSeconds": 5},
                "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "384Mi"}},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
    }
