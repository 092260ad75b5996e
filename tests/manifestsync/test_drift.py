"""What others change of a copy is repaired; what they or the server add beside it is theirs, and no reason to write."""

import pytest
from tests.configmapsync.world import Json, edit_at, until
from tests.manifestsync.world import Manifests, ManifestSync, Object, deployment_spec

CONTAINER = ("spec", "template", "spec", "containers", 0)
IMAGE = (*CONTAINER, "image")


def scene(world: Manifests, *, management: str = "Sync", **spec: object) -> tuple[Object, Object, ManifestSync]:
    """Return a Deployment, its copy and their sync, in agreement."""
    source = world.deployment(**spec)
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target], resourceManagementPolicy=management)
    sync.becomes("Synced", synced=1)
    return source, world.find("Deployment", target), sync


def test_a_changed_field_is_repaired_and_the_event_names_the_field_and_who_changed_it(world: Manifests) -> None:
    _, copy, sync = scene(world)
    uid = copy.uid
    copy.put(*IMAGE, value="example.com/other:9", manager="kubectl-edit")
    copy.shows(*IMAGE, value="example.com/app:1")
    event = sync.tells("DriftRepaired")
    assert "spec.template.spec.containers[name=app].image changed by kubectl-edit" in event["note"]
    assert copy.uid == uid
    sync.becomes("Synced", synced=1)
    world.stays_quiet(sync)


def test_the_event_names_who_took_the_field_though_others_wrote_later(world: Manifests) -> None:
    _, copy, sync = scene(world)
    sync.change(suspend=True)
    sync.becomes("Suspended")
    copy.put(*IMAGE, value="example.com/other:9", manager="the-culprit")
    copy.put("metadata", "annotations", "their/note", value="x", manager="a-bystander")
    sync.change(suspend=False)
    event = sync.tells("DriftRepaired")
    assert "spec.template.spec.containers[name=app].image changed by the-culprit" in event["note"]


POD = ("spec", "template", "spec")
HARDENED = {
    **deployment_spec(),
    "template": {
        "metadata": {"labels": {"app": "app"}},
        "spec": {
            "containers": [{"name": "app", "image": "example.com/app:1"}],
            "volumes": [{"name": "scratch", "emptyDir": {}}, {"name": "conf", "configMap": {"name": "conf"}}],
            "automountServiceAccountToken": False,
            "hostNetwork": False,
            "nodeSelector": {},
            "tolerations": [],
        },
    },
}


@pytest.mark.parametrize("policy", ["Sync", "Overwrite"])
@pytest.mark.parametrize("applied", [False, True], ids=["created", "applied"])
def test_an_empty_value_counts_like_any_other(world: Manifests, policy: str, applied: bool) -> None:
    source, copy, sync = scene(world, **HARDENED, management=policy)
    if applied:
        source.put(*IMAGE, value="example.com/app:2")
        copy.shows(*IMAGE, value="example.com/app:2")
        sync.becomes("Synced", synced=1)
    world.stays_quiet(sync)

    copy.put(*POD, "volumes", 0, value={"name": "scratch", "hostPath": {"path": "/"}}, manager="intruder")
    copy.shows(*POD, "volumes", 0, value={"name": "scratch", "emptyDir": {}})
    note = sync.tells("DriftRepaired")["note"]
    assert "spec.template.spec.volumes[name=scratch].emptyDir" in note
    assert "changed by intruder" in note
    copy.put(*POD, "automountServiceAccountToken", value=None, manager="intruder")
    copy.shows(*POD, "automountServiceAccountToken", value=False)
    sync.becomes("Synced", synced=1)
    world.stays_quiet(sync)


