"""A revision is checked as a whole before its first write: one wrong field, and nothing of it goes live."""

import json
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.configmapsync.world import Thing, until
from tests.configsync.test_clusters import EDGE, place_edge
from tests.configsync.world import GitWorld, config_map, definition, manifest, stateful_set
from tests.fleet.world import Remote, proxied
from tests.tenancy.accounts import ALL, Account

from syncline.sandbox import Sandbox
from syncline.testing.faults import Asked, Fault
from syncline.testing.proxy import FaultProxy

Json = dict[str, Any]
# Two manifests; the port on line 13 should be a number.
WEB = """\
# What the shop is reached at.
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
---
apiVersion: v1
kind: Service
metadata:
  name: web
  labels: {app: web}
spec:
  ports:
    - port: "80"
"""
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def mistyped(**fields: Any) -> Json:
    """Return a StatefulSet with more fields in its container than there are."""
    wrong = stateful_set()
    wrong["spec"]["template"]["spec"]["containers"][0] |= fields or {"imagee": "example.com/app:2"}
    return wrong


def gauge(spec: Json, kind: str, namespace: str | None = None) -> Json:
    return manifest("example.com/v1", kind, "app", namespace, spec=spec)


def gauges(plural: str, kind: str, **properties: Json) -> Json:
    """Return a definition whose spec has these properties."""
    made = definition(plural, kind)
    spec = {"type": "object", "properties": properties}
    made["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return made


class TestBySchema:
    def test_one_unknown_field_keeps_the_whole_revision_back(self, world: GitWorld) -> None:
        good = world.push({"map.yaml": config_map(colour="red"), "set.yaml": stateful_set()})
        sync = world.csync()
        sync.at(good)
        bad = world.push({"map.yaml": config_map(colour="blue"), "new.yaml": config_map("new"), "set.yaml": mistyped()})
        sync.now()
        sync.holds_at("InvalidManifest", good)
        assert sync.message == (
            f"revision {bad[:10]} is not applied: set.yaml:1: StatefulSet.apps {world.home}/app: "
            "spec.template.spec.containers[0].imagee: unknown field: did you mean image?"
        )
        assert sync.conditions["InvalidSource"]["status"] == "True"
        app = world.find("ConfigMap", world.home)
        assert app.at("data") == {"colour": "red"}
        assert world.find("ConfigMap", world.home, "new").look() is None
        newest = sync.status["history"][0]
        assert (newest["revision"], newest["result"], newest["reason"]) == (bad, "Failed", "InvalidManifest")

    def test_what_was_good_stays_and_is_repaired(self, world: GitWorld) -> None:
        world.push({"map.yaml": config_map(colour="red"), "old.yaml": config_map("old")})
        sync = world.csync()
        sync.becomes("Synced", synced=2)
        world.push({"map.yaml": config_map(colour="blue"), "old.yaml": None, "set.yaml": mistyped()})
        sync.now()
        sync.becomes("InvalidManifest")
        app = world.find("ConfigMap", world.home)
        app.put("data", "colour", value="green")
        app.holds_data(colour="red")
        assert world.find("ConfigMap", world.home, "old").look() is not None
        mended = world.push({"set.yaml": None})
        sync.now()
        sync.at(mended)
        app.holds_data(colour="blue")
        world.find("ConfigMap", world.home, "old").gone()

    def test_a_first_revision_that_is_wrong_leaves_nothing_behind(self, world: GitWorld) -> None:
        world.push({"map.yaml": config_map(), "set.yaml": mistyped()})
        sync = world.csync()
        sync.becomes("InvalidManifest")
        assert world.find("ConfigMap", world.home).look() is None
        sync.delete()
        sync.gone()

    def test_all_that_is_wrong_is_named_at_once(self, world: GitWorld) -> None:
        service = manifest("v1", "Service", "web", spec={"ports": [{"port": "80", "prot": "TCP"}]})
        texts = config_map("texts")
        texts["metadata"]["lables"] = {}
        world.push({"set.yaml": mistyped(imagePullPolicy="always", env={}), "svc.yaml": service})
        sync = world.csync()
        message = sync.becomes("InvalidManifest")["message"]
        for told in (
            "set.yaml:1: StatefulSet.apps",
            "containers[0].env: must be a list, but is a map",
            "containers[0].imagePullPolicy: must be one of Always, IfNotPresent, Never",
            f"svc.yaml:1: Service {world.home}/web: spec.ports[0].port: must be a whole number, but is a string",
            "spec.ports[0].prot: unknown field: did you mean port?",
        ):
            assert told in message
        world.push({"texts.yaml": texts})
        sync.now()
        told = "texts.yaml:1: {home}/texts: metadata.lables: unknown field: did you mean labels?"
        assert sync.message == told.format(home=world.home)

    def test_a_wrong_field_is_named_with_its_own_line(self, world: GitWorld) -> None:
        indented = json.dumps(mistyped(), indent=1)
        world.push({"web.yaml": WEB, "deep/set.yaml": indented})
        sync = world.csync()
        message = sync.becomes("InvalidManifest")["message"]
        line = next(number for number, text in enumerate(indented.splitlines(), 1) if "imagee" in text)
        assert f"deep/set.yaml:{line}: StatefulSet.apps" in message
        assert f"web.yaml:13: Service {world.home}/web: spec.ports[0].port: must be a whole number" in message

    def test_an_unknown_field_of_metadata_is_named_with_its_own_line(self, world: GitWorld) -> None:
        world.push({"web.yaml": WEB.replace("labels:", "lables:")})
        sync = world.csync()
        assert sync.becomes("InvalidManifest")["message"].startswith(
            f"web.yaml:10: Service {world.home}/web: metadata."
        )

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            (
                "kind: ConfigMap\nmetadata:\n  name: web\ndata:\n  port: 80\n",
                "web.yaml:6: ConfigMap web data.port is a",
            ),
            (
                "kind: Secret\nmetadata:\n  name: web\ndata:\n  a.b: '#'\n",
                "web.yaml:6: Secret web data.a.b is not base64",
            ),
            ("kind: Service\nmetadata:\n  name: Web_1\n", "web.yaml:4: Service Web_1 metadata.name is not a name"),
            ("kind: Secret\nmetadata:\n  name: web\ntype: [a]\n", "web.yaml:5: Secret {home}/web: type: must be a"),
            (
                "kind: Service\nmetadata:\n  name: web\n  labels:\n    app: a b\nspec: {}\n",
                "web.yaml:6: Service {home}/web: metadata.labels.app: is not the value of a label",
            ),
        ],
        ids=["number", "base64", "name", "type", "label"],
    )
    def test_what_no_cluster_takes_is_named_with_its_own_line(self, world: GitWorld, text: str, told: str) -> None:
        world.push({"map.yaml": config_map(), "web.yaml": f"apiVersion: v1\n{text}"})
        sync = world.csync()
        assert sync.becomes("InvalidManifest")["message"].startswith(told.format(home=world.home))
        assert world.find("ConfigMap", world.home).look() is None

    def test_a_kind_that_kubernetes_does_not_have_is_wrong(self, world: GitWorld) -> None:
        world.push({"map.yaml": config_map(), "set.yaml": {**stateful_set(), "kind": "StatefulSets"}})
        sync = world.csync()
        assert "write kind StatefulSet" in sync.becomes("InvalidManifest")["message"]
        assert world.find("ConfigMap", world.home).look() is None

    def test_a_kind_that_may_still_come_holds_up_nothing(self, world: GitWorld) -> None:
        world.push({"map.yaml": config_map(), "later.yaml": manifest("later.example.com/v1", "Later", "app", spec={})})
        sync = world.csync()
        sync.becomes("KindNotServed", synced=1, failed=1)

    def test_a_custom_resource_is_checked_by_the_definition_that_comes_with_it(self, world: GitWorld) -> None:
        kind, plural = f"Gauge{world.name}", f"gauges{world.name}"
        crd = Thing(world.sandbox, CRDS, f"{plural}.example.com")
        world.leave_behind(crd)
        made = gauges(plural, kind, colour={"type": "string", "pattern": "^[a-z]+$"})
        world.push({"crd.yaml": made, "gauge.yaml": gauge({"color": "red"}, kind)})
        sync = world.csync()
        message = sync.becomes("InvalidManifest")["message"]
        assert "gauge.yaml:1" in message
        assert "spec.color: unknown field: did you mean colour?" in message
        assert crd.look() is None
        world.push({"gauge.yaml": gauge({"colour": "RED"}, kind)})
        sync.now()
        assert sync.becomes("InvalidManifest")["message"].endswith("spec.colour: must match ^[a-z]+$")
        good = world.push({"gauge.yaml": gauge({"colour": "red"}, kind)})
        sync.now()
        sync.at(good)

    def test_a_refused_revision_goes_live_when_the_definition_in_the_cluster_allows_it(self, world: GitWorld) -> None:
        kind, plural = f"Gauge{world.name}", f"gauges{world.name}"
        crd = Thing(world.sandbox, CRDS, f"{plural}.example.com")
        world.leave_behind(crd)
        crd.create(gauges(plural, kind, colour={"type": "string"}))
        until(lambda: _is_published(world.sandbox, kind), bool)
        commit = world.push({"map.yaml": config_map(), "gauge.yaml": gauge({"weight": 3}, kind)})
        sync = world.csync()
        sync.becomes("InvalidManifest")
        assert world.find("ConfigMap", world.home).look() is None
        spec = gauges(plural, kind, colour={"type": "string"}, weight={"type": "integer"})["spec"]
        crd.edit(lambda body: body["spec"].update(versions=spec["versions"]))
        sync.at(commit)

    def test_no_value_of_a_secret_is_told(self, world: GitWorld) -> None:
        world.secret("values", **{"values.yaml": "replicas: canary-in-a-number"})
        wrong = stateful_set()
        wrong["spec"]["replicas"] = "{{ replicas }}"
        world.push({"set.yaml": wrong})
        account = Account(world)
        account.may(world.home, "secrets", "get")
        sync = world.csync(
            template={"enabled": True, "valuesFrom": [{"kind": "Secret", "name": "values"}]},
            serviceAccountName=account.name,
        )
        message = sync.becomes("InvalidManifest")["message"]
        assert message.endswith("spec.replicas: must be a whole number, but is a string: write it without quotes")
        assert "canary-in-a-number" not in str(sync.read())

    def test_each_environment_is_checked_by_itself(self, world: GitWorld) -> None:
        east, west = world.namespaces("east", "west")
        world.push({"east/map.yaml": config_map(), "west/map.yaml": config_map(), "west/set.yaml": mistyped()})
        environments = [
            {"name": "east", "path": "east", "namespace": east},
            {"name": "west", "path": "west", "namespace": west},
        ]
        sync = world.csync(environments=environments)
        sync.becomes("InvalidManifest")
        assert world.find("ConfigMap", east).look() is not None
        assert world.find("ConfigMap", west).look() is None
        assert sync.environment("east")["ready"] == "True"
        assert sync.environment("west")["ready"] == "False"


