"""Patches and names with variables: what is copied may differ from target to target."""

import pytest
from tests.manifestsync.world import Manifests

IMAGE = ("spec", "template", "spec", "containers", 0, "image")


def test_a_merge_patch_changes_what_is_copied_and_null_takes_away(world: Manifests) -> None:
    source = world.make("ConfigMap", metadata={"labels": {"team": "a"}}, data={"colour": "red", "size": "big"})
    target = world.namespace("a")
    content = "metadata:\n  labels:\n    extra: x\n    team: null\ndata:\n  colour: blue\n  size: null\n  more: y\n"
    sync = world.msync("sync", source, into=[target], patch={"patchContent": content})
    sync.becomes("Synced", synced=1)
    copy = world.find("ConfigMap", target)
    copy.holds_data(colour="blue", more="y")
    assert copy.labels == {"extra": "x"}
    world.stays_quiet(sync)


def test_a_json_patch_changes_one_item_of_a_list(world: Manifests) -> None:
    source = world.deployment()
    target = world.namespace("a")
    content = (
        '[{"op": "test", "path": "/spec/replicas", "value": 2},'
        ' {"op": "replace", "path": "/spec/replicas", "value": 5},'
        ' {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "mirror.example.com/app:1"}]'
    )
    sync = world.msync("sync", source, into=[target], patch={"patchStrategy": "JSONPatch", "patchContent": content})
    sync.becomes("Synced", synced=1)
    copy = world.find("Deployment", target)
    assert (copy.at("spec", "replicas"), copy.at(*IMAGE)) == (5, "mirror.example.com/app:1")
    copy.put("spec", "replicas", value=9)
    copy.shows("spec", "replicas", value=5)
    world.stays_quiet(sync)


def test_a_replacement_puts_new_top_level_keys_in_place_and_leaves_the_identity(world: Manifests) -> None:
    source = world.make("ConfigMap", data={"colour": "red", "size": "big"})
    target = world.namespace("a")
    patch = {"patchStrategy": "Replace", "patchContent": "data:\n  only: this\n"}
    sync = world.msync("sync", source, into=[target], patch=patch)
    sync.becomes("Synced", synced=1)
    world.find("ConfigMap", target).holds_data(only="this")


def test_a_patch_may_speak_of_its_target_and_its_source(world: Manifests) -> None:
    source = world.make("ConfigMap", data={"colour": "red"})
    one, two = world.namespaces("one", "two")
    content = "data:\n  where: '{{ target.namespace }}'\n  from: '{{ source.namespace }}/{{ source.name }}'\n"
    sync = world.msync("sync", source, into=[one, two], patch={"patchContent": content})
    sync.becomes("Synced", synced=2)
    for target in (one, two):
        world.find("ConfigMap", target).holds_data(colour="red", where=target, **{"from": f"{world.home}/app"})
    world.stays_quiet(sync)


def test_a_patch_of_the_targets_takes_the_place_of_that_of_the_sync(world: Manifests) -> None:
    source = world.make("ConfigMap", data={"colour": "red"})
    target = world.namespace("a")
    sync = world.msync(
        "sync",
        source,
        targets={"inCluster": {"namespaces": [target], "patch": {"patchContent": '{"data": {"here": "x"}}'}}},
        patch={"patchContent": '{"data": {"everywhere": "y"}}'},
    )
    sync.becomes("Synced", synced=1)
    world.find("ConfigMap", target).holds_data(colour="red", here="x")


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_a_patch_may_be_held_by_another_object_and_a_change_of_it_is_a_change_of_the_copies(
    world: Manifests, kind: str
) -> None:
    source = world.deployment()
    target = world.namespace("a")
    part = "stringData" if kind == "Secret" else "data"
    holder = world.find(kind, world.home, "patches")
    ref = {"kind": kind, "name": "patches", "key": "replicas.yaml"}
    sync = world.msync("sync", source, into=[target], patch={"patchContentRef": ref})
    ready = sync.becomes("PatchNotFound")
    assert f"{kind} {world.home}/patches, which patchContentRef names, does not exist" in ready["message"]
    assert world.find("Deployment", target).look() is None
    world.make(kind, name="patches", **{part: {"replicas.yaml": "spec:\n  replicas: 7\n"}})
    copy = world.find("Deployment", target)
    copy.shows("spec", "replicas", value=7)
    holder.edit(lambda body: body.update({part: {"replicas.yaml": "spec: {replicas: 8}"}}))
    copy.shows("spec", "replicas", value=8)
    # Without its patch nothing is written, and nothing is taken away.
    holder.delete()
    sync.becomes("PatchNotFound")
    assert copy.at("spec", "replicas") == 8


