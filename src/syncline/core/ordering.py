"""The order of writes: the objects that other objects need come first.

| Stage | Kinds |
|---|---|
| namespaces | Namespace |
| definitions | CustomResourceDefinition |
| ground | ResourceQuota, LimitRange, NetworkPolicy, ServiceAccount, and every kind that ends in Class |
| rights | Role, ClusterRole, RoleBinding, ClusterRoleBinding |
| config | ConfigMap, Secret, PersistentVolume, PersistentVolumeClaim |
| services | Service, Endpoints, EndpointSlice |
| workloads | Deployment, StatefulSet, DaemonSet, ReplicaSet, ReplicationController, Job, CronJob, Pod |
| rest | every other kind: custom resources, Ingress, autoscalers, disruption budgets |
| extensions | APIService |
| gates | webhook configurations and admission policies, since they may refuse all that comes after them |

Kinds count with their group: the `Service` of another group is a custom resource. Removal goes the other way round.
"""

from collections.abc import Iterable
from enum import IntEnum

from syncline.core.group_kind import GroupKind
from syncline.core.objects import Target


class Stage(IntEnum):
    """A group of kinds that may be written at the same time."""

    NAMESPACES = 0
    DEFINITIONS = 1
    GROUND = 2
    RIGHTS = 3
    CONFIG = 4
    SERVICES = 5
    WORKLOADS = 6
    REST = 7
    EXTENSIONS = 8
    GATES = 9


_KINDS: dict[Stage, tuple[str, ...]] = {
    Stage.NAMESPACES: ("Namespace",),
    Stage.DEFINITIONS: ("CustomResourceDefinition.apiextensions.k8s.io",),
    Stage.GROUND: ("ResourceQuota", "LimitRange", "NetworkPolicy.networking.k8s.io", "ServiceAccount"),
    Stage.RIGHTS: (
        "Role.rbac.authorization.k8s.io",
        "ClusterRole.rbac.authorization.k8s.io",
        "RoleBinding.rbac.authorization.k8s.io",
        "ClusterRoleBinding.rbac.authorization.k8s.io",
    ),
    Stage.CONFIG: ("ConfigMap", "Secret", "PersistentVolume", "PersistentVolumeClaim"),
    Stage.SERVICES: ("Service", "Endpoints", "EndpointSlice.discovery.k8s.io"),
    Stage.WORKLOADS: (
        "Deployment.apps",
        "StatefulSet.apps",
        "DaemonSet.apps",
        "ReplicaSet.apps",
        "ReplicationController",
        "Job.batch",
        "CronJob.batch",
        "Pod",
    ),
    Stage.EXTENSIONS: ("APIService.apiregistration.k8s.io",),
}
_STAGES = {kind: stage for stage, kinds in _KINDS.items() for kind in kinds}
_GATES = "admissionregistration.k8s.io"


def stage_of(kind: str) -> Stage:
    """Return the stage of a kind, written `Kind` or `Kind.group`."""
    group, name = GroupKind.parse(kind)
    if group == _GATES:
        return Stage.GATES
    if kind in _STAGES:
        return _STAGES[kind]
    return Stage.GROUND if name.endswith("Class") else Stage.REST


def stages(targets: Iterable[Target]) -> list[list[Target]]:
    """Return the targets by stage, first to last; each once, sorted within its stage, and no stage empty."""
    found: dict[Stage, list[Target]] = {}
    for target in sorted(set(targets)):
        found.setdefault(stage_of(target.kind), []).append(target)
    return [found[stage] for stage in sorted(found)]


def removal_stages(targets: Iterable[Target]) -> list[list[Target]]:
    """Return the targets in the order of their removal: objects that others need are last."""
    return stages(targets)[::-1]
