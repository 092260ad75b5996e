"""The Helm chart, through the real helm: rendered, installed and removed."""

import copy
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from syncline import deploy
from syncline.core.author_policies import VERSION_LABEL
from syncline.deploy.chart import FOLDER

ROOT = Path(__file__).parents[2]
CHART = ROOT / FOLDER
HELM = Path(sys.executable).with_name("helm")
Values = Mapping[str, Any]

# What Helm and its conventions add to each object.
ADDED = ("app.kubernetes.io/instance", "app.kubernetes.io/managed-by", VERSION_LABEL, "helm.sh/chart")

# The default of a Deployment, which the chart writes out.
STRATEGY = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}

# Every feature on, with parts of the cluster that others bring.
FULL: Values = {
    "image": {"repository": "registry.example.com/syncline", "tag": "1.2.3", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "registry"}],
    "replicas": 3,
    "rights": {
        "profile": "workloads",
        "tenantKinds": ["configsyncs", "configmapsyncs"],
        "write": ["limitranges", "widgets.example.com"],
        "read": ["leases.coordination.k8s.io"],
    },
    "serviceAccount": {"annotations": {"example.com/role": "syncline"}},
    "watchNamespaces": ["team-a", "team-b"],
    "minInterval": "30s",
    "log": {"format": "console", "level": "debug"},
    "tenancy": {
        "requireServiceAccount": True,
        "defaultServiceAccount": "deployer",
        "protectedNamespaces": ["infra-*"],
        "allowedKinds": ["Lease.coordination.k8s.io"],
    },
    "webhooks": {
        "service": {"type": "NodePort", "port": 8080, "annotations": {"example.com/scope": "public"}},
        "secret": {"name": "webhooks", "key": "token"},
        "trustedProxies": ["10.0.0.0/8"],
        "ingress": {
            "enabled": True,
            "className": "nginx",
            "host": "hooks.example.com",
            "tlsSecretName": "hooks-tls",
            "annotations": {"example.com/proxy": "yes"},
        },
        "httpRoute": {"enabled": True, "parentRefs": [{"name": "public"}], "hostnames": ["hooks.example.com"]},
    },
    "metrics": {
        "readers": [{"namespace": "monitoring", "name": "prometheus"}],
        "certificate": {"issuerRef": {"name": "internal", "kind": "ClusterIssuer", "group": "cert-manager.io"}},
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "prometheusRule": {
            "enabled": True,
            "labels": {"release": "prometheus"},
            "extraRules": [{"alert": "Own", "expr": "syncline_leader == 2"}],
        },
    },
    "depot": {
        "url": "https://depot.example.com",
        "service": {"type": "LoadBalancer", "annotations": {"example.com/scope": "internal"}},
        "certificate": {"secretName": "depot"},
    },
    "admission": {"certificate": {"issuerRef": {"name": "internal"}}},
    "agent": {"image": "registry.example.com/agent:1"},
    "networkPolicy": {"egress": [{"ports": [{"port": 443, "protocol": "TCP"}]}]},
    "podDisruptionBudget": {"enabled": True},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
    ],
    "affinity": {"nodeAffinity": {}},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "infra", "operator": "Exists"}],
    "priorityClassName": "system-cluster-critical",
    "podAnnotations": {"example.com/team": "platform"},
    "podLabels": {"example.com/team": "platform"},
    "labels": {"example.com/owner": "platform"},
    "extraArgs": ["--allow-loopback"],
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"}],
    "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ssl/own"}],
}
# Every feature off that can be off.
BARE: Values = {
    "leaderElection": False,
    "webhooks": {"enabled": False, "secret": {"name": "webhooks"}},
    "metrics": {"enabled": False},
    "depot": {"enabled": False},
    "admission": {"enabled": False},
    "networkPolicy": {"enabled": False},
    "crds": {"install": False},
    "rights": {"profile": "none", "tenantKinds": "none"},
}


def helm(*arguments: str | Path, values: Values | None = None, kubeconfig: Path | None = None) -> str:
    """Run helm and return its output; raise HelmError with its message."""
    given = ["--values", "-"] if values is not None else []
    ended = subprocess.run(
        [HELM, *arguments, *given],
        input=json.dumps(values or {}),
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "KUBECONFIG": str(kubeconfig or "/dev/null")},
    )
    if ended.returncode:
        raise HelmError(ended.stderr)
    return ended.stdout


class HelmError(Exception):
    """What helm says where it refuses."""


def render(values: Values | None = None, *, namespace: str = deploy.NAMESPACE) -> list[deploy.Manifest]:
    """Return the objects of the chart, which belong to all callers."""
    return _rendered(json.dumps(values or {}), namespace)


@cache
def _rendered(values: str, namespace: str) -> list[deploy.Manifest]:
    place = ("--namespace", namespace, "--kube-version", "1.30.0")
    text = helm("template", "syncline", CHART, *place, values=json.loads(values))
    # The loader in C: the CRDs are large.
    return [each for each in yaml.load_all(text, yaml.CSafeLoader) if each]


def find(manifests: Iterable[deploy.Manifest], kind: str, name: str = "syncline") -> deploy.Manifest:
    """Return the object of this kind and name."""
    (found,) = [each for each in manifests if each["kind"] == kind and each["metadata"]["name"] == name]
    return found


def arguments(manifests: Iterable[deploy.Manifest]) -> list[str]:
    """Return the arguments of the operator."""
    (container,) = find(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    return list(container["args"])


def stripped(manifest: deploy.Manifest) -> deploy.Manifest:
    """Return an object without what Helm and its conventions add, in the form in which `syncline manifests` has it."""
    made = copy.deepcopy(manifest)
    meta = made["metadata"]
    for name in ADDED:
        # The version of a policy is the policy's own.
        if not (name == VERSION_LABEL and made["kind"].startswith("ValidatingAdmissionPolicy")):
            meta.get("labels", {}).pop(name, None)
    meta.get("annotations", {}).pop("helm.sh/resource-policy", None)
    if made["kind"] == "CustomResourceDefinition":
        assert meta.pop("labels") == {"app.kubernetes.io/name": "syncline", "app.kubernetes.io/part-of": "syncline"}
    if not meta.get("annotations"):
        meta.pop("annotations", None)
    if made["kind"] == "Deployment":
        assert made["spec"]["template"]["spec"]["containers"][0].pop("imagePullPolicy") == "IfNotPresent"
        assert made["spec"].pop("strategy") == STRATEGY
    return sorted_ports(made)


def sorted_ports(manifest: deploy.Manifest) -> deploy.Manifest:
    """Return an object with its ports in one order, which has no meaning."""
    made = copy.deepcopy(manifest)
    if made["kind"] == "Deployment":
        made["spec"]["template"]["spec"]["containers"][0]["ports"].sort(key=lambda port: port["name"])
    if made["kind"] == "NetworkPolicy":
        for rule in made["spec"]["ingress"]:
            rule["ports"].sort(key=lambda port: port["port"])
    return made
