"""What of an object is carried, what is not, and that the real API server takes it elsewhere."""

import asyncio
import copy
import secrets
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.samples import APPS, BATCH, BY_KIND, POD, RBAC, SAMPLES, SELECTOR, WIDGET_CRD, WIDGETS, Sample
from tests.sampling import quick

from syncline.api.common import GROUP
from syncline.api.kinds import KINDS
from syncline.core.sanitize import copied_metadata
from syncline.core.strip import NotCopyable, needs_service_account, preserve_allocated, protected, strip_cluster_fields
from syncline.kube import CRDS, NAMESPACES, SECRETS, Client, Conflict, KubeError, PatchKind, Resource, load_kubeconfig
from syncline.kube.discovery import Discovery
from syncline.sandbox import Sandbox

Json = dict[str, Any]
SERVICES, JOBS = BY_KIND["Service"].resource, BY_KIND["Job"].resource
CLAIMS = BY_KIND["PersistentVolumeClaim"].resource
PODS = Resource("", "v1", "pods", "Pod")
BALANCER = {
    "type": "LoadBalancer",
    "externalTrafficPolicy": "Local",
    "selector": {"app": "shop"},
    "ports": [{"name": "web", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}],
}
MANUAL_JOB = {"manualSelector": True, "suspend": True, "selector": SELECTOR}
MORE = [
    Sample(SERVICES, {"spec": BALANCER}),
    Sample(SERVICES, {"spec": {"clusterIP": "None", "ports": [{"port": 80}]}}),
    Sample(SERVICES, {"spec": {"type": "ExternalName", "externalName": "shop.example.com"}}),
    Sample(SERVICES, {"spec": {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"], "ports": [{"port": 80}]}}),
    Sample(JOBS, {"spec": {**MANUAL_JOB, "template": BY_KIND["Job"].body["spec"]["template"]}}),
    Sample(PODS, {"spec": {**POD["spec"], "serviceAccountName": "default"}}),
    Sample(Resource("", "v1", "configmaps", "ConfigMap"), {"data": {"a": "1"}, "immutable": True}),
    Sample(SECRETS, {"type": "Opaque", "data": {"a": "MQ=="}}),
    Sample(Resource(APPS, "v1", "daemonsets", "DaemonSet"), {"spec": {"selector": SELECTOR, "template": POD}}),
    Sample(Resource(APPS, "v1", "replicasets", "ReplicaSet"), {"spec": {"selector": SELECTOR, "template": POD}}),
    Sample(
        Resource(APPS, "v1", "statefulsets", "StatefulSet"),
        {
            "spec": {
                "serviceName": "shop",
                "selector": SELECTOR,
                "template": POD,
                "volumeClaimTemplates": [
                    {
                        "metadata": {"name": "disk"},
                        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                    }
                ],
            }
        },
    ),
]
ALL = [*SAMPLES, *MORE]


@pytest.fixture
async def client(sandbox: Sandbox) -> AsyncIterator[Client]:
    async with Client(load_kubeconfig(sandbox.kubeconfig)) as client:
        yield client


@pytest.fixture
async def places(client: Client) -> tuple[str, str]:
    """Two namespaces in which accounts exist."""
    names = tuple(f"carry-{secrets.token_hex(4)}" for _ in range(2))
    for name in names:
        await client.create(NAMESPACES, {"metadata": {"name": name}})
        await until(lambda name=name: exists(client, BY_KIND["ServiceAccount"].resource, "default", name))
    return names


async def exists(client: Client, resource: Resource, name: str, namespace: str | None = None) -> bool:
    try:
        await client.get(resource, name, namespace)
    except KubeError:
        return False
    return True


async def until(check: Callable[[], Any]) -> None:
    async with asyncio.timeout(180):
        while not await check():  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.02)


async def serve_widgets(client: Client) -> None:
    await client.patch(CRDS, WIDGET_CRD["metadata"]["name"], None, WIDGET_CRD, PatchKind.APPLY, force=True)
    discovery = Discovery(client)

    async def served() -> bool:
        discovery.forget()
        return any(one.resource == WIDGETS for one in await discovery.resources())

    await until(served)


def copy_of(source: Json, namespace: str) -> Json:
    """Return the copy as a sync would send it."""
    metadata = {
        "name": source["metadata"]["name"],
        "namespace": namespace,
        "labels": copied_metadata(source["metadata"].get("labels", {})),
        "annotations": copied_metadata(source["metadata"].get("annotations", {})),
    }
    return {**strip_cluster_fields(source), "metadata": metadata}


@pytest.mark.parametrize("sample", ALL, ids=lambda sample: sample.resource.kind)
async def test_what_is_carried_is_accepted_elsewhere_and_carried_alike_from_there(
    client: Client, places: tuple[str, str], sample: Sample
) -> None:
    if sample.resource == WIDGETS:
        await serve_widgets(client)
    here, there = places
    await client.create(sample.resource, sample.object(), here)
    source = await client.get(sample.resource, "sample", here)
    before = copy.deepcopy(source)
    sent = copy_of(source, there)
    assert source == before
    assert not {"status", "uid", "managedFields", "ownerReferences"} & {*sent, *sent["metadata"]}

    made = await client.create(sample.resource, sent, there)
    assert strip_cluster_fields(made) == strip_cluster_fields(source), "the copy is what the source is"
    assert copy_of(await client.get(sample.resource, "sample", here), there) == sent, "and stays so"

    if sample.resource == PODS:
        return  # a pod cannot be replaced

    async def replaced() -> bool:
        live = await client.get(sample.resource, "sample", there)
        metadata = {**sent["metadata"], "resourceVersion": live["metadata"]["resourceVersion"]}
        body = preserve_allocated(live, {**sent, "metadata": metadata})
        try:
            result = await client.replace(sample.resource, "sample", there, body, dry_run=True)
        except Conflict:  # controllers write too
            return False
        assert result.get("spec") == live.get("spec"), "nothing that was allocated is lost"
        assert result["metadata"].get("generation") == live["metadata"].get("generation")
        return True

    await until(replaced)


async def test_a_bound_claim_is_carried_unbound_and_replaced_bound(client: Client, places: tuple[str, str]) -> None:
    here, there = places
    await client.create(CLAIMS, BY_KIND["PersistentVolumeClaim"].object(), here)
    # As the binder does it; the sandbox has none.
    binding = {
        "metadata": {
            "annotations": {"pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/selected-node": "n"}
        },
        "spec": {"volumeName": "disk"},
    }
    await client.patch(CLAIMS, "sample", here, binding, PatchKind.MERGE)
    status = {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}}
    source = await client.patch(CLAIMS, "sample", here, status, PatchKind.MERGE, subresource="status")
    assert source["spec"]["volumeName"] == "disk"
    sent = copy_of(source, there)
    assert "volumeName" not in sent["spec"]
    assert set(sent["metadata"]["annotations"]) == {"example.com/note"}
    await client.create(CLAIMS, sent, there)

    desired = {**sent, "metadata": {"name": "sample", "namespace": here, "annotations": {"new": "1"}}}
    replaced = await client.replace(CLAIMS, "sample", here, preserve_allocated(source, desired), dry_run=True)
    assert replaced["spec"] == source["spec"]
    assert "pv.kubernetes.io/bind-completed" in replaced["metadata"]["annotations"]
    assert "example.com/note" not in replaced["metadata"]["annotations"]


async def test_a_namespace_is_carried_without_what_the_server_adds(client: Client) -> None:
    name = f"carry-{secrets.token_hex(4)}"
    made = await client.create(NAMESPACES, {"metadata": {"name": name, "labels": {"team": "red"}}})
    assert strip_cluster_fields(made) == {"apiVersion": "v1", "kind": "Namespace"}
    assert copied_metadata(made["metadata"]["labels"]) == {"team": "red"}
    desired = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": "blue"}}}
    replaced = await client.replace(NAMESPACES, name, None, preserve_allocated(made, desired), dry_run=True)
    assert replaced["spec"] == made["spec"]
    assert replaced["metadata"]["labels"] == {"team": "blue", "kubernetes.io/metadata.name": name}


async def test_a_gathered_role_is_carried_as_the_rule_that_gathers(client: Client) -> None:
    roles = Resource(RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
    admin = await client.get(roles, "admin")
    assert admin["rules"]
    assert set(strip_cluster_fields(admin)) == {"apiVersion", "kind", "aggregationRule"}
    assert preserve_allocated(admin, {**strip_cluster_fields(admin), "metadata": {}})["rules"] == admin["rules"]
    view = await client.get(roles, "system:node")
    assert strip_cluster_fields(view)["rules"] == view["rules"]


async def test_every_kind_that_is_protected_is_one_that_is_served(client: Client) -> None:
    served = {(one.resource.group, one.resource.kind): one for one in await Discovery(client).resources()}
    why = {kind: protected(*kind) for kind in served}
    refused = {kind for kind, reason in why.items() if reason}
    assert ("", "Node") in refused
    open_kinds = {kind[1] for kind, reason in why.items() if not reason and kind[0] != WIDGETS.group}
    assert open_kinds >= {sample.resource.kind for sample in SAMPLES if sample.resource != WIDGETS}
    assert open_kinds.isdisjoint({kind for _, kind in refused} - {"Event"})


def service(**spec: Any) -> Json:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "shop"}, "spec": spec}


