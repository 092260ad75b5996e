"""One cluster under two names, as a spec has it that wants other patches or policies in other namespaces of it."""

from collections.abc import Iterator

import pytest
from tests.configmapsync.world import until
from tests.fleet.scene import Scene, becomes, edge, turns
from tests.fleet.world import Remote

from syncline.sandbox import Sandbox
from syncline.testing.operator import OperatorProcess


@pytest.fixture
def scene(sandbox: Sandbox, remote: Remote, operator: OperatorProcess) -> Iterator[Scene]:
    remote.allow("namespaces", "configmaps", "secrets")
    scene = Scene(sandbox, remote)
    yield scene
    scene.end()
    assert operator.returncode is None, operator.log()[-2000:]


def test_the_copies_under_one_name_are_not_unwanted_under_the_other(scene: Scene) -> None:
    first, second, third = scene.there("a"), scene.there("b"), scene.there("c")
    scene.credential()
    scene.source(password="one")
    sync = scene.sync(edge(first, name="green"), edge(second, third, name="blue"))
    turns(sync, "True", "Synced")
    uids = {name: scene.copy(name).read()["metadata"]["uid"] for name in (first, second, third)}
    scene.source(password="two")
    for namespace, uid in uids.items():
        becomes(scene.copy(namespace), "two")
        assert scene.copy(namespace).read()["metadata"]["uid"] == uid
    turns(sync, "True", "Synced")
    scene.sync(edge(first, name="green"), edge(second, name="blue"))
    until(scene.copy(third).look, lambda seen: seen is None)
    turns(sync, "True", "Synced")
    assert {name: scene.copy(name).read()["metadata"]["uid"] for name in (first, second)} == {
        name: uids[name] for name in (first, second)
    }
