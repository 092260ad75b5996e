"""Copies that go: when their source is deleted, and when an edit of the spec leaves half of the namespaces out."""

from benchmarks.figures import Figure, Results
from benchmarks.scale import scaled
from benchmarks.sightings import DELETED, in_all, watching
from benchmarks.stage import HOME, stage
from benchmarks.subject import SECRET
from benchmarks.taking import Taken, ready, take_audited
from syncline.controllers.targets.prune import SOURCE_GRACE
from syncline.core.ownership import OWNER_LABEL
from syncline.kube.client import PatchKind
from syncline.testing.operator import OperatorProcess

TARGETS = scaled(1000, 2)
_KEPT = TARGETS // 2


async def run() -> Results:
    async with stage() as scene:
        client, sort = scene.client, SECRET.syncs
        names = [f"bench-{number:04}" for number in range(TARGETS)]
        await scene.create_namespaces(names[:_KEPT], {"bench": "removal", "half": "kept"})
        await scene.create_namespaces(names[_KEPT:], {"bench": "removal", "half": "left"})
        body, narrow = (SECRET.sync("sync", "source", **labels) for labels in ({"bench": "removal"}, {"half": "kept"}))
        source = SECRET.source(HOME, "source", "right")
        with OperatorProcess(scene.kubeconfig) as operator:
            async with watching(client, SECRET.resource, OWNER_LABEL) as copies, watching(client, sort) as syncs:
                there = syncs.until(ready("sync", TARGETS))
                await scene.create(SECRET.resource, [source])
                await client.create(sort, body, HOME)
                await there
                gone = await take_audited(
                    scene,
                    operator.pid,
                    lambda: client.delete(SECRET.resource, "source", HOME),
                    [copies.until(in_all(TARGETS, DELETED))],
                )
                there = syncs.until(ready("sync", TARGETS))
                await scene.create(SECRET.resource, [source])
                await there
                left_out = await take_audited(
                    scene,
                    operator.pid,
                    lambda: client.patch(sort, "sync", HOME, narrow, PatchKind.MERGE),
                    [copies.until(in_all(TARGETS - _KEPT, DELETED)), syncs.until(ready("sync", _KEPT))],
                )
    return Results(
        title=f"{TARGETS:,} copies of one Secret: its source is deleted; half of the namespaces are left out",
        figures=[
            *_figures("source deleted", gone, TARGETS, f", with {SOURCE_GRACE:g} s of grace"),
            *_figures("scope narrowed", left_out, TARGETS - _KEPT, ""),
        ],
    )


def _figures(what: str, taken: Taken, removed: int, note: str) -> list[Figure]:
    deletes = sum(entry.verb == "delete" for entry in taken.requests)
    proofs = sum(entry.verb == "get" and entry.resource == "namespaces" for entry in taken.requests)
    rest = len(taken.requests) - deletes - proofs
    return [
        Figure(
            name=f"{what}: time",
            text=f"{taken.seconds:.1f} s for {removed:,} copies{note} (others took {taken.others:.0%} of the machine)",
            value=taken.seconds,
            unit="s",
        ),
        Figure(
            name=f"{what}: API requests",
            text=f"{deletes / removed:.2f} deletes and {proofs / removed:.2f} looks at the namespace a copy + {rest}",
            value=len(taken.requests) / removed,
            unit="",
        ),
    ]
