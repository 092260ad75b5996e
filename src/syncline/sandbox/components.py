"""The command line of each component.

etcd listens on Unix sockets in the sandbox's folder, which only its owner can enter: no ports to collide, no
certificates. Components run inside that folder, because the path of a socket may not be longer than about a hundred
bytes. etcd insists on `host:port`, which makes the odd file names.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from syncline.sandbox import versions
from syncline.sandbox.binaries import Binaries
from syncline.sandbox.state import Options

CONTROLLER_KUBECONFIG = "controller-manager.kubeconfig"
ETCD_SOCKET = "etcd:2379"
_PEER_SOCKET = "etcd:2380"
# Those that a synced object's life depends on; no nodes, no endpoints, no volumes.
_CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "deployment-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "replicaset-controller",
    "serviceaccount-controller",
)
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


def commands(binaries: Binaries, options: Options, port: int) -> dict[str, list[str]]:
    """Each component's command line, to be run in the sandbox's folder."""
    return {
        versions.ETCD: [binaries.etcd, *_flags(_etcd()), *options.etcd_args],
        versions.APISERVER: [binaries.apiserver, *_flags(_apiserver(options, port)), *options.apiserver_args],
        versions.CONTROLLER_MANAGER: [
            binaries.controller_manager,
            *_flags(_controller_manager()),
            *options.controller_manager_args,
        ],
    }


def write_audit_policy(folder: Path) -> None:
    """Write the policy that the audit log follows: who did what, without bodies, once a request."""
    (folder / "audit-policy.json").write_text(json.dumps(_AUDIT_POLICY), encoding="utf-8")


def _etcd() -> dict[str, str]:
    return {
        "name": "sandbox",
        "data-dir": "etcd",
        "listen-client-urls": f"unix://{ETCD_SOCKET}",
        "advertise-client-urls": f"unix://{ETCD_SOCKET}",
        "listen-peer-urls": f"unix://{_PEER_SOCKET}",
        "initial-advertise-peer-urls": f"unix://{_PEER_SOCKET}",
        "initial-cluster": f"sandbox=unix://{_PEER_SOCKET}",
        "unsafe-no-fsync": "true",
        # A single member elects itself after one election timeout: by default a whole second.
        # It also wakes up at each heartbeat, though there is nobody to hear it.
        "heartbeat-interval": "40",
        "election-timeout": "200",
        "quota-backend-bytes": str(4 << 30),
        "log-level": "warn",
    }


def _apiserver(options: Options, port: int) -> dict[str, str]:
    flags = {
        "etcd-servers": f"unix://{ETCD_SOCKET}",
        "bind-address": "127.0.0.1",
        "secure-port": str(port),
        # The supervisor keeps the port reserved, also while the API server is down.
        "permit-port-sharing": "true",
        "advertise-address": "127.0.0.1",
        # The server refuses to publish a loopback address as its endpoint.
        "endpoint-reconciler-type": "none",
        "tls-cert-file": "serving.crt",
        "tls-private-key-file": "serving.key",
        "client-ca-file": "ca.crt",
        "token-auth-file": "tokens.csv",
        "authorization-mode": "RBAC",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": "service-accounts.key",
        "service-account-signing-key-file": "service-accounts.key",
        "service-cluster-ip-range": "10.96.0.0/16",
        "profiling": "false",
    }
    if options.audit_log:
        flags |= {
            "audit-policy-file": "audit-policy.json",
            "audit-log-path": "audit.log",
            "audit-log-maxsize": "0",
        }
    return flags


def _controller_manager() -> dict[str, str]:
    return {
        "kubeconfig": CONTROLLER_KUBECONFIG,
        "controllers": ",".join(_CONTROLLERS),
        "leader-elect": "false",
        "secure-port": "0",
        "kube-api-qps": "500",
        "kube-api-burst": "1000",
        "profiling": "false",
    }


def _flags(flags: Mapping[str, str]) -> list[str]:
    return [f"--{name}={value}" for name, value in flags.items()]
