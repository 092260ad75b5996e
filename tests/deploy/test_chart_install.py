"""The Helm chart on a real control plane: accepted, installed, upgraded, removed, and enough for the operator."""

import base64
import shutil
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.commands import run_command
from tests.deploy.chart import BARE, CHART, FULL, Values, arguments, find, helm, render
from tests.deploy.foreign_crds import crds as foreign_crds
from tests.deploy.image import oci

from syncline import __version__, deploy
from syncline.deploy.names import DIGEST_KEY, MARK_KEYS, SERVING_CA
from syncline.kube.resources import Resource
from syncline.sandbox import RequestError, Sandbox
from syncline.sandbox.pki import Authority
from syncline.testing.gitserver import GitServer
from syncline.testing.image_pod import ImagePod
from syncline.testing.operator import OperatorProcess

Eventually = Callable[[Callable[[], bool]], None]

SPACE = "sync-operator"
RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
# The kinds of the chart that `syncline manifests` does not have.
MORE = (
    Resource("networking.k8s.io", "v1", "ingresses", "Ingress"),
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
    Resource("gateway.networking.k8s.io", "v1", "httproutes", "HTTPRoute"),
    Resource("cert-manager.io", "v1", "certificates", "Certificate"),
    Resource("monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor"),
    Resource("monitoring.coreos.com", "v1", "prometheusrules", "PrometheusRule"),
)
BY_KIND = {each.kind: each for each in MORE}
# What stays when the release is removed, beside the CRDs.
STAYS = {
    ("Secret", DIGEST_KEY),
    ("Secret", MARK_KEYS),
    ("Secret", SERVING_CA),
    ("Lease", "syncline"),
    ("ClusterRole", "syncline"),
}
# Free ports of loopback, where there is no pod with an address of its own.
LOOPBACK = [f"--{name}-bind=127.0.0.1:0" for name in ("metrics", "health", "webhook", "depot", "admission")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Sandbox]:
    """A control plane where nothing but the chart installs Syncline."""
    with Sandbox.create() as running:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE, "labels": RESTRICTED}}
        running.request("POST", "/api/v1/namespaces", namespace)
        for crd in foreign_crds():
            running.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        yield running


def path_of(manifest: Mapping[str, Any]) -> str:
    resource = BY_KIND.get(manifest["kind"]) or deploy.resource(dict(manifest))
    metadata = manifest["metadata"]
    return resource.path(metadata.get("namespace"), metadata["name"])


@pytest.mark.parametrize("values", [{}, FULL, BARE], ids=["default", "full", "bare"])
def test_the_api_server_accepts_every_object_of_the_chart(
    cluster: Sandbox, eventually: Eventually, values: Values
) -> None:
    for crd in foreign_crds():
        names = crd["spec"]["names"]
        eventually(lambda group=crd["spec"]["group"], plural=names["plural"]: is_served(cluster, group, plural))
    manifests = render(values, namespace=SPACE)
    for manifest in manifests:
        path = f"{path_of(manifest)}?dryRun=All&fieldValidation=Strict&fieldManager=test&force=true"
        assert cluster.request("PATCH", path, manifest)["metadata"]["name"] == manifest["metadata"]["name"]
    pod = {"apiVersion": "v1", "kind": "Pod", **find(manifests, "Deployment")["spec"]["template"]}
    pod["metadata"] = {**pod["metadata"], "name": "tried"}
    pod["spec"] = {**pod["spec"], "serviceAccountName": "default"}
    eventually(lambda: exists(cluster, f"/api/v1/namespaces/{SPACE}/serviceaccounts/default"))
    tried = cluster.request("POST", f"/api/v1/namespaces/{SPACE}/pods?dryRun=All&fieldValidation=Strict", pod)
    assert tried["spec"]["securityContext"]["runAsNonRoot"] is True