def test_without_validation_what_can_be_applied_is_applied(world: GitWorld) -> None:
    commit = world.push({"map.yaml": config_map(), "set.yaml": stateful_set()})
    sync = world.csync(validation="None")
    sync.at(commit)
    world.push({"map.yaml": config_map(colour="blue"), "set.yaml": mistyped()})
    sync.now()
    world.find("ConfigMap", world.home).holds_data(colour="blue")
    assert sync.counts["failed"] == 1


@pytest.mark.parametrize("existing", [True, False], ids=["changed", "new"])
def test_without_validation_an_unknown_field_is_named_and_no_error_of_the_server(
    world: GitWorld, existing: bool
) -> None:
    if existing:
        commit = world.push({"map.yaml": config_map(), "set.yaml": stateful_set()})
        sync = world.csync(validation="None")
        sync.at(commit)
        world.push({"set.yaml": mistyped()})
        sync.now()
    else:
        world.push({"map.yaml": config_map(), "set.yaml": mistyped()})
        sync = world.csync(validation="None")
    message = sync.becomes("InvalidManifest")["message"]
    assert "spec.template.spec.containers[name=app].imagee: unknown field: correct the name" in message
    assert "500" not in message


class TestByDryRun:
    def test_an_unknown_field_is_refused_by_the_server(self, world: GitWorld) -> None:
        good = world.push({"map.yaml": config_map(colour="red"), "set.yaml": stateful_set()})
        sync = world.csync(validation="DryRun")
        sync.at(good)
        text = yaml.safe_dump(mistyped())
        line = next(number for number, one in enumerate(text.splitlines(), 1) if "imagee" in one)
        world.push({"map.yaml": config_map(colour="blue"), "set.yaml": text, "new.yaml": mistyped()})
        world.push({"new.yaml": None})
        sync.now()
        sync.holds_at("InvalidManifest", good)
        assert f"set.yaml:{line}: StatefulSet.apps" in sync.message
        assert "containers[name=app].imagee: unknown field: correct the name" in sync.message
        assert "500" not in sync.message
        assert world.find("ConfigMap", world.home).at("data") == {"colour": "red"}

    @pytest.mark.parametrize(
        ("field", "line"),
        [("replicas: three", 6), ("replicas: -1", 6), ("replicass: 3", 6)],
        ids=["type", "value", "name"],
    )
    def test_the_field_that_the_server_names_has_its_own_line(self, world: GitWorld, field: str, line: int) -> None:
        rest = yaml.safe_dump({key: value for key, value in stateful_set()["spec"].items() if key != "replicas"})
        head = f"apiVersion: apps/v1\nkind: StatefulSet\nmetadata:\n  name: app\nspec:\n  {field}\n"
        world.push({"map.yaml": config_map(), "set.yaml": head + textwrap.indent(rest, "  ")})
        sync = world.csync(validation="DryRun")
        message = sync.becomes("InvalidManifest")["message"]
        assert f"is not applied: set.yaml:{line}: StatefulSet.apps" in message
        assert world.find("ConfigMap", world.home).look() is None

    @pytest.mark.parametrize(
        "wrong", [{"kind": "StatefulSets"}, {"apiVersion": "apps/v1beta1"}], ids=["kind", "version"]
    )
    def test_a_kind_that_kubernetes_does_not_have_is_wrong_too(self, world: GitWorld, wrong: Json) -> None:
        world.push({"map.yaml": config_map(), "set.yaml": {**stateful_set(), **wrong}})
        sync = world.csync(validation="DryRun")
        assert "is not served; write" in sync.becomes("InvalidManifest")["message"]
        assert world.find("ConfigMap", world.home).look() is None

    def test_what_no_schema_says_is_found(self, world: GitWorld) -> None:
        wrong = stateful_set()
        wrong["spec"]["selector"] = {"matchLabels": {"app": "other"}}
        world.push({"map.yaml": config_map(), "set.yaml": wrong})
        sync = world.csync(validation="DryRun")
        assert "`selector` does not match template `labels`" in sync.becomes("InvalidManifest")["message"]
        assert world.find("ConfigMap", world.home).look() is None

    def test_the_rights_are_those_of_the_sync(self, world: GitWorld) -> None:
        account = Account(world)
        account.may(world.home, "configmaps", *ALL)
        account.may(world.home, "secrets", "get")
        world.push({"map.yaml": config_map(), "set.yaml": stateful_set()})
        sync = world.csync(validation="DryRun", serviceAccountName=account.name)
        message = sync.becomes("DryRunRefused")["message"]
        assert "cannot create resource" in message
        assert world.find("ConfigMap", world.home).look() is None

    def test_what_needs_the_rest_of_the_revision_is_checked_by_its_schema(self, world: GitWorld) -> None:
        kind, plural, inner = f"Gauge{world.name}", f"gauges{world.name}", f"{world.name}-inner"
        world.leave_behind(Thing(world.sandbox, CRDS, f"{plural}.example.com"))
        world.leave_behind(world.namespace_object(inner))
        files = {
            "crd.yaml": gauges(plural, kind, colour={"type": "string"}),
            "namespace.yaml": manifest("v1", "Namespace", inner),
            "map.yaml": config_map(namespace=inner),
            "gauge.yaml": gauge({"color": "red"}, kind, inner),
        }
        world.push(files)
        sync = world.csync(validation="DryRun")
        assert "spec.color: unknown field" in sync.becomes("InvalidManifest")["message"]
        assert world.namespace_object(inner).look() is None
        good = world.push({"gauge.yaml": gauge({"colour": "red"}, kind, inner)})
        sync.now()
        sync.at(good)
        assert world.find("ConfigMap", inner).look() is not None

    def test_nothing_is_stored_by_it_and_what_is_unchanged_is_not_asked_about(self, world: GitWorld) -> None:
        world.push({"map.yaml": config_map(), "set.yaml": stateful_set()})
        sync = world.csync(validation="DryRun")
        sync.becomes("Synced", synced=2)
        uid = world.find("StatefulSet", world.home).uid
        second = world.push({"more.yaml": config_map("more")})
        sync.now()
        sync.at(second)
        assert world.find("StatefulSet", world.home).uid == uid
        world.stays_quiet(sync)


