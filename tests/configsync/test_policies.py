"""What becomes of objects that are there already, that others change, or that several want."""

import pytest
from tests.configmapsync.world import Json, Thing, until
from tests.configsync.world import GitWorld, config_map, definition, manifest
from tests.manifestsync.world import deployment_spec

from syncline.api.common import FINALIZER

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def test_a_strangers_object_is_left_and_reported(world: GitWorld) -> None:
    world.put(world.home, colour="theirs")
    world.push({"app.yaml": config_map(colour="ours"), "more.yaml": config_map("more")})
    sync = world.csync()
    ready = sync.becomes("NotOurs", synced=1, conflicted=1)
    assert "Adopt" in ready["message"]
    assert sync.conditions["Conflicted"]["status"] == "True"
    app = world.find("ConfigMap", world.home)
    assert app.at("data") == {"colour": "theirs"}
    app.delete()
    app.holds_data(colour="ours")
    sync.becomes("Synced", synced=2)


def test_keep_leaves_what_is_there_and_what_was_written(world: GitWorld) -> None:
    world.put(world.home, colour="theirs")
    first = world.push({"app.yaml": config_map(colour="ours"), "more.yaml": config_map("more", a="1")})
    sync = world.csync(resourceManagementPolicy="Keep")
    sync.becomes("Synced", synced=1, skipped=1)
    more = world.find("ConfigMap", world.home, "more")
    more.put("data", "a", value="edited")
    second = world.push({"more.yaml": config_map("more", a="2")})
    sync.now()
    assert sync.revision == second != first
    assert world.find("ConfigMap", world.home).at("data") == {"colour": "theirs"}
    assert more.at("data") == {"a": "edited"}


def test_adopt_takes_over_and_lets_go_at_the_end(world: GitWorld) -> None:
    theirs = world.put(world.home, colour="theirs")
    world.push({"app.yaml": config_map(colour="ours")})
    sync = world.csync(resourceManagementPolicy="Adopt")
    sync.becomes("Synced", synced=1)
    app = world.find("ConfigMap", world.home)
    app.holds_data(colour="ours")
    uid = app.uid
    sync.delete()
    sync.gone()
    assert (app.uid, theirs.marked) == (uid, False)


def test_overwrite_makes_it_exactly_what_git_says(world: GitWorld) -> None:
    world.make(
        "Service",
        name="app",
        metadata={"labels": {"theirs": "yes"}},
        spec={"ports": [{"port": 80}], "selector": {"app": "theirs"}, "sessionAffinity": "ClientIP"},
    )
    app = world.find("Service", world.home)
    address = app.at("spec", "clusterIP")
    world.push({"app.yaml": manifest("v1", "Service", "app", spec={"ports": [{"port": 90}]})})
    sync = world.csync(resourceManagementPolicy="Overwrite")
    sync.becomes("Synced", synced=1)
    assert app.labels == {}
    assert (app.at("spec", "selector"), app.at("spec", "sessionAffinity")) == (None, "None")
    assert (app.at("spec", "ports", 0, "port"), app.at("spec", "clusterIP")) == (90, address)
    world.stays_quiet(sync)
    app.put("spec", "publishNotReadyAddresses", value=True)
    app.shows("spec", "publishNotReadyAddresses", value=None)
    world.stays_quiet(sync)


def test_under_report_drift_is_told_and_left_and_the_next_commit_is_applied(world: GitWorld) -> None:
    spec = deployment_spec()
    world.push(
        {"app.yaml": manifest("apps/v1", "Deployment", "app", spec=spec), "conf.yaml": config_map("conf", a="1")}
    )
    sync = world.csync(driftPolicy="Report")
    sync.becomes("Synced", synced=2)
    app, conf = world.find("Deployment", world.home), world.find("ConfigMap", world.home, "conf")
    app.put("spec", "replicas", value=5)
    conf.put("data", "a", value="edited")
    ready = sync.becomes("Drifted", conflicted=2)
    assert "Deployment" in ready["message"]
    assert sync.conditions["Conflicted"]["status"] == "True"
    assert (app.at("spec", "replicas"), conf.at("data", "a")) == (5, "edited")
    world.push(
        {
            "app.yaml": manifest("apps/v1", "Deployment", "app", spec={**spec, "replicas": 3}),
            "conf.yaml": config_map("conf", a="2"),
        }
    )
    sync.now()
    sync.becomes("Synced", synced=2)
    assert (app.at("spec", "replicas"), conf.at("data", "a")) == (3, "2")


