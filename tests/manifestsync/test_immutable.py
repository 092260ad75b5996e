"""What cannot be changed: made anew where nothing is lost by it, a clear failure elsewhere, never a loop."""

from tests.configmapsync.admission import refused
from tests.configmapsync.world import until
from tests.manifestsync.world import Manifests, deployment_spec


def test_an_immutable_secret_that_differs_is_made_anew(world: Manifests) -> None:
    source = world.make("Secret", stringData={"password": "red"}, immutable=True)
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target])
    sync.becomes("Synced", synced=1)
    copy = world.find("Secret", target)
    assert copy.at("immutable") is True
    uid = copy.uid
    source.delete()
    world.make("Secret", stringData={"password": "blue"}, immutable=True)
    copy.holds(password="blue")
    assert copy.uid != uid
    assert copy.at("immutable") is True
    sync.did("1 recreated")
    world.stays_quiet(sync)


def test_a_secret_whose_type_has_changed_is_made_anew(world: Manifests) -> None:
    source = world.secret(username="admin", password="red")
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target])
    sync.becomes("Synced", synced=1)
    copy = world.find("Secret", target)
    assert copy.at("type") == "Opaque"
    source.delete()
    world.make("Secret", type="kubernetes.io/basic-auth", stringData={"username": "admin", "password": "red"})
    copy.shows("type", value="kubernetes.io/basic-auth")
    assert copy.values == {"username": "admin", "password": "red"}
    sync.did("1 recreated")
    world.stays_quiet(sync)


def test_an_object_is_not_deleted_to_be_made_anew_while_a_policy_refuses_to_create_it(world: Manifests) -> None:
    source = world.secret(username="admin", password="red")
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target])
    sync.becomes("Synced", synced=1)
    copy = world.find("Secret", target)
    uid = copy.uid
    with refused(world.sandbox, target, "secrets", message="no more of them"):
        source.delete()
        world.make("Secret", type="kubernetes.io/basic-auth", stringData={"username": "admin", "password": "red"})
        ready = sync.becomes("RecreateRefused", failed=1)
        assert "allow that, or delete the object yourself: " in ready["message"]
        assert "ValidatingAdmissionPolicy" in sync.target(target)["message"]
        sync.now()
        assert (copy.uid, copy.at("type")) == (uid, "Opaque")
    sync.now()
    copy.shows("type", value="kubernetes.io/basic-auth")
    sync.becomes("Synced", synced=1)


def test_an_object_is_not_deleted_to_be_made_anew_where_a_quota_is_used_up(world: Manifests) -> None:
    source = world.deployment()
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target], resourceManagementPolicy="Overwrite")
    sync.becomes("Synced", synced=1)
    copy = world.find("Deployment", target)
    uid = copy.uid
    limit = {"count/deployments.apps": "1"}
    quota = world.make("ResourceQuota", target, spec={"hard": limit})
    # The sandbox runs no controller that counts; the API server goes by what stands in the status.
    used = {**quota.read(), "status": {"hard": limit, "used": limit}}
    quota.sandbox.request("PUT", f"{quota.path}/status", used)
    source.delete()
    source.gone()
    world.make("Deployment", spec=deployment_spec(app="other"))
    sync.becomes("RecreateRefused", failed=1)
    assert "exceeded quota: app" in sync.target(target)["message"]
    sync.now()
    assert copy.uid == uid
    quota.delete()
    until(sync.look, lambda _: sync.now() or copy.at("spec", "selector", "matchLabels") == {"app": "other"})
    sync.becomes("Synced", synced=1)
    assert copy.uid != uid


def test_a_service_with_a_port_of_its_own_is_made_anew(world: Manifests) -> None:
    """The port that the new one asks for is taken, by the old one: that is no reason to refuse it."""
    ports = "type: NodePort, ports: [{name: http, port: 80, nodePort: 30777}]"

    def patch(content: str) -> dict[str, str]:
        return {"patchStrategy": "Merge", "patchContent": content}

    source = world.service(type="ClusterIP")
    target = world.namespace("a")
    sync = world.msync(
        "sync", source, into=[target], resourceManagementPolicy="Overwrite", patch=patch(f"spec: {{{ports}}}")
    )
    sync.becomes("Synced", synced=1)
    copy = world.find("Service", target)
    uid = copy.uid
    sync.change(patch=patch(f"spec: {{{ports}, clusterIP: 10.96.77.77}}"))
    sync.becomes("Synced", synced=1)
    assert (copy.at("spec", "clusterIP"), copy.at("spec", "ports", 0, "nodePort")) == ("10.96.77.77", 30777)
    assert copy.uid != uid