@pytest.fixture
def remote(far: Sandbox) -> Remote:
    """An account in the second control plane that may do anything there."""
    remote = Remote(far)
    subject = {"kind": "ServiceAccount", "name": "syncline", "namespace": remote.namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    body = {"metadata": {"name": f"{remote.namespace}-all"}, "roleRef": role, "subjects": [subject]}
    far.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", body)
    return remote


@pytest.fixture
def proxy(far: Sandbox) -> Iterator[FaultProxy]:
    """A proxy before the second control plane."""
    with proxied(far) as running:
        yield running


class TestOtherClusters:
    def test_what_one_cluster_would_refuse_goes_to_none(self, world: GitWorld, far: Sandbox, remote: Remote) -> None:
        """The schema of each cluster counts there: here the definition has the field, there it does not."""
        namespace = place_edge(world, remote)
        world.namespace("there")
        kind, plural = f"Gauge{world.name}", f"gauges{world.name}"
        here, there = (Thing(one, CRDS, f"{plural}.example.com") for one in (world.sandbox, far))
        here.create(gauges(plural, kind, colour={"type": "string"}, weight={"type": "integer"}))
        there.create(gauges(plural, kind, colour={"type": "string"}))
        world.leave_behind(here, there)
        until(lambda: _is_published(world.sandbox, kind) and _is_published(far, kind), bool)
        other = Remote(world.sandbox)
        world.make("Secret", name="near", data=dict(other.secret().data or {}))
        connection = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "near"}}
        near = {"clusterName": "near", "connection": connection}
        world.push({"map.yaml": config_map(namespace=namespace), "gauge.yaml": gauge({"weight": 3}, kind, namespace)})
        sync = world.csync(remoteClusters=[near, EDGE])
        message = sync.becomes("InvalidManifest")["message"]
        assert "cluster edge: gauge.yaml:1" in message
        assert "spec.weight: unknown field" in message
        assert "cluster near" not in message
        for sandbox in (world.sandbox, far):
            assert Thing(sandbox, f"/api/v1/namespaces/{namespace}/configmaps", "app").look() is None

    def test_while_schemas_cannot_be_read_the_last_revision_stays_and_is_repaired(
        self, world: GitWorld, far: Sandbox, remote: Remote, proxy: FaultProxy
    ) -> None:
        namespace = place_edge(world, remote, proxy.server)
        service = manifest("v1", "Service", "web", namespace, spec={"ports": [{"port": 80}]})
        first = world.push({"map.yaml": config_map(namespace=namespace, colour="red"), "svc.yaml": service})
        sync = world.csync(remoteClusters=[EDGE])
        sync.at(first)
        outage = proxy.inject(Fault(status=503), when=_is_schema)
        account = manifest("v1", "ServiceAccount", "more", namespace)
        second = world.push(
            {
                "map.yaml": config_map(namespace=namespace, colour="blue"),
                "svc.yaml": None,
                "more.yaml": account,
                "quota.yaml": manifest("policy/v1", "PodDisruptionBudget", "more", namespace, spec={"minAvailable": 1}),
            }
        )
        sync.now()
        ready = sync.becomes("ValidationUnavailable")
        assert ready["status"] == "Unknown"
        assert "its schemas cannot be read" in ready["message"]
        copy = Thing(far, f"/api/v1/namespaces/{namespace}/configmaps", "app")
        copy.edit(lambda body: body.update(data={"colour": "green"}))
        until(copy.look, lambda seen: seen is not None and seen["data"] == {"colour": "red"})
        assert Thing(far, f"/api/v1/namespaces/{namespace}/services", "web").look() is not None
        outage.lift()
        sync.at(second)
        assert copy.read()["data"] == {"colour": "blue"}

    def test_a_server_without_schemas_is_asked_in_a_dry_run(
        self, world: GitWorld, far: Sandbox, remote: Remote, proxy: FaultProxy
    ) -> None:
        namespace = place_edge(world, remote, proxy.server)
        proxy.inject(Fault(status=404), when=_is_schema)
        wrong = manifest("v1", "Service", "web", namespace, spec={"ports": [{"port": 80}], "typ": "ClusterIP"})
        world.push({"map.yaml": config_map(namespace=namespace), "svc.yaml": wrong})
        sync = world.csync(remoteClusters=[EDGE])
        assert 'unknown field "spec.typ"' in sync.becomes("InvalidManifest")["message"]
        assert Thing(far, f"/api/v1/namespaces/{namespace}/configmaps", "app").look() is None
        del wrong["spec"]["typ"]
        good = world.push({"svc.yaml": wrong})
        sync.now()
        sync.at(good)

    def test_schemas_are_read_once_and_neither_for_each_object_nor_for_each_revision(
        self, world: GitWorld, remote: Remote, proxy: FaultProxy
    ) -> None:
        namespace = place_edge(world, remote, proxy.server)

        def services(port: int) -> dict[str, Json]:
            ports = {"ports": [{"port": port}]}
            return {f"{n}.yaml": manifest("v1", "Service", f"web-{n}", namespace, spec=ports) for n in range(5)}

        first = world.push(services(80))
        sync = world.csync(remoteClusters=[EDGE])
        sync.at(first)
        second = world.push(services(81))
        sync.now()
        sync.at(second)
        sync.now()
        asked = [one.path for one in proxy.requests if _is_schema(one)]
        assert asked.count("/openapi/v3/api/v1") == 1
        # For each revision, what has changed since.
        assert asked.count("/openapi/v3") <= 2
        assert len(asked) <= 3


def _is_schema(asked: Asked) -> bool:
    return asked.path.startswith("/openapi/v3")


def _is_published(sandbox: Sandbox, kind: str) -> bool:
    """Whether the schema of a kind of the group example.com can be read."""
    paths = sandbox.request("GET", "/openapi/v3")["paths"]
    if "apis/example.com/v1" not in paths:
        return False
    document = sandbox.request("GET", "/openapi/v3/apis/example.com/v1")
    schemas = document.get("components", {}).get("schemas", {})
    return any(name.endswith(f".{kind}") for name in schemas)