def test_an_upgrade_turns_everything_off_and_on(cluster: Sandbox) -> None:
    release, place = ("syncline", CHART), ("--namespace", SPACE)
    helm("install", *release, *place, kubeconfig=cluster.kubeconfig)
    for values in (BARE, FULL):
        helm("upgrade", *release, *place, values=values, kubeconfig=cluster.kubeconfig)
        wanted = render(values, namespace=SPACE)
        found = cluster.request("GET", f"/apis/apps/v1/namespaces/{SPACE}/deployments/syncline")
        assert found["spec"]["strategy"] == find(wanted, "Deployment")["spec"]["strategy"]
        assert container_of(found)["args"] == arguments(wanted)
    helm("uninstall", *release[:1], *place, kubeconfig=cluster.kubeconfig)


def is_served(cluster: Sandbox, group: str, plural: str) -> bool:
    return exists(cluster, f"/apis/{group}/v1/{plural}")


def exists(cluster: Sandbox, path: str) -> bool:
    try:
        cluster.request("GET", path)
    except RequestError:
        return False
    return True


def previous_chart(folder: Path) -> Path:
    """Package a chart as an earlier version had it: a short name of a kind is missing, and a role is too wide."""
    chart = folder / "syncline"
    shutil.copytree(CHART, chart)
    crd = chart / "files/crds/configmapsyncs.yaml"
    text = crd.read_text(encoding="utf-8")
    assert "    - cms\n" in text
    crd.write_text(text.replace("    - cms\n", "    - cmsold\n"), encoding="utf-8")
    helm("package", chart, "--version", "0.0.9", "--app-version", "0.0.9", "--destination", folder)
    return folder / "syncline-0.0.9.tgz"


def left(cluster: Sandbox, namespace: str = SPACE) -> set[tuple[str, str]]:
    """Return everything in the operator's namespace, and everything of Syncline outside of it, except the CRDs."""
    found = set()
    for kind, path in lists(cluster, namespace):
        for each in cluster.request("GET", path)["items"]:
            labels = each["metadata"].get("labels") or {}
            if each["metadata"].get("namespace") or labels.get("app.kubernetes.io/part-of") == "syncline":
                found.add((kind, each["metadata"]["name"]))
    return found


def lists(cluster: Sandbox, namespace: str) -> Iterator[tuple[str, str]]:
    """Return the kinds of Kubernetes, and where the API server lists them, in this namespace or in the cluster."""
    crds = cluster.request("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
    custom = {crd["spec"]["group"] for crd in crds}
    groups = [group for group in cluster.request("GET", "/apis")["groups"] if group["name"] not in custom]
    for root in ("/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)):
        for resource in cluster.request("GET", root)["resources"]:
            if "list" in resource["verbs"] and resource["kind"] not in {"CustomResourceDefinition", "Event"}:
                within = f"/namespaces/{namespace}" if resource["namespaced"] else ""
                yield resource["kind"], f"{root}{within}/{resource['name']}"


def operator_of(cluster: Sandbox, folder: Path) -> OperatorProcess:
    """Start what a kubelet would start: the arguments of the Deployment, as its ServiceAccount."""
    pod = cluster.request("GET", f"/apis/apps/v1/namespaces/{SPACE}/deployments/syncline")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    command, *flags = container["args"]
    assert (container["command"], command) == (["syncline"], "run")
    token = cluster.service_account_token(SPACE, pod["serviceAccountName"])
    kubeconfig = cluster.kubeconfig_for(token, "chart")
    own = ["--namespace", SPACE, "--git-cache", str(folder / "git")]
    return OperatorProcess(kubeconfig, *flags, *LOOPBACK, *own)


def put(cluster: Sandbox, path: str, manifest: deploy.Manifest) -> None:
    cluster.request("PATCH", f"{path}/{manifest['metadata']['name']}?fieldManager=user&force=true", manifest)


def ready(cluster: Sandbox, path: str) -> bool:
    conditions = cluster.request("GET", path).get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def write_scene(cluster: Sandbox) -> None:
    for name in ("from", "to"):
        put(cluster, "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    put(
        cluster,
        "/api/v1/namespaces/from/configmaps",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}},
    )
    put(
        cluster,
        "/apis/syncline.dev/v1alpha1/namespaces/from/configmapsyncs",
        {
            "apiVersion": "syncline.dev/v1alpha1",
            "kind": "ConfigMapSync",
            "metadata": {"name": "settings"},
            "spec": {"sourceNamespace": "from", "configMapName": "settings", "destinationNamespaces": ["to"]},
        },
    )


