"""What the operator holds: objects, tasks, sockets and series, counted so that two moments can be compared."""

import asyncio
import gc
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct
from prometheus_client import REGISTRY

from syncline.controllers.base import SharedServices
from syncline.controllers.state import SyncState
from syncline.engine.cluster import Cluster
from syncline.engine.fanout import FanOut
from syncline.engine.kind_informer import KindInformer
from syncline.fleet import RemoteCluster
from syncline.fleet.gated_transport import GatedTransport
from syncline.kube.client import Client
from syncline.kube.connections import HttpConnection
from syncline.kube.discovery import Discovery
from syncline.kube.reflector import Reflector
from syncline.operator import Operator
from syncline.reconcilers import BuildTools

TYPES = (
    *(Client, Cluster, Discovery, FanOut, GatedTransport, HttpConnection),
    *(RemoteCluster, SyncState, Reflector, KindInformer),
)
# Their series name syncs, clusters or kinds, so they must go with them.
SERIES = (
    "syncline_cached_objects",
    "syncline_cluster_up",
    "syncline_credential_expiry_timestamp_seconds",
    "syncline_failures",
    "syncline_ready",
    "syncline_targets",
)

# Connections without a request are kept for a while, and what is asked now and then keeps some of them for good.
# Watches are counted besides, by their tasks.
SPARE_CONNECTIONS = 4
CONTAINERS = (dict, set, frozenset, list, tuple, deque)
# They hold what was of use a while ago; their size is limited, whatever comes and goes.
BOUNDED = frozenset(
    {
        "AccessReviews._answers",  # the last 10,000
        "Cache._gone",  # the last 4096
        "ChangeLog._last",  # the last 256
        "EventRecorder._buckets",  # the last 4096
        "EventRecorder._sent",
        "MemberClusters._triggers",  # one for each kind of sync
        "Mirrors._watches",  # 100 that nobody follows
        "OpenAPI._index",  # one
        "Pool._idle",  # connections, which are counted as objects and as sockets
        "Pool._open",
        "ReadingCache._held",  # the bytes of those
        "ReadingCache._readings",  # 32 MiB at most
    }
)


def census(operator: Operator) -> Counter[str]:
    """Count everything."""
    gc.collect()
    found: Counter[str] = Counter()
    found.update(_objects())
    found.update(_tasks())
    found.update(_series())
    found.update(_entries(operator))
    found["sockets"] = sum(_is_socket(one) for one in Path("/proc/self/fd").iterdir())
    return +found


def surplus(now: Counter[str], before: Counter[str]) -> dict[str, tuple[int, int]]:
    """Return of what there is more now, and how much there was before."""
    known = before + Counter({"sockets": SPARE_CONNECTIONS, "objects: HttpConnection": SPARE_CONNECTIONS})
    return {name: (before[name], number) for name, number in sorted(now.items()) if number > known[name]}


def missing(now: Counter[str], before: Counter[str]) -> dict[str, tuple[int, int]]:
    """Return what has gone that should not have: watches, and who follows them.

    Connections may be kept or not. Objects and series may be other tests', which ran in this process before.
    """
    lasting = {name: number for name, number in before.items() if name.startswith(("entries", "tasks"))}
    return {name: (number, now[name]) for name, number in sorted(lasting.items()) if now[name] < number}


def _objects() -> Counter[str]:
    counts: Counter[str] = Counter()
    for one in gc.get_objects():
        for kind in TYPES:
            if isinstance(one, kind):
                counts[f"objects: {kind.__name__}"] += 1
    return counts


def _tasks() -> Counter[str]:
    """Count tasks by what they run; a worker that waits for the next key is there, or between two of them."""
    names = (getattr(task.get_coro(), "__qualname__", "?") for task in asyncio.all_tasks())
    return Counter(f"tasks: {name}" for name in names)


def _series() -> Counter[str]:
    counts: Counter[str] = Counter()
    for metric in REGISTRY.collect():
        if metric.name in SERIES:
            for sample in metric.samples:
                if not sample.name.endswith("_created"):
                    counts[f"series: {metric.name} {sorted(sample.labels.items())}"] += 1
    return counts


def _entries(operator: Operator) -> Counter[str]:
    """Count the entries of every container that can be reached from the operator, by class and attribute."""
    counts: Counter[str] = Counter()
    known: set[int] = set()
    left: list[object] = [operator]
    while left:
        one = left.pop()
        if id(one) in known:
            continue
        known.add(id(one))
        for name, value in _attributes(one):
            where = f"{type(one).__name__}.{name}"
            if where in BOUNDED:
                continue
            if isinstance(value, CONTAINERS):
                counts[f"entries: {where}"] += len(value)
            left += _parts(value)
    return counts


def _attributes(one: object) -> Iterator[tuple[str, object]]:
    """Yield what an object of ours holds; data, such as a decoded spec, is not looked into."""
    if type(one).__module__.startswith("syncline.") and not isinstance(one, Struct):
        yield from vars(one).items() if hasattr(one, "__dict__") else ()
    elif isinstance(one, SharedServices | BuildTools):
        yield from ((name, getattr(one, name)) for name in one.__struct_fields__)


def _parts(value: object) -> list[object]:
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    return list(value) if isinstance(value, CONTAINERS) else [value]


def _is_socket(one: Path) -> bool:
    try:
        return str(one.readlink()).startswith("socket:")
    except OSError:  # it was closed meanwhile
        return False
