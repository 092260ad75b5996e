"""One object of each of many kinds, rich enough to have lists, maps and references in it."""

from copy import deepcopy
from typing import Any

from msgspec import Struct

from syncline.kube import SERVICEACCOUNTS, Resource

GROUP = "samples.example.com"
APPS, BATCH, NETWORKING, POLICY = "apps", "batch", "networking.k8s.io", "policy"
RBAC = "rbac.authorization.k8s.io"

WIDGETS = Resource(GROUP, "v1", "widgets", "Widget")


class Sample(Struct, frozen=True):
    """What to create."""

    resource: Resource
    body: dict[str, Any]

    def object(self, name: str = "sample", **metadata: Any) -> dict[str, Any]:
        """Return the object as a user would write it."""
        return {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "metadata": {
                "name": name,
                "labels": {"team": "red", "app.kubernetes.io/name": "shop"},
                "annotations": {"example.com/note": "hello"},
                **metadata,
            },
            **deepcopy(self.body),  # samples share parts, and tests change what they get
        }


POD = {
    "metadata": {"labels": {"app": "shop"}, "annotations": {"example.com/scrape": "yes"}},
    "spec": {
        "nodeSelector": {"disk": "fast"},
        "automountServiceAccountToken": False,
        "hostNetwork": False,
        "tolerations": [],
        "initContainers": [],
        "securityContext": {"runAsNonRoot": True},
        "containers": [
            {
                "name": "app",
                "image": "registry.example/app:1",
                "command": ["run", "--fast"],
                "env": [
                    {"name": "EMPTY", "value": ""},
                    {"name": "LEVEL", "value": "info"},
                    {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "main"}}},
                ],
                "ports": [{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53}],
                "resources": {"limits": {"memory": "1024Mi"}},
                "securityContext": {"readOnlyRootFilesystem": True},
                "volumeMounts": [{"name": "scratch", "mountPath": "/scratch", "readOnly": False}],
            },
            {"name": "helper", "image": "registry.example/helper:1"},
        ],
        "volumes": [{"name": "scratch", "emptyDir": {}}, {"name": "conf", "configMap": {"name": "conf"}}],
    },
}
JOB_POD = {"metadata": POD["metadata"], "spec": {**POD["spec"], "restartPolicy": "Never"}}
SELECTOR = {"matchLabels": {"app": "shop"}}

SAMPLES = [
    Sample(
        Resource(APPS, "v1", "deployments", "Deployment"),
        {"spec": {"replicas": 2, "paused": False, "minReadySeconds": 0, "selector": SELECTOR, "template": POD}},
    ),
    Sample(
        Resource(APPS, "v1", "statefulsets", "StatefulSet"),
        {"spec": {"replicas": 1, "serviceName": "shop", "selector": SELECTOR, "template": POD}},
    ),
    Sample(
        Resource("", "v1", "services", "Service"),
        {
            "spec": {
                "type": "NodePort",
                "selector": {"app": "shop"},
                "ports": [{"name": "udp", "port": 53, "protocol": "UDP"}, {"name": "tcp", "port": 53}],
            }
        },
    ),
    Sample(
        Resource(NETWORKING, "v1", "ingresses", "Ingress"),
        {
            "spec": {
                "rules": [
                    {
                        "host": "shop.example.com",
                        "http": {
                            "paths": [
                                {
                                    "path": "/",
                                    "pathType": "Prefix",
                                    "backend": {"service": {"name": "shop", "port": {"number": 80}}},
                                }
                            ]
                        },
                    }
                ],
                "tls": [{"hosts": ["shop.example.com"], "secretName": "shop-tls"}],
            }
        },
    ),
    Sample(
        Resource(RBAC, "v1", "roles", "Role"),
        {"rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]},
    ),
    Sample(
        Resource(RBAC, "v1", "rolebindings", "RoleBinding"),
        {
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "elsewhere"}],
        },
    ),
    Sample(SERVICEACCOUNTS, {"imagePullSecrets": [{"name": "pull"}], "automountServiceAccountToken": False}),
    Sample(
        Resource(NETWORKING, "v1", "networkpolicies", "NetworkPolicy"),
        {
            "spec": {
                "podSelector": {},
                "policyTypes": ["Ingress"],
                "ingress": [{"from": [{"podSelector": SELECTOR}], "ports": [{"port": 80}]}],
            }
        },
    ),
    Sample(Resource(BATCH, "v1", "jobs", "Job"), {"spec": {"backoffLimit": 3, "suspend": True, "template": JOB_POD}}),
    Sample(
        Resource(BATCH, "v1", "cronjobs", "CronJob"),
        {"spec": {"schedule": "0 * * * *", "suspend": True, "jobTemplate": {"spec": {"template": JOB_POD}}}},
    ),
    Sample(
        Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
    ),
    Sample(
        Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
        {
            "spec": {
                "minReplicas": 1,
                "maxReplicas": 5,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"},
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
                    }
                ],
            }
        },
    ),
    Sample(
        Resource(POLICY, "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
        {"spec": {"minAvailable": 1, "selector": SELECTOR}},
    ),
    Sample(
        Resource("", "v1", "limitranges", "LimitRange"),
        {"spec": {"limits": [{"type": "Container", "default": {"cpu": "1000m"}}]}},
    ),
    Sample(
        Resource("", "v1", "resourcequotas", "ResourceQuota"),
        {"spec": {"hard": {"pods": "10", "requests.cpu": "4000m"}}},
    ),
    Sample(
        WIDGETS,
        {
            "spec": {
                "size": 3,
                "empty": {},
                "options": {"colour": "red", "shape": "round"},
                "reference": {"name": "other", "key": "main"},
                "parts": [
                    {"name": "left", "weight": 1, "screws": [{"size": 2}]},
                    {"name": "right", "kind": "Special", "weight": 2},
                ],
                "plain": [{"name": "a"}, {"name": "b"}],
                "tags": ["x", "y<z"],
                "anything": {"deep": {"list": [1, {"two": 2}]}},
            }
        },
    ),
]
BY_KIND = {sample.resource.kind: sample for sample in SAMPLES}


def _map(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


_TEXT, _NUMBER = {"type": "string"}, {"type": "integer"}
_PART = _map(
    name=_TEXT,
    kind={"type": "string", "default": "Ordinary"},
    weight=_NUMBER,
    screws={"type": "array", "items": _map(size=_NUMBER)},
)
WIDGET_CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"widgets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": _map(
                        status={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        spec=_map(
                            size=_NUMBER,
                            grade={"type": "string", "default": "good"},
                            empty={"type": "object", "additionalProperties": _TEXT},
                            options={"type": "object", "additionalProperties": _TEXT},
                            reference={**_map(name=_TEXT, key=_TEXT), "x-kubernetes-map-type": "atomic"},
                            parts={
                                "type": "array",
                                "items": {**_PART, "required": ["name"]},
                                "x-kubernetes-list-type": "map",
                                "x-kubernetes-list-map-keys": ["name", "kind"],
                            },
                            plain={"type": "array", "items": _map(name=_TEXT)},
                            tags={"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set"},
                            anything={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        ),
                    )
                },
            }
        ],
    },
}
