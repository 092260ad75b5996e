"""Objects of any kind are copied without what one place gave them."""

import base64

from tests.manifestsync.world import Manifests, Object

CANARY = "canary-7f3a9"


def carried(world: Manifests, source: Object, **spec: object) -> Object:
    """Copy an object into another namespace, see that it comes to rest, and return the copy."""
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target], **spec)
    sync.becomes("Synced", synced=1)
    world.stays_quiet(sync)
    return world.find(source.kind, target, source.name)


def test_a_secret_is_copied_with_its_type(world: Manifests) -> None:
    source = world.make("Secret", type="kubernetes.io/basic-auth", stringData={"username": "admin", "password": CANARY})
    copy = carried(world, source)
    assert copy.read()["type"] == "kubernetes.io/basic-auth"
    assert copy.values == {"username": "admin", "password": CANARY}
    source.keep(password="changed")
    copy.holds(username="admin", password="changed")


def test_no_value_of_a_secret_is_anywhere_but_in_the_copies(world: Manifests) -> None:
    source = world.secret(password=CANARY)
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target])
    sync.becomes("Synced")
    copy = world.find("Secret", target)
    copy.keep(password="edited")
    sync.tells("DriftRepaired")
    copy.holds(password=CANARY)
    told = f"{sync.read()}{sync.events()}{copy.read()['metadata']}"
    for form in (CANARY, base64.b64encode(CANARY.encode()).decode()):
        assert form not in told
    # A digest without a key could be guessed from: it is keyed, and the key is named.
    assert copy.marker["key"]
    assert copy.marker["digest"]
    assert "digest" not in str(sync.status["sourceObservedState"])


def test_a_config_map_is_copied(world: Manifests) -> None:
    source = world.make("ConfigMap", data={"colour": "red"}, binaryData={"raw": "gIA="})
    copy = carried(world, source)
    assert copy.read()["data"] == {"colour": "red"}
    assert copy.read()["binaryData"] == {"raw": "gIA="}


def test_a_deployment_is_copied_and_follows_its_source(world: Manifests) -> None:
    source = world.deployment()
    copy = carried(world, source)
    assert copy.spec == source.spec
    source.put("spec", "template", "spec", "containers", 0, "image", value="example.com/app:2")
    copy.shows("spec", "template", "spec", "containers", 0, "image", value="example.com/app:2")


def test_a_service_gets_its_own_addresses_and_ports(world: Manifests) -> None:
    source = world.service()
    copy = carried(world, source)
    assert copy.spec["ports"][0]["port"] == 80
    assert copy.spec["selector"] == {"app": "app"}
    assert copy.spec["clusterIP"] != source.spec["clusterIP"]
    assert copy.spec["ports"][0]["nodePort"] != source.spec["ports"][0]["nodePort"]


def test_a_headless_service_stays_headless(world: Manifests) -> None:
    source = world.service(type="ClusterIP", clusterIP="None")
    assert carried(world, source).spec["clusterIP"] == "None"


def test_a_service_account_is_copied_without_its_tokens(world: Manifests) -> None:
    source = world.make(
        "ServiceAccount",
        secrets=[{"name": "token"}],
        imagePullSecrets=[{"name": "registry"}],
        automountServiceAccountToken=False,
    )
    copy = carried(world, source).read()
    assert "secrets" not in copy
    assert copy["imagePullSecrets"] == [{"name": "registry"}]
    assert copy["automountServiceAccountToken"] is False


def test_a_job_is_copied_without_the_selector_that_the_server_made(world: Manifests) -> None:
    container = {"name": "work", "image": "example.com/work:1"}
    source = world.make(
        "Job", spec={"template": {"spec": {"containers": [container], "restartPolicy": "Never"}}, "backoffLimit": 2}
    )
    copy = carried(world, source)
    assert copy.spec["backoffLimit"] == 2
    assert copy.spec["selector"] != source.spec["selector"]


def test_a_claim_is_copied_without_its_volume(world: Manifests) -> None:
    source = world.make(
        "PersistentVolumeClaim",
        spec={
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "volumeName": "disk-1",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    )
    copy = carried(world, source)
    assert "volumeName" not in copy.spec
    assert copy.spec["resources"]["requests"]["storage"] == "1Gi"


def test_a_kind_without_namespace_is_copied_under_another_name(world: Manifests) -> None:
    name = f"{world.name}-low"
    source = world.make("PriorityClass", name=name, value=10, description="low")
    sync = world.msync("sync", source, targetName=f"{world.name}-copy")
    sync.becomes("Synced", synced=1)
    copy = world.find("PriorityClass", name=f"{world.name}-copy")
    assert copy.read()["value"] == 10
    world.stays_quiet(sync)
    source.put("description", value="lower")
    copy.shows("description", value="lower")
    entry = sync.status["targetStatuses"][0]
    assert (entry["kind"], entry["namespace"], entry["name"]) == ("PriorityClass.scheduling.k8s.io", "", copy.name)
    sync.delete()
    copy.gone()
    sync.gone()
    assert source.read()["description"] == "lower"


def test_a_custom_kind_is_copied_once_its_definition_appears(world: Manifests) -> None:
    plural, kind = f"{world.name}s", world.name.capitalize()
    target = world.namespace("a")
    ref = {"apiVersion": "example.com/v1", "kind": kind, "name": "app"}
    sync = world.msync(sourceRef=ref, targets={"inCluster": {"namespaces": [target]}})
    ready = sync.becomes("KindNotServed")
    assert f"kind {kind} of example.com/v1 is not served" in ready["message"]
    world.define(plural, kind)
    source = Object(world.sandbox, kind, world.home, "app", ("example.com/v1", plural))
    body = {
        "apiVersion": "example.com/v1",
        "kind": kind,
        "metadata": {"name": "app"},
        "spec": {"size": 1, "tags": ["a"]},
    }
    source.create(body)
    copy = Object(world.sandbox, kind, target, "app", ("example.com/v1", plural))
    copy.shows("spec", value={"size": 1, "tags": ["a"]})
    sync.becomes("Synced")
    world.stays_quiet(sync)
    source.put("spec", "size", value=2)
    copy.shows("spec", "size", value=2)
    copy.put("spec", "tags", value=["mine"])
    copy.shows("spec", "tags", value=["a"])
    source.put("spec", "tags", value=None)
    copy.shows("spec", value={"size": 2})


def test_a_kind_that_is_served_in_another_version_only_is_watched_in_that_one(world: Manifests) -> None:
    plural, kind = f"{world.name}s", world.name.capitalize()
    definition = world.define(plural, kind, "v1beta1", "v1")
    source = Object(world.sandbox, kind, world.home, "app", ("example.com/v1", plural))
    source.create({"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "app"}, "spec": {"size": 1}})
    target = world.namespace("a")
    old = {"apiVersion": "example.com/v1beta1", "kind": kind, "name": "app"}
    sync = world.msync(sourceRef=old, targets={"inCluster": {"namespaces": [target]}})
    sync.becomes("Synced", synced=1)
    definition.put("spec", "versions", 0, "served", value=False)
    ready = sync.becomes("KindNotServed")
    assert "write apiVersion example.com/v1" in ready["message"]
    sync.change(sourceRef=source.ref)
    sync.becomes("Synced", synced=1)
    copy = Object(world.sandbox, kind, target, "app", ("example.com/v1", plural))
    copy.put("spec", "size", value=5)
    copy.shows("spec", "size", value=1)
