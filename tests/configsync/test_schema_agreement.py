"""What a real API server accepts, validation by its schemas accepts: a refusal holds back a whole revision."""

import asyncio
import copy
import hashlib
import random
import secrets
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from tests.sampling import dice

from syncline.kube import CRDS, Client, load_kubeconfig
from syncline.kube.discovery import Discovery
from syncline.kube.errors import ApiError, KindNotServed
from syncline.kube.openapi import OpenAPI
from syncline.render.build_pool import BuildPool
from syncline.render.validation import Candidate, Schema, Validation
from syncline.sandbox import Sandbox

pytestmark = pytest.mark.asyncio(loop_scope="module")

Json = dict[str, Any]
ROUNDS = 60
LABELS = {"app": "web"}
POD: Json = {
    "metadata": {"labels": LABELS, "creationTimestamp": None},
    "spec": {
        "containers": [
            {
                "name": "web",
                "image": "example.com/web:1",
                "imagePullPolicy": "Always",
                "args": ["--quiet"],
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                ],
                "ports": [{"containerPort": 80, "name": "http", "protocol": "TCP"}],
                "resources": {"requests": {"cpu": 1, "memory": "16Mi"}, "limits": {}},
                "readinessProbe": {
                    "httpGet": {"port": "http", "path": "/", "httpHeaders": [{"name": "A", "value": "1"}]}
                },
                "securityContext": {"runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}},
                "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
            }
        ],
        "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
        ],
        "volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "config", "configMap": {"name": "config"}}],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
    },
}
WIDGETS: Json = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size", "mode", "note"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 9},
                "mode": {"type": "string", "enum": ["On", "Off"], "default": "On"},
                "note": {"type": "string", "nullable": True},
                "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
                "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "items": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
                "map": {"type": "object", "additionalProperties": {"type": "integer"}},
                "embedded": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
            },
            "oneOf": [{"required": ["name"]}, {"required": ["port"]}],
        }
    },
}
MANIFESTS: tuple[tuple[str, str, Json], ...] = (
    ("apps/v1", "Deployment", {"spec": {"replicas": 0, "selector": {"matchLabels": LABELS}, "template": POD}}),
    (
        "apps/v1",
        "StatefulSet",
        {
            "spec": {
                "replicas": 0,
                "serviceName": "web",
                "selector": {"matchLabels": LABELS},
                "template": POD,
                "volumeClaimTemplates": [
                    {
                        "metadata": {"name": "data"},
                        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                    }
                ],
            }
        },
    ),
    (
        "batch/v1",
        "CronJob",
        {
            "spec": {
                "schedule": "0 0 1 1 *",
                "suspend": True,
                "concurrencyPolicy": "Forbid",
                "jobTemplate": {"spec": {"template": {"spec": {**POD["spec"], "restartPolicy": "Never"}}}},
            }
        },
    ),
    (
        "v1",
        "Service",
        {"spec": {"selector": LABELS, "type": "ClusterIP", "ports": [{"port": 80, "targetPort": "http", "name": "a"}]}},
    ),
    (
        "networking.k8s.io/v1",
        "Ingress",
        {
            "spec": {
                "rules": [
                    {
                        "host": "web.example.com",
                        "http": {
                            "paths": [
                                {
                                    "path": "/",
                                    "pathType": "Prefix",
                                    "backend": {"service": {"name": "web", "port": {"number": 80}}},
                                }
                            ]
                        },
                    }
                ]
            }
        },
    ),
    (
        "networking.k8s.io/v1",
        "NetworkPolicy",
        {
            "spec": {
                "podSelector": {},
                "policyTypes": ["Ingress"],
                "ingress": [{"from": [{"podSelector": {}}]}],
            }
        },
    ),
    (
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        {
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "maxReplicas": 3,
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
                    }
                ],
            }
        },
    ),
    ("policy/v1", "PodDisruptionBudget", {"spec": {"minAvailable": "50%", "selector": {"matchLabels": LABELS}}}),
    ("v1", "ResourceQuota", {"spec": {"hard": {"pods": 10, "requests.cpu": "4"}}}),
    ("v1", "LimitRange", {"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}}),
    ("v1", "ServiceAccount", {"automountServiceAccountToken": False, "imagePullSecrets": [{"name": "a"}]}),
    (
        "v1",
        "PersistentVolumeClaim",
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
    ),
    ("rbac.authorization.k8s.io/v1", "Role", {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
    (
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        {
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "web"},
            "subjects": [{"kind": "ServiceAccount", "name": "web", "namespace": "default"}],
        },
    ),
    (
        "discovery.k8s.io/v1",
        "EndpointSlice",
        {"addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}], "ports": [{"name": "a", "port": 80}]},
    ),
    (
        "agreement.example.com/v1",
        "Widget",
        {
            "spec": {
                "size": 1,
                "mode": "On",
                "note": None,
                "name": "a",
                "items": [{"a": "b"}],
                "map": {"a": 1},
                "any": {"x": [1]},
                "embedded": {"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}, "z": 1},
            }
        },
    ),
)


class Judges:
    """A real server, and our validation by its schemas."""

    def __init__(self, client: Client, builder: BuildPool, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self._builder = builder
        self._discovery = Discovery(client)
        self._openapi = OpenAPI(client)

    async def server(self, api_version: str, kind: str, fields: Json) -> str:
        """Return what the server has against an object, in a strict dry run."""
        group, _, version = api_version.rpartition("/")
        resource = await self._discovery.find(group, kind, version)
        body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "web"}, **fields}
        try:
            await self.client.create(resource, body, self.namespace, dry_run=True, strict=True)
        except ApiError as error:
            return str(error)
        return ""

    async def schemas(self, objects: list[Candidate], definitions: tuple[Any, ...] = ()) -> dict[int, str]:
        """Return what validation has against objects."""
        documents = await self._openapi.documents({one.api_version for one in objects})
        work = Validation(
            tenant="",
            what="objects",
            digest=hashlib.blake2b(secrets.token_bytes(16)).digest(),
            objects=objects,
            schemas={version: Schema(one.digest, one.packed) for version, one in documents.items()},
            definitions=definitions,
        )
        return {one.index: str(one.error) for one in await self._builder.validate(work)}


def widgets() -> Json:
    names = {"kind": "Widget", "plural": "widgets", "singular": "widget"}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": WIDGETS}}]
    return {"group": "agreement.example.com", "scope": "Namespaced", "names": names, "versions": versions}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def judges(sandbox: Sandbox) -> AsyncIterator[Judges]:
    async with Client(load_kubeconfig(sandbox.kubeconfig)) as client, BuildPool() as builder:
        name = "widgets.agreement.example.com"
        await client.create(CRDS, {"metadata": {"name": name}, "spec": widgets()})
        judges = Judges(client, builder, "default")
        async with asyncio.timeout(180):
            while True:
                try:
                    await judges._discovery.find("agreement.example.com", "Widget")
                    if await OpenAPI(client).documents(["agreement.example.com/v1"]):
                        break
                except KindNotServed:
                    pass
                judges._discovery.forget()
                await asyncio.sleep(0.1)
        yield judges
        await client.delete(CRDS, name)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, one in inside:
        yield from places(one, (*path, step))


VALUES = (None, "", "1", 1, 0, -1, 1.5, True, [], {}, ["a"], {"a": "b"}, "Always", 3_000_000_000, [None], [{}])


def mutated(fields: Json, throws: random.Random) -> Json:
    """Change one or two things at random: as typos, templates and generators do."""
    result = copy.deepcopy(fields)
    for _ in range(throws.choice((1, 1, 2))):
        found = [*places(result)]
        if not found:
            return result
        *way, last = throws.choice(found)
        holder: Any = result
        for step in way:
            holder = holder[step]
        match throws.randrange(4):
            case 0:
                del holder[last]
            case 1 if isinstance(holder, dict):
                holder[f"{last}x"] = holder.pop(last)
            case 2 if isinstance(holder, dict):
                holder[throws.choice(("extra", "name", "value", "spec"))] = copy.deepcopy(throws.choice(VALUES))
            case _:
                holder[last] = copy.deepcopy(throws.choice(VALUES))
    return result


async def test_the_manifests_that_these_tests_change_are_in_order(judges: Judges) -> None:
    objects = [Candidate(*one) for one in MANIFESTS]
    assert await judges.schemas(objects) == {}
    assert {
        kind: said for version, kind, fields in MANIFESTS if (said := await judges.server(version, kind, fields))
    } == {}


@pytest.mark.parametrize("manifest", MANIFESTS, ids=[kind for _, kind, _ in MANIFESTS])
async def test_what_the_server_accepts_validation_accepts(judges: Judges, manifest: tuple[str, str, Json]) -> None:
    api_version, kind, fields = manifest
    throws = dice(kind)
    changed = [mutated(fields, throws) for _ in range(ROUNDS)]
    ours = await judges.schemas([Candidate(api_version, kind, one) for one in changed])
    theirs = await asyncio.gather(*(judges.server(api_version, kind, one) for one in changed))
    wrong = [(changed[index], said) for index, said in ours.items() if not theirs[index]]
    assert wrong == []
    if kind == "Widget":
        defined = await judges.schemas([Candidate(api_version, kind, one) for one in changed], (widgets(),))
        assert [(changed[index], said) for index, said in defined.items() if not theirs[index]] == []


async def test_every_object_of_a_real_cluster_is_in_order(judges: Judges) -> None:
    checked = 0
    for served in await judges._discovery.resources():
        if not served.keeps_objects or served.resource.kind in {"Event", "Secret", "ConfigMap"}:
            continue
        items, _ = await judges.client.list(served.resource)
        objects = [Candidate(served.resource.api_version, served.resource.kind, _fields(one)) for one in items]
        assert await judges.schemas(objects) == {}, served.resource.kind
        checked += len(objects)
    assert checked > 100


def _fields(item: Json) -> Json:
    return {name: value for name, value in item.items() if name not in {"apiVersion", "kind", "metadata", "status"}}