def test_an_adopted_secret_of_another_type_is_left_and_the_message_says_what_to_do(world: Manifests) -> None:
    source = world.make("Secret", type="kubernetes.io/basic-auth", stringData={"username": "a", "password": "b"})
    target = world.namespace("a")
    theirs = world.secret(namespace=target, theirs="1")
    sync = world.msync("sync", source, into=[target], resourceManagementPolicy="Adopt")
    ready = sync.becomes("Immutable", failed=1)
    assert "of the unchangeable type Opaque; delete it, or set resourceManagementPolicy: Overwrite" in ready["message"]
    assert theirs.values == {"theirs": "1"}
    sync.change(resourceManagementPolicy="Overwrite")
    theirs.holds(username="a", password="b")
    sync.becomes("Synced")


def test_a_selector_that_cannot_be_changed_fails_clearly_once_and_overwrite_makes_the_copy_anew(
    world: Manifests,
) -> None:
    source = world.deployment()
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target])
    sync.becomes("Synced", synced=1)
    copy = world.find("Deployment", target)
    uid = copy.uid
    source.delete()
    source.gone()
    world.make("Deployment", spec=deployment_spec(app="other"))
    ready = sync.becomes("Immutable", failed=1)
    assert "spec.selector" in ready["message"]
    assert (
        "delete the copy, or set resourceManagementPolicy: Overwrite to have it deleted and created again"
        in ready["message"]
    )
    assert copy.uid == uid
    # It is tried again when something changes or somebody asks for it, and not on and on.
    assert "Reconciling" not in sync.conditions
    sync.now()
    assert copy.uid == uid
    sync.change(resourceManagementPolicy="Overwrite")
    copy.shows("spec", "selector", "matchLabels", value={"app": "other"})
    sync.becomes("Synced", synced=1)
    assert copy.uid != uid
    world.stays_quiet(sync)


def test_a_job_that_cannot_be_changed_fails_clearly_and_overwrite_makes_it_anew(world: Manifests) -> None:
    def job(image: str) -> dict[str, object]:
        container = {"name": "work", "image": image}
        return {"template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}

    source = world.make("Job", spec=job("example.com/work:1"))
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target])
    sync.becomes("Synced", synced=1)
    copy = world.find("Job", target)
    sync.change(suspend=True)
    sync.becomes("Suspended")
    source.sandbox.request("DELETE", f"{source.path}?propagationPolicy=Background")
    source.gone()
    world.make("Job", spec=job("example.com/work:2"))
    sync.change(suspend=False)
    assert "spec.template" in sync.becomes("Immutable", failed=1)["message"]
    sync.change(resourceManagementPolicy="Overwrite")
    copy.shows("spec", "template", "spec", "containers", 0, "image", value="example.com/work:2")
    sync.becomes("Synced", synced=1)
    world.stays_quiet(sync)


def test_a_claim_is_never_made_anew(world: Manifests) -> None:
    def claim(size: str, mode: str = "ReadWriteOnce") -> dict[str, object]:
        return {
            "accessModes": [mode],
            "storageClassName": "",
            "resources": {"requests": {"storage": size}},
        }

    source = world.make("PersistentVolumeClaim", spec=claim("1Gi"))
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target], resourceManagementPolicy="Overwrite")
    sync.becomes("Synced", synced=1)
    copy = world.find("PersistentVolumeClaim", target)
    uid = copy.uid
    sync.change(suspend=True)
    sync.becomes("Suspended")
    source.edit(lambda body: body["metadata"].update(finalizers=[]))
    source.delete()
    source.gone()
    world.make("PersistentVolumeClaim", spec=claim("1Gi", "ReadWriteMany"))
    sync.change(suspend=False)
    ready = sync.becomes("Immutable", failed=1)
    assert "the API server refuses the change; delete the copy to have it created again: " in ready["message"]
    sync.now()
    assert copy.uid == uid


def test_content_that_the_server_refuses_fails_with_its_words(world: Manifests) -> None:
    source = world.service(type="ClusterIP")
    target, other = world.namespaces("a", "b")
    sync = world.msync("sync", source, into=[target], targetName="Not_A_Name")
    ready = sync.becomes("Invalid", failed=1)
    assert "Not_A_Name" in ready["message"]
    sync.change(targetName=None)
    sync.into(target, other)
    sync.becomes("Synced", synced=2)
    until(lambda: sync.counts, lambda seen: seen == {"desired": 2, "synced": 2})