def test_a_patch_that_fails_is_named_and_nothing_half_patched_is_written(world: Manifests) -> None:
    source = world.deployment()
    target = world.namespace("a")
    content = (
        '[{"op": "replace", "path": "/spec/replicas", "value": 5}, {"op": "remove", "path": "/spec/template/nothing"}]'
    )
    sync = world.msync("sync", source, into=[target], patch={"patchStrategy": "JSONPatch", "patchContent": content})
    ready = sync.becomes("InvalidContent")
    assert "/spec/template/nothing" in ready["message"]
    assert "Stalled" in sync.conditions
    assert world.find("Deployment", target).look() is None
    sync.change(patch=None)
    sync.becomes("Synced", synced=1)
    sync.change(patch={"patchContent": "spec: ["})
    sync.becomes("InvalidContent")
    assert world.find("Deployment", target).at("spec", "replicas") == 2


@pytest.mark.parametrize(
    ("patch", "what"),
    [
        ('{"kind": "Secret"}', "kind"),
        ('{"metadata": {"name": "other"}}', "metadata.name"),
        ('{"metadata": {"namespace": "kube-system"}}', "metadata.namespace"),
        ('{"metadata": {"ownerReferences": []}}', "metadata.ownerReferences"),
        ('{"metadata": {"labels": {"syncline.dev/owner": "me"}}}', "syncline.dev/owner"),
    ],
)
def test_a_patch_cannot_make_a_copy_anything_but_a_copy(world: Manifests, patch: str, what: str) -> None:
    source = world.make("ConfigMap", data={"colour": "red"})
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target], patch={"patchContent": patch})
    assert what in sync.becomes("InvalidContent")["message"]
    assert world.find("ConfigMap", target).look() is None


def test_a_field_that_a_patch_takes_away_is_left_to_others(world: Manifests) -> None:
    source = world.deployment()
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target], patch={"patchContent": "spec:\n  replicas: null\n"})
    sync.becomes("Synced", synced=1)
    copy = world.find("Deployment", target)
    mark = world.mark()
    # As an autoscaler does: by the scale alone, and without a version, since the Deployment's controller writes too.
    scale = copy.sandbox.request("GET", f"{copy.path}/scale")
    del scale["metadata"]["resourceVersion"]
    copy.sandbox.request("PUT", f"{copy.path}/scale?fieldManager=autoscaler", {**scale, "spec": {"replicas": 6}})
    sync.now()
    assert world.copying(mark) == []
    source.put(*IMAGE, value="example.com/app:2")
    copy.shows(*IMAGE, value="example.com/app:2")
    assert copy.at("spec", "replicas") == 6


def test_a_patch_of_a_secret_never_shows_in_the_status(world: Manifests) -> None:
    source = world.secret(password="canary-8c11")
    target = world.namespace("a")
    content = '[{"op": "test", "path": "/data/password", "value": "other"}]'
    sync = world.msync("sync", source, into=[target], patch={"patchStrategy": "JSONPatch", "patchContent": content})
    sync.becomes("InvalidContent")
    told = f"{sync.read()['status']}{sync.events()}"
    assert "canary" not in told
    assert str(source.at("data", "password")) not in told
    sync.change(patch={"patchContent": "stringData:\n  extra: x\n"})
    world.find("Secret", target).holds(password="canary-8c11", extra="x")
    world.stays_quiet(sync)


def test_a_name_may_be_a_template_and_each_target_has_its_own(world: Manifests) -> None:
    source = world.secret()
    one, two = world.namespaces("one", "two")
    sync = world.msync("sync", source, into=[one, two], targetName="{{ source.name }}-of-{{ target.namespace }}")
    sync.becomes("Synced", synced=2)
    for target in (one, two):
        world.find("Secret", target, f"app-of-{target}").holds(password="red")
    world.stays_quiet(sync)
    # A copy that is deleted, and one in the way, are noticed under these names too.
    world.find("Secret", one, f"app-of-{one}").delete()
    world.find("Secret", one, f"app-of-{one}").holds(password="red")
    three = f"{world.name}-three"
    sync.into(one, three)
    world.find("Secret", two, f"app-of-{two}").gone()
    sync.becomes("NamespaceNotFound")
    world.namespace("three")
    world.find("Secret", three, f"app-of-{three}").holds(password="red")


def test_a_name_that_cannot_be_rendered_fails_and_removes_nothing(world: Manifests) -> None:
    source = world.secret()
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target], targetName="{{ source.name }}-x")
    sync.becomes("Synced", synced=1)
    copy = world.find("Secret", target, "app-x")
    sync.change(targetName="{{ source.nothing }}")
    ready = sync.becomes("InvalidName", failed=1)
    assert "targetName" in ready["message"]
    sync.now()
    assert copy.marked
    sync.change(targetName="{{ source.name }}-y")
    world.find("Secret", target, "app-y").appears()
    copy.gone()
