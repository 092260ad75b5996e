"""The keys of marks: an upgrade from a version that signed nothing loses nothing, and a lost key deletes nothing."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.commands import run_command
from tests.faults.scene import NAME, Scene, calm_operator, marker_of, wait_until

from syncline import deploy
from syncline.api.common import API_VERSION
from syncline.core.ownership import MARKER
from syncline.engine import digestkey, markkeys
from syncline.sandbox import RequestError
from syncline.testing.operator import OperatorProcess

Json = dict[str, Any]
SECRETS = f"/api/v1/namespaces/{deploy.NAMESPACE}/secrets"
KEYS = f"{SECRETS}/{markkeys.NAME}"
DIGEST_KEY = f"{SECRETS}/{digestkey.NAME}"


class Keys:
    """The Secret with the keys of marks, as an administrator or an accident handles it."""

    def __init__(self, scene: Scene) -> None:
        self._sandbox = scene.sandbox

    def read(self) -> Json | None:
        try:
            return self._sandbox.request("GET", KEYS)
        except RequestError as error:
            if error.status != 404:
                raise
            return None

    def takeovers(self) -> dict[str, list[str]]:
        """Return who may take over marks that prove nothing."""
        found = self.read()
        return dict(json.loads(base64.b64decode(found["data"]["takeovers"]))) if found is not None else {}

    def lose(self) -> None:
        """Delete the Secret."""
        if self.read() is not None:
            self._sandbox.request("DELETE", KEYS)

    def forget(self) -> None:
        """Leave nothing that tells of keys of marks, as before the first start of this version."""
        self.lose()
        try:
            body = self._sandbox.request("GET", DIGEST_KEY)
        except RequestError:
            return
        body["metadata"].get("annotations", {}).pop(markkeys.NOTED, None)
        self._sandbox.request("PUT", DIGEST_KEY, body)


@pytest.fixture
def keys(scene: Scene) -> Iterator[Keys]:
    """The keys; there are none before the test and after it."""
    keys = Keys(scene)
    keys.forget()
    yield keys
    scene.end()
    keys.forget()


def unsign(scene: Scene) -> None:
    """Make all marks, and the status of the sync, what an earlier version wrote."""
    sync = scene.get_sync()
    assert sync is not None
    sync["status"].pop("proof", None)
    path = f"/apis/{API_VERSION}/namespaces/{sync['metadata']['namespace']}/configmapsyncs/{NAME}/status"
    scene.sandbox.request("PUT", path, sync)
    for (namespace, name), copy in scene.copies().items():
        marker = {key: value for key, value in marker_of(copy).items() if key not in ("owner", "proof")}
        copy["metadata"]["annotations"][MARKER] = json.dumps(marker, separators=(",", ":"))
        scene.sandbox.request("PUT", f"/api/v1/namespaces/{namespace}/configmaps/{name}", copy)


def is_signed(scene: Scene) -> bool:
    return all("proof" in marker_of(copy) for copy in scene.copies().values())


def uids(scene: Scene) -> dict[Any, str]:
    return {place: copy["metadata"]["uid"] for place, copy in scene.copies().items()}


def before_an_upgrade(scene: Scene, keys: Keys, *shorts: str) -> list[str]:
    """Have copies in these namespaces as an earlier version has left them; no operator runs."""
    names = [scene.namespace(short) for short in shorts]
    scene.source("1")
    scene.sync()
    with calm_operator(scene.kubeconfig):
        scene.wait_for(names, "1")
    unsign(scene)
    keys.forget()
    return names


def test_an_upgrade_signs_the_marks_of_an_earlier_version_and_loses_nothing(scene: Scene, keys: Keys) -> None:
    names = before_an_upgrade(scene, keys, "a", "b", "c")
    before = uids(scene)
    with calm_operator(scene.kubeconfig):
        wait_until(lambda: is_signed(scene), "all marks to be signed")
        wait_until(lambda: keys.read() is not None and not keys.takeovers(), "the end of the takeover")
        assert uids(scene) == before
        scene.wait_for(names, "1")
        scene.wait_until_quiet(3)
        scene.delete_sync()
        wait_until(lambda: scene.get_sync() is None, "the sync to be gone")
        assert not scene.copies()


def test_what_was_no_longer_wanted_at_the_upgrade_is_still_removed(scene: Scene, keys: Keys) -> None:
    names = before_an_upgrade(scene, keys, "a", "b")
    scene.sync(destinationNamespaces=names[1:])
    with calm_operator(scene.kubeconfig):
        scene.wait_for(names[1:], "1")
    assert set(scene.copies()) == {(names[1], NAME)}


def test_a_sync_that_was_deleted_before_the_upgrade_takes_its_copies_along(scene: Scene, keys: Keys) -> None:
    before_an_upgrade(scene, keys, "a", "b")
    scene.delete_sync()
    with calm_operator(scene.kubeconfig):
        wait_until(lambda: scene.get_sync() is None, "the sync to be gone")
    assert not scene.copies()


def test_unsigned_marks_do_not_count_once_they_were_taken_over(scene: Scene, keys: Keys) -> None:
    before_an_upgrade(scene, keys, "a")
    with calm_operator(scene.kubeconfig):
        wait_until(lambda: keys.read() is not None and not keys.takeovers(), "the end of the takeover")
        wait_until(lambda: is_signed(scene), "all marks to be signed")
    unsign(scene)
    with calm_operator(scene.kubeconfig):
        wait_until(lambda: scene.ready().get("reason") == "NotOurs", "the object to be foreign", instead=scene.status)
        scene.delete_sync()
        wait_until(lambda: scene.get_sync() is None, "the sync to be gone")
    assert len(scene.copies()) == 1


def test_unsigned_marks_never_count_where_syncline_was_installed_with_signed_ones(scene: Scene, keys: Keys) -> None:
    names = [scene.namespace("a")]
    scene.source("1")
    with calm_operator(scene.kubeconfig):
        scene.sync()
        scene.wait_for(names, "1")
        assert keys.takeovers() == {}


def test_a_lost_key_is_told_and_nothing_is_changed_or_deleted(scene: Scene, keys: Keys) -> None:
    names = [scene.namespace(short) for short in ("a", "b")]
    scene.source("1")
    scene.sync()
    with calm_operator(scene.kubeconfig):
        scene.wait_for(names, "1")
    keys.lose()
    unsigned = scene.namespace("c")
    before = {place: copy["metadata"]["resourceVersion"] for place, copy in scene.copies().items()}
    scene.source("2")
    with OperatorProcess(scene.kubeconfig) as operator:
        wait_until(lambda: scene.ready().get("reason") == "MarkUnproven", "it to be told", instead=scene.status)
        assert "syncline keys heal" in scene.ready()["message"]
        assert any("keys of marks are lost" in event.get("event", "") for event in operator.events())
        wait_until(lambda: (unsigned, NAME) in scene.copies(), "a copy in a new namespace")
        scene.sync(destinationNamespaces=[unsigned])
        wait_until(lambda: scene.ready().get("status") == "True", "the sync to be ready", instead=scene.status)
        scene.delete_sync()
        wait_until(lambda: scene.get_sync() is None, "the sync to be gone")
    assert {place: copy["metadata"]["resourceVersion"] for place, copy in scene.copies().items()} == before


def test_keys_that_are_lost_with_the_note_of_them_are_told_and_healed_and_let_no_unsigned_mark_count(
    scene: Scene, keys: Keys
) -> None:
    names = [scene.namespace(short) for short in ("a", "b")]
    scene.source("1")
    scene.sync(destinationNamespaces=names)
    with calm_operator(scene.kubeconfig):
        scene.wait_for(names, "1")
    (lost,) = signers(scene)
    # Somebody who may edit it, and not delete it, has marked an object of others as an earlier version did.
    victim = scene.namespace("victim")
    label, marker = (scene.copies()[names[0], NAME]["metadata"][part] for part in ("labels", "annotations"))
    forged = {key: value for key, value in json.loads(marker[MARKER]).items() if key not in ("owner", "proof")}
    forged["at"] = f"{forged['at'].partition('/')[0]}/ConfigMap/{victim}/{NAME}"
    metadata = {"name": NAME, "labels": label, "annotations": {MARKER: json.dumps(forged, separators=(",", ":"))}}
    scene.sandbox.request("POST", f"/api/v1/namespaces/{victim}/configmaps", {"metadata": metadata})
    keys.lose()
    scene.sandbox.request("DELETE", DIGEST_KEY)
    scene.source("2")
    with OperatorProcess(scene.kubeconfig) as operator:
        wait_until(lambda: scene.ready().get("reason") == "MarkUnproven", "it to be told", instead=scene.status)
        assert any("keys of marks are lost" in event.get("event", "") for event in operator.events())
        assert keys.takeovers() == {}
        assert "can take over" in run_keys(scene, "heal")
        wait_until(lambda: scene.is_settled(2), "the sync to be ready", instead=scene.status)
        wait_until(lambda: lost not in run_keys(scene, "list"), "the end of the takeover")
        scene.delete_sync()
        wait_until(lambda: scene.get_sync() is None, "the sync to be gone")
    assert set(scene.copies()) == {(victim, NAME)}


def test_a_key_that_is_restored_proves_all_marks_again(scene: Scene, keys: Keys) -> None:
    names = [scene.namespace(short) for short in ("a", "b")]
    scene.source("1")
    scene.sync()
    with calm_operator(scene.kubeconfig):
        scene.wait_for(names, "1")
    backup = keys.read()
    assert backup is not None
    keys.lose()
    scene.source("2")
    with OperatorProcess(scene.kubeconfig):
        wait_until(lambda: scene.ready().get("reason") == "MarkUnproven", "it to be told", instead=scene.status)
    keys.lose()
    scene.sandbox.request("POST", SECRETS, {"metadata": {"name": markkeys.NAME}, "data": backup["data"]})
    with OperatorProcess(scene.kubeconfig):
        scene.wait_for(names, "2")


def run_keys(scene: Scene, *arguments: str) -> str:
    """Run `syncline keys` as an administrator of the cluster."""
    done = run_command(["keys", *arguments, "--kubeconfig", scene.sandbox.kubeconfig])
    assert done.returncode == 0, done.stderr
    return done.stdout


def signers(scene: Scene) -> set[str]:
    return {marker_of(copy)["proof"].partition(".")[0] for copy in scene.copies().values()}


@pytest.mark.usefixtures("keys")
def test_a_new_key_signs_all_marks_anew_without_a_restart_and_loses_nothing(scene: Scene) -> None:
    names = [scene.namespace(short) for short in ("a", "b", "c")]
    scene.source("1")
    scene.sync()
    with calm_operator(scene.kubeconfig):
        scene.wait_for(names, "1")
        (former,), before = signers(scene), uids(scene)
        assert "from now on" in run_keys(scene, "rotate")
        wait_until(lambda: former not in signers(scene), "all marks to be signed anew")
        assert uids(scene) == before
        listed = run_keys(scene, "list")
        assert f"{former}  proves" in listed
        (newest,) = signers(scene)
        assert f"{newest}  signs" in listed
        assert run_keys(scene, "drop", former) == f"key {former} was removed; its signatures are no longer valid\n"
        scene.source("2")
        scene.wait_for(names, "2")
        scene.delete_sync()
        wait_until(lambda: scene.get_sync() is None, "the sync to be gone")
        assert not scene.copies()


def test_a_lost_key_is_healed_by_one_command_for_what_the_specs_want_and_nothing_else(scene: Scene, keys: Keys) -> None:
    names = [scene.namespace(short) for short in ("a", "b")]
    scene.source("1")
    scene.sync(destinationNamespaces=names)
    with calm_operator(scene.kubeconfig):
        scene.wait_for(names, "1")
    keys.lose()
    (lost,) = signers(scene)
    scene.sync(destinationNamespaces=names[:1])
    scene.source("2")
    with OperatorProcess(scene.kubeconfig):
        wait_until(lambda: scene.ready().get("reason") == "MarkUnproven", "it to be told", instead=scene.status)
        assert f"{lost}  lost" in run_keys(scene, "list")
        assert "can take over" in run_keys(scene, "heal")
        wait_until(lambda: scene.is_settled(1), "the sync to be ready", instead=scene.status)
        wait_until(lambda: lost not in run_keys(scene, "list"), "the end of the takeover")
        copies = scene.copies()
        assert copies[names[0], NAME]["data"] == {"value": "2"}
        assert copies[names[1], NAME]["data"] == {"value": "1"}  # nobody wants it: it is not touched
        assert run_keys(scene, "heal") == "no signing key is lost\n"
