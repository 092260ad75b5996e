"""The resources of SyncTargets, as syncs come, look and go."""

from collections.abc import Sequence

from syncline.api.common import TargetState
from syncline.api.synctarget import SyncedResource
from syncline.controllers.targets.synced_resources import SyncedResourceTracker
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.kube.cache import Key

EDGE, PROD = Key("fleet", "edge"), Key("fleet", "prod")
BLUE, RED = Key("blue", "ManifestSync/app"), Key("red", "ConfigSync/web")


class Published:
    """What was published, SyncTarget by SyncTarget."""

    def __init__(self) -> None:
        self.resources: dict[Key, list[str]] = {}
        self.times = 0
        self.certain: dict[Key, bool] = {}
        self.is_complete = False
        self.registry = SyncedResourceTracker(self._publish, self._complete)

    def _publish(self, key: Key, entries: Sequence[SyncedResource], certain: bool) -> None:
        self.times += 1
        self.certain[key] = certain
        self.resources[key] = [entry.name for entry in entries]

    def _complete(self) -> None:
        self.is_complete = True


def at(cluster: str, *kinds: str, state: TargetState = "Synced") -> list[Outcome]:
    return [Outcome(target=Target("team", "x", kind, cluster), state=state, reason="Reason") for kind in kinds]


def test_each_sync_target_has_what_its_syncs_write_there() -> None:
    published = Published()
    published.registry.observe(BLUE, {"e": EDGE, "p": PROD}, at("e", "Secret") + at("p", "ConfigMap"), {})
    published.registry.observe(RED, {"edge": EDGE}, at("edge", "ConfigMap"), {"ConfigMap": "configmaps"})
    assert published.resources == {EDGE: ["Secret", "configmaps"], PROD: ["configmaps"]}


def test_a_name_that_is_learnt_later_is_published_though_the_verdict_stays() -> None:
    published = Published()
    published.registry.observe(BLUE, {"e": EDGE}, at("e", "Widget.example.com"), {})
    assert published.resources == {EDGE: ["Widget.example.com"]}
    for _ in range(2):
        published.registry.observe(BLUE, {"e": EDGE}, at("e", "Widget.example.com"), {"Widget.example.com": "widgets"})
    assert published.resources == {EDGE: ["widgets"]}
    assert published.times == 2


def test_nothing_is_published_while_nothing_changes() -> None:
    published = Published()
    for state in ("Synced", "Synced", "Unknown", "Conflict"):
        published.registry.observe(BLUE, {"e": EDGE}, at("e", "Secret", state=state), {})
    assert published.times == 1


def test_what_a_sync_no_longer_writes_goes_as_does_a_sync() -> None:
    published = Published()
    published.registry.observe(BLUE, {"e": EDGE, "p": PROD}, at("e", "Secret") + at("p", "Secret"), {})
    published.registry.observe(BLUE, {"e": EDGE}, at("e", "ConfigMap"), {})
    assert published.resources == {EDGE: ["ConfigMap"], PROD: []}
    published.registry.forget(BLUE)
    assert published.resources == {EDGE: [], PROD: []}


def test_a_sync_that_does_not_look_has_what_it_has_written_until_it_looks() -> None:
    published = Published()
    assert not published.registry.knows(BLUE)
    published.registry.restore(BLUE, {EDGE: ("Secret", "ConfigMap")}, {})
    assert published.resources == {EDGE: ["ConfigMap", "Secret"]}
    assert published.registry.knows(BLUE)
    published.registry.observe(BLUE, {"e": EDGE}, at("e", "Secret"), {})
    assert published.resources == {EDGE: ["Secret"]}


def test_a_sync_that_could_not_look_yet_changes_nothing_that_was_known() -> None:
    """As when the operator starts faster than it reaches an upstream: a status that was right is not written again."""
    published = Published()
    published.registry.expect([BLUE])
    published.registry.restore(BLUE, {EDGE: ("Secret",)}, {}, will_look=True)
    assert not published.certain[EDGE]
    published.registry.observe(BLUE, {"e": EDGE}, at("e", "Secret"), {})
    assert published.certain[EDGE]
    assert published.resources == {EDGE: ["Secret"]}


def test_a_sync_that_has_not_looked_at_everything_leaves_what_it_has_written() -> None:
    """As when a resource of the upstream could not be read yet: its copies have no outcomes."""
    published = Published()
    published.registry.expect([BLUE])
    published.registry.observe(BLUE, {"e": EDGE}, [], {}, {EDGE: ("Secret",)})
    assert not published.certain[EDGE]
    published.registry.observe(BLUE, {"e": EDGE}, at("e", "Secret"), {})
    assert published.certain[EDGE]
    published.registry.observe(BLUE, {"e": EDGE}, [], {}, {EDGE: ("Secret",)})
    assert published.resources == {EDGE: ["Secret"]}
    published.registry.observe(BLUE, {"e": EDGE}, [], {})
    assert published.resources == {EDGE: []}


def test_a_resource_that_nobody_speaks_of_is_certainly_unused_only_once_all_could_look() -> None:
    published = Published()
    published.registry.expect([BLUE, RED])
    published.registry.observe(BLUE, {"e": EDGE}, at("e", "Secret"), {})
    assert not published.certain[EDGE]
    published.registry.observe(RED, {"e": EDGE}, at("e", "ConfigMap", state="Unknown"), {})
    assert not published.certain[EDGE]
    published.registry.observe(RED, {"e": EDGE}, at("e", "ConfigMap"), {})
    assert published.certain[EDGE]
    published.registry.observe(RED, {"e": EDGE}, at("e", "ConfigMap", state="Unknown"), {})
    assert published.certain[EDGE]
    assert published.resources == {EDGE: ["ConfigMap", "Secret"]}


def test_it_is_complete_once_every_sync_was_heard_or_is_gone() -> None:
    published = Published()
    published.registry.expect([BLUE, RED])
    published.registry.observe(BLUE, {}, [], {})
    assert not published.is_complete
    published.registry.forget(RED)
    assert published.is_complete
    empty = Published()
    empty.registry.expect([])
    assert empty.is_complete
