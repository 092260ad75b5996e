"""What a running sandbox offers."""

import base64
import itertools
import json
import ssl
import stat
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from syncline.sandbox import RequestError, Sandbox

Eventually = Callable[[Callable[[], bool]], None]

_numbers = itertools.count()


@pytest.fixture
def namespace(sandbox: Sandbox) -> str:
    """Make a namespace for one test."""
    name = f"sandbox-test-{next(_numbers)}"
    sandbox.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    return name


def test_its_kubeconfig_is_self_contained_and_private(sandbox: Sandbox) -> None:
    assert stat.S_IMODE(sandbox.kubeconfig.stat().st_mode) == 0o600
    config = yaml.safe_load(sandbox.kubeconfig.read_text(encoding="utf-8"))
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    assert cluster["server"] == sandbox.server
    assert base64.b64decode(cluster["certificate-authority-data"]).decode() == sandbox.ca
    assert user == {"token": sandbox.token}
    assert config["current-context"] == config["contexts"][0]["name"]


def test_it_serves_the_pinned_version(sandbox: Sandbox) -> None:
    version = sandbox.request("GET", "/version")
    assert (version["gitVersion"], version["major"], version["minor"]) == ("v1.37.1", "1", "37")


def test_the_default_namespace_and_its_service_account_are_there_when_it_is_ready(sandbox: Sandbox) -> None:
    assert sandbox.request("GET", "/api/v1/namespaces/default/serviceaccounts/default")["kind"] == "ServiceAccount"


def test_a_requested_token_is_known_as_its_service_account(sandbox: Sandbox) -> None:
    token = sandbox.service_account_token("default", "default")
    review = sandbox.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, token=token)
    assert review["status"]["userInfo"]["username"] == "system:serviceaccount:default:default"


def test_rbac_denies_what_was_not_granted(sandbox: Sandbox) -> None:
    token = sandbox.service_account_token("default", "default")
    with pytest.raises(RequestError, match="cannot list resource") as denied:
        sandbox.request("GET", "/api/v1/secrets", token=token)
    assert denied.value.status == 403


def test_an_unknown_token_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(RequestError) as refused:
        sandbox.request("GET", "/api/v1/namespaces", token="unknown")
    assert refused.value.status == 401


def test_a_kubeconfig_for_a_token_is_as_private_as_the_admins(sandbox: Sandbox) -> None:
    path = sandbox.kubeconfig_for("a-token", "someone/else")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.is_relative_to(sandbox.folder)
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert config["users"] == [{"name": "someone/else", "user": {"token": "a-token"}}]


def test_a_client_certificate_makes_a_user_with_groups(sandbox: Sandbox, tmp_path: Path) -> None:
    path = sandbox.kubeconfig_for_certificate("jane", ["one", "two"])
    user = yaml.safe_load(path.read_text(encoding="utf-8"))["users"][0]["user"]
    tls = ssl.create_default_context(cadata=sandbox.ca)
    for name in ("client-certificate-data", "client-key-data"):
        (tmp_path / name).write_bytes(base64.b64decode(user[name]))
    tls.load_cert_chain(tmp_path / "client-certificate-data", tmp_path / "client-key-data")
    request = urllib.request.Request(
        f"{sandbox.server}/apis/authentication.k8s.io/v1/selfsubjectreviews",
        data=b"{}",
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, context=tls, timeout=60) as answer:
        seen = json.load(answer)["status"]["userInfo"]
    assert (seen["username"], seen["groups"]) == ("jane", ["one", "two", "system:authenticated"])


def test_the_audit_log_tells_who_did_what(sandbox: Sandbox, namespace: str, eventually: Eventually) -> None:
    def logged() -> bool:
        assert sandbox.audit_log is not None
        events = [json.loads(line) for line in sandbox.audit_log.read_text(encoding="utf-8").splitlines()]
        reviews = {"subjectaccessreviews"}  # whose bodies say who is asked about
        others = [event for event in events if event.get("objectRef", {}).get("resource") not in reviews]
        assert {event["level"] for event in others} == {"Metadata"}
        assert "RequestReceived" not in {event["stage"] for event in events}
        return any(
            event["verb"] == "create"
            and event["user"]["username"] == "admin"
            and event["objectRef"].get("name") == namespace
            for event in events
            if event.get("objectRef", {}).get("resource") == "namespaces"
        )

    eventually(logged)


def test_a_deployment_gets_its_pods(sandbox: Sandbox, namespace: str, eventually: Eventually) -> None:
    container = {"name": "app", "image": "registry.invalid/app"}
    deployment = {
        "metadata": {"name": "app"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "app"}},
            "template": {"metadata": {"labels": {"app": "app"}}, "spec": {"containers": [container]}},
        },
    }
    # Pods are admitted once the namespace has its ServiceAccount; the ReplicaSet controller tries again until then.
    sandbox.request("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment)
    eventually(lambda: len(_items(sandbox, f"/api/v1/namespaces/{namespace}/pods")) == 2)


def test_what_a_deleted_owner_leaves_is_collected(sandbox: Sandbox, namespace: str, eventually: Eventually) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    owner = sandbox.request("POST", path, {"metadata": {"name": "owner"}})["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
    sandbox.request("POST", path, {"metadata": {"name": "owned", "ownerReferences": [reference]}})
    sandbox.request("DELETE", f"{path}/owner")
    eventually(lambda: not _items(sandbox, path))


def test_a_deleted_namespace_goes_away_with_what_is_in_it(
    sandbox: Sandbox, namespace: str, eventually: Eventually
) -> None:
    sandbox.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "inside"}})
    sandbox.request("DELETE", f"/api/v1/namespaces/{namespace}")

    def gone() -> bool:
        return namespace not in [item["metadata"]["name"] for item in _items(sandbox, "/api/v1/namespaces")]

    eventually(gone)


def test_an_aggregated_cluster_role_is_filled(sandbox: Sandbox, eventually: Eventually) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    labels = {"sandbox-test": "aggregate"}
    rule = {"apiGroups": ["example.com"], "resources": ["things"], "verbs": ["get"]}
    selector = {"clusterRoleSelectors": [{"matchLabels": labels}]}
    whole = {"metadata": {"name": "sandbox-test-whole"}, "aggregationRule": selector}
    sandbox.request("POST", roles, whole)
    sandbox.request("POST", roles, {"metadata": {"name": "sandbox-test-part", "labels": labels}, "rules": [rule]})
    eventually(lambda: sandbox.request("GET", f"{roles}/sandbox-test-whole").get("rules") == [rule])


def _items(sandbox: Sandbox, path: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = sandbox.request("GET", path)["items"]
    return items
