"""What stands between a client and the API server's storage: webhooks and policies, for as long as a test has them."""

import asyncio
import base64
import json
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from tests.configmapsync.world import Thing, until

from syncline.sandbox import RequestError, Sandbox
from syncline.sandbox.kubeconfig import write_private
from syncline.sandbox.pki import Authority
from syncline.testing.loop import OnLoop
from syncline.testing.proxy import CLOSING

Json = dict[str, Any]
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
DENIAL = "the judge does not like it"
Probe = Callable[[], object]


class Webhook(OnLoop):
    """A webhook that denies the objects that it does not like, in words of its own."""

    thread_name = "webhook"

    def __init__(self, sandbox: Sandbox, denies: Callable[[Json], bool], status: Mapping[str, Any]) -> None:
        self._sandbox = sandbox
        self._denies = denies
        self._status = status

    async def _open(self) -> None:
        self._server = web.Server(self._review)
        self._runner = web.ServerRunner(self._server, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls()).start()
        self.url = f"https://127.0.0.1:{self._runner.addresses[0][1]}/"

    async def _close(self) -> None:
        await self._runner.cleanup()
        for connection in list(self._server.connections):
            if connection.transport is not None:
                connection.transport.abort()
        await asyncio.sleep(CLOSING)

    def _tls(self) -> ssl.SSLContext:
        authority = Authority.load(self._sandbox.ca.encode(), (self._sandbox.folder / "ca.key").read_bytes())
        with tempfile.TemporaryDirectory() as folder:
            pair = Path(folder) / "serving.pem"
            write_private(pair, b"".join(authority.serving()))
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(pair)
        return context

    async def _review(self, request: web.BaseRequest) -> web.Response:
        review = json.loads(await request.read())
        asked = review["request"]
        denied = self._denies(asked.get("object") or {})
        answer = {"uid": asked["uid"], "allowed": not denied, **({"status": self._status} if denied else {})}
        return web.json_response({**review, "response": answer, "request": None})


@contextmanager
def denied_by_webhook(sandbox: Sandbox, namespace: str, data: Json, status: Mapping[str, Any]) -> Iterator[None]:
    """Have a webhook deny the ConfigMaps of a namespace with this data, with this status."""
    denied = {"metadata": {"name": "probe"}, "data": data}
    with Webhook(sandbox, lambda body: body.get("data") == data, status) as webhook:
        judge = {
            "name": "judge.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"url": webhook.url, "caBundle": base64.b64encode(sandbox.ca.encode()).decode()},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "resources": ["configmaps"],
                    "operations": ["CREATE", "UPDATE"],
                }
            ],
        }
        made = Thing(sandbox, f"{_ADMISSION}/validatingwebhookconfigurations", namespace)
        made.create({"metadata": {"name": namespace}, "webhooks": [judge]})
        maps = f"/api/v1/namespaces/{namespace}/configmaps?dryRun=All"
        try:
            until(lambda: _is_denied(lambda: sandbox.request("POST", maps, denied), str(status["message"])), bool)
            yield
        finally:
            made.delete()


@contextmanager
def denied_by_policy(sandbox: Sandbox, namespace: str, resource: str, allowed: str, probe: Probe) -> Iterator[None]:
    """Have a policy judge the objects of ours in a namespace; it is in force once it denies the probe."""
    name = f"{namespace}-judge"
    rule = {
        "apiGroups": ["syncline.dev"],
        "apiVersions": ["*"],
        "resources": [resource],
        "operations": ["UPDATE"],
    }
    policy = Thing(sandbox, f"{_ADMISSION}/validatingadmissionpolicies", name)
    binding = Thing(sandbox, f"{_ADMISSION}/validatingadmissionpolicybindings", name)
    policy.create(
        {
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": allowed, "message": DENIAL, "reason": "Forbidden"}],
            },
        }
    )
    selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    binding.create(
        {
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"], "matchResources": selector},
        }
    )
    try:
        until(lambda: _is_denied(probe, DENIAL), bool)
        yield
    finally:
        binding.delete()
        policy.delete()


def _is_denied(probe: Probe, words: str) -> bool:
    try:
        probe()
    except RequestError as error:
        return words in str(error)
    return False