def write_service(cluster: Sandbox) -> None:
    put(
        cluster,
        "/api/v1/namespaces/from/services",
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web"},
            "spec": {"ports": [{"port": 80, "protocol": "TCP"}], "selector": {"app": "web"}},
        },
    )
    put(
        cluster,
        "/apis/syncline.dev/v1alpha1/namespaces/from/manifestsyncs",
        {
            "apiVersion": "syncline.dev/v1alpha1",
            "kind": "ManifestSync",
            "metadata": {"name": "web"},
            "spec": {
                "sourceRef": {"apiVersion": "v1", "kind": "Service", "name": "web"},
                "targets": {"inCluster": {"namespaces": ["to"]}},
            },
        },
    )


SYNCS = "/apis/syncline.dev/v1alpha1/namespaces/from"


def test_a_release_is_installed_upgraded_and_removed(cluster: Sandbox, tmp_path: Path, eventually: Eventually) -> None:
    before = left(cluster)
    release = ("syncline", "--namespace", SPACE)

    notes = helm("install", *release[:1], previous_chart(tmp_path), *release[1:], kubeconfig=cluster.kubeconfig)
    assert "profile config" in notes
    # The controllers create the pod, which the restricted namespace admits. There is no kubelet to start it.
    eventually(lambda: any(kind == "Pod" for kind, _ in left(cluster)))
    eventually(lambda: ready_to_watch(cluster))
    with operator_of(cluster, tmp_path) as operator:
        write_scene(cluster)
        eventually(lambda: ready(cluster, f"{SYNCS}/configmapsyncs/settings"))
        write_service(cluster)
        eventually(lambda: reason(cluster, f"{SYNCS}/manifestsyncs/web") != "")
        assert not ready(cluster, f"{SYNCS}/manifestsyncs/web")
        assert operator.returncode is None

    values = {"rights": {"profile": "workloads"}, "webhooks": {"service": {"port": 8080}}, "replicas": 2}
    helm("upgrade", *release[:1], CHART, *release[1:], values=values, kubeconfig=cluster.kubeconfig)
    crd = cluster.request("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/configmapsyncs.syncline.dev")
    assert "cms" in crd["spec"]["names"]["shortNames"]
    eventually(lambda: ready_to_watch(cluster))
    with operator_of(cluster, tmp_path):
        eventually(lambda: ready(cluster, f"{SYNCS}/manifestsyncs/web"))
        assert ready(cluster, f"{SYNCS}/configmapsyncs/settings")

    helm("uninstall", *release, kubeconfig=cluster.kubeconfig)
    eventually(lambda: left(cluster) == before | STAYS)
    assert exists(cluster, "/api/v1/namespaces/to/configmaps/settings")
    assert exists(cluster, f"{SYNCS}/configmapsyncs/settings")

    helm("install", *release[:1], CHART, *release[1:], kubeconfig=cluster.kubeconfig)
    eventually(lambda: ready_to_watch(cluster))
    with operator_of(cluster, tmp_path):
        for kind, name in (("configmapsyncs", "settings"), ("manifestsyncs", "web")):
            cluster.request("DELETE", f"{SYNCS}/{kind}/{name}")
        eventually(lambda: not exists(cluster, f"{SYNCS}/configmapsyncs/settings"))
    helm("uninstall", *release, kubeconfig=cluster.kubeconfig)
    assert not exists(cluster, "/api/v1/namespaces/to/configmaps/settings")


