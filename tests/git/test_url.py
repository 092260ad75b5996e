"""URLs of repositories: those that git may see, and those that it must not."""

import contextlib

import pytest

from syncline.git.errors import InvalidSource, Refused, RepositoryUnreachable
from syncline.git.url import GitUrl, addresses, canonical, parse_url
from syncline.lookups import Lookups


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("https://example.com/a/b.git", ("https", "example.com", 443, "")),
        ("https://EXAMPLE.com:8443/a", ("https", "example.com", 8443, "")),
        ("https://[2001:db8::1]/a", ("https", "2001:db8::1", 443, "")),
        ("https://10.1.2.3/a", ("https", "10.1.2.3", 443, "")),
        ("https://example.com/a%20b/~c", ("https", "example.com", 443, "")),
        ("ssh://git@example.com/a.git", ("ssh", "example.com", 22, "git")),
        ("ssh://git@example.com:2222/a.git", ("ssh", "example.com", 2222, "git")),
        ("ssh://example.com/~me/a.git", ("ssh", "example.com", 22, "")),
        ("git@example.com:org/repo.git", ("ssh", "example.com", 22, "git")),
        ("git@Example.com:/srv/repo.git", ("ssh", "example.com", 22, "git")),
        ("example.com:repo", ("ssh", "example.com", 22, "")),
    ],
)
def test_a_url_of_https_or_ssh_is_taken_apart(url: str, location: tuple[str, str, int, str]) -> None:
    assert parse_url(url) == GitUrl(url, *location)


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c 'touch x'",
        "ext::sh",
        "fd::17",
        "file:///etc",
        "ftp://example.com/a",
        "git://example.com/a",
        "http://example.com/a",
        "-oProxyCommand=x",
        "--upload-pack=x",
        "git-remote-ext://example.com/a",
        "https://127.0.0.1/a",
        "https://127.1/a",
        "https://0x7f000001/a",
        "https://2130706433/a",
        "https://0177.0.0.1/a",
        "https://[::1]/a",
        "https://[::ffff:127.0.0.1]/a",
        "https://localhost/a",
        "https://LOCALHOST./a",
        "https://x.localhost/a",
        "https://169.254.169.254/latest/meta-data",
        "https://169.254.1.1/a",
        "https://[fe80::1]/a",
        "https://0.0.0.0/a",
        "ssh://git@127.0.0.1/a",
        "git@127.0.0.1:a",
        "git@localhost:a",
    ],
)
def test_what_would_be_unsafe_is_refused(url: str) -> None:
    with pytest.raises((Refused, InvalidSource)):
        parse_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "repo",
        "/srv/git/a",
        "./a",
        "../a",
        "https://",
        "https:///a",
        "https://example.com",
        "https://example.com/",
        "https://example.com:99999/a",
        "https://example.com:x/a",
        "https://user@example.com/a",
        "https://user:hunter2secret@example.com/a",
        "https://:hunter2secret@example.com/a",
        "ssh://git:hunter2secret@example.com/a",
        "ssh://-oProxyCommand=x@example.com/a",
        "ssh://-oProxyCommand=x/a",
        "ssh://git@-oProxyCommand=x/a",
        "-oProxyCommand=x@example.com:a",
        "git@-oProxyCommand:a",
        "https://example.com/a\nb",
        "https://example.com/a\r\nHost: x",
        "https://example.com/a b",
        "https://example.com/a\0b",
        "https://example.com/a?x=y",
        "https://example.com/a#b",
        "https://exa_mple$.com/a",
        "https://example.com\\@127.0.0.1/a",
        "https://example.com/" + "a" * 3000,
        "git@example.com:-x",
        "git@example.com:a:b",
        "git@example.com:a?b",
        "git@example.com:a#b",
        "git@example.com:",
    ],
)
def test_what_can_be_no_url_is_refused_without_repeating_a_password(url: str) -> None:
    with pytest.raises((InvalidSource, Refused)) as refused:
        parse_url(url)
    assert "hunter2secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("git@example.com:/srv/git/repo.git", "ssh://git@example.com/srv/git/repo.git"),
        ("git@EXAMPLE.com:/srv/git/repo.git", "ssh://git@example.com:22/srv/git/repo.git"),
        ("git@example.com:~/repo.git", "ssh://git@example.com/~/repo.git"),
        ("git@example.com:~me/repo.git", "ssh://git@example.com/~me/repo.git"),
        ("git@example.com:/a%20b", "ssh://git@example.com/a%2520b"),
        ("git@Example.com:org/repo.git", "git@example.com:org/repo.git"),
        ("https://EXAMPLE.com:443/Org/repo.git", "https://example.com/Org/repo.git"),
        ("ssh://git@example.com:22/a", "ssh://git@example.com/a"),
        ("https://[2001:DB8::1]:443/a", "https://[2001:db8::1]/a"),
    ],
)
def test_two_ways_to_write_one_repository_are_known_for_that(url: str, same: str) -> None:
    assert canonical(url) == canonical(same)
    assert parse_url(canonical(url)).origin == parse_url(url).origin


@pytest.mark.parametrize(
    ("url", "other"),
    [
        # On a server of one's own the first is below the home of the user, and the second is not.
        ("git@example.com:org/repo.git", "ssh://git@example.com/org/repo.git"),
        ("git@example.com:org/repo.git", "git@example.com:/org/repo.git"),
        ("git@example.com:org/repo.git", "me@example.com:org/repo.git"),
        ("git@example.com:2222/repo.git", "ssh://git@example.com:2222/repo.git"),
        ("https://example.com/a", "https://example.com/A"),
        ("https://example.com/a", "https://example.com:8443/a"),
        ("ssh://git@example.com/a%20b", "git@example.com:/a%20b"),
    ],
)
def test_what_may_be_another_repository_is_another(url: str, other: str) -> None:
    assert canonical(url) != canonical(other)


@pytest.mark.parametrize("url", ["https://example.com/a\nb", "https://example.com:x/a", "repo", "https://[::1/a", ""])
def test_what_cannot_be_read_is_not_made_readable(url: str) -> None:
    assert canonical(url) == url


def test_flags_for_development_allow_what_they_name_and_nothing_else() -> None:
    assert parse_url("http://example.com/a", allow_insecure=True).scheme == "http"
    assert parse_url("https://127.0.0.1/a", allow_loopback=True).host == "127.0.0.1"
    for url in ("file:///etc", "ext::x", "https://169.254.169.254/a", "http://0.0.0.0/a"):
        with pytest.raises(Refused):
            parse_url(url, allow_insecure=True, allow_loopback=True)


async def test_a_name_that_means_this_machine_is_refused() -> None:
    with contextlib.closing(Lookups()) as lookups:
        with pytest.raises(Refused, match="this machine"):
            await addresses("localhost", 443, allow_loopback=False, lookups=lookups)
        assert await addresses("localhost", 443, allow_loopback=True, lookups=lookups)
        with pytest.raises(RepositoryUnreachable, match="has no address"):
            await addresses("no-such-host.invalid", 443, allow_loopback=True, lookups=lookups)
        with pytest.raises(RepositoryUnreachable, match="has no address"):
            await addresses("a" * 100 + ".example", 443, allow_loopback=True, lookups=lookups)
