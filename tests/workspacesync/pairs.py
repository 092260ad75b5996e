"""A ConfigMap upstream and its copy below, as the tests of conflicts have them."""

from typing import Any

from tests.configmapsync.world import until
from tests.workspacesync.world import Workspaces, WorkspaceSync, resource

RED = {"colour": "red", "size": "small"}


class Pair:
    """A ConfigMap upstream and its copy below."""

    def __init__(self, world: Workspaces, strategy: str, direction: str = "Down", **spec: Any) -> None:
        self.world = world
        self.namespace = world.above("shop")
        self.source = world.data(self.namespace, colour="red", size="small")
        chosen = resource("configmaps", direction=direction)
        self.sync: WorkspaceSync = world.wsync("sync", chosen, conflictStrategy=strategy, **spec)
        self.copy = world.down("ConfigMap", self.namespace)
        self.copy.holds_data(colour="red", size="small")
        self.sync.is_ready()

    def edit(self, above: dict[str, str] | None = None, below: dict[str, str] | None = None) -> None:
        """Have both sides edited before the sync looks again."""
        with self.world.asleep(self.sync):
            for thing, values in ((self.source, above), (self.copy, below)):
                if values:
                    thing.edit(lambda body: body["data"].update(values))  # noqa: B023 - called at once

    def hold(self, above: dict[str, str], below: dict[str, str]) -> None:
        """Wait until both sides hold this, and no reconcile changes it."""
        until(lambda: (self.source.at("data"), self.copy.at("data")), lambda seen: seen == (above, below))
        self.world.comes_to_rest(self.sync)
        assert (self.source.at("data"), self.copy.at("data")) == (above, below)
