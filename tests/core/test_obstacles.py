"""What of others stands in the way of ours, and the patch that puts ours in its place."""

import time
from typing import Any

import msgspec
import pytest

from syncline.core.fields import owned_fields
from syncline.core.obstacles import clearing_patch
from syncline.core.wire import ManagedFields

VOLUMES = "spec.template.spec.volumes[1].hostPath"


def entry(manager: str, fields: Any, operation: str = "Apply") -> ManagedFields:
    return ManagedFields(manager=manager, operation=operation, fields=msgspec.Raw(msgspec.json.encode(fields)))


def patch(sent: Any, live: Any, ours: Any, theirs: Any, *named: str) -> list[tuple[Any, ...]] | None:
    steps = clearing_patch(sent, live, owned_fields([entry("syncline", ours), entry("them", theirs, "Update")]), named)
    return None if steps is None else [tuple(step.values()) for step in steps]


def pod(*volumes: Any) -> Any:
    return {"spec": {"template": {"spec": {"volumes": list(volumes)}}}}


def of_pod(volumes: Any) -> Any:
    return {"f:spec": {"f:template": {"f:spec": {"f:volumes": volumes}}}}


def key(name: str) -> str:
    return f'k:{{"name":"{name}"}}'


MINE = {".": {}, "f:name": {}}
SCRATCH = {"name": "scratch", "emptyDir": {}}
ROOT = {"name": "scratch", "hostPath": {"path": "/", "type": ""}}


def test_another_kind_of_volume_gives_way_to_ours() -> None:
    steps = patch(
        pod({"name": "conf", "configMap": {"name": "c"}}, SCRATCH),
        pod({"name": "conf", "configMap": {"name": "c"}}, ROOT),
        of_pod({key("conf"): {**MINE, "f:configMap": {"f:name": {}}}, key("scratch"): MINE}),
        of_pod({key("scratch"): {"f:hostPath": {".": {}, "f:path": {}}}}),
        VOLUMES,
    )
    at = "/spec/template/spec/volumes/1"
    assert steps == [("remove", f"{at}/hostPath"), ("add", f"{at}/emptyDir", {})]


def test_it_is_found_where_it_stands_now() -> None:
    theirs_first = pod({"name": "injected", "emptyDir": {}}, ROOT)
    ours, theirs = {key("scratch"): MINE}, {key("injected"): {}, key("scratch"): {"f:hostPath": {}}}
    steps = patch(pod(SCRATCH), theirs_first, of_pod(ours), of_pod(theirs), VOLUMES)
    assert steps is not None
    assert [step[1] for step in steps] == [
        "/spec/template/spec/volumes/1/hostPath",
        "/spec/template/spec/volumes/1/emptyDir",
    ]


def test_what_others_added_elsewhere_stays() -> None:
    sent = {"spec": {"strategy": {"type": "Recreate"}, "replicas": 1}}
    live = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {}}, "replicas": 1, "paused": True}}
    ours = {"f:spec": {"f:replicas": {}, "f:strategy": {".": {}}}}
    theirs = {"f:spec": {"f:paused": {}, "f:strategy": {"f:type": {}, "f:rollingUpdate": {}}}}
    assert patch(sent, live, ours, theirs, "spec.strategy.rollingUpdate") == [
        ("remove", "/spec/strategy/rollingUpdate"),
        ("add", "/spec/strategy/type", "Recreate"),
    ]


def test_a_map_that_is_theirs_as_a_whole_becomes_ours_as_a_whole() -> None:
    sent = {"spec": {"strategy": {"type": "Recreate"}}}
    live = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {}}}}
    theirs = {"f:spec": {"f:strategy": {"f:type": {}, "f:rollingUpdate": {}}}}
    assert patch(sent, live, {"f:spec": {"f:replicas": {}}}, theirs, "spec.strategy.rollingUpdate") == [
        ("add", "/spec/strategy", {"type": "Recreate"})
    ]


def test_an_item_that_is_theirs_as_a_whole_becomes_ours_as_a_whole() -> None:
    steps = patch(pod(SCRATCH), pod(ROOT), of_pod({key("other"): MINE}), of_pod({key("scratch"): MINE}), VOLUMES)
    assert steps == [("replace", "/spec/template/spec/volumes/0", SCRATCH)]


@pytest.mark.parametrize("named", [(), ("",), ("spec.selector",), ("spec.template.spec.volumes[0].name.deep",)])
def test_nothing_goes_that_the_server_has_not_named(named: tuple[str, ...]) -> None:
    theirs = of_pod({key("scratch"): {"f:hostPath": {}}})
    assert patch(pod(SCRATCH), pod(ROOT), of_pod({key("scratch"): MINE}), theirs, *named) is None


def test_nothing_goes_where_nothing_of_ours_is_missing() -> None:
    both = {"name": "scratch", "emptyDir": {}, "hostPath": {}}
    ours, theirs = {key("scratch"): {**MINE, "f:emptyDir": {}}}, {key("scratch"): {"f:hostPath": {}}}
    assert patch(pod(SCRATCH), pod(both), of_pod(ours), of_pod(theirs), VOLUMES) is None


def test_names_are_escaped() -> None:
    sent, live = {"spec": {"a/b": 1}}, {"spec": {"c~d": 2}}
    steps = patch(sent, live, {"f:spec": {".": {}, "f:x": {}}}, {"f:spec": {"f:c~d": {}}}, "spec.c~d")
    assert steps == [("remove", "/spec/c~0d"), ("add", "/spec/a~1b", 1)]


def test_many_items_of_a_list_take_little_time() -> None:
    items = [{"name": f"v{number}", "value": "x"} for number in range(10_000)]
    tree = {f'k:{{"name":"v{number}"}}': {".": {}, "f:name": {}, "f:value": None} for number in range(10_000)}
    fields = msgspec.json.encode({"f:spec": {"f:items": tree}})
    before = time.thread_time()
    body = {"spec": {"items": items}}
    assert clearing_patch(body, body, fields, ["spec.items[0].kind"]) is None
    assert time.thread_time() - before < 2
