"""A restarted operator is shown the cluster as it was a while ago, and acts on it before it learns better."""

import threading

from tests.faults.scene import LABEL, NAME, Json, Scene, calm_operator, turns, wait_until

from syncline.core.ownership import OWNER_LABEL
from syncline.kube import CONFIGMAPS
from syncline.testing.faults import Asked, Fault, Lines
from syncline.testing.proxy import FaultProxy

_KINDS = [
    ("namespaces", None),
    ("configmaps", OWNER_LABEL),
    ("configmaps", f"!{OWNER_LABEL}"),
    ("configmapsyncs", None),
]


class Recording:
    """The list of one kind, to be told again later."""

    def __init__(self, proxy: FaultProxy, resource: str, selector: str | None) -> None:
        self._lines: list[bytes] = []
        self._proxy = proxy
        self._what = (resource, selector)
        self._rule = proxy.inject(Fault(events=self._record), when=self._is_list)

    def replay(self) -> None:
        """Answer with what was recorded from now on."""
        self._rule.lift()
        self._proxy.inject(Fault(events=self._repeat), when=self._is_list)

    def _is_list(self, asked: Asked) -> bool:
        return (
            asked.verb == "watch" and asked.lists and (asked.resource, asked.query.get("labelSelector")) == self._what
        )

    async def _record(self, lines: Lines) -> Lines:
        async for line in lines:
            self._lines.append(line)
            yield line

    async def _repeat(self, lines: Lines) -> Lines:
        async for _ in lines:
            for line in self._lines:
                yield line
            return


def test_what_changed_unseen_is_neither_overwritten_nor_deleted(scene: Scene, proxy: FaultProxy) -> None:
    kept, taken, left, seized = (scene.namespace(short) for short in ("kept", "taken", "left", "seized"))
    scene.source("1")
    scene.sync()
    recordings = [Recording(proxy, *kind) for kind in _KINDS]
    with calm_operator(scene.kubeconfig):
        scene.wait_for([kept, taken, left, seized], "1")
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)):
        pass  # it has listed everything, and these lists are what the next one will see

    scene.source("2")
    clone = scene.copies()[kept, NAME]
    for namespace in (taken, seized):
        scene.delete_config_map(namespace)
        _clone(scene, clone, namespace)
    scene.delete_config_map(kept)
    _label(scene, left, "other")
    _label(scene, seized, "other")
    foreign = _versions(scene, taken, seized)
    new = scene.namespace("new")

    for recording in recordings:
        recording.replay()
    told = threading.Event()
    late = proxy.inject(
        Fault(before=lambda: told.wait(600)), when=lambda asked: asked.follows and asked.resource in dict(_KINDS)
    )
    before = scene.audit.mark()
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)):
        wait_until(lambda: len(late.hits) >= len(_KINDS), "the operator to believe what it was shown")
        wait_until(lambda: scene.ready().get("reason") == "NotOurs", "the stranger to be reported", instead=scene.ready)
        told.set()
        wait_until(lambda: _holding(scene, "2") == {kept, new}, "the truth to be told", instead=scene.copies)
        assert _versions(scene, taken, seized) == foreign
        scene.delete_config_map(taken)
        wait_until(lambda: _holding(scene, "2") == {kept, taken, new}, "the free place to be taken")
        # The sync may be ready before a namespace that has left is heard of.
        wait_until(lambda: (left, NAME) not in scene.copies(), "the copy that is no longer wanted to be deleted")
        wait_until(scene.is_settled, "the sync to be ready", instead=scene.ready)
        assert _versions(scene, seized) == foreign[1:]
    deleted = [entry.namespace for entry in scene.writes(before) if entry.verb == "delete" and entry.done]
    assert deleted == [left]


def test_a_copy_is_not_removed_for_what_its_namespace_once_was(scene: Scene, proxy: FaultProxy) -> None:
    targets = [scene.namespace("a"), scene.namespace("back", scene="other")]
    scene.source("1")
    scene.sync()
    recording = Recording(proxy, "namespaces", None)
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)):
        scene.wait_for(targets[:1], "1")
    _label(scene, targets[1], scene.prefix)
    with calm_operator(scene.kubeconfig):
        scene.wait_for(targets, "1")

    recording.replay()
    late = proxy.inject(Fault(delay=5), when=lambda asked: asked.follows and asked.resource == "namespaces", times=1)
    before = scene.audit.mark()
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)) as operator:
        wait_until(lambda: late.hits and turns(operator) >= 1, "the operator to act on what it was shown")
        scene.source("2")
        scene.wait_for(targets, "2")
    assert not [str(entry) for entry in scene.writes(before) if entry.verb == "delete"]


def test_what_took_the_place_of_a_copy_is_not_removed_in_its_stead(scene: Scene, proxy: FaultProxy) -> None:
    kept, gone = scene.namespace("kept"), scene.namespace("gone")
    scene.source("1")
    scene.sync()
    with calm_operator(scene.kubeconfig):
        scene.wait_for([kept, gone], "1")
    recording = Recording(proxy, "configmaps", OWNER_LABEL)
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)):
        pass
    scene.delete_config_map(gone)
    _clone(scene, scene.copies()[kept, NAME], gone)
    _label(scene, gone, "other")
    foreign = _versions(scene, gone)

    recording.replay()
    late = proxy.inject(Fault(delay=5), when=lambda asked: asked.follows and asked.resource == "configmaps", times=2)
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)) as operator:
        wait_until(lambda: late.hits and turns(operator) >= 1, "the operator to act on what it was shown")
        scene.source("2")
        wait_until(lambda: _holding(scene, "2") == {kept}, "the edit to arrive")
        wait_until(scene.is_settled, "the sync to be ready", instead=scene.ready)
        assert _versions(scene, gone) == foreign
        scene.delete_sync()
        wait_until(lambda: scene.get_sync() is None, "the sync to be gone")
    assert _versions(scene, gone) == foreign


def _label(scene: Scene, name: str, value: str) -> None:
    namespace = scene.sandbox.request("GET", f"/api/v1/namespaces/{name}")
    namespace["metadata"]["labels"][LABEL] = value
    scene.sandbox.request("PUT", f"/api/v1/namespaces/{name}", namespace)


def _clone(scene: Scene, copy: Json, namespace: str) -> None:
    """Do what `kubectl get | kubectl apply -n` does."""
    metadata = {key: copy["metadata"][key] for key in ("name", "labels", "annotations")}
    body = {"metadata": metadata, "data": {"value": "foreign"}}
    scene.sandbox.request("POST", CONFIGMAPS.path(namespace), body)


def _holding(scene: Scene, value: str) -> set[str]:
    return {place[0] for place, copy in scene.copies().items() if copy["data"] == {"value": value}}


def _versions(scene: Scene, *namespaces: str) -> list[str]:
    found = [scene.sandbox.request("GET", CONFIGMAPS.path(namespace, NAME)) for namespace in namespaces]
    return [item["metadata"]["resourceVersion"] for item in found]
