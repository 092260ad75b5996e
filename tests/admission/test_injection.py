"""Pods of tenants get agents: a real API server calls the webhook over TLS."""

import base64
import json
import secrets
import ssl
import urllib.error
import urllib.request
from typing import Any

import pytest
from prometheus_client import REGISTRY
from tests.admission.scene import DATA, DEPOT, IMAGE, Json, Tenant, Webhooks, client_config, configuration
from tests.configmapsync.world import until

from syncline.admission import review
from syncline.core.injection import NoAgentError
from syncline.sandbox import RequestError, Sandbox


def counted(result: str) -> float:
    return REGISTRY.get_sample_value("syncline_ignition_injections_total", {"result": result}) or 0.0


def test_a_pod_gets_the_agent_after_its_init_containers(tenant: Tenant, webhook: Webhooks) -> None:
    tenant.sync()
    before = counted("injected")
    answered = tenant.pod(initContainers=[{"name": "preconfigure", "image": "ignition"}])
    assert [one["name"] for one in answered.body["spec"]["initContainers"]] == ["preconfigure", "syncline-agent"]
    agent = answered.agent
    assert agent["image"] == IMAGE
    assert agent["restartPolicy"] == "Always"
    assert agent["startupProbe"]["httpGet"]["path"] == "/startupz"
    assert {"name": "data", "mountPath": DATA} in agent["volumeMounts"]
    assert agent["securityContext"]["runAsUser"] == 2003
    assert answered.variables["SYNCLINE_DEPOT_URL"] == DEPOT
    assert answered.variables["SYNCLINE_CA"] == webhook.authorities[0].ca
    assert answered.warnings == []
    assert counted("injected") == before + 1


def test_the_secret_of_the_key_may_be_missing(tenant: Tenant) -> None:
    tenant.sync()
    volumes = {one["name"]: one for one in tenant.pod().body["spec"]["volumes"]}
    assert volumes["syncline-api-key"]["secret"]["optional"] is True
    [source] = volumes["syncline-token"]["projected"]["sources"]
    assert source["serviceAccountToken"]["audience"] == "syncline"


def test_a_pod_that_does_not_ask_is_left_alone(tenant: Tenant) -> None:
    tenant.sync()
    for annotations in ({"ignition-sync.io/inject": "false"}, {"ignition-sync.io/inject": "yes"}):
        answered = tenant.pod(annotations=annotations)
        assert not answered.agent
        assert answered.warnings == []


def test_a_pod_that_has_an_agent_gets_no_second_one(tenant: Tenant) -> None:
    tenant.sync()
    first = tenant.pod()
    copied = {"metadata": {"annotations": first.body["metadata"]["annotations"], "name": "again"}, "kind": "Pod"}
    spec = {key: value for key, value in first.body["spec"].items() if key != "nodeName"}
    again = tenant.create({"apiVersion": "v1", **copied, "spec": spec})
    assert again.agent == first.agent
    assert len(again.body["spec"]["volumes"]) == len(first.body["spec"]["volumes"])


def test_a_dry_run_is_answered_alike_and_leaves_nothing(tenant: Tenant) -> None:
    tenant.sync()
    before = counted("injected")
    body = tenant.body(name="dry")
    assert tenant.create(body, dry_run=True).agent
    assert not tenant.exists("dry")
    assert counted("injected") == before


def test_a_paused_sync_is_told_of_and_keeps_no_agent_away(tenant: Tenant) -> None:
    tenant.sync(paused=True)
    answered = tenant.pod()
    assert answered.agent
    assert any("paused" in one for one in answered.warnings)


def test_the_only_sync_of_the_namespace_is_meant(tenant: Tenant) -> None:
    tenant.sync("line-2")
    answered = tenant.pod(None)
    assert answered.agent
    assert answered.body["metadata"]["annotations"]["ignition-sync.io/cr-name"] == "line-2"


@pytest.mark.parametrize(
    ("syncs", "named", "cause"),
    [
        ((), "plant", "there is no IgnitionSync plant"),
        ((), None, "there is no IgnitionSync in this namespace"),
        (("a", "b"), None, "several IgnitionSyncs"),
        (("plant",), "../plant", "there is no IgnitionSync ../plant"),
        (("plant",), "x" * 300, "there is no IgnitionSync xxxx"),
    ],
)
def test_a_pod_without_a_sync_is_created_and_its_user_is_told(
    tenant: Tenant, syncs: tuple[str, ...], named: str | None, cause: str
) -> None:
    for name in syncs:
        tenant.sync(name)
    before = counted("skipped")
    answered = tenant.pod(named)
    assert not answered.agent
    assert tenant.exists(answered.body["metadata"]["name"])
    [warning] = answered.warnings
    assert warning.startswith("the pod gets no agent of Syncline: ")
    assert cause in warning
    assert counted("skipped") == before + 1


