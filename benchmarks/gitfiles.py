"""A repository of 2,000 files, of which a sync wants a folder of 20: first seen, pushed to elsewhere and there."""

import json
from pathlib import PurePosixPath

from benchmarks import gitpush
from benchmarks.figures import Figure, Results
from benchmarks.gitpush import follow
from benchmarks.gitstage import GitStage, Meter, git_stage
from benchmarks.scale import scaled
from benchmarks.sightings import in_all, watching
from benchmarks.stage import HOME
from benchmarks.taking import Taken, ready, take_audited
from benchmarks.usage import children_mb, memory_mb
from syncline.controllers.kinds.configsync import RESOURCE as CONFIGSYNCS
from syncline.core.ownership import OWNER_LABEL
from syncline.kube.resources import CONFIGMAPS
from syncline.testing.operator import OperatorProcess

FILES = scaled(2000, 60)
WANTED = 20
PUSHES = 3
NAME = "sync"
_FOLDER = "apps/0001"
_PAYLOAD = "".join(f"setting-{number}: the value of this setting\n" for number in range(25))


async def run() -> Results:
    async with git_stage() as scene:
        paths = [f"apps/{number // WANTED:04}/{number % WANTED:02}.yaml" for number in range(FILES)]
        scene.push({path: _manifest(path, "first") for path in paths})
        with scene.operator() as operator:
            meter = Meter(operator)
            first = await _first(scene, operator)
            (checks, fetches), built = scene.asked, meter.count("syncline_builds_total")
            elsewhere = [
                await follow(scene, operator, NAME, {paths[-1]: _manifest(paths[-1], f"there-{number}")})
                for number in range(PUSHES)
            ]
            inside = [await _inside(scene, operator, number) for number in range(PUSHES)]
            steady, peak = memory_mb(operator.pid)
            children = children_mb(operator.pid)
    return Results(
        title=f"a repository of {FILES:,} files of 1 KB, of which a sync wants {WANTED}",
        figures=[
            Figure(
                name="first seen: time",
                text=f"{first.seconds:.2f} s from the POST of the sync until it is Ready: {checks} check,"
                f" {fetches} fetch, {built} build (other processes took {first.others:.0%} of the machine)",
                value=first.seconds,
                unit="s",
            ),
            *gitpush.figures("push elsewhere", elsewhere, syncs=1, builds=0, requests=0),
            *gitpush.figures("push inside", inside, syncs=1, builds=1, requests=4),
            Figure(
                name="memory",
                text=f"{steady:.0f} MB, at most {peak:.0f} MB, {children:.0f} MB in children that build",
                value=peak,
                unit="MB",
            ),
        ],
    )


async def _first(scene: GitStage, operator: OperatorProcess) -> Taken:
    client = scene.scene.client
    async with watching(client, CONFIGMAPS, OWNER_LABEL) as objects, watching(client, CONFIGSYNCS) as syncs:
        seen = [objects.until(in_all(WANTED, b'"first"')), syncs.until(ready(NAME, WANTED))]
        body = scene.sync(NAME, _FOLDER)
        return await take_audited(scene.scene, operator.pid, lambda: client.create(CONFIGSYNCS, body, HOME), seen)


async def _inside(scene: GitStage, operator: OperatorProcess, number: int) -> gitpush.Pushed:
    path, token = f"{_FOLDER}/{number:02}.yaml", f"here-{number}"
    return await follow(scene, operator, NAME, {path: _manifest(path, token)}, token)


def _manifest(path: str, token: str) -> str:
    place = PurePosixPath(path)
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{place.parent.name}-{place.stem}"},
            "data": {"token": token, "settings.yaml": _PAYLOAD},
        }
    )
