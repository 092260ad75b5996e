"""With which rights a sync acts: a missing one is told and stops only its part, and nobody gets more than they have."""

import base64
from typing import Any

import pytest
import yaml
from tests.configmapsync.world import Json, Thing, until
from tests.fleet.world import Remote, kubeconfig
from tests.tenancy.tenants import Tenant
from tests.workspacesync.world import UPSTREAM, Workspaces, report, resource

from syncline.api.common import API_VERSION
from syncline.api.workspacesync import KIND
from syncline.core.ownership import MARKER, OWNER_LABEL
from syncline.sandbox import RequestError

READ = ["get", "list", "watch"]


def rights(groups: list[str], resources: list[str], verbs: list[str]) -> Json:
    return {"apiGroups": groups, "resources": resources, "verbs": verbs}


READING = rights(["*"], ["*"], READ)


class Limited(Remote):
    """An account with exactly the rights that a test gives it."""

    def may(self, *rules: Json) -> None:
        self._apply(
            f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{self.namespace}", "ClusterRole", {"rules": list(rules)}
        )


@pytest.fixture
def reader(world: Workspaces) -> Limited:
    """An account that may read the upstream; the syncs use it."""
    account = Limited(world.sandbox)
    account.may(READING)
    world.credential(UPSTREAM, account)
    return account


@pytest.fixture
def writer(world: Workspaces) -> Limited:
    """An account of the cluster below; the SyncTarget `limited` uses it."""
    account = Limited(world.clusters["east"].sandbox)
    world.clusters["limited"] = account
    world.credential("limited", account)
    world.target("limited")
    return account


# Upstream.


@pytest.mark.usefixtures("reader")
def test_what_goes_down_needs_no_more_than_to_read_the_upstream(world: Workspaces) -> None:
    namespace = world.above("shop")
    source = world.data(namespace)
    sync = world.wsync()
    sync.is_ready()
    source.put("data", "colour", value="blue")
    world.down("ConfigMap", namespace).holds_data(colour="blue")
    source.delete()
    world.down("ConfigMap", namespace).gone()


def test_without_the_right_to_write_a_status_only_the_status_stays_behind(world: Workspaces, reader: Limited) -> None:
    for cluster in (world.upstream, world.clusters["east"]):
        world.define_widgets(cluster)
    namespace = world.above("shop")
    source = world.widget(namespace, size=1)
    sync = world.wsync("sync", world.widgets(), statusSync=True)
    copy = world.down("Widget", namespace)
    copy.appears()
    report(copy, phase="Running")
    sync.tells_of("widgets/status")
    source.put("spec", "size", value=2)
    copy.shows("spec", "size", value=2)
    reader.may(READING, rights([world.group], ["widgets/status"], ["patch"]))

    def is_told() -> bool:
        sync.now()  # without it, the rights are looked at again after a minute
        return bool(source.at("status", "phase") == "Running")

    until(is_told, bool)
    sync.is_ready()


def test_without_the_right_to_write_objects_upstream_only_the_way_up_is_closed(
    world: Workspaces, reader: Limited
) -> None:
    namespace = world.above("shop")
    source = world.data(namespace, colour="red", size="small")
    sync = world.wsync("sync", resource("configmaps", direction="Bidirectional"), conflictStrategy="MergeChanges")
    copy = world.down("ConfigMap", namespace)
    copy.appears()
    copy.put("data", "colour", value="green")
    sync.has_trouble("configmaps")
    source.put("data", "size", value="large")
    copy.holds_data(colour="green", size="large")
    reader.may(READING, rights([""], ["configmaps"], ["patch", "update"]))
    sync.now()
    source.holds_data(colour="green", size="large")
    sync.is_ready()


