"""The kinds of Kubernetes whose resources are known without discovery."""

from syncline.core.group_kind import GroupKind

NAMESPACED = {
    "/ConfigMap": "configmaps",
    "/Secret": "secrets",
    "/Service": "services",
    "/ServiceAccount": "serviceaccounts",
    "/PersistentVolumeClaim": "persistentvolumeclaims",
    "/ResourceQuota": "resourcequotas",
    "/LimitRange": "limitranges",
    "/Pod": "pods",
    "apps/Deployment": "deployments",
    "apps/StatefulSet": "statefulsets",
    "apps/DaemonSet": "daemonsets",
    "batch/Job": "jobs",
    "batch/CronJob": "cronjobs",
    "networking.k8s.io/Ingress": "ingresses",
    "networking.k8s.io/NetworkPolicy": "networkpolicies",
    "autoscaling/HorizontalPodAutoscaler": "horizontalpodautoscalers",
    "policy/PodDisruptionBudget": "poddisruptionbudgets",
}
CLUSTER_WIDE = {
    "/Namespace": "namespaces",
    "/PersistentVolume": "persistentvolumes",
    "storage.k8s.io/StorageClass": "storageclasses",
    "scheduling.k8s.io/PriorityClass": "priorityclasses",
    "networking.k8s.io/IngressClass": "ingressclasses",
    "apiextensions.k8s.io/CustomResourceDefinition": "customresourcedefinitions",
}

KIND_NAMES = {
    (group, resource): str(GroupKind(group, kind))
    for key, resource in (NAMESPACED | CLUSTER_WIDE).items()
    for group, _, kind in (key.rpartition("/"),)
}
"""The names of kinds, such as `Deployment.apps`, by group and resource."""


def known_kind(group: str, resource: str) -> str | None:
    """Return the kind of a resource, such as `Deployment.apps`, or None if it is not known. Pure."""
    return KIND_NAMES.get((group, resource))
