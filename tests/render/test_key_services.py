"""Key services of SOPS: asked at their own address alone, with known fields of a credential alone."""

import json
import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.core.hostile_keys import large_rsa
from tests.render.key_doubles import ARN, TOKEN, Doubles, ToDoubles, encrypted_for

from syncline.render.build_pool import BuildPool
from syncline.render.build_spec import BuildSpec, SourceFile
from syncline.render.errors import BuildError
from syncline.render.key_credentials import (
    AwsCredential,
    KeyCredentialError,
    read_aws,
    read_azure,
    read_google,
    read_vault,
)
from syncline.render.key_services import KeyServices
from syncline.render.signing import aws_headers

CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: app\ndata:\n  password: hunter3\n"
SERVICES = ["kms", "gcp_kms", "azure_kv", "hc_vault"]


@pytest.fixture
async def doubles(tmp_path: Path) -> AsyncIterator[Doubles]:
    async with Doubles(tmp_path).running() as running:
        yield running


@pytest.fixture
async def builder(doubles: Doubles) -> AsyncIterator[BuildPool]:
    services = KeyServices(allow_loopback=True, resolver=ToDoubles(doubles), tls=doubles.ca)
    async with BuildPool(key_services=services) as running:
        yield running


async def build(builder: BuildPool, content: bytes, keys: dict[str, bytes]) -> dict[str, str]:
    built = await builder.build({"a.yaml": SourceFile(content)}, BuildSpec(namespace="team", release="app", keys=keys))
    (document,) = built.documents
    return dict(document.manifest["data"])


@pytest.mark.parametrize("service", SERVICES)
async def test_a_file_is_decrypted_with_the_key_of_a_service(
    builder: BuildPool, doubles: Doubles, service: str, tmp_path: Path
) -> None:
    content = encrypted_for(doubles, service, tmp_path, CONFIG)
    assert b"hunter3" not in content
    assert await build(builder, content, doubles.secret) == {"password": "hunter3"}
    assert doubles.asked


@pytest.mark.parametrize("service", SERVICES)
async def test_a_service_that_refuses_is_told_without_its_words(
    builder: BuildPool, doubles: Doubles, service: str, tmp_path: Path
) -> None:
    content = encrypted_for(doubles, service, tmp_path, CONFIG, enc="c29tZXRoaW5nIGVsc2U=")
    with pytest.raises(BuildError) as caught:
        await build(builder, content, doubles.secret)
    assert f"a.yaml: no key service decrypts it: {service}" in str(caught.value)
    assert TOKEN not in str(caught.value)


async def test_a_service_at_a_refused_address_is_never_connected_to(doubles: Doubles, tmp_path: Path) -> None:
    content = encrypted_for(doubles, "hc_vault", tmp_path, CONFIG)
    for address in ("127.0.0.1", "169.254.169.254"):
        services = KeyServices(resolver=ToDoubles(doubles, address), tls=doubles.ca)
        async with BuildPool(key_services=services) as builder:
            with pytest.raises(BuildError, match=f"{address} is"):
                await build(builder, content, doubles.secret)
    assert not doubles.asked


@pytest.mark.parametrize(
    ("service", "change"),
    [
        ("hc_vault", {"vault_address": "https://127.0.0.1:1"}),
        ("azure_kv", {"vault_url": "https://elsewhere.vault.azure.net"}),
        ("kms", {"arn": "arn:aws:kms:evil.example/:111122223333:key/a"}),
        ("gcp_kms", {"resource_id": "../../../computeMetadata/v1"}),
        ("hc_vault", {"engine_path": "../sys"}),
        ("kms", {"role": "arn:aws:iam::1:role/x"}),
    ],
)
async def test_a_file_does_not_say_where_a_credential_goes(
    builder: BuildPool, doubles: Doubles, service: str, change: dict[str, str], tmp_path: Path
) -> None:
    content = encrypted_for(doubles, service, tmp_path, CONFIG, **change)
    with pytest.raises(BuildError):
        await build(builder, content, doubles.secret)
    assert not doubles.asked


