"""The operator is killed with -9 in the middle of a fan-out, time and again.

By default to 150 namespaces and four times; SYNCLINE_FAULTS=all: to 1,000, ten times over.
"""

import os
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from tests.faults.observer import Observer
from tests.faults.scene import NAME, Scene, marker_of, turns, wait_until

from syncline.core.ownership import OWNER_LABEL
from syncline.testing.operator import OperatorProcess

ALL = os.environ.get("SYNCLINE_FAULTS") == "all"
TARGETS = 1000 if ALL else 150
# What part of the copies, in thousandths, has the newest value when the operator dies.
DEATHS = (1, 40, 150, 300, 450, 600, 700, 800, 900, 970) if ALL else (1, 300, 700, 900)


@pytest.mark.timeout(900)
def test_crashes_in_a_fan_out_end_in_the_right_state_and_a_restart_writes_nothing(scene: Scene) -> None:
    with Observer(scene.sandbox.kubeconfig, scene.prefix) as observer, ExitStack() as stack:
        story = Story(scene, observer, stack)
        for death in DEATHS:
            story.crash_in_the_middle(-(-death * TARGETS // 1000))
            story.check_all()
            story.check_that_a_restart_writes_nothing()
            story.edit()
        story.crash_while_deleting()
        sources = {str(number) for number in range(1, story.edits + 1)}
        seen = {data["value"] for _, data in observer.history if data is not None}
        assert seen <= {*sources, "foreign"}, "a copy held what its source never did"


class Story:
    """One operator after the other, on one cluster."""

    def __init__(self, scene: Scene, observer: Observer, stack: ExitStack) -> None:
        self.edits = 0
        self._scene = scene
        self._observer = observer
        self._stack = stack
        self._targets = scene.namespaces(TARGETS)
        self._bystander = scene.namespace("bystander", scene="other")
        scene.config_map(self._bystander, NAME, {OWNER_LABEL: "somebody"}, value="foreign")
        self.edit()
        scene.sync()
        self._operator = self._start()

    def edit(self) -> None:
        self.edits += 1
        self._scene.source(str(self.edits))

    def crash_in_the_middle(self, death: int) -> None:
        """Kill the operator once so many copies have the newest edit; edit on before and after it is back."""
        self._wait(lambda: self._observer.holding(str(self.edits)) >= death, f"{death} copies of edit {self.edits}")
        self.edit()
        self._operator.kill()
        self._operator = self._start()
        self.edit()
        self._wait(self._is_done, "the sync to say that it is done")

    def check_all(self) -> None:
        copies = self._scene.copies()
        assert copies.pop((self._bystander, NAME))["data"] == {"value": "foreign"}
        assert copies.keys() == {(namespace, NAME) for namespace in self._targets}
        for (namespace, _), copy in copies.items():
            assert copy["data"] == {"value": str(self.edits)}
            assert marker_of(copy)["at"].endswith(f"{namespace}/{NAME}")
        assert self._scene.all_places() == {(self._scene.home, NAME), (self._bystander, NAME), *copies}
        assert self._scene.status()["targets"]["summary"] == f"{TARGETS}/{TARGETS}"

    def check_that_a_restart_writes_nothing(self) -> None:
        self._operator.kill()
        killed = self._scene.audit.mark()
        self._operator = self._start()
        self._wait(lambda: turns(self._operator) >= 1, "the first turn after a restart")
        assert not [str(entry) for entry in self._scene.writes(killed)]

    def crash_while_deleting(self) -> None:
        self._scene.delete_sync()
        self._wait(lambda: len(self._observer.data()) <= TARGETS // 2, "half of the copies to be gone")
        self._operator.kill()
        self._operator = self._start()
        self._wait(lambda: self._scene.get_sync() is None, "the sync to be gone")
        assert self._scene.all_places() == {(self._scene.home, NAME), (self._bystander, NAME)}
        assert self._operator.stop() == 0

    def _start(self) -> OperatorProcess:
        return self._stack.enter_context(OperatorProcess(self._scene.kubeconfig))

    def _is_done(self) -> bool:
        return self._observer.holding(str(self.edits)) == TARGETS and self._scene.is_settled()

    def _wait(self, check: Callable[[], object], what: str) -> None:
        wait_until(check, what, 240)