def test_what_others_added_survives_when_something_else_gives_way_to_ours(world: Manifests) -> None:
    source = world.deployment(strategy={"type": "Recreate"})
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target])
    sync.becomes("Synced", synced=1)
    copy = world.find("Deployment", target)

    def change(body: Json) -> None:
        body["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2}}
        body["spec"]["minReadySeconds"] = 7

    copy.edit(change, "somebody")
    copy.shows("spec", "strategy", value={"type": "Recreate"})
    sync.becomes("Synced", synced=1)
    assert copy.spec["minReadySeconds"] == 7
    world.stays_quiet(sync)


def test_a_repair_that_the_server_refuses_is_told_as_that_and_not_tried_on_and_on(world: Manifests) -> None:
    _, copy, sync = scene(world)
    body = copy.read()
    made = {"metadata": {key: body["metadata"][key] for key in ("name", "labels", "annotations")}}
    sync.change(suspend=True)
    sync.becomes("Suspended")
    copy.delete()
    copy.gone()
    # Somebody has made it anew, marks and all, with a selector that cannot be changed.
    copy.create({**made, "spec": deployment_spec(app="theirs")})
    uid = copy.uid
    sync.change(suspend=False)
    ready = sync.becomes("RepairRefused", failed=1)
    assert (
        "the API server refuses the repair; delete the copy, or set resourceManagementPolicy: Over" in ready["message"]
    )
    assert "Reconciling" not in sync.conditions
    sync.now()
    sync.change(resourceManagementPolicy="Overwrite")
    copy.shows("spec", "selector", "matchLabels", value={"app": "app"})
    sync.becomes("Synced", synced=1)
    assert copy.uid != uid
    world.stays_quiet(sync)


def test_a_removed_field_is_put_back(world: Manifests) -> None:
    _, copy, _ = scene(world)
    copy.put(*CONTAINER, "env", value=[{"name": "MODE", "value": "fast"}])
    copy.shows(*CONTAINER, "env", value=deployment_spec()["template"]["spec"]["containers"][0]["env"])


def test_what_others_add_beside_our_fields_is_theirs(world: Manifests) -> None:
    _, copy, sync = scene(world)

    def add(body: Json) -> None:
        body["metadata"]["annotations"]["their/note"] = "x"
        body["metadata"]["labels"]["theirs"] = "yes"
        body["spec"]["minReadySeconds"] = 7
        body["spec"]["template"]["spec"]["containers"][0]["env"].append({"name": "THEIRS", "value": "1"})

    mark = world.mark()
    copy.edit(add, "injector")
    sync.now()
    assert world.copying(mark) == []
    assert copy.spec["minReadySeconds"] == 7
    assert copy.annotations["their/note"] == "x"


def test_status_is_no_change(world: Manifests) -> None:
    _, copy, sync = scene(world)
    mark = world.mark()
    status = {"observedGeneration": 1, "replicas": 2, "readyReplicas": 2, "availableReplicas": 2}
    edit_at(copy.sandbox, copy.path, lambda body: body.update(status=status), "/status?fieldManager=kubelet")
    sync.now()
    assert world.copying(mark) == []


def test_the_status_of_a_source_is_not_copied_and_writes_nothing(world: Manifests) -> None:
    source, copy, sync = scene(world)
    mark = world.mark()
    status = {"observedGeneration": 1, "replicas": 2, "readyReplicas": 2}
    edit_at(source.sandbox, source.path, lambda body: body.update(status=status), "/status?fieldManager=kubelet")
    sync.now()
    assert world.copying(mark) == []
    assert not copy.at("status", "readyReplicas")


def test_a_copy_that_its_own_controllers_work_on_is_not_written_again(world: Manifests) -> None:
    _, copy, sync = scene(world)
    # The Deployment controller has noted its revision on both, and counts.
    until(copy.read, lambda body: "deployment.kubernetes.io/revision" in body["metadata"]["annotations"])
    world.stays_quiet(sync)


def test_a_field_that_is_taken_out_of_the_source_goes_from_the_copies(world: Manifests) -> None:
    source, copy, sync = scene(world)
    source.put(*CONTAINER, "env", value=[{"name": "MODE", "value": "fast"}])
    copy.shows(*CONTAINER, "env", value=[{"name": "MODE", "value": "fast"}])
    source.put(*CONTAINER, "env", value=None)
    copy.shows(*CONTAINER, "env", value=None)
    source.put("spec", "template", "metadata", "annotations", value={"note": "x"})
    copy.shows("spec", "template", "metadata", "annotations", value={"note": "x"})
    source.put("spec", "template", "metadata", "annotations", value=None)
    copy.shows("spec", "template", "metadata", "annotations", value=None)
    sync.becomes("Synced")
    world.stays_quiet(sync)


def test_labels_of_the_source_come_and_go_on_the_copies(world: Manifests) -> None:
    source, copy, sync = scene(world)
    source.label(team="a", tier="web")
    until(lambda: copy.labels, lambda seen: seen == {"team": "a", "tier": "web"})
    source.label(team="b", tier=None)
    until(lambda: copy.labels, lambda seen: seen == {"team": "b"})
    copy.label(team="mine")
    until(lambda: copy.labels, lambda seen: seen == {"team": "b"})
    sync.becomes("Synced")
    world.stays_quiet(sync)


def test_a_deleted_copy_is_created_again(world: Manifests) -> None:
    _, copy, sync = scene(world)
    uid = copy.uid
    copy.delete()
    until(copy.look, lambda seen: seen is not None and seen["metadata"]["uid"] != uid)
    sync.becomes("Synced", synced=1)


def test_a_copy_with_reconcile_disabled_is_left_alone(world: Manifests) -> None:
    source, copy, sync = scene(world)
    copy.annotate({"syncline.dev/reconcile": "Disabled"})
    source.put(*IMAGE, value="example.com/app:2")
    copy.put("spec", "replicas", value=9)
    sync.says(copy.namespace, "ReconcileDisabled")
    sync.now()
    assert (copy.at(*IMAGE), copy.at("spec", "replicas")) == ("example.com/app:1", 9)
    copy.annotate({"syncline.dev/reconcile": None})
    copy.shows(*IMAGE, value="example.com/app:2")
    copy.shows("spec", "replicas", value=2)


def test_a_write_loop_over_a_field_is_detected_named_and_slowed_down(world: Manifests) -> None:
    source, copy, sync = scene(world)
    for number in range(60):
        copy.put(*IMAGE, value=f"example.com/other:{number}", manager="the-other-controller")
        until(
            sync.read,
            lambda _: copy.at(*IMAGE) == "example.com/app:1" or sync.conditions["Ready"]["reason"] == "WriteLoop",
        )
        if sync.conditions["Ready"]["reason"] == "WriteLoop":
            break
    ready = sync.becomes("WriteLoop", conflicted=1)
    assert "changed again each time, last by the-other-controller" in ready["message"]
    mark = world.mark()
    copy.put(*IMAGE, value="example.com/other:last", manager="the-other-controller")
    sync.now()
    assert world.copying(mark) == []
    source.put(*IMAGE, value="example.com/app:2")
    copy.shows(*IMAGE, value="example.com/app:2")
    sync.becomes("Synced")