def reason(cluster: Sandbox, path: str) -> str:
    conditions = cluster.request("GET", path).get("status", {}).get("conditions", [])
    return next((str(each["reason"]) for each in conditions if each["type"] == "Ready"), "")


def ready_to_watch(cluster: Sandbox) -> bool:
    """Whether the kinds are served and the control plane has aggregated the operator's role."""
    role = cluster.request("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/syncline")
    kinds = ("configmapsyncs", "configsyncs", "manifestsyncs", "tenantpolicies")
    served = all(exists(cluster, f"/apis/syncline.dev/v1alpha1/{plural}") for plural in kinds)
    return bool(role.get("rules")) and served


def test_helm_takes_over_what_the_command_has_installed(eventually: Eventually) -> None:
    with Sandbox.create() as cluster:
        ended = run_command(["install", "--kubeconfig", cluster.kubeconfig])
        assert ended.returncode == 0, ended.stderr
        release, place = ("syncline", CHART), ("--namespace", deploy.NAMESPACE)
        taken = (*release, *place, "--force-conflicts")
        helm("install", *taken, "--take-ownership", kubeconfig=cluster.kubeconfig)
        values = {"rights": {"profile": "workloads"}, "leaderElection": False, "metrics": {"enabled": False}}
        helm("upgrade", *taken, values=values, kubeconfig=cluster.kubeconfig)
        deployment = cluster.request("GET", f"/apis/apps/v1/namespaces/{deploy.NAMESPACE}/deployments/syncline")
        assert deployment["spec"]["strategy"] == {"type": "Recreate"}
        assert container_of(deployment)["args"] == arguments(render(values))
        helm("uninstall", *release[:1], *place, kubeconfig=cluster.kubeconfig)
        own = {("Namespace", deploy.NAMESPACE), *STAYS}
        eventually(lambda: {each for each in left(cluster, deploy.NAMESPACE) if "syncline" in each[1]} <= own)


def container_of(deployment: Mapping[str, Any]) -> Mapping[str, Any]:
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return dict(container)


REGISTRY = "registry.example.com/syncline"
SHOP = "/apis/syncline.dev/v1alpha1/namespaces/shop/configsyncs"
LABELS = {"app": "web"}


def application(image: str) -> dict[str, str]:
    """Return the files of a usual application."""
    container = {"name": "web", "image": image, "ports": [{"name": "http", "containerPort": 8080}]}
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [container]}}
    backend = {"service": {"name": "web", "port": {"name": "http"}}}
    rule = {"host": "web.example.com", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
    specs = (
        ("apps/v1", "Deployment", {"selector": {"matchLabels": LABELS}, "template": template}),
        ("v1", "Service", {"selector": LABELS, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]}),
        ("networking.k8s.io/v1", "Ingress", {"rules": [rule]}),
    )
    return {
        f"apps/web/{kind.lower()}.yaml": yaml.safe_dump(
            {"apiVersion": version, "kind": kind, "metadata": {"name": "web"}, "spec": spec}
        )
        for version, kind, spec in specs
    }


def write_config_sync(cluster: Sandbox, git_server: GitServer) -> None:
    """Apply what a user applies: a namespace, the CA of the Git host, and a sync."""
    head = {"apiVersion": "v1", "metadata": {"name": "shop"}}
    put(cluster, "/api/v1/namespaces", {**head, "kind": "Namespace"})
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "git-ca"}}
    put(cluster, "/api/v1/namespaces/shop/secrets", {**secret, "stringData": {"ca.crt": git_server.ca.decode()}})
    git = {"repo": git_server.url("shop"), "path": "apps/web", "caSecretRef": {"name": "git-ca"}}
    sync = {"apiVersion": "syncline.dev/v1alpha1", "kind": "ConfigSync", "metadata": {"name": "web"}}
    put(cluster, SHOP, {**sync, "spec": {"source": {"git": git}}})


