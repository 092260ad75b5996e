"""The authorities of the operator's endpoints, in a Secret of a real API server, with one replica and with several."""

import asyncio
import base64
import json
import secrets
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509
from structlog.testing import capture_logs

from syncline import deploy
from syncline.core.serving_authorities import Lifetimes
from syncline.deploy import names
from syncline.engine import serving_authority
from syncline.engine.certificate_signing import make_authority, read_authority, sign_certificate
from syncline.engine.serving_authority import NAME, ROTATE, ServingAuthority
from syncline.kube import Client, load_kubeconfig
from syncline.sandbox import Sandbox
from syncline.telemetry import Endpoint

Json = dict[str, Any]
SLOW = Lifetimes()
FAST = Lifetimes(authority=600, rotation=500, overlap=6, certificate=9)
"""Long enough for a machine that stands still for some seconds, as a busy one does."""
NAMES = ("localhost", "127.0.0.1", "syncline-depot.syncline-system.svc")


async def holds(check: Callable[[], object]) -> None:
    """Wait until a check holds."""
    async with asyncio.timeout(120):
        while not check():  # noqa: ASYNC110 - the API server has the state
            await asyncio.sleep(0.02)


class Store:
    """The Secret, in a namespace of its own."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.namespace = f"authority-{secrets.token_hex(4)}"
        sandbox.request("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        self._path = f"/api/v1/namespaces/{self.namespace}/secrets"

    def read(self) -> Json:
        return dict(self._sandbox.request("GET", f"{self._path}/{NAME}"))

    def create(self, **data: str) -> None:
        body = {"metadata": {"name": NAME}, "stringData": data}
        self._sandbox.request("POST", self._path, body)

    def change(self, change: Json) -> None:
        """Write the Secret with these fields, whatever others write."""
        body = self.read()
        del body["metadata"]["resourceVersion"]
        body["metadata"].update(change.pop("metadata", {}))
        self._sandbox.request("PUT", f"{self._path}/{NAME}", {**body, **change})

    def delete(self) -> None:
        self._sandbox.request("DELETE", f"{self._path}/{NAME}")

    def text(self, entry: str) -> str:
        return base64.b64decode(self.read()["data"].get(entry, "")).decode()

    def entries(self) -> list[Json]:
        return list(json.loads(self.text("authorities.json")))

    def put(self, entries: list[Json]) -> None:
        self.change({"stringData": {"authorities.json": json.dumps(entries)}})


class Scene:
    """Replicas that share a Secret."""

    def __init__(self, client: Client, store: Store) -> None:
        self._client = client
        self.store = store
        self.replicas: list[ServingAuthority] = []
        self.changes = 0

    async def replica(self, lifetimes: Lifetimes = SLOW) -> ServingAuthority:
        made = ServingAuthority(self._client, self.store.namespace, NAMES, lifetimes=lifetimes, on_change=self._changed)
        self.replicas.append(made)
        await made.start()
        return made

    def _changed(self) -> None:
        self.changes += 1


@pytest.fixture
def store(sandbox: Sandbox) -> Iterator[Store]:
    return Store(sandbox)


@pytest.fixture
async def scene(sandbox: Sandbox, store: Store) -> AsyncIterator[Scene]:
    async with Client(load_kubeconfig(sandbox.kubeconfig)) as client:
        scene = Scene(client, store)
        yield scene
        for replica in scene.replicas:
            await replica.stop()


def count(pem: str) -> int:
    return pem.count("BEGIN CERTIFICATE")


async def serve(replica: ServingAuthority) -> Endpoint:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    return await Endpoint.start("--depot-bind", "127.0.0.1:0", [web.get("/", answer)], replica.certificate)


async def handshake(endpoint: Endpoint, ca: str, name: str = "127.0.0.1") -> x509.Certificate:
    """Connect as somebody who trusts these authorities; return the certificate. Raises `ssl.SSLError`."""
    context = ssl.create_default_context(cadata=ca)
    host, _, port = endpoint.address.rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=context, server_hostname=name)
    try:
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        writer.transport.abort()
    return x509.load_der_x509_certificate(shown)


async def test_the_first_replica_makes_an_authority_and_the_next_trusts_the_same(scene: Scene) -> None:
    first = await scene.replica()
    second = await scene.replica()
    assert first.ca == second.ca == scene.store.text("ca.crt")
    assert count(first.ca) == 1
    assert first.token == second.token
    assert len(first.token) == 32
    endpoints = [await serve(first), await serve(second)]
    shown = [await handshake(endpoint, first.ca, name) for endpoint in endpoints for name in NAMES]
    assert len({one.serial_number for one in shown}) == 2, "each replica has a certificate of its own"
    for endpoint in endpoints:
        await endpoint.close()


async def test_replicas_that_start_at_once_agree(scene: Scene) -> None:
    replicas = await asyncio.gather(*(scene.replica() for _ in range(5)))
    assert len({(replica.ca, replica.token) for replica in replicas}) == 1
    assert count(replicas[0].ca) == 1
    version = scene.store.read()["metadata"]["resourceVersion"]
    await holds(lambda: all(replica._watch.synced.is_set() for replica in replicas))
    assert scene.store.read()["metadata"]["resourceVersion"] == version, "nothing is written without a change"


async def test_a_name_that_was_not_given_is_not_proven(scene: Scene) -> None:
    replica = await scene.replica()
    endpoint = await serve(replica)
    with pytest.raises(ssl.SSLCertVerificationError):
        await handshake(endpoint, replica.ca, "elsewhere.example.com")
    await endpoint.close()


async def test_a_new_authority_can_be_asked_for_and_is_trusted_before_it_signs(scene: Scene) -> None:
    first, second = await scene.replica(), await scene.replica()
    before, changes = first.ca, scene.changes
    scene.store.change({"metadata": {"annotations": {ROTATE: "now", "example.com/own": "kept"}}})
    await holds(lambda: count(first.ca) == count(second.ca) == 2)
    assert first.ca == second.ca
    assert first.ca.startswith(before)
    assert scene.changes == changes + 2
    annotations = scene.store.read()["metadata"]["annotations"]
    assert ROTATE not in annotations
    assert annotations["example.com/own"] == "kept"
    endpoint = await serve(first)
    await handshake(endpoint, before)
    await endpoint.close()


async def test_a_rotation_meets_no_verifier_that_does_not_trust_it(scene: Scene) -> None:
    first, second = await scene.replica(FAST), await scene.replica(FAST)
    endpoints = [await serve(first), await serve(second)]
    original, learned, serials = first.ca, first.ca, set[int]()
    learnt_at = time.monotonic()
    scene.store.change({"metadata": {"annotations": {ROTATE: "now"}}})
    async with asyncio.timeout(120):
        # Whoever verifies learns of new authorities after a while, not at once.
        while original in learned or len(serials) < 4:
            if time.monotonic() - learnt_at > FAST.overlap / 3:
                learned, learnt_at = first.ca, time.monotonic()
            shown = [await handshake(endpoint, learned) for endpoint in endpoints]
            serials |= {one.serial_number for one in shown}
            await asyncio.sleep(0.02)
    assert count(first.ca) == 1, "the former authority is not trusted any more"
    with pytest.raises(ssl.SSLCertVerificationError):
        await handshake(endpoints[0], original)
    await holds(lambda: len(scene.store.entries()) == 1)
    for endpoint in endpoints:
        await endpoint.close()


async def test_a_secret_that_is_deleted_is_written_again_with_what_was_trusted(scene: Scene) -> None:
    first, second = await scene.replica(), await scene.replica()
    before, token = first.ca, first.token
    endpoint = await serve(first)
    with capture_logs() as logs:
        scene.store.delete()
        await holds(lambda: count(first.ca) == count(second.ca) == 2)
    assert any("was deleted" in one["event"] for one in logs)
    assert first.ca.startswith(before)
    assert first.token == token
    assert scene.store.text("ca.crt") == first.ca == second.ca
    await handshake(endpoint, before)
    await endpoint.close()


@pytest.mark.parametrize(
    "data",
    [
        {"authorities.json": ""},
        {"authorities.json": "[]"},
        {"authorities.json": "no JSON"},
        {"authorities.json": '[{"certificate": "x", "key": "y", "created": 1}]'},
        {"authorities.json": "[]", "path": "", "ca.crt": ""},
        {"authorities.json": '{"a": 1}', "path": "../../x?y"},
    ],
)
async def test_a_secret_that_is_emptied_or_broken_is_told_and_healed(scene: Scene, data: dict[str, str]) -> None:
    replica = await scene.replica()
    before, entries, token = replica.ca, scene.store.entries(), replica.token
    with capture_logs() as logs:
        scene.store.change({"stringData": data})
        await holds(lambda: scene.store.text("authorities.json").startswith('[{"certificate":"-----BEGIN'))
        await holds(lambda: scene.store.text("path") == token)
    assert any("no readable serving authority" in one["event"] for one in logs)
    assert scene.store.entries() == entries
    assert replica.ca == before == scene.store.text("ca.crt")
    assert not any(entries[0]["key"][30:60] in str(one) for one in logs)


async def test_a_broken_secret_at_the_start_gets_a_new_authority(scene: Scene) -> None:
    scene.store.create(**{"authorities.json": "no JSON", "own": "kept"})
    replica = await scene.replica()
    assert count(replica.ca) == 1
    assert scene.store.text("ca.crt") == replica.ca
    assert scene.store.text("own") == "kept"


async def test_one_broken_entry_does_not_take_the_others_with_it(scene: Scene) -> None:
    replica = await scene.replica()
    [entry] = scene.store.entries()
    key = read_authority(entry["certificate"], entry["key"], 1.0).key
    other = make_authority(time.time(), 60.0)
    broken = [{**entry, "certificate": other.certificate}, {**entry, "key": "-----"}, entry]
    with capture_logs() as logs:
        scene.store.put(broken)
        await holds(lambda: scene.store.entries() == [entry])
    assert count(replica.ca) == 1
    assert sum("is left out" in one["event"] for one in logs) >= 2
    assert key[30:60] not in str(logs)


async def test_an_authority_that_somebody_puts_in_place_of_ours_does_not_sign_at_once(scene: Scene) -> None:
    replica = await scene.replica()
    before = replica.ca
    foreign = make_authority(time.time() - 100 * 24 * 3600, 700 * 24 * 3600.0)
    scene.store.put([{"certificate": foreign.certificate, "key": foreign.key, "created": foreign.created}])
    await holds(lambda: count(replica.ca) == 2 and len(scene.store.entries()) == 2)
    endpoint = await serve(replica)
    await handshake(endpoint, before)
    with pytest.raises(ssl.SSLCertVerificationError):
        await handshake(endpoint, foreign.certificate)
    await endpoint.close()


async def test_an_expired_authority_is_replaced_at_the_start(scene: Scene) -> None:
    old = make_authority(time.time() - 100, 50.0)
    entry = {"certificate": old.certificate, "key": old.key, "created": old.created}
    scene.store.create(**{"authorities.json": json.dumps([entry])})
    replica = await scene.replica()
    assert count(replica.ca) == 1
    assert old.certificate not in replica.ca


async def test_an_api_server_that_refuses_leaves_the_certificate_as_it_is(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving_authority, "MAX_PAUSE", 0.05)
    replica = await scene.replica()
    before = replica.ca
    endpoint = await serve(replica)
    with capture_logs() as logs:
        scene.store.change({"immutable": True})
        scene.store.change({"metadata": {"annotations": {ROTATE: "now"}}})
        await holds(lambda: any("stay in use" in one["event"] for one in logs))
    await handshake(endpoint, before)
    await endpoint.close()


async def test_an_operator_that_cannot_read_the_secret_yet_goes_on_trying(
    sandbox: Sandbox, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving_authority, "START_SECONDS", 0.0)
    monkeypatch.setattr(serving_authority, "MAX_PAUSE", 0.05)
    account = f"/api/v1/namespaces/{store.namespace}/serviceaccounts"
    sandbox.request("POST", account, {"metadata": {"name": "operator"}})
    token = sandbox.service_account_token(store.namespace, "operator")
    async with Client(load_kubeconfig(sandbox.kubeconfig_for(token, store.namespace))) as client:
        replica = ServingAuthority(client, store.namespace, NAMES)
        endpoint = await serve(replica)
        with capture_logs() as logs:
            await replica.start()
            await holds(lambda: any("cannot be read or written" in one["event"] for one in logs))
        assert replica.ca == replica.token == ""
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await handshake(endpoint, sandbox.ca)
        rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}]
        groups = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{store.namespace}"
        sandbox.request("POST", f"{groups}/roles", {"metadata": {"name": "operator"}, "rules": rules})
        subject = {"kind": "ServiceAccount", "name": "operator", "namespace": store.namespace}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "operator"}
        binding = {"metadata": {"name": "operator"}, "roleRef": role, "subjects": [subject]}
        sandbox.request("POST", f"{groups}/rolebindings", binding)
        await holds(replica.ready.is_set)
        await handshake(endpoint, replica.ca)
        await endpoint.close()
        await replica.stop()


async def test_the_shipped_rights_are_enough(sandbox: Sandbox, installed: Path) -> None:
    async with Client(load_kubeconfig(installed)) as client:
        replica = ServingAuthority(client, deploy.NAMESPACE, NAMES)
        await replica.start()
        path = f"/api/v1/namespaces/{deploy.NAMESPACE}/secrets/{NAME}"
        body = sandbox.request("GET", path)
        body["metadata"]["annotations"] = {ROTATE: "now"}
        trusted = count(replica.ca)
        sandbox.request("PUT", path, body)
        await holds(lambda: count(replica.ca) == trusted + 1)
        await replica.stop()
        sandbox.request("DELETE", path)
    assert names.SERVING_CA == NAME


class TestSigning:
    def test_a_certificate_ends_before_its_authority(self) -> None:
        now = time.time()
        authority = make_authority(now, 100.0)
        signed = x509.load_pem_x509_certificate(sign_certificate(authority, NAMES, now, 1000.0)[0])
        assert signed.not_valid_after_utc.timestamp() <= authority.expires
        names = signed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == ["localhost", "syncline-depot.syncline-system.svc"]
        assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]

    def test_a_certificate_that_is_not_one_of_an_authority_is_refused(self) -> None:
        now = time.time()
        leaf, key = sign_certificate(make_authority(now, 100.0), NAMES, now, 10.0)
        with pytest.raises(ValueError, match="not that of an authority"):
            read_authority(leaf.decode(), key.decode(), now)

    def test_a_key_of_another_certificate_is_refused(self) -> None:
        one, other = make_authority(1.0, 100.0), make_authority(1.0, 100.0)
        with pytest.raises(ValueError, match="not that of the certificate"):
            read_authority(one.certificate, other.key, 1.0)
        with pytest.raises(ValueError, match="too long"):
            read_authority(one.certificate + " " * 20000, one.key, 1.0)
