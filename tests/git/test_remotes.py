"""Credentials as Secrets hold them."""

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from tests.core.hostile_keys import large_dsa, large_rsa, many_rounds
from tests.core.hostile_keys import pem as written

from syncline.git import AuthType, CredentialError, Remote, remote_from
from syncline.git.remotes import Basic, Bearer, GitHubApp, Proxy, Ssh

URL, SSH_URL = "https://example.com/a", "ssh://git@example.com/a"
CANARY = b"canary-77aa55"


def pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


RSA = pem(rsa.generate_private_key(65537, 2048))
EC = pem(ec.generate_private_key(ec.SECP256R1()))
ED = ed25519.Ed25519PrivateKey.generate().private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
)


PKCS8 = serialization.PrivateFormat.PKCS8
ENCRYPTED = ed25519.Ed25519PrivateKey.generate().private_bytes(
    serialization.Encoding.PEM, PKCS8, serialization.BestAvailableEncryption(CANARY)
)
OPENSSH = written("OPENSSH PRIVATE KEY", b"openssh-key-v1\0\0\0\0\x0aaes256-ctr\0\0\0\6bcrypt")


def test_each_type_of_credential_is_read() -> None:
    assert remote_from(URL, "Basic", {"username": b"u", "password": b"p\n"}).credential == Basic("u", "p")
    assert remote_from(URL, "Token", {"token": b"t"}).credential == Basic("x-access-token", "t")
    assert remote_from(URL, "Token", {"token": b"t", "username": b"u"}).credential == Basic("u", "t")
    assert remote_from("https://bitbucket.org/a", "Token", {"token": b"t"}).credential == Basic("x-token-auth", "t")
    assert remote_from(URL, "Token", {"bearerToken": b"t"}).credential == Bearer("t")
    assert remote_from(SSH_URL, "SSH", {"identity": ED.replace(b"\n", b"\r\n"), "known_hosts": b"k"}).credential == Ssh(
        ED, b"k\n"
    )
    app = {"appID": b"1", "installationID": b"2", "privateKey": RSA}
    assert remote_from("https://github.com/a/b", "GitHubApp", app).credential == GitHubApp(
        "1", "2", RSA, "https://api.github.com"
    )
    assert remote_from(URL, "GitHubApp", app).credential == GitHubApp("1", "2", RSA, "https://example.com/api/v3")
    own = remote_from(URL, "GitHubApp", app | {"baseURL": b"https://api.example.com/"}).credential
    assert own == GitHubApp("1", "2", RSA, "https://api.example.com")


def test_a_proxy_is_read() -> None:
    secret = {"address": b"http://proxy.example.com:3128", "username": b"u", "password": b"p@ss/word"}
    proxy = remote_from(URL, proxy_secret=secret).proxy
    assert proxy == Proxy("proxy.example.com", 3128, "http", "u", "p@ss/word")
    assert proxy.url == "http://u:p%40ss%2Fword@proxy.example.com:3128"


@pytest.mark.parametrize(
    ("url", "kind", "secret", "said"),
    [
        (URL, "Basic", {}, "no key 'username'"),
        (URL, "Basic", {"username": b"u"}, "no key 'password'"),
        (URL, "Basic", {"username": b"u", "password": b" \n"}, "no key 'password'"),
        (URL, "Basic", {"username": b"u", "password": CANARY + b"\r\nx"}, "line breaks"),
        (URL, "Basic", {"username": b"u", "password": CANARY + b"\xff"}, "is not text"),
        (URL, "Token", {}, "no key 'token'"),
        (URL, "Token", {"token": CANARY * 10_000}, "too long"),
        (URL, "SSH", {"identity": ED, "known_hosts": b"k"}, "needs an ssh URL"),
        (URL, "GitHubApp", {"appID": b"1"}, "no key 'installationID'"),
        (URL, "GitHubApp", {"appID": b"1", "installationID": b"../../x"}, "'installationID'"),
        (URL, "GitHubApp", {"appID": b"1", "installationID": b"2"}, "no key 'privateKey'"),
        (URL, "GitHubApp", {"appID": b"1", "installationID": b"2", "privateKey": CANARY}, "not a private key"),
        (URL, "GitHubApp", {"appID": b"1", "installationID": b"2", "privateKey": EC}, "not an RSA key"),
        (URL, "GitHubApp", {"appID": b"1", "installationID": b"2", "privateKey": large_rsa()}, "more than 4096 bits"),
        (SSH_URL, None, {}, "needs auth.type SSH"),
        (SSH_URL, "Token", {"token": b"t"}, "needs auth.type SSH"),
        (SSH_URL, "SSH", {}, "no key 'identity'"),
        (SSH_URL, "SSH", {"identity": CANARY, "known_hosts": b"k"}, "not a private ssh key"),
        (SSH_URL, "SSH", {"identity": ED}, "no key 'known_hosts'"),
        (SSH_URL, "SSH", {"identity": RSA, "known_hosts": b"k", "password": CANARY}, "must have none"),
        (SSH_URL, "SSH", {"identity": ENCRYPTED, "known_hosts": b"k"}, "needs its passphrase"),
        (SSH_URL, "SSH", {"identity": ENCRYPTED, "known_hosts": b"k", "password": b"wrong"}, "not its passphrase"),
        (SSH_URL, "SSH", {"identity": many_rounds(10**9), "known_hosts": b"k", "password": CANARY}, "200000 rounds"),
        (SSH_URL, "SSH", {"identity": many_rounds(10**40), "known_hosts": b"k", "password": CANARY}, "200000 rounds"),
        (SSH_URL, "SSH", {"identity": OPENSSH, "known_hosts": b"k", "password": CANARY}, "in an unsupported way"),
        (SSH_URL, "SSH", {"identity": OPENSSH, "known_hosts": b"k"}, "needs its passphrase"),
        ("git@example.com:a", "SSH", {"identity": ED, "known_hosts": b" "}, "no key 'known_hosts'"),
        (URL, "Basic", {"username": b"u", "password": b"p", "tls.crt": b"x"}, "both keys"),
    ],
)
def test_what_is_missing_or_wrong_in_a_secret_is_named_but_not_shown(
    url: str, kind: AuthType | None, secret: dict[str, bytes], said: str
) -> None:
    with pytest.raises(CredentialError, match=said) as wrong:
        remote_from(url, kind, secret)
    assert CANARY.decode() not in str(wrong.value)