def applied(cluster: Sandbox, commit: str) -> bool:
    """Whether the sync is Ready with this commit."""
    revision = cluster.request("GET", f"{SHOP}/web").get("status", {}).get("sourceRevision")
    return bool(revision == commit) and ready(cluster, f"{SHOP}/web")


def write_own_certificate(cluster: Sandbox, authority: Authority) -> None:
    """Write the Secret for the servers of the operator, as a user with a PKI of their own does."""
    certificate, key = authority.serving()
    files = {"tls.crt": certificate, "tls.key": key, "ca.crt": authority.certificate}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "own-tls"}}
    data = {"stringData": {name: content.decode() for name, content in files.items()}}
    put(cluster, f"/api/v1/namespaces/{SPACE}/secrets", {**secret, **data})


def is_trusted(address: str | None, authority: Authority) -> bool:
    """Whether a server shows a certificate of this authority."""
    assert address is not None
    host, _, port = address.rpartition(":")
    trusting = ssl.create_default_context(cadata=authority.certificate.decode())
    with socket.create_connection((host, int(port)), 10) as plain, trusting.wrap_socket(plain, server_hostname=host):
        return True


def ca_bundle(cluster: Sandbox) -> str:
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/syncline-injection"
    (webhook,) = cluster.request("GET", path)["webhooks"]
    return base64.b64decode(webhook["clientConfig"].get("caBundle", "")).decode()


@pytest.fixture
def run(cluster: Sandbox, unpacked: Path, archive: Path, tmp_path: Path) -> Callable[[], OperatorProcess]:
    """Starts what a kubelet starts: the image, with the pod spec that the API server has."""

    def start() -> OperatorProcess:
        pod = ImagePod(unpacked, oci.read_config(archive), cluster, SPACE, tmp_path)
        assert pod.container["image"] == f"{REGISTRY}:{__version__}"
        return OperatorProcess(cluster.kubeconfig, *pod.flags, secure_metrics=True, launch=pod.launch)

    return start


def test_a_new_user_installs_uses_upgrades_and_removes_what_is_shipped(
    cluster: Sandbox, run: Callable[[], OperatorProcess], git_server: GitServer, eventually: Eventually
) -> None:
    authority = Authority.create()
    write_own_certificate(cluster, authority)
    before = left(cluster)
    release, place = ("syncline", CHART), ("--namespace", SPACE)
    values = (f"image.repository={REGISTRY}", "rights.profile=workloads", "extraArgs={--allow-loopback}")
    given = [part for value in values for part in ("--set", value)]
    notes = helm("install", *release, *place, *given, kubeconfig=cluster.kubeconfig)
    eventually(lambda: ready_to_watch(cluster))
    with run():
        repository = git_server.repository("shop")
        first = repository.commit(application("web:1"))
        write_config_sync(cluster, git_server)
        eventually(lambda: applied(cluster, first))

    others = {name: {"certificate": {"secretName": "own-tls"}} for name in ("depot", "admission", "metrics")}
    more = {**others, "replicas": 2, "podDisruptionBudget": {"enabled": True}}
    helm("upgrade", *release, *place, "--reset-then-reuse-values", values=more, kubeconfig=cluster.kubeconfig)
    second = repository.commit(application("web:2"))
    with run() as operator:
        eventually(lambda: applied(cluster, second))
        assert all(is_trusted(operator.address(name), authority) for name in others)
        eventually(lambda: ca_bundle(cluster) == authority.certificate.decode())
    assert ("PodDisruptionBudget", "syncline") in left(cluster)

    helm("uninstall", *release[:1], *place, kubeconfig=cluster.kubeconfig)
    assert [name for _, name in STAYS if name not in notes] == []
    eventually(lambda: left(cluster) == before | STAYS)
    eventually(lambda: not ready_to_watch(cluster))
    assert applied(cluster, second)
    for path in ("apis/apps/v1/namespaces/shop/deployments", "api/v1/namespaces/shop/services"):
        assert exists(cluster, f"/{path}/web")
    assert exists(cluster, "/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web")
