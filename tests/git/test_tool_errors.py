"""What git and ssh print, and what is made of it."""

import base64

import pytest

from syncline.git.errors import (
    AuthenticationFailed,
    CacheFailure,
    CertificateUntrusted,
    GitError,
    HostKeyUnknown,
    NeedsMore,
    Refused,
    RepositoryNotFound,
    RepositoryUnreachable,
    TooLarge,
)
from syncline.git.tool_errors import Damaged, NotOffered, Redirected, scrub, to_git_error
from syncline.git.url import parse_url

LOCATION = parse_url("https://example.com/a.git")
ACCESS = "fatal: unable to access 'https://example.com/a.git/': "
READ = "fatal: Could not read from remote repository."


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (ACCESS + "Could not resolve host: example.com", RepositoryUnreachable),
        (
            ACCESS + "Failed to connect to example.com port 443 after 1 ms: Couldn't connect to server",
            RepositoryUnreachable,
        ),
        (ACCESS + "The requested URL returned error: 502", RepositoryUnreachable),
        (ACCESS + "The requested URL returned error: 429", RepositoryUnreachable),
        (ACCESS + "Operation too slow. Less than 1 bytes/sec transferred the last 60 seconds", RepositoryUnreachable),
        (
            ACCESS + "OpenSSL SSL_connect: Connection reset by peer in connection to example.com:443",
            RepositoryUnreachable,
        ),
        ("error: RPC failed; curl 56 Recv failure\nfatal: early EOF", RepositoryUnreachable),
        ("fatal: the remote end hung up unexpectedly", RepositoryUnreachable),
        ("ssh: connect to host example.com port 22: Connection timed out\n" + READ, RepositoryUnreachable),
        ("kex_exchange_identification: Connection closed by remote host\n" + READ, RepositoryUnreachable),
        (ACCESS + "SSL certificate problem: unable to get local issuer certificate", CertificateUntrusted),
        (ACCESS + "SSL: no alternative certificate subject name matches target host name 'x'", CertificateUntrusted),
        (ACCESS + "server certificate verification failed. CAfile: none CRLfile: none", CertificateUntrusted),
        (ACCESS + "error setting certificate verify locations:  CAfile: x", CertificateUntrusted),
        (ACCESS + "The requested URL returned error: 401", AuthenticationFailed),
        (ACCESS + "The requested URL returned error: 403", AuthenticationFailed),
        ("remote: HTTP Basic: Access denied\nfatal: Authentication failed for 'x'", AuthenticationFailed),
        ("fatal: could not read Username for 'https://example.com': terminal prompts disabled", AuthenticationFailed),
        ("git@example.com: Permission denied (publickey).\n" + READ, AuthenticationFailed),
        (ACCESS + "OpenSSL SSL_read: SSL routines::tlsv13 alert certificate required", AuthenticationFailed),
        (ACCESS + "CONNECT tunnel failed, response 407", AuthenticationFailed),
        (ACCESS + "CONNECT tunnel failed, response 403", RepositoryUnreachable),
        ("No ED25519 host key is known for example.com and you have requested strict checking.", HostKeyUnknown),
        ("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.", HostKeyUnknown),
        (ACCESS + "The requested URL returned error: 404", RepositoryNotFound),
        ("remote: Repository not found.\nfatal: repository 'https://example.com/a.git/' not found", RepositoryNotFound),
        ("ERROR: Repository not found.\nfatal: Could not read from remote repository.", RepositoryNotFound),
        ("remote: The project you were looking for could not be found", RepositoryNotFound),
        ("fatal: 'a.git' does not appear to be a git repository", RepositoryNotFound),
        ("fatal: https://example.com/a.git/info/refs not valid: is this a git repository?", RepositoryNotFound),
        ("fatal: Could not read from remote repository.", RepositoryNotFound),
        (ACCESS + "The requested URL returned error: 301", Redirected),
        ("fatal: remote error: upload-pack: not our ref 0123", NotOffered),
        ("error: Server does not allow request for unadvertised object 0123", NotOffered),
        ("fatal: couldn't find remote ref refs/heads/x", NotOffered),
        ("fatal: write error: No space left on device\nfatal: fetch-pack: invalid index-pack output", CacheFailure),
        ("No user exists for uid 1000", CacheFailure),
        ("sh: 1: exec: git: not found", CacheFailure),
        ("fatal: Out of memory, malloc failed (tried to allocate 1 bytes)", NeedsMore),
        ("error: cannot create async thread: Resource temporarily unavailable", NeedsMore),
        ("fatal: fetch-pack: File too large", TooLarge),
        ("error: object 0123: hasDotgit: contains '.git'\nfatal: fsck error in packed object", Refused),
        ("fatal: transport 'file' not allowed", Refused),
        ("fatal: not a git repository: 'x'", Damaged),
        ("fatal: bad object refs/syncline/0123", Damaged),
        ("something else", Damaged),
        ("", Damaged),
    ],
)  # fmt: skip
def test_what_git_says_has_a_reason(said: str, kind: type[GitError]) -> None:
    error = to_git_error(said, LOCATION)
    assert type(error) is kind
    assert str(error).startswith("example.com: ")


def test_what_is_quoted_is_short_and_plain() -> None:
    error = str(to_git_error("remote: \x1b[31mred\nfatal: " + "x" * 1000 + "\x07", LOCATION))
    assert error.isprintable()
    assert len(error) < 400


def test_no_secret_is_quoted_in_any_form() -> None:
    secret = "canary-01"
    header = base64.b64encode(f"user:{secret}".encode()).decode()
    said = f"remote: {secret} {header} {base64.b64encode(secret.encode()).decode()}\nfatal: https://u:p@example.com/"
    quoted = str(to_git_error(said, LOCATION, (secret, f"Basic {header}", header)))
    assert "[redacted] [redacted] [redacted]" in quoted
    assert "u:p@" not in quoted
    assert scrub("abc", ()) == "abc"


def test_beside_a_very_short_secret_nothing_is_quoted() -> None:
    assert str(to_git_error("fatal: abc", LOCATION, ("ab",))) == "example.com: git failed"
