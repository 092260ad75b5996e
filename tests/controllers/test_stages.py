"""The stages of writes: what is opened, recorded and written before what."""

from collections.abc import Sequence

import pytest
from tests.controllers.upward_world import UpwardWorld

from syncline.controllers.targets.apply import namespaced_in
from syncline.controllers.targets.stages import DesiredAt, apply_in_stages, begin_kinds
from syncline.core.objects import Body, Content, Desired, Target
from syncline.core.outcome import Outcome

CRD = "CustomResourceDefinition.apiextensions.k8s.io"


def wanted(world: UpwardWorld, target: Target, body: Body | None) -> DesiredAt:
    desired = Desired(target=target, content=Content(), body=body, digest="d", source="s", revision="1")
    return DesiredAt(world.sites["east"], desired)


def space(world: UpwardWorld, name: str) -> DesiredAt:
    return wanted(world, Target("", name, "Namespace", "east"), Body("v1", "Namespace", {}))


def data(world: UpwardWorld, namespace: str) -> DesiredAt:
    return wanted(world, Target(namespace, "settings", "ConfigMap", "east"), None)


def unserved(world: UpwardWorld, namespace: str) -> DesiredAt:
    body = Body("example.test/v1", "Nothing", {})
    return wanted(world, Target(namespace, "settings", "Nothing.example.test", "east"), body)


async def test_kinds_of_independent_objects_are_open_before_the_first_namespace_is_written(world: UpwardWorld) -> None:
    """The first lists of all kinds take as long as one, and no copy waits for the list of its kind."""
    cluster = world.sites["east"].cluster
    first, copy, unknown = space(world, "first"), data(world, "first"), unserved(world, "first")
    assert not cluster.is_open("ConfigMap")
    calls: list[tuple[list[DesiredAt], list[DesiredAt]]] = []

    async def write(ready: Sequence[DesiredAt], later: Sequence[DesiredAt]) -> list[Outcome]:
        assert cluster.informer("Namespace").synced
        assert cluster.informer("ConfigMap").synced
        calls.append(([*ready], [*later]))
        return [Outcome(target=one.desired.target, state="Synced", reason="Created") for one in ready]

    outcomes = await apply_in_stages([first, copy, unknown], write, lambda: False, independent=True)
    assert calls == [([first], [copy]), ([copy], [])]
    assert {outcome.target.kind: outcome.reason for outcome in outcomes} == {
        "Namespace": "Created",
        "ConfigMap": "Created",
        "Nothing.example.test": "KindNotServed",
    }


async def test_kinds_begin_to_be_watched_without_a_wait_for_their_lists(world: UpwardWorld) -> None:
    cluster = world.sites["east"].cluster
    await begin_kinds([unserved(world, "first"), data(world, "first"), space(world, "first")])
    assert cluster.is_open("ConfigMap")
    assert not cluster.informer("ConfigMap").synced
    assert cluster.is_open("Namespace")
    assert not cluster.is_open("Nothing.example.test")


@pytest.mark.parametrize("defines", [False, True])
async def test_kinds_of_later_stages_are_watched_from_the_first_write_on_unless_the_objects_define_kinds(
    world: UpwardWorld, *, defines: bool
) -> None:
    """A kind that an earlier stage defines is not served yet; to ask for it would only cost requests."""
    cluster, opened = world.sites["east"].cluster, []

    async def write(ready: Sequence[DesiredAt], _: Sequence[DesiredAt]) -> list[Outcome]:
        opened.append(cluster.is_open("ConfigMap"))
        return [Outcome(target=one.desired.target, state="Synced", reason="Created") for one in ready]

    definition = [wanted(world, Target("", "a.b.c", CRD, "east"), Body("apiextensions.k8s.io/v1", "X", {}))]
    items = [space(world, "first"), data(world, "first"), *(definition if defines else ())]
    await apply_in_stages(items, write, lambda: False)
    assert opened[0] is not defines
    assert opened[-1]


async def test_what_is_in_a_namespace_that_is_written_now_is_recorded_with_it(world: UpwardWorld) -> None:
    """So the inventory is written once before the first write, and not again for what follows the namespaces."""
    first, inside, elsewhere = space(world, "first"), data(world, "first"), data(world, "second")
    assert namespaced_in([first], [inside, elsewhere]) == [inside]
    assert namespaced_in([inside], [inside, elsewhere]) == []
