"""Why a cluster is away is told anew with each probe, and the cause that tells most is shown."""

import asyncio
from collections.abc import Sequence

import pytest

from syncline.fleet.circuit_breaker import CircuitBreaker, ClusterHealth, Timeouts
from syncline.kube.errors import KubeError, ServerError, Unreachable

PACE = Timeouts(heartbeat=0.0, confirm=0.0, backoff_min=0.0, backoff_max=0.0)
REFUSED = Unreachable("cannot connect: Connection refused")
LOOKUP = Unreachable("cannot connect: Name or service not known")
BROKE = Unreachable("the connection broke: Server disconnected", vague=True)
LATE = Unreachable("did not answer in time", vague=True)


def failed(message: str) -> ServerError:
    return ServerError(500, "InternalError", message, verb="get", resource="namespaces")


async def told(*answers: KubeError | str) -> list[ClusterHealth]:
    """Return what is told of a cluster whose probes come to these ends, after it was up."""
    changes: list[ClusterHealth] = []
    script = iter(("uid", *answers))
    done = asyncio.Event()

    async def check() -> str:
        answer = next(script, None)
        if answer is None:
            done.set()
            await asyncio.Event().wait()
        if isinstance(answer, KubeError):
            raise answer
        return str(answer)

    breaker = CircuitBreaker(
        "edge", PACE, check=check, on_change=lambda: changes.append(breaker.health), on_other_cluster=lambda: None
    )
    loop = asyncio.create_task(breaker.run())
    async with asyncio.timeout(180):
        await done.wait()
    loop.cancel()
    await asyncio.wait([loop])
    return changes


@pytest.mark.parametrize(
    ("answers", "messages"),
    [
        ([BROKE, BROKE, REFUSED], [str(BROKE), str(REFUSED)]),
        ([REFUSED, REFUSED, REFUSED, REFUSED], [str(REFUSED)]),
        ([REFUSED, REFUSED, LOOKUP, LOOKUP], [str(REFUSED), str(LOOKUP)]),
        ([REFUSED, REFUSED, BROKE, REFUSED, LATE, REFUSED], [str(REFUSED)]),
        ([REFUSED, REFUSED, BROKE, LATE], [str(REFUSED), str(LATE)]),
        ([failed("one"), failed("two"), failed("three")], [str(failed("two"))]),
        (
            [failed("one"), failed("two"), REFUSED, failed("three")],
            [*map(str, (failed("two"), REFUSED, failed("three")))],
        ),
    ],
    ids=[
        *("what tells more replaces what tells little", "the same is told once", "another cause replaces the first"),
        *("what tells little replaces nothing", "unless it stays", "a server's words are told once"),
        "and anew after another cause",
    ],
)
async def test_the_cause_is_that_of_the_last_probe_that_tells_one(
    answers: Sequence[KubeError], messages: list[str]
) -> None:
    changes = await told(*answers)
    assert [health.message for health in changes] == ["the cluster answers", *messages]
    assert len({health.since for health in changes[1:]}) == 1


async def test_a_cluster_that_is_back_begins_anew() -> None:
    changes = await told(REFUSED, REFUSED, "uid", BROKE, BROKE)
    assert [health.state for health in changes] == ["Up", "Down", "Up", "Down"]
    assert changes[-1].message == str(BROKE)
