"""From Secrets to credentials: what is understood, and what is refused before anything connects."""

import re
from typing import Any

import pytest
from tests.fleet.forms import AUTHORITY, CANARY, SERVER, argocd, encode, kubeconfig, secret

from syncline.fleet import Credentials, NotResolved, SecretWire
from syncline.fleet.credentials import validate
from syncline.fleet.secrets import kubeconfig_connection, token_connection

CERTIFICATE, KEY = AUTHORITY.client("edge-user")


def read(wire: SecretWire, key: str | None = None, *, allow_loopback: bool = False) -> Credentials:
    return validate(kubeconfig_connection(wire, key), wire.origin, allow_loopback=allow_loopback)


def refused(wire: SecretWire, key: str | None = None) -> str:
    with pytest.raises(NotResolved) as caught:
        read(wire, key)
    message = str(caught.value)
    assert caught.value.reason == "InvalidCredentials"
    assert message.startswith("Secret team-a/edge: ")
    assert CANARY not in message
    assert "\n" not in message
    assert caught.value.__cause__ is None
    return message.removeprefix("Secret team-a/edge: ")


@pytest.mark.parametrize("key", ["value", "value.yaml", "kubeconfig", "config"])
def test_a_kubeconfig_is_found_under_the_usual_keys(key: str) -> None:
    found = read(secret({key: kubeconfig(), "other": "x"}))
    assert (found.connection.server, found.connection.token) == (SERVER, CANARY)
    assert found.connection.ca_pem == AUTHORITY.certificate


def test_the_first_usual_key_counts_and_a_named_one_before_all() -> None:
    wire = secret(
        {
            "config": kubeconfig(server="https://third.example.com"),
            "value": kubeconfig(),
            "mine": kubeconfig(server="https://named.example.com"),
        }
    )
    assert read(wire).connection.server == SERVER
    assert read(wire, "mine").connection.server == "https://named.example.com"


def test_a_key_that_is_not_there_is_named() -> None:
    assert "none of the keys value, value.yaml, kubeconfig, config" in refused(secret({"other": "x"}))
    assert "no key mine" in refused(secret({"value": kubeconfig()}), "mine")
    assert "none of the keys" in refused(SecretWire(metadata=secret({}).metadata))


def test_a_secret_of_cluster_api_is_understood() -> None:
    wire = secret(
        {"value": kubeconfig(user={"client-certificate-data": encode(CERTIFICATE), "client-key-data": encode(KEY)})},
        kind="cluster.x-k8s.io/secret",
        labels={"cluster.x-k8s.io/cluster-name": "edge"},
    )
    found = read(wire)
    assert (found.connection.client_cert_pem, found.connection.client_key_pem) == (CERTIFICATE, KEY)
    assert found.perishable == "client certificate"


def test_a_cluster_secret_of_argo_cd_is_understood() -> None:
    tls = {"caData": encode(AUTHORITY.certificate), "serverName": "kubernetes", "insecure": False}
    found = read(argocd({"bearerToken": CANARY, "tlsClientConfig": tls}))
    assert found.connection.server == SERVER
    assert found.connection.token == CANARY
    assert found.connection.ca_pem == AUTHORITY.certificate
    assert found.connection.tls_server_name == "kubernetes"