def written(*fields: str) -> list[Json]:
    return [{"manager": "kubectl", "fieldsV1": {"f:spec": {f"f:{field}": {} for field in fields}}}]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]}, {}),
        ({"clusterIP": "None", "clusterIPs": ["None"]}, {"clusterIP": "None", "clusterIPs": ["None"]}),
        ({"ports": [{"port": 80, "nodePort": 30000}]}, {"ports": [{"port": 80}]}),
        ({"healthCheckNodePort": 30001}, {}),
        ({"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}, {}),
        ({"externalName": "x", "type": "ExternalName"}, {"externalName": "x", "type": "ExternalName"}),
        ({"loadBalancerIP": "192.0.2.1"}, {"loadBalancerIP": "192.0.2.1"}),
    ],
)
def test_a_service_leaves_its_addresses_and_ports_behind(spec: Json, expected: Json) -> None:
    assert strip_cluster_fields(service(**spec))["spec"] == expected


def test_families_that_a_user_chose_are_carried() -> None:
    chosen = service(ipFamilies=["IPv6"], ipFamilyPolicy="SingleStack")
    chosen["metadata"]["managedFields"] = written("ipFamilies", "ipFamilyPolicy")
    assert strip_cluster_fields(chosen)["spec"] == chosen["spec"]
    chosen["metadata"]["managedFields"] = written("ipFamilyPolicy")
    assert strip_cluster_fields(chosen)["spec"] == {"ipFamilyPolicy": "SingleStack"}


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "secrets": [{"name": "t"}],
                "imagePullSecrets": [{"name": "p"}],
            },
            {"imagePullSecrets": [{"name": "p"}]},
        ),
        (
            {"apiVersion": "v1", "kind": "ServiceAccount", "imagePullSecrets": [{"name": "robot-dockercfg-x"}]},
            {},
        ),
        (
            {
                "apiVersion": f"{BATCH}/v1",
                "kind": "Job",
                "spec": {"selector": {}, "template": {"metadata": {"labels": {"job-name": "x"}}}},
            },
            {"spec": {"template": {"metadata": {}}}},
        ),
        (
            {"apiVersion": f"{BATCH}/v1", "kind": "Job", "spec": {"selector": SELECTOR, "manualSelector": True}},
            {"spec": {"selector": SELECTOR, "manualSelector": True}},
        ),
        (
            {
                "apiVersion": f"{APPS}/v1",
                "kind": "Deployment",
                "spec": {"template": {"metadata": {"creationTimestamp": None}}},
            },
            {"spec": {"template": {"metadata": {}}}},
        ),
        (
            {
                "apiVersion": f"{BATCH}/v1",
                "kind": "CronJob",
                "spec": {"jobTemplate": {"metadata": {"creationTimestamp": None}}},
            },
            {"spec": {"jobTemplate": {"metadata": {}}}},
        ),
        ({"apiVersion": "v1", "kind": "PersistentVolume", "spec": {"claimRef": {"name": "x"}}}, {"spec": {}}),
        ({"apiVersion": "v1", "kind": "Namespace", "spec": {"finalizers": ["kubernetes"]}}, {}),
        (
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "RoleBinding",
                "subjects": [{"kind": "ServiceAccount", "namespace": "a"}],
            },
            {"subjects": [{"kind": "ServiceAccount", "namespace": "a"}]},
        ),
        (
            {"apiVersion": "example.com/v1", "kind": "Service", "spec": {"clusterIP": "kept"}},
            {"spec": {"clusterIP": "kept"}},
        ),
        ({"apiVersion": "example.com/v1", "kind": "Widget", "status": {"a": 1}, "extra": 1}, {"extra": 1}),
        ({"apiVersion": "v1", "kind": "Service"}, {}),
        ({"apiVersion": "v1", "kind": "Pod"}, {}),
        ({"apiVersion": f"{BATCH}/v1", "kind": "Job", "spec": None}, {"spec": None}),
    ],
)
def test_what_one_place_has_given_an_object_is_left_there(manifest: Json, expected: Json) -> None:
    named = {**manifest, "metadata": {"name": "robot", "uid": "1", "ownerReferences": [{"kind": "X", "name": "y"}]}}
    assert strip_cluster_fields(named) == {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], **expected}


