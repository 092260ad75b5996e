"""The shapes of Kubernetes' own kinds, as the real API server publishes them."""

import json
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from syncline.core.fields import WHOLE_MAPS
from syncline.core.object_shapes import BUILT_IN, Shape, shape_from_schema, shape_of_kind
from syncline.kube import Client, load_kubeconfig
from syncline.kube.openapi import OpenAPI
from syncline.sandbox import Sandbox

KINDS = {
    "ConfigMap": ("v1", "io.k8s.api.core.v1.ConfigMap"),
    "Endpoints": ("v1", "io.k8s.api.core.v1.Endpoints"),
    "LimitRange": ("v1", "io.k8s.api.core.v1.LimitRange"),
    "PersistentVolume": ("v1", "io.k8s.api.core.v1.PersistentVolume"),
    "PersistentVolumeClaim": ("v1", "io.k8s.api.core.v1.PersistentVolumeClaim"),
    "Pod": ("v1", "io.k8s.api.core.v1.Pod"),
    "ReplicationController": ("v1", "io.k8s.api.core.v1.ReplicationController"),
    "ResourceQuota": ("v1", "io.k8s.api.core.v1.ResourceQuota"),
    "Secret": ("v1", "io.k8s.api.core.v1.Secret"),
    "Service": ("v1", "io.k8s.api.core.v1.Service"),
    "ServiceAccount": ("v1", "io.k8s.api.core.v1.ServiceAccount"),
    "DaemonSet.apps": ("apps/v1", "io.k8s.api.apps.v1.DaemonSet"),
    "Deployment.apps": ("apps/v1", "io.k8s.api.apps.v1.Deployment"),
    "ReplicaSet.apps": ("apps/v1", "io.k8s.api.apps.v1.ReplicaSet"),
    "StatefulSet.apps": ("apps/v1", "io.k8s.api.apps.v1.StatefulSet"),
    "CronJob.batch": ("batch/v1", "io.k8s.api.batch.v1.CronJob"),
    "Job.batch": ("batch/v1", "io.k8s.api.batch.v1.Job"),
    "HorizontalPodAutoscaler.autoscaling": ("autoscaling/v2", "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler"),
    "Ingress.networking.k8s.io": ("networking.k8s.io/v1", "io.k8s.api.networking.v1.Ingress"),
    "NetworkPolicy.networking.k8s.io": ("networking.k8s.io/v1", "io.k8s.api.networking.v1.NetworkPolicy"),
    "PodDisruptionBudget.policy": ("policy/v1", "io.k8s.api.policy.v1.PodDisruptionBudget"),
    "Role.rbac.authorization.k8s.io": ("rbac.authorization.k8s.io/v1", "io.k8s.api.rbac.v1.Role"),
    "RoleBinding.rbac.authorization.k8s.io": ("rbac.authorization.k8s.io/v1", "io.k8s.api.rbac.v1.RoleBinding"),
}


# In the metadata of a template they mean nothing.
_NEVER_SENT = ("/metadata/finalizers", "/metadata/ownerReferences")
# Published as a map whose fields could be merged; but half a reference is none.
_ONE_VALUE_HERE = ("/spec/scaleTargetRef",)


def facts(published: Shape, ours: Shape, path: str, depth: int = 0) -> Iterator[tuple[str, object, object]]:
    """Yield where the two say something else of what may be merged; within one value there is nothing to merge."""
    if path.endswith(_NEVER_SENT) or path.endswith(_ONE_VALUE_HERE):
        return
    if (published.keys, published.form, published.defaults) != (ours.keys, ours.form, ours.defaults):
        yield path, (published.keys, published.form, published.defaults), (ours.keys, ours.form, ours.defaults)
        return
    if published.form == "Atomic" or depth > 20:
        return
    if published.items is not None and published.keys:
        yield from facts(published.items, ours.item(), f"{path}/*", depth + 1)
    if published.others is not None:
        yield from facts(published.others, ours.field("any-name"), f"{path}/*", depth + 1)
    for name, below in published.fields.items():
        if not (depth == 0 and name in ("apiVersion", "kind", "metadata", "status")) and name not in published.keys:
            is_map = bool(below.fields or below.others is not None or below.form == "Atomic")
            # A name that is a map elsewhere and a list or a single value here.
            found = BUILT_IN if name in WHOLE_MAPS and not is_map and name not in ours.fields else ours.field(name)
            yield from facts(below, found, f"{path}/{name}", depth + 1)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_table_is_what_the_server_publishes(sandbox: Sandbox, kind: str) -> None:
    api_version, definition = KINDS[kind]
    async with Client(load_kubeconfig(sandbox.kubeconfig)) as client:
        document = (await OpenAPI(client).documents([api_version]))[api_version]
    schemas: dict[str, Any] = json.loads(zlib.decompress(document.packed))["schemas"]
    published = shape_from_schema(schemas[definition], schemas.get, built_in=True)
    assert [*facts(published, shape_of_kind(kind), kind)] == []