def test_a_sync_of_another_namespace_does_not_count(tenant: Tenant, sandbox: Sandbox) -> None:
    Tenant(sandbox).sync()
    assert not tenant.pod().agent
    assert not tenant.pod("injected-0/plant").agent


def test_a_sync_that_the_watch_has_not_told_of_yet_counts(
    tenant: Tenant, webhook: Webhooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant.sync()
    decide = webhook.services[0]._server
    assert decide is not None
    injector = decide._decide.__self__  # type: ignore[attr-defined]
    monkeypatch.setattr(injector._syncs, "get", lambda _: None)
    monkeypatch.setattr(injector._syncs, "syncs_of", lambda _: [])
    assert tenant.pod().agent
    assert tenant.pod(None).agent


def test_a_pod_that_cannot_have_an_agent_is_told_why(tenant: Tenant) -> None:
    tenant.sync()
    answered = tenant.pod(volumes=[], containers=[{"name": "gateway", "image": "ignition"}])
    assert not answered.agent
    assert "ignition-sync.io/data-volume" in answered.warnings[0]


def test_the_sync_chooses_image_and_resources(tenant: Tenant) -> None:
    tenant.sync(
        agent={"image": {"repository": "registry.example.com/own", "tag": "2"}, "resources": {"limits": {"cpu": "1"}}}
    )
    agent = tenant.pod().agent
    assert agent["image"] == "registry.example.com/own:2"
    assert agent["resources"]["limits"] == {"cpu": "1"}


def test_a_sync_that_is_being_deleted_gives_no_agents(tenant: Tenant, sandbox: Sandbox) -> None:
    made = tenant.sync()
    path = f"/apis/{made['apiVersion']}/namespaces/{tenant.namespace}/ignitionsyncs/plant"
    made["metadata"]["finalizers"] = ["example.com/held"]
    made = sandbox.request("PUT", path, made)
    tenant.drop()
    answered = until(lambda: tenant.pod(dry_run=True), lambda one: not one.agent)
    assert "is being deleted" in answered.warnings[0]
    now = sandbox.request("GET", path)
    now["metadata"]["finalizers"] = []
    sandbox.request("PUT", path, now)


def test_pods_of_our_own_namespace_and_of_kube_namespaces_are_not_asked_about(
    sandbox: Sandbox,
    webhook: Webhooks,  # noqa: ARG001
) -> None:
    [entry] = configuration(sandbox)["webhooks"]
    [selector] = entry["namespaceSelector"]["matchExpressions"]
    assert {"kube-system", "kube-public", "kube-node-lease", "syncline-system"} == set(selector["values"])
    assert any("startsWith('kube-')" in one["expression"] for one in entry["matchConditions"])
    assert (entry["failurePolicy"], entry["timeoutSeconds"], entry["sideEffects"]) == ("Ignore", 5, "None")
    assert entry["reinvocationPolicy"] == "IfNeeded"
    assert entry["rules"] == [
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["pods"],
            "scope": "Namespaced",
        }
    ]