def test_fields_left_to_others_survive_repairs_and_commits(world: GitWorld) -> None:
    spec = deployment_spec()
    conf = config_map("conf", ours="1", theirs="1")
    world.push({"app.yaml": manifest("apps/v1", "Deployment", "app", spec=spec), "conf.yaml": conf})
    sync = world.csync(
        ignoreDifferences=[
            {"kind": "Deployment", "paths": ["/spec/replicas", "/metadata/annotations/team"]},
            {"kind": "ConfigMap", "name": "conf", "paths": ["/data/theirs"]},
        ]
    )
    sync.becomes("Synced", synced=2)
    app, copy = world.find("Deployment", world.home), world.find("ConfigMap", world.home, "conf")
    app.put("spec", "replicas", value=7, manager="autoscaler")
    app.annotate({"team": "blue"})
    copy.put("data", "theirs", value="edited")
    newer = {
        **spec,
        "template": {**spec["template"], "spec": {"containers": [{"name": "app", "image": "example.com/app:2"}]}},
    }
    world.push(
        {
            "app.yaml": manifest("apps/v1", "Deployment", "app", spec=newer),
            "conf.yaml": config_map("conf", ours="2", theirs="2"),
        }
    )
    sync.now()
    sync.becomes("Synced", synced=2)
    app.shows("spec", "template", "spec", "containers", 0, "image", value="example.com/app:2")
    assert (app.at("spec", "replicas"), app.annotations["team"]) == (7, "blue")
    copy.holds_data(ours="2", theirs="edited")
    world.stays_quiet(sync)


def _job(image: str) -> dict[str, object]:
    return {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "app", "image": image}]}}}


def test_values_that_the_server_does_not_keep_are_no_drift_and_others_are(world: GitWorld) -> None:
    """As people write them: some empty values are kept, some are dropped, some are filled in."""
    container = {"name": "app", "image": "example.com/app:1", "resources": {}, "stdin": False, "args": [], "env": []}
    pod = {
        "automountServiceAccountToken": False,
        "hostNetwork": False,
        "nodeSelector": {},
        "tolerations": [],
        "initContainers": [],
        "schedulerName": "",
        "securityContext": {},
        "containers": [container],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
    }
    template = {"metadata": {"labels": {"app": "app"}, "annotations": {}, "creationTimestamp": None}, "spec": pod}
    spec = {"selector": {"matchLabels": {"app": "app"}}, "paused": False, "minReadySeconds": 0, "strategy": {}}
    names = ["app", "more"]

    def pushed(replicas: int) -> str:
        bodies = {**spec, "replicas": replicas, "template": template}
        return world.push({f"{name}.yaml": manifest("apps/v1", "Deployment", name, spec=bodies) for name in names})

    pushed(0)
    sync = world.csync()
    sync.becomes("Synced", synced=2)
    world.stays_quiet(sync)
    copies = [world.find("Deployment", world.home, name) for name in names]
    where = ("spec", "template", "spec")
    for copy in copies:
        copy.put(*where, "volumes", 0, value={"name": "scratch", "hostPath": {"path": "/"}})
        copy.shows(*where, "volumes", 0, value={"name": "scratch", "emptyDir": {}})
    copies[0].put(*where, "hostNetwork", value=True)
    copies[0].shows(*where, "hostNetwork", value=None)
    copies[0].put(*where, "nodeSelector", value={"disk": "slow"})
    copies[0].shows(*where, "nodeSelector", value=None)
    sync.becomes("Synced", synced=2)
    world.stays_quiet(sync)
    pushed(1)
    sync.now()
    sync.becomes("Synced", synced=2)
    world.stays_quiet(sync)
    # What an injector adds to lists that are empty in Git is its own.
    for copy in copies:
        copy.put(*where, "initContainers", value=[{"name": "init", "image": "example.com/init:1"}], manager="injector")
        copy.put(*where, "containers", 0, "env", value=[{"name": "INJECTED", "value": "1"}], manager="injector")
    sync.now()
    sync.becomes("Synced", synced=2)
    world.stays_quiet(sync)
    assert [copy.at(*where, "initContainers", 0, "name") for copy in copies] == ["init", "init"]


