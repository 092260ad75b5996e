"""ManifestSync into another cluster, with two real control planes."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from tests.configmapsync.world import Thing, until
from tests.fleet.scene import Json, Scene, becomes, edge, ready, targets, turns
from tests.fleet.world import Remote
from tests.own_status import write_own_status

from syncline.api.common import REQUESTED_AT
from syncline.sandbox import Sandbox
from syncline.testing.faults import Fault
from syncline.testing.operator import OperatorProcess
from syncline.testing.proxy import FaultProxy


@pytest.fixture
def scene(sandbox: Sandbox, remote: Remote, operator: OperatorProcess) -> Iterator[Scene]:
    remote.allow("namespaces", "configmaps", "secrets")
    scene = Scene(sandbox, remote)
    yield scene
    scene.end()
    assert operator.returncode is None, operator.log()[-2000:]


def test_a_secret_is_copied_into_another_cluster_and_kept_equal(scene: Scene) -> None:
    namespace = scene.there("a")
    scene.credential()
    scene.source(password="one")
    sync = scene.sync(edge(namespace))
    becomes(scene.copy(namespace), "one")
    turns(sync, "True", "Synced")
    entry = targets(sync)[0]
    assert (entry["type"], entry["clusterName"], entry["namespace"], entry["name"], entry["status"]) == (
        "RemoteCluster",
        "edge",
        namespace,
        "token",
        "Synced",
    )
    scene.source(password="two")
    becomes(scene.copy(namespace), "two")


def test_an_edit_in_the_other_cluster_is_repaired(scene: Scene) -> None:
    namespace = scene.there("a")
    scene.credential()
    scene.source(password="one")
    scene.sync(edge(namespace))
    becomes(scene.copy(namespace), "one")
    scene.copy(namespace).edit(lambda body: body.update(data={"password": "eA=="}))
    becomes(scene.copy(namespace), "one")
    scene.copy(namespace).delete()
    becomes(scene.copy(namespace), "one")


def test_without_namespaces_a_copy_goes_to_the_namespace_of_its_source(scene: Scene) -> None:
    scene.there("home")
    scene.credential()
    scene.source(password="one")
    scene.sync(edge())
    becomes(scene.copy(scene.home), "one")


def test_namespaces_there_are_found_by_glob_and_label_as_here(scene: Scene) -> None:
    first, labelled = scene.there("x-1"), scene.there("other", team=scene.prefix)
    scene.credential()
    scene.source(password="one")
    scene.sync(edge(f"{scene.prefix}-x-*", namespaceSelector={"matchLabels": {"team": scene.prefix}}))
    becomes(scene.copy(first), "one")
    becomes(scene.copy(labelled), "one")
    late = scene.there("x-2")
    becomes(scene.copy(late), "one")


def test_what_is_there_and_not_ours_stays(scene: Scene) -> None:
    namespace = scene.there("a")
    scene.remote.sandbox.request(
        "POST",
        f"/api/v1/namespaces/{namespace}/secrets",
        {"metadata": {"name": "token"}, "data": {"password": "Zm9yZWlnbg=="}},
    )
    scene.credential()
    scene.source(password="one")
    sync = scene.sync(edge(namespace))
    turns(sync, "False", "NotOurs")
    becomes(scene.copy(namespace), "foreign")
    scene.sync(edge(namespace, resourceManagementPolicy="Adopt"))
    becomes(scene.copy(namespace), "one")


def test_a_log_line_about_a_target_there_names_its_cluster(scene: Scene, operator: OperatorProcess) -> None:
    namespace = scene.there("a")
    foreign = {"metadata": {"name": "token"}, "data": {"password": "Zm9yZWlnbg=="}}
    scene.remote.sandbox.request("POST", f"/api/v1/namespaces/{namespace}/secrets", foreign)
    scene.credential()
    scene.source(password="one")
    sync = scene.sync(edge(namespace))

    def lines() -> list[Json]:
        mine = [line for line in operator.events() if line.get("sync") == f"{scene.home}/{sync.name}"]
        return [line for line in mine if (line["event"], line.get("reason")) == ("not ready", "NotOurs")]

    (line,) = until(lines, bool)
    assert (line["cluster"], line["target"]) == ("edge", f"Secret {namespace}/token")


def test_deleting_the_sync_removes_its_copies_there(scene: Scene) -> None:
    namespace = scene.there("a")
    scene.credential()
    scene.source(password="one")
    sync = scene.sync(edge(namespace))
    becomes(scene.copy(namespace), "one")
    sync.delete()
    scene.copy(namespace).gone()
    sync.gone()


def test_a_cluster_that_leaves_the_spec_loses_its_copies(scene: Scene) -> None:
    namespace, here = scene.there("a"), scene.namespace(scene.hub, "here")
    scene.credential()
    scene.source(password="one")
    sync = scene.sync(edge(namespace))
    becomes(scene.copy(namespace), "one")
    scene.sync(targets={"inCluster": {"namespaces": [here]}})
    scene.copy(namespace).gone()
    turns(sync, "True", "Synced")
    until(lambda: sync.read()["status"].get("clusters", []), lambda seen: seen == [])


def test_a_cluster_out_of_reach_is_unknown_and_loses_nothing(proxy: FaultProxy, scene: Scene) -> None:
    namespace, here = scene.there("a"), scene.namespace(scene.hub, "here")
    scene.credential(wire=scene.remote.secret(server=proxy.server))
    scene.source(password="one")
    sync = scene.sync(targets={"remoteClusters": [edge(namespace)], "inCluster": {"namespaces": [here]}})
    becomes(scene.copy(namespace), "one")
    turns(sync, "True", "Synced")
    outage = proxy.inject(Fault(cut=True), when=lambda _: True)
    proxy.cut_watches()
    told = until(lambda: targets(sync), lambda seen: any(one["status"] == "Unknown" for one in seen))
    away = next(one for one in told if one["status"] == "Unknown")
    assert away["clusterName"] == "edge"
    assert "last seen" in away["message"]
    scene.source(password="two")
    until(
        lambda: scene.hub.request("GET", f"/api/v1/namespaces/{here}/secrets/token")["data"]["password"], "dHdv".__eq__
    )
    assert scene.copy(namespace).look() is not None
    outage.lift()
    becomes(scene.copy(namespace), "two")
    turns(sync, "True", "Synced")


def test_a_cluster_that_comes_back_is_not_kept_waiting_for_the_interval(proxy: FaultProxy, scene: Scene) -> None:
    namespace = scene.there("a")
    scene.credential(wire=scene.remote.secret(server=proxy.server))
    scene.source(password="one")
    outage = proxy.inject(Fault(cut=True), when=lambda _: True)
    sync = scene.sync(edge(namespace), syncPolicy={"mode": "Interval", "interval": "1h"})
    until(lambda: targets(sync), lambda seen: any(one["status"] == "Unknown" for one in seen))
    outage.lift()
    becomes(scene.copy(namespace), "one")
    turns(sync, "True", "Synced")


def test_a_cluster_out_of_reach_does_not_let_removals_pass_after_an_edit_and_gets_the_edit_when_it_is_back(
    proxy: FaultProxy, scene: Scene
) -> None:
    there = [scene.there(f"t{number:02}") for number in range(12)]
    extra, here = scene.namespace(scene.hub, "extra"), {"namespaceSelector": {"matchLabels": {"team": scene.prefix}}}
    local = [scene.namespace(scene.hub, f"n{number:02}", team=scene.prefix) for number in range(30)]
    scene.credential(wire=scene.remote.secret(server=proxy.server))
    scene.source(password="one")
    sync = scene.sync(targets={"remoteClusters": [edge(*there)], "inCluster": {"namespaces": [extra], **here}})
    turns(sync, "True", "Synced")
    outage = proxy.inject(Fault(cut=True), when=lambda _: True)
    proxy.cut_watches()
    until(lambda: targets(sync), lambda seen: any(one["status"] == "Unknown" for one in seen))
    scene.sync(targets={"remoteClusters": [edge(there[0])], "inCluster": here})
    Thing(scene.hub, f"/api/v1/namespaces/{extra}/secrets", "token").gone()
    scene.sync(targets={"remoteClusters": [edge(there[0])], "inCluster": here}, suspend=True)
    turns(sync, "Unknown", "Suspended")
    for namespace in local:
        Thing(scene.hub, "/api/v1/namespaces", namespace).label(team=None)
    scene.sync(targets={"remoteClusters": [edge(there[0])], "inCluster": here})
    assert "30 of 30 copies" in turns(sync, "False", "DeletionHeld")["message"]
    outage.lift()
    for namespace in there[1:]:
        scene.copy(namespace).gone()
    becomes(scene.copy(there[0]), "one")
    copies = [Thing(scene.hub, f"/api/v1/namespaces/{namespace}/secrets", "token") for namespace in local]
    assert all(copy.look() is not None for copy in copies)


def test_the_own_cluster_leaves_the_spec_and_loses_its_copies(scene: Scene) -> None:
    namespace, here = scene.there("a"), scene.namespace(scene.hub, "here")
    scene.credential()
    scene.source(password="one")
    sync = scene.sync(targets={"remoteClusters": [edge(namespace)], "inCluster": {"namespaces": [here]}})
    turns(sync, "True", "Synced")
    scene.sync(edge(namespace))
    Thing(scene.hub, f"/api/v1/namespaces/{here}/secrets", "token").gone()


def test_a_kind_that_was_written_and_is_no_longer_served_there_does_not_keep_the_others_from_being_written(
    scene: Scene,
) -> None:
    namespace = scene.there("a")
    scene.credential()
    scene.source(password="one")
    sync = scene.sync(edge(namespace))
    turns(sync, "True", "Synced")
    write_own_status(scene.hub, sync.path, written=["edge/Secret,Gone.example.com"])
    sync.annotate({REQUESTED_AT: "now"})
    until(lambda: sync.read()["status"].get("lastHandledRequest"), lambda handled: handled == "now")
    scene.source(password="two")
    becomes(scene.copy(namespace), "two")
    turns(sync, "True", "Synced")


def test_a_rotated_credential_is_used_without_a_restart(scene: Scene) -> None:
    namespace = scene.there("a")
    scene.credential(wire=scene.remote.secret(scene.remote.issue("old")))
    scene.source(password="one")
    scene.sync(edge(namespace))
    becomes(scene.copy(namespace), "one")
    scene.credential(wire=scene.remote.secret(scene.remote.issue("new")))
    scene.remote.revoke("old")
    scene.source(password="two")
    becomes(scene.copy(namespace), "two")


def test_a_sync_target_is_a_cluster_with_a_name(scene: Scene) -> None:
    namespace = scene.there("a")
    scene.credential()
    scene.target("edge-1", region="eu")
    scene.source(password="one")
    connection = {"type": "SyncTarget", "syncTargetRef": {"name": "edge-1"}}
    sync = scene.sync({"connection": connection, "namespaces": [namespace]})
    becomes(scene.copy(namespace), "one")
    turns(sync, "True", "Synced")
    assert targets(sync)[0]["clusterName"] == "edge-1"


def test_labels_choose_clusters_as_they_come_and_go(scene: Scene) -> None:
    namespace = scene.there("a")
    scene.credential()
    scene.source(password="one")
    connection = {"type": "SyncTarget", "selector": {"matchLabels": {"region": "eu"}}}
    sync = scene.sync({"connection": connection, "namespaces": [namespace]})
    message = turns(sync, "True", "Synced")["message"]
    nothing = f"no SyncTarget in namespace {scene.home} has the labels region=eu"
    assert message == f"there is nothing to write yet: {nothing}"
    target = scene.target("edge-1", region="eu")
    becomes(scene.copy(namespace), "one")
    target.label(region="us")
    scene.copy(namespace).gone()


def test_labels_that_mean_no_cluster_say_so_whether_or_not_there_is_one_that_excludes_the_sync(scene: Scene) -> None:
    namespace, elsewhere = scene.there("a"), scene.namespace(scene.hub, "elsewhere")
    scene.credential(namespace=elsewhere)
    scene.source(password="one")
    connection = {
        "type": "SyncTarget",
        "syncTargetNamespace": elsewhere,
        "selector": {"matchLabels": {"region": "eu"}},
    }
    sync = scene.sync({"connection": connection, "namespaces": [namespace]})
    nothing = f"no SyncTarget in namespace {elsewhere} that allows {scene.home} has the labels region=eu"
    assert turns(sync, "True", "Synced")["message"] == f"there is nothing to write yet: {nothing}"
    target = scene.target("edge-1", namespace=elsewhere, region="eu")
    sync.annotate({REQUESTED_AT: "now"})
    until(lambda: sync.read()["status"].get("lastHandledRequest"), lambda handled: handled == "now")
    assert ready(sync)["message"] == f"there is nothing to write yet: {nothing}"
    target.edit(lambda body: body["spec"].update(allowedNamespaces=[scene.home]))
    becomes(scene.copy(namespace), "one")


@pytest.mark.own_rights  # an account that may read the SyncTarget is told more
def test_a_sync_target_of_another_namespace_must_be_named_and_allow_it(scene: Scene) -> None:
    namespace, elsewhere = scene.there("a"), scene.namespace(scene.hub, "elsewhere")
    scene.credential(namespace=elsewhere)
    target = scene.target("edge-1", namespace=elsewhere)
    scene.source(password="one")
    connection = {"type": "SyncTarget", "syncTargetRef": {"name": "edge-1"}}
    sync = scene.sync({"connection": connection, "namespaces": [namespace]})
    turns(sync, "False", "SyncTargetNotFound")
    scene.sync({"connection": {**connection, "syncTargetNamespace": elsewhere}, "namespaces": [namespace]})
    assert f"ask its owner to add {scene.home} to" in turns(sync, "False", "SyncTargetNotFound")["message"]
    target.edit(lambda body: body["spec"].update(allowedNamespaces=[scene.home]))
    becomes(scene.copy(namespace), "one")


def test_a_sync_that_never_wrote_to_a_cluster_goes_though_the_cluster_cannot_be_reached(scene: Scene) -> None:
    namespace = scene.there("a")
    scene.source(password="one")
    scene.credential(wire=scene.remote.secret(server="https://127.0.0.1:1"))
    sync = scene.sync(edge(namespace))
    turns(sync, "Unknown", "Unreachable")
    sync.delete()
    sync.gone()


def test_a_missing_or_unusable_credential_is_named(scene: Scene) -> None:
    namespace = scene.there("a")
    scene.source(password="one")
    sync = scene.sync(edge(namespace))
    assert "edge" in turns(sync, "False", "SecretNotFound")["message"]
    scene.secret(scene.home, "edge", {"value": b"users: [{name: u, user: {exec: {command: /bin/sh}}}]"})
    until(lambda: ready(sync)["reason"], lambda reason: reason != "SecretNotFound")
    assert "exec" in ready(sync)["message"]
    scene.credential()
    becomes(scene.copy(namespace), "one")


def test_the_end_of_a_credential_that_was_there_before_its_sync_is_noticed(scene: Scene) -> None:
    """Secrets were listed, and passed over where nobody named them, long before the second sync."""
    namespace = scene.there("a")
    scene.credential()
    scene.source(password="one")
    turns(scene.sync(edge(namespace)), "True", "Synced")
    late = scene.credential("late")
    connection = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "late"}}
    there = {"clusterName": "late", "connection": connection, "namespaces": [namespace]}
    sync = scene.sync(there, name="second", targetName="other")
    turns(sync, "True", "Synced")
    late.delete()
    turns(sync, "False", "SecretNotFound")
    scene.credential("late")
    turns(sync, "True", "Synced")


def test_the_end_of_the_credential_of_a_sync_target_is_noticed_by_its_syncs(scene: Scene) -> None:
    namespace = scene.there("a")
    scene.source(password="one")
    turns(scene.sync(targets={"inCluster": {"namespaces": [scene.namespace(scene.hub, "here")]}}), "True", "Synced")
    credential = scene.credential()
    target = scene.target("edge-1")
    connection = {"type": "SyncTarget", "syncTargetRef": {"name": "edge-1"}}
    sync = scene.sync({"connection": connection, "namespaces": [namespace]}, name="second")
    turns(sync, "True", "Synced")
    turns(target, "True", "Reachable")
    credential.delete()
    turns(target, "False", "SecretNotFound")
    turns(sync, "False", "SecretNotFound")
    scene.credential()
    turns(target, "True", "Reachable")
    turns(sync, "True", "Synced")


def test_two_names_for_one_cluster_are_refused(scene: Scene) -> None:
    namespace = scene.there("a")
    scene.credential()
    scene.source(password="one")
    sync = scene.sync(edge(namespace), edge(namespace, name="other"))
    assert "one cluster" in turns(sync, "False", "SameTarget")["message"]


def test_a_kind_that_is_not_served_there_is_named(scene: Scene) -> None:
    namespace = scene.there("a")
    scene.credential()
    sync = scene.sync(edge(namespace), sourceRef=scene.custom(f"{scene.prefix}.example.com"))
    assert "edge" in turns(sync, "False", "KindNotServed")["message"]


def test_a_credential_that_ends_soon_is_told_of_while_all_is_well(scene: Scene) -> None:
    namespace, now = scene.there("a"), datetime.now(UTC)
    scene.remote.sandbox.request(
        "POST",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        {
            "metadata": {"name": scene.prefix},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": scene.remote.namespace},
            "subjects": [{"kind": "User", "name": scene.prefix, "apiGroup": "rbac.authorization.k8s.io"}],
        },
    )
    begins, ends = now - timedelta(days=10), now + timedelta(days=1)
    scene.credential(wire=scene.remote.secret_with_certificate(scene.prefix, begins=begins, ends=ends))
    scene.source(password="one")
    sync = scene.sync(edge(namespace))
    turns(sync, "True", "Synced")
    conditions = {one["type"]: one for one in sync.read()["status"]["conditions"]}
    assert conditions["CredentialExpiring"]["status"] == "True"
    assert "renew it" in conditions["CredentialExpiring"]["message"]


def test_a_name_that_comes_to_mean_another_cluster_leaves_no_copy_behind(scene: Scene, sandbox: Sandbox) -> None:
    namespace = scene.there("a")
    scene.namespace(scene.hub, "a")
    scene.credential()
    scene.source(password="one")
    sync = scene.sync(edge(namespace))
    becomes(scene.copy(namespace), "one")
    here = Remote(sandbox)
    here.allow("namespaces", "secrets")
    scene.credential("other", wire=here.secret())
    connection = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "other"}}
    scene.sync({**edge(namespace), "connection": connection})
    scene.copy(namespace).gone()
    becomes(Thing(sandbox, f"/api/v1/namespaces/{namespace}/secrets", "token"), "one")
    turns(sync, "True", "Synced")
    sync.annotate({REQUESTED_AT: "now"})
    recorded = until(lambda: sync.read()["status"]["clusters"], lambda seen: len(seen) == 1)
    assert recorded[0]["connection"]["kubeconfigSecretRef"]["name"] == "other"


def test_a_sync_target_whose_secret_comes_to_mean_another_cluster_takes_its_syncs_along(
    scene: Scene, sandbox: Sandbox
) -> None:
    """Also if another SyncTarget has the same credential, so that the connection to the first cluster stays."""
    namespace = scene.there("a")
    scene.namespace(scene.hub, "a")
    same = scene.remote.secret()
    scene.source(password="one")
    for name in ("moves", "stays"):
        scene.credential(name, wire=same)
        scene.target(name, secret=name)
        connection = {"type": "SyncTarget", "syncTargetRef": {"name": name}}
        cluster = {"connection": connection, "namespaces": [namespace]}
        turns(scene.sync(cluster, name=name, targetName=name), "True", "Synced")
    here = Remote(sandbox)
    here.allow("namespaces", "secrets")
    scene.credential("moves", wire=here.secret())
    becomes(Thing(sandbox, f"/api/v1/namespaces/{namespace}/secrets", "moves"), "one")
    becomes(scene.copy(namespace, "stays"), "one")