def test_a_pod_leaves_its_node_and_its_token_behind() -> None:
    mount = {"name": "kube-api-access-x", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    own = {"name": "data", "mountPath": "/data"}
    spec = {
        "nodeName": "node-1",
        "priority": 0,
        "runtimeClassName": "fast",
        "overhead": {"cpu": "1"},
        "ephemeralContainers": [{"name": "debug"}],
        "containers": [{"name": "a", "volumeMounts": [mount, own]}, {"name": "b", "volumeMounts": [mount]}],
        "volumes": [{"name": "kube-api-access-x", "projected": {}}, {"name": "data", "emptyDir": {}}],
    }
    assert strip_cluster_fields({"apiVersion": "v1", "kind": "Pod", "spec": spec})["spec"] == {
        "runtimeClassName": "fast",
        "containers": [{"name": "a", "volumeMounts": [own]}, {"name": "b"}],
        "volumes": [{"name": "data", "emptyDir": {}}],
    }


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        ({"kind": "Secret", "type": "kubernetes.io/service-account-token"}, "a token of its own service account"),
        ({"kind": "Secret", "type": "helm.sh/release.v1"}, "Helm's record of a release"),
        ({"kind": "Secret", "type": "bootstrap.kubernetes.io/token"}, "joining nodes"),
    ],
)
def test_some_secrets_are_of_use_only_where_they_are(manifest: Json, why: str) -> None:
    with pytest.raises(NotCopyable, match=f"Secret 'it' is .*{why}"):
        strip_cluster_fields(
            {"apiVersion": "v1", "metadata": {"name": "it"}, "data": {"token": "Y2FuYXJ5"}, **manifest}
        )


