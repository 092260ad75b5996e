"""One API server: configuration, client, watches, work queue, leader election and events.

    config, credentials          kubeconfig and in-cluster settings; tokens and their renewal
    client                       the verbs; it uses session (attempts, limits), transport (one attempt), retry, limiter
    reflector                    a self-healing cache of one kind; it uses listing, wire (decoding), cache (order of
                                 versions), watch_health (failures) and watch_trust (whether watches deliver)
    queue                        the work queue
    lease, events                leader election; events for people
    errors, resources, metrics

This package knows nothing about syncs, ownership or plans. It has no global state except its metrics. A client connects
to one API server; for several servers there are several clients.
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