@pytest.mark.parametrize(
    ("authority", "proxy", "said"),
    [
        ({}, None, r"no key 'ca\.crt'"),
        ({"tls.key": b"x", "ca.crt": b"y"}, None, "both keys"),
        (None, {}, "no key 'address'"),
        (None, {"address": b"proxy:3128"}, "not like http://proxy"),
        (None, {"address": b"socks5://proxy:3128"}, "not like http://proxy"),
        (None, {"address": b"http://u:canary@proxy:3128"}, "put the proxy's user"),
        (None, {"address": b"http://proxy:99999"}, "not like http://proxy"),
    ],
)
def test_what_is_wrong_with_an_authority_or_proxy_is_named(
    authority: dict[str, bytes] | None, proxy: dict[str, bytes] | None, said: str
) -> None:
    with pytest.raises(CredentialError, match=said):
        remote_from(URL, None, None, authority, proxy)


def test_ssh_takes_neither_proxy_nor_authority() -> None:
    secret = {"identity": ED, "known_hosts": b"k"}
    with pytest.raises(CredentialError, match="need an https"):
        remote_from(SSH_URL, "SSH", secret, {"ca.crt": b"x"})


def test_a_key_names_remote_and_credential_and_tells_neither() -> None:
    remotes = [
        Remote(URL),
        Remote(URL + "b"),
        Remote(URL, ca=b"x"),
        Remote(URL, credential=Basic("u", "p")),
        Remote(URL, credential=Basic("u", "q")),
        Remote(URL, credential=Basic("up", "")),
        Remote(URL, credential=Bearer("p")),
        Remote(URL, proxy=Proxy("h", 1)),
    ]
    assert len({remote.key for remote in remotes}) == len(remotes)
    assert Remote(URL, credential=Basic("u", "p")).key == remotes[3].key
    assert Remote(URL).digest(b"a") != Remote(URL).digest(b"b")
    assert all(len(remote.key) == 32 for remote in remotes)


def test_two_ways_to_write_one_repository_share_a_mirror() -> None:
    secret = {"identity": ED, "known_hosts": b"k"}
    names = ["git@example.com:/a", "ssh://git@example.com/a", "ssh://git@example.com:22/a"]
    assert len({remote_from(name, "SSH", secret).key for name in names}) == 1
    assert remote_from("git@example.com:a", "SSH", secret).key != remote_from(names[0], "SSH", secret).key


def test_no_representation_shows_a_value() -> None:
    assert CANARY.decode() not in repr(Remote(f"https://u:{CANARY.decode()}@example.com/a"))
    secret = {"username": b"u", "password": CANARY}
    remote = remote_from(URL, "Basic", secret, {"ca.crt": CANARY}, {"address": b"http://p:1", **secret})
    assert CANARY.decode() not in repr(remote) + str(remote) + repr(remote.credential) + repr(remote.proxy)


@pytest.mark.parametrize("form", ["PKCS8", "TraditionalOpenSSL"])
@pytest.mark.parametrize("key", [rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP256R1())])
def test_a_key_with_a_passphrase_is_given_to_ssh_without_it(
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, form: str
) -> None:
    identity = key.private_bytes(
        serialization.Encoding.PEM,
        getattr(serialization.PrivateFormat, form),
        serialization.BestAvailableEncryption(CANARY),
    )
    secret = {"identity": identity, "known_hosts": b"k", "password": CANARY}
    credential = remote_from(SSH_URL, "SSH", secret).credential
    assert isinstance(credential, Ssh)
    opened = serialization.load_ssh_private_key(credential.identity, None)
    assert isinstance(opened, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey)
    assert opened.private_numbers() == key.private_numbers()


def test_a_key_for_ssh_that_a_library_would_compute_with_for_hours_is_only_looked_at() -> None:
    for identity in (written("PRIVATE KEY", large_dsa()), large_rsa()):
        credential = remote_from(SSH_URL, "SSH", {"identity": identity, "known_hosts": b"k"}).credential
        assert credential == Ssh(identity, b"k\n")