def test_a_secret_with_a_key_left_to_others_gets_its_new_type_and_keeps_that_key(world: GitWorld) -> None:
    def secret(of_type: str) -> str:
        return manifest("v1", "Secret", "app", type=of_type, stringData={"username": "a", "password": "given"})

    world.push({"app.yaml": secret("Opaque")})
    sync = world.csync(ignoreDifferences=[{"kind": "Secret", "paths": ["/data/password"]}])
    sync.becomes("Synced", synced=1)
    app = world.find("Secret", world.home)
    app.keep(password="rotated")
    world.push({"app.yaml": secret("kubernetes.io/basic-auth")})
    sync.now()
    app.shows("type", value="kubernetes.io/basic-auth")
    app.holds(username="a", password="rotated")
    uid = app.uid
    sync.did("1 recreated")
    sync.becomes("Synced", synced=1)
    world.stays_quiet(sync)
    assert app.uid == uid


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        (
            "Job",
            {
                "template": {
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "example.com/a:1"}]}
                }
            },
            {
                "template": {
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "example.com/a:2"}]}
                }
            },
        ),
        ("Service", {"ports": [{"port": 80}]}, {"ports": [{"port": 80}], "clusterIP": "None"}),
    ],
)
def test_a_field_that_cannot_be_changed_gives_a_clear_condition_and_no_loop(
    world: GitWorld, kind: str, before: dict[str, object], after: dict[str, object]
) -> None:
    version = {"Job": "batch/v1", "Service": "v1"}[kind]
    old, new = (manifest(version, kind, "app", spec=spec) for spec in (before, after))
    world.push({"mine/app.yaml": old, "mine/conf.yaml": config_map("conf"), "theirs/app.yaml": config_map("theirs")})
    sync = world.csync(git={"path": "mine"})
    sync.becomes("Synced", synced=2)
    uid = world.find(kind, world.home).uid
    world.push({"mine/app.yaml": new, "mine/conf.yaml": config_map("conf", a="2")})
    sync.now()
    ready = sync.becomes("Immutable", synced=1, failed=1)
    assert "Overwrite" in ready["message"]
    world.find("ConfigMap", world.home, "conf").holds_data(a="2")
    assert world.find(kind, world.home).uid == uid
    sync.now()
    mark = world.mark()
    world.csync("witness", git={"path": "theirs"}).becomes("Synced", synced=1)
    assert not [write for write in world.copying(mark) if write.endswith("422")]
    sync.change(resourceManagementPolicy="Overwrite")
    sync.becomes("Synced", synced=2)
    assert world.find(kind, world.home).uid != uid


def test_a_change_that_was_refused_is_sent_again_when_somebody_asks_and_not_when_something_else_happens(
    world: GitWorld,
) -> None:
    def service(**more: str) -> Json:
        return manifest("v1", "Service", "app", spec={"ports": [{"port": 80}], **more})

    def refused(since: int) -> int:
        return sum(write.endswith("422") for write in world.copying(since))

    world.push({"app.yaml": service(), "conf.yaml": config_map("conf")})
    sync = world.csync()
    sync.becomes("Synced", synced=2)
    world.push({"app.yaml": service(clusterIP="None")})
    sync.now()
    sync.becomes("Immutable", synced=1, failed=1)
    sync.now()  # the first time, the fields of the object were counted as applied, which is a change of it
    mark = world.mark()
    world.find("ConfigMap", world.home, "conf").delete()
    sync.did("1 created")
    assert refused(mark) == 0
    assert sync.conditions["Ready"]["reason"] == "Immutable"
    sync.now()
    assert refused(mark) == 2
    # What has changed since may be what was in the way.
    mark = world.mark()
    world.find("Service", world.home).put("metadata", "annotations", "touched", value="true")
    until(lambda: refused(mark), lambda number: number == 2)


def test_a_write_loop_over_an_object_is_detected_and_named(world: GitWorld) -> None:
    commit = world.push({"app.yaml": config_map(colour="red")})
    sync = world.csync()
    sync.at(commit)
    app = world.find("ConfigMap", world.home)

    def provoke() -> str:
        if app.at("data") == {"colour": "red"}:
            app.put("data", "colour", value="green", manager="rival")
        return str(sync.conditions["Ready"]["reason"])

    until(provoke, lambda reason: reason == "WriteLoop")
    assert "rival" in sync.message


