"""The operator in the process of a test, whose parts the test can look at."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.fleet.world import QUICK

from syncline.cli.shipped import shipped
from syncline.engine.cluster import Cluster
from syncline.fleet import Fleet
from syncline.kube import Client, load_kubeconfig
from syncline.operator import Operator
from syncline.reconcilers import BuildTools
from syncline.render.build_pool import BuildPool
from syncline.render.transform_pool import TransformPool
from syncline.settings import Settings

# A kind that a reconcile has opened must not be closed before that has ended, on a busy machine either.
VIEW_GRACE = 15.0


@asynccontextmanager
async def running(kubeconfig: Path, cache: Path) -> AsyncIterator[Operator]:
    """Run the operator in this process, with its own rights."""
    settings = Settings(allow_loopback=True, git_cache=str(cache))
    stop = asyncio.Event()
    async with (
        Client(load_kubeconfig(kubeconfig)) as client,
        TransformPool() as renderer,
        BuildPool() as builder,
        settings.mirrors() as mirrors,
        Fleet(allow_loopback=True, timeouts=QUICK) as fleet,
    ):
        hub, tools = Cluster(client, grace=VIEW_GRACE), BuildTools(renderer, builder, mirrors)
        operator = Operator(hub, tools, fleet, settings, shipped(settings.namespace))
        work = asyncio.create_task(operator.run(stop))
        try:
            yield operator
        finally:
            stop.set()
            await work