@pytest.mark.parametrize(
    ("version", "kind", "owner"),
    [("apps/v1", "ReplicaSet", "Deployment"), ("batch/v1", "Job", "CronJob"), ("v1", "Pod", "Any")],
)
def test_what_a_controller_makes_is_not_carried_in_its_place(version: str, kind: str, owner: str) -> None:
    owners = [{"kind": owner, "name": "shop", "controller": True}]
    manifest = {"apiVersion": version, "kind": kind, "metadata": {"name": "it", "ownerReferences": owners}}
    with pytest.raises(NotCopyable, match=f"{kind} 'it' is made by {owner} 'shop': copy that instead"):
        strip_cluster_fields(manifest)
    owners[0]["controller"] = False
    assert strip_cluster_fields(manifest) == {"apiVersion": version, "kind": kind}


def test_a_secret_that_an_operator_makes_is_carried() -> None:
    owners = [{"kind": "ExternalSecret", "name": "shop", "controller": True}]
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "it", "ownerReferences": owners}, "data": {}}
    assert strip_cluster_fields(secret) == {"apiVersion": "v1", "kind": "Secret", "data": {}}


LIVE_PORTS = [{"name": "a", "port": 80, "nodePort": 30080}, {"name": "b", "port": 81, "nodePort": 30081}]