def test_of_two_syncs_that_want_one_object_the_first_keeps_it_until_it_lets_go(world: GitWorld) -> None:
    world.push({"one/app.yaml": config_map(colour="one"), "two/app.yaml": config_map(colour="two")})
    one = world.csync("one", git={"path": "one"})
    one.becomes("Synced", synced=1)
    two = world.csync("two", git={"path": "two"})
    ready = two.becomes("OwnedByOther", conflicted=1)
    assert f"{world.home}/one" in ready["message"]
    app = world.find("ConfigMap", world.home)
    assert app.at("data") == {"colour": "one"}
    one.delete()
    app.holds_data(colour="two")
    two.becomes("Synced", synced=1)


def test_a_dry_run_tells_what_it_would_do_and_writes_nothing(world: GitWorld) -> None:
    world.put(world.home, "theirs", a="1")
    commit = world.push({"app.yaml": config_map(), "theirs.yaml": config_map("theirs")})
    mark = world.mark()
    sync = world.csync(dryRun=True)
    ready = sync.becomes("DryRun")
    assert ready["status"] == "False"
    assert sync.status["plan"][0] == f"create ConfigMap {world.home}/app"
    assert sync.status["plan"][1].startswith(f"leave ConfigMap {world.home}/theirs")
    assert FINALIZER not in sync.read()["metadata"].get("finalizers", ())
    assert world.copying(mark) == []
    assert sync.revision is None
    sync.change(dryRun=False, resourceManagementPolicy="Adopt")
    assert "plan" not in sync.at(commit)
    world.find("ConfigMap", world.home).holds_data(a="1")


def test_a_dry_run_of_a_new_commit_leaves_the_old_one_in_place(world: GitWorld) -> None:
    first = world.push({"app.yaml": config_map(colour="red"), "old.yaml": config_map("old")})
    sync = world.csync()
    sync.at(first)
    sync.change(dryRun=True)
    world.push({"app.yaml": config_map(colour="blue"), "old.yaml": None})
    sync.now()
    sync.becomes("DryRun")
    assert sync.status["plan"] == [f"update ConfigMap {world.home}/app", f"delete ConfigMap {world.home}/old"]
    assert sync.revision == first
    assert world.find("ConfigMap", world.home).at("data") == {"colour": "red"}


def test_a_map_or_list_of_a_custom_kind_that_somebody_empties_is_repaired_at_the_cost_of_no_write(
    world: GitWorld,
) -> None:
    text = {"type": "string"}
    parts = {"type": "object", "required": ["name"], "properties": {"name": text, "size": {"type": "integer"}}}
    spec = {
        "options": {"type": "object", "additionalProperties": text},
        "reference": {"type": "object", "properties": {"name": text}, "x-kubernetes-map-type": "atomic"},
        "parts": {
            "type": "array",
            "items": parts,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        "values": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
    crd = definition("hollows", "Hollow")
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    crd["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    body = {"options": {"a": "1"}, "reference": {"name": "x"}, "parts": [{"name": "left", "size": 1}]}
    body["values"] = {"deep": {"list": [1]}}
    one, two = (manifest("example.com/v1", "Hollow", name, spec=body) for name in ("one", "two"))
    world.push({"crd.yaml": crd, "one.yaml": one})
    world.leave_behind(Thing(world.sandbox, CRDS, "hollows.example.com"))
    sync = world.csync()
    sync.becomes("Synced", synced=2)
    mark = world.mark()
    world.push({"two.yaml": two})
    sync.now()
    sync.becomes("Synced", synced=3)
    assert len(world.copying(mark)) == 1
    world.stays_quiet(sync)
    for name in ("one", "two"):
        copy = world.custom("Hollow", "hollows", world.home, name)
        for field, emptied in (("options", {}), ("parts", []), ("reference", {}), ("values", {"deep": {}})):
            copy.put("spec", field, value=emptied)
            copy.shows("spec", field, value=body[field])
        sync.becomes("Synced", synced=3)
    world.stays_quiet(sync)
