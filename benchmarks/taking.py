"""What one change took: from the user's request until everything that it should lead to has been seen."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from benchmarks.sightings import Check
from benchmarks.stage import Stage
from benchmarks.usage import Machine, cpu_seconds
from syncline.testing.audit import OPERATOR, Entry

_SETTLE = 1.0

TimedChange = Callable[[], Awaitable[object] | None]


class Taken(msgspec.Struct):
    """Seconds, and processor seconds."""

    seconds: float
    cpu: float
    """Of the sender and of the control plane together."""
    sender: float
    others: float
    """Which share of the machine all other processes took."""
    requests: Sequence[Entry] = ()
    """What the operator asked for, watches aside."""

    @property
    def writes(self) -> int:
        return sum(entry.changes for entry in self.requests)


async def take(scene: Stage, sender: int, change: TimedChange, seen: Sequence["asyncio.Task[float]"]) -> Taken:
    """Make a change, and wait until all that was asked for has been seen."""
    machine = Machine(sender, *scene.sandbox.pids.values())
    own, servers, started = cpu_seconds(sender), cpu_seconds(*scene.server_pids), time.monotonic()
    if (under_way := change()) is not None:
        await under_way
    ended = max(await asyncio.gather(*seen))
    own, servers = cpu_seconds(sender) - own, cpu_seconds(*scene.server_pids) - servers
    return Taken(ended - started, own + servers, own, machine.others())


async def take_audited(scene: Stage, sender: int, change: TimedChange, seen: Sequence["asyncio.Task[float]"]) -> Taken:
    """Take the requests of the operator too."""
    mark = scene.audit.mark()
    taken = await take(scene, sender, change, seen)
    await asyncio.sleep(_SETTLE)  # the event for people comes after the status
    asked = scene.audit.entries(OPERATOR, since=mark, until=scene.audit.mark())
    taken.requests = [entry for entry in asked if entry.verb != "watch"]
    return taken


def ready(name: str, targets: int, not_at: str = "") -> Check:
    """Check for a sync that is Ready with so many targets, at another revision of its source."""

    def check(line: bytes) -> bool:
        found: dict[str, Any] = msgspec.json.decode(line)["object"]
        status = found.get("status") or {}
        is_ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ())
        is_named = found["metadata"]["name"] == name and status.get("targets", {}).get("synced") == targets
        return is_named and is_ready and status["sourceRevision"] != not_at

    return check
