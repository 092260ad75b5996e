"""Many API servers: their credentials, their clients and their health.

    secrets, argocd         connections from Secrets: kubeconfigs, tokens, Cluster API and Argo CD
    credentials, expiry     the rules for all credentials, and their expiry
    addresses               the addresses that are refused
    resolve                 from the spec of a sync to a credential: the only place where references are resolved
    fleet                   one member for each credential, while it is used; rotation
    remote_cluster          one member: its client and its health
    circuit_breaker         probes, and the health that they find
    gated_transport         requests pass only while the circuit breaker is closed
    errors, metrics

This package knows nothing about syncs and plans. It provides clients, and reports changes of their clusters.
"""

from syncline.fleet.circuit_breaker import ClusterHealth, Timeouts
from syncline.fleet.credentials import Credentials
from syncline.fleet.errors import ClusterDown, NotResolved
from syncline.fleet.fleet import Fleet
from syncline.fleet.remote_cluster import IdentityProbe, RemoteCluster
from syncline.fleet.resolve import (
    MemberKey,
    ReadSecret,
    Resolved,
    at_endpoint,
    in_workspace,
    may_use,
    no_target,
    resolve,
    resolve_target,
    targets_of,
)
from syncline.fleet.secrets import SecretWire

__all__ = [
    "ClusterDown",
    "ClusterHealth",
    "Credentials",
    "Fleet",
    "IdentityProbe",
    "MemberKey",
    "NotResolved",
    "ReadSecret",
    "RemoteCluster",
    "Resolved",
    "SecretWire",
    "Timeouts",
    "at_endpoint",
    "in_workspace",
    "may_use",
    "no_target",
    "resolve",
    "resolve_target",
    "targets_of",
]