@pytest.mark.parametrize(
    ("read", "keys", "message"),
    [
        (read_aws, {"aws-kms": b"[default]\nendpoint_url = http://169.254.169.254\n"}, "endpoint_url"),
        (read_aws, {"aws-kms": b"[default]\ncredential_process = /bin/sh\n"}, "credential_process"),
        (read_aws, {"aws-kms": b"[default]\naws_access_key_id = a\n"}, "lacks the field aws_secret_access_key"),
        (read_aws, {"aws-kms": b"[default]\n[profile other]\nrole_arn = x\n"}, "one section"),
        (read_google, {"gcp-kms": json.dumps({"type": "external_account"}).encode()}, "service_account"),
        (read_google, {"gcp-kms": json.dumps({"type": "authorized_user"}).encode()}, "service_account"),
        (
            read_google,
            {"gcp-kms": json.dumps({"type": "service_account", "token_uri": "http://evil.example"}).encode()},
            "token_uri",
        ),
        (
            read_google,
            {"gcp-kms": json.dumps({"type": "service_account", "credential_source": {"file": "/x"}}).encode()},
            "credential_source",
        ),
        (read_google, {"gcp-kms": b"[]"}, "service_account"),
        (read_azure, {"azure-kv": b"{tenantId: a, clientId: b, clientSecret: c}"}, "vaultUrl"),
        (
            read_azure,
            {"azure-kv": b"{tenantId: a/../b, clientId: b, clientSecret: c, vaultUrl: 'https://v'}"},
            "tenant",
        ),
        (
            read_azure,
            {"azure-kv": b"{tenantId: a, clientId: b, clientSecret: c, vaultUrl: 'http://v'}"},
            "https://HOST",
        ),
        (read_vault, {"vault-token": b"t"}, "vault-address"),
        (read_vault, {"vault-token": b"t", "vault-address": b"http://v"}, "https://HOST"),
        (read_vault, {"vault-token": b"t", "vault-address": b"https://v/v1/../x"}, "https://HOST"),
        (read_vault, {"vault-token": b"t", "vault-address": b"https://user@v"}, "https://HOST"),
        (read_vault, {"vault-token": b"t", "vault-address": b"https://[::1"}, "https://HOST"),
        (read_vault, {"vault-token": b"t", "vault-address": b"https://[1:::2]"}, "https://HOST"),
        (read_vault, {"vault-token": b"t", "vault-address": b"https://v:port"}, "https://HOST"),
        (read_vault, {"vault-token": b"t", "vault-address": b"https://v:70000"}, "https://HOST"),
        (read_vault, {"vault-token": b"t", "vault-address": b"https://v w"}, "https://HOST"),
        (read_vault, {"vault-token": b"t", "vault-address": b"https://xn--.example"}, "https://HOST"),
        (read_vault, {"vault-token": b"t\r\nHost: evil", "vault-address": b"https://v"}, "vault-token"),
        (
            read_vault,
            {"vault-token": b"t", "vault-address": b"https://v", "vault-namespace": b"a\nb"},
            "vault-namespace",
        ),
    ],
)
def test_what_a_credential_names_beyond_known_fields_is_refused(
    read: object, keys: dict[str, bytes], message: str
) -> None:
    assert callable(read)
    with pytest.raises(KeyCredentialError, match=message):
        read(keys)


@pytest.mark.parametrize(
    ("token", "signature"),
    [
        ("", "c0ce3d9a42285b5cd4ef4601a1039854a23d07e7492dff0fd2f9b08d39d34b95"),
        ("SESSION", "dde44e0553307fe1f4383300437692d4d3031dcfac9062d913909c801d0d97d8"),
    ],
)
def test_a_request_to_aws_is_signed_as_its_own_library_signs_it(token: str, signature: str) -> None:
    body = json.dumps({"KeyId": ARN, "CiphertextBlob": "AQID", "EncryptionContext": {}}).encode()
    credential = AwsCredential("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", token)
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    headers = aws_headers(credential, "kms.eu-west-1.amazonaws.com", "eu-west-1", body, now)
    assert headers["Authorization"].endswith(f"Signature={signature}")


@pytest.mark.parametrize(
    "secret", [{"vault-token": b"t\r\nHost: evil"}, {"vault-namespace": b"a\nb"}, {"vault-address": b"https://xn--.v"}]
)
async def test_a_credential_that_no_request_can_carry_fails_the_build_and_nothing_else(
    builder: BuildPool, doubles: Doubles, secret: dict[str, bytes], tmp_path: Path
) -> None:
    content = encrypted_for(doubles, "hc_vault", tmp_path, CONFIG)
    with pytest.raises(BuildError, match=next(iter(secret))):
        await build(builder, content, doubles.secret | secret)
    assert not doubles.asked


async def test_a_service_that_never_answers_is_given_up(
    doubles: Doubles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syncline.render.key_services.SECONDS", 0.2)
    content = encrypted_for(doubles, "hc_vault", tmp_path, CONFIG)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # nobody accepts
        doubles.port = silent.getsockname()[1]
        services = KeyServices(allow_loopback=True, resolver=ToDoubles(doubles), tls=doubles.ca)
        async with BuildPool(key_services=services) as builder:
            with pytest.raises(BuildError, match="no key service"):
                await build(builder, content, doubles.secret)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a: &a {b: 1}\nc: {<<: *a}\n", id="aliases"),
        pytest.param("tenantId: t\n" + "# more\n" * 3000, id="size"),
        pytest.param("[" * 5000, id="depth"),
    ],
)
def test_a_credential_that_would_take_long_to_read_is_refused_unread(text: str) -> None:
    with pytest.raises(KeyCredentialError, match=r"must be a map of fields|larger than"):
        read_azure({"azure-kv": text.encode()})


async def test_a_key_of_google_that_takes_minutes_to_read_is_refused(
    builder: BuildPool, doubles: Doubles, tmp_path: Path
) -> None:
    content = encrypted_for(doubles, "gcp_kms", tmp_path, CONFIG)
    google = json.loads(doubles.secret["gcp-kms"]) | {"private_key": large_rsa(3000).decode()}
    with pytest.raises(BuildError, match="private_key of gcp-kms has more than 4096 bits"):
        await build(builder, content, {**doubles.secret, "gcp-kms": json.dumps(google).encode()})
    google = {"type": "service_account", "client_email": "a@p.example", "private_key": "x" * 20_000}
    with pytest.raises(BuildError, match="gcp-kms is larger than 16384 bytes"):
        await build(builder, content, {**doubles.secret, "gcp-kms": json.dumps(google).encode()})
    with pytest.raises(BuildError, match="gcp-kms must be the JSON key"):
        await build(builder, content, {**doubles.secret, "gcp-kms": b"[" * 16_000})
    assert not doubles.asked
