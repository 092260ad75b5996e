"""Files that look like credentials are found by name and by content, also between two pieces, in linear time."""

import time

import pytest

from syncline.core.credential_scan import KEEP, CredentialScanner, credential_name

# Put together here, so that no file of the repository looks like a credential.
SAMPLES = {
    "a private key": b"-----BEGIN " + b"OPENSSH PRIVATE KEY-----\nabc",
    "a private key of PuTTY": b"PuTTY-User-" + b"Key-File-3: ssh-ed25519",
    "a private key of age": b"AGE-SECRET-" + b"KEY-1" + b"Q" * 58,
    "a token of GitHub": b'"token": "gh' + b"p_" + b"a1" * 18 + b'"',
    "a token of GitLab": b"gl" + b"pat-" + b"a1" * 10,
    "a key of AWS": b"aws = AK" + b"IA" + b"ABCDEFGH12345678",
    "a key of Google": b"AI" + b"za" + b"b" * 35,
    "a token of Slack": b"xo" + b"xb-" + b"1234567890-abcdefghij",
    "a key of Stripe": b"sk" + b"_live_" + b"a1" * 10,
    "a token of npm": b"np" + b"m_" + b"a1" * 18,
    "a JSON web token": b"ey" + b"J" + b"a" * 20 + b".ey" + b"J" + b"b" * 40 + b"." + b"c" * 43,
}


def scanned(*chunks: bytes) -> str:
    scanner = CredentialScanner()
    for chunk in chunks:
        scanner.feed(chunk)
    return scanner.found


@pytest.mark.parametrize("what", SAMPLES)
def test_a_credential_is_found_wherever_a_piece_ends(what: str) -> None:
    content = b'{"a": "' + SAMPLES[what] + b'"}'
    assert scanned(content) == what
    assert {scanned(content[:cut], content[cut:]) for cut in range(len(content))} == {what}
    assert scanned(b"x " * 100_000, content, b"y") == what


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"title": "Plant", "password": {"type": "prop"}}',
        b"-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----",
        b"-----BEGIN PUBLIC KEY-----",
        b"the class AKIAmotor is not one, and npm_install is not one",
    ],
)
def test_ordinary_files_are_none(content: bytes) -> None:
    assert scanned(content) == ""


@pytest.mark.parametrize(
    "unit", [b"eyJ", b"eyJ.", b".eyJaaaaaaaaaa", b"-----BEGIN A ", b"ghp_", b" eyJaaaaaaaaaaaa.eyJ"]
)
def test_no_content_makes_the_search_slow(unit: bytes) -> None:
    piece = (unit * (256 * 1024 // len(unit) + 1))[: 256 * 1024]
    scanner, started = CredentialScanner(), time.process_time()
    for _ in range(8):
        scanner.feed(piece)
    assert time.process_time() - started < 4.0
    assert len(scanner._tail) <= KEEP


@pytest.mark.parametrize(
    "path", ["a/server.key", "id_rsa", "x/ID_ED25519", "a.P12", ".env", "prod.jks", "my-kubeconfig"]
)
def test_names_of_keys(path: str) -> None:
    assert credential_name(path)


@pytest.mark.parametrize("path", ["key/view.json", "keys.json", "a/resource.json", "environment.json", "ca.pem"])
def test_other_names(path: str) -> None:
    assert not credential_name(path)
