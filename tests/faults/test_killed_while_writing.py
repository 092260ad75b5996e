"""The operator is killed with -9 in the middle of a fan-out to 1,000 namespaces, ten times over."""

from collections.abc import Callable
from contextlib import ExitStack

import pytest
from tests.faults.observer import Observer
from tests.faults.scene import HOME, NAME, Place, Scene, marker_of, turns, wait_until

from syncline.core.ownership import OWNER_LABEL
from syncline.testing.audit import OPERATOR, AuditLog
from syncline.testing.fixtures import SandboxFactory
from syncline.testing.operator import OperatorProcess

TARGETS = [f"team-{number:04}" for number in range(1000)]
# How many copies have the newest value when the operator dies.
DEATHS = (1, 40, 150, 300, 450, 600, 700, 800, 900, 970)


@pytest.mark.timeout(900)
def test_ten_crashes_in_a_fan_out_end_in_the_right_state_and_a_restart_writes_nothing(
    sandbox_factory: SandboxFactory,
) -> None:
    scene = Scene(sandbox_factory(audit_log=True))
    scene.namespaces(TARGETS, tier="team")
    scene.namespace("bystander")
    scene.config_map("bystander", NAME, {OWNER_LABEL: "somebody"}, value="foreign")
    before = scene.all_places()
    with Observer(scene.sandbox.kubeconfig) as observer, ExitStack() as stack:
        story = Story(scene, observer, before, stack)
        story.edit()
        scene.sync(destinationNamespaceSelector={"matchLabels": {"tier": "team"}})
        for death in DEATHS:
            story.crash_in_the_middle(death)
            story.check_all()
            story.check_that_a_restart_writes_nothing()
            story.edit()
        story.crash_while_deleting()
        sources = {str(number) for number in range(1, story.edits + 1)}
        seen = {data["value"] for _, data in observer.history if data is not None}
        assert seen <= {*sources, "foreign"}, "a copy held what its source never did"


class Story:
    """One operator after the other, on one cluster."""

    def __init__(self, scene: Scene, observer: Observer, before: set[Place], stack: ExitStack) -> None:
        self.edits = 0
        self._scene = scene
        self._observer = observer
        self._before = before
        self._stack = stack
        self._audit = AuditLog(scene.sandbox)
        self._operator = self._start()

    def edit(self) -> None:
        self.edits += 1
        self._scene.source(value=str(self.edits))

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
        bystander = copies.pop(("bystander", NAME))
        assert bystander["data"] == {"value": "foreign"}
        assert copies.keys() == {(namespace, NAME) for namespace in TARGETS}
        for (namespace, _), copy in copies.items():
            assert copy["data"] == {"value": str(self.edits)}
            assert marker_of(copy)["at"].endswith(f"{namespace}/{NAME}")
        assert self._scene.all_places() == {*self._before, (HOME, NAME), *copies}
        sync = self._scene.get_sync()
        assert sync is not None
        assert sync["status"]["targets"]["summary"] == f"{len(TARGETS)}/{len(TARGETS)}"
        assert sync["status"]["observedGeneration"] == sync["metadata"]["generation"]

    def check_that_a_restart_writes_nothing(self) -> None:
        self._operator.kill()
        killed = self._audit.mark()
        self._operator = self._start()
        self._wait(lambda: turns(self._operator) >= 1, "the first turn after a restart")
        assert not self._audit.writes(OPERATOR, since=killed, until=self._audit.mark())

    def crash_while_deleting(self) -> None:
        self._scene.delete_sync()
        self._wait(lambda: len(self._observer.data()) <= len(TARGETS) // 2, "half of the copies to be gone")
        self._operator.kill()
        self._operator = self._start()
        self._wait(lambda: self._scene.get_sync() is None, "the sync to be gone")
        assert self._scene.all_places() == {*self._before, (HOME, NAME)}
        assert self._operator.stop() == 0

    def _start(self) -> OperatorProcess:
        return self._stack.enter_context(OperatorProcess(self._scene.kubeconfig))

    def _is_done(self) -> bool:
        """Whether the status speaks of the newest source, and says that all is well."""
        if self._observer.holding(str(self.edits)) < len(TARGETS):
            return False
        source = self._scene.sandbox.request("GET", f"/api/v1/namespaces/{HOME}/configmaps/{NAME}")
        status = (self._scene.get_sync() or {}).get("status") or {}
        current = status.get("sourceRevision") == source["metadata"]["resourceVersion"]
        return current and self._scene.ready().get("status") == "True"

    def _wait(self, check: Callable[[], object], what: str) -> None:
        wait_until(check, what, 180)
