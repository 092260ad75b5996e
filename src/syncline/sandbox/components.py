"""The command line of each component.

etcd listens on Unix sockets in the private folder of the sandbox, so it needs no ports and no certificates. Components
run inside that folder, because the path of a socket has at most about a hundred bytes. etcd requires `host:port`, so
the sockets have unusual names.
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
# The controllers that synced objects depend on; none for nodes, endpoints or volumes.
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
    "rules": [
        # Who is asked about is in the body alone.
        {
            "level": "Request",
            "resources": [{"group": "authorization.k8s.io", "resources": ["subjectaccessreviews"]}],
        },
        {"level": "Metadata"},
    ],
}


def commands(binaries: Binaries, options: Options, port: int) -> dict[str, list[str]]:
    """Return the command line of each component, for the folder of the sandbox."""
    etcd = {versions.ETCD: [binaries.etcd, *_flags(_etcd()), *options.etcd_args]}
    if options.kcp:
        return etcd | {versions.KCP: [binaries.kcp, "start", *_flags(_kcp(options, port)), *options.kcp_args]}
    return etcd | {
        versions.APISERVER: [binaries.apiserver, *_flags(_apiserver(options, port)), *options.apiserver_args],
        versions.CONTROLLER_MANAGER: [
            binaries.controller_manager,
            *_flags(_controller_manager()),
            *options.controller_manager_args,
        ],
    }


def write_audit_policy(folder: Path) -> None:
    """Write the policy of the audit log: the user and the request, once, without bodies except of access reviews."""
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
        # A single member elects itself within one election timeout: by default a whole second.
        # It also wakes up at each heartbeat, although there is no other member.
        "heartbeat-interval": "100",
        "election-timeout": "500",
        "quota-backend-bytes": str(4 << 30),
        "log-level": "warn",
    }


def _apiserver(options: Options, port: int) -> dict[str, str]:
    flags = {
        "etcd-servers": f"unix://{ETCD_SOCKET}",
        "bind-address": "127.0.0.1",
        "secure-port": str(port),
        # The supervisor reserves the port, also while the API server is down.
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
    return flags | _audit(options)


def _kcp(options: Options, port: int) -> dict[str, str]:
    # Its built-in etcd would need two more ports, and sync each change to the disk.
    flags = {
        "root-directory": "kcp",
        "etcd-servers": f"unix://{ETCD_SOCKET}",
        "bind-address": "127.0.0.1",
        "secure-port": str(port),
        "permit-port-sharing": "true",
        "tls-cert-file": "serving.crt",
        "tls-private-key-file": "serving.key",
        "shard-virtual-workspace-ca-file": "ca.crt",
        "client-ca-file": "ca.crt",
        "token-auth-file": "tokens.csv",
        "service-account-key-file": "service-accounts.key",
        "service-account-signing-key-file": "service-accounts.key",
        "service-account-private-key-file": "service-accounts.key",
        # Without the administrator of kcp: ours keeps its token after a restart of kcp.
        "batteries-included": "workspace-types",
        "profiling": "false",
    }
    return flags | _audit(options)


def _audit(options: Options) -> dict[str, str]:
    if not options.audit_log:
        return {}
    return {"audit-policy-file": "audit-policy.json", "audit-log-path": "audit.log", "audit-log-maxsize": "0"}


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