def test_a_cluster_secret_of_argo_cd_may_hold_a_client_certificate() -> None:
    tls = {"caData": encode(AUTHORITY.certificate), "certData": encode(CERTIFICATE), "keyData": encode(KEY)}
    assert read(argocd({"username": "", "tlsClientConfig": tls})).connection.client_cert_pem == CERTIFICATE


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"username": "u", "password": CANARY}, "username is not accepted: basic authentication was removed"),
        ({"password": CANARY}, "password is not accepted: basic authentication was removed"),
        (
            {"execProviderConfig": {"command": "touch"}},
            "execProviderConfig is not accepted: commands for credentials are not supported",
        ),
        (
            {"awsAuthConfig": {"clusterName": "x"}},
            "awsAuthConfig is not accepted: commands for credentials are not supported",
        ),
        ({"bearerToken": CANARY, "proxyUrl": "http://proxy"}, "proxyUrl is not accepted: proxies are not supported"),
        ({"bearerToken": CANARY, "tlsClientConfig": {"insecure": True}}, "insecure is not accepted"),
        ({"bearerToken": CANARY, "tlsClientConfig": {"caData": f"{CANARY}!"}}, "caData is not base64"),
        ({"bearerToken": CANARY, "tlsClientConfig": {"certData": "eA=="}}, "certData and keyData are needed together"),
        ({"bearerToken": CANARY, "tlsClientConfig": [1]}, "tlsClientConfig must be an object"),
        ({"bearerToken": [CANARY]}, "bearerToken must be a string"),
        ({"bearerToken": "x", CANARY: "x"}, "contains an unknown setting"),
        ({}, "there is no credential: add a token or a client certificate"),
        (f"{{{CANARY}", "config is not a JSON object"),
        (f'["{CANARY}"]', "config is not a JSON object"),
        ("[" * 20_000, "config is not a JSON object"),
    ],
)
def test_what_argo_cd_does_beyond_inline_credentials_is_refused_by_name(config: Any, said: str) -> None:
    assert said in refused(argocd(config))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            kubeconfig(user={"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch"}}),
            "user 'u': exec is not accepted",
        ),
        (
            kubeconfig(user={"auth-provider": {"name": "gcp", "config": {"access-token": CANARY}}}),
            "auth-provider is not accepted: it was removed from Kubernetes",
        ),
        (kubeconfig(user={"tokenFile": "/var/run/token"}), "tokenFile is not accepted"),
        (kubeconfig(user={"client-certificate": "/x", "client-key": "/y"}), "client-certificate is not accepted"),
        (kubeconfig(user={"username": "u", "password": CANARY}), "username is not accepted: basic authentication"),
        (kubeconfig(user={"token": CANARY, "as": "system:admin"}), "as is not accepted: impersonation"),
        (kubeconfig(cluster={"certificate-authority": "/etc/ssl"}), "certificate-authority is not accepted"),
        (kubeconfig(cluster={"insecure-skip-tls-verify": True}), "insecure-skip-tls-verify is not accepted"),
        (kubeconfig(cluster={"insecure-skip-tls-verify": False}), "insecure-skip-tls-verify is not accepted"),
        (kubeconfig(cluster={"proxy-url": "socks5://x"}), "proxy-url is not accepted"),
        (kubeconfig(server="http://edge.example.com"), "server must be an https URL"),
        (kubeconfig(server=f"https://u:{CANARY}@edge.example.com"), "server must be an https URL"),
        (kubeconfig(server="https://[::1"), "server must be an https URL"),
        (kubeconfig(server="https://edge.example.com:99999"), "server must be an https URL"),
        (kubeconfig(server="https://edge.example.com:0"), "server must be an https URL"),
        (kubeconfig(server="https://edge.example.com\\@127.0.0.1"), "server must be an https URL"),
        (kubeconfig(server="https://edge .example.com"), "server must be an https URL"),
        (kubeconfig(server="https://ëdge.example.com"), "server must be an https URL"),
        (kubeconfig(server="https://℀.example.com"), "server must be an https URL"),
        (kubeconfig(user={}), "there is no credential: add a token or a client certificate"),
        (kubeconfig(user={"token": f"{CANARY} x"}), "spaces, newlines or other invalid characters"),
        (kubeconfig(user={"token": f"{CANARY}\r\nX-Header: y"}), "spaces, newlines or other invalid characters"),
        (kubeconfig(user={"token": f"{CANARY}é"}), "spaces, newlines or other invalid characters"),
        (kubeconfig(user={CANARY: "slipped"}), "an unknown field is not accepted"),
        (kubeconfig(cluster={CANARY: "slipped"}), "an unknown field is not accepted"),
        (kubeconfig(contexts=[{"name": "main", "context": {"cluster": CANARY * 2}}]), "there is no cluster"),
        (f"token: *{CANARY}\n", "YAML aliases are not accepted"),
        (f"{CANARY}: 1\n{CANARY}: 2\n", "an unknown field is given twice"),
        (f"a: [\n{CANARY}", "not valid YAML at line"),
        (f"!!python/object/apply:os.system ['{CANARY}']", "YAML tags are not accepted"),
        (CANARY, "not a kubeconfig"),
        ("x" * (256 * 1024 + 1), "the value is larger than 256 KiB"),
    ],
)
def test_a_kubeconfig_that_asks_for_more_than_it_may_is_refused_by_name(text: str, said: str) -> None:
    message = refused(secret({"value": text}))
    assert said in message
    assert len(message) < 400


