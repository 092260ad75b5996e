"""Sixteen slow transforms or builds of one namespace: another namespace is served before any of them ends."""

import asyncio

from tests.render.conftest import Until
from tests.render.test_hostile import LARGE, NEIGHBOUR, SOURCE, TARGET, UPPER, template
from tests.render.test_hostile_builds import ENDLESS, HONEST, recipe, tree

from syncline.fairness import on_behalf_of
from syncline.render.build_pool import BuildPool
from syncline.render.transform_pool import TransformPool

ATTACKERS = 16
LONG = 600.0
"""Of seconds: no attacker ends by itself while a test runs."""
SLOW = template("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}")


async def test_sixteen_slow_transforms_of_one_namespace_hold_up_no_other(until: Until) -> None:
    async with TransformPool(deadline=LONG) as renderer:

        async def attack(number: int) -> None:
            # Its syncs read what everybody reads: that does not make them everybody's.
            on_behalf_of.set("mallory")
            await renderer.transform(SLOW, LARGE | {"n": str(number)}, {}, NEIGHBOUR, [TARGET])

        crowd = [asyncio.create_task(attack(number)) for number in range(ATTACKERS)]
        await until(lambda: len(renderer._pool.processes) == 2)
        for source in (NEIGHBOUR, SOURCE):
            assert await renderer.transform(UPPER, {"a": "b"}, {}, source, [TARGET]) == [{"a": "B"}]
        assert not any(task.done() for task in crowd)
        for task in crowd:
            task.cancel()
        await asyncio.gather(*crowd, return_exceptions=True)


async def test_sixteen_slow_builds_of_one_namespace_hold_up_no_other(until: Until) -> None:
    async with BuildPool(deadline=LONG) as builder:
        crowd = [
            asyncio.create_task(builder.build(tree(ENDLESS | {"n": str(number)}), recipe("mallory")))
            for number in range(ATTACKERS)
        ]
        await until(lambda: len(builder._pool.processes) == 2)
        assert (await builder.build(HONEST, recipe("alice"))).documents
        assert not any(task.done() for task in crowd)
        for task in crowd:
            task.cancel()
        await asyncio.gather(*crowd, return_exceptions=True)