def test_a_resource_that_may_not_be_read_is_named_and_holds_up_no_other(world: Workspaces, reader: Limited) -> None:
    reader.may(rights([""], ["namespaces", "configmaps"], READ))
    namespace = world.above("shop")
    world.data(namespace)
    world.keep(namespace, password="value-of-the-upstream-1")
    sync = world.wsync("sync", "configmaps", "secrets")
    world.down("ConfigMap", namespace).appears()
    sync.has_trouble("secrets")
    reader.may(READING)
    sync.now()
    world.down("Secret", namespace).appears()
    sync.is_ready()


# Below.


def test_without_the_right_to_make_namespaces_only_those_that_are_there_are_used(
    world: Workspaces, writer: Limited
) -> None:
    writer.may(READING, rights([""], ["configmaps"], ["*"]))
    there, missing = world.above("there"), world.above("missing")
    world.namespace_at(world.clusters["east"], there)
    for namespace in (there, missing):
        world.data(namespace)
    sync = world.wsync(to=["limited"], namespaces=world.followed(existing="Use"))
    world.down("ConfigMap", there).appears()
    sync.has_trouble(missing)
    writer.may(READING, rights([""], ["configmaps", "namespaces"], ["*"]))
    sync.now()
    world.down("ConfigMap", missing).appears()
    sync.is_ready()


def test_an_account_of_the_sync_reads_the_credentials_and_nothing_else(world: Workspaces) -> None:
    namespace = world.above("shop")
    world.data(namespace)
    accounts = f"/api/v1/namespaces/{world.home}/serviceaccounts"
    world.sandbox.request("POST", accounts, {"metadata": {"name": "robot"}})
    sync = world.wsync(serviceAccountName="robot")
    sync.has_trouble()
    assert world.copies_at() == {}
    rbac = "rbac.authorization.k8s.io"
    folder = f"/apis/{rbac}/v1/namespaces/{world.home}"
    rules = [rights([""], ["secrets"], ["get"]), rights(["syncline.dev"], ["synctargets"], ["get", "list"])]
    world.sandbox.request("POST", f"{folder}/roles", {"metadata": {"name": "robot"}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "robot", "namespace": world.home}
    reference = {"apiGroup": rbac, "kind": "Role", "name": "robot"}
    binding = {"metadata": {"name": "robot"}, "roleRef": reference, "subjects": [subject]}
    world.sandbox.request("POST", f"{folder}/rolebindings", binding)
    sync.now()
    world.down("ConfigMap", namespace).appears()
    sync.is_ready()


# Tenants.


@pytest.fixture
def mallory(world: Workspaces) -> Tenant:
    """Somebody with `edit` in one namespace of the hub."""
    return Tenant(world, world.namespace("mallory"))


def _spec(world: Workspaces, **spec: Any) -> Json:
    return dict(world.manifest(**spec)["spec"])


def test_a_tenant_cannot_read_this_cluster_with_the_rights_of_the_operator(world: Workspaces, mallory: Tenant) -> None:
    spec = _spec(world, upstream=None)
    spec.pop("serviceAccountName", None)  # that of the tests, where the operator has no rights of its own
    with pytest.raises(RequestError) as refused:
        mallory.sync(KIND, "grab", **spec)
    assert refused.value.status == 403


def test_a_tenant_cannot_read_through_the_clusters_of_others(world: Workspaces, mallory: Tenant) -> None:
    target = world.find_target("east")
    target.edit(lambda body: body["spec"].update(allowedNamespaces=[mallory.namespace]))
    connection = {"type": "SyncTarget", "syncTargetRef": {"name": "east"}, "syncTargetNamespace": world.home}
    with pytest.raises(RequestError) as refused:
        mallory.sync(KIND, "grab", **_spec(world, upstream={"connection": connection}))
    assert refused.value.status in (403, 422)


def test_a_tenant_cannot_use_the_credentials_of_others(world: Workspaces, mallory: Tenant) -> None:
    sync = mallory.sync(KIND, "grab", **_spec(world, serviceAccountName=mallory.account()))
    message = until(lambda: sync.conditions.get("Ready", {}), lambda seen: seen.get("status") in ("False", "Unknown"))
    assert world.home not in str(message)
    assert world.copies_at() == {}


def test_with_a_credential_of_their_own_tenants_get_no_further_than_without(world: Workspaces, mallory: Tenant) -> None:
    victim = world.namespace("victim")
    world.put(victim, "secret-plans", plan="nine")
    token = world.sandbox.service_account_token(mallory.namespace, mallory.name)
    text = kubeconfig(world.sandbox.server, world.sandbox.ca, {"token": token})
    mallory.create("v1", "Secret", "secrets", "self", stringData={"value": text})
    connection = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "self"}}
    mallory.create(API_VERSION, "SyncTarget", "synctargets", "self", spec={"connection": connection})
    namespaces = {"mapping": {"fixed": victim}, "existing": "Use"}
    spec = {"upstream": {"connection": connection}, "downstream": {"syncTargets": ["self"]}, "namespaces": namespaces}
    mallory.create("v1", "ConfigMap", "configmaps", "payload", data={"a": "b"})
    sync = mallory.sync(KIND, "reach", resources=[resource("configmaps")], **spec)
    until(lambda: sync.conditions.get("Ready", {}).get("status"), lambda seen: seen in ("False", "Unknown"))
    assert world.config_map(victim, "payload").look() is None
    assert "secret-plans" not in str(sync.status)


