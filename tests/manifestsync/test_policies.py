"""resourceManagementPolicy, for kinds that are compared by content and for kinds that are not."""

import pytest
from tests.configmapsync.world import until
from tests.manifestsync.world import Manifests, Object, deployment_spec, service_spec

REPLICAS = ("spec", "replicas")
IMAGE = ("spec", "template", "spec", "containers", 0, "image")
KINDS = ["Secret", "Deployment", "Service"]
POLICIES = ["Keep", "Sync", "Adopt", "Overwrite"]


def make(world: Manifests, kind: str, namespace: str, what: str) -> Object:
    """Create an object that says `what`."""
    match kind:
        case "Secret":
            return world.make(kind, namespace, stringData={"what": what})
        case "Deployment":
            return world.make(kind, namespace, spec=deployment_spec(f"example.com/app:{what}"))
        case _:
            return world.make(kind, namespace, spec={**service_spec(), "externalName": what, "type": "ExternalName"})


def said(one: Object) -> str:
    """Return what an object says."""
    match one.kind:
        case "Secret":
            return one.values["what"]
        case "Deployment":
            return str(one.at(*IMAGE)).removeprefix("example.com/app:")
        case _:
            return str(one.at("spec", "externalName"))


def say(one: Object, what: str) -> None:
    """Have somebody make an object say something else."""
    match one.kind:
        case "Secret":
            one.keep(what=what)
        case "Deployment":
            one.put(*IMAGE, value=f"example.com/app:{what}")
        case _:
            one.put("spec", "externalName", value=what)


@pytest.mark.parametrize("kind", KINDS)
def test_every_policy_creates_what_is_absent_and_deletes_it_at_the_end(world: Manifests, kind: str) -> None:
    source = make(world, kind, world.home, "red")
    targets = {policy: world.namespace(policy.lower()) for policy in POLICIES}
    syncs = {
        policy: world.msync(policy.lower(), source, into=[target], resourceManagementPolicy=policy)
        for policy, target in targets.items()
    }
    for policy, sync in syncs.items():
        sync.becomes("Synced", synced=1)
        assert said(world.find(kind, targets[policy])) == "red"
    world.stays_quiet(*syncs.values())
    for sync in syncs.values():
        sync.delete()
    for target in targets.values():
        world.find(kind, target).gone()


@pytest.mark.parametrize("kind", KINDS)
def test_sync_and_keep_leave_what_is_foreign(world: Manifests, kind: str) -> None:
    source = make(world, kind, world.home, "red")
    keep, sync = world.namespaces("keep", "sync")
    theirs = [make(world, kind, target, "theirs") for target in (keep, sync)]
    before = [one.read() for one in theirs]
    keeping = world.msync("keep", source, into=[keep], resourceManagementPolicy="Keep")
    syncing = world.msync("sync", source, into=[sync])
    assert keeping.becomes("Synced", skipped=1)["status"] == "True"
    ready = syncing.becomes("NotOurs", conflicted=1)
    assert "set resourceManagementPolicy to Adopt or Overwrite to take it over" in ready["message"]
    for one in (keeping, syncing):
        one.delete()
        one.gone()
    assert [_without_status(one.read()) for one in theirs] == [_without_status(one) for one in before]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("policy", ["Adopt", "Overwrite"])
def test_adopt_and_overwrite_take_over_what_is_foreign_and_release_it_at_the_end(
    world: Manifests, kind: str, policy: str
) -> None:
    source = make(world, kind, world.home, "red")
    target = world.namespace("a")
    theirs = make(world, kind, target, "theirs")
    theirs.edit(lambda body: body["metadata"].update(labels={"theirs": "yes"}, annotations={"their": "note"}))
    uid = theirs.uid
    sync = world.msync("sync", source, into=[target], resourceManagementPolicy=policy)
    sync.becomes("Synced", synced=1)
    sync.did("1 adopted")
    assert said(theirs) == "red"
    assert ("theirs" in theirs.labels) == (policy == "Adopt")
    assert ("their" in theirs.annotations) == (policy == "Adopt")
    world.stays_quiet(sync)
    say(source, "blue")
    sync.did("1 updated")
    assert said(theirs) == "blue"
    sync.delete()
    sync.gone()
    assert (theirs.uid, said(theirs), theirs.marked) == (uid, "blue", False)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("policy", ["Sync", "Adopt", "Overwrite"])
def test_all_but_keep_repair_what_others_changed_and_name_them(world: Manifests, kind: str, policy: str) -> None:
    source = make(world, kind, world.home, "red")
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target], resourceManagementPolicy=policy)
    sync.becomes("Synced", synced=1)
    copy = world.find(kind, target)
    say(copy, "pink")
    event = sync.tells("DriftRepaired")
    assert "changed by somebody" in event["note"]
    assert said(copy) == "red"
    sync.becomes("Synced", synced=1)
    world.stays_quiet(sync)


