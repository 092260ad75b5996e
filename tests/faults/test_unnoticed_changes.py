"""A sync does not say that all is well while the watch that would tell otherwise fails."""

import asyncio
from pathlib import Path

import pytest
from tests.faults.scene import NAME, Scene, wait_until
from tests.soak.test_soak import running

from syncline.core.ownership import OWNER_LABEL
from syncline.engine import cluster
from syncline.kube import Timing, reflector
from syncline.testing.faults import Asked, Fault, swallowed
from syncline.testing.proxy import FaultProxy

WATCHES = {
    "of copies": ("configmaps", OWNER_LABEL),
    "of sources": ("configmaps", f"!{OWNER_LABEL}"),
    "of namespaces": ("namespaces", None),
}


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a watch reported that fails for a moment, in place of a minute."""
    monkeypatch.setattr(cluster, "UNNOTICED_AFTER", 0.1)
    monkeypatch.setattr(cluster, "_RECHECK", 0.05)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("watch", WATCHES)
async def test_a_watch_that_fails_for_long_is_told_by_its_syncs_until_it_works_again(
    scene: Scene, proxy: FaultProxy, tmp_path: Path, watch: str
) -> None:
    resource, labels = WATCHES[watch]

    def fails(asked: Asked) -> bool:
        return asked.follows and asked.resource == resource and asked.query.get("labelSelector") == labels

    target = scene.namespace("target")
    scene.source("1")
    scene.sync()
    wall = proxy.inject(Fault(status=500), when=fails)

    def told() -> None:
        wait_until(lambda: scene.ready().get("reason") == "ChangesUnnoticed", "the failure", instead=scene.ready)
        ready = scene.ready()
        assert ready["status"] == "Unknown"
        assert f"cannot watch {resource}: 500" in ready["message"]
        assert (target, NAME) in scene.copies()
        assert "history" not in scene.status() or scene.status()["history"][0]["result"] == "Synced"

    async with running(proxy.kubeconfig(scene.kubeconfig), tmp_path):
        await asyncio.to_thread(told)
        wall.lift()
        await asyncio.to_thread(scene.wait_for, [target], "1")


@pytest.mark.usefixtures("soon")
async def test_syncs_say_so_where_all_watches_open_and_bring_nothing(
    scene: Scene, proxy: FaultProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = Timing(watch_min=3, watch_max=3, grace=3, probe=5)
    monkeypatch.setattr(reflector, "Timing", lambda: quick)
    target = scene.namespace("target")
    scene.source("1")
    scene.sync()

    def told() -> None:
        message = "watches open, but bring nothing"
        wait_until(lambda: message in scene.ready().get("message", ""), "the failure", instead=scene.ready)
        assert (scene.ready()["status"], scene.ready()["reason"]) == ("Unknown", "ChangesUnnoticed")
        scene.source("2")
        scene.wait_until_held(target, "2")

    async with running(proxy.kubeconfig(scene.kubeconfig), tmp_path):
        await asyncio.to_thread(scene.wait_for, [target], "1")
        mute = proxy.inject(Fault(events=swallowed), when=lambda asked: asked.verb == "watch")
        proxy.cut_watches()
        await asyncio.to_thread(told)
        mute.lift()
        await asyncio.to_thread(scene.wait_for, [target], "2")
