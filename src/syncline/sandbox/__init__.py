"""A real Kubernetes control plane on this machine: etcd, kube-apiserver and kube-controller-manager as plain processes.

Or a real kcp, which has workspaces instead of a cluster: etcd and kcp.

For tests, the demo and benchmarks: it is ready in seconds, several can run at once, and nothing is left behind. It is
not for production, and not a whole cluster: there are no nodes, so pods are stored and never run.

    with Sandbox.create() as sandbox:
        run(["kubectl", "--kubeconfig", sandbox.kubeconfig, "get", "namespaces"])
"""

from syncline.sandbox.access import Access
from syncline.sandbox.binaries import Binaries, find_binaries, find_kcp, has_kcp, link_tools
from syncline.sandbox.cluster import Sandbox, SandboxStatus, statuses
from syncline.sandbox.errors import SandboxError
from syncline.sandbox.requests import RequestError
from syncline.sandbox.state import Options

__all__ = [
    "Access",
    "Binaries",
    "Options",
    "RequestError",
    "Sandbox",
    "SandboxError",
    "SandboxStatus",
    "find_binaries",
    "find_kcp",
    "has_kcp",
    "link_tools",
    "statuses",
]