@pytest.mark.parametrize(
    ("ports", "expected"),
    [
        ([{"name": "a", "port": 80}, {"name": "b", "port": 81}], [30080, 30081]),
        ([{"name": "b", "port": 80}, {"name": "a", "port": 81}], [30081, 30080]),
        ([{"name": "x", "port": 80}], [30080]),
        ([{"name": "x", "port": 81}, {"name": "b", "port": 9}], [None, 30081]),
        ([{"name": "a", "port": 9}], [30080]),
        ([{"name": "a", "port": 80, "nodePort": 31000}], [31000]),
        ([{"name": "a", "port": 80}, {"name": "x", "port": 9, "nodePort": 30080}], [None, 30080]),
        ([{"name": "a", "port": 80, "protocol": "UDP"}], [None]),
        ([{"name": "c", "port": 7}], [None]),
    ],
)
def test_a_port_keeps_its_node_port(ports: list[Json], expected: list[int | None]) -> None:
    kept = preserve_allocated(service(type="NodePort", ports=LIVE_PORTS), service(type="NodePort", ports=ports))
    assert [port.get("nodePort") for port in kept["spec"]["ports"]] == expected


@pytest.mark.parametrize(
    ("live", "desired", "expected"),
    [
        ({"clusterIP": "1", "clusterIPs": ["1"]}, {}, {"clusterIP": "1", "clusterIPs": ["1"]}),
        ({"clusterIP": "1"}, {"clusterIP": "None"}, {"clusterIP": "None"}),
        ({"clusterIP": "None"}, {}, {}),
        ({"clusterIP": "1"}, {"type": "ExternalName"}, {"type": "ExternalName"}),
        (
            {"ports": LIVE_PORTS},
            {"type": "ClusterIP", "ports": [{"port": 80}]},
            {"type": "ClusterIP", "ports": [{"port": 80}]},
        ),
        (
            {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"]},
            {"ipFamilyPolicy": "PreferDualStack"},
            {"ipFamilyPolicy": "PreferDualStack"},
        ),
        (
            {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"]},
            {},
            {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"]},
        ),
    ],
)
def test_a_service_keeps_its_addresses_when_it_is_replaced(live: Json, desired: Json, expected: Json) -> None:
    assert preserve_allocated(service(**live), service(**desired))["spec"] == expected


def test_an_account_keeps_its_tokens_and_a_job_its_selector() -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    pulls = [{"name": "robot-dockercfg-x"}, {"name": "other"}]
    live = {**account, "secrets": [{"name": "token"}], "imagePullSecrets": pulls}
    kept = preserve_allocated(live, {**account, "imagePullSecrets": [{"name": "mine"}]})
    assert kept["secrets"] == [{"name": "token"}]
    assert kept["imagePullSecrets"] == [{"name": "mine"}, {"name": "robot-dockercfg-x"}]

    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {}}
    template = {"metadata": {"labels": {"a": "1", "job-name": "x", "gone": "1"}}}
    live = {**job, "spec": {"selector": SELECTOR, "template": template}}
    desired = {**job, "spec": {"template": {"metadata": {"labels": {"a": "2"}}}}}
    assert preserve_allocated(live, desired)["spec"] == {
        "selector": SELECTOR,
        "template": {"metadata": {"labels": {"a": "2", "job-name": "x"}}},
    }
    assert desired["spec"] == {"template": {"metadata": {"labels": {"a": "2"}}}}
    manual = {**job, "spec": {"manualSelector": True, "selector": {}}}
    assert preserve_allocated(live, manual) == manual


def test_what_controllers_noted_on_an_object_stays_with_it() -> None:
    live = {"metadata": {"annotations": {"deployment.kubernetes.io/revision": "3", "old": "1"}, "labels": {"old": "1"}}}
    desired = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"annotations": None}}
    assert preserve_allocated(live, desired)["metadata"] == {"annotations": {"deployment.kubernetes.io/revision": "3"}}


