"""A real Kubernetes control plane on this machine: etcd, kube-apiserver and kube-controller-manager as plain processes.

For tests, the demo and benchmarks: ready in seconds, several at once, gone without a trace. Not for production, and not
a whole cluster: there are no nodes, so pods are stored and never run.

    with Sandbox.create() as sandbox:
        run(["kubectl", "--kubeconfig", sandbox.kubeconfig, "get", "namespaces"])
"""

from syncline.sandbox.binaries import Binaries, find_binaries, link_tools
from syncline.sandbox.cluster import Sandbox, SandboxStatus, statuses
from syncline.sandbox.errors import SandboxError
from syncline.sandbox.requests import RequestError
from syncline.sandbox.state import Options

__all__ = [
    "Binaries",
    "Options",
    "RequestError",
    "Sandbox",
    "SandboxError",
    "SandboxStatus",
    "find_binaries",
    "link_tools",
    "statuses",
]
