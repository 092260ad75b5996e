"""The kinds whose rights are checked separately: an admission policy cannot find the resource of a kind."""

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


def cel(kinds: dict[str, str]) -> str:
    """Return a table as CEL."""
    return "{\n" + ",\n".join(f"'{kind}': '{resource}'" for kind, resource in kinds.items()) + "\n}"
