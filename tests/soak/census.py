"""What the operator holds: objects, tasks, sockets and series, counted so that two moments can be compared."""

import asyncio
import gc
from collections import Counter
from pathlib import Path

from prometheus_client import REGISTRY

from syncline.controllers.controller import Controller
from syncline.controllers.memory import Memory
from syncline.engine.cluster import Cluster
from syncline.engine.fanout import FanOut
from syncline.engine.view import View
from syncline.fleet import Member
from syncline.fleet.line import Line
from syncline.kube.client import Client
from syncline.kube.discovery import Discovery
from syncline.kube.reflector import Reflector
from syncline.operator import Operator

TYPES = (Client, Cluster, Discovery, FanOut, Line, Member, Memory, Reflector, View)
# Their series name syncs, clusters or kinds, so they must go with them.
SERIES = (
    "syncline_cached_objects",
    "syncline_cluster_up",
    "syncline_credential_expiry_timestamp_seconds",
    "syncline_failures",
    "syncline_ready",
    "syncline_targets",
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
    """Return of what there is more now, and how much there was before; connections may be kept for a while, or not."""
    return {name: (before[name], number) for name, number in sorted(now.items()) if number > before[name]}


def missing(now: Counter[str], before: Counter[str]) -> dict[str, tuple[int, int]]:
    """Return what has gone that should not have: watches, and who follows them."""
    lasting = {name: number for name, number in before.items() if name != "sockets"}
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
    """Count what is held under the names of syncs, targets and clusters."""
    counts: Counter[str] = Counter()

    def add(name: str, *held: object) -> None:
        counts[f"entries: {name}"] += sum(len(one) for one in held)  # type: ignore[arg-type]

    for controller in operator._syncs:
        _count_controller(controller, add)
    shared = operator._syncs[0]._shared
    claims, waiters = shared.claims, shared.claims.waiters
    add("claims", claims._claims, claims._by_name, claims._extended)
    add("waiters", waiters, waiters._rounds, waiters._by_spot._counts, waiters._by_winner._counts)
    add("fights", shared.fights._writes)
    add("attention", operator._hub.attention._names, operator._hub.attention._selections)
    add("views", operator._hub._views, operator._hub._opened, operator._hub._needed, operator._hub._tasks or ())
    remotes, fleet = operator._remotes, operator._remotes._fleet
    add("remote clusters", remotes._clusters, remotes._ending)
    add("fleet", fleet._bound, fleet._rereads, fleet._uses, +fleet._users, fleet._idle, fleet._closing)
    health = operator._health
    add("SyncTargets", health._members, health._resources, health.queue._failures)
    git = operator._git
    add("Git", git._hooks, git._dependencies._on, git._dependencies._of, git._rests._at_rest, git._refreshing)
    add("origins", git._origins._remotes, git._origins._opened)
    return counts


def _count_controller(controller: Controller, add) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001 - see above
    wakes, queue, interests = controller.wakes, controller.queue, controller.wakes._interests
    add("memory", controller._memory)
    add("ended", controller._ended._ended, wakes.ended)
    add("wakes", wakes._clusters, wakes._blocked, wakes._moved)
    indexes = (value for value in vars(interests).values() if hasattr(value, "_syncs"))
    add("interests", interests._of, *(index._syncs for index in indexes))
    add("queue", queue._failures, queue._again, queue._working, queue._waiting, queue._in_work, queue._full)
    add("announced", controller._reporter._announcer._reported)


def _is_socket(one: Path) -> bool:
    try:
        return str(one.readlink()).startswith("socket:")
    except OSError:  # it was closed meanwhile
        return False
