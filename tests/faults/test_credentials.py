"""The operator's token runs out or is rotated; its rights are taken away and given back. It needs no restart."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.faults.scene import Scene, calm_operator, wait_until

from syncline import deploy
from syncline.sandbox import RequestError
from syncline.testing.operator import install
from syncline.testing.proxy import FaultProxy

_SECRETS = f"/api/v1/namespaces/{deploy.NAMESPACE}/secrets"
_TOKENS = f"/api/v1/namespaces/{deploy.NAMESPACE}/serviceaccounts/{deploy.SERVICE_ACCOUNT}/token"
_BINDING = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/syncline"


class Tokens:
    """Tokens of the operator's account that end when told to: each is bound to a Secret, and goes with it."""

    def __init__(self, scene: Scene) -> None:
        self._sandbox = scene.sandbox

    def issue(self, name: str) -> str:
        secret = self._sandbox.request("POST", _SECRETS, {"metadata": {"name": name}})
        bound = {"kind": "Secret", "apiVersion": "v1", "name": name, "uid": secret["metadata"]["uid"]}
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600, "boundObjectRef": bound},
        }
        return str(self._sandbox.request("POST", _TOKENS, body)["status"]["token"])

    def revoke(self, name: str, token: str) -> None:
        self._sandbox.request("DELETE", f"{_SECRETS}/{name}")
        wait_until(lambda: not self._is_known(token), "the API server to refuse the token")

    def _is_known(self, token: str) -> bool:
        try:
            self._sandbox.request("GET", "/version", token=token)
        except RequestError as error:
            if error.status != 401:
                raise
            return False
        return True


def by_file(kubeconfig: Path, token_file: Path) -> Path:
    """Write a kubeconfig that reads its token from a file."""
    config = yaml.safe_load(kubeconfig.read_text())
    config["users"][0]["user"] = {"tokenFile": str(token_file)}
    path = token_file.with_name("kubeconfig")
    path.write_text(yaml.safe_dump(config))
    return path


def write_whole(path: Path, text: str) -> None:
    draft = path.with_name("draft")
    draft.write_text(text)
    draft.replace(path)


def test_a_rotated_token_is_taken_up_and_one_that_ran_out_is_waited_for(
    scene: Scene, proxy: FaultProxy, tmp_path: Path
) -> None:
    tokens = Tokens(scene)
    token_file = tmp_path / "token"
    first, second, third = (tokens.issue(f"{scene.prefix}-{number}") for number in (1, 2, 3))
    token_file.write_text(first)
    targets = [scene.namespace("a"), scene.namespace("b")]
    scene.source("1")
    scene.sync()
    with calm_operator(by_file(proxy.kubeconfig(scene.kubeconfig), token_file)) as operator:
        scene.wait_for(targets, "1")

        write_whole(token_file, second)
        tokens.revoke(f"{scene.prefix}-1", first)
        scene.source("2")
        scene.wait_for(targets, "2")
        assert proxy.requests[-1].token == f"Bearer {second}"

        tokens.revoke(f"{scene.prefix}-2", second)
        proxy.cut_watches()
        wait_until(lambda: "401" in operator.get("health", "/readyz")[1], "the operator to say that it is not known")
        assert operator.get("health", "/healthz")[0] == 200
        scene.source("3")
        write_whole(token_file, third)
        scene.wait_for(targets, "3")
        wait_until(operator.is_ready, "the operator to be ready again")
        log = operator.log()
    assert not [token for token in (first, second, third) if token in log]


@pytest.fixture
def binding(scene: Scene) -> Iterator[str]:
    """The binding of the operator's rights over ConfigMaps; it is there again at the end."""
    yield _BINDING
    install(scene.sandbox)


@pytest.mark.own_rights  # an account writes all the same
def test_rights_that_are_taken_away_are_named_and_work_goes_on_when_they_are_back(scene: Scene, binding: str) -> None:
    targets = [scene.namespace("a"), scene.namespace("b")]
    scene.source("1")
    scene.sync()
    with calm_operator(scene.kubeconfig) as operator:
        scene.wait_for(targets, "1")
        scene.sandbox.request("DELETE", binding)
        scene.source("2")
        wait_until(lambda: scene.ready().get("status") == "False", "the sync to say that something is wrong")
        message = scene.ready()["message"]
        assert all(word in message for word in ("get", "configmaps", scene.home, "403")), message
        assert scene.all_hold(targets, "1")
        install(scene.sandbox)
        scene.wait_for(targets, "2")
        wait_until(operator.is_ready, "the operator to be ready again")
        scene.wait_until_quiet(3)


def test_a_right_that_is_missing_in_one_namespace_fails_there_only(scene: Scene) -> None:
    targets = [scene.namespace("a"), scene.namespace("b")]
    closed = scene.namespace("closed")
    account = f"system:serviceaccount:{scene.home}:writer"
    scene.sandbox.request("POST", f"/api/v1/namespaces/{scene.home}/serviceaccounts", {"metadata": {"name": "writer"}})
    for namespace in (scene.home, *targets):
        _grant(scene, namespace, account)
    scene.source("1")
    with calm_operator(scene.kubeconfig):
        scene.sync(serviceAccountName="writer", destinationNamespaces=[*targets, closed])
        wait_until(lambda: scene.all_hold(targets, "1"), "the others to have their copies")
        wait_until(lambda: scene.ready().get("status") == "False", "the sync to name what failed")
        assert all(word in scene.ready()["message"] for word in ("create", "configmaps", closed))
        _grant(scene, closed, account)
        scene.wait_for([*targets, closed], "1")


def _grant(scene: Scene, namespace: str, account: str) -> None:
    body = {
        "metadata": {"name": "writer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": account}],
    }
    scene.sandbox.request("POST", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings", body)