def test_a_hostile_kubeconfig_of_the_largest_size_is_read_in_a_moment() -> None:
    many_keys = "\n".join(f"k{number}: v" for number in range(20_000))
    many_items = "a: [" + "x," * 120_000 + "x]"
    for text in (many_keys, many_items, "- " * 100_000, "a: " + "[" * 30 + "]" * 30):
        refused(secret({"value": text[: 256 * 1024]}))


def test_the_token_of_a_service_account_comes_with_a_server_and_its_authority() -> None:
    authority = encode(AUTHORITY.certificate)
    wire = secret({"token": f"{CANARY}\n", "ca.crt": b"of the Secret"}, kind="kubernetes.io/service-account-token")
    given = token_connection(wire, None, f"{SERVER}/", f"{authority[:40]}\n {authority[40:]}")
    assert (given.server, given.token, given.ca_pem) == (SERVER, CANARY, AUTHORITY.certificate)
    assert token_connection(wire, None, SERVER, None).ca_pem == b"of the Secret"
    assert token_connection(secret({"mine": CANARY}), "mine", SERVER, None).ca_pem is None


@pytest.mark.parametrize(
    ("values", "authority", "said"),
    [
        ({"other": CANARY}, None, "no key token"),
        ({"token": b""}, None, "no key token"),
        ({"token": CANARY}, f"{CANARY}!", "caData is not base64"),
        ({"token": b"\xff\xfe\xfd"}, None, "other invalid characters"),
        ({"token": f"{CANARY}\n{CANARY}"}, None, "other invalid characters"),
    ],
)
def test_a_token_that_is_none_is_refused(values: dict[str, str | bytes], authority: str | None, said: str) -> None:
    with pytest.raises(NotResolved, match=re.escape(said)) as caught:
        validate(token_connection(secret(values), None, SERVER, authority), "Secret team-a/edge", allow_loopback=False)
    assert CANARY not in str(caught.value)


def test_the_token_of_a_service_account_is_never_sent_in_the_clear() -> None:
    with pytest.raises(NotResolved, match="https URL"):
        validate(
            token_connection(secret({"token": CANARY}), None, "http://x", None), "Secret a/b", allow_loopback=False
        )


def test_equal_content_has_equal_digests_whatever_the_secret_is_called() -> None:
    one, other = read(secret({"value": kubeconfig()})), read(secret({"config": kubeconfig()}, name="other"))
    assert one.digest == other.digest
    changed = [
        kubeconfig(user={"token": "another"}),
        kubeconfig(server="https://other.example.com"),
        kubeconfig(cluster={"tls-server-name": "other"}),
        kubeconfig(cluster={"certificate-authority-data": encode(b"other")}),
    ]
    assert len({one.digest, *(read(secret({"value": text})).digest for text in changed)}) == 5


def test_nothing_that_is_printed_shows_a_credential() -> None:
    wire = secret({"value": kubeconfig()})
    found = read(wire)
    for shown in (wire, found, found.connection):
        assert CANARY not in f"{shown} {shown!r}"
        assert encode(CANARY) not in repr(shown)
