"""One sync with 5,000 targets: created, edited, and its one status."""

from benchmarks.figures import Figure, Results
from benchmarks.scale import scaled
from benchmarks.sightings import in_all, watching
from benchmarks.stage import HOME, stage
from benchmarks.subject import SECRET
from benchmarks.taking import Taken, ready, take_audited
from benchmarks.usage import memory_mb
from syncline.core.ownership import OWNER_LABEL
from syncline.testing.operator import OperatorProcess

TARGETS = scaled(5000)


async def run() -> Results:
    async with stage() as scene:
        client, sort = scene.client, SECRET.syncs
        await scene.create_namespaces([f"bench-{number:04}" for number in range(TARGETS)], {"bench": "wide"})
        await scene.create(SECRET.resource, [SECRET.source(HOME, "source", "first")])
        with OperatorProcess(scene.kubeconfig) as operator:
            async with watching(client, SECRET.resource, OWNER_LABEL) as copies, watching(client, sort) as syncs:
                created = await take_audited(
                    scene,
                    operator.pid,
                    lambda: client.create(sort, SECRET.sync("sync", "source", bench="wide"), HOME),
                    [copies.until(in_all(TARGETS, SECRET.needle("first"))), syncs.until(ready("sync", TARGETS))],
                )
                sync = await client.get(sort, "sync", HOME)
                updated = await take_audited(
                    scene,
                    operator.pid,
                    lambda: SECRET.edit(scene, "source", "second"),
                    [
                        copies.until(in_all(TARGETS, SECRET.needle("second"))),
                        syncs.until(ready("sync", TARGETS, not_at=sync["status"]["sourceRevision"])),
                    ],
                )
            _, peak = memory_mb(operator.pid)
    return Results(
        title=f"one sync with {TARGETS:,} targets",
        figures=[
            *_figures("create", created),
            *_figures("update", updated),
            Figure(name="memory, at most", text=f"{peak:.0f} MB", value=peak, unit="MB"),
        ],
    )


def _figures(what: str, taken: Taken) -> list[Figure]:
    on_secrets = sum(entry.resource == "secrets" and entry.changes for entry in taken.requests)
    beside = len(taken.requests) - on_secrets
    return [
        Figure(
            name=f"{what}: time",
            text=f"{taken.seconds:.1f} s, {TARGETS / taken.seconds:.0f} copies a second;"
            f" CPU {taken.sender:.1f} s of the operator, {taken.cpu - taken.sender:.1f} s of the servers"
            f" (others took {taken.others:.0%} of the machine)",
            value=taken.seconds,
            unit="s",
        ),
        Figure(
            name=f"{what}: API requests",
            text=f"{on_secrets / TARGETS:.2f} writes a copy + {beside}",
            value=on_secrets / TARGETS,
            unit="",
            goal=1,
        ),
    ]
