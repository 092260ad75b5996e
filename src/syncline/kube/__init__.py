"""One API server: how to find it, ask it, follow it, and take turns with others at it.

    config, credentials     kubeconfig and in-cluster settings; tokens that stay fresh
    client                  the verbs; below it session (attempts, limits), transport (one attempt), retry, limiter
    reflector               a cache of one kind that heals itself; below it wire (reading) and cache (what is newer)
    queue                   keys to work on
    lease, events           leader election; events for people
    errors, resources, metrics

What it is not: it knows nothing of syncs, ownership or plans, it holds no global state but its metrics, and it deals
with one server at a time; a client for each is all that several need.
"""

from syncline.kube.cache import Key
from syncline.kube.client import Client, PatchKind
from syncline.kube.config import Connection, discover, in_cluster, load_kubeconfig, parse_kubeconfig
from syncline.kube.errors import (
    AlreadyExists,
    ApiError,
    BadAnswer,
    BadRequest,
    ConfigError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from syncline.kube.events import EventRecorder, ObjectReference
from syncline.kube.lease import LeaderElection
from syncline.kube.limiter import FairLimiter
from syncline.kube.queue import Queue, QueueClosed, run_workers
from syncline.kube.reflector import AnyReflector, Reflector, ReflectorStatus, Timing
from syncline.kube.resources import (
    CONFIGMAPS,
    CRDS,
    EVENTS,
    LEASES,
    NAMESPACES,
    SECRETS,
    SERVICEACCOUNTS,
    Resource,
)
from syncline.kube.retry import Retry

__all__ = [
    "CONFIGMAPS",
    "CRDS",
    "EVENTS",
    "LEASES",
    "NAMESPACES",
    "SECRETS",
    "SERVICEACCOUNTS",
    "AlreadyExists",
    "AnyReflector",
    "ApiError",
    "BadAnswer",
    "BadRequest",
    "Client",
    "ConfigError",
    "Conflict",
    "Connection",
    "EventRecorder",
    "FairLimiter",
    "Forbidden",
    "Gone",
    "Invalid",
    "Key",
    "KubeError",
    "LeaderElection",
    "NotFound",
    "ObjectReference",
    "PatchKind",
    "Queue",
    "QueueClosed",
    "Reflector",
    "ReflectorStatus",
    "Resource",
    "Retry",
    "ServerError",
    "Timing",
    "TooManyRequests",
    "Unauthorized",
    "Unreachable",
    "discover",
    "in_cluster",
    "load_kubeconfig",
    "parse_kubeconfig",
    "run_workers",
]
