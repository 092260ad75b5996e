"""TLS to servers of tenants: no handshake in which the server chooses how long the operator computes."""

import ssl

import pytest
from tests.core.hostile_keys import large_rsa

from syncline.git import Remote
from syncline.git.githubapp import tls_context as of_git_api
from syncline.kube.config import Connection
from syncline.kube.credentials import tls_context as of_cluster
from syncline.kube.errors import ConfigError
from syncline.sandbox.pki import Authority
from syncline.tls import client_context

AUTHORITY = Authority.create()


def test_no_server_chooses_the_numbers_of_a_handshake() -> None:
    cluster = Connection(server="https://a.example", name="a", ca_pem=AUTHORITY.certificate)
    for context in (client_context(), of_git_api(Remote("https://a.example/b")), of_cluster(cluster)):
        ciphers = context.get_ciphers()
        assert {each["kea"] for each in ciphers} == {"kx-any", "kx-ecdhe"}
        assert any(each["protocol"] == "TLSv1.2" for each in ciphers)
        assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_no_server_negotiates_a_connection_again() -> None:
    """Each time would take milliseconds, and with a client certificate a signature, without a limit of the rate."""
    cluster = Connection(server="https://a.example", name="a", ca_pem=AUTHORITY.certificate)
    for context in (client_context(), of_git_api(Remote("https://a.example/b")), of_cluster(cluster)):
        assert context.options & ssl.OP_NO_RENEGOTIATION


def test_a_cluster_of_a_tenant_is_not_signed_to_with_a_key_that_takes_minutes() -> None:
    certificate, key = AUTHORITY.client("somebody")
    assert of_cluster(Connection(server="https://a.example", name="a", client_cert_pem=certificate, client_key_pem=key))
    for given, private, said in (
        (certificate, large_rsa(), "the client key has more than 8192 bits"),
        (large_rsa() + certificate, large_rsa(), "the client key has more than 8192 bits"),
        (certificate, b"no key", "the client key is not a private key in PEM"),
        (certificate, AUTHORITY.client("another")[1], "the client certificate and the key do not match"),
        (b"no certificate", key, "the client certificate and the key do not match"),
    ):
        with pytest.raises(ConfigError, match=said):
            of_cluster(Connection(server="https://a.example", name="a", client_cert_pem=given, client_key_pem=private))


def test_a_key_beside_the_certificate_is_not_used() -> None:
    certificate, key = AUTHORITY.client("somebody")
    both = Connection(
        server="https://a.example",
        name="a",
        client_cert_pem=large_rsa() + certificate,
        client_key_pem=key,
    )
    assert of_cluster(both)
