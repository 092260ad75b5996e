"""Hostile transforms: each costs its author a clear error, and nobody else anything."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.render.children import Watcher, pids
from tests.render.conftest import Until

from syncline.api.content import Replace, Transform
from syncline.render.errors import RenderError, RenderFailed
from syncline.render.transform_pool import TransformPool
from syncline.render.workers import confinement
from syncline.render.workers.protocol import TransformSource, TransformTarget

SOURCE = TransformSource("hostile", "settings")
NEIGHBOUR = TransformSource("honest", "settings")
TARGET = TransformTarget("team", "settings")
LARGE = {"a": "a" * 1_000_000}
UPPER = [Transform(key="*", template="{{ value|upper }}")]

# Linear for each match, and a match for each character.
QUADRATIC = [Transform(key="*", replace=Replace(pattern="a*b|a", with_="c"))]

DOUBLING = (
    "{% set ns = namespace(s=value) %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s|length }}"
)
LIST_DOUBLING = (
    "{% set ns = namespace(l=[value]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}"
    "{{ ns.l|list|length }}"
)


def template(text: str) -> list[Transform]:
    return [Transform(key="*", template=text)]


@pytest.mark.parametrize(
    "transforms",
    [
        pytest.param(template(DOUBLING), id="a string doubled"),
        pytest.param(template(LIST_DOUBLING), id="a list doubled"),
        pytest.param(template("{{ value|replace('a', value) }}"), id="a value in place of each of its characters"),
        pytest.param(template("{% for i in range(99999) %}{{ value }}{% endfor %}"), id="endless output"),
        pytest.param(template("{{ 'x' * 99999999999 }}"), id="a huge product"),
        pytest.param(template("{{ 9 ** 9 ** 9 ** 9 }}"), id="a huge power"),
        pytest.param(template("{{ range(9999999999)|list }}"), id="a long range"),
        pytest.param(
            template("{% for i in range(99999) %}{% for j in range(99999) %}{{ i }}{% endfor %}{% endfor %}"),
            id="nested loops",
        ),
        pytest.param(
            template("{% macro m(n) %}{{ m(n) }}{{ m(n) }}{% endmacro %}{{ m(1) }}"), id="a macro that calls itself"
        ),
        pytest.param(
            template("{% for i in range(99999) %}{{ value|list|sort|unique|list|length }}{% endfor %}"),
            id="slow filters",
        ),
        pytest.param(template("{{ '%999999999d'|format(1) }}"), id="a wide format"),
        pytest.param(template("{{ value|indent(999999999) }}"), id="a wide indentation"),
        pytest.param(template("{{ value|list|batch(999999999, value)|list }}"), id="a large batch"),
        pytest.param(template("{{ 1" + "+1" * 30_000 + " }}"), id="a long chain"),
        pytest.param(template("{{ " + "-" * 60_000 + "1 }}"), id="deep negation"),
        pytest.param(template("{{ " + "(" * 30_000 + "1" + ")" * 30_000 + " }}"), id="deep parentheses"),
        pytest.param(template("{% if 0 %}" + "{% elif 0 %}" * 5_000 + "{% endif %}{{ no }}"), id="a long elif chain"),
        pytest.param(QUADRATIC, id="a quadratic pattern"),
        pytest.param(
            [Transform(key="*", replace=Replace(pattern="", with_="x" * 4096))], id="a replacement that amplifies"
        ),
        pytest.param(
            [Transform(key="*", replace=Replace(pattern="((a{100}){100}){100}b", with_=""))], id="a huge pattern"
        ),
        pytest.param([Transform(key="*", replace=Replace(pattern="(" * 1024, with_=""))], id="a deep pattern"),
        pytest.param([Transform(key=f"k{n}", set="x" * 65536) for n in range(50)], id="many large keys"),
    ],
)
async def test_a_bomb_fails_and_the_operator_goes_on(
    renderer: TransformPool, watcher: Watcher, transforms: list[Transform]
) -> None:
    async with asyncio.timeout(240):
        with pytest.raises(RenderError) as caught:
            await renderer.transform(transforms, LARGE, {}, SOURCE, [TARGET])
        assert await renderer.transform(UPPER, {"a": "x"}, {}, NEIGHBOUR, [TARGET]) == [{"a": "X"}]
    assert len(str(caught.value)) < 300
    assert watcher.peak_memory < 64 * 1024 * 1024 + confinement.TRANSFORM_MEMORY
    assert watcher.longest_stall < 1


@asynccontextmanager
async def under_way(renderer: TransformPool, jobs: int) -> AsyncIterator[list[asyncio.Task[list[dict[str, str]]]]]:
    """Start jobs that only their deadline ends."""
    tasks = [
        asyncio.create_task(renderer.transform(QUADRATIC, LARGE | {"n": str(number)}, {}, SOURCE, [TARGET]))
        for number in range(jobs)
    ]
    yield tasks
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_neighbour_is_served_while_a_hostile_job_runs(renderer: TransformPool, until: Until) -> None:
    async with under_way(renderer, 1) as (hostile,):
        await until(lambda: pids(renderer) != [])
        assert await renderer.transform(UPPER, {"a": "x"}, {}, NEIGHBOUR, [TARGET]) == [{"a": "X"}]
        assert not hostile.done()


async def test_a_neighbour_does_not_wait_for_a_crowd_of_hostile_jobs(until: Until) -> None:
    async with TransformPool(deadline=1.0) as renderer, under_way(renderer, 20) as crowd:
        await until(lambda: len(pids(renderer)) == 2)
        assert await renderer.transform(UPPER, {"a": "x"}, {}, NEIGHBOUR, [TARGET]) == [{"a": "X"}]
        assert sum(task.done() for task in crowd) < 10


async def test_what_was_stopped_is_not_tried_again_at_once(until: Until) -> None:
    async with TransformPool(deadline=0.5) as renderer:
        with pytest.raises(RenderFailed, match="and were stopped") as first:
            await renderer.transform(QUADRATIC, LARGE, {}, SOURCE, [TARGET])
        assert first.value.retry_after == 10
        await until(lambda: pids(renderer) == [])
        with pytest.raises(RenderFailed) as second:
            await renderer.transform(QUADRATIC, LARGE, {}, SOURCE, [TARGET])
        assert 0 < second.value.retry_after <= 10
        assert str(second.value) == str(first.value)
        assert pids(renderer) == []


async def test_a_corrected_transform_is_tried_at_once() -> None:
    async with TransformPool(deadline=0.5) as renderer:
        with pytest.raises(RenderFailed):
            await renderer.transform(QUADRATIC, LARGE, {}, SOURCE, [TARGET])
        assert await renderer.transform(UPPER, {"a": "x"}, {}, SOURCE, [TARGET]) == [{"a": "X"}]
        assert await renderer.transform(QUADRATIC, {"a": "aa"}, {}, SOURCE, [TARGET]) == [{"a": "cc"}]


async def test_too_much_memory_is_told_apart_from_too_much_time(renderer: TransformPool) -> None:
    with pytest.raises(RenderFailed, match="more than 96 MiB of memory, or nested too deeply"):
        await renderer.transform(template(DOUBLING), LARGE, {}, SOURCE, [TARGET])


async def test_many_targets_that_are_slow_each_have_an_end() -> None:
    slow = [
        Transform(key="n", template="{{ target.name }}"),
        Transform(key="a", replace=Replace(pattern="a*b|a", with_="c")),
    ]
    targets = [TransformTarget("team", str(number)) for number in range(100)]
    async with TransformPool(deadline=2.0) as renderer:
        with pytest.raises(RenderFailed):
            await renderer.transform(slow, {"a": "a" * 30_000, "n": ""}, {}, SOURCE, targets)