SHAPES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text("ab", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["spec", "ports", "template", "metadata", "labels", "name", "nodePort", "secrets", "type"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=10,
)
KINDS_THAT_KEEP = ["Service", "ServiceAccount", "PersistentVolumeClaim", "Namespace"]


@quick
@given(st.sampled_from(KINDS_THAT_KEEP), st.dictionaries(st.sampled_from(["spec", "secrets"]), SHAPES))
def test_a_shape_that_no_server_would_take_is_left_to_the_server(kind: str, fields: Json) -> None:
    live = service(clusterIP="1", ports=LIVE_PORTS, type="NodePort", volumeName="v", finalizers=["kubernetes"])
    desired = {"apiVersion": "v1", "kind": kind, "metadata": {}, **fields}
    assert preserve_allocated(live, desired)["kind"] == kind


@pytest.mark.parametrize(
    ("group", "kind", "part"),
    [
        ("", "Node", "machine"),
        ("", "Pod", "copy the Deployment"),
        ("", "Event", "happened"),
        ("events.k8s.io", "Event", "happened"),
        ("", "Endpoints", "controller makes it"),
        ("discovery.k8s.io", "EndpointSlice", "controller makes it"),
        ("", "PersistentVolume", "one disk"),
        ("coordination.k8s.io", "Lease", "leads"),
        ("apps", "ControllerRevision", "controller makes it"),
        ("certificates.k8s.io", "CertificateSigningRequest", "one cluster"),
        ("authentication.k8s.io", "TokenReview", "question"),
        ("authorization.k8s.io", "SubjectAccessReview", "question"),
        ("apiregistration.k8s.io", "APIService", "everybody"),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "everybody"),
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy", "everybody"),
        ("apiextensions.k8s.io", "CustomResourceDefinition", "everybody"),
        *((GROUP, kind.kind, "rights") for kind in KINDS),
    ],
)
def test_some_kinds_are_not_copied_unless_the_operator_says_so(group: str, kind: str, part: str) -> None:
    assert part in protected(group, kind)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.resource.kind)
def test_ordinary_kinds_are_copied(sample: Sample) -> None:
    assert protected(sample.resource.group, sample.resource.kind) == ""


def test_kinds_that_grant_rights_need_an_account() -> None:
    for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"):
        assert needs_service_account(RBAC, kind)
    assert not needs_service_account("", "Secret")
    assert not needs_service_account("example.com", "Role")


def test_many_pull_secrets_of_an_account_are_kept_in_little_time() -> None:
    own = [{"name": f"own-{number}"} for number in range(10_000)]
    made = [{"name": f"web-dockercfg-{number}"} for number in range(10_000)]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "web"}}
    before = time.thread_time()
    result = preserve_allocated({**account, "imagePullSecrets": made}, {**account, "imagePullSecrets": own})
    assert result["imagePullSecrets"] == [*own, *made]
    assert time.thread_time() - before < 2
