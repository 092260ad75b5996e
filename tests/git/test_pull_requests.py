"""Pull requests over TLS, by both APIs: one for a branch, with labels, and the token goes nowhere else."""

import pytest

from syncline.git import (
    AuthenticationFailed,
    CertificateUntrusted,
    CredentialError,
    InvalidSource,
    Mirrors,
    PullRequestFailed,
    PullRequestWanted,
    Refused,
    Remote,
    RepositoryNotFound,
    RepositoryUnreachable,
    remote_from,
)
from syncline.git.pull_requests import Provider, api_url, default_provider
from syncline.git.remotes import Basic, GitHubApp
from syncline.testing.forge import Forge
from syncline.testing.gitserver import GitServer

TOKEN = "canary-7a6b5c4d3e2f1a0b"


@pytest.fixture
def forge(server: GitServer, name: str) -> Forge:
    repository = server.repository(f"plants/{name}")
    repository.commit({"a": "1"})
    repository.commit({"a": "2"}, ref="refs/heads/edits/gw-0")
    return Forge(server, "plants", name, TOKEN)


@pytest.fixture
def owned(server: GitServer, forge: Forge, name: str) -> Remote:
    return remote_from(server.url(f"plants/{name}"), "Token", {"token": forge.token.encode()}, {"ca.crt": server.ca})


def wanted(provider: Provider | None = None, **more: object) -> PullRequestWanted:
    fields = {"branch": "edits/gw-0", "base": "main", "title": "Edits", "body": "of gw-0", "labels": ("gateway",)}
    return PullRequestWanted(**{**fields, **more}, provider=provider)  # type: ignore[arg-type]


@pytest.mark.parametrize("provider", ["GitHub", "Gitea"])
async def test_one_pull_request_is_open_for_a_branch(
    mirrors: Mirrors, owned: Remote, forge: Forge, provider: Provider
) -> None:
    opened = await mirrors.pull_requests.ensure(owned, wanted(provider))
    assert (opened.is_new, opened.url, opened.problem) == (True, forge.pulls[0]["html_url"], "")
    again = await mirrors.pull_requests.ensure(owned, wanted(provider, labels=("gateway", "more")))
    assert (again.is_new, again.url) == (False, opened.url)
    assert [(one["head"]["ref"], one["base"]["ref"], one["labels"]) for one in forge.pulls] == [
        ("edits/gw-0", "main", ["gateway", "more"])
    ]
    forge.pulls[0]["state"] = "closed"
    assert (await mirrors.pull_requests.ensure(owned, wanted(provider, base=""))).is_new
    assert len(forge.pulls) == 2


async def test_a_pull_request_among_many_is_found(mirrors: Mirrors, owned: Remote, forge: Forge) -> None:
    for number in range(70):
        forge.pulls.append({"number": number + 1, "state": "open", "head": {"ref": f"x{number}", "label": ""}})
    assert (await mirrors.pull_requests.ensure(owned, wanted())).is_new
    assert not (await mirrors.pull_requests.ensure(owned, wanted())).is_new


async def test_failures_have_their_names_and_no_token(mirrors: Mirrors, owned: Remote, forge: Forge) -> None:
    for status, kind in (
        (401, AuthenticationFailed),
        (404, RepositoryNotFound),
        (503, RepositoryUnreachable),
        (302, PullRequestFailed),
    ):
        forge.status = status
        with pytest.raises(kind) as failed:
            await mirrors.pull_requests.ensure(owned, wanted())
        assert TOKEN not in str(failed.value)
    forge.status = 0
    forge.without_labels = True
    assert "AuthenticationFailed" in (await mirrors.pull_requests.ensure(owned, wanted())).problem
    with pytest.raises(CertificateUntrusted):
        await mirrors.pull_requests.ensure(Remote(owned.url, Basic("x", TOKEN)), wanted())
    with pytest.raises(CredentialError):
        await mirrors.pull_requests.ensure(Remote(owned.url), wanted())
    with pytest.raises(PullRequestFailed, match="no branch that it is for"):
        await mirrors.pull_requests.ensure(owned, wanted(base="edits/gw-0"))


async def test_a_forge_cannot_fill_the_memory_with_pull_requests(mirrors: Mirrors, owned: Remote, forge: Forge) -> None:
    """A pull request takes 12 bytes to send, and much more to hold."""
    forge.pulls.append({"number": 1, "state": "open", "head": {"ref": "x"}, "body": "x" * 3 * 1024 * 1024})
    with pytest.raises(PullRequestFailed, match="longer than 2097152 bytes"):
        await mirrors.pull_requests.ensure(owned, wanted())


@pytest.mark.parametrize("host", ["169.254.169.254", "10.0.0.1.nip.example", "[::1]"])
async def test_addresses_are_checked(mirrors: Mirrors, host: str) -> None:
    with pytest.raises((Refused, RepositoryUnreachable, CertificateUntrusted)):
        await mirrors.pull_requests.ensure(Remote(f"https://{host}/a/b.git", Basic("x", TOKEN)), wanted())


async def test_no_token_goes_over_http(mirrors: Mirrors) -> None:
    with pytest.raises(Refused, match="https"):
        await mirrors.pull_requests.ensure(Remote("http://127.0.0.1/a/b.git", Basic("x", TOKEN)), wanted())


APP = GitHubApp("1", "2", b"", "https://github.example.com/api/v3")


@pytest.mark.parametrize(
    ("url", "credential", "provider", "api"),
    [
        ("https://github.com/a/b.git", None, "GitHub", "https://api.github.com/repos/a/b"),
        ("https://github.example.com/a/b", APP, "GitHub", "https://github.example.com/api/v3/repos/a/b"),
        ("https://git.example.com/a/b.git", None, "Gitea", "https://git.example.com/api/v1/repos/a/b"),
        ("https://git.example.com:8443/g/a/b", None, "Gitea", "https://git.example.com:8443/g/api/v1/repos/a/b"),
    ],
)
def test_the_api_is_at_the_host_of_the_repository(
    url: str, credential: GitHubApp | None, provider: Provider, api: str
) -> None:
    remote = Remote(url, credential)
    assert default_provider(remote) == provider
    assert api_url(remote, provider) == api


@pytest.mark.parametrize("url", ["ssh://git@git.example.com/a/b.git", "https://git.example.com/b.git"])
def test_a_repository_without_an_api(url: str) -> None:
    with pytest.raises(InvalidSource, match="owner/name"):
        api_url(Remote(url), "Gitea")
