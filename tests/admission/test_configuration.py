"""The webhook configuration: filled in, repaired, and never wrong while certificates rotate."""

import base64
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.admission.scene import CONFIGURATION, Json, Tenant, Webhooks, client_config, configuration, put_back
from tests.cli.conftest import Command, syncline
from tests.configmapsync.world import until

from syncline import deploy
from syncline.core.serving_authorities import Lifetimes
from syncline.engine import webhook_registration
from syncline.engine.certificate_signing import make_authority, sign_certificate
from syncline.engine.serving_authority import NAME as SECRET
from syncline.engine.serving_authority import ROTATE
from syncline.sandbox import RequestError, Sandbox

__all__ = ["syncline"]

FAST = Lifetimes(authority=600, rotation=400, overlap=8, certificate=60)
"""Long enough for a machine that stands still for some seconds, as a busy one does."""
SECRET_PATH = f"/api/v1/namespaces/{deploy.NAMESPACE}/secrets/{SECRET}"
REPLICAS = 2


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the configuration often."""
    monkeypatch.setattr(webhook_registration, "INTERVAL", 0.2)


@pytest.fixture(autouse=True)
def shipped(sandbox: Sandbox, installed: Path) -> Iterator[None]:  # noqa: ARG001 - it installs
    """Have the configuration as it is shipped, before and after the test."""
    put_back(sandbox)
    yield
    put_back(sandbox)


def bundle(sandbox: Sandbox) -> str:
    return base64.b64decode(client_config(sandbox).get("caBundle", "")).decode()


def ready(sandbox: Sandbox) -> Tenant:
    """Return a tenant whose pods are injected."""
    tenant = Tenant(sandbox)
    tenant.sync()
    until(tenant.is_injected, bool)
    return tenant


def test_the_shipped_configuration_names_the_service_and_no_certificates(sandbox: Sandbox) -> None:
    assert client_config(sandbox) == {
        "service": {"name": "syncline-admission", "namespace": deploy.NAMESPACE, "port": 443}
    }


def test_the_operator_fills_in_certificates_and_path_of_the_service(sandbox: Sandbox, installed: Path) -> None:
    with Webhooks(installed, admission_url="") as running:
        [authority] = running.authorities
        assert client_config(sandbox)["service"]["path"] == f"/inject/{authority.token}"
        assert bundle(sandbox) == authority.ca
        [manifest] = deploy.injection()
        sandbox.request("PATCH", f"{CONFIGURATION}?fieldManager=install&force=true", manifest)
        assert bundle(sandbox) == authority.ca, "applying the manifests again leaves it as it is"
        assert client_config(sandbox)["service"]["path"].startswith("/inject/")


@pytest.mark.parametrize(
    "edit",
    [
        {"caBundle": base64.b64encode(make_authority(1e9, 1e9).certificate.encode()).decode()},
        {"caBundle": None},
        {"url": "https://127.0.0.1:1/elsewhere"},
    ],
)
def test_an_edit_by_hand_is_repaired(sandbox: Sandbox, installed: Path, edit: Json) -> None:
    with Webhooks(installed) as running:
        right = client_config(sandbox)
        body = configuration(sandbox)
        [entry] = body["webhooks"]
        changed = {key: value for key, value in {**entry["clientConfig"], **edit}.items() if value is not None}
        body["webhooks"] = [{**entry, "clientConfig": changed, "objectSelector": {"matchLabels": {"own": "choice"}}}]
        sandbox.request("PUT", CONFIGURATION, body)
        until(lambda: client_config(sandbox), lambda now: now == right)
        [entry] = configuration(sandbox)["webhooks"]
        assert entry["objectSelector"] == {"matchLabels": {"own": "choice"}}, "the rest is the administrator's"
        assert running.services[0].checks()["admission"]()[0]


def test_a_webhook_that_was_removed_comes_back_beside_others(sandbox: Sandbox, installed: Path) -> None:
    with Webhooks(installed):
        body = configuration(sandbox)
        other = {**body["webhooks"][0], "name": "other.example.com", "clientConfig": {"url": "https://127.0.0.1:1/x"}}
        body["webhooks"] = [other]
        sandbox.request("PUT", CONFIGURATION, body)
        names = until(lambda: [one["name"] for one in configuration(sandbox)["webhooks"]], lambda now: len(now) == 2)
        assert names == ["other.example.com", "inject.syncline.dev"]
        assert configuration(sandbox)["webhooks"][0]["clientConfig"]["url"] == "https://127.0.0.1:1/x"


def test_a_missing_configuration_is_told_and_not_created_without_the_flag(sandbox: Sandbox, installed: Path) -> None:
    sandbox.request("DELETE", CONFIGURATION)
    with Webhooks(installed, admission_url="") as running:
        told = until(lambda: running.services[0].checks()["admission"]()[1], lambda text: "install" in text)
        assert "there is no MutatingWebhookConfiguration syncline-injection" in told
        with pytest.raises(RequestError):
            configuration(sandbox)
        put_back(sandbox)
        until(lambda: bundle(sandbox), lambda found: found == running.authorities[0].ca)


def test_with_an_address_the_configuration_is_created(sandbox: Sandbox) -> None:
    sandbox.request("DELETE", CONFIGURATION)
    with Webhooks(sandbox.kubeconfig):
        assert client_config(sandbox)["url"].startswith("https://127.0.0.1:")
        ready(sandbox)


def test_an_installation_replaces_an_address_of_development(
    sandbox: Sandbox, installed: Path, syncline: Command
) -> None:
    with Webhooks(installed):
        assert "url" in client_config(sandbox)
    syncline("install", "--without-deployment")
    assert client_config(sandbox)["service"]["name"] == "syncline-admission"


def test_files_of_a_folder_are_served_and_their_ca_is_written(
    sandbox: Sandbox, installed: Path, tmp_path: Path
) -> None:
    authority = make_authority(time.time(), 1e6)
    write_pair(tmp_path, authority.certificate, *sign_certificate(authority, ["127.0.0.1"], time.time(), 1e6))
    with Webhooks(installed, admission_cert_dir=str(tmp_path)) as running:
        assert bundle(sandbox) == authority.certificate
        ready(sandbox)
        assert running.authorities[0].ca != authority.certificate


def test_without_a_ca_in_the_folder_the_bundle_belongs_to_another_program(
    sandbox: Sandbox, installed: Path, tmp_path: Path
) -> None:
    authority = make_authority(time.time(), 1e6)
    write_pair(tmp_path, "", *sign_certificate(authority, ["127.0.0.1"], time.time(), 1e6))
    with Webhooks(installed, admission_cert_dir=str(tmp_path)):
        assert "caBundle" not in client_config(sandbox)
        body = configuration(sandbox)
        body["webhooks"][0]["clientConfig"]["caBundle"] = base64.b64encode(authority.certificate.encode()).decode()
        sandbox.request("PUT", CONFIGURATION, body)
        ready(sandbox)
        assert bundle(sandbox) == authority.certificate


def write_pair(folder: Path, ca: str, certificate: bytes, key: bytes) -> None:
    (folder / "tls.crt").write_bytes(certificate)
    (folder / "tls.key").write_bytes(key)
    if ca:
        (folder / "ca.crt").write_text(ca)


@pytest.fixture
def alone(arena: Sandbox) -> Iterator[Sandbox]:
    """Return a cluster without any other operator: it would hold authorities for its own, much longer times."""
    put_back(arena)
    yield arena
    arena.request("DELETE", SECRET_PATH)
    put_back(arena)


def test_a_rotation_fails_no_admission_of_two_replicas(alone: Sandbox, arena_kubeconfig: Path) -> None:
    with Webhooks(arena_kubeconfig, replicas=REPLICAS, lifetimes=FAST) as running:
        first, second = running.authorities
        tenant = ready(alone)
        original = first.ca
        pods, missed, done = [0], list[str](), threading.Event()

        def create() -> None:
            while not done.is_set():
                answered = tenant.pod(dry_run=True)
                pods[0] += 1
                if not answered.agent:
                    missed.append(str(answered.warnings))

        creators = [threading.Thread(target=create) for _ in range(2)]
        for one in creators:
            one.start()
        try:
            secret = alone.request("GET", SECRET_PATH)
            secret["metadata"]["annotations"] = {ROTATE: "now"}
            alone.request("PUT", SECRET_PATH, secret)
            until(lambda: first.ca, lambda ca: ca.startswith(original) and ca != original)
            until(lambda: bundle(alone), lambda found: found == first.ca)
            until(lambda: (first.ca, second.ca), lambda now: now[0] == now[1] and original not in now[0])
            until(lambda: bundle(alone), lambda found: found == first.ca)
            before = pods[0]
            until(lambda: pods[0], lambda count: count >= before + 10)
        finally:
            done.set()
            for one in creators:
                one.join()
        assert missed == []
        assert pods[0] > 50