@pytest.mark.parametrize("kind", KINDS)
def test_keep_leaves_a_copy_as_others_made_it_and_creates_none_again(world: Manifests, kind: str) -> None:
    source = make(world, kind, world.home, "red")
    edited, deleted = world.namespaces("edited", "deleted")
    sync = world.msync("sync", source, into=[edited, deleted], resourceManagementPolicy="Keep")
    sync.becomes("Synced", synced=2)
    say(world.find(kind, edited), "pink")
    world.find(kind, deleted).delete()
    for target in (edited, deleted):
        assert sync.says(target, "Kept")["status"] == "Skipped"
    say(source, "blue")
    sync.now()
    assert said(world.find(kind, edited)) == "pink"
    assert world.find(kind, deleted).look() is None


def test_a_policy_for_this_cluster_alone_overrides_that_of_the_sync(world: Manifests) -> None:
    source = world.secret()
    target = world.namespace("a")
    theirs = world.secret(namespace=target, theirs="1")
    sync = world.msync(
        "sync",
        source,
        targets={"inCluster": {"namespaces": [target], "resourceManagementPolicy": "Adopt"}},
        resourceManagementPolicy="Keep",
    )
    sync.becomes("Synced", synced=1)
    theirs.holds(password="red")


def test_overwrite_removes_what_others_added_and_keeps_what_the_server_allocated(world: Manifests) -> None:
    source = world.service()
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target], resourceManagementPolicy="Overwrite")
    sync.becomes("Synced", synced=1)
    copy = world.find("Service", target)
    address, port = copy.spec["clusterIP"], copy.spec["ports"][0]["nodePort"]

    def meddle(body: dict[str, dict[str, object]]) -> None:
        body["metadata"]["labels"] = {**body["metadata"]["labels"], "extra": "x"}  # type: ignore[dict-item]
        body["spec"]["sessionAffinity"] = "ClientIP"

    copy.edit(meddle)
    copy.shows("spec", "sessionAffinity", value="None")
    sync.becomes("Synced", synced=1)
    assert copy.labels == {}
    assert (copy.spec["clusterIP"], copy.spec["ports"][0]["nodePort"]) == (address, port)
    world.stays_quiet(sync)
    source.put("spec", "ports", 0, "port", value=81)
    copy.shows("spec", "ports", 0, "port", value=81)
    assert (copy.spec["clusterIP"], copy.spec["ports"][0]["nodePort"]) == (address, port)


def test_overwrite_removes_a_label_that_others_added(world: Manifests) -> None:
    source = world.deployment()
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target], resourceManagementPolicy="Overwrite")
    sync.becomes("Synced", synced=1)
    copy = world.find("Deployment", target)
    copy.label(extra="x")
    until(lambda: copy.labels, lambda seen: seen == {})
    sync.becomes("Synced", synced=1)
    world.stays_quiet(sync)


def test_overwrite_removes_a_field_that_others_added_and_names_them(world: Manifests) -> None:
    source = world.deployment()
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target], resourceManagementPolicy="Overwrite")
    sync.becomes("Synced", synced=1)
    copy = world.find("Deployment", target)
    copy.put("spec", "minReadySeconds", value=7, manager="injector")
    copy.shows("spec", "minReadySeconds", value=None)
    assert "spec.minReadySeconds changed by injector" in sync.tells("DriftRepaired")["note"]
    container = ("spec", "template", "spec", "containers", 0)
    env = copy.at(*container, "env")
    copy.put(*container, "env", value=[*env, {"name": "THEIRS", "value": "1"}], manager="injector")
    copy.shows(*container, "env", value=env)
    world.stays_quiet(sync)


def test_overwrite_leaves_what_a_controller_allocates_later(world: Manifests) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}
    source = world.make("PersistentVolumeClaim", spec=spec)
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target], resourceManagementPolicy="Overwrite")
    sync.becomes("Synced", synced=1)
    copy = world.find("PersistentVolumeClaim", target)
    mark = world.mark()
    copy.put("spec", "volumeName", value="disk-1", manager="volume-controller")
    sync.now()
    assert world.copying(mark) == []
    source.label(team="a")
    until(lambda: copy.labels, lambda seen: seen == {"team": "a"})
    assert copy.at("spec", "volumeName") == "disk-1"
    world.stays_quiet(sync)


def test_overwrite_takes_over_a_service_with_its_address(world: Manifests) -> None:
    source = world.service()
    target = world.namespace("a")
    theirs = world.make(
        "Service",
        target,
        metadata={"finalizers": ["example.com/theirs"]},
        spec={"ports": [{"name": "http", "port": 8080}], "selector": {"their": "app"}},
    )
    address = theirs.spec["clusterIP"]
    sync = world.msync("sync", source, into=[target], resourceManagementPolicy="Overwrite")
    sync.becomes("Synced", synced=1)
    assert theirs.spec["selector"] == {"app": "app"}
    assert [port["port"] for port in theirs.spec["ports"]] == [80]
    assert theirs.spec["clusterIP"] == address
    assert theirs.read()["metadata"]["finalizers"] == ["example.com/theirs"]
    world.stays_quiet(sync)
    theirs.edit(lambda body: body["metadata"].update(finalizers=[]))


def _without_status(body: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in body.items() if name not in ("status", "metadata")}
