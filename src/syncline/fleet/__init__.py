"""Many API servers: who may be reached, with which credential, and whether they can be used now.

    secrets, argocd         from a Secret to a connection: kubeconfigs, tokens, Cluster API and Argo CD
    credentials, expiry     what all credentials must be like, and when they end
    addresses               where a connection must not lead
    resolve                 from what a sync says to a credential: the one place where references are followed
    fleet                   one member a credential, for as long as it is used; rotation
    member                  one cluster: its client, and how it is
    pulse, line             health: probes, the circuit breaker, and the gate that every request passes
    errors, metrics

What it is not: it knows nothing of copies, syncs or plans. It hands out clients, and tells when one comes or goes.
"""

from syncline.fleet.credentials import Credentials
from syncline.fleet.errors import ClusterDown, NotResolved
from syncline.fleet.fleet import Fleet
from syncline.fleet.member import Member
from syncline.fleet.pulse import Health, Pace
from syncline.fleet.resolve import (
    MemberKey,
    ReadSecret,
    Resolved,
    may_use,
    no_target,
    resolve,
    resolve_target,
    targets_of,
)
from syncline.fleet.secrets import SecretWire

__all__ = [
    "ClusterDown",
    "Credentials",
    "Fleet",
    "Health",
    "Member",
    "MemberKey",
    "NotResolved",
    "Pace",
    "ReadSecret",
    "Resolved",
    "SecretWire",
    "may_use",
    "no_target",
    "resolve",
    "resolve_target",
    "targets_of",
]
