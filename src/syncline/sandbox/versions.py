"""The versions of the control plane and the tools, from the pinned Go modules."""

import functools
import platform
import re
import sys
from importlib import resources
from pathlib import Path

from syncline.sandbox.errors import SandboxError

ETCD = "etcd"
APISERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
COMPONENTS = (ETCD, APISERVER, CONTROLLER_MANAGER)
"""The control plane."""

KCP = "kcp"
"""A control plane of workspaces, next to which runs etcd."""

HELM = "helm"
KUSTOMIZE = "kustomize"
TOOLS = (HELM, KUSTOMIZE)
"""The programs that build manifests."""

_MODULES = {
    ETCD: ("etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"),
    APISERVER: ("kubernetes", "k8s.io/kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    CONTROLLER_MANAGER: ("kubernetes", "k8s.io/kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    KCP: ("kcp", "github.com/kcp-dev/kcp", "github.com/kcp-dev/kcp/cmd/kcp"),
    HELM: ("helm", "helm.sh/helm/v4", "helm.sh/helm/v4/cmd/helm"),
    KUSTOMIZE: ("kustomize", "sigs.k8s.io/kustomize/kustomize/v5", "sigs.k8s.io/kustomize/kustomize/v5"),
}
_ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def source() -> Path:
    """Return the folder of the pinned Go modules."""
    return Path(str(resources.files("syncline.sandbox"))) / "source"


def module_folder(component: str) -> Path:
    """Return the Go module that pins the component."""
    return source() / _MODULES[component][0]


def go_package(component: str) -> str:
    """Return the Go package of the component."""
    return _MODULES[component][2]


@functools.cache
def version(component: str) -> str:
    """Return the pinned version, such as `v1.37.1`."""
    module = _MODULES[component][1]
    return _in_go_mod(component, rf"^require {re.escape(module)} (v\S+)$")


@functools.cache
def kubernetes_version(component: str) -> str:
    """Give the version of Kubernetes that the component reports, as in `v1.37.1`, or `v1.35.1+kcp-v0.31.2`."""
    if component == KCP:
        return f"{_in_go_mod(KCP, r'^require k8s.io/kubernetes (v[0-9.]+) // indirect$')}+kcp-{version(KCP)}"
    return version(component)


@functools.cache
def go_version(component: str) -> str:
    """Return the oldest version of Go that builds the component, such as `1.26.0`."""
    return _in_go_mod(component, r"^go (\S+)$")


def system() -> tuple[str, str]:
    """Return the system and architecture of this machine in the words of Go, such as `("linux", "amd64")`."""
    machine = platform.machine().lower()
    if machine not in _ARCHITECTURES:
        raise SandboxError(f"the sandbox has no binaries for {machine}; put your own in SYNCLINE_SANDBOX_BIN")
    return ("darwin" if sys.platform == "darwin" else "linux"), _ARCHITECTURES[machine]


def cache_key() -> str:
    """Names versions and platform: binaries under one key are interchangeable."""
    return f"kubernetes-{version(APISERVER)}-etcd-{version(ETCD)}-{'-'.join(system())}"


def kcp_key() -> str:
    """Names version and platform of kcp."""
    return "-".join(["kcp", version(KCP), *system()])


def tools_key() -> str:
    """Names versions and platform of the tools."""
    return "-".join([*(f"{tool}-{version(tool)}" for tool in TOOLS), *system()])


def _in_go_mod(component: str, pattern: str) -> str:
    path = module_folder(component) / "go.mod"
    match = re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise SandboxError(f"{path} does not match {pattern}: the sandbox's pins are broken")
    return match[1]