def test_marks_that_somebody_has_copied_give_nothing_away_to_be_deleted(world: Workspaces) -> None:
    namespace = world.above("shop")
    source = world.data(namespace)
    sync = world.wsync()
    sync.is_ready()
    body = world.down("ConfigMap", namespace).read()
    marks = {
        "labels": {OWNER_LABEL: body["metadata"]["labels"][OWNER_LABEL]},
        "annotations": {MARKER: body["metadata"]["annotations"][MARKER]},
    }
    theirs = world.down("ConfigMap", namespace, "theirs")
    theirs.create({"metadata": {"name": "theirs", **marks}, "data": {"colour": "theirs"}})
    elsewhere = world.namespace_at(world.clusters["east"], f"{world.name}-elsewhere")
    other = world.down("ConfigMap", elsewhere)
    other.create({"metadata": {"name": "app", **marks}, "data": {"colour": "theirs"}})
    source.delete()
    world.down("ConfigMap", namespace).gone()
    sync.delete()
    sync.gone()
    assert theirs.at("data") == {"colour": "theirs"}
    assert other.at("data") == {"colour": "theirs"}


def test_marks_that_somebody_has_put_on_a_namespace_do_not_make_it_ours(world: Workspaces) -> None:
    ours, theirs = world.above("ours"), world.above("theirs")
    world.data(ours)
    sync = world.wsync()
    sync.is_ready()
    marks = world.down("Namespace", "", ours).read()["metadata"]
    east = world.clusters["east"].sandbox
    metadata = {"name": theirs, "labels": marks["labels"], "annotations": marks["annotations"]}
    metadata["labels"].pop("kubernetes.io/metadata.name", None)
    east.request("POST", "/api/v1/namespaces", {"metadata": metadata})
    world.data(theirs)
    sync.fails(theirs)
    assert world.down("ConfigMap", theirs).look() is None
    sync.delete()
    sync.gone()
    assert Thing(east, "/api/v1/namespaces", theirs).read()["metadata"].get("deletionTimestamp") is None


def test_a_kubeconfig_that_would_run_a_command_is_refused(world: Workspaces) -> None:
    config = yaml.safe_load(kubeconfig("https://127.0.0.1:1", "x", {"token": "t"}))
    config["users"][0]["user"] = {"exec": {"command": "/bin/sh", "apiVersion": "client.authentication.k8s.io/v1"}}
    world.keep_credential(UPSTREAM, {"value": base64.b64encode(yaml.safe_dump(config).encode()).decode()})
    sync = world.wsync()
    sync.fails("exec")