class TestFailures:
    """Whatever goes wrong, the pod is created."""

    def decide(self, webhook: Webhooks, monkeypatch: pytest.MonkeyPatch, act: Any) -> None:
        server = webhook.services[0]._server
        assert server is not None
        monkeypatch.setattr(server, "_decide", act)

    def test_a_bug_leaves_the_pod_as_it_is(
        self, tenant: Tenant, webhook: Webhooks, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def act(*_: object) -> None:
            raise ZeroDivisionError("a secret value")

        self.decide(webhook, monkeypatch, act)
        answered = tenant.pod()
        assert not answered.agent
        assert "could not decide: its log has the cause" in answered.warnings[0]
        assert "secret" not in answered.warnings[0]

    def test_a_decision_that_takes_too_long_is_not_waited_for(
        self, tenant: Tenant, webhook: Webhooks, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import asyncio  # noqa: PLC0415

        monkeypatch.setattr("syncline.admission.server.DECISION_SECONDS", 0.05)

        async def act(*_: object) -> None:
            await asyncio.Event().wait()

        self.decide(webhook, monkeypatch, act)
        answered = tenant.pod()
        assert not answered.agent
        assert "did not decide in time" in answered.warnings[0]

    def test_many_and_long_warnings_are_cut(
        self, tenant: Tenant, webhook: Webhooks, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def act(*_: object) -> None:
            raise NoAgentError("line\nbreak\x00 \u2028" + "x" * 5000)

        self.decide(webhook, monkeypatch, act)
        [warning] = tenant.pod().warnings
        assert len(warning) <= review.LONGEST_WARNING
        assert "\n" not in warning

    def test_a_large_pod_is_taken(self, tenant: Tenant) -> None:
        tenant.sync()
        answered = tenant.pod(annotations={"example.com/large": "x" * 200_000})
        assert answered.agent

    def test_an_image_of_the_operator_is_not_known_yet(
        self, tenant: Tenant, webhook: Webhooks, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tenant.sync()
        monkeypatch.setattr(webhook.services[0], "_image", "")
        assert "is starting" in tenant.pod().warnings[0]

    def test_an_old_api_server_gets_no_native_sidecars(
        self, tenant: Tenant, webhook: Webhooks, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tenant.sync()
        monkeypatch.setattr(webhook.services[0], "_too_old", "Kubernetes v1.28.3 has no native sidecars")
        answered = tenant.pod()
        assert not answered.agent
        assert "v1.28.3" in answered.warnings[0]


class TestStrangers:
    """Only the API server knows the path."""

    def post(self, webhook: Webhooks, path: str, body: bytes, **headers: str) -> tuple[int, bytes]:
        context = ssl.create_default_context(cadata=webhook.authorities[0].ca)
        request = urllib.request.Request(f"https://127.0.0.1:{webhook.port}{path}", data=body, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30, context=context) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def review(self, **request: Any) -> bytes:
        asked = {
            "uid": "u",
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "operation": "CREATE",
            "namespace": "default",
            "object": {},
            **request,
        }
        return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}).encode()

    @pytest.mark.parametrize(
        "path", ["/", "/inject", "/inject/", "/inject/guess", "/inject/%F0%9F", "/inject/x?timeout=5s"]
    )
    def test_a_caller_without_the_path_learns_nothing(self, webhook: Webhooks, path: str) -> None:
        assert self.post(webhook, path, self.review()) == (404, b"there is nothing here\n")

    def test_the_path_is_the_one_of_the_configuration(self, sandbox: Sandbox, webhook: Webhooks) -> None:
        url = client_config(sandbox)["url"]
        assert url == f"https://127.0.0.1:{webhook.port}/inject/{webhook.authorities[0].token}"
        status, body = self.post(webhook, url.partition(str(webhook.port))[2], self.review())
        assert status == 200
        assert json.loads(body)["response"]["allowed"] is True

    @pytest.mark.parametrize(
        ("body", "status"),
        [
            (b"", 400),
            (b"no JSON", 400),
            (b"[" * 100_000, 400),
            (b"{}", 400),
            (b'{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": {"uid": "u"}}', 400),
            (b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": ""}}', 400),
            (b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}', 400),
        ],
    )
    def test_a_message_that_cannot_be_read_is_refused(self, webhook: Webhooks, body: bytes, status: int) -> None:
        assert self.post(webhook, self.path(webhook), body)[0] == status

    def path(self, webhook: Webhooks) -> str:
        return f"/inject/{webhook.authorities[0].token}"

    @pytest.mark.parametrize(
        "request_",
        [
            {"operation": "UPDATE"},
            {"operation": "DELETE", "object": None},
            {"subResource": "exec"},
            {"resource": {"group": "apps", "version": "v1", "resource": "deployments"}},
        ],
    )
    def test_what_is_not_a_new_pod_is_left_alone(self, webhook: Webhooks, request_: Json) -> None:
        status, body = self.post(webhook, self.path(webhook), self.review(**request_))
        assert (status, json.loads(body)["response"]) == (200, {"uid": "u", "allowed": True})

    @pytest.mark.parametrize("pod", [{"spec": []}, {"metadata": {"annotations": {"a": 1}}}, "text", None])
    def test_a_pod_that_cannot_be_read_is_allowed_with_a_warning(self, webhook: Webhooks, pod: object) -> None:
        status, body = self.post(webhook, self.path(webhook), self.review(object=pod))
        response = json.loads(body)["response"]
        assert (status, response["allowed"]) == (200, True)
        assert "patch" not in response

    def test_a_message_that_is_too_large_or_compressed_is_refused(self, webhook: Webhooks) -> None:
        path = self.path(webhook)
        assert self.post(webhook, path, b"", **{"Content-Encoding": "gzip"})[0] == 400
        with pytest.raises((urllib.error.URLError, ConnectionError, AssertionError)):
            assert self.post(webhook, path, b" " * (9 * 1024 * 1024))[0] == 0

    def test_an_answer_has_a_patch_only_if_something_changes(self) -> None:
        answer = json.loads(review.answer_of("u"))["response"]
        assert answer == {"uid": "u", "allowed": True}


class TestAttacks:
    """A tenant gets nothing by an injection that a pod of theirs could not have anyway."""

    def test_annotations_choose_no_image_and_no_command(self, tenant: Tenant) -> None:
        tenant.sync()
        evil = {f"ignition-sync.io/{name}": "evil" for name in ("agent-image", "image", "command", "env")}
        agent = tenant.pod(annotations=evil).agent
        assert agent["image"] == IMAGE
        assert agent["command"] == ["syncline", "agent"]
        assert "evil" not in json.dumps(agent)

    def test_an_account_that_may_not_read_a_secret_does_not_have_it_mounted_into_pods(
        self, tenant: Tenant, sandbox: Sandbox
    ) -> None:
        secret = {"metadata": {"name": "gw"}, "stringData": {"apiKey": secrets.token_hex(8)}}
        sandbox.request("POST", f"/api/v1/namespaces/{tenant.namespace}/secrets", secret)
        tenant.sync(serviceAccountName="gateway")  # it has no rights at all
        answered = tenant.pod()
        assert not answered.agent
        assert not [one for one in answered.body["spec"]["volumes"] if "secret" in one]
        assert "names a Secret that its account may not read" in " ".join(answered.warnings)
        rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{tenant.namespace}"
        rule = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["gw"], "verbs": ["get"]}
        sandbox.request("POST", f"{rbac}/roles", {"metadata": {"name": "reader"}, "rules": [rule]})
        binding = {
            "metadata": {"name": "reader"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "gateway", "namespace": tenant.namespace}],
        }
        sandbox.request("POST", f"{rbac}/rolebindings", binding)
        until(tenant.is_injected, bool)

    def test_a_sidecar_that_pretends_to_be_ours_is_not_taken_for_it(self, tenant: Tenant) -> None:
        tenant.sync()
        fake = {"name": "syncline-agent", "image": "evil"}
        answered = tenant.pod(initContainers=[fake])
        assert answered.agent["image"] == "evil"
        assert "env" not in answered.agent
        assert "rename it" in answered.warnings[0]

    def test_references_to_variables_stay_text(self, tenant: Tenant) -> None:
        tenant.sync()
        path = "/data/$(SYNCLINE_CA)"
        gateway = {"name": "gateway", "image": "ignition", "volumeMounts": [{"name": "data", "mountPath": path}]}
        answered = tenant.pod(containers=[gateway])
        assert answered.variables["SYNCLINE_DATA"] == "/data/$$(SYNCLINE_CA)"

    def test_a_tenant_cannot_read_or_write_the_configuration(self, tenant: Tenant, sandbox: Sandbox) -> None:
        path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/syncline-injection"
        for method, body in (("GET", None), ("DELETE", None)):
            with pytest.raises(RequestError) as refused:
                sandbox.request(method, path, body, token=tenant.token)
            assert refused.value.status == 403

    def test_the_operator_can_change_no_other_configuration(self, sandbox: Sandbox) -> None:
        user = "system:serviceaccount:syncline-system:syncline"
        allowed = {
            (verb, name)
            for verb in ("get", "list", "watch", "create", "update", "patch", "delete")
            for name in ("syncline-injection", "other", "")
            if _may(sandbox, user, verb, name)
        }
        assert allowed == {("get", "syncline-injection"), ("patch", "syncline-injection")}


def _may(sandbox: Sandbox, user: str, verb: str, name: str) -> bool:
    attributes = {
        "verb": verb,
        "group": "admissionregistration.k8s.io",
        "resource": "mutatingwebhookconfigurations",
        "name": name,
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": ["system:serviceaccounts"], "resourceAttributes": attributes},
    }
    made = sandbox.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    return bool(made["status"]["allowed"])


def decoded(bundle: str) -> str:
    return base64.b64decode(bundle).decode()
