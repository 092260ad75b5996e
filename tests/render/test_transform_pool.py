"""Rendering in children: what comes back, and how children come and go."""

import asyncio
import sys

import pytest
from tests.render.children import alive, pids
from tests.render.conftest import Until

from syncline.api.content import Transform
from syncline.render import transform_pool
from syncline.render.errors import RenderFailed, TransformError
from syncline.render.transform_pool import TransformPool
from syncline.render.workers import pool, protocol
from syncline.render.workers.pool import WorkerStopped
from syncline.render.workers.process import TRANSFORM, WorkerCrashed, WorkerProcess
from syncline.render.workers.protocol import TransformSource, TransformTarget

SOURCE = TransformSource("team-a", "settings")
TARGET = TransformTarget("team-b", "settings")
TARGETS = [TransformTarget(f"team-{number}", f"copy-{number}") for number in range(1000)]
UPPER = [Transform(key="*", template="{{ value|upper }}")]
PER_TARGET = [Transform(key="a", template="{{ value }} for {{ target.namespace }}/{{ target.name }}")]


async def test_each_of_a_thousand_targets_gets_its_own_data(renderer: TransformPool) -> None:
    results = await renderer.transform(PER_TARGET, {"a": "x", "b": "y"}, {}, SOURCE, TARGETS)
    assert results == [{"a": f"x for team-{number}/copy-{number}", "b": "y"} for number in range(1000)]


async def test_values_that_no_transform_changes_are_held_once(renderer: TransformPool) -> None:
    data = {"a": "x", "b": "y" * 1000}
    results = await renderer.transform(PER_TARGET, data, {}, SOURCE, TARGETS)
    assert all(result["b"] is data["b"] for result in results)


async def test_one_rendering_is_shared_when_the_target_does_not_matter(renderer: TransformPool) -> None:
    results = await renderer.transform(UPPER, {"a": "x"}, {}, SOURCE, TARGETS)
    assert len(results) == len(TARGETS)
    assert all(result is results[0] for result in results)
    assert results[0] == {"a": "X"}


async def test_equal_renderings_are_shared_also_when_the_target_is_named(renderer: TransformPool) -> None:
    transforms = [Transform(key="a", template="{% if target.name == 'copy-0' %}first{% else %}other{% endif %}")]
    results = await renderer.transform(transforms, {"a": ""}, {}, SOURCE, TARGETS[:50])
    assert results[0] == {"a": "first"}
    assert all(result is results[1] for result in results[1:])
    assert results[1] == {"a": "other"}


async def test_large_results_for_many_targets_take_several_turns(renderer: TransformPool) -> None:
    transforms = [Transform(key="a", template="{{ value }}{{ target.name }}")]
    value = "x" * 500_000
    results = await renderer.transform(transforms, {"a": value}, {}, SOURCE, TARGETS[:40])
    assert [result["a"].removeprefix(value) for result in results] == [target.name for target in TARGETS[:40]]


@pytest.mark.parametrize("data", [{"a": "x" * 500_000}, {"a": ""} | {f"key-{number}": "" for number in range(20_000)}])
async def test_results_that_would_fill_the_operators_memory_are_refused(
    renderer: TransformPool, data: dict[str, str]
) -> None:
    transforms = [Transform(key="a", template="{{ value }}{{ target.name }}")]
    with pytest.raises(RenderFailed, match="gave more than 64 MiB for 1000 targets"):
        await renderer.transform(transforms, data, {}, SOURCE, TARGETS)


async def test_without_targets_nothing_is_rendered(renderer: TransformPool) -> None:
    assert await renderer.transform(UPPER, {"a": "x"}, {}, SOURCE, []) == []


async def test_without_transforms_no_child_is_started(renderer: TransformPool) -> None:
    assert await renderer.transform([], {"a": "x"}, {}, SOURCE, TARGETS[:2]) == [{"a": "x"}, {"a": "x"}]
    assert pids(renderer) == []


async def test_a_wrong_transform_is_told_as_it_is(renderer: TransformPool) -> None:
    with pytest.raises(TransformError) as caught:
        await renderer.transform([Transform(key="a", template="\n{{ no }}")], {"a": "x"}, {}, SOURCE, [TARGET])
    assert (caught.value.index, caught.value.key, caught.value.line, caught.value.target) == (0, "a", 2, None)


async def test_an_error_for_one_target_names_it_and_leaves_the_others_alone(renderer: TransformPool) -> None:
    transforms = [Transform(key="a", template="{% if target.name == 'copy-2' %}{{ no }}{% endif %}")]
    results = await renderer.transform(transforms, {"a": "x"}, {}, SOURCE, TARGETS)
    assert len(results) == len(TARGETS)
    (wrong,) = (result for result in results if isinstance(result, TransformError))
    assert wrong.target == "team-2/copy-2"
    assert "for team-2/copy-2: an undefined value" in str(wrong)
    assert all(result == {"a": ""} for result in results if result is not wrong)


