"""The tokens of pods, reviewed by a real API server."""

import base64
import json
import secrets
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
from tests.depot.conftest import Agent, GitTree, TreePlans, session

from syncline import deploy
from syncline.core.pod_tokens import PodIdentity
from syncline.depot.authentication import Authentication, pod_review
from syncline.depot.server import Depot
from syncline.kube import Client, load_kubeconfig
from syncline.sandbox import Sandbox
from syncline.telemetry import ServingCertificate
from syncline.testing.operator import install


class Cluster:
    """Pods and their tokens."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    def namespace(self) -> str:
        name = f"depot-{secrets.token_hex(4)}"
        self.sandbox.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        self.account(name, "gateway")
        return name

    def account(self, namespace: str, name: str) -> None:
        self.sandbox.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})

    def pod(self, namespace: str, name: str, account: str = "gateway") -> PodIdentity:
        body = {
            "metadata": {"name": name},
            "spec": {
                "serviceAccountName": account,
                "automountServiceAccountToken": False,
                "containers": [{"name": "gateway", "image": "gateway"}],
            },
        }
        made = self.sandbox.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)
        return PodIdentity(namespace, name, made["metadata"]["uid"], account)

    def delete(self, pod: PodIdentity) -> None:
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        self.sandbox.request("DELETE", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}", body)

    def finish(self, pod: PodIdentity) -> None:
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status?fieldManager=kubelet&force=true"
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod.name}, "status": {"phase": "Succeeded"}}
        self.sandbox.request("PATCH", path, body)

    def token(self, pod: PodIdentity, *audiences: str, bound: dict[str, Any] | None = None) -> str:
        reference = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
        spec = {"audiences": audiences, "expirationSeconds": 3600, "boundObjectRef": bound or reference}
        return self._request(pod, spec)

    def unbound(self, pod: PodIdentity) -> str:
        return self._request(pod, {"audiences": ["syncline"], "expirationSeconds": 3600})

    def _request(self, pod: PodIdentity, spec: dict[str, Any]) -> str:
        path = f"/api/v1/namespaces/{pod.namespace}/serviceaccounts/{pod.service_account}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return str(self.sandbox.request("POST", path, body)["status"]["token"])

    def signed(self, token: str, **changed: Any) -> str:
        """Sign the claims of a token again, with the key of the API server."""
        head, claims, _ = token.split(".")
        loaded = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
        text = json.dumps({**loaded, **changed}).encode()
        message = f"{head}.{base64.urlsafe_b64encode(text).decode().rstrip('=')}"
        file = next(self.sandbox.folder.rglob("service-accounts.key"))
        key = serialization.load_pem_private_key(file.read_bytes(), password=None)
        if isinstance(key, rsa.RSAPrivateKey):
            signature = key.sign(message.encode(), padding.PKCS1v15(), hashes.SHA256())
        else:
            assert isinstance(key, ec.EllipticCurvePrivateKey)
            r, s = utils.decode_dss_signature(key.sign(message.encode(), ec.ECDSA(hashes.SHA256())))
            signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
        return f"{message}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


class Scene:
    """A depot with the rights of the operator, and a pod that it serves."""

    def __init__(self, cluster: Cluster, plans: TreePlans, client: Client) -> None:
        self.cluster = cluster
        self.plans = plans
        self.pod = cluster.pod(cluster.namespace(), "blue-0")
        plans.folders[self.pod] = "blue"
        self.authentication = Authentication(pod_review(client))
        self.depot = Depot(
            "127.0.0.1:0",
            certificate=ServingCertificate.self_signed(("localhost",)),
            authentication=self.authentication,
            plans=plans,
        )
        self.session: Any = None

    async def status(self, token: str) -> int:
        return (await Agent(self.session, self.depot.address, token).plan()).status


@pytest.fixture(scope="module")
def operator_kubeconfig(sandbox: Sandbox) -> Any:
    return install(sandbox)


@pytest.fixture
async def scene(sandbox: Sandbox, operator_kubeconfig: Any, tree: GitTree) -> AsyncIterator[Scene]:
    plans = TreePlans(tree)
    await plans.push({"blue/a.json": b"{}"})
    async with Client(load_kubeconfig(operator_kubeconfig)) as client:
        scene = Scene(Cluster(sandbox), plans, client)
        await scene.depot.start()
        async with session() as scene.session:
            yield scene
        await scene.depot.stop()


async def test_the_token_of_a_pod_proves_the_pod(scene: Scene) -> None:
    assert await scene.status(scene.cluster.token(scene.pod, "syncline")) == 200
    assert await scene.status(scene.cluster.token(scene.pod, "other", "syncline")) == 200


async def test_a_token_that_is_not_bound_to_a_pod_is_refused(scene: Scene) -> None:
    assert await scene.status(scene.cluster.unbound(scene.pod)) == 401


async def test_a_token_that_is_bound_to_a_secret_is_refused(scene: Scene) -> None:
    made = scene.cluster.sandbox.request(
        "POST", f"/api/v1/namespaces/{scene.pod.namespace}/secrets", {"metadata": {"name": "bound"}}
    )
    bound = {"apiVersion": "v1", "kind": "Secret", "name": "bound", "uid": made["metadata"]["uid"]}
    assert await scene.status(scene.cluster.token(scene.pod, "syncline", bound=bound)) == 401


async def test_a_token_for_another_audience_is_refused(scene: Scene) -> None:
    assert await scene.status(scene.cluster.token(scene.pod)) == 401
    assert await scene.status(scene.cluster.token(scene.pod, "vault")) == 401


async def test_an_expired_token_is_refused(scene: Scene) -> None:
    token = scene.cluster.token(scene.pod, "syncline")
    assert await scene.status(scene.cluster.signed(token)) == 200, "the key is that of the API server"
    past = int(time.time()) - 3600
    assert await scene.status(scene.cluster.signed(token, iat=past, nbf=past, exp=past + 1800)) == 401


async def test_a_forged_token_is_refused(scene: Scene) -> None:
    token = scene.cluster.token(scene.pod, "syncline")
    head, claims, signature = token.split(".")
    flipped = ("A" if signature[10] != "A" else "B").join((signature[:10], signature[11:]))
    assert await scene.status(f"{head}.{claims}.{flipped}") == 401
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    assert await scene.status(f"{none}.{claims}.") == 401


async def test_the_token_of_another_pod_of_the_same_account_gets_nothing_of_this_pod(scene: Scene) -> None:
    other = scene.cluster.pod(scene.pod.namespace, "red-0")
    assert await scene.status(scene.cluster.token(other, "syncline")) == 404


async def test_a_pod_of_the_same_name_in_another_namespace_is_another_pod(scene: Scene) -> None:
    other = scene.cluster.pod(scene.cluster.namespace(), "blue-0")
    assert await scene.status(scene.cluster.token(other, "syncline")) == 404


async def test_the_token_of_a_deleted_pod_is_refused(scene: Scene) -> None:
    token = scene.cluster.token(scene.pod, "syncline")
    scene.cluster.delete(scene.pod)
    assert await scene.status(token) == 401


async def test_the_token_of_a_pod_that_was_deleted_and_made_again_is_refused(scene: Scene) -> None:
    token = scene.cluster.token(scene.pod, "syncline")
    scene.cluster.delete(scene.pod)
    again = scene.cluster.pod(scene.pod.namespace, scene.pod.name)
    scene.plans.folders[again] = "blue"
    assert await scene.status(token) == 401
    assert await scene.status(scene.cluster.token(again, "syncline")) == 200


async def test_the_token_of_a_deleted_account_is_refused(scene: Scene) -> None:
    token = scene.cluster.token(scene.pod, "syncline")
    scene.cluster.sandbox.request("DELETE", f"/api/v1/namespaces/{scene.pod.namespace}/serviceaccounts/gateway")
    assert await scene.status(token) == 401


async def test_the_token_of_a_pod_that_has_ended_is_refused(scene: Scene) -> None:
    token = scene.cluster.token(scene.pod, "syncline")
    scene.cluster.finish(scene.pod)
    assert await scene.status(token) == 401


async def test_a_replayed_token_is_worth_no_more_than_its_pod(scene: Scene) -> None:
    token = scene.cluster.token(scene.pod, "syncline")
    assert await scene.status(token) == 200
    scene.cluster.delete(scene.pod)
    del scene.plans.folders[scene.pod]  # as the operator, which watches pods
    assert await scene.status(token) == 404
    scene.authentication._proven.clear()  # as after a minute
    assert await scene.status(token) == 401


async def test_the_admin_of_the_cluster_is_no_pod(scene: Scene) -> None:
    assert await scene.status(scene.cluster.sandbox.token) == 401
    operator = scene.cluster.sandbox.service_account_token(deploy.NAMESPACE, deploy.SERVICE_ACCOUNT)
    assert await scene.status(operator) == 401
