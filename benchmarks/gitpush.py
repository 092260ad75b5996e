"""One push, followed from the webhook until the operator is at rest again."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from statistics import median

from msgspec import Struct

from benchmarks.figures import Figure
from benchmarks.gitstage import GitStage, Meter
from benchmarks.sightings import in_all, watching
from benchmarks.taking import take_audited
from benchmarks.usage import at_rest, family_seconds
from syncline.controllers.kinds.configsync import RESOURCE as CONFIGSYNCS
from syncline.core.ownership import OWNER_LABEL
from syncline.kube.resources import CONFIGMAPS
from syncline.testing.audit import Entry
from syncline.testing.operator import OperatorProcess


class Pushed(Struct, frozen=True, kw_only=True):
    """What a push led to."""

    seconds: float
    """Until it was on the cluster and in the status; where it changes nothing there, as `settled`."""
    settled: float
    """Until the operator was at rest: every sync that follows the repository had been told and had had its turn."""
    cpu: float
    """Of the operator and of all that it started, until then."""
    others: float
    checks: int
    fetches: int
    builds: int
    turns: int
    requests: Sequence[Entry]


async def follow(
    scene: GitStage, operator: OperatorProcess, name: str, files: Mapping[str, str], token: str = ""
) -> Pushed:
    """Push, tell of it for a sync of this name, and look on. The ConfigMap with the token is waited for."""
    client = scene.scene.client
    commit = b"none yet"
    async with watching(client, CONFIGMAPS, OWNER_LABEL) as objects, watching(client, CONFIGSYNCS) as syncs:
        (checks, fetches), meter = scene.asked, Meter(operator)
        await at_rest(operator.pid)
        arrivals = [objects.until(in_all(1, f'"{token}"'.encode())), syncs.until(lambda line: commit in line)]
        commit = scene.push(files).encode()
        resting = asyncio.create_task(at_rest(operator.pid))
        began, cpu = time.monotonic(), family_seconds(operator.pid)
        seen = arrivals if token else [resting]
        taken = await take_audited(scene.scene, operator.pid, lambda: scene.tell(operator, name), seen)
        for unseen in () if token else arrivals:
            unseen.cancel()
        settled = max(await resting - began, taken.seconds)
        cpu = family_seconds(operator.pid) - cpu
    now = scene.asked
    return Pushed(
        seconds=taken.seconds,
        settled=settled,
        cpu=cpu,
        others=taken.others,
        checks=now[0] - checks,
        fetches=now[1] - fetches,
        builds=meter.count("syncline_builds_total"),
        turns=meter.count("syncline_sync_total", kind=CONFIGSYNCS.kind),
        requests=taken.requests,
    )


def figures(what: str, pushes: Sequence[Pushed], *, syncs: int, builds: int, requests: int) -> list[Figure]:
    """Sum up some pushes of one kind by their medians; `builds` and `requests` are goals."""
    seconds, settled, cpu = (median(getattr(one, name) for one in pushes) for name in ("seconds", "settled", "cpu"))
    checks, fetches, turns = (median(getattr(one, name) for one in pushes) for name in ("checks", "fetches", "turns"))
    asked = median(len(one.requests) for one in pushes)
    writes = median(sum(entry.changes for entry in one.requests) for one in pushes)
    built = median(one.builds for one in pushes)
    kinds = sorted({_words(entry) for one in pushes for entry in one.requests})
    others = max(one.others for one in pushes)
    return [
        Figure(
            name=f"{what}: time",
            text=(f"{seconds:.2f} s until it is on the cluster, " if requests else "")
            + f"{settled:.2f} s until all is quiet (other processes took {others:.0%} of the machine)",
            value=seconds,
            unit="s",
        ),
        Figure(
            name=f"{what}: CPU",
            text=f"{cpu:.2f} s, git and builds included, {turns:g} turns of {syncs:,} syncs",
            value=cpu,
            unit="s",
        ),
        Figure(
            name=f"{what}: API requests",
            text=f"{writes:g} writes, {asked - writes:g} reads" + (f" ({', '.join(kinds)})" if kinds else ""),
            value=asked,
            unit="",
            goal=requests,
        ),
        Figure(
            name=f"{what}: builds",
            text=f"{built:g}; {checks:g} checks and {fetches:g} fetches at the git server",
            value=built,
            unit="",
            goal=builds,
        ),
    ]


def _words(entry: Entry) -> str:
    return f"{entry.verb} {entry.resource}" + (f"/{entry.subresource}" if entry.subresource else "")