async def test_a_child_is_kept_for_the_next_job(renderer: TransformPool) -> None:
    await renderer.transform(UPPER, {"a": "x"}, {}, SOURCE, [TARGET])
    first = pids(renderer)
    with pytest.raises(TransformError):
        await renderer.transform([Transform(key="a", template="{{")], {"a": "x"}, {}, SOURCE, [TARGET])
    await renderer.transform(UPPER, {"a": "y"}, {}, SOURCE, [TARGET])
    assert pids(renderer) == first


async def test_no_more_children_than_workers(renderer: TransformPool) -> None:
    results = await asyncio.gather(
        *(renderer.transform(PER_TARGET, {"a": str(number)}, {}, SOURCE, TARGETS) for number in range(10))
    )
    assert [result[0]["a"][0] for result in results] == [str(number) for number in range(10)]
    assert len(pids(renderer)) <= 2


async def test_idle_children_end(renderer: TransformPool, until: Until, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "IDLE_SECONDS", 0.01)
    await renderer.transform(UPPER, {"a": "x"}, {}, SOURCE, [TARGET])
    await until(lambda: pids(renderer) == [])
    assert await renderer.transform(UPPER, {"a": "x"}, {}, SOURCE, [TARGET]) == [{"a": "X"}]


async def test_closing_ends_children_and_refuses_work() -> None:
    renderer = TransformPool()
    await renderer.transform(UPPER, {"a": "x"}, {}, SOURCE, [TARGET])
    (pid,) = pids(renderer)
    assert alive(pid)
    await renderer.close()
    assert not alive(pid)
    with pytest.raises(RenderFailed, match="the operator is stopping"):
        await renderer.transform(UPPER, {"a": "x"}, {}, SOURCE, [TARGET])
    await renderer.close()


async def test_closing_fails_what_is_under_way(until: Until) -> None:
    renderer = TransformPool(workers=1)
    work = [asyncio.create_task(renderer.transform(UPPER, {"a": str(n)}, {}, SOURCE, [TARGET])) for n in range(5)]
    await until(lambda: pids(renderer) != [])
    await asyncio.gather(renderer.close(), renderer.close())
    assert pids(renderer) == []
    results = await asyncio.gather(*work, return_exceptions=True)
    assert all(isinstance(result, RenderFailed) for result in results)


async def test_a_cancelled_job_takes_its_child_along(renderer: TransformPool, until: Until) -> None:
    transforms = [Transform(key="*", template="{{ value }}{{ target.name }}")]
    work = asyncio.create_task(renderer.transform(transforms, {"a": "x" * 100_000}, {}, SOURCE, TARGETS))
    await until(lambda: pids(renderer) != [])
    (pid,) = pids(renderer)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    await until(lambda: not alive(pid))
    assert await renderer.transform(UPPER, {"a": "x"}, {}, SOURCE, [TARGET]) == [{"a": "X"}]


async def test_a_child_that_was_killed_while_idle_is_replaced(renderer: TransformPool, until: Until) -> None:
    await renderer.transform(UPPER, {"a": "x"}, {}, SOURCE, [TARGET])
    (only,) = renderer._pool.processes
    only.kill()
    await until(lambda: pids(renderer) == [])
    assert await renderer.transform(UPPER, {"a": "x"}, {}, SOURCE, [TARGET]) == [{"a": "X"}]


IMPOSTOR = """
import sys
from syncline.render.workers.framing import frame
from syncline.render.workers.protocol import *
"""


@pytest.mark.parametrize(
    "says",
    [
        "b'plain text, as after a stray print'",
        "bytes([0, 0, 0, 1, 0xC1])",
        "bytes([0xFF] * 8)",
        "frame(Ready(True)) + frame(Done(False))",
        "frame(Repeated()) * 10",
        "frame(Rendered({'a': 'x' * 7_000_000})) * 10",
        "b''",
    ],
)
async def test_a_child_that_breaks_the_protocol_is_not_believed(says: str) -> None:
    job = protocol.TransformJob(UPPER, {"a": "x"}, {}, SOURCE, TARGETS[:5])
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-c",
            IMPOSTOR + f"sys.stdout.buffer.write({says})",
        ),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    impostor = WorkerProcess(TRANSFORM, process, process.stdin, process.stdout)
    results = transform_pool._Results(job)
    with pytest.raises((WorkerCrashed, WorkerStopped)):
        results.add(await impostor.perform(job, 5.0))
    impostor.kill()
    await impostor.gone
